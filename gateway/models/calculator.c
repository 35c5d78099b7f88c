#include "gateway/models/calculator.h"

#include <math.h>
#include <stdlib.h>

#include "proto/str.h"

/* Design.  Recursive descent; every nesting goes through signed, which counts, so that no input
 * exhausts the stack.
 *
 *   sum      product ((+|-) product)*
 *   product signed ((*|/|%) signed)*
 *   signed   (+|-) signed | power
 *   power    operand (^ signed)?
 *   operand number | constant | function ( sum (, sum)* ) | ( sum )
 *
 * The first fault sticks: from then on everything returns at once, and values are meaningless. */

struct function {
    const char *name;
    unsigned min_args, max_args; /* UINT_MAX: any number, folded from the left */
    double (*one)(double x);
    double (*two)(double x, double y);
};

static const struct function functions[] = {
    {"sqrt", 1, 1, sqrt, NULL},
    {"abs", 1, 1, fabs, NULL},
    {"round", 1, 1, round, NULL},
    {"floor", 1, 1, floor, NULL},
    {"ceil", 1, 1, ceil, NULL},
    {"min", 1, UINT32_MAX, NULL, fmin},
    {"max", 1, UINT32_MAX, NULL, fmax},
    {"pow", 2, 2, NULL, pow},
    {"ln", 1, 1, log, NULL},
    {"log10", 1, 1, log10, NULL},
    {"exp", 1, 1, exp, NULL},
    {"sin", 1, 1, sin, NULL},
    {"cos", 1, 1, cos, NULL},
    {"tan", 1, 1, tan, NULL},
};

static const struct {
    const char *name;
    double value;
} constants[] = {{"pi", M_PI}, {"e", M_E}};

struct parser {
    const char *begin, *p, *end; /* *end is a NUL */
    unsigned depth;
    bool failed;
    struct buf *error;
};

static double parse_sum(struct parser *c);
static double parse_signed(struct parser *c);

/* --- faults ----------------------------------------------------------------------------------- */

static double calculator_fail(struct parser *c, const char *what)
{
    if (!c->failed)
        buf_puts(c->error, what);
    c->failed = true;
    return 0;
}

/* Counts characters, not bytes. */
static double fail_here(struct parser *c, const char *expected)
{
    size_t position = 1;
    for (const char *p = c->begin; p < c->p; p++)
        position += ((unsigned char)*p & 0xC0) != 0x80;
    if (!c->failed)
        buf_putf(c->error, "syntax error at position %zu: %s expected", position, expected);
    c->failed = true;
    return 0;
}

/* Every result of an operator or a function passes through here. */
static double checked(struct parser *c, double value)
{
    if (c->failed)
        return 0;
    if (isnan(value))
        return calculator_fail(c, "the result is not a real number");
    if (isinf(value))
        return calculator_fail(c, "the result is too large");
    return value;
}

static bool enter(struct parser *c)
{
    if (c->depth == CALCULATOR_DEPTH) {
        if (!c->failed)
            buf_putf(c->error, "the expression is nested deeper than %d", CALCULATOR_DEPTH);
        c->failed = true;
        return false;
    }
    c->depth++;
    return true;
}

/* --- signs ------------------------------------------------------------------------------------ */

static char peek(struct parser *c)
{
    while (c->p < c->end && strchr(" \t\r\n", *c->p) && *c->p)
        c->p++;
    return c->p < c->end ? *c->p : 0;
}

static bool calculator_take(struct parser *c, char sign)
{
    if (c->failed || c->p == c->end || peek(c) != sign)
        return false;
    c->p++;
    return true;
}

static bool is_letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
}

/* --- operands --------------------------------------------------------------------------------- */

static double parse_number(struct parser *c)
{
    char *end;
    if (c->p[0] == '0' && (c->p[1] == 'x' || c->p[1] == 'X')) { /* strtod would read hexadecimal */
        c->p++;
        return 0;
    }
    double value = strtod(c->p, &end);
    if (end == c->p)
        return fail_here(c, "a number");
    c->p = end;
    return isinf(value) ? calculator_fail(c, "a number is too large") : value;
}

static struct str take_word(struct parser *c)
{
    const char *begin = c->p;
    while (c->p < c->end && (is_letter(*c->p) || is_digit(*c->p)))
        c->p++;
    return (struct str){begin, (size_t)(c->p - begin)};
}

static bool is_called(struct str name, const char *text)
{
    return name.n == strlen(text) && memcmp(name.p, text, name.n) == 0;
}

static const struct function *find_function(struct str name)
{
    for (size_t i = 0; i < countof(functions); i++)
        if (is_called(name, functions[i].name))
            return &functions[i];
    return NULL;
}

static const double *find_constant(struct str name)
{
    for (size_t i = 0; i < countof(constants); i++)
        if (is_called(name, constants[i].name))
            return &constants[i].value;
    return NULL;
}

static double parse_arguments(struct parser *c, const struct function *f)
{
    unsigned n = 0;
    double value = 0;
    do {
        double next = parse_sum(c);
        n++;
        if (f->one)
            value = f->one(next);
        else
            value = n == 1 ? next : f->two(value, next);
    } while (n < f->max_args && calculator_take(c, ','));
    if (n < f->min_args)
        return fail_here(c, "\",\"");
    if (!calculator_take(c, ')'))
        return fail_here(c, n < f->max_args ? "\",\" or \")\"" : "\")\"");
    return checked(c, value);
}

static double parse_word(struct parser *c)
{
    const char *begin = c->p;
    struct str word = take_word(c);
    const double *constant = find_constant(word);
    if (constant)
        return *constant;
    const struct function *f = find_function(word);
    if (!f) {
        c->p = begin;
        return fail_here(c, "a number, a function or a constant");
    }
    if (!calculator_take(c, '('))
        return fail_here(c, "\"(\"");
    return parse_arguments(c, f);
}

static double parse_operand(struct parser *c)
{
    double value = 0;
    char ch = peek(c);
    if (c->failed)
        return 0;
    if (ch == '(') {
        c->p++;
        value = parse_sum(c);
        if (!calculator_take(c, ')'))
            fail_here(c, "an operator or \")\"");
    } else if (is_letter(ch)) {
        value = parse_word(c);
    } else if (is_digit(ch) || ch == '.') {
        value = parse_number(c);
    } else {
        fail_here(c, "a number");
    }
    return value;
}

/* --- operators -------------------------------------------------------------------------------- */

static double parse_power(struct parser *c)
{
    double base = parse_operand(c);
    if (!calculator_take(c, '^'))
        return base;
    double exponent = parse_signed(c);
    if (!c->failed && base == 0 && exponent < 0)
        return calculator_fail(c, "division by zero");
    return checked(c, pow(base, exponent));
}

static double parse_signed(struct parser *c)
{
    double value;
    if (c->failed || !enter(c))
        return 0;
    if (calculator_take(c, '-'))
        value = -parse_signed(c);
    else if (calculator_take(c, '+'))
        value = parse_signed(c);
    else
        value = parse_power(c);
    c->depth--;
    return value;
}

static double parse_product(struct parser *c)
{
    double value = parse_signed(c);
    while (!c->failed) {
        char sign = peek(c);
        if (sign != '*' && sign != '/' && sign != '%')
            break;
        c->p++;
        double right = parse_signed(c);
        if (c->failed)
            break;
        if (sign != '*' && right == 0)
            return calculator_fail(c, "division by zero");
        double result = sign == '*'   ? value * right
                        : sign == '/' ? value / right
                                      : fmod(value, right);
        value = checked(c, result);
    }
    return value;
}

static double parse_sum(struct parser *c)
{
    double value = parse_product(c);
    while (!c->failed) {
        if (calculator_take(c, '+'))
            value = checked(c, value + parse_product(c));
        else if (calculator_take(c, '-'))
            value = checked(c, value - parse_product(c));
        else
            break;
    }
    return value;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void put_value(struct buf *out, double value)
{
    const double exact = 9007199254740992.0; /* 2^53: up to here every integer is a double */
    if (value == 0)
        buf_putc(out, '0'); /* never "-0" */
    else if (fabs(value) <= exact && value == trunc(value))
        buf_putf(out, "%.0f", value);
    else
        buf_putf(out, "%.15g", value);
}

bool calculate(struct str expression, struct buf *out)
{
    struct buf copy = {0};
    buf_putstr(&copy, expression); /* for the NUL after it, which strtod needs */
    buf_putc(&copy, 0);
    struct parser c = {
        .begin = copy.bytes, .p = copy.bytes, .end = copy.bytes + copy.len - 1, .error = out};
    double value = parse_sum(&c);
    peek(&c);
    if (!c.failed && c.p < c.end)
        fail_here(&c, "an operator");
    buf_done(&copy);
    if (!c.failed)
        put_value(out, value);
    return !c.failed;
}

bool calculator_has_function(struct str name)
{
    return find_function(name) != NULL;
}

bool calculator_has_constant(struct str name)
{
    return find_constant(name) != NULL;
}
