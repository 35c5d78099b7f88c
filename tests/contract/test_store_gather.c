/* Frames of the log in few writes: how many there are, and that a commit is still the file's when
 * it is told, whatever fails, is rolled back, does not fit SQLite's cache, or comes from another
 * program in between. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "gateway/store/store_sqlite_private.h"
#include "tests/contract/disk_kit.h"
#include "tests/contract/store_kit.h"

#define FRAME_BYTES (24 + 4096)
#define LINES 4000            /* of a task, about 900 KB: some hundred frames */
#define MORE_THAN_CACHE 90000 /* about 10 MB, packed; SQLite's cache has 1 MiB */

/* --- the disk --------------------------------------------------------------------------------- */

static struct {
    unsigned writes;
    atomic_uint frames_read; /* of the log; the checkpoint thread reads as well */
    unsigned fails_at;       /* that write finds the disk full; 0: none does */
} disk;

static int disk_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    if (++disk.writes == disk.fails_at)
        return SQLITE_FULL;
    return disk_real->xWrite(file, bytes, n, at);
}

static int disk_read(sqlite3_file *file, void *bytes, int n, sqlite3_int64 at)
{
    disk.frames_read += n == FRAME_BYTES;
    return disk_real->xRead(file, bytes, n, at);
}

static void disk_replace(sqlite3_io_methods *methods)
{
    methods->xWrite = disk_write;
    methods->xRead = disk_read;
}

static int setup(void **state)
{
    disk.fails_at = 0;
    disk_begin(SQLITE_OPEN_WAL, disk_replace);
    struct fixture *f = kit_new(true);
    put_task(f, 1, "o", "c", "t1");
    put_lines(f, 1, 1, 1);
    commit(f);
    disk.writes = 0;
    disk.frames_read = 0;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    disk.fails_at = 0;
    kit_free(*state);
    disk_end();
    return 0;
}

/* --- what is there ---------------------------------------------------------------------------- */

static void assert_head(struct fixture *f, uint64_t head)
{
    assert_lines(ask(f, (struct query){.kind = QUERY_TAILS}), 0, 1, 1, head);
}

static void copy_file(const char *from, const char *to, const char *name)
{
    static char bytes[32 << 20];
    char path[256];
    snprintf(path, sizeof path, "%s/%s", from, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_in_range(n, 1, sizeof bytes - 1);
    snprintf(path, sizeof path, "%s/%s", to, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, (size_t)n), n);
    close(fd);
}

/* That is what a gateway finds that starts after this one was killed just now. */
static void assert_head_after_kill(const struct fixture *f, uint64_t head)
{
    struct fixture copy = {.batch = batch_new()};
    snprintf(copy.dir, sizeof copy.dir, "%.50s/copy", f->dir);
    assert_int_equal(mkdir(copy.dir, 0700), 0);
    copy_file(f->dir, copy.dir, "holdfast.db");
    copy_file(f->dir, copy.dir, "holdfast.db-wal");
    kit_open(&copy);
    assert_head(&copy, head);
    kit_shut(&copy);
    batch_free(copy.batch);
    dir_remove(copy.dir);
}

static sqlite3 *another_program(const struct fixture *f)
{
    char path[256];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/holdfast.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void assert_said(sqlite3 *db, const char *sql, const char *expected)
{
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(stmt, 0), expected);
    sqlite3_finalize(stmt);
}

/* --- commits ---------------------------------------------------------------------------------- */

static void test_small_commit_is_one_write(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seq = 2; seq < 10; seq++) {
        put_lines(f, 1, seq, seq);
        disk.writes = 0;
        commit(f);
        assert_int_equal(disk.writes, 1);
        assert_head_after_kill(f, seq);
    }
}

static void test_large_commit_is_few_writes(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite *s = f->store;
    uint64_t before = atomic_load(&s->wal_frames);
    put_lines(f, 1, 2, LINES);
    commit(f);
    uint64_t frames = atomic_load(&s->wal_frames) - before;
    assert_true(frames > 100);
    assert_in_range(disk.writes, 1, frames / (GATHER_BYTES / FRAME_BYTES) + 1);
    assert_head(f, LINES);
    assert_head_after_kill(f, LINES);
}

/* SQLite writes pages before the commit then, changes some of them again, and sums all frames
 * behind those anew. */
static void test_commit_beyond_the_cache_is_whole(void **state)
{
    struct fixture *f = *state;
    put_task(f, 2, "o", "c", "t2");
    put_lines(f, 1, 2, MORE_THAN_CACHE);
    put_task(f, 3, "o", "c", "t3"); /* into the page that has the last, and is in the log now */
    commit(f);
    assert_true(disk.frames_read > 0);
    assert_head(f, MORE_THAN_CACHE);
    assert_head_after_kill(f, MORE_THAN_CACHE);
    put_lines(f, 1, MORE_THAN_CACHE + 1, MORE_THAN_CACHE + 1);
    commit(f);
    assert_head_after_kill(f, MORE_THAN_CACHE + 1);
}

/* F37. */
static void test_commit_of_which_any_write_fails_changes_nothing_and_lands_later(void **state)
{
    struct fixture *f = *state;
    uint64_t head = 1;
    unsigned n = 0;
    for (;; head += LINES / 4) {
        put_lines(f, 1, head + 1, head + LINES / 4);
        disk.writes = 0;
        disk.fails_at = ++n;
        int status = f->ops->commit(f->store, f->batch);
        disk.fails_at = 0;
        if (status == STORE_OK) /* it has no such write */
            break;
        assert_int_equal(status, STORE_FULL);
        assert_head(f, head);
        assert_head_after_kill(f, head);
        commit(f);
        assert_head(f, head + LINES / 4);
        assert_head_after_kill(f, head + LINES / 4);
    }
    assert_true(n > 3);
}

/* The frames that were kept belong to nobody then, and their place in the log to whoever is next.
 */
static void test_rolled_back_frames_do_not_spoil_what_another_program_commits(void **state)
{
    struct fixture *f = *state;
    put_lines(f, 1, 2, MORE_THAN_CACHE);
    put_task(f, 1, "o", "c", "t1"); /* there is one: the last op fails */
    assert_true(f->ops->commit(f->store, f->batch) < 0);
    batch_free(f->batch);
    f->batch = batch_new();
    sqlite3 *db = another_program(f);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE theirs (bytes);", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "INSERT INTO theirs VALUES (zeroblob(3000000));", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    put_lines(f, 1, 2, LINES);
    commit(f);
    assert_head(f, LINES);
    assert_head_after_kill(f, LINES);
    db = another_program(f);
    assert_said(db, "PRAGMA integrity_check", "ok");
    assert_said(db, "SELECT bytes = zeroblob(3000000) FROM theirs", "1");
    sqlite3_close(db);
}

/* --- what else SQLite asks of the file -------------------------------------------------------- */

static void ask_sync(sqlite3_file *file)
{
    assert_int_equal(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL), SQLITE_OK);
}

static void ask_size(sqlite3_file *file)
{
    sqlite3_int64 size;
    assert_int_equal(file->pMethods->xFileSize(file, &size), SQLITE_OK);
}

static void ask_truncate(sqlite3_file *file)
{
    assert_int_equal(file->pMethods->xTruncate(file, (3 << 20) + FRAME_BYTES), SQLITE_OK);
}

static void ask_read(sqlite3_file *file)
{
    char page[4096];
    assert_int_equal(file->pMethods->xRead(file, page, sizeof page, (3 << 20) + 24), SQLITE_OK);
    assert_int_equal(page[4095], 'p');
}

static void ask_elsewhere(sqlite3_file *file)
{
    assert_int_equal(file->pMethods->xWrite(file, "x", 1, 2 << 20), SQLITE_OK);
}

static void test_whatever_else_is_asked_comes_behind_what_was_kept(void **state)
{
    static void (*const asks[])(sqlite3_file *) = {ask_sync, ask_size, ask_truncate, ask_read,
                                                   ask_elsewhere};
    struct fixture *f = *state;
    struct store_sqlite *s = f->store;
    sqlite3_file *file = NULL;
    static const char header[24] = {0};
    char page[4096], path[256];
    struct stat seen;
    memset(page, 'p', sizeof page);
    snprintf(path, sizeof path, "%s/holdfast.db-wal", f->dir);
    sqlite3_file_control(s->writer.db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, (void *)&file);
    for (size_t i = 0; i < countof(asks); i++) {
        assert_int_equal(truncate(path, 1 << 20), 0);
        assert_int_equal(file->pMethods->xWrite(file, header, 24, 3 << 20), SQLITE_OK);
        assert_int_equal(file->pMethods->xWrite(file, page, 4096, (3 << 20) + 24), SQLITE_OK);
        assert_int_equal(stat(path, &seen), 0);
        assert_int_equal(seen.st_size, (3 << 20) + 24);
        asks[i](file);
        assert_int_equal(stat(path, &seen), 0);
        assert_int_equal(seen.st_size, (3 << 20) + FRAME_BYTES);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_small_commit_is_one_write),
        TEST(test_large_commit_is_few_writes),
        TEST(test_commit_beyond_the_cache_is_whole),
        TEST(test_commit_of_which_any_write_fails_changes_nothing_and_lands_later),
        TEST(test_rolled_back_frames_do_not_spoil_what_another_program_commits),
        TEST(test_whatever_else_is_asked_comes_behind_what_was_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
