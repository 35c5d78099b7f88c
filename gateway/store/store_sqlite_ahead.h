/* store_sqlite_ahead -- the file of a reading connection: long values in a few long reads.
 *
 * Shape:    a block's row lies in a chain of pages, most often side by side, and SQLite reads them
 *           one by one: a system call and two copies each.  Between begin and end, a page of a
 *           value comes with those behind it, into a buffer from which SQLite takes them in place
 *           (xFetch, as if the file were mapped; but here a page that cannot be read is an error,
 *           there it is SIGBUS).  How many follows from how many of the last ones were used.
 *           Exact, because within a read transaction SQLite asks the file only for pages that no
 *           checkpoint may write meanwhile, and begin and end lie around the transaction.
 * Thread:   the connection's.
 * Owns:     its buffer; its owner closes the connection first.
 * Errors:   none of its own: SQLite reads by itself what could not be read ahead, and learns why.
 * Standard: SQLite's methods of a file, version 3.
 */
#ifndef GATEWAY_STORE_STORE_SQLITE_AHEAD_H
#define GATEWAY_STORE_STORE_SQLITE_AHEAD_H

#include <sqlite3.h>

#include "proto/base.h"

#define SQL_AHEAD_MOST (120u * 1024) /* SQLite's reads have less than 128 KiB */

struct sql_ahead {
    sqlite3_io_methods methods;     /* what the database's file has now */
    const sqlite3_io_methods *real; /* what it had; NULL: never attached */
    char *buffer;                   /* NULL until first used */
    sqlite3_int64 size;             /* the file's, in this transaction; 0: not asked for */
    sqlite3_int64 at;               /* of the buffer's first byte in the file */
    size_t n;                       /* bytes in it; 0: nothing */
    size_t used;                    /* bytes of them that were asked for */
    size_t window;                  /* bytes that the next read takes */
    unsigned lent;                  /* pages that SQLite has in place: the buffer must stay */
    bool on, in_value;              /* between begin and end; between value and pause */
};

/* Takes over the reads of a connection.  Returns SQLite's code. */
int sql_ahead_attach(struct sql_ahead *a, sqlite3 *db);
void sql_ahead_done(struct sql_ahead *a); /* a zeroed one is allowed */

void sql_ahead_begin(struct sql_ahead *a); /* a transaction begins next */
/* The pages that are asked for next are those of a value of so many bytes. */
void sql_ahead_value(struct sql_ahead *a, size_t bytes);
void sql_ahead_pause(struct sql_ahead *a); /* it was read */
void sql_ahead_end(struct sql_ahead *a);

#endif
