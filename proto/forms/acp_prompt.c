/* The files of a message, as blocks of an ACP prompt. */
#include "proto/forms/acp.h"
#include "proto/str.h"

static struct str prompt_text(const struct js_doc *doc, uint32_t file, const char *key,
                              struct buf *scratch)
{
    return say_text(doc, js_get(doc, file, key), scratch);
}

/* file:///PATH (RFC 8089), with what no path of a URI has in percent (RFC 3986 section 3.3). */
static void put_uri(struct str path, struct buf *out)
{
    struct buf uri = {0};
    buf_puts(&uri, "file://");
    for (size_t i = 0; i < path.n; i++) {
        unsigned char c = (unsigned char)path.p[i];
        if (is_digit((char)c) || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
            (c && strchr("/-._~!$&'()*+,;=:@", c)))
            buf_putc(&uri, (char)c);
        else
            buf_putf(&uri, "%%%02X", c);
    }
    js_put_field(out, "uri", buf_str(&uri));
    buf_done(&uri);
}

static void put_image(const struct js_doc *doc, uint32_t file, struct str media_type,
                      struct buf *out)
{
    buf_puts(out, ",{\"type\":\"image\"");
    js_put_field(out, "mimeType", media_type);
    buf_puts(out, ",\"data\":\"");
    buf_putstr(out, js_raw(doc, js_get(doc, file, "data")));
    buf_puts(out, "\"}");
}

static void put_link(struct acp *a, const struct js_doc *doc, uint32_t file, struct str media_type)
{
    struct buf *out = &a->out;
    uint32_t size = js_get(doc, file, "size");
    struct str name = prompt_text(doc, file, "name", &a->text);
    buf_puts(out, ",{\"type\":\"resource_link\"");
    js_put_field(out, "name", name.n ? name : STR("file"));
    put_uri(prompt_text(doc, file, "path", &a->text), out);
    js_put_field(out, "mimeType", media_type);
    if (size) {
        js_put_key(out, "size");
        js_copy(doc, size, out);
    }
    buf_putc(out, '}');
}

void acp_put_files(struct acp *a)
{
    struct js_doc *doc = &a->other;
    struct str files = buf_str(&a->files);
    bool good = files.n && js_parse(doc, files.p, files.n, JS_OURS);
    for (uint32_t i = good ? js_first(doc, 0) : 0; good && i < js_end(doc, 0);
         i = js_next(doc, i)) {
        struct str type = prompt_text(doc, i, "media_type", &a->more);
        if (a->can_image && js_get(doc, i, "data"))
            put_image(doc, i, type, &a->out);
        else
            put_link(a, doc, i, type);
    }
}
