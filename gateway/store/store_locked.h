/* store_locked -- lets several threads use a single-threaded backend: one lock around every call.
 *
 * Shape:    wraps the memory store, so that store_thread's writer and readers may share it.
 * Thread:   any.
 * Owns:     the backend that it wraps; close closes both.
 */
#ifndef GATEWAY_STORE_STORE_LOCKED_H
#define GATEWAY_STORE_STORE_LOCKED_H

#include "core/store.h"

extern const struct store_ops store_locked_ops;

void *store_locked_new(const struct store_ops *ops, void *store); /* passed to the ops as store */

#endif
