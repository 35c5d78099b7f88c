/* block -- an immutable run of one task's event lines, ready to send.
 *
 * Shape:    whole lines, each with its newline, seqs first to last without a gap.  A store keeps
 *           16 KiB (BLOCK_BYTES) to 64 KiB (BLOCK_MOST) in one: less when a task was silent or has
 *           ended, more when one line is longer.
 * Thread:   made on any thread, then handed over; the count is touched on the loop thread only.
 * Owns:     reference counted: block_ref, block_unref.
 */
#ifndef CORE_BLOCK_H
#define CORE_BLOCK_H

#include "proto/base.h"

#define BLOCK_BYTES 16384            /* a tail of this size is sealed */
#define BLOCK_MOST (4 * BLOCK_BYTES) /* of a longer tail a store makes several blocks */

struct block {
    uint32_t refs;
    uint32_t len;
    int64_t task_key;
    uint64_t first, last;
    void (*give_back)(
        struct block *block); /* its memory, where that is not the heap's; else NULL */
    char bytes[];
};

/* One reference, bytes not yet filled; NULL when memory is out. */
struct block *block_new(int64_t task_key, uint64_t first, uint64_t last, size_t len);
struct block *block_ref(struct block *b);
void block_unref(struct block *b); /* NULL is fine */

/* Whole lines that somebody else keeps. */
struct lines {
    uint64_t first, last;
    struct str bytes;
};
/* Moves from the front of left to ret what makes one block: what fits into BLOCK_MOST, but one line
 * at least.  A reader takes a block as a whole, and sends nothing before it has it.  False when
 * nothing is left. */
bool lines_take_block(struct lines *left, struct lines *ret);

#endif
