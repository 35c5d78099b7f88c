#include "core/slot.h"

unsigned slot_of(struct str owner)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < owner.n; i++)
        h = (h ^ (unsigned char)owner.p[i]) * 0x100000001b3;
    h ^= h >> 32;
    return (unsigned)((h ^ h >> 16) % N_SLOTS);
}
