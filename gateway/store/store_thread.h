/* store_thread -- a backend as a store port: one thread that writes, a few that read.
 *
 * Shape:    one batch in flight (core waits for its answer); queries wait in one queue, at most
 *           STORE_QUEUE_MAX, and further ones are answered with STORE_BUSY.  Answers return through
 *           one uv_async; each wake-up delivers all finished ones, in the order in which they were
 *           made.  Between commits the writer does the backend's housekeeping (idle).
 * Thread:   all functions, and all callbacks: the loop thread.
 * Owns:     its threads and readers, and current batches and queries; not the backend, which must
 *           outlive it.
 * Errors:   the backend's, unchanged: nothing is retried here.  Every commit and every query gets
 *           exactly one callback.
 */
#ifndef GATEWAY_STORE_STORE_THREAD_H
#define GATEWAY_STORE_STORE_THREAD_H

#include <uv.h>

#include "core/store.h"

#define STORE_QUEUE_MAX 65536
#define STORE_READERS 2
#define STORE_READERS_MAX 16

struct store_thread;

/* readers 0 is the default.  STORE_IO when a thread or a reader cannot be created; ret is then
 * untouched. */
int store_thread_open(uv_loop_t *loop, const struct store_ops *ops, void *store, unsigned readers,
                      struct store_thread **ret);
struct store_port *store_thread_port(struct store_thread *t);
size_t store_thread_queries(struct store_thread *t); /* queries that wait for a reader */

/* Finishes current work, joins the threads and delivers the remaining answers before it returns;
 * requests of those callbacks are answered with STORE_IO.  The backend may be closed then. closed
 * (may be NULL) comes from the loop, when the port's memory is freed. */
void store_thread_close(struct store_thread *t, void (*closed)(void *arg), void *arg);

#endif
