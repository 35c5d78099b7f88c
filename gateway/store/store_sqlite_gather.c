#include "gateway/store/store_sqlite_gather.h"

#define HEADER_BYTES 24 /* of a frame */

static struct sql_gather *gather_of(sqlite3_file *file)
{
    return container_of(file->pMethods, struct sql_gather, methods);
}

static int hand_on(struct sql_gather *g, sqlite3_file *file)
{
    int rc = g->used ? g->real->xWrite(file, g->bytes, (int)g->used, g->at) : SQLITE_OK;
    if (rc == SQLITE_OK)
        g->used = 0;
    return rc;
}

static int gather_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    static const char inside[4] = {0}; /* the size of the database, where more frames follow */
    struct sql_gather *g = gather_of(file);
    bool is_header = n == HEADER_BYTES, follows = at == g->end && (size_t)n <= sizeof g->bytes;
    if (is_header)
        g->ends = memcmp((const char *)bytes + 4, inside, sizeof inside) != 0;
    int rc = follows && g->used + (size_t)n <= sizeof g->bytes ? SQLITE_OK : hand_on(g, file);
    if (rc != SQLITE_OK)
        return rc;
    g->end = at + n;
    if (!follows)
        return g->real->xWrite(file, bytes, n, at);
    if (!g->used)
        g->at = at;
    memcpy(g->bytes + g->used, bytes, (size_t)n);
    g->used += (size_t)n;
    return g->ends && !is_header ? hand_on(g, file) : SQLITE_OK;
}

/* SQLite reads frames of its own transaction again: where its cache was too small, and to sum them
 * anew. */
static int gather_read(sqlite3_file *file, void *bytes, int n, sqlite3_int64 at)
{
    struct sql_gather *g = gather_of(file);
    int rc = at + n > g->at ? hand_on(g, file) : SQLITE_OK;
    return rc == SQLITE_OK ? g->real->xRead(file, bytes, n, at) : rc;
}

static int gather_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct sql_gather *g = gather_of(file);
    int rc = hand_on(g, file);
    return rc == SQLITE_OK ? g->real->xTruncate(file, size) : rc;
}

static int gather_sync(sqlite3_file *file, int flags)
{
    struct sql_gather *g = gather_of(file);
    int rc = hand_on(g, file);
    return rc == SQLITE_OK ? g->real->xSync(file, flags) : rc;
}

static int gather_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    struct sql_gather *g = gather_of(file);
    int rc = hand_on(g, file);
    return rc == SQLITE_OK ? g->real->xFileSize(file, ret) : rc;
}

static void on_rollback(void *arg)
{
    ((struct sql_gather *)arg)->used = 0;
}

int sql_gather_attach(struct sql_gather *g, sqlite3 *db)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, (void *)&file);
    if (rc != SQLITE_OK || !file || !file->pMethods)
        return rc != SQLITE_OK ? rc : SQLITE_MISUSE;
    /* Where a torn sector spoils its neighbours, SQLite cuts pages in two, and repeats the last. */
    if (!(file->pMethods->xDeviceCharacteristics(file) & SQLITE_IOCAP_POWERSAFE_OVERWRITE))
        return SQLITE_OK;
    g->real = file->pMethods;
    g->methods = *g->real;
    g->methods.xWrite = gather_write;
    g->methods.xRead = gather_read;
    g->methods.xTruncate = gather_truncate;
    g->methods.xSync = gather_sync;
    g->methods.xFileSize = gather_size;
    g->at = g->end = -1;
    g->used = 0;
    file->pMethods = &g->methods;
    sqlite3_rollback_hook(db, on_rollback, g);
    return SQLITE_OK;
}

bool sql_gather_is_empty(const struct sql_gather *g)
{
    return g->used == 0;
}
