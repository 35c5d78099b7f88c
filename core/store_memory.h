/* store_memory -- a store that forgets: the reference backend, and the tests' double.
 *
 * Shape:    naive on purpose.  Lists are filtered and sorted per query, so that a reader can see
 *           that it is right; slow beyond some thousand rows.  It asserts what core promises: lines
 *           are dense, a seal holds exactly the task's tail and what follows it.
 * Thread:   one at a time, readers included.
 * Owns:     copies of everything committed; close frees them.
 * Errors:   STORE_IO for a task key, task id or message id that already exists, and when memory is
 *           out; then nothing has changed.
 */
#ifndef CORE_STORE_MEMORY_H
#define CORE_STORE_MEMORY_H

#include "core/store.h"

extern const struct store_ops store_memory_ops;

void *store_memory_new(void); /* passed to the ops as store; their close frees it */

#endif
