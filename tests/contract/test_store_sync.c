/* F37: a commit whose sync fails, with durability "power". The requester is told that it failed,
 * and nobody sees it; but its bytes may lie in the log. So it is tried again and lands once, what
 * comes in its place replaces it, and where the gateway dies before either it may be there: then as
 * a whole. */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "tests/contract/disk_kit.h"
#include "tests/contract/store_kit.h"

#define BEFORE 5 /* lines that were committed when all was well */

static struct {
    bool broken;
    unsigned failed;
} disk;

static int disk_sync(sqlite3_file *file, int flags)
{
    disk.failed += disk.broken;
    return disk.broken ? SQLITE_IOERR_FSYNC : disk_real->xSync(file, flags);
}

static void disk_replace(sqlite3_io_methods *methods)
{
    methods->xSync = disk_sync;
}

static int setup(void **state)
{
    disk.broken = false;
    disk.failed = 0;
    disk_begin(SQLITE_OPEN_WAL, disk_replace);
    struct fixture *f = kit_new(true);
    f->power = true;
    kit_reopen(f);
    put_task(f, 1, "o", "c", "t1");
    put_lines(f, 1, 1, BEFORE);
    commit(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    disk.broken = false;
    kit_free(*state);
    disk_end();
    return 0;
}

static void assert_head(struct fixture *f, uint64_t head)
{
    assert_lines(ask(f, (struct query){.kind = QUERY_TAILS}), 0, 1, 1, head);
}

/* The batch as it is, which stays. */
static void fail_commit(struct fixture *f)
{
    unsigned before = disk.failed;
    disk.broken = true;
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_IO);
    disk.broken = false;
    assert_true(disk.failed > before);
    assert_head(f, BEFORE);
}

static void copy_file(const char *from, const char *to, const char *name)
{
    static char bytes[4 << 20];
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

/* The state for a gateway that starts after this one was killed just now; it continues from
 * there. */
static void assert_head_after_crash(const struct fixture *f, uint64_t head)
{
    struct fixture copy = {.batch = batch_new(), .power = true};
    snprintf(copy.dir, sizeof copy.dir, "%.50s/copy", f->dir);
    assert_int_equal(mkdir(copy.dir, 0700), 0);
    copy_file(f->dir, copy.dir, "holdfast.db");
    copy_file(f->dir, copy.dir, "holdfast.db-wal");
    kit_open(&copy);
    assert_head(&copy, head);
    put_lines(&copy, 1, head + 1, head + 2);
    commit(&copy);
    kit_reopen(&copy);
    assert_head(&copy, head + 2);
    kit_shut(&copy);
    batch_free(copy.batch);
    dir_remove(copy.dir);
}

static void test_commit_whose_sync_failed_lands_once_when_it_is_tried_again(void **state)
{
    struct fixture *f = *state;
    put_lines(f, 1, BEFORE + 1, BEFORE + 5);
    fail_commit(f);
    fail_commit(f);
    commit(f);
    assert_head(f, BEFORE + 5);
    assert_head_after_crash(f, BEFORE + 5);
    kit_reopen(f);
    assert_head(f, BEFORE + 5);
}

/* The log has it, and nothing after it says otherwise. */
static void test_commit_whose_sync_failed_is_whole_after_a_crash(void **state)
{
    struct fixture *f = *state;
    put_lines(f, 1, BEFORE + 1, BEFORE + 500);
    fail_commit(f);
    assert_head_after_crash(f, BEFORE + 500);
}

/* Given up: the numbers are given again, to shorter lines, and what is left of the long ones in the
 * log behind them is nothing. */
static void test_commit_that_takes_the_place_of_one_that_failed_replaces_it(void **state)
{
    struct fixture *f = *state;
    put_lines(f, 1, BEFORE + 1, BEFORE + 500);
    fail_commit(f);
    batch_free(f->batch);
    f->batch = batch_new();
    put_lines(f, 1, BEFORE + 1, BEFORE + 1);
    commit(f);
    assert_head(f, BEFORE + 1);
    assert_head_after_crash(f, BEFORE + 1);
    kit_reopen(f);
    assert_head(f, BEFORE + 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_commit_whose_sync_failed_lands_once_when_it_is_tried_again),
        TEST(test_commit_whose_sync_failed_is_whole_after_a_crash),
        TEST(test_commit_that_takes_the_place_of_one_that_failed_replaces_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
