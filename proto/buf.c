#include "proto/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buf_done(struct buf *b)
{
    free(b->bytes);
    *b = (struct buf){0};
}

#define MIN_CAP 56

/* Grows by half, which wastes at most a third, and rounds up as the heap would. */
void buf_grow(struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap + b->cap / 2 : MIN_CAP;
    if (cap < need)
        cap = need;
    cap = ((cap + 8 + 15) & ~(size_t)15) - 8;
    b->bytes = xrealloc(b->bytes, cap);
    b->cap = cap;
}

void buf_putf(struct buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): version 14 does not see va_start */
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(n >= 0);
    char *to = buf_reserve(b, (size_t)n);
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the same */
    vsnprintf(to, (size_t)n + 1, format, args);
    va_end(args);
    b->len += (size_t)n;
}

size_t u64_digits(uint64_t n)
{
    size_t digits = 1;
    while (n >= 10) {
        n /= 10;
        digits++;
    }
    return digits;
}

void buf_put_u64(struct buf *b, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    buf_put(b, digits + at, sizeof digits - at);
}

void buf_consume(struct buf *b, size_t n)
{
    ASSERT(n <= b->len);
    if (n == 0)
        return;
    memmove(b->bytes, b->bytes + n, b->len - n);
    b->len -= n;
    b->bytes[b->len] = 0;
}

char *buf_take(struct buf *b)
{
    char *bytes = b->bytes ? b->bytes : xcalloc(1);
    *b = (struct buf){0};
    return bytes;
}
