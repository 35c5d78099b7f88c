#include "gateway/models/openai_chunk.h"

#include <stdio.h>

static uint32_t chunk_find(const struct js_doc *doc, uint32_t object, const char *name,
                           enum js_type type)
{
    uint32_t node = js_get(doc, object, name);
    return node && js_type(doc, node) == type ? node : 0;
}

static uint32_t find_text(const struct js_doc *doc, uint32_t object, const char *a, const char *b)
{
    uint32_t node = chunk_find(doc, object, a, JS_STRING);
    if (node && js_raw(doc, node).n)
        return node;
    return b ? find_text(doc, object, b, NULL) : 0;
}

bool openai_is_done(struct str line)
{
    while (line.n > 0 && line.p[0] == ' ')
        line = (struct str){line.p + 1, line.n - 1};
    while (line.n > 0 && line.p[line.n - 1] == ' ')
        line.n--;
    return str_eq(line, STR("[DONE]"));
}

bool openai_is_idle(const struct sse_event *event)
{
    static const char *const names[] = {"ping", "keepalive", "keep-alive", "heartbeat"};
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq(event->event, str_of(names[i])))
            return true;
    return event->data.n == 0 || str_eq(event->data, STR("null"));
}

static bool says_something(const struct js_doc *doc, uint32_t node)
{
    switch (js_type(doc, node)) {
    case JS_NULL:
    case JS_FALSE: return false;
    case JS_STRING: return js_raw(doc, node).n > 0;
    case JS_ARRAY:
    case JS_OBJECT: return js_first(doc, node) < js_end(doc, node);
    default: return true;
    }
}

static bool find_error(const struct js_doc *doc, uint32_t object, struct openai_chunk *ret)
{
    uint32_t error = js_get(doc, object, "error");
    if (!error || !says_something(doc, error))
        return false;
    ret->error = error;
    ret->error_in = object;
    return true;
}

/* A string that is not empty, or the parts of one: an array of objects. */
static uint32_t find_parts(const struct js_doc *doc, uint32_t object, const char *name)
{
    uint32_t node = chunk_find(doc, object, name, JS_ARRAY);
    return node && says_something(doc, node) ? node : find_text(doc, object, name, NULL);
}

static void read_thinking(const struct js_doc *doc, uint32_t delta, struct openai_chunk *ret)
{
    static const char *const names[] = {"reasoning_content", "reasoning", "reasoning_text"};
    for (size_t i = 0; i < countof(names) && !ret->thinking; i++) {
        ret->thinking = find_text(doc, delta, names[i], NULL);
        ret->thinking_name = names[i];
    }
    if (ret->thinking)
        return;
    ret->thinking_name = NULL;
    ret->thinking = chunk_find(doc, delta, "reasoning_details", JS_ARRAY);
    if (!ret->thinking && ret->content && js_type(doc, ret->content) == JS_ARRAY)
        ret->thinking = ret->content;
}

static void read_delta(const struct js_doc *doc, uint32_t delta, struct openai_chunk *ret)
{
    ret->delta = delta;
    ret->content = find_parts(doc, delta, "content");
    read_thinking(doc, delta, ret);
    if (!ret->content)
        ret->content = find_text(doc, delta, "refusal", NULL);
    ret->tool_calls = chunk_find(doc, delta, "tool_calls", JS_ARRAY);
}

void openai_read_chunk(const struct js_doc *doc, struct openai_chunk *ret)
{
    uint32_t groq = chunk_find(doc, 0, "x_groq", JS_OBJECT);
    *ret = (struct openai_chunk){.usage = chunk_find(doc, 0, "usage", JS_OBJECT)};
    if (!ret->usage && groq)
        ret->usage = chunk_find(doc, groq, "usage", JS_OBJECT);
    uint32_t object = chunk_find(doc, 0, "object", JS_STRING);
    if (!find_error(doc, 0, ret) && object && js_is(doc, object, "error"))
        ret->error = object;
    uint32_t choices = chunk_find(doc, 0, "choices", JS_ARRAY);
    ret->has_choices = choices != 0;
    uint32_t first = choices ? js_first(doc, choices) : 0;
    if (!choices || first >= js_end(doc, choices) || js_type(doc, first) != JS_OBJECT)
        return;
    ret->has_choice = true;
    if (!ret->error)
        (void)find_error(doc, first, ret);
    ret->finish_reason = find_text(doc, first, "finish_reason", NULL);
    uint32_t delta = chunk_find(doc, first, "delta", JS_OBJECT);
    ret->is_message = !delta;
    if (!delta)
        delta = chunk_find(doc, first, "message", JS_OBJECT);
    if (delta)
        read_delta(doc, delta, ret);
}

/* The thought (or, without thinking, the text) in an object of parts; 0 for none. */
static uint32_t find_said(const struct js_doc *doc, uint32_t part, bool thinking)
{
    uint32_t type = chunk_find(doc, part, "type", JS_STRING);
    struct str is = type ? js_raw(doc, type) : STR(""), thought = STR("reasoning");
    bool is_thought = is.n >= thought.n && memcmp(is.p, thought.p, thought.n) == 0;
    uint32_t node = 0;
    if (is_thought && thinking) /* OpenRouter's {"type":"reasoning.text","text":"…"} */
        return find_text(doc, part, "text", "summary");
    if (is_thought)
        return 0;
    node = js_get(doc, part, thinking ? "thinking" : "text");
    return node || thinking ? node : find_text(doc, part, "refusal", NULL);
}

static void put_parts(const struct js_doc *doc, uint32_t parts, bool thinking, struct buf *out)
{
    for (uint32_t part = js_first(doc, parts); part < js_end(doc, parts);
         part = js_next(doc, part)) {
        uint32_t node = js_type(doc, part) == JS_OBJECT ? find_said(doc, part, thinking) : 0;
        if (js_type(doc, part) == JS_STRING && !thinking)
            js_value(doc, part, out);
        else if (node && js_type(doc, node) == JS_STRING)
            js_value(doc, node, out);
        else if (node && js_type(doc, node) == JS_ARRAY)
            put_parts(doc, node, false, out);
    }
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* Whether a string's text ends with the escape of a high surrogate, whose backslash is not itself
 * escaped. */
static bool ends_in_half(struct str raw)
{
    const char *e = raw.n >= 6 ? raw.p + raw.n - 6 : NULL;
    if (!e || e[0] != '\\' || e[1] != 'u' || (e[2] | 32) != 'd' || !strchr("89abAB", e[3]) ||
        !is_hex(e[4]) || !is_hex(e[5]))
        return false;
    size_t slashes = 0;
    while (e - slashes > raw.p && e[-1 - (ptrdiff_t)slashes] == '\\')
        slashes++;
    return slashes % 2 == 0;
}

static void chunk_put_text(struct openai_half *half, struct str raw, struct buf *out)
{
    struct js_doc doc = {0};
    struct buf quoted = {0};
    bool has_half = ends_in_half(raw);
    buf_putf(&quoted, "\"%s", half->escape);
    buf_put(&quoted, raw.p, raw.n - (has_half ? 6 : 0));
    buf_putc(&quoted, '"');
    half->escape[0] = '\0';
    if (has_half)
        snprintf(half->escape, sizeof half->escape, "%.6s", raw.p + raw.n - 6);
    if (js_parse(&doc, quoted.bytes, quoted.len, JS_AGENT))
        js_value(&doc, 0, out);
    js_done(&doc);
    buf_done(&quoted);
}

void openai_put_piece(const struct js_doc *doc, uint32_t node, bool thinking,
                      struct openai_half *half, struct buf *out)
{
    if (!node)
        return;
    if (js_type(doc, node) == JS_ARRAY)
        put_parts(doc, node, thinking, out);
    else if (half->escape[0] || ends_in_half(js_raw(doc, node)))
        chunk_put_text(half, js_raw(doc, node), out);
    else
        js_value(doc, node, out);
}

bool openai_is_blank(struct str text)
{
    while (text.n && (unsigned char)text.p[text.n - 1] <= ' ')
        text.n--;
    return text.n == 0;
}

void openai_put_half(struct openai_half *half, struct buf *out)
{
    if (half->escape[0])
        chunk_put_text(half, STR(""), out);
}

#define LIMIT "the answer was cut off: the model reached its length limit"
#define FILTER "the answer was cut off by a content filter"
#define BROKEN "the model's server broke off the answer"
#define CALL "the model's server could not read the model's call of a tool"

/* In lower case, with "_" for "-": OpenAI's own reasons, those of compatible servers, and those
 * that gateways pass on from Google's, Zhipu's and others' models.  Any other reason is a normal
 * end. */
static const struct {
    const char *reason, *why;
} faults[] = {
    {"length", LIMIT},
    {"max_tokens", LIMIT},
    {"max_output_tokens", LIMIT},
    {"model_length", LIMIT},
    {"model_context_window_exceeded", LIMIT},
    {"content_filter", FILTER},
    {"refusal", FILTER},
    {"safety", FILTER},
    {"sensitive", FILTER},
    {"recitation", FILTER},
    {"prohibited_content", FILTER},
    {"blocklist", FILTER},
    {"spii", FILTER},
    {"malformed_function_call", CALL},
    {"function_call_filter", CALL},
    {"error", BROKEN},
    {"error_finish", BROKEN},
    {"abort", BROKEN},
    {"pause_turn", BROKEN},
    {"network_error", BROKEN},
    {"insufficient_system_resource", BROKEN},
};

#undef LIMIT
#undef FILTER
#undef BROKEN
#undef CALL

/* Up to a colon, because some servers add more after it. */
static bool is_reason(const char *said, const char *reason)
{
    for (; *reason; said++, reason++) {
        char c = *said >= 'A' && *said <= 'Z' ? (char)(*said + 'a' - 'A') : *said;
        if ((c == '-' ? '_' : c) != *reason)
            return false;
    }
    return *said == '\0' || *said == ':';
}

bool openai_put_fault(const char *finish_reason, struct buf *out)
{
    for (size_t i = 0; i < countof(faults); i++) {
        if (!is_reason(finish_reason, faults[i].reason))
            continue;
        buf_putf(out, "%s (finish_reason \"%s\")", faults[i].why, finish_reason);
        return true;
    }
    return false;
}
