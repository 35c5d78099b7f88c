/* buf -- growable bytes.
 *
 * Shape:    a zeroed struct is a valid empty buffer.  Once anything was put, bytes[len] is always a
 *           readable NUL.
 * Thread:   any; one at a time.
 * Owns:     its bytes; buf_done frees them, buf_take hands them over (free() them).
 * Errors:   growth aborts when memory is out.  When a peer chooses the size, the caller checks the
 *           limit first (limits.h).
 */
#ifndef PROTO_BUF_H
#define PROTO_BUF_H

#include "proto/base.h"

struct buf {
    char *bytes;
    size_t len;
    size_t cap;
};

void buf_done(struct buf *b); /* frees; leaves an empty, usable buffer */
static inline void buf_clear(struct buf *b)
{
    b->len = 0;
}
void buf_grow(struct buf *b, size_t need);
/* Makes room for n more bytes and returns a pointer to the end of the contents; add the bytes used
 * to len. */
static inline char *buf_reserve(struct buf *b, size_t n)
{
    if (b->cap - b->len <= n)
        buf_grow(b, b->len + n + 1); /* one byte more, for the NUL */
    return b->bytes + b->len;
}
/* Inline, so that a literal costs a few stores. */
static inline void buf_put(struct buf *b, const void *bytes, size_t n)
{
    char *to = buf_reserve(b, n);
    if (n)
        memcpy(to, bytes, n);
    to[n] = 0;
    b->len += n;
}
static inline void buf_putc(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}
static inline void buf_puts(struct buf *b, const char *text)
{
    buf_put(b, text, strlen(text));
}
static inline void buf_putstr(struct buf *b, struct str s)
{
    buf_put(b, s.p, s.n);
}
void buf_putf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_put_u64(struct buf *b, uint64_t n);
size_t u64_digits(uint64_t n); /* digits that buf_put_u64 writes */
/* Drops n bytes at the front (memmove: for small remainders). */
void buf_consume(struct buf *b, size_t n);
char *buf_take(struct buf *b);
static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->bytes ? b->bytes : "", b->len};
}

#endif
