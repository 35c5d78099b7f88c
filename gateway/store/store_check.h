/* store_check -- whether a database of the store is sound; and a copy of it.
 *
 * Shape:    both read through one read-only connection, beside a gateway that writes, and see one
 *           moment of it.  As long as they read, the gateway's log (holdfast.db-wal) grows.
 * Thread:   any.
 * Owns:     ret's texts; store_check_done frees them.
 * Errors:   what is wrong is a sentence in faults; so is a database that cannot be read at all.
 */
#ifndef GATEWAY_STORE_STORE_CHECK_H
#define GATEWAY_STORE_STORE_CHECK_H

#include "proto/buf.h"

struct store_check {
    int64_t version; /* of the schema */
    int64_t n_tasks, n_live, n_conversations, n_blocks, n_tails;
    uint64_t n_events;
    struct buf faults; /* a line each */
    size_t n_faults;   /* more than there are lines, when there are very many */
};

/* is_still: nobody writes it, and it has no log.  full: reads every page and every line, not only
 * the structure. */
void store_check(const char *database, bool is_still, bool full, struct store_check *ret);
void store_check_done(struct store_check *c);

/* Writes a consistent, compact copy into the empty file `to`.  Negative enum store_error with a
 * sentence; STORE_FULL is the copy's disk, since nothing else is written. */
int store_copy(const char *database, bool is_still, const char *to, struct buf *ret_error) MUST_USE;

#endif
