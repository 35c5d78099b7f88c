#include "gateway/models/model_parts.h"

#include "proto/parts.h"
#include "proto/str.h"

/* --- what a part is --------------------------------------------------------------------------- */

bool model_part_is_image(struct str media_type)
{
    static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    for (size_t i = 0; i < countof(types); i++)
        if (str_eq(media_type, str_of(types[i])))
            return true;
    return false;
}

static bool is_text(struct str media_type)
{
    return (media_type.n > 5 && memcmp(media_type.p, "text/", 5) == 0) ||
           str_eq(media_type, STR("application/json")) ||
           str_eq(media_type, STR("application/xml"));
}

bool model_part_is_anthropic(struct str media_type)
{
    return model_part_is_image(media_type) || is_text(media_type) ||
           str_eq(media_type, STR("application/pdf"));
}

bool model_part_links_chat(struct str media_type)
{
    return model_part_is_image(media_type);
}

bool model_part_links_responses(struct str media_type)
{
    (void)media_type;
    return true;
}

bool model_part_links_anthropic(struct str media_type)
{
    return model_part_is_image(media_type) || str_eq(media_type, STR("application/pdf"));
}

static void part_get_text(const struct js_doc *doc, uint32_t part, const char *name,
                          struct buf *out)
{
    uint32_t node = js_get(doc, part, name);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, out);
}

/* Appends the type of a file; false: it is a text. */
static bool get_type(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    uint32_t type = js_type(doc, part) == JS_OBJECT ? js_get(doc, part, "type") : 0;
    if (!type || js_type(doc, type) != JS_STRING || !js_is(doc, type, "file"))
        return false;
    part_get_text(doc, part, "media_type", out);
    return true;
}

static void put_text_part(const struct js_doc *doc, uint32_t part, const char *type,
                          struct buf *out)
{
    struct buf text = {0};
    part_get_text(doc, part, "text", &text);
    buf_putc(out, '{');
    js_put_field(out, "type", str_of(type));
    js_put_field(out, "text", buf_str(&text));
    buf_putc(out, '}');
    buf_done(&text);
}

/* base64 needs no escapes. */
static struct str data_of(const struct js_doc *doc, uint32_t part)
{
    uint32_t data = js_get(doc, part, "data");
    return data && js_type(doc, data) == JS_STRING ? js_raw(doc, data) : STR("");
}

/* The part's URL, or one that has its data. */
static void put_url(const struct js_doc *doc, uint32_t part, struct str media_type, const char *key,
                    struct buf *out)
{
    js_put_key(out, key);
    if (js_get(doc, part, "url")) {
        js_copy(doc, js_get(doc, part, "url"), out);
        return;
    }
    buf_puts(out, "\"data:");
    buf_putstr(out, media_type);
    buf_puts(out, ";base64,");
    buf_putstr(out, data_of(doc, part));
    buf_putc(out, '"');
}

static void put_file_name(const struct js_doc *doc, uint32_t part, const char *key, struct buf *out)
{
    struct buf name = {0};
    part_get_text(doc, part, "name", &name);
    js_put_field(out, key, name.len ? buf_str(&name) : STR("file"));
    buf_done(&name);
}

/* --- by API ----------------------------------------------------------------------------------- */

void model_part_put_chat(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    struct buf type = {0};
    if (!get_type(doc, part, &type)) {
        put_text_part(doc, part, "text", out);
    } else if (model_part_is_image(buf_str(&type))) {
        buf_puts(out, "{\"type\":\"image_url\",\"image_url\":{");
        put_url(doc, part, buf_str(&type), "url", out);
        buf_puts(out, "}}");
    } else {
        buf_puts(out, "{\"type\":\"file\",\"file\":{");
        put_file_name(doc, part, "filename", out);
        put_url(doc, part, buf_str(&type), "file_data", out);
        buf_puts(out, "}}");
    }
    buf_done(&type);
}

/* Beside a URL there is no place for a name. */
static void put_input_file(const struct js_doc *doc, uint32_t part, struct str media_type,
                           struct buf *out)
{
    bool is_link = js_get(doc, part, "url");
    if (!is_link)
        put_file_name(doc, part, "filename", out);
    put_url(doc, part, media_type, is_link ? "file_url" : "file_data", out);
}

void model_part_put_responses(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    struct buf type = {0};
    if (!get_type(doc, part, &type)) {
        put_text_part(doc, part, "input_text", out);
    } else if (model_part_is_image(buf_str(&type))) {
        buf_puts(out, "{\"type\":\"input_image\",\"detail\":\"auto\"");
        put_url(doc, part, buf_str(&type), "image_url", out);
        buf_putc(out, '}');
    } else {
        buf_puts(out, "{\"type\":\"input_file\"");
        put_input_file(doc, part, buf_str(&type), out);
        buf_putc(out, '}');
    }
    buf_done(&type);
}

/* "source" of a block: bytes, or a text as it is. */
static void put_source(const struct js_doc *doc, uint32_t part, struct str media_type,
                       struct buf *out)
{
    struct buf text = {0};
    buf_puts(out, "\"source\":{");
    if (js_get(doc, part, "url")) {
        buf_puts(out, "\"type\":\"url\"");
        put_url(doc, part, media_type, "url", out);
    } else if (is_text(media_type) && base64_read(data_of(doc, part), &text)) {
        buf_puts(out, "\"type\":\"text\",\"media_type\":\"text/plain\"");
        js_put_field(out, "data", text.len ? buf_str(&text) : STR(" "));
    } else {
        buf_puts(out, "\"type\":\"base64\"");
        js_put_field(out, "media_type", media_type);
        buf_puts(out, ",\"data\":\"");
        buf_putstr(out, data_of(doc, part));
        buf_putc(out, '"');
    }
    buf_putc(out, '}');
    buf_done(&text);
}

/* No text may be empty there. */
void model_part_put_anthropic(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    struct buf type = {0};
    uint32_t text = js_get(doc, part, "text");
    if (!get_type(doc, part, &type)) {
        if (text && !str_is_blank(js_raw(doc, text)))
            put_text_part(doc, part, "text", out);
        else
            buf_puts(out, "{\"type\":\"text\",\"text\":\"[This message is empty.]\"}");
    } else if (model_part_is_image(buf_str(&type))) {
        buf_puts(out, "{\"type\":\"image\",");
        put_source(doc, part, buf_str(&type), out);
        buf_putc(out, '}');
    } else {
        buf_puts(out, "{\"type\":\"document\",");
        put_source(doc, part, buf_str(&type), out);
        put_file_name(doc, part, "title", out);
        buf_putc(out, '}');
    }
    buf_done(&type);
}

/* --- a message -------------------------------------------------------------------------------- */

uint32_t model_parts_of(const struct js_doc *doc, uint32_t message)
{
    uint32_t parts = js_type(doc, message) == JS_OBJECT ? js_get(doc, message, "content") : 0;
    return parts && js_type(doc, parts) == JS_ARRAY && doc->nodes[parts].kids ? parts : 0;
}

void model_parts_put(const struct js_doc *doc, uint32_t parts, model_part_put put, struct buf *out)
{
    for (uint32_t i = js_first(doc, parts); i < js_end(doc, parts); i = js_next(doc, i)) {
        if (i > js_first(doc, parts))
            buf_putc(out, ',');
        put(doc, i, out);
    }
}
