#include "gateway/fetch/complaint.h"

static void complaint_put_line(struct buf *out, struct str text)
{
    struct js_doc doc = {0};
    struct buf quoted = {0};
    js_put_str(&quoted, (struct str){text.p, text.n < 4096 ? text.n : 4096}); /* repairs UTF-8 */
    if (js_parse(&doc, quoted.bytes, quoted.len, JS_AGENT))
        js_value(&doc, 0, out);
    js_done(&doc);
    buf_done(&quoted);

    size_t n = utf8_cut(buf_str(out), COMPLAINT_BYTES);
    ASSERT(n == 0 || out->bytes);
    bool is_cut = n < out->len;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out->bytes[i] < ' ' || out->bytes[i] == 0x7f)
            out->bytes[i] = ' ';
    while (n && out->bytes[n - 1] == ' ')
        n--;
    out->len = n;
    if (is_cut)
        buf_puts(out, "...");
}

static void complaint_append(struct buf *out, struct str text)
{
    struct buf line = {0};
    complaint_put_line(&line, text);
    buf_putstr(out, buf_str(&line));
    buf_done(&line);
}

#define DEPTH 4 /* of objects and arrays that are searched */

static bool put_node(struct buf *out, const struct js_doc *doc, uint32_t node, int depth);

static bool put_member(struct buf *out, const struct js_doc *doc, uint32_t object, const char *name,
                       int depth)
{
    uint32_t node = js_get(doc, object, name);
    return node && put_node(out, doc, node, depth - 1);
}

static bool put_first(struct buf *out, const struct js_doc *doc, uint32_t object,
                      const char *const *names, size_t n, int depth)
{
    for (size_t i = 0; i < n; i++)
        if (put_member(out, doc, object, names[i], depth))
            return true;
    return false;
}

/* The member of the request that is at fault, in FastAPI's form: ["body","model"]. */
static void put_place(struct buf *out, const struct js_doc *doc, uint32_t object)
{
    uint32_t loc = js_get(doc, object, "loc");
    if (!loc || js_type(doc, loc) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, loc); i < js_end(doc, loc); i = js_next(doc, i)) {
        if (js_type(doc, i) != JS_STRING)
            continue;
        complaint_append(out, js_raw(doc, i));
        buf_puts(out, js_next(doc, i) < js_end(doc, loc) ? "." : ": ");
    }
}

static bool put_said(struct buf *out, const struct js_doc *doc, uint32_t object, int depth)
{
    static const char *const names[] = {"message", "msg", "detail", "error", "code", "type"};
    uint32_t code = js_get(doc, object, "code");
    if (put_first(out, doc, object, names, countof(names), depth))
        return true;
    if (!code || js_type(doc, code) != JS_NUMBER)
        return false;
    complaint_append(out, js_raw(doc, code));
    return true;
}

static bool put_object(struct buf *out, const struct js_doc *doc, uint32_t object, int depth)
{
    struct buf said = {0}, raw = {0};
    bool says = put_said(&said, doc, object, depth);
    uint32_t more = js_get(doc, object, "metadata"); /* where OpenRouter keeps the reason */
    if (says) {
        put_place(out, doc, object);
        buf_putstr(out, buf_str(&said));
    }
    if (says && more && js_type(doc, more) == JS_OBJECT &&
        put_member(&raw, doc, more, "raw", depth))
        buf_putf(out, ": %s", raw.bytes);
    buf_done(&said);
    buf_done(&raw);
    return says;
}

static bool put_node(struct buf *out, const struct js_doc *doc, uint32_t node, int depth)
{
    struct buf text = {0};
    uint32_t first = js_first(doc, node);
    switch (js_type(doc, node)) {
    case JS_OBJECT: return depth > 0 && put_object(out, doc, node, depth);
    case JS_ARRAY:
        return depth > 0 && first < js_end(doc, node) && put_node(out, doc, first, depth - 1);
    case JS_STRING: break;
    default: return false;
    }
    js_value(doc, node, &text);
    if (text.len)
        complaint_append(out, buf_str(&text));
    buf_done(&text);
    return js_raw(doc, node).n > 0;
}

/* {"error":"ValueError","message":"…"}: its kind goes before its message. */
static void put_more(struct buf *out, const struct js_doc *doc, uint32_t object)
{
    uint32_t error = js_get(doc, object, "error");
    struct buf text = {0};
    if (error && js_type(doc, error) == JS_STRING &&
        put_member(&text, doc, object, "message", DEPTH) && !str_eq(buf_str(&text), buf_str(out)))
        buf_putf(out, ": %s", text.bytes);
    buf_done(&text);
}

void complaint_put_node(struct buf *out, const struct js_doc *doc, uint32_t object)
{
    static const char *const names[] = {"message", "detail", "msg"};
    struct buf text = {0};
    uint32_t base = js_get(doc, object, "base_resp"); /* MiniMax's */
    if (put_member(&text, doc, object, "error", DEPTH))
        put_more(&text, doc, object);
    else if (!put_member(&text, doc, object, "errors", DEPTH) &&
             !put_first(&text, doc, object, names, countof(names), DEPTH) && base &&
             js_type(doc, base) == JS_OBJECT)
        (void)put_member(&text, doc, base, "status_msg", DEPTH);
    complaint_append(out, buf_str(&text));
    buf_done(&text);
}

/* The root object, or the only one in a list. */
static bool find_object(const struct js_doc *doc, uint32_t *ret)
{
    *ret = 0;
    if (js_type(doc, 0) == JS_ARRAY && js_first(doc, 0) < js_end(doc, 0))
        *ret = js_first(doc, 0);
    return js_type(doc, *ret) == JS_OBJECT;
}

static bool put_json(struct buf *out, struct str body)
{
    struct js_doc doc = {0};
    uint32_t object;
    bool is_json =
        js_parse(&doc, body.p ? body.p : "", body.n, JS_AGENT) && find_object(&doc, &object);
    if (is_json)
        complaint_put_node(out, &doc, object);
    js_done(&doc);
    return is_json;
}

void complaint_put(struct buf *out, struct str body)
{
    while (body.n && (unsigned char)body.p[0] <= ' ')
        body = (struct str){body.p + 1, body.n - 1};
    const char *end = body.n ? memchr(body.p, '\n', body.n) : NULL;
    if (!put_json(out, body) && body.n && body.p[0] != '<')
        complaint_append(out, end ? (struct str){body.p, (size_t)(end - body.p)} : body);
}
