/* block_slab -- memory for the blocks that a replay reads from the store.
 *
 * Shape:    chunks of 2 MiB, each a huge page where the system has such; a block takes a run of
 *           units in one of them.  A page that is touched for the first time costs more than the
 *           reading of what is put there, and a huge page is touched once for five hundred.
 * Thread:   any.  One for the process, as malloc is.
 * Owns:     at most BLOCK_SLAB_BYTES; what does not fit comes from the heap.
 * Errors:   NULL when there is no memory.
 */
#ifndef GATEWAY_STORE_BLOCK_SLAB_H
#define GATEWAY_STORE_BLOCK_SLAB_H

#include "core/block.h"

#define BLOCK_SLAB_BYTES (64u << 20)

/* As block_new; given back by block_free. */
struct block *block_slab_new(int64_t task_key, uint64_t first, uint64_t last, size_t len);
/* What it has from the system now. */
size_t block_slab_bytes(void);

#endif
