/* store_sqlite_grow -- a checkpoint's connection lets the database grow in long pieces.
 *
 * Shape:    a checkpoint writes page by page, so the kernel would cache what it appends in pieces
 *           of that size, and take three times as long to read it as from large ones (folios).
 *           SQLite says how large the file becomes before it begins (SQLITE_FCNTL_SIZE_HINT); here
 *           that part is filled with zeros in long writes first, and the pages go into what is
 *           cached then.  Nobody reads the zeros: SQLite reads pages that the log has there, and
 *           takes the size of the database from its header; after a kill the next checkpoint
 *           overwrites them or cuts them off.
 * Thread:   the connection's.
 * Owns:     nothing; its owner closes the connection first.
 * Errors:   none of its own: where the zeros cannot be written, SQLite's pages cannot either.
 * Standard: SQLite's methods of a file.
 */
#ifndef GATEWAY_STORE_STORE_SQLITE_GROW_H
#define GATEWAY_STORE_STORE_SQLITE_GROW_H

#include <sqlite3.h>

#include "proto/base.h"

#define SQL_GROW_BYTES (64 * 1024) /* a write has up to so many, to the next multiple of it */

struct sql_grow {
    sqlite3_io_methods methods;     /* what the database's file has now */
    const sqlite3_io_methods *real; /* what it had */
};

/* Returns SQLite's code. */
int sql_grow_attach(struct sql_grow *g, sqlite3 *db);

#endif
