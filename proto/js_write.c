#include "proto/js.h"

#include "proto/js_scan.h"
#include "proto/limits.h"

/* Design.  Strings are written in runs: clean_run finds how many bytes need no escape, one memcpy
 * takes them, and only what stopped the run is examined.  js_copy walks the flat nodes in order;
 * its stack holds the open containers, as the reader's does. */

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* The number of the escape \uXXXX at p; UINT32_MAX when there is none. */
static uint32_t unicode_escape(const char *p, const char *end)
{
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return UINT32_MAX;
    return hex_digit(p[2]) << 12 | hex_digit(p[3]) << 8 | hex_digit(p[4]) << 4 | hex_digit(p[5]);
}

static const char *unicode_char(const char *p, const char *end, uint32_t *ret)
{
    uint32_t c = unicode_escape(p, end);
    p += 6;
    if (c < 0xD800 || c > 0xDFFF) {
        *ret = c;
        return p;
    }
    uint32_t low = c < 0xDC00 ? unicode_escape(p, end) : UINT32_MAX;
    if (low < 0xDC00 || low > 0xDFFF) {
        *ret = UTF8_REPLACEMENT;
        return p;
    }
    *ret = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    return p + 6;
}

const char *js_char(const char *p, const char *end, uint32_t *ret)
{
    if (*p != '\\') {
        p += utf8_step(p, (size_t)(end - p), ret);
        if (*ret == UTF8_BROKEN)
            *ret = UTF8_REPLACEMENT;
        return p;
    }
    switch (p[1]) {
    case 'b': *ret = '\b'; break;
    case 'f': *ret = '\f'; break;
    case 'n': *ret = '\n'; break;
    case 'r': *ret = '\r'; break;
    case 't': *ret = '\t'; break;
    case 'u': return unicode_char(p, end, ret);
    default: *ret = (unsigned char)p[1]; break; /* quote, backslash, slash */
    }
    return p + 2;
}

static void put_char(struct buf *out, uint32_t c)
{
    char bytes[4];
    buf_put(out, bytes, utf8_encode(c, bytes));
}

/* One character inside a quoted string, by the shortest escape when it needs one. */
static void put_escaped(struct buf *out, uint32_t c)
{
    static const char letters[32] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    if (c >= 0x20 && c != '"' && c != '\\') {
        put_char(out, c);
        return;
    }
    char letter = c < 0x20 ? letters[c] : (char)c;
    if (letter) {
        buf_put(out, (char[]){'\\', letter}, 2);
        return;
    }
    static const char hex[] = "0123456789abcdef";
    buf_put(out, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

/* Passes the characters of a string with escapes to put; what needs no escape comes in runs. */
static void put_each(struct str raw, void (*put)(struct buf *out, uint32_t c), struct buf *out)
{
    for (const char *p = raw.p, *end = raw.p + raw.n; p < end;) {
        size_t run = clean_run(p, (size_t)(end - p));
        buf_put(out, p, run);
        p += run;
        if (p < end) {
            uint32_t c;
            p = js_char(p, end, &c);
            put(out, c);
        }
    }
}

void js_value(const struct js_doc *d, uint32_t node, struct buf *out)
{
    struct str raw = js_raw(d, node);
    ASSERT(js_type(d, node) == JS_STRING);
    if (d->nodes[node].plain)
        buf_putstr(out, raw);
    else
        put_each(raw, put_char, out);
}

static void copy_string(const struct js_doc *d, uint32_t node, struct buf *out)
{
    struct str raw = js_raw(d, node);
    if (d->nodes[node].plain) {
        char *to = buf_reserve(out, raw.n + 2);
        to[0] = '"';
        memcpy(to + 1, raw.p, raw.n);
        to[raw.n + 1] = '"';
        to[raw.n + 2] = 0;
        out->len += raw.n + 2;
        return;
    }
    buf_putc(out, '"');
    put_each(raw, put_escaped, out);
    buf_putc(out, '"');
}

struct copy_level {
    uint32_t end; /* the node number after the container */
    bool object;
    bool value_next; /* an object's key was written, its value is next */
};

/* Writes what stands before the next child. */
static void put_separator(struct buf *out, struct copy_level *level, bool first)
{
    if (level->value_next)
        buf_putc(out, ':');
    else if (!first)
        buf_putc(out, ',');
    level->value_next = level->object && !level->value_next;
}

void js_copy(const struct js_doc *d, uint32_t node, struct buf *out)
{
    struct copy_level open[MAX_JSON_DEPTH + MAX_JSON_WRAP];
    size_t depth = 0;
    bool first = true;
    for (uint32_t i = node, end = js_end(d, node); i < end; i++) {
        if (depth > 0)
            put_separator(out, &open[depth - 1], first);
        const struct js_node *n = &d->nodes[i];
        first = n->type == JS_ARRAY || n->type == JS_OBJECT;
        if (first) {
            ASSERT(depth < countof(open));
            buf_putc(out, n->type == JS_OBJECT ? '{' : '[');
            open[depth++] = (struct copy_level){n->next, n->type == JS_OBJECT, false};
        } else if (n->type == JS_STRING) {
            copy_string(d, i, out);
        } else {
            buf_putstr(out, js_raw(d, i));
        }
        while (depth > 0 && open[depth - 1].end == i + 1) {
            buf_putc(out, open[--depth].object ? '}' : ']');
            first = false;
        }
    }
}

void js_put_str(struct buf *out, struct str value)
{
    if (!value.p) {
        buf_put(out, "null", 4);
        return;
    }
    buf_reserve(out, value.n + 2);
    buf_putc(out, '"');
    for (const char *p = value.p, *end = value.p + value.n; p < end;) {
        size_t run = clean_run(p, (size_t)(end - p));
        buf_put(out, p, run);
        p += run;
        if (p < end) {
            uint32_t c;
            p += utf8_step(p, (size_t)(end - p), &c);
            put_escaped(out, c == UTF8_BROKEN ? UTF8_REPLACEMENT : c);
        }
    }
    buf_putc(out, '"');
}

size_t js_str_size(struct str value)
{
    struct buf one = {0};
    size_t n = 2; /* the quotes */
    if (!value.p)
        return strlen("null");
    for (const char *p = value.p, *end = value.p + value.n; p < end;) {
        size_t run = clean_run(p, (size_t)(end - p));
        n += run;
        p += run;
        if (p < end) {
            uint32_t c;
            p += utf8_step(p, (size_t)(end - p), &c);
            buf_clear(&one);
            put_escaped(&one, c == UTF8_BROKEN ? UTF8_REPLACEMENT : c);
            n += one.len;
        }
    }
    buf_done(&one);
    return n;
}

#define GROWS_MOST 6 /* one byte becomes \u00XX */

struct str js_fit(struct str value, size_t bytes)
{
    if (value.n < bytes / GROWS_MOST) /* whatever is in it, with its quotes */
        return value;
    while (value.n > 0 && js_str_size(value) > bytes)
        value.n = utf8_cut(value, value.n / 4 * 3);
    return value;
}

void js_put_key(struct buf *out, const char *key)
{
    size_t n = strlen(key);
    char *to = buf_reserve(out, n + 4);
    char before = out->len > 0 ? to[-1] : '{';
    if (before != '{' && before != '[')
        *to++ = ',';
    *to++ = '"';
    memcpy(to, key, n);
    memcpy(to + n, "\":", 3);
    out->len = (size_t)(to + n + 2 - out->bytes);
}

void js_put_field(struct buf *out, const char *key, struct str value)
{
    js_put_key(out, key);
    js_put_str(out, value);
}

void js_put_int(struct buf *out, const char *key, int64_t value)
{
    js_put_key(out, key);
    if (value < 0)
        buf_putc(out, '-');
    buf_put_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void js_put_bool(struct buf *out, const char *key, bool value)
{
    js_put_key(out, key);
    buf_puts(out, value ? "true" : "false");
}

void js_put_raw(struct buf *out, const char *key, struct str json)
{
    js_put_key(out, key);
    buf_putstr(out, json);
}
