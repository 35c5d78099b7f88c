#include "proto/file_head.h"

#include "proto/str.h"
#include "proto/utf8.h"

/* --- tokens ----------------------------------------------------------------------------------- */

/* RFC 9110 section 5.6.2. */
static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static struct str take_token(struct str *rest)
{
    size_t n = 0;
    while (n < rest->n && is_token_char(rest->p[n]))
        n++;
    struct str token = {rest->p, n};
    *rest = str_from(*rest, n);
    return token;
}

static void skip_blanks(struct str *rest)
{
    while (rest->n > 0 && is_blank(*rest->p))
        *rest = str_from(*rest, 1);
}

static bool skip_char(struct str *rest, char c)
{
    if (rest->n == 0 || *rest->p != c)
        return false;
    *rest = str_from(*rest, 1);
    return true;
}

/* A token or a quoted string (RFC 9110 section 5.6.4). */
static bool take_value(struct str *rest, struct buf *out)
{
    if (!skip_char(rest, '"')) {
        struct str token = take_token(rest);
        buf_putstr(out, token);
        return token.n > 0;
    }
    while (rest->n > 0 && *rest->p != '"') {
        if (*rest->p == '\\')
            *rest = str_from(*rest, 1);
        if (rest->n == 0)
            return false;
        buf_putc(out, *rest->p);
        *rest = str_from(*rest, 1);
    }
    return skip_char(rest, '"');
}

/* --- names ------------------------------------------------------------------------------------ */

static int hex_of(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* UTF-8'language'percent-encoded (RFC 8187 section 3.2.1). */
static bool decode_extended(struct str text, struct buf *out)
{
    if (!str_begins_nocase(text, STR("utf-8'")))
        return false;
    text = str_from(text, sizeof "utf-8'" - 1);
    const char *quote = memchr(text.p, '\'', text.n);
    if (!quote)
        return false;
    text = str_from(text, (size_t)(quote - text.p) + 1);
    while (text.n > 0) {
        if (*text.p != '%') {
            buf_putc(out, *text.p);
            text = str_from(text, 1);
            continue;
        }
        int high = text.n > 2 ? hex_of(text.p[1]) : -1, low = text.n > 2 ? hex_of(text.p[2]) : -1;
        if (high < 0 || low < 0)
            return false;
        buf_putc(out, (char)(high * 16 + low));
        text = str_from(text, 3);
    }
    return true;
}

/* The last segment; "." and ".." name no file. */
static bool put_name(struct str name, struct buf *out)
{
    for (size_t i = name.n; i-- > 0;)
        if (name.p[i] == '/' || name.p[i] == '\\') {
            name = str_from(name, i + 1);
            break;
        }
    if (name.n > MAX_FILE_NAME || !utf8_valid(name))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f)
            return false;
    if (!str_eq(name, STR(".")) && !str_eq(name, STR("..")))
        buf_putstr(out, name);
    return true;
}

bool disposition_read(struct str value, struct buf *ret_name)
{
    struct buf plain = {0}, extended = {0}, raw = {0};
    struct str rest = str_trim(value);
    bool good = take_token(&rest).n > 0, has_extended = false;
    for (skip_blanks(&rest); good && rest.n > 0; skip_blanks(&rest)) {
        good = skip_char(&rest, ';');
        skip_blanks(&rest);
        struct str name = take_token(&rest);
        if (!good || name.n == 0)
            continue; /* an empty parameter */
        buf_clear(&raw);
        good = skip_char(&rest, '=') && take_value(&rest, &raw);
        bool is_plain = name.n == 8 && str_begins_nocase(name, STR("filename"));
        bool is_extended = name.n == 9 && str_begins_nocase(name, STR("filename*"));
        if (good && is_plain)
            buf_clear(&plain), buf_putstr(&plain, buf_str(&raw));
        if (good && is_extended && !has_extended)
            has_extended = good = decode_extended(buf_str(&raw), &extended);
    }
    good = good && put_name(has_extended ? buf_str(&extended) : buf_str(&plain), ret_name);
    buf_done(&plain);
    buf_done(&extended);
    buf_done(&raw);
    return good;
}

/* attr-char of RFC 8187 section 3.2.1. */
static bool is_attr_char(char c)
{
    return is_token_char(c) && !strchr("*'%", c);
}

void disposition_put(struct buf *out, bool is_inline, struct str name)
{
    bool is_plain = true;
    buf_puts(out, is_inline ? "inline" : "attachment");
    if (name.n == 0)
        return;
    buf_puts(out, "; filename=\"");
    for (size_t i = 0; i < name.n; i++) {
        bool good = name.p[i] >= ' ' && name.p[i] < 0x7f && !strchr("\"\\%", name.p[i]);
        is_plain = is_plain && good;
        buf_putc(out, good ? name.p[i] : '_');
    }
    buf_putc(out, '"');
    if (is_plain)
        return;
    buf_puts(out, "; filename*=UTF-8''");
    for (size_t i = 0; i < name.n; i++) {
        if (is_attr_char(name.p[i]))
            buf_putc(out, name.p[i]);
        else
            buf_putf(out, "%%%02X", (unsigned char)name.p[i]);
    }
}

/* --- types ------------------------------------------------------------------------------------ */

bool media_type_read(struct str value, struct buf *ret)
{
    struct str rest = str_trim(value), type = take_token(&rest);
    bool good = skip_char(&rest, '/');
    struct str subtype = take_token(&rest);
    skip_blanks(&rest);
    if (!good || type.n == 0 || subtype.n == 0 || type.n + 1 + subtype.n > MAX_MEDIA_TYPE ||
        (rest.n > 0 && *rest.p != ';'))
        return false;
    for (size_t i = 0; i < type.n + 1 + subtype.n; i++) {
        char c = type.p[i];
        buf_putc(ret, c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c);
    }
    return true;
}

static bool has_bytes(struct str head, size_t at, struct str bytes)
{
    return head.n >= at + bytes.n && memcmp(head.p + at, bytes.p, bytes.n) == 0;
}

const char *image_type(struct str head)
{
    if (has_bytes(head, 0, STR("\x89PNG\r\n\x1a\n")))
        return "image/png";
    if (has_bytes(head, 0, STR("\xff\xd8\xff")))
        return "image/jpeg";
    if (has_bytes(head, 0, STR("GIF87a")) || has_bytes(head, 0, STR("GIF89a")))
        return "image/gif";
    if (has_bytes(head, 0, STR("RIFF")) && has_bytes(head, 8, STR("WEBP")))
        return "image/webp";
    if (has_bytes(head, 4, STR("ftypavif")))
        return "image/avif";
    return NULL;
}

/* --- ranges ----------------------------------------------------------------------------------- */

/* False without digits, or when they are too many for a size. */
static bool take_number(struct str *rest, int64_t *ret)
{
    size_t n = 0;
    *ret = 0;
    for (; n < rest->n && is_digit(rest->p[n]) && n < 18; n++)
        *ret = *ret * 10 + (rest->p[n] - '0');
    bool good = n > 0 && (n == rest->n || !is_digit(rest->p[n]));
    *rest = str_from(*rest, n);
    return good;
}

enum range_verdict range_read(struct str value, int64_t size, int64_t *ret_from, int64_t *ret_n)
{
    struct str rest = str_trim(value);
    int64_t from = 0, last = size - 1;
    *ret_from = 0;
    *ret_n = size;
    if (!str_begins_nocase(rest, STR("bytes=")))
        return RANGE_ALL;
    rest = str_from(rest, sizeof "bytes=" - 1);
    skip_blanks(&rest);
    if (skip_char(&rest, '-')) { /* the last so many */
        if (!take_number(&rest, &last) || rest.n > 0)
            return RANGE_ALL;
        from = last == 0 ? size : last < size ? size - last : 0;
        last = size - 1;
    } else {
        if (!take_number(&rest, &from) || !skip_char(&rest, '-'))
            return RANGE_ALL;
        if (rest.n > 0 && (!take_number(&rest, &last) || rest.n > 0 || last < from))
            return RANGE_ALL;
    }
    if (from >= size)
        return RANGE_NONE;
    *ret_from = from;
    *ret_n = (last < size ? last + 1 : size) - from;
    return RANGE_PART;
}
