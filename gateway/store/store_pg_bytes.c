/* The bytes of files on the server: what has come of a file is a row, and its bytes are chunks, of
 * which none reaches over a multiple of PG_FILE_CELL.  So a read at any place knows where to begin.
 *
 * What writes begins with a lock of the owner's slot, which must not be another node's: a gateway
 * that was replaced changes nothing, and one that replaces it waits for what is under way.  Each
 * call is one transaction: the statements of a flush (PostgreSQL's manual, "Pipeline Mode"). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file_store.h"
#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"
#include "proto/str.h"

#define BYTES_CONNS 4 /* kept open: as many as there are threads that call, usually */
#define BYTES_ANSWER_MS 60000

struct store_pg_bytes {
    struct store_pg *store;
    uv_mutex_t lock; /* for the next */
    struct pg_conn *idle[BYTES_CONNS];
    size_t n_idle;
};

/* --- connections ------------------------------------------------------------------------------ */

static struct pg_conn *take_idle(struct store_pg_bytes *b)
{
    uv_mutex_lock(&b->lock);
    struct pg_conn *conn = b->n_idle ? b->idle[--b->n_idle] : NULL;
    uv_mutex_unlock(&b->lock);
    return conn;
}

static void bytes_conn_free(struct pg_conn *conn)
{
    pg_conn_close(conn);
    free(conn);
}

/* As readers are, it is none of a server that the writer has left. */
static struct pg_conn *bytes_begin(struct store_pg_bytes *b)
{
    struct pg_conn *conn = take_idle(b);
    int64_t generation = atomic_load(&b->store->generation);
    if (!conn)
        conn = xcalloc(sizeof *conn);
    if (pg_conn_is_open(conn) && conn->generation == generation && pg_is_sure(b->store))
        return conn;
    pg_conn_close(conn);
    if (!pg_is_sure(b->store) || !pg_conn_open(conn, &b->store->o, b->store->name))
        return conn;
    if (pg_history_ask(b->store, conn) < 0) {
        pg_conn_close(conn);
        return conn;
    }
    conn->answer_ms = BYTES_ANSWER_MS;
    conn->generation = generation;
    return conn;
}

/* The event of the log, when it fails, by what was asked for. */
#define BYTES_READ "not_read"
#define BYTES_STORE "not_stored"
#define BYTES_REMOVE "not_removed"

static int64_t bytes_end(struct store_pg_bytes *b, struct pg_conn *conn, const char *event,
                         int64_t status)
{
    if (status < 0 && status != STORE_NOT_FOUND && status != STORE_CORRUPT) {
        bool refused = strcmp(conn->state, "22012") == 0; /* a division by zero of ours */
        pg_note_error(b->store, conn);
        log_event_limited(LEVEL_WARN, "files", event,
                          LOG_TEXT("why", refused ? "another node has the slot, or the part ends "
                                                    "elsewhere"
                                                  : conn->error));
    }
    uv_mutex_lock(&b->lock);
    bool keeps = pg_conn_is_open(conn) && b->n_idle < BYTES_CONNS;
    if (keeps)
        b->idle[b->n_idle++] = conn;
    uv_mutex_unlock(&b->lock);
    if (!keeps)
        bytes_conn_free(conn);
    return status == STORE_UNKNOWN ? STORE_IO : status; /* its caller looks how far it came */
}

static void hold_slot(struct store_pg_bytes *b, struct pg_conn *conn, unsigned slot)
{
    struct pg_call c;
    pg_begin(&c, conn, PG_BYTES_HOLD);
    pg_int(&c, slot);
    pg_int(&c, b->store->incarnation);
    pg_send(&c);
}

static struct pg_call bytes_call(struct pg_conn *conn, enum pg_stmt stmt, struct str name)
{
    struct pg_call c;
    pg_begin(&c, conn, stmt);
    pg_text(&c, name);
    return c;
}

/* --- parts ------------------------------------------------------------------------------------ */

static int64_t bytes_part_size(void *store, const char *part)
{
    struct store_pg_bytes *b = store;
    struct pg_conn *conn = bytes_begin(b);
    struct pg_call c = bytes_call(conn, PG_PART_SIZE, str_of(part));
    PGresult *r;
    int64_t size = pg_ask(&c, &r);
    if (size == STORE_OK && PQntuples(r) > 0)
        size = pg_col_int(r, 0, 0);
    PQclear(r);
    return bytes_end(b, conn, BYTES_READ, size);
}

static struct str group_of(const char *part)
{
    return (struct str){part, strcspn(part, "/")};
}

static void put_chunks(struct pg_conn *conn, const char *part, int64_t at, struct str bytes)
{
    while (bytes.n > 0) {
        size_t room = PG_FILE_CELL - (size_t)at % PG_FILE_CELL;
        struct str chunk = {bytes.p, bytes.n < room ? bytes.n : room};
        struct pg_call c = bytes_call(conn, PG_CHUNK_PUT, str_of(part));
        pg_int(&c, at);
        pg_text(&c, chunk);
        pg_send(&c);
        at += (int64_t)chunk.n;
        bytes = str_from(bytes, chunk.n);
    }
}

static int bytes_part_write(void *store, unsigned slot, const char *part, int64_t at,
                            struct str bytes)
{
    struct store_pg_bytes *b = store;
    struct pg_conn *conn = bytes_begin(b);
    hold_slot(b, conn, slot);
    struct pg_call c = bytes_call(conn, PG_PART_GROW, str_of(part));
    pg_text(&c, group_of(part));
    pg_int(&c, slot);
    pg_int(&c, (int64_t)bytes.n);
    pg_int(&c, at);
    pg_send(&c);
    put_chunks(conn, part, at, bytes);
    return (int)bytes_end(b, conn, BYTES_STORE, pg_flush(conn, NULL, NULL));
}

static int bytes_part_keep(void *store, unsigned slot, const char *part, const char *blob)
{
    static const enum pg_stmt steps[] = {PG_BLOB_KEEP, PG_PART_FORGET_TWICE, PG_PART_FORGET};
    struct store_pg_bytes *b = store;
    struct pg_conn *conn = bytes_begin(b);
    hold_slot(b, conn, slot);
    for (size_t i = 0; i < countof(steps); i++) {
        struct pg_call c = bytes_call(conn, steps[i], str_of(part));
        if (steps[i] != PG_PART_FORGET)
            pg_text(&c, str_of(blob));
        if (steps[i] == PG_BLOB_KEEP)
            pg_int(&c, slot);
        pg_send(&c);
    }
    return (int)bytes_end(b, conn, BYTES_STORE, pg_flush(conn, NULL, NULL));
}

/* The row holds its slot, so another node's part or blob stays. */
static int bytes_drop(struct store_pg_bytes *b, enum pg_stmt stmt, const char *name)
{
    struct pg_conn *conn = bytes_begin(b);
    struct pg_call c = bytes_call(conn, stmt, str_of(name));
    pg_int(&c, b->store->incarnation);
    return (int)bytes_end(b, conn, BYTES_REMOVE, pg_run(&c));
}

static int bytes_part_drop(void *store, const char *part)
{
    return bytes_drop(store, PG_PART_DROP, part);
}

static int bytes_parts_of(void *store, const char *group, struct file_parts *ret)
{
    struct store_pg_bytes *b = store;
    struct pg_conn *conn = bytes_begin(b);
    struct pg_call c = bytes_call(conn, PG_PARTS_OF, str_of(group));
    PGresult *r;
    *ret = (struct file_parts){0};
    int status = pg_ask(&c, &r);
    if (status == STORE_OK)
        *ret = (struct file_parts){(uint32_t)pg_col_int(r, 0, 0), pg_col_int(r, 0, 1)};
    PQclear(r);
    return (int)bytes_end(b, conn, BYTES_READ, status);
}

static int bytes_parts_sweep(void *store, int64_t before_ms, bool starts)
{
    struct store_pg_bytes *b = store;
    struct pg_conn *conn = bytes_begin(b);
    struct pg_call c;
    pg_begin(&c, conn, PG_PARTS_SWEEP);
    pg_int(&c, b->store->incarnation);
    pg_int(&c, before_ms);
    pg_int(&c, starts);
    return (int)bytes_end(b, conn, BYTES_REMOVE, pg_run(&c));
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Rows of size, place, bytes.  What is missing in the middle is damage. */
static int64_t take_chunks(const PGresult *r, int64_t at, char *to, size_t n)
{
    int64_t size = pg_col_int(r, 0, 0), end = size - at < (int64_t)n ? size : at + (int64_t)n;
    size_t got = 0;
    for (int i = 0; i < PQntuples(r) && at + (int64_t)got < end; i++) {
        if (pg_col_is_null(r, i, 1)) /* there are none */
            break;
        struct str chunk = pg_col(r, i, 2);
        int64_t from = at + (int64_t)got - pg_col_int(r, i, 1);
        if (from < 0)
            break;
        if (from >= (int64_t)chunk.n)
            continue;
        chunk = str_from(chunk, (size_t)from);
        size_t left = (size_t)(end - at) - got;
        memcpy(to + got, chunk.p, chunk.n < left ? chunk.n : left);
        got += chunk.n < left ? chunk.n : left;
    }
    return end > at && at + (int64_t)got < end ? STORE_CORRUPT : (int64_t)got;
}

static int64_t chunks_ask(struct pg_conn *conn, enum pg_stmt stmt, const char *name, int64_t at,
                          void *to, size_t n)
{
    struct pg_call c = bytes_call(conn, stmt, str_of(name));
    PGresult *r;
    pg_int(&c, at - at % PG_FILE_CELL);
    pg_int(&c, at + (int64_t)n);
    int64_t got = pg_ask(&c, &r);
    if (got == STORE_OK)
        got = PQntuples(r) == 0 ? STORE_NOT_FOUND : take_chunks(r, at, to, n);
    PQclear(r);
    return got;
}

/* The server may have ended an idle connection: asking again on a new one is safe. */
static int64_t bytes_read(struct store_pg_bytes *b, enum pg_stmt stmt, const char *name, int64_t at,
                          void *to, size_t n)
{
    int64_t got = STORE_UNKNOWN;
    for (int i = 0; i < 2 && got == STORE_UNKNOWN; i++) {
        struct pg_conn *conn = bytes_begin(b);
        got = chunks_ask(conn, stmt, name, at, to, n);
        bool again = got == STORE_UNKNOWN && i == 0;
        int64_t end = bytes_end(b, conn, BYTES_READ, again ? STORE_NOT_FOUND : got);
        got = again ? STORE_UNKNOWN : end;
    }
    return got;
}

static int64_t bytes_part_read(void *store, const char *part, int64_t at, void *to, size_t n)
{
    return bytes_read(store, PG_PART_READ, part, at, to, n);
}

static int64_t bytes_blob_read(void *store, const char *blob, int64_t at, void *to, size_t n)
{
    return bytes_read(store, PG_BLOB_READ, blob, at, to, n);
}

/* --- blobs ------------------------------------------------------------------------------------ */

static int write_whole(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, bytes, n);
        if (k < 0 && errno != EINTR)
            return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? STORE_FULL : STORE_IO;
        bytes += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return STORE_OK;
}

static int bytes_blob_lend(void *store, const char *blob, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    char *piece = xalloc(PG_FILE_CELL);
    int64_t at = 0, n = fd < 0 ? STORE_IO : PG_FILE_CELL;
    while (n == PG_FILE_CELL) {
        n = bytes_blob_read(store, blob, at, piece, PG_FILE_CELL);
        int status = n > 0 ? write_whole(fd, piece, (size_t)n) : STORE_OK;
        at += n > 0 ? n : 0;
        n = status < 0 ? status : n;
    }
    free(piece);
    if (fd >= 0 && close(fd) < 0 && n >= 0)
        n = STORE_IO;
    if (fd >= 0 && n < 0)
        (void)unlink(path);
    return n < 0 ? (int)n : STORE_OK;
}

static int bytes_blob_drop(void *store, const char *blob)
{
    return bytes_drop(store, PG_BLOB_DROP, blob);
}

static int bytes_blobs_list(void *store, unsigned piece, void (*found)(void *arg, const char *blob),
                            void *arg)
{
    struct store_pg_bytes *b = store;
    struct pg_conn *conn = bytes_begin(b);
    char digits[3], name[FILE_HASH_LEN + 1];
    PGresult *r;
    snprintf(digits, sizeof digits, "%02x", piece);
    struct pg_call c = bytes_call(conn, PG_BLOBS_LIST, str_of(digits));
    pg_int(&c, b->store->incarnation);
    int status = pg_ask(&c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
        struct str blob = pg_col(r, i, 0);
        if (blob.n != FILE_HASH_LEN)
            continue;
        memcpy(name, blob.p, FILE_HASH_LEN);
        name[FILE_HASH_LEN] = 0;
        found(arg, name);
    }
    PQclear(r);
    return (int)bytes_end(b, conn, BYTES_READ, status);
}

/* --- the store -------------------------------------------------------------------------------- */

static void bytes_close(void *store)
{
    struct store_pg_bytes *b = store;
    if (!b)
        return;
    while (b->n_idle > 0)
        bytes_conn_free(b->idle[--b->n_idle]);
    uv_mutex_destroy(&b->lock);
    free(b);
}

void *store_pg_bytes_open(struct store_pg *store)
{
    struct store_pg_bytes *b = xcalloc(sizeof *b);
    b->store = store;
    ASSERT(uv_mutex_init(&b->lock) == 0);
    return b;
}

const struct file_store_ops store_pg_bytes_ops = {
    .name = "postgres",
    .part_size = bytes_part_size,
    .part_write = bytes_part_write,
    .part_read = bytes_part_read,
    .part_keep = bytes_part_keep,
    .part_drop = bytes_part_drop,
    .parts_of = bytes_parts_of,
    .parts_sweep = bytes_parts_sweep,
    .blob_read = bytes_blob_read,
    .blob_lend = bytes_blob_lend,
    .blob_drop = bytes_blob_drop,
    .blobs_list = bytes_blobs_list,
    .close = bytes_close,
};
