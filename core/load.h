/* load -- a read of blocks that a cursor waits for, or will need soon.
 *
 * Shape:    one for each stream at a time.  Blocks that the store has go into the cache.  For
 *           missing ones the task's record decides: the task was removed, or its events were, or
 *           they are damaged.  All cursors of the stream are woken when that is known.
 * Thread:   loop.
 * Owns:     itself, from load_begin until the cursors are woken.
 * Errors:   a store that cannot be read is asked again, for hub_options.retry_ms; then readers get
 *           an error.
 */
#ifndef CORE_LOAD_H
#define CORE_LOAD_H

#include "core/hub.h"

void load_begin(struct hub *h, struct cursor *c);
/* For a cursor that has taken lines: reads on before it has to wait, unless enough is there. */
void load_ahead(struct hub *h, struct cursor *c);
/* In hub_done: the store gave no answer, and the load waits to ask again. */
void load_drop(struct stream *s);

#endif
