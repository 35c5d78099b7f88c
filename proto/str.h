/* str -- spans of bytes (struct str, base.h) compared, trimmed and split.
 *
 * Thread:   any.
 * Owns:     nothing: results point into the arguments.
 */
#ifndef PROTO_STR_H
#define PROTO_STR_H

#include <strings.h>

#include "proto/base.h"

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Space and tab: what HTTP calls optional white space (RFC 9110 5.6.3). */
static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline struct str str_from(struct str text, size_t at)
{
    return (struct str){text.p + at, text.n - at};
}

/* The number whose digits it begins with; false without any, or when it does not fit. */
static inline bool str_take_u64(struct str *rest, uint64_t *ret)
{
    const size_t safe_digits = 19; /* of which every number fits */
    uint64_t value = 0;
    size_t i = 0;
    for (; i < rest->n && is_digit(rest->p[i]); i++) {
        uint64_t digit = (uint64_t)(rest->p[i] - '0');
        if (i < safe_digits)
            value = value * 10 + digit;
        else if (__builtin_mul_overflow(value, 10u, &value) ||
                 __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *rest = str_from(*rest, i);
    *ret = value;
    return i > 0;
}

static inline bool str_begins(struct str text, struct str with)
{
    return text.n >= with.n && (with.n == 0 || memcmp(text.p, with.p, with.n) == 0);
}

/* ASCII letters match in either case. */
static inline bool str_begins_nocase(struct str text, struct str with)
{
    return text.n >= with.n && (with.n == 0 || strncasecmp(text.p, with.p, with.n) == 0);
}

/* Whether it holds only spaces, tabs and line ends. */
static inline bool str_is_blank(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!is_blank(text.p[i]) && text.p[i] != '\r' && text.p[i] != '\n')
            return false;
    return true;
}

/* Removes the blanks around it. */
static inline struct str str_trim(struct str text)
{
    while (text.n > 0 && is_blank(text.p[0]))
        text = str_from(text, 1);
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    return text;
}

#endif
