/* slot -- the part of a store that an owner's rows belong to: the unit in which nodes share one.
 *
 * Shape:    a hash of the owner's name, the same in every version and on every machine: rows carry
 *           it, so it may never change.  A store of one node has all slots.
 * Thread:   any.
 */
#ifndef CORE_SLOT_H
#define CORE_SLOT_H

#include "proto/base.h"
#include "proto/buf.h"

#define N_SLOTS 4096

#define SLOTS_HEX (N_SLOTS / 4)

unsigned slot_of(struct str owner); /* FNV-1a of 64 bits, folded: 0 … N_SLOTS - 1 */

struct slots {
    uint64_t bits[N_SLOTS / 64];
};
static inline bool slots_has(const struct slots *s, unsigned slot)
{
    return (s->bits[slot / 64] >> slot % 64 & 1) != 0;
}
static inline void slots_add(struct slots *s, unsigned slot)
{
    s->bits[slot / 64] |= (uint64_t)1 << slot % 64;
}
static inline void slots_add_all(struct slots *s)
{
    for (size_t i = 0; i < countof(s->bits); i++)
        s->bits[i] = UINT64_MAX;
}
static inline unsigned slots_count(const struct slots *s)
{
    unsigned n = 0;
    for (size_t i = 0; i < countof(s->bits); i++)
        n += (unsigned)__builtin_popcountll(s->bits[i]);
    return n;
}
static inline void slots_add_those(struct slots *s, const struct slots *those)
{
    for (size_t i = 0; i < countof(s->bits); i++)
        s->bits[i] |= those->bits[i];
}
static inline void slots_less(struct slots *s, const struct slots *those)
{
    for (size_t i = 0; i < countof(s->bits); i++)
        s->bits[i] &= ~those->bits[i];
}
/* On a wire: SLOTS_HEX hexadecimal digits; false: it is something else. */
void slots_put(const struct slots *s, struct buf *out);
bool slots_read(struct str digits, struct slots *ret);
static inline void slots_take(struct slots *s, unsigned slot)
{
    s->bits[slot / 64] &= ~((uint64_t)1 << slot % 64);
}

#endif
