/* block -- an immutable run of one task's event lines, ready to send.
 *
 * Shape:    whole lines, each with its newline, seqs first to last without a gap.  About 16 KiB
 *           (BLOCK_BYTES); a single long line may make a larger one.
 * Thread:   made on any thread, then handed over; the count is touched on the loop thread only.
 * Owns:     reference counted: block_ref, block_unref.
 */
#ifndef CORE_BLOCK_H
#define CORE_BLOCK_H

#include "proto/base.h"

#define BLOCK_BYTES 16384 /* a tail of this size is sealed */

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

#endif
