/* store_sqlite -- the embedded store: one directory, one SQLite database in WAL mode, one gateway.
 *
 * Shape:    a backend (core/store.h).  The directory is created when missing (0700), narrowed to
 *           that when others may use it, and holds holdfast.db and its -wal and -shm (0600), and
 *           `lock` (store_lock.h).
 * Thread:   commit, start, idle and close: one at a time (the writer); query: any, each with its
 *           own reader, all closed before the store.  A thread of its own makes checkpoints.
 * Owns:     connections, statements, the locks.
 * Errors:   enum store_error; store_sqlite_last_error has SQLite's message of the last one.
 */
#ifndef GATEWAY_STORE_STORE_SQLITE_H
#define GATEWAY_STORE_STORE_SQLITE_H

#include "core/store.h"

#define STORE_ERROR_TEXT 256

struct store_sqlite;

struct store_sqlite_options {
    const char *dir;
    bool power;       /* a commit survives power loss, not only the death of the process */
    size_t wal_bytes; /* beyond this checkpoints start; 0 for the default, 8 MiB */
};

/* On failure ret is untouched and ret_error says why, for the operator: somebody else has the
 * directory, the schema is newer, the disk refuses. */
int store_sqlite_open(const struct store_sqlite_options *options, struct store_sqlite **ret,
                      char ret_error[STORE_ERROR_TEXT]);

extern const struct store_ops store_sqlite_ops;

/* Any thread; "" when nothing ever failed. */
void store_sqlite_last_error(struct store_sqlite *store, char ret[STORE_ERROR_TEXT]);
uint64_t store_sqlite_wal_bytes(struct store_sqlite *store); /* any thread */
/* Any thread: checkpoints that failed.  The WAL keeps growing; they are retried, at least a second
 * apart. */
uint64_t store_sqlite_checkpoint_failures(struct store_sqlite *store);
bool store_sqlite_checkpoints_fail(struct store_sqlite *store); /* the last one did */

#endif
