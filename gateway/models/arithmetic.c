#include "gateway/models/arithmetic.h"

#include <strings.h>

#include "gateway/models/calculator.h"
#include "proto/str.h"

/* Design.  A scan from left to right.  Wherever a word may begin, it tries a run: operand,
 * operator, operand … as far as possible, each written to out in the calculator's form.  A run
 * counts up to its last operand, and only if it computes something. */

struct sign {
    const char *text, *form; /* what it is written as */
    bool postfix;            /* an operand stays an operand */
};

/* Among two that begin alike, the longer one comes first. */
static const struct sign signs[] = {
    {"**", "^", false},
    {"+", " + ", false},
    {"-", " - ", false},
    {"*", " * ", false},
    {"/", " / ", false},
    {"^", "^", false},
    {"% of", " / 100 * ", false},
    {"%", " % ", false},
    {"\xc3\x97", " * ", false},     /* multiplication sign */
    {"\xc3\xb7", " / ", false},     /* division sign */
    {"\xc2\xb7", " * ", false},     /* middle dot */
    {"\xe2\x88\x92", " - ", false}, /* minus sign */
    {"percent of", " / 100 * ", false},
    {"plus", " + ", false},
    {"minus", " - ", false},
    {"times", " * ", false},
    {"multiplied by", " * ", false},
    {"divided by", " / ", false},
    {"mod", " % ", false},
    {"x", " * ", false},
    {"to the power of", "^", false},
    {"squared", "^2", true},
    {"cubed", "^3", true},
};

struct scan {
    const char *p, *end;
    struct buf *out;
    size_t begin;     /* where the run begins in out */
    size_t good;      /* out's length after the last operand; 0: none yet */
    unsigned n_done;  /* operators and calls that have all their operands */
    unsigned n_asked; /* those that were begun */
    unsigned depth;   /* open parentheses */
    bool want_operand;
};

/* Bytes beyond ASCII count: no word ends in the middle of "über". */
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static size_t digits(const char *p, const char *end)
{
    const char *begin = p;
    while (p < end && is_digit(*p))
        p++;
    return (size_t)(p - begin);
}

static size_t word_length(const char *p, const char *end)
{
    const char *begin = p;
    while (p < end && is_word(*p))
        p++;
    return (size_t)(p - begin);
}

static bool has_sign(const struct scan *s, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(s->end - s->p) < n || strncasecmp(s->p, text, n) != 0)
        return false;
    bool letters = text[n - 1] >= 'a' && text[n - 1] <= 'z';
    return !letters || s->p + n == s->end || !is_word(s->p[n]);
}

static void skip_spaces(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
        s->p++;
}

/* 2024-05-01 */
static size_t date_length(const char *p, const char *end)
{
    if (digits(p, end) != 4 || end - p < 10 || p[4] != '-' || p[7] != '-')
        return 0;
    return digits(p + 5, end) == 2 && digits(p + 8, end) == 2 ? 10 : 0;
}

/* ,123 as in 1,234: only where a comma cannot separate arguments. */
static bool is_thousands(const struct scan *s)
{
    return s->depth == 0 && s->p < s->end && *s->p == ',' && digits(s->p + 1, s->end) == 3;
}

static void arithmetic_take(struct scan *s, size_t n)
{
    buf_put(s->out, s->p, n);
    s->p += n;
}

static void take_number(struct scan *s)
{
    arithmetic_take(s, digits(s->p, s->end));
    while (is_thousands(s)) {
        s->p++;
        arithmetic_take(s, 3);
    }
    if (s->end - s->p >= 2 && s->p[0] == '.' && is_digit(s->p[1])) {
        arithmetic_take(s, 1);
        arithmetic_take(s, digits(s->p, s->end));
    }
    if (s->p == s->end || (*s->p | 0x20) != 'e')
        return;
    size_t sign = s->end - s->p >= 2 && (s->p[1] == '-' || s->p[1] == '+');
    size_t n = digits(s->p + 1 + sign < s->end ? s->p + 1 + sign : s->end, s->end);
    if (n)
        arithmetic_take(s, 1 + sign + n);
}

static void have_operand(struct scan *s)
{
    s->want_operand = false;
    s->n_done = s->n_asked;
    s->good = s->out->len;
}

/* A function with its parenthesis, or a constant. */
static bool take_name(struct scan *s)
{
    struct str word = {s->p, word_length(s->p, s->end)};
    if (calculator_has_constant(word)) {
        arithmetic_take(s, word.n);
        have_operand(s);
        return true;
    }
    if (!calculator_has_function(word) || s->p + word.n == s->end || s->p[word.n] != '(')
        return false;
    arithmetic_take(s, word.n + 1);
    s->depth++;
    s->n_asked++;
    return true;
}

static bool take_operand(struct scan *s)
{
    if (s->p == s->end)
        return false;
    if (*s->p == '-' || *s->p == '(') {
        s->depth += *s->p == '(';
        arithmetic_take(s, 1);
        return true;
    }
    bool fraction = *s->p == '.' && s->end - s->p >= 2 && is_digit(s->p[1]);
    if (!is_digit(*s->p) && !fraction)
        return take_name(s);
    if (date_length(s->p, s->end))
        return false;
    take_number(s);
    have_operand(s);
    return true;
}

static bool take_sign(struct scan *s)
{
    if (s->p < s->end && s->depth && (*s->p == ')' || *s->p == ',')) {
        s->want_operand = *s->p == ',';
        s->depth -= *s->p == ')';
        buf_puts(s->out, s->want_operand ? ", " : ")");
        s->p++;
        if (!s->want_operand)
            have_operand(s);
        return true;
    }
    for (size_t i = 0; i < countof(signs); i++) {
        if (!has_sign(s, signs[i].text))
            continue;
        s->p += strlen(signs[i].text);
        buf_puts(s->out, signs[i].form);
        s->want_operand = true;
        s->n_asked++;
        if (signs[i].postfix)
            have_operand(s);
        return true;
    }
    return false;
}

/* False, with p after the examined text, when no expression begins here. */
static bool take_run(struct scan *s)
{
    s->begin = s->out->len;
    s->good = 0;
    s->n_done = s->n_asked = s->depth = 0;
    s->want_operand = true;
    do
        skip_spaces(s);
    while (s->want_operand ? take_operand(s) : take_sign(s));
    s->out->len = s->n_done ? s->good : s->begin;
    return s->n_done > 0;
}

bool arithmetic_find(struct str text, struct buf *out)
{
    struct scan s = {.p = text.p, .end = text.p + text.n, .out = out};
    while (s.p < s.end) {
        const char *before = s.p;
        if (take_run(&s))
            return true;
        if (s.p > before && is_word(s.p[-1]))
            continue; /* the next run may begin with what ended this one */
        size_t skip = date_length(s.p, s.end);
        if (!skip && s.p < s.end)
            skip = word_length(s.p, s.end);
        s.p += skip ? skip : s.p < s.end;
    }
    return false;
}
