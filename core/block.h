/* block -- an immutable run of one task's event lines, ready to send.
 *
 * Shape:    whole lines, each with its newline, seqs first to last without a gap.  A store keeps 16
 *           KiB (BLOCK_BYTES) to 64 KiB (BLOCK_MOST) in one: less when a task was silent or has
 *           ended, more when one line is longer.
 * Thread:   any; one at a time.
 * Owns:     its bytes.  It has one owner at a time, which passes it on or frees it.
 */
#ifndef CORE_BLOCK_H
#define CORE_BLOCK_H

#include "proto/base.h"

#define BLOCK_BYTES 16384            /* a tail of this size is sealed */
#define BLOCK_MOST (4 * BLOCK_BYTES) /* a store splits a longer tail into several blocks */

struct block {
    uint32_t len;
    uint32_t seen;  /* of one that is on its way to the store: bytes that were committed before */
    bool is_summed; /* its store has compared a checksum of all of this with what it wrote */
    int64_t task_key;
    uint64_t first, last;
    void (*give_back)(
        struct block *block); /* frees its memory when that is not the heap's, or NULL */
    char bytes[];
};

/* Its bytes are not filled yet; NULL when memory is out. */
struct block *block_new(int64_t task_key, uint64_t first, uint64_t last, size_t len);
void block_free(struct block *b); /* NULL is allowed */

/* Whole lines that somebody else owns. */
struct lines {
    uint64_t first, last;
    struct str bytes;
};
/* Moves the lines of one block from the front of left to ret: what fits into BLOCK_MOST, but at
 * least one line.  A reader takes a block as a whole, and sends nothing before it has it.  False
 * when nothing is left. */
bool lines_take_block(struct lines *left, struct lines *ret);

#endif
