#include "proto/parts.h"

#include "proto/file_head.h"
#include "proto/limits.h"
#include "proto/str.h"
#include "proto/utf8.h"

#define FILE_PART "{\"type\":\"file\""

/* --- base64 ----------------------------------------------------------------------------------- */

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_read(struct str text, struct buf *out)
{
    if (text.n % 4)
        return false;
    for (size_t at = 0; at < text.n; at += 4) {
        const char *p = text.p + at;
        bool last = at + 4 == text.n;
        int pad = last ? (p[3] == '=') + (p[3] == '=' && p[2] == '=') : 0;
        uint32_t bits = 0;
        for (int i = 0; i < 4; i++) {
            int value = i < 4 - pad ? base64_value(p[i]) : 0;
            if (value < 0)
                return false;
            bits = bits << 6 | (uint32_t)value;
        }
        if ((pad == 1 && (bits & 0xff)) || (pad == 2 && (bits & 0xffff)))
            return false; /* bits that no byte has */
        for (int i = 0; i < 3 - pad; i++)
            buf_putc(out, (char)(bits >> (16 - 8 * i)));
    }
    return true;
}

void base64_write(const void *bytes, size_t n, char *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    for (size_t at = 0; at < n; at += 3) {
        size_t have = n - at < 3 ? n - at : 3;
        uint32_t bits = (uint32_t)p[at] << 16;
        bits |= have > 1 ? (uint32_t)p[at + 1] << 8 : 0;
        bits |= have > 2 ? p[at + 2] : 0;
        for (size_t i = 0; i < 4; i++)
            *ret++ = i <= have ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static uint32_t string_of(const struct js_doc *doc, uint32_t part, const char *name)
{
    uint32_t node = js_get(doc, part, name);
    return node && js_type(doc, node) == JS_STRING ? node : 0;
}

static void put_member(const struct js_doc *doc, const char *name, uint32_t node, struct buf *out)
{
    js_put_key(out, name);
    js_copy(doc, node, out);
}

static bool name_is_good(const struct js_doc *doc, uint32_t node)
{
    struct buf name = {0};
    js_value(doc, node, &name);
    bool good = name.len <= MAX_FILE_NAME;
    for (size_t i = 0; good && i < name.len; i++)
        good = (unsigned char)name.bytes[i] >= ' ' && name.bytes[i] != 0x7f &&
               !strchr("/\\", name.bytes[i]);
    buf_done(&name);
    return good;
}

static bool data_is_good(const struct js_doc *doc, uint32_t type, uint32_t data)
{
    struct buf text = {0}, out = {0};
    js_value(doc, type, &text);
    bool good = media_type_read(buf_str(&text), &out);
    buf_clear(&text);
    buf_clear(&out);
    js_value(doc, data, &text);
    good = good && base64_read(buf_str(&text), &out);
    buf_done(&text);
    buf_done(&out);
    return good;
}

static bool part_read_file(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    uint32_t id = js_get(doc, part, "file_id"), data = js_get(doc, part, "data");
    uint32_t type = string_of(doc, part, "media_type"), name = js_get(doc, part, "name");
    buf_puts(out, FILE_PART);
    if (id && !data && js_type(doc, id) == JS_STRING) {
        put_member(doc, "file_id", id, out);
        buf_putc(out, '}');
        return true;
    }
    if (id || !data || js_type(doc, data) != JS_STRING || !type || !data_is_good(doc, type, data))
        return false;
    if (name && (js_type(doc, name) != JS_STRING || !name_is_good(doc, name)))
        return false;
    put_member(doc, "media_type", type, out);
    if (name)
        put_member(doc, "name", name, out);
    put_member(doc, "data", data, out);
    buf_putc(out, '}');
    return true;
}

static bool parts_read_one(const struct js_doc *doc, uint32_t part, struct buf *out)
{
    uint32_t type = js_type(doc, part) == JS_OBJECT ? string_of(doc, part, "type") : 0;
    if (type && js_is(doc, type, "file"))
        return part_read_file(doc, part, out);
    uint32_t text = type && js_is(doc, type, "text") ? string_of(doc, part, "text") : 0;
    if (!text)
        return false;
    buf_puts(out, "{\"type\":\"text\"");
    put_member(doc, "text", text, out);
    buf_putc(out, '}');
    return true;
}

/* Whether it has a file, or a text that is not empty. */
static bool says_something(const struct js_doc *doc, uint32_t node)
{
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        uint32_t text = js_is(doc, js_get(doc, i, "type"), "text") ? js_get(doc, i, "text") : 0;
        if (!text || js_raw(doc, text).n > 0)
            return true;
    }
    return false;
}

bool parts_read(const struct js_doc *doc, uint32_t node, struct buf *ret)
{
    size_t from = ret->len;
    if (js_type(doc, node) != JS_ARRAY || doc->nodes[node].kids < 1 ||
        doc->nodes[node].kids > MAX_PARTS)
        return false;
    buf_putc(ret, '[');
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        if (ret->len > from + 1)
            buf_putc(ret, ',');
        if (!parts_read_one(doc, i, ret))
            return false;
    }
    buf_putc(ret, ']');
    return ret->len - from <= MAX_PARTS_BYTES && says_something(doc, node);
}

void parts_put_text(const struct js_doc *doc, uint32_t node, struct buf *out)
{
    bool first = true;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        if (!js_is(doc, js_get(doc, i, "type"), "text"))
            continue;
        if (!first)
            buf_putc(out, '\n');
        first = false;
        js_value(doc, js_get(doc, i, "text"), out);
    }
}

bool parts_are_plain(const struct js_doc *doc, uint32_t node)
{
    return doc->nodes[node].kids == 1 &&
           js_is(doc, js_get(doc, js_first(doc, node), "type"), "text");
}

/* --- in our form ------------------------------------------------------------------------------ */

/* A quote inside a string has a backslash before it, so this stands where an object begins. */
bool parts_have_file(struct str parts)
{
    return parts.n > 0 && memmem(parts.p, parts.n, FILE_PART, sizeof FILE_PART - 1);
}

static void parts_put_name(struct str parts, struct buf *out)
{
    struct js_doc doc = {0};
    bool is_read = parts_have_file(parts) && js_parse(&doc, parts.p, parts.n, JS_OURS);
    for (uint32_t i = is_read ? js_first(&doc, 0) : 0, name; is_read && i < js_end(&doc, 0);
         i = js_next(&doc, i)) {
        name = js_get(&doc, i, "name");
        if (name && js_type(&doc, name) == JS_STRING) {
            js_value(&doc, name, out);
            break;
        }
    }
    js_done(&doc);
}

void parts_put_title(struct str text, struct str parts, struct buf *out)
{
    struct buf name = {0};
    struct str title = text;
    while (title.n > 0 && (unsigned char)title.p[0] <= ' ')
        title = str_from(title, 1);
    if (title.n == 0 && parts.n > 0) {
        parts_put_name(parts, &name);
        title = buf_str(&name);
    }
    title.n = utf8_chars(title, AUTO_TITLE_CHARS);
    buf_putstr(out, title);
    buf_done(&name);
}

struct str part_file_id(const struct js_doc *doc, uint32_t part, struct buf *scratch)
{
    uint32_t id = js_get(doc, part, "file_id");
    buf_clear(scratch);
    if (!id)
        return STR_NULL;
    js_value(doc, id, scratch);
    return buf_str(scratch);
}

static bool member_equal(const struct js_doc *a, const struct js_doc *b, uint32_t x, uint32_t y,
                         const char *name)
{
    uint32_t p = js_get(a, x, name), q = js_get(b, y, name);
    return (!p && !q) || (p && q && str_eq(js_raw(a, p), js_raw(b, q)));
}

/* The gateway's additions are left out: they follow from the file. */
static bool part_equal(const struct js_doc *a, const struct js_doc *b, uint32_t x, uint32_t y)
{
    bool stored = js_get(a, x, "file_id") != 0;
    return member_equal(a, b, x, y, "type") && member_equal(a, b, x, y, "text") &&
           member_equal(a, b, x, y, "file_id") && member_equal(a, b, x, y, "data") &&
           (stored || (member_equal(a, b, x, y, "name") && member_equal(a, b, x, y, "media_type")));
}

bool parts_equal(struct js_doc *a, struct js_doc *b, struct str x, struct str y)
{
    if (!x.n || !y.n)
        return !x.n && !y.n;
    if (!js_parse(a, x.p, x.n, JS_OURS) || !js_parse(b, y.p, y.n, JS_OURS) ||
        a->nodes[0].kids != b->nodes[0].kids)
        return false;
    uint32_t i = js_first(a, 0), j = js_first(b, 0);
    for (; i < js_end(a, 0); i = js_next(a, i), j = js_next(b, j))
        if (!part_equal(a, b, i, j))
            return false;
    return true;
}
