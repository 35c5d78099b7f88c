#include "core/block.h"

#include <stdlib.h>

#include "proto/event.h"

#define GRAIN 2048

struct block *block_new(int64_t task_key, uint64_t first, uint64_t last, size_t len)
{
    /* Few sizes, so that one block's memory serves the next; otherwise a long replay leaves
     * holes. */
    size_t bytes = (sizeof(struct block) + len + GRAIN - 1) / GRAIN * GRAIN;
    struct block *b = try_alloc(len < GRAIN ? sizeof *b + len : bytes);
    if (!b)
        return NULL;
    *b = (struct block){.len = (uint32_t)len, .task_key = task_key, .first = first, .last = last};
    return b;
}

void block_free(struct block *b)
{
    if (b && b->give_back)
        b->give_back(b);
    else
        free(b);
}

bool lines_take_block(struct lines *left, struct lines *ret)
{
    struct str all = left->bytes;
    *ret = *left;
    if (all.n > BLOCK_MOST) {
        const char *end = memrchr(all.p, '\n', BLOCK_MOST);
        if (!end)
            end = memchr(all.p, '\n', all.n);
        ret->bytes.n = (size_t)(end - all.p) + 1;
    }
    left->bytes = (struct str){all.p + ret->bytes.n, all.n - ret->bytes.n};
    if (left->bytes.n > 0) {
        left->first = event_line_seq(left->bytes.p, left->bytes.n);
        ret->last = left->first - 1;
    }
    return all.n > 0;
}
