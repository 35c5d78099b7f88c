#include "gateway/complaint.h"

static void put_line(struct buf *out, struct str text)
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

static void put(struct buf *out, struct str text)
{
    struct buf line = {0};
    put_line(&line, text);
    buf_putstr(out, buf_str(&line));
    buf_done(&line);
}

static bool put_member(struct buf *out, const struct js_doc *doc, uint32_t object, const char *name)
{
    uint32_t node = js_get(doc, object, name);
    if (!node)
        return false;
    if (js_type(doc, node) == JS_OBJECT)
        return put_member(out, doc, node, "message");
    if (js_type(doc, node) != JS_STRING || js_raw(doc, node).n == 0)
        return false;
    struct buf text = {0};
    js_value(doc, node, &text);
    put(out, buf_str(&text));
    buf_done(&text);
    return true;
}

void complaint_put_node(struct buf *out, const struct js_doc *doc, uint32_t object)
{
    if (!put_member(out, doc, object, "error") && !put_member(out, doc, object, "message"))
        (void)put_member(out, doc, object, "detail");
}

void complaint_put(struct buf *out, struct str body)
{
    struct js_doc doc = {0};
    while (body.n && (unsigned char)body.p[0] <= ' ')
        body = (struct str){body.p + 1, body.n - 1};
    const char *end = body.n ? memchr(body.p, '\n', body.n) : NULL;
    if (js_parse(&doc, body.p ? body.p : "", body.n, JS_AGENT) && js_type(&doc, 0) == JS_OBJECT)
        complaint_put_node(out, &doc, 0);
    else if (body.n && body.p[0] != '<')
        put(out, end ? (struct str){body.p, (size_t)(end - body.p)} : body);
    js_done(&doc);
}
