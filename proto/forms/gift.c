#include "proto/forms/gift.h"

#include "proto/file_head.h"
#include "proto/forms/say.h"
#include "proto/parts.h"

static void gift_put_text(const struct js_doc *doc, uint32_t object, const char *key,
                          struct buf *out)
{
    uint32_t node = js_get(doc, object, key);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, out);
}

static void name_gift(struct gift *gift, const struct js_doc *doc, uint32_t object)
{
    struct buf uri = {0};
    gift_put_text(doc, object, "uri", &uri);
    size_t from = uri.len;
    while (from > 0 && uri.bytes[from - 1] != '/' && uri.bytes[from - 1] != ':')
        from--;
    for (size_t i = from; i < uri.len && uri.len - from <= MAX_FILE_NAME; i++)
        if ((unsigned char)uri.bytes[i] > ' ' && !strchr("\\?#\"\x7f", uri.bytes[i]))
            buf_putc(&gift->name, uri.bytes[i]);
    buf_done(&uri);
}

bool gift_read(const struct js_doc *doc, uint32_t block, struct gift *ret)
{
    struct buf data = {0}, type = {0};
    *ret = (struct gift){0};
    if (js_type(doc, block) != JS_OBJECT)
        return false;
    uint32_t resource = say_is(doc, block, "type", "resource") ? js_get(doc, block, "resource") : 0;
    bool has_blob = resource && js_type(doc, resource) == JS_OBJECT;
    if (!has_blob && !say_is(doc, block, "type", "image") && !say_is(doc, block, "type", "audio"))
        return false;
    uint32_t object = has_blob ? resource : block;
    gift_put_text(doc, object, has_blob ? "blob" : "data", &data);
    gift_put_text(doc, object, "mimeType", &type);
    if (!type.len || !media_type_read(buf_str(&type), &ret->type))
        buf_clear(&ret->type);
    bool good = data.len && base64_read(buf_str(&data), &ret->bytes);
    if (good)
        name_gift(ret, doc, object);
    else
        gift_done(ret);
    buf_done(&data);
    buf_done(&type);
    return good;
}

void gift_done(struct gift *gift)
{
    buf_done(&gift->bytes);
    buf_done(&gift->name);
    buf_done(&gift->type);
    buf_done(&gift->call);
}
