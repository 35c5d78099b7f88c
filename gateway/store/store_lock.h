/* store_lock -- one gateway for a data directory, and nobody beside it who takes it for at rest.
 *
 * Shape:    two locks, held together.  DIR/lock names the process that has the directory, but
 *           anybody may delete it, as cleaners of temporary files do.  So a byte of DIR/holdfast.db
 *           is locked as well, behind all those that SQLite locks: what removes that file removes
 *           the store.
 * Thread:   one at a time.
 * Owns:     both descriptors.  SQLite must have closed the database before they are released, and
 *           open it after they were taken: to close any descriptor of a file drops the locks that
 *           SQLite has on it in this
 *                  process.
 * Errors:   enum store_error with a sentence, or as said.
 */
#ifndef GATEWAY_STORE_STORE_LOCK_H
#define GATEWAY_STORE_STORE_LOCK_H

#include "gateway/store/store_sqlite.h"

struct store_lock {
    int file_fd, database_fd; /* -1: not open */
};
#define STORE_LOCK_NONE ((struct store_lock){-1, -1})

/* For a gateway.  Makes both files (0600) where they are missing; waits for the lock of a gateway
 * that was killed while it started a program, up to 2 s.  STORE_BUSY: another process has the
 * directory. */
int store_lock_take(struct store_lock *l, const char *dir, char ret_error[STORE_ERROR_TEXT]);

/* For who looks from beside, which changes nothing: so that no gateway comes meanwhile.
 * ret_in_use: one is there, and nothing is held.  ret_pid: of the gateway that has the directory,
 * or had it last; "" when nobody says.  A lock file that is missing is fine, a copy has none. */
int store_lock_share(struct store_lock *l, const char *dir, bool *ret_in_use, char ret_pid[32],
                     char ret_error[STORE_ERROR_TEXT]);

void store_lock_release(struct store_lock *l); /* what was never taken is fine */

#endif
