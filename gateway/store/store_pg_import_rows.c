/* Rows of either side of a transfer, and what is said when one fails. */
#include "gateway/store/store_pg_import.h"

#include <stdio.h>
#include <string.h>

bool transfer_fails(struct transfer *t, const char *what, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "%.100s: %.*s", what, (int)strcspn(why, "\n"), why);
    t->say(t->arg, true, text);
    return false;
}

bool sqlite_fails(struct transfer *t, const char *what)
{
    return transfer_fails(t, what, sqlite3_errmsg(t->sqlite.db));
}

bool postgres_fails(struct transfer *t, const char *what)
{
    return transfer_fails(t, what, PQerrorMessage(t->pg.pg));
}

/* --- rows of either side ---------------------------------------------------------------------- */

bool rows_open(struct rows *rows, struct transfer *t, bool sqlite, const char *sql)
{
    *rows = (struct rows){.t = t};
    if (sqlite) {
        rows->failed = sqlite3_prepare_v2(t->sqlite.db, sql, -1, &rows->stmt, NULL) != SQLITE_OK;
        rows->n = rows->failed ? 0 : sqlite3_column_count(rows->stmt);
        return rows->failed ? sqlite_fails(t, sql) : true;
    }
    rows->failed = PQsendQueryParams(t->pg.pg, sql, 0, NULL, NULL, NULL, NULL, 1) != 1 ||
                   PQsetSingleRowMode(t->pg.pg) != 1;
    return rows->failed ? postgres_fails(t, sql) : true;
}

bool rows_next(struct rows *rows)
{
    if (rows->stmt) {
        int rc = sqlite3_step(rows->stmt);
        rows->failed = rc != SQLITE_ROW && rc != SQLITE_DONE;
        return rc == SQLITE_ROW;
    }
    PQclear(rows->result);
    rows->result = PQgetResult(rows->t->pg.pg);
    if (PQresultStatus(rows->result) == PGRES_SINGLE_TUPLE) {
        rows->n = PQnfields(rows->result);
        return true;
    }
    rows->failed = PQresultStatus(rows->result) != PGRES_TUPLES_OK;
    return false;
}

static struct cell sqlite_cell(sqlite3_stmt *stmt, int i)
{
    int type = sqlite3_column_type(stmt, i);
    struct cell c = {.type = CELL_BYTES};
    if (type == SQLITE_NULL)
        return (struct cell){CELL_NONE, 0, 0, STR_NULL};
    if (type == SQLITE_INTEGER)
        return (struct cell){CELL_INT, sqlite3_column_int64(stmt, i), 0, STR_NULL};
    if (type == SQLITE_FLOAT)
        return (struct cell){CELL_REAL, 0, sqlite3_column_double(stmt, i), STR_NULL};
    const void *p = type == SQLITE_BLOB ? sqlite3_column_blob(stmt, i)
                                        : (const void *)sqlite3_column_text(stmt, i);
    c.bytes = (struct str){p ? p : "", (size_t)sqlite3_column_bytes(stmt, i)};
    return c;
}

struct cell rows_cell(const struct rows *rows, int i)
{
    if (rows->stmt)
        return sqlite_cell(rows->stmt, i);
    if (PQgetisnull(rows->result, 0, i))
        return (struct cell){CELL_NONE, 0, 0, STR_NULL};
    switch (PQfsize(rows->result, i)) {
    case -1: return (struct cell){CELL_BYTES, 0, 0, pg_col(rows->result, 0, i)};
    default: break;
    }
    if (PQftype(rows->result, i) == 701)
        return (struct cell){CELL_REAL, 0, pg_col_real(rows->result, 0, i), STR_NULL};
    return (struct cell){CELL_INT, pg_col_int(rows->result, 0, i), 0, STR_NULL};
}

bool rows_close(struct rows *rows, const char *what)
{
    bool good = !rows->failed;
    if (!good && rows->stmt)
        (void)sqlite_fails(rows->t, what);
    else if (!good)
        (void)postgres_fails(rows->t, what);
    sqlite3_finalize(rows->stmt);
    PQclear(rows->result);
    for (PGresult *r; !rows->stmt && (r = PQgetResult(rows->t->pg.pg));)
        PQclear(r);
    return good;
}

void transfer_big(char to[8], uint64_t n)
{
    for (int i = 7; i >= 0; i--, n >>= 8)
        to[i] = (char)(n & 0xff);
}
