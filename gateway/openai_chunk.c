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
    ret->thinking = find_text(doc, delta, "reasoning_content", "reasoning");
    ret->content = find_text(doc, delta, "content", "refusal");
    ret->tool_calls = find(doc, delta, "tool_calls", JS_ARRAY);
}

const char *openai_fault_of(const char *finish_reason)
{
    if (strcmp(finish_reason, "length") == 0)
        return "the answer was cut off: the model's limit of length is reached (finish_reason "
               "\"length\")";
    if (strcmp(finish_reason, "content_filter") == 0)
        return "the answer was cut off by a content filter (finish_reason \"content_filter\")";
    return NULL;
}
