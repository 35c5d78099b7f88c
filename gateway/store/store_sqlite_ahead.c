#include "gateway/store/store_sqlite_ahead.h"

#include <stdlib.h>

#define BEHIND 512 /* SQLite may look a little past the end of a damaged page */

static struct sql_ahead *ahead_of(sqlite3_file *file)
{
    return container_of(file->pMethods, struct sql_ahead, methods);
}

/* --- the buffer ------------------------------------------------------------------------------- */

static char *find(struct sql_ahead *a, sqlite3_int64 at, int n)
{
    if (at < a->at || at + n > a->at + (sqlite3_int64)a->n)
        return NULL;
    a->used += (size_t)n;
    return a->buffer + (at - a->at);
}

/* Where most of the last pages were of use, values lie side by side: the next read takes twice as
 * many.  Otherwise it takes half, so that a scattered chain is not read many times over. */
static size_t next_window(const struct sql_ahead *a, size_t page)
{
    size_t window = a->window;
    if (a->n > 0)
        window = a->used * 4 >= a->n * 3 ? window * 2 : window / 2;
    window = (window + page - 1) / page * page;
    if (window > SQL_AHEAD_MOST)
        window = SQL_AHEAD_MOST;
    return window < page ? page : window;
}

/* Reads on from there; at the end of the file, or after a fault, there is nothing. */
static void fill(struct sql_ahead *a, sqlite3_file *file, sqlite3_int64 at, size_t page)
{
    if (!a->buffer)
        a->buffer = try_alloc(SQL_AHEAD_MOST + BEHIND);
    if (!a->buffer || (!a->size && a->real->xFileSize(file, &a->size) != SQLITE_OK))
        return;
    a->window = next_window(a, page);
    size_t n = a->window;
    if (at + (sqlite3_int64)n > a->size)
        n = at < a->size ? (size_t)(a->size - at) : 0;
    a->n = a->used = 0;
    if (n == 0 || a->real->xRead(file, a->buffer, (int)n, at) != SQLITE_OK)
        return;
    a->at = at;
    a->n = n;
}

/* --- the file --------------------------------------------------------------------------------- */

static int ahead_read(sqlite3_file *file, void *ret, int n, sqlite3_int64 at)
{
    struct sql_ahead *a = ahead_of(file);
    const char *found = find(a, at, n);
    if (!found)
        return a->real->xRead(file, ret, n, at);
    memcpy(ret, found, (size_t)n);
    return SQLITE_OK;
}

/* SQLite wants a page in place; it reads the page by itself when it gets none. */
static int ahead_fetch(sqlite3_file *file, sqlite3_int64 at, int n, void **ret)
{
    struct sql_ahead *a = ahead_of(file);
    *ret = NULL;
    if (!a->in_value)
        return SQLITE_OK;
    char *found = find(a, at, n);
    if (!found && a->lent == 0) {
        fill(a, file, at, (size_t)n);
        found = find(a, at, n);
    }
    a->lent += found != NULL;
    *ret = found;
    return SQLITE_OK;
}

/* Without a page: SQLite gives up its mapping, which there is not. */
static int ahead_unfetch(sqlite3_file *file, sqlite3_int64 at, void *page)
{
    (void)at;
    ahead_of(file)->lent -= page != NULL;
    return SQLITE_OK;
}

/* The pragma that lets SQLite fetch must not map the file as well. */
static int ahead_control(sqlite3_file *file, int what, void *arg)
{
    struct sql_ahead *a = ahead_of(file);
    return what == SQLITE_FCNTL_MMAP_SIZE ? SQLITE_OK : a->real->xFileControl(file, what, arg);
}

int sql_ahead_attach(struct sql_ahead *a, sqlite3 *db)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);
    if (rc != SQLITE_OK || !file || !file->pMethods)
        return rc != SQLITE_OK ? rc : SQLITE_MISUSE;
    *a = (struct sql_ahead){.real = file->pMethods, .methods = *file->pMethods};
    if (a->real->iVersion < 3) /* a system without mappings: pages come one by one */
        return SQLITE_OK;
    a->methods.xRead = ahead_read;
    a->methods.xFetch = ahead_fetch;
    a->methods.xUnfetch = ahead_unfetch;
    a->methods.xFileControl = ahead_control;
    file->pMethods = &a->methods;
    return sqlite3_exec(db, "PRAGMA mmap_size = 1", NULL, NULL, NULL);
}

void sql_ahead_done(struct sql_ahead *a)
{
    free(a->buffer);
    a->buffer = NULL;
}

/* --- its turns -------------------------------------------------------------------------------- */

void sql_ahead_begin(struct sql_ahead *a)
{
    ASSERT(!a->on && a->n == 0);
    a->on = true;
    a->size = 0;
}

void sql_ahead_value(struct sql_ahead *a, size_t bytes)
{
    ASSERT(a->on);
    if (a->n == 0)
        a->window = bytes;
    a->in_value = true;
}

void sql_ahead_pause(struct sql_ahead *a)
{
    a->in_value = false;
}

void sql_ahead_end(struct sql_ahead *a)
{
    ASSERT(a->on && a->lent == 0);
    a->on = a->in_value = false;
    a->n = 0;
}
