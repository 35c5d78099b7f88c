#include "proto/faces/face_parts.h"

#include "proto/file_head.h"
#include "proto/parts.h"
#include "proto/str.h"

#define NO_FILE_URL "must be a data URL with base64, or the path of a file on this gateway"
#define NO_DATA "must have a media type, and data in base64"

static void begin_part(struct face_parts *p, const char *type)
{
    buf_putc(&p->json, p->json.len ? ',' : '[');
    buf_putc(&p->json, '{');
    js_put_field(&p->json, "type", str_of(type));
}

void face_parts_text(struct face_parts *p, const struct js_doc *doc, uint32_t text)
{
    if (!text)
        return;
    begin_part(p, "text");
    js_put_key(&p->json, "text");
    js_copy(doc, text, &p->json);
    buf_putc(&p->json, '}');
}

void face_parts_say(struct face_parts *p, struct str text)
{
    begin_part(p, "text");
    js_put_field(&p->json, "text", text);
    buf_putc(&p->json, '}');
}

static bool begins_with(struct str text, const char *with)
{
    size_t n = strlen(with);
    return text.n >= n && memcmp(text.p, with, n) == 0;
}

/* Only what is a name of ours: others would be refused with the whole message. */
static void put_part_name(struct buf *out, const struct js_doc *doc, uint32_t name)
{
    struct buf text = {0}, kept = {0};
    if (name)
        js_value(doc, name, &text);
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.bytes[i] >= ' ' && !strchr("/\\\x7f", text.bytes[i]))
            buf_putc(&kept, text.bytes[i]);
    kept.len = utf8_cut(buf_str(&kept), MAX_FILE_NAME);
    if (kept.len)
        js_put_field(out, "name", buf_str(&kept));
    buf_done(&kept);
    buf_done(&text);
}

static const char *put_data(struct face_parts *p, struct str media_type, struct str base64,
                            const struct js_doc *doc, uint32_t name)
{
    struct buf type = {0}, bytes = {0};
    bool good = media_type_read(media_type, &type) && base64_read(base64, &bytes);
    if (good) {
        begin_part(p, "file");
        js_put_field(&p->json, "media_type", buf_str(&type));
        put_part_name(&p->json, doc, name);
        js_put_field(&p->json, "data", base64);
        buf_putc(&p->json, '}');
        p->has_file = true;
    }
    buf_done(&type);
    buf_done(&bytes);
    return good ? NULL : NO_DATA;
}

/* data:image/png;base64,…; without a type it is text. */
static const char *read_data_url(struct face_parts *p, struct str url, const struct js_doc *doc,
                                 uint32_t name)
{
    static const char mark[] = ";base64";
    struct str rest = str_from(url, 5);
    const char *comma = rest.n ? memchr(rest.p, ',', rest.n) : NULL;
    size_t n = comma ? (size_t)(comma - rest.p) : 0;
    if (n < sizeof mark - 1 || memcmp(comma - (sizeof mark - 1), mark, sizeof mark - 1) != 0)
        return NO_FILE_URL;
    struct str type = {rest.p, n - (sizeof mark - 1)};
    return put_data(p, type.n ? type : STR("text/plain"), str_from(rest, n + 1), doc, name);
}

/* …/v1/conversations/ID/files/ID, of whatever host: it is looked up here. */
static bool read_path(struct str url, struct str *ret_id)
{
    static const char before[] = "/v1/conversations/", between[] = "/files/";
    const char *at = memmem(url.p, url.n, before, sizeof before - 1);
    if (!at)
        return false;
    struct str rest = str_from(url, (size_t)(at - url.p) + sizeof before - 1);
    const char *slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
    if (!slash)
        return false;
    rest = str_from(rest, (size_t)(slash - rest.p));
    if (!begins_with(rest, between))
        return false;
    *ret_id = str_from(rest, sizeof between - 1);
    for (size_t i = 0; i < ret_id->n; i++)
        if (strchr("?#/", ret_id->p[i]))
            ret_id->n = i;
    return ret_id->n > 0;
}

const char *face_parts_url(struct face_parts *p, const struct js_doc *doc, uint32_t url,
                           uint32_t name)
{
    struct buf text = {0};
    struct str id;
    const char *wrong = NULL;
    if (url)
        js_value(doc, url, &text);
    if (text.len && begins_with(buf_str(&text), "data:")) {
        wrong = read_data_url(p, buf_str(&text), doc, name);
    } else if (text.len && read_path(buf_str(&text), &id)) {
        begin_part(p, "file");
        js_put_field(&p->json, "file_id", id);
        buf_putc(&p->json, '}');
        p->has_file = true;
    } else {
        wrong = NO_FILE_URL;
    }
    buf_done(&text);
    return wrong;
}

const char *face_parts_data(struct face_parts *p, const struct js_doc *doc, uint32_t base64,
                            uint32_t media_type, uint32_t name)
{
    struct buf type = {0}, data = {0};
    if (media_type)
        js_value(doc, media_type, &type);
    if (base64)
        js_value(doc, base64, &data);
    const char *wrong =
        base64 ? put_data(p, type.len ? buf_str(&type) : STR("application/octet-stream"),
                          buf_str(&data), doc, name)
               : NO_DATA;
    buf_done(&type);
    buf_done(&data);
    return wrong;
}

void face_parts_end(const struct face_parts *p, struct buf *out)
{
    if (!p->has_file)
        return;
    buf_putstr(out, buf_str(&p->json));
    buf_putc(out, ']');
}

void face_parts_done(struct face_parts *p)
{
    buf_done(&p->json);
    *p = (struct face_parts){0};
}

void face_put_message(struct buf *body, struct str text, struct str parts)
{
    if (parts.n)
        js_put_raw(body, "message", parts);
    else
        js_put_field(body, "message", text);
}
