/* store_sqlite_gather -- the frames of a transaction reach SQLite's log in few writes.
 *
 * Shape:    SQLite writes the header and the page of each frame by themselves.  A write that
 *           follows the last one is kept instead, up to GATHER_BYTES, and all that is kept goes to
 *           the file as one.  It goes in the same call as the page of a frame whose header ends a
 *           transaction (it has the size of the database, others have 0), so that
 *
 *             - a commit is the kernel's before SQLite publishes it, and its failure is SQLite's;
 *             - nobody else misses anything, because nobody reads frames that are not committed;
 *             - a process that is killed loses no more than frames without an end.
 *
 *           A write elsewhere goes on by itself, behind what was kept, and so does everything else
 *           that is asked of the file.  A rollback forgets what was kept, because afterwards
 *           another process may write there.
 * Thread:   the connection's.
 * Owns:     nothing: its owner closes the connection first.
 * Errors:   SQLite's own, of the file beneath.
 * Standard: SQLite's file format, section 4.1 (the WAL).
 */
#ifndef GATEWAY_STORE_STORE_SQLITE_GATHER_H
#define GATEWAY_STORE_STORE_SQLITE_GATHER_H

#include <sqlite3.h>

#include "proto/base.h"

#define GATHER_BYTES 65536 /* 15 frames: with twice as many, a frame costs the same */

struct sql_gather {
    sqlite3_io_methods methods;     /* what the log's file has now */
    const sqlite3_io_methods *real; /* what it had */
    sqlite3_int64 at, end;          /* the place of the bytes; of what follows the last write */
    bool ends;                      /* the frame that is being written ends a transaction */
    size_t used;
    char bytes[GATHER_BYTES];
};

/* Takes over the writes of a connection that is in WAL mode, has read something, and has no
 * transaction.  Returns SQLite's code. */
int sql_gather_attach(struct sql_gather *g, sqlite3 *db);
/* True outside of transactions. */
bool sql_gather_is_empty(const struct sql_gather *g);

#endif
