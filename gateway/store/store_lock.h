/* store_lock -- allows one gateway for a data directory, and keeps it out while others inspect it.
 *
 * Shape:    two locks, held together.  DIR/lock names the process that has the directory, but
 *           anybody may delete it, as cleaners of temporary files do.  So a byte of DIR/holdfast.db
 *           is locked as well, after all those that SQLite locks: whoever removes that file removes
 *           the store.
 * Thread:   one at a time.
 * Owns:     both descriptors.  SQLite must have closed the database before they are released, and
 *           open it after they were taken: closing any descriptor of a file drops SQLite's locks on
 *           it in this process.
 * Errors:   enum store_error with a sentence, or as stated.
 */
#ifndef GATEWAY_STORE_STORE_LOCK_H
#define GATEWAY_STORE_STORE_LOCK_H

#include "gateway/store/store_sqlite.h"

struct store_lock {
    int file_fd, database_fd; /* -1: not open */
};
#define STORE_LOCK_NONE ((struct store_lock){-1, -1})

/* For a gateway.  Creates both files (0600) when missing; waits up to 2 s for the lock of a gateway
 * that was killed while it started a program.  STORE_BUSY: another process has the directory. */
int store_lock_take(struct store_lock *l, const char *dir, char ret_error[STORE_ERROR_TEXT]);

/* For inspection, which changes nothing: no gateway can start meanwhile.  ret_in_use: a gateway
 * runs, and nothing is held.  ret_pid: the gateway that has the directory, or had it last; "" when
 * unknown.  A missing lock file is allowed, because a copy has none. */
int store_lock_share(struct store_lock *l, const char *dir, bool *ret_in_use, char ret_pid[32],
                     char ret_error[STORE_ERROR_TEXT]);

void store_lock_release(struct store_lock *l); /* also for one that was never taken */

#endif
