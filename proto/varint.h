/* varint -- unsigned numbers in few bytes, seven bits in each, low ones first.
 *
 * Thread:   any.
 */
#ifndef PROTO_VARINT_H
#define PROTO_VARINT_H

#include "proto/base.h"

#define VARINT_MAX 10 /* bytes of one number */

static inline size_t varint_size(uint64_t n)
{
    size_t size = 1;
    for (; n >= 0x80; n >>= 7)
        size++;
    return size;
}

/* Writes one; returns the position after it. */
static inline unsigned char *varint_put(unsigned char *to, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        *to++ = (unsigned char)(n | 0x80);
    *to++ = (unsigned char)n;
    return to;
}

/* Takes one off the front; false when there is no whole number. */
static inline bool varint_take(struct str *from, uint64_t *ret)
{
    uint64_t n = 0;
    for (unsigned shift = 0; from->n > 0 && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*from->p++;
        from->n--;
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = n;
            return true;
        }
    }
    return false;
}

#endif
