#include "gateway/openai_chunk.h"

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

/* A string that says something, or the parts of one: an array of objects. */
static uint32_t find_parts(const struct js_doc *doc, uint32_t object, const char *name)
{
    uint32_t node = find(doc, object, name, JS_ARRAY);
    return node ? node : find_text(doc, object, name, NULL);
}

void openai_read_chunk(const struct js_doc *doc, struct openai_chunk *ret)
{
    *ret = (struct openai_chunk){.error = js_get(doc, 0, "error"),
                                 .usage = find(doc, 0, "usage", JS_OBJECT)};
    if (ret->error && js_type(doc, ret->error) == JS_NULL)
        ret->error = 0;
    uint32_t choices = find(doc, 0, "choices", JS_ARRAY);
    ret->has_choices = choices != 0;
    uint32_t first = choices ? js_first(doc, choices) : 0;
    if (!choices || first >= js_end(doc, choices) || js_type(doc, first) != JS_OBJECT)
        return;
    ret->finish_reason = find_text(doc, first, "finish_reason", NULL);
    uint32_t delta = find(doc, first, "delta", JS_OBJECT);
    if (!delta)
        delta = find(doc, first, "message", JS_OBJECT);
    if (!delta)
        return;
    ret->content = find_parts(doc, delta, "content");
    ret->thinking = find_text(doc, delta, "reasoning_content", "reasoning");
    if (!ret->thinking && ret->content && js_type(doc, ret->content) == JS_ARRAY)
        ret->thinking = ret->content;
    if (!ret->content)
        ret->content = find_text(doc, delta, "refusal", NULL);
    ret->tool_calls = find(doc, delta, "tool_calls", JS_ARRAY);
}

static void put_parts(const struct js_doc *doc, uint32_t parts, const char *name, struct buf *out)
{
    for (uint32_t part = js_first(doc, parts); part < js_end(doc, parts);
         part = js_next(doc, part)) {
        uint32_t node = js_type(doc, part) == JS_OBJECT ? js_get(doc, part, name) : 0;
        if (node && js_type(doc, node) == JS_STRING)
            js_value(doc, node, out);
        else if (node && js_type(doc, node) == JS_ARRAY)
            put_parts(doc, node, "text", out);
    }
}

void openai_put_piece(const struct js_doc *doc, uint32_t node, bool thinking, struct buf *out)
{
    if (node && js_type(doc, node) == JS_ARRAY)
        put_parts(doc, node, thinking ? "thinking" : "text", out);
    else if (node)
        js_value(doc, node, out);
}

const char *openai_fault_of(const char *finish_reason)
{
    static const struct {
        const char *reason, *why;
    } faults[] = {
#define LIMIT "the answer was cut off: the model's limit of length is reached (finish_reason "
#define BROKEN "the answer was broken off by the model's server (finish_reason "
        {"length", LIMIT "\"length\")"},
        {"max_tokens", LIMIT "\"max_tokens\")"},
        {"model_length", LIMIT "\"model_length\")"},
        {"content_filter",
         "the answer was cut off by a content filter (finish_reason \"content_filter\")"},
        {"error", BROKEN "\"error\")"},
        {"abort", BROKEN "\"abort\")"},
        {"insufficient_system_resource", BROKEN "\"insufficient_system_resource\")"},
#undef LIMIT
#undef BROKEN
    };
    for (size_t i = 0; i < countof(faults); i++)
        if (strcmp(finish_reason, faults[i].reason) == 0)
            return faults[i].why;
    return NULL;
}
