/* query_retry -- a query that is put again while the store cannot be read.
 *
 * Shape:    for the repair of slots.  A store that several share lies behind a network and comes
 *           back; the slots wait for it, and those that are served already are not disturbed.  In
 *           a store of one process an error at the start is final.
 * Units:    10 ms to 1 s between two tries.
 * Thread:   loop.
 * Owns:     the query, but not what it points to, which stays until done.
 * Errors:   done gets those that no further try would change; in hub_done STORE_IO.
 */
#ifndef CORE_QUERY_RETRY_H
#define CORE_QUERY_RETRY_H

#include "core/hub.h"

void query_retry(struct hub *h, const struct query *q, store_query_fn done, void *arg);
/* The same, put for the first time after that wait. */
void query_retry_in(struct hub *h, msec_t wait, const struct query *q, store_query_fn done,
                    void *arg);
void query_retries_done(struct hub *h); /* in hub_done: answers those that wait for a try */

#endif
