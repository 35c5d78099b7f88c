#include "proto/base.h"

#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "holdfast: assertion failed: %s (%s:%d)\n", what, file, line);
    abort();
}

static void *checked(void *p)
{
    if (!p) {
        fprintf(stderr, "holdfast: out of memory\n");
        abort();
    }
    return p;
}

void *xalloc(size_t bytes)
{
    return checked(malloc(bytes ? bytes : 1));
}

void *xcalloc(size_t bytes)
{
    return checked(calloc(1, bytes ? bytes : 1));
}

void *xrealloc(void *old, size_t bytes)
{
    return checked(realloc(old, bytes ? bytes : 1));
}

char *xstrdup(struct str s)
{
    if (!s.p)
        return NULL;
    char *copy = xalloc(s.n + 1);
    if (s.n)
        memcpy(copy, s.p, s.n);
    copy[s.n] = 0;
    return copy;
}

struct str str_own(struct str s)
{
    return (struct str){xstrdup(s), s.n};
}

void str_free(struct str *s)
{
    free((void *)(uintptr_t)s->p);
    *s = STR_NULL;
}

void *try_alloc(size_t bytes)
{
    return malloc(bytes ? bytes : 1);
}

void *try_realloc(void *old, size_t bytes)
{
    return realloc(old, bytes ? bytes : 1);
}
