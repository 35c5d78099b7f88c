/* base -- the few helpers that every file uses: assertions, checked allocation, spans of bytes.
 *
 * Thread:   any.
 * Errors:   the x- functions abort when memory is out (bookkeeping); the try_ functions return NULL
 *           (sizes that a peer chooses).
 */
#ifndef PROTO_BASE_H
#define PROTO_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bugs of our own end the process at once, in release builds too.  Never assert on input, disk or
 * network. */
#define ASSERT(cond) ((cond) ? (void)0 : assert_failed(#cond, __FILE__, __LINE__))
#define UNREACHABLE() assert_failed("unreachable", __FILE__, __LINE__)
_Noreturn void assert_failed(const char *what, const char *file, int line);

#define MUST_USE __attribute__((warn_unused_result))
#define countof(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Time is milliseconds everywhere: monotonic unless the name says wall. */
typedef int64_t msec_t;

/* A span of bytes that somebody else owns. p is NULL for "absent" (JSON null).  The bytes are not
 * NUL-terminated and may contain NUL. */
struct str {
    const char *p;
    size_t n;
};
#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_NULL ((struct str){NULL, 0})

static inline struct str str_of(const char *text)
{
    return text ? (struct str){text, strlen(text)} : STR_NULL;
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Like malloc, calloc, realloc and strndup, but never NULL. */
void *xalloc(size_t bytes);
void *xcalloc(size_t bytes);
void *xrealloc(void *old, size_t bytes);
char *xstrdup(struct str s); /* a NUL-terminated copy; NULL for STR_NULL */
/* A copy that str_free frees; STR_NULL stays STR_NULL. */
struct str str_own(struct str s);
void str_free(struct str *s);
/* NULL when memory is out: for sizes that a peer or the configuration chooses. */
void *try_alloc(size_t bytes);
void *try_realloc(void *old, size_t bytes);

#endif
