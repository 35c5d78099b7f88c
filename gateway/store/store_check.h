/* store_check -- checks whether a database of the store is sound; and copies it.
 *
 * Shape:    both read through one read-only connection, beside a gateway that writes, and see one
 *           moment of it.  While they read, the gateway's log (holdfast.db-wal) grows.
 * Thread:   any.
 * Owns:     ret's texts; store_check_done frees them.
 * Errors:   faults has a sentence for each; a database that cannot be read at all is one of them.
 */
#ifndef GATEWAY_STORE_STORE_CHECK_H
#define GATEWAY_STORE_STORE_CHECK_H

#include "proto/buf.h"

struct store_check {
    int64_t version; /* of the schema */
    int64_t n_tasks, n_live, n_conversations, n_blocks, n_tails;
    int64_t n_files, file_bytes; /* file_check counts them */
    uint64_t n_events;
    struct buf faults; /* one a line */
    size_t n_faults;   /* greater than the number of lines, when there are very many */
};

/* is_still: nobody writes it, and it has no log. full: reads every page and every line, not only
 * the structure. */
void store_check(const char *database, bool is_still, bool full, struct store_check *ret);
void store_check_done(struct store_check *c);

/* Writes a consistent, compact copy into the empty file `to`.  Negative enum store_error with a
 * sentence; STORE_FULL refers to the copy's disk, because nothing else is written. */
int store_copy(const char *database, bool is_still, const char *to, struct buf *ret_error) MUST_USE;

#endif
