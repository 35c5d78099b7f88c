/* How the SQLite store reads and writes its database's pages: blocks in long reads, growth in long
 * writes.  Both are invisible: the bytes are the same, whatever lies where, whatever a checkpoint
 * does meanwhile, and a disk that refuses the long ones is a disk that works. */
#include <stdatomic.h>
#include <sys/stat.h>

#include "gateway/store/store_sqlite_private.h"
#include "tests/contract/disk_kit.h"
#include "tests/contract/store_kit.h"

#define PAGE 4096
#define A_BLOCK 120 /* lines, of some 180 bytes */

/* --- the disk --------------------------------------------------------------------------------- */

static struct {
    _Atomic unsigned reads, long_writes;
    _Atomic int most_read, most_written; /* bytes that work at a time */
} disk;

static int disk_read(sqlite3_file *file, void *ret, int n, sqlite3_int64 at)
{
    disk.reads++;
    return n > disk.most_read ? SQLITE_IOERR_READ : disk_real->xRead(file, ret, n, at);
}

static int disk_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    if (n > disk.most_written)
        return SQLITE_FULL;
    disk.long_writes += n > PAGE;
    return disk_real->xWrite(file, bytes, n, at);
}

static void disk_replace(sqlite3_io_methods *methods)
{
    methods->xRead = disk_read;
    methods->xWrite = disk_write;
}

static int setup(void **state)
{
    disk.most_read = disk.most_written = INT32_MAX;
    disk_begin(SQLITE_OPEN_MAIN_DB, disk_replace);
    struct fixture *f = kit_new(true);
    put_task(f, 1, "o", "c", "t1");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    disk.most_read = disk.most_written = INT32_MAX;
    kit_free(*state);
    disk_end();
    return 0;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void put_block(struct fixture *f, int64_t key, uint64_t i)
{
    put_seal(f, key, i * A_BLOCK + 1, (i + 1) * A_BLOCK);
}

static int ask_blocks(struct fixture *f, int64_t key, uint64_t first_block)
{
    return ask_status(f, (struct query){.kind = QUERY_BLOCKS,
                                        .task_key = key,
                                        .after = first_block * A_BLOCK,
                                        .max_bytes = 256 * 1024});
}

static void assert_blocks(struct fixture *f, int64_t key, uint64_t n)
{
    uint64_t i = 0;
    while (i < n) {
        assert_int_equal(ask_blocks(f, key, i), STORE_OK);
        assert_true(f->answer.n_blocks > 0);
        for (size_t k = 0; k < f->answer.n_blocks; k++, i++)
            assert_lines(&f->answer, k, key, i * A_BLOCK + 1, (i + 1) * A_BLOCK);
    }
    assert_int_equal(i, n);
}

static size_t pages_of(const struct answer *answer)
{
    size_t n = 0;
    for (size_t i = 0; i < answer->n_blocks; i++)
        n += answer->blocks[i]->len / PAGE;
    return n;
}

/* Eight blocks in the database itself, nothing in the log, and a reader that has read nothing. */
static void put_eight(struct fixture *f)
{
    for (uint64_t i = 0; i < 8; i++)
        put_block(f, 1, i);
    commit(f);
    kit_reopen(f);
}

static void test_blocks_side_by_side_come_in_few_reads(void **state)
{
    struct fixture *f = *state;
    put_eight(f);
    assert_int_equal(ask_blocks(f, 7, 0), STORE_OK); /* reads the schema, and finds nothing */
    unsigned before = disk.reads;
    assert_int_equal(ask_blocks(f, 1, 0), STORE_OK);
    assert_int_equal(f->answer.n_blocks, 8);
    assert_true(f->answer.blocks[7]->is_summed); /* nobody looks at each line again */
    assert_true(pages_of(&f->answer) > 32);
    assert_true((disk.reads - before) * 2 < pages_of(&f->answer));
    assert_blocks(f, 1, 8);
}

static void test_disk_that_refuses_long_reads_is_read_by_pages(void **state)
{
    struct fixture *f = *state;
    put_eight(f);
    disk.most_read = PAGE;
    assert_blocks(f, 1, 8);
}

static void test_block_that_cannot_be_read_is_a_fault_until_it_can(void **state)
{
    struct fixture *f = *state;
    put_eight(f);
    assert_blocks(f, 1, 8);
    disk.most_read = 0;
    assert_int_equal(ask_blocks(f, 1, 0), STORE_IO);
    disk.most_read = INT32_MAX;
    assert_blocks(f, 1, 8);
}

static void test_end_of_the_database_is_read_up_to_it(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    char path[128];
    snprintf(path, sizeof path, "%s/holdfast.db", f->dir);
    put_eight(f);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - (off_t)2 * PAGE), 0);
    assert_true(ask_blocks(f, 1, 0) < 0 || f->answer.n_blocks < 8); /* and no crash */
}

/* Blocks of several tasks in turn, and new ones in the pages of removed ones, in the log, in the
 * database and in both. */
static void test_scattered_blocks_come_whole(void **state)
{
    struct fixture *f = *state;
    char id[16];
    for (int64_t key = 2; key <= 20; key++) {
        snprintf(id, sizeof id, "t%d", (int)key);
        put_task(f, key, "o", "c", id);
    }
    for (uint64_t i = 0; i < 4; i++)
        for (int64_t key = 1; key <= 20; key++)
            put_block(f, key, i);
    commit(f);
    for (int64_t key = 2; key <= 20; key += 2)
        put_events_remove(f, key, "o", 0);
    commit(f);
    for (int i = 0; i < 20; i++)
        f->ops->idle(f->store); /* removes their blocks */
    for (uint64_t i = 4; i < 12; i++) {
        for (int64_t key = 1; key <= 19; key += 2)
            put_block(f, key, i);
        commit(f);
        if (i == 7)
            kit_reopen(f); /* so far all is copied into the database */
        for (int64_t key = 1; key <= 19; key += 2)
            assert_blocks(f, key, i + 1);
    }
    kit_reopen(f);
    for (int64_t key = 1; key <= 19; key += 2)
        assert_blocks(f, key, 12);
}

struct writing {
    struct fixture *f;
    atomic_bool ended;
};

/* Tasks come and go, so that pages are used again and again, and checkpoints copy them. */
static void run_writer(void *arg)
{
    struct writing *w = arg;
    struct fixture *f = w->f;
    char id[16];
    for (int64_t key = 100; key < 300; key++) {
        snprintf(id, sizeof id, "t%d", (int)key);
        put_task(f, key, "o", "c", id);
        put_block(f, key, 0);
        put_block(f, key, 1);
        if (key >= 104)
            put_events_remove(f, key - 4, "o", 0);
        int status = commit_status(f);
        ASSERT(status == STORE_OK);
        f->ops->idle(f->store);
    }
    w->ended = true;
}

static void test_checkpoints_do_not_disturb_a_reader(void **state)
{
    struct fixture *f = *state;
    struct writing w = {.f = f};
    uv_thread_t thread;
    ((struct store_sqlite *)f->store)->wal_limit = 64;
    for (uint64_t i = 0; i < 6; i++)
        put_block(f, 1, i);
    commit(f);
    assert_int_equal(uv_thread_create(&thread, run_writer, &w), 0);
    bool sound = true;
    for (int64_t key = 100; !w.ended; key = key < 299 ? key + 1 : 100) {
        sound = sound && ask_blocks(f, 1, 0) == STORE_OK && f->answer.n_blocks == 6;
        sound = sound && ask_blocks(f, key, 0) == STORE_OK;
    }
    uv_thread_join(&thread);
    assert_true(sound); /* each block has its checksum */
    assert_blocks(f, 1, 6);
}

/* --- growth ----------------------------------------------------------------------------------- */

static sqlite3_int64 number(struct fixture *f, const char *sql)
{
    struct store_sqlite *s = f->store;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(s->writer.db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    sqlite3_int64 n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return n;
}

/* The writer's own checkpoint follows the thread's, and makes the log begin anew. */
static void grow(struct fixture *f, uint64_t n)
{
    struct store_sqlite *s = f->store;
    s->wal_limit = 64;
    for (uint64_t i = 0; i < n; i++) {
        put_block(f, 1, i);
        commit(f);
        f->ops->idle(f->store);
    }
}

static void assert_grown(struct fixture *f, uint64_t n)
{
    struct stat st;
    char path[128];
    assert_blocks(f, 1, n);
    kit_reopen(f);
    assert_blocks(f, 1, n);
    snprintf(path, sizeof path, "%s/holdfast.db", f->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, number(f, "PRAGMA page_count") * PAGE);
    assert_int_equal(number(f, "SELECT count(*) FROM pragma_integrity_check WHERE "
                               "integrity_check = 'ok'"),
                     1);
}

static void test_database_grows_in_long_writes(void **state)
{
    struct fixture *f = *state;
    disk.long_writes = 0;
    grow(f, 60);
    assert_true(disk.long_writes > 0);
    assert_grown(f, 60);
}

/* The files as a kill -9 in the middle of a checkpoint leaves them: zeros behind the database, and
 * in the log what belongs there. */
static void test_zeros_of_a_killed_checkpoint_are_overwritten_or_cut(void **state)
{
    struct fixture *f = *state;
    struct fixture copy = {.batch = batch_new()};
    struct stat st;
    char command[512], path[128];
    grow(f, 30);
    ((struct store_sqlite *)f->store)->wal_limit = 1000;
    put_block(f, 1, 30);
    commit(f);
    snprintf(copy.dir, sizeof copy.dir, "%.50s/copy", f->dir);
    snprintf(path, sizeof path, "%s/holdfast.db", copy.dir);
    snprintf(command, sizeof command, "mkdir %s && cp %s/holdfast.* %s/", copy.dir, f->dir,
             copy.dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size + (off_t)40 * PAGE), 0);
    kit_open(&copy);
    assert_blocks(&copy, 1, 31);
    put_block(&copy, 1, 31);
    commit(&copy);
    assert_grown(&copy, 32);
    kit_shut(&copy);
    batch_free(copy.batch);
    dir_remove(copy.dir);
}

static void test_disk_that_refuses_long_writes_is_written_by_pages(void **state)
{
    struct fixture *f = *state;
    disk.most_written = PAGE;
    grow(f, 60);
    assert_int_equal(store_sqlite_checkpoint_failures(f->store), 0);
    assert_grown(f, 60);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_blocks_side_by_side_come_in_few_reads),
        TEST(test_disk_that_refuses_long_reads_is_read_by_pages),
        TEST(test_block_that_cannot_be_read_is_a_fault_until_it_can),
        TEST(test_end_of_the_database_is_read_up_to_it),
        TEST(test_scattered_blocks_come_whole),
        TEST(test_checkpoints_do_not_disturb_a_reader),
        TEST(test_database_grows_in_long_writes),
        TEST(test_zeros_of_a_killed_checkpoint_are_overwritten_or_cut),
        TEST(test_disk_that_refuses_long_writes_is_written_by_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
