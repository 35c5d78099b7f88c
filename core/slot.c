#include "core/slot.h"

#include <inttypes.h>

#include "proto/str.h"

unsigned slot_of(struct str owner)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < owner.n; i++)
        h = (h ^ (unsigned char)owner.p[i]) * 0x100000001b3;
    h ^= h >> 32;
    return (unsigned)((h ^ h >> 16) % N_SLOTS);
}

#define WORD_HEX 16 /* digits of a word of bits */

void slots_put(const struct slots *s, struct buf *out)
{
    for (size_t i = 0; i < countof(s->bits); i++)
        buf_putf(out, "%016" PRIx64, s->bits[i]);
}

static int hex_digit(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool slots_read(struct str digits, struct slots *ret)
{
    *ret = (struct slots){0};
    if (digits.n != SLOTS_HEX)
        return false;
    for (size_t i = 0; i < digits.n; i++) {
        int digit = hex_digit(digits.p[i]);
        if (digit < 0)
            return false;
        ret->bits[i / WORD_HEX] = ret->bits[i / WORD_HEX] << 4 | (uint64_t)digit;
    }
    return true;
}
