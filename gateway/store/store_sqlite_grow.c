#include "gateway/store/store_sqlite_grow.h"

static const char zeros[SQL_GROW_BYTES];

static void fill_up(sqlite3_file *file, const sqlite3_io_methods *real, sqlite3_int64 to)
{
    sqlite3_int64 at = to;
    int rc = real->xFileSize(file, &at);
    while (rc == SQLITE_OK && at < to) {
        sqlite3_int64 n = SQL_GROW_BYTES - at % SQL_GROW_BYTES;
        if (n > to - at)
            n = to - at;
        rc = real->xWrite(file, zeros, (int)n, at);
        at += n;
    }
}

static int grow_control(sqlite3_file *file, int what, void *arg)
{
    const sqlite3_io_methods *real = container_of(file->pMethods, struct sql_grow, methods)->real;
    if (what == SQLITE_FCNTL_SIZE_HINT)
        fill_up(file, real, *(const sqlite3_int64 *)arg);
    return real->xFileControl(file, what, arg);
}

int sql_grow_attach(struct sql_grow *g, sqlite3 *db)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);
    if (rc != SQLITE_OK || !file || !file->pMethods)
        return rc != SQLITE_OK ? rc : SQLITE_MISUSE;
    *g = (struct sql_grow){.real = file->pMethods, .methods = *file->pMethods};
    g->methods.xFileControl = grow_control;
    file->pMethods = &g->methods;
    return SQLITE_OK;
}
