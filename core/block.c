#include "core/block.h"

#include <stdlib.h>

#define GRAIN 2048

struct block *block_new(int64_t task_key, uint64_t first, uint64_t last, size_t len)
{
    /* Few sizes, so that one block's memory serves the next: else a long replay leaves holes. */
    size_t bytes = (sizeof(struct block) + len + GRAIN - 1) / GRAIN * GRAIN;
    struct block *b = try_alloc(len < GRAIN ? sizeof *b + len : bytes);
    if (!b)
        return NULL;
    *b = (struct block){
        .refs = 1, .len = (uint32_t)len, .task_key = task_key, .first = first, .last = last};
    return b;
}

struct block *block_ref(struct block *b)
{
    ASSERT(b->refs > 0);
    b->refs++;
    return b;
}

void block_unref(struct block *b)
{
    if (!b)
        return;
    ASSERT(b->refs > 0);
    if (--b->refs > 0)
        return;
    if (b->give_back)
        b->give_back(b);
    else
        free(b);
}
