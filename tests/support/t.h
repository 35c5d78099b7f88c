/* t -- what every cmocka test includes: the headers in the order that cmocka needs, and a few
 * helpers. cmocka's asserts longjmp: tests own what they allocate in fixtures, or free it before
 * they assert.
 *
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_T_H
#define TESTS_SUPPORT_T_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "proto/base.h"
#include "proto/buf.h"

#ifndef __has_feature /* clang's equivalent of gcc's __SANITIZE_ADDRESS__ */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define T_ADDRESS /* each step takes ten times as long, and a process is slow to begin and to end */
#endif

/* How often: so many times, or so few in a short run (./dev test), which HOLDFAST_SHORT says. */
static inline unsigned t_often(unsigned many, unsigned few)
{
    return getenv("HOLDFAST_SHORT") ? few : many;
}

/* JSON in C without backslashes: json("{'type':'hello'}") is {"type":"hello"}, and a format is one
 * still.  It takes a literal (or several), and gives a text that lives as long as the test. */
#define json(literal) t_json("" literal "")

static inline const char *t_json(const char *literal) __attribute__((format_arg(1)));
static inline const char *t_json(const char *literal)
{
    static struct json_text {
        struct json_text *next;
        const char *literal;
        char text[];
    } * texts[256]; /* one for each place, however often it is reached */
    struct json_text **bucket = &texts[(uintptr_t)literal / 8 % countof(texts)], *t;
    for (t = *bucket; t; t = t->next)
        if (t->literal == literal)
            return t->text;
    size_t n = strlen(literal) + 1;
    t = malloc(sizeof *t + n);
    ASSERT(t);
    *t = (struct json_text){.next = *bucket, .literal = literal};
    for (size_t i = 0; i < n; i++)
        t->text[i] = literal[i] == '\'' ? '"' : literal[i];
    return (*bucket = t)->text;
}

/* The span holds exactly these bytes; on failure both are shown. */
#define assert_span(span, expected, n) t_assert_span((span), (expected), (n), __FILE__, __LINE__)
#define assert_text(span, text) t_assert_text((span), (text), __FILE__, __LINE__)
#define assert_null_span(span) assert_null((span).p)

static inline void t_assert_span(struct str got, const char *expected, size_t n, const char *file,
                                 int line)
{
    if (got.p && got.n == n && (n == 0 || memcmp(got.p, expected, n) == 0))
        return;
    print_error("got      (%zu bytes): %.*s\nexpected (%zu bytes): %.*s\n", got.n, (int)got.n,
                got.p ? got.p : "NULL", n, (int)n, expected);
    _fail(file, line);
}

static inline void t_assert_text(struct str got, const char *expected, const char *file, int line)
{
    t_assert_span(got, expected, strlen(expected), file, line);
}

/* Random numbers (splitmix64) from a seed that T_SEED may give, and that a failing test prints. */
static inline uint64_t t_seed(void)
{
    const char *given = getenv("T_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20240229;
    print_message("T_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline uint64_t t_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline size_t t_below(uint64_t *state, size_t n)
{
    ASSERT(n > 0);
    return (size_t)(t_random(state) % n);
}

#endif
