#include "gateway/models/openai_chunk.h"

#include <stdio.h>

static uint32_t find(const struct js_doc *doc, uint32_t object, const char *name, enum js_type type)
{
    uint32_t node = js_get(doc, object, name);
    return node && js_type(doc, node) == type ? node : 0;
}

static uint32_t find_text(const struct js_doc *doc, uint32_t object, const char *a, const char *b)
{
    uint32_t node = find(doc, object, a, JS_STRING);
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

/* A string that says something, or the parts of one: an array of objects. */
static uint32_t find_parts(const struct js_doc *doc, uint32_t object, const char *name)
{
    uint32_t node = find(doc, object, name, JS_ARRAY);
    return node ? node : find_text(doc, object, name, NULL);
}

static void read_delta(const struct js_doc *doc, uint32_t delta, struct openai_chunk *ret)
{
    ret->content = find_parts(doc, delta, "content");
    ret->thinking = find_text(doc, delta, "reasoning_content", "reasoning");
    if (!ret->thinking && ret->content && js_type(doc, ret->content) == JS_ARRAY)
        ret->thinking = ret->content;
    if (!ret->content)
        ret->content = find_text(doc, delta, "refusal", NULL);
    ret->tool_calls = find(doc, delta, "tool_calls", JS_ARRAY);
}

void openai_read_chunk(const struct js_doc *doc, struct openai_chunk *ret)
{
    *ret = (struct openai_chunk){.usage = find(doc, 0, "usage", JS_OBJECT)};
    uint32_t object = find(doc, 0, "object", JS_STRING);
    if (!find_error(doc, 0, ret) && object && js_is(doc, object, "error"))
        ret->error = object;
    uint32_t choices = find(doc, 0, "choices", JS_ARRAY);
    ret->has_choices = choices != 0;
    uint32_t first = choices ? js_first(doc, choices) : 0;
    if (!choices || first >= js_end(doc, choices) || js_type(doc, first) != JS_OBJECT)
        return;
    ret->has_choice = true;
    if (!ret->error)
        (void)find_error(doc, first, ret);
    ret->finish_reason = find_text(doc, first, "finish_reason", NULL);
    uint32_t delta = find(doc, first, "delta", JS_OBJECT);
    ret->is_message = !delta;
    if (!delta)
        delta = find(doc, first, "message", JS_OBJECT);
    if (delta)
        read_delta(doc, delta, ret);
}

static void put_parts(const struct js_doc *doc, uint32_t parts, const char *name, struct buf *out)
{
    for (uint32_t part = js_first(doc, parts); part < js_end(doc, parts);
         part = js_next(doc, part)) {
        uint32_t node = js_type(doc, part) == JS_OBJECT ? js_get(doc, part, name) : 0;
        if (js_type(doc, part) == JS_STRING && strcmp(name, "text") == 0)
            js_value(doc, part, out);
        else if (node && js_type(doc, node) == JS_STRING)
            js_value(doc, node, out);
        else if (node && js_type(doc, node) == JS_ARRAY)
            put_parts(doc, node, "text", out);
    }
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* A string's text ends with the escape of a high surrogate, whose backslash is not itself escaped. */
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

static void put_text(struct openai_half *half, struct str raw, struct buf *out)
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
        put_parts(doc, node, thinking ? "thinking" : "text", out);
    else if (half->escape[0] || ends_in_half(js_raw(doc, node)))
        put_text(half, js_raw(doc, node), out);
    else
        js_value(doc, node, out);
}

void openai_put_half(struct openai_half *half, struct buf *out)
{
    if (half->escape[0])
        put_text(half, STR(""), out);
}

#define LIMIT "the answer was cut off: the model's limit of length is reached"
#define FILTER "the answer was cut off by a content filter"
#define BROKEN "the answer was broken off by the model's server"
#define CALL "the model's server could not read the model's call of a tool"

/* In small letters, with "_" for "-": OpenAI's own, those of servers that speak like it, and those that
 * gateways pass on from Google's, Zhipu's and others' models.  What is not here is an end. */
static const struct {
    const char *reason, *why;
} faults[] = {
    {"length", LIMIT},
    {"max_tokens", LIMIT},
    {"max_output_tokens", LIMIT},
    {"model_length", LIMIT},
    {"model_context_window_exceeded", LIMIT},
    {"content_filter", FILTER},
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
    {"network_error", BROKEN},
    {"insufficient_system_resource", BROKEN},
};

#undef LIMIT
#undef FILTER
#undef BROKEN
#undef CALL

/* Up to a colon: there are servers that say more behind it. */
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
