#include "core/secrets.h"

#include <stdlib.h>

struct secrets {
    struct str *list; /* the longest first, so that none hides a part of another */
    size_t n;
    bool firsts[256]; /* bytes that begin one */
};

struct secrets *secrets_new(void)
{
    return xcalloc(sizeof(struct secrets));
}

void secrets_free(struct secrets *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        explicit_bzero((char *)(uintptr_t)s->list[i].p, s->list[i].n);
        str_free(&s->list[i]);
    }
    free(s->list);
    free(s);
}

void secrets_add(struct secrets *s, struct str value)
{
    size_t at = 0;
    if (value.n < SECRET_MIN)
        return;
    for (size_t i = 0; i < s->n; i++) {
        if (str_eq(s->list[i], value))
            return;
        at += s->list[i].n >= value.n;
    }
    s->list = xrealloc(s->list, (s->n + 1) * sizeof *s->list);
    memmove(s->list + at + 1, s->list + at, (s->n - at) * sizeof *s->list);
    s->list[at] = str_own(value);
    s->n++;
    s->firsts[(unsigned char)value.p[0]] = true;
}

bool secrets_are_none(const struct secrets *s)
{
    return !s || s->n == 0;
}

/* --- plain text ------------------------------------------------------------------------------- */

/* The secret that the text begins with; 0 for none. */
static size_t secret_at(const struct secrets *s, struct str text)
{
    if (!s->firsts[(unsigned char)text.p[0]])
        return 0;
    for (size_t i = 0; i < s->n; i++)
        if (text.n >= s->list[i].n && memcmp(text.p, s->list[i].p, s->list[i].n) == 0)
            return s->list[i].n;
    return 0;
}

bool secrets_hide(const struct secrets *s, struct str text, struct buf *out)
{
    size_t from = 0, n;
    bool found = false;
    for (size_t at = 0; !secrets_are_none(s) && at < text.n; at += n ? n : 1) {
        n = secret_at(s, (struct str){text.p + at, text.n - at});
        if (!n)
            continue;
        buf_put(out, text.p + from, at - from);
        buf_puts(out, SECRET_HIDDEN);
        from = at + n;
        found = true;
    }
    if (found)
        buf_put(out, text.p + from, text.n - from);
    return found;
}

static bool begins_secret(const struct secrets *s, struct str text)
{
    for (size_t i = 0; i < s->n; i++)
        if (text.n < s->list[i].n && memcmp(text.p, s->list[i].p, text.n) == 0)
            return true;
    return false;
}

size_t secrets_tail(const struct secrets *s, struct str text)
{
    if (secrets_are_none(s))
        return 0;
    size_t longest = s->list[0].n - 1;
    for (size_t n = text.n < longest ? text.n : longest; n > 0; n--) {
        const char *p = text.p + text.n - n;
        if (s->firsts[(unsigned char)*p] && begins_secret(s, (struct str){p, n}))
            return n;
    }
    return 0;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static int hex_value(const char *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

/* The byte that a string has at p, and the place after it; -1 for an escape that is no byte. */
static int escaped_byte(const char *p, const char *end, const char **ret_next)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    *ret_next = p + 1;
    if (*p != '\\' || end - p < 2)
        return (unsigned char)*p;
    if (p[1] == 'u') {
        int value = end - p >= 6 ? hex_value(p + 2) : -1;
        *ret_next = end - p >= 6 ? p + 6 : end;
        return value < 0x80 ? value : -1;
    }
    *ret_next = p + 2;
    const char *found = strchr(from, p[1]);
    return found ? to[found - from] : p[1];
}

/* Where a secret that begins at p ends; NULL for none. */
static const char *secret_end(const struct secrets *s, const char *p, const char *end)
{
    const char *next;
    int first = escaped_byte(p, end, &next);
    if (first < 0 || !s->firsts[first])
        return NULL;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = 0;
        next = p;
        while (n < s->list[i].n && next < end &&
               escaped_byte(next, end, &next) == (unsigned char)s->list[i].p[n])
            n++;
        if (n == s->list[i].n)
            return next;
    }
    return NULL;
}

/* After the string that begins behind this quote: its closing quote. */
static const char *string_end(const char *p, const char *end)
{
    while (p < end && *p != '"')
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    return p;
}

static bool is_name(const char *closing, const char *end)
{
    const char *p = closing + 1;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p < end && *p == ':';
}

bool secrets_hide_json(const struct secrets *s, struct str json, struct buf *out)
{
    const char *from = json.p, *end = json.p + json.n;
    if (secrets_are_none(s))
        return false;
    for (const char *p = json.p; p < end; p++) {
        if (*p != '"')
            continue;
        const char *closing = string_end(p + 1, end);
        p = is_name(closing, end) ? closing : p + 1;
        while (p < closing) {
            const char *past = secret_end(s, p, closing);
            if (past) {
                buf_put(out, from, (size_t)(p - from));
                buf_puts(out, SECRET_HIDDEN);
                from = p = past;
            } else {
                (void)escaped_byte(p, closing, &p);
            }
        }
        p = closing;
    }
    if (from == json.p)
        return false;
    buf_put(out, from, (size_t)(end - from));
    return true;
}
