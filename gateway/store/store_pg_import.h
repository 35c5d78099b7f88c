/* store_pg_import -- between the parts of a transfer of a whole store: its two ends, and rows and
 * bytes of either.
 *
 * Shape:    store_pg_import.c copies and compares the tables, store_pg_import_rows.c reads rows,
 *           store_pg_import_files.c has the bytes of files.
 * Thread:   one.
 * Errors:   false, and what is wrong was said.
 */
#ifndef GATEWAY_STORE_STORE_PG_IMPORT_H
#define GATEWAY_STORE_STORE_PG_IMPORT_H

#include "gateway/store/store_pg_private.h"
#include "gateway/store/store_sqlite_private.h"

enum cell_type { CELL_NONE, CELL_INT, CELL_REAL, CELL_BYTES };
struct cell {
    enum cell_type type;
    int64_t n;
    double real;
    struct str bytes; /* until the next row */
};

struct transfer {
    struct sql_conn sqlite;
    struct pg_conn pg;
    const char *dir; /* the data directory */
    bool back;       /* to SQLite */
    store_pg_say_fn say;
    void *arg;
    int64_t rows, files, bytes;
};

bool transfer_fails(struct transfer *t, const char *what, const char *why);
bool sqlite_fails(struct transfer *t, const char *what);
bool postgres_fails(struct transfer *t, const char *what);

/* A SELECT on either side, row by row; one at a time of PostgreSQL's. */
struct rows {
    struct transfer *t;
    sqlite3_stmt *stmt; /* NULL: PostgreSQL's */
    PGresult *result;
    int n;
    bool failed;
};
bool rows_open(struct rows *rows, struct transfer *t, bool sqlite, const char *sql);
bool rows_next(struct rows *rows);
struct cell rows_cell(const struct rows *rows, int i);
bool rows_close(struct rows *rows, const char *what);
void transfer_big(char to[8], uint64_t n); /* as PostgreSQL takes a number */

/* The bytes of all files whose rows are there, in the same transaction; then they are read where
 * they came, and must have the hash that each row says. */
bool transfer_files(struct transfer *t);

#endif
