/* block_slab -- memory for the blocks that a replay reads from the store.
 *
 * Shape:    chunks of 2 MiB, each a huge page where the system has them; a block takes a run of
 *           units in one of them.  Touching a page for the first time costs more than reading its
 *           contents, and one touch of a huge page replaces five hundred.
 * Thread:   any.  There is one for the process, like malloc.
 * Owns:     at most BLOCK_SLAB_BYTES; blocks that do not fit come from the heap.
 * Errors:   NULL when there is no memory.
 */
#ifndef GATEWAY_STORE_BLOCK_SLAB_H
#define GATEWAY_STORE_BLOCK_SLAB_H

#include "core/block.h"

#define BLOCK_SLAB_BYTES (64u << 20)

/* Like block_new; block_free returns the memory. */
struct block *block_slab_new(int64_t task_key, uint64_t first, uint64_t last, size_t len);
/* How much it has from the system now. */
size_t block_slab_bytes(void);

#endif
