/* Opening, closing, checkpoints.
 *
 * Checkpoints are off the commit path, in two stages.  When the WAL passes its limit (the hook that
 * SQLite calls after each commit counts its frames), the thread copies it with a connection of its
 * own, again and again until few frames are left, and syncs the database.  Then the writer, between
 * two commits (idle), copies those few, so that for once everything is copied and the WAL begins
 * anew.  The thread alone would never catch up, and the writer alone would stop commits for as long
 * as a disk takes to write everything twice.  The writer waits for the thread where commits are
 * faster than the disk. */
#include "gateway/store/store_sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/folders.h"
#include "gateway/store/data_dir.h"
#include "gateway/store/store_sqlite_private.h"

#define PAGE_BYTES 4096
#define WAL_BYTES (8u << 20)
#define CHECKPOINT_PAUSE_NS 1000000000u /* after one that failed */
#define LEFT_FRAMES 128                 /* few enough for the writer */
#define PASSES_MAX 4                    /* of the thread, while commits are faster than it */

void store_note_error(struct store_sqlite *s, const struct sql_conn *conn)
{
    uv_mutex_lock(&s->lock);
    memcpy(s->error, conn->error, sizeof s->error);
    uv_mutex_unlock(&s->lock);
}

void store_sqlite_last_error(struct store_sqlite *store, char ret[STORE_ERROR_TEXT])
{
    uv_mutex_lock(&store->lock);
    memcpy(ret, store->error, sizeof store->error);
    uv_mutex_unlock(&store->lock);
}

uint64_t store_sqlite_wal_bytes(struct store_sqlite *store)
{
    return atomic_load(&store->wal_frames) * PAGE_BYTES;
}

uint64_t store_sqlite_checkpoint_failures(struct store_sqlite *store)
{
    return atomic_load(&store->checkpoint_failures);
}

bool store_sqlite_checkpoints_fail(struct store_sqlite *store)
{
    return atomic_load(&store->checkpoints_fail);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static int on_wal(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct store_sqlite *s = arg;
    (void)db;
    (void)name;
    atomic_store(&s->wal_frames, (uint64_t)frames);
    if ((size_t)frames < s->wal_limit)
        return SQLITE_OK;
    uv_mutex_lock(&s->lock);
    if (s->checkpoint == CHECKPOINT_NONE && uv_hrtime() >= s->checkpoint_not_before) {
        s->checkpoint = CHECKPOINT_ASKED;
        uv_cond_signal(&s->wake);
    }
    uv_mutex_unlock(&s->lock);
    return SQLITE_OK;
}

/* False when it fails.  Frames that it could not copy are copied the next time. */
static bool checkpoint(struct store_sqlite *s, struct sql_conn *conn, uint64_t *ret_copied)
{
    int copied = -1;
    int rc = sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, &copied);
    bool good = rc == SQLITE_OK || rc == SQLITE_BUSY;
    if (!good) {
        (void)sql_conn_failed(conn, rc);
        store_note_error(s, conn);
        atomic_fetch_add(&s->checkpoint_failures, 1);
    }
    atomic_store(&s->checkpoints_fail, !good);
    *ret_copied = copied > 0 ? (uint64_t)copied : 0;
    return good;
}

/* SQLite syncs the database only after a checkpoint that copied everything: without this, the
 * writer's would wait until everything that the thread wrote is on the disk.  The writer's sync
 * gets any error as well. */
static void sync_database(struct sql_conn *conn)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(conn->db, NULL, SQLITE_FCNTL_FILE_POINTER, (void *)&file);
    if (rc == SQLITE_OK && file && file->pMethods)
        (void)file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
}

/* Stops where a reader, such as one that checks or copies the store, holds an old state. */
static bool copy_most(struct store_sqlite *s)
{
    for (int i = 0; i < PASSES_MAX; i++) {
        uint64_t copied;
        if (!checkpoint(s, &s->checkpointer, &copied))
            return false;
        if (copied == s->copied_frames)
            break;
        s->copied_frames = copied;
        sync_database(&s->checkpointer);
        if (atomic_load(&s->wal_frames) <= copied + LEFT_FRAMES)
            break;
    }
    return true;
}

/* A failed one may have copied all but the last page, and the next one begins anew: so they take a
 * fifth of one disk's time at most. */
static void put_off(struct store_sqlite *s, uint64_t began_ns)
{
    uint64_t now = uv_hrtime();
    s->checkpoint_not_before = now + s->checkpoint_pause_ns + 4 * (now - began_ns);
    s->checkpoint = CHECKPOINT_NONE;
}

static void run_checkpoints(void *arg)
{
    struct store_sqlite *s = arg;
    uv_mutex_lock(&s->lock);
    while (s->checkpoint != CHECKPOINT_STOP) {
        if (s->checkpoint != CHECKPOINT_ASKED) {
            uv_cond_wait(&s->wake, &s->lock);
            continue;
        }
        uv_mutex_unlock(&s->lock);
        uint64_t began = uv_hrtime();
        bool good = copy_most(s);
        uv_mutex_lock(&s->lock);
        if (s->checkpoint == CHECKPOINT_ASKED && good)
            s->checkpoint = CHECKPOINT_READY;
        else if (s->checkpoint == CHECKPOINT_ASKED)
            put_off(s, began);
        uv_cond_signal(&s->copied);
    }
    uv_mutex_unlock(&s->lock);
}

/* When the last one failed, the log grows whether or not the writer waits for the next. */
static bool waits_for_checkpoint(const struct store_sqlite *s)
{
    return s->checkpoint == CHECKPOINT_ASKED && !atomic_load(&s->checkpoints_fail) &&
           atomic_load(&s->wal_frames) >= 2 * s->wal_limit;
}

static void sqlite_idle(void *store)
{
    struct store_sqlite *s = store;
    uv_mutex_lock(&s->lock);
    while (waits_for_checkpoint(s))
        uv_cond_wait(&s->copied, &s->lock);
    bool ready = s->checkpoint == CHECKPOINT_READY;
    uv_mutex_unlock(&s->lock);
    if (ready) {
        uint64_t copied, began = uv_hrtime();
        bool good = checkpoint(s, &s->writer, &copied);
        uv_mutex_lock(&s->lock);
        s->checkpoint = CHECKPOINT_NONE;
        if (!good)
            put_off(s, began);
        uv_mutex_unlock(&s->lock);
    }
    sqlite_collect_garbage(s);
}

/* --- the directory ---------------------------------------------------------------------------- */

static int dir_make(const char *dir, char *ret_error)
{
    if (folders_make(dir))
        return data_dir_narrow(dir, ret_error) ? STORE_OK : STORE_IO;
    snprintf(ret_error, STORE_ERROR_TEXT, "cannot create the data directory %.160s: %s", dir,
             strerror(errno));
    return STORE_IO;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int configure(struct sql_conn *conn, bool power)
{
    /* Debian's build turns secure_delete on, which would write each freed page.  The page cache is
     * small: with packed lines 8 MiB of it saved nothing (bench/README.md, `live`). */
    int status = sql_conn_exec(conn, "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;"
                                     "PRAGMA journal_size_limit = 33554432;"
                                     "PRAGMA secure_delete = OFF; PRAGMA cache_size = -1024;"
                                     "PRAGMA temp_store = MEMORY;");
    if (status == STORE_OK)
        status = sql_conn_exec(conn,
                               power ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
    return status;
}

static int marks_read(struct store_sqlite *s)
{
    struct sql_call c = sql_begin(&s->writer, STMT_MARKS);
    bool sound = sql_step(&c) && sql_is_sound(&c, 0, 0, 1);
    if (sound) {
        struct str newest = sql_col(&c, 1);
        s->marks.next_key = sql_col_int(&c, 0);
        if (newest.n == TASK_ID_LEN)
            memcpy(s->marks.newest_id, newest.p, TASK_ID_LEN);
    }
    int status = sql_end(&c);
    if (status == STORE_OK && !sound)
        return sql_conn_damaged(&s->writer, "the row of marks is not as it was written");
    if (status == STORE_OK) {
        c = sql_begin(&s->writer, STMT_GARBAGE_FIRST);
        s->has_garbage = sql_step(&c);
        status = sql_end(&c);
    }
    return status;
}

/* A connection that has read nothing yet does not know about the WAL, and its checkpoints do
 * nothing. */
static int checkpointer_open(struct store_sqlite *s)
{
    int status = sql_conn_open(&s->checkpointer, s->path, false);
    if (status == STORE_OK)
        status = sql_conn_exec(&s->checkpointer, "PRAGMA user_version");
    if (status < 0)
        return status;
    int rc = sql_grow_attach(&s->grow, s->checkpointer.db);
    return rc == SQLITE_OK ? STORE_OK : sql_conn_failed(&s->checkpointer, rc);
}

static int writer_gather(struct store_sqlite *s)
{
    int rc = sql_gather_attach(&s->gather, s->writer.db);
    return rc == SQLITE_OK ? STORE_OK : sql_conn_failed(&s->writer, rc);
}

static int database_open(struct store_sqlite *s, bool power, char *ret_error)
{
    int status = sql_conn_open(&s->writer, s->path, false);
    if (status == STORE_OK)
        status = configure(&s->writer, power);
    ret_error[0] = 0;
    if (status == STORE_OK)
        status = sql_schema_migrate(&s->writer, schema_scripts, schema_version, ret_error);
    if (status == STORE_OK)
        status = marks_read(s);
    if (status == STORE_OK)
        status = sqlite_usage_mend(s);
    if (status == STORE_OK)
        status = sqlite_journal_open(&s->journal, &s->writer);
    if (status == STORE_OK)
        status = checkpointer_open(s);
    if (status == STORE_OK)
        status = writer_gather(s);
    if (status < 0 && !ret_error[0])
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot open %.100s: %.140s", s->path,
                 s->writer.error[0] ? s->writer.error : "the journal cannot be read");
    return status;
}

static void sqlite_close(void *store)
{
    struct store_sqlite *s = store;
    if (!s)
        return;
    uv_mutex_lock(&s->lock);
    s->checkpoint = CHECKPOINT_STOP;
    uv_cond_signal(&s->wake);
    uv_mutex_unlock(&s->lock);
    if (s->has_thread)
        uv_thread_join(&s->thread);
    sql_conn_close(&s->checkpointer);
    sqlite_journal_close(&s->journal);
    buf_done(&s->packed);
    sql_conn_close(&s->writer); /* the last one: copies the rest of the WAL and removes it */
    store_lock_release(&s->held);
    uv_cond_destroy(&s->wake);
    uv_cond_destroy(&s->copied);
    uv_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
}

int store_sqlite_open(const struct store_sqlite_options *options, struct store_sqlite **ret,
                      char ret_error[STORE_ERROR_TEXT])
{
    struct store_sqlite *s = xcalloc(sizeof *s);
    struct buf path = {0};
    s->held = STORE_LOCK_NONE;
    s->checkpoint_pause_ns = CHECKPOINT_PAUSE_NS;
    s->wal_limit = (options->wal_bytes ? options->wal_bytes : WAL_BYTES) / PAGE_BYTES;
    ASSERT(uv_mutex_init(&s->lock) == 0 && uv_cond_init(&s->wake) == 0 &&
           uv_cond_init(&s->copied) == 0);
    buf_putf(&path, "%s/holdfast.db", options->dir);
    s->path = buf_take(&path);

    int status = dir_make(options->dir, ret_error);
    if (status == STORE_OK)
        status = store_lock_take(&s->held, options->dir, ret_error);
    if (status == STORE_OK)
        status = database_open(s, options->power, ret_error);
    if (status == STORE_OK) {
        sqlite3_wal_hook(s->writer.db, on_wal, s);
        s->has_thread = uv_thread_create(&s->thread, run_checkpoints, s) == 0;
        if (!s->has_thread) {
            snprintf(ret_error, STORE_ERROR_TEXT, "cannot start a thread");
            status = STORE_IO;
        }
    }
    if (status == STORE_OK)
        *ret = s;
    else
        sqlite_close(s);
    return status;
}

/* --- the backend ------------------------------------------------------------------------------ */

static int sqlite_start(void *store, struct store_start *ret)
{
    *ret = ((struct store_sqlite *)store)->marks;
    return STORE_OK;
}

static int reader_ahead(struct sql_reader *r)
{
    int rc = sql_ahead_attach(&r->ahead, r->conn.db);
    return rc == SQLITE_OK ? STORE_OK : sql_conn_failed(&r->conn, rc);
}

static void *sqlite_reader_open(void *store)
{
    struct store_sqlite *s = store;
    struct sql_reader *r = xcalloc(sizeof *r);
    r->store = s;
    /* Half of the writer's page cache: core keeps what is read often, blocks. */
    if (sql_conn_open(&r->conn, s->path, true) == STORE_OK &&
        sql_conn_exec(&r->conn, "PRAGMA cache_size = -512") == STORE_OK &&
        reader_ahead(r) == STORE_OK)
        return r;
    store_note_error(s, &r->conn);
    sql_conn_close(&r->conn);
    sql_ahead_done(&r->ahead);
    free(r);
    return NULL;
}

static void sqlite_reader_close(void *reader)
{
    struct sql_reader *r = reader;
    if (!r)
        return;
    tails_done(&r->tails);
    buf_done(&r->packed);
    sql_conn_close(&r->conn);
    sql_ahead_done(&r->ahead);
    free(r);
}

const struct store_ops store_sqlite_ops = {
    .name = "sqlite",
    .commit = sqlite_commit,
    .start = sqlite_start,
    .reader_open = sqlite_reader_open,
    .reader_close = sqlite_reader_close,
    .query = sqlite_query,
    .idle = sqlite_idle,
    .close = sqlite_close,
};
