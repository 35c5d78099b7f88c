#include "gateway/tools/tool_arguments.h"

#define TEXT_BYTES 1024 /* of one entry in a list */

bool arguments_open(struct js_doc *doc, struct str arguments, struct buf *out)
{
    if (arguments.n == 0)
        arguments = STR("{}");
    if (!js_parse(doc, arguments.p, arguments.n, JS_AGENT)) {
        buf_putf(out, "the arguments are not JSON: %s at byte %zu", doc->error, doc->error_at);
        return false;
    }
    if (js_type(doc, 0) == JS_OBJECT)
        return true;
    buf_puts(out, "the arguments are not a JSON object");
    return false;
}

static uint32_t arguments_find(const struct js_doc *doc, const char *key)
{
    uint32_t node = js_get(doc, 0, key);
    return node && js_type(doc, node) != JS_NULL ? node : 0;
}

bool arguments_has(const struct js_doc *doc, const char *key)
{
    return arguments_find(doc, key) != 0;
}

bool arguments_text(const struct js_doc *doc, const char *key, size_t min, size_t max, char **ret,
                    struct buf *out)
{
    struct buf text = {0};
    uint32_t node = arguments_find(doc, key);
    if (!node && min == 0)
        return true;
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, &text);
    bool good = node && js_type(doc, node) == JS_STRING && text.len >= min && text.len <= max &&
                !(text.len && memchr(text.bytes, 0, text.len));
    if (good) {
        buf_putc(&text, 0);
        *ret = buf_take(&text);
    } else {
        buf_putf(out, "\"%s\" must be a text of %zu to %zu bytes", key, min, max);
    }
    buf_done(&text);
    return good;
}

bool arguments_bool(const struct js_doc *doc, const char *key, bool *ret, struct buf *out)
{
    uint32_t node = arguments_find(doc, key);
    if (!node)
        return true;
    *ret = js_type(doc, node) == JS_TRUE;
    if (*ret || js_type(doc, node) == JS_FALSE)
        return true;
    buf_putf(out, "\"%s\" must be true or false", key);
    return false;
}

bool arguments_int(const struct js_doc *doc, const char *key, int64_t min, int64_t max,
                   int64_t *ret, struct buf *out)
{
    uint32_t node = arguments_find(doc, key);
    int64_t value;
    if (!node)
        return true;
    if (js_type(doc, node) == JS_NUMBER && js_int(doc, node, &value) && value >= min &&
        value <= max) {
        *ret = value;
        return true;
    }
    buf_putf(out, "\"%s\" must be an integer from %lld to %lld", key, (long long)min,
             (long long)max);
    return false;
}

static bool add_text(const struct js_doc *doc, uint32_t node, struct keep_texts *ret)
{
    struct buf text = {0};
    if (js_type(doc, node) != JS_STRING)
        return false;
    js_value(doc, node, &text);
    if (text.len == 0 || text.len > TEXT_BYTES || memchr(text.bytes, 0, text.len)) {
        buf_done(&text);
        return false;
    }
    buf_putc(&text, 0);
    ret->list = xrealloc(ret->list, (ret->n + 2) * sizeof(char *));
    ret->list[ret->n++] = buf_take(&text);
    ret->list[ret->n] = NULL;
    return true;
}

bool arguments_texts(const struct js_doc *doc, const char *key, size_t max, struct keep_texts *ret,
                     struct buf *out)
{
    uint32_t node = arguments_find(doc, key);
    if (!node)
        return true;
    bool good = js_type(doc, node) == JS_ARRAY;
    for (uint32_t i = js_first(doc, node); good && i < js_end(doc, node); i = js_next(doc, i))
        good = ret->n < max && add_text(doc, i, ret);
    if (!good)
        buf_putf(out, "\"%s\" must be a list of at most %zu texts of 1 to %d bytes", key, max,
                 TEXT_BYTES);
    return good;
}
