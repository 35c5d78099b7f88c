/* One gateway for a data directory, whatever somebody deletes in it. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

#include "gateway/store/store_lock.h"
#include "tests/contract/store_kit.h"

static int setup(void **state)
{
    *state = kit_new(true);
    return 0;
}

static int teardown(void **state)
{
    kit_free(*state);
    return 0;
}

static const char *path_in(const char *dir, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int open_again(const char *dir, char *ret_error)
{
    struct store_sqlite_options options = {.dir = dir};
    struct store_sqlite *s = NULL;
    int status = store_sqlite_open(&options, &s, ret_error);
    if (status == STORE_OK)
        store_sqlite_ops.close(s);
    return status;
}

static void test_second_gateway_is_told_who_is_there(void **state)
{
    struct fixture *f = *state;
    char error[STORE_ERROR_TEXT] = "", expected[STORE_ERROR_TEXT];
    snprintf(expected, sizeof expected, "data directory %s is in use by process %ld", f->dir,
             (long)getpid());
    assert_int_equal(open_again(f->dir, error), STORE_BUSY);
    assert_string_equal(error, expected);
    commit(f); /* the first one is not disturbed */
    kit_shut(f);
    assert_int_equal(open_again(f->dir, error), STORE_OK);
    kit_open(f);
}

/* Opens the directory in another process: to close a descriptor of the database here would drop
 * SQLite's own locks. */
static int open_elsewhere(const char *dir, char error[STORE_ERROR_TEXT])
{
    int told[2], status = 0;
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        char why[STORE_ERROR_TEXT] = "";
        status = open_again(dir, why);
        bool good = write(told[1], &status, sizeof status) == sizeof status &&
                    write(told[1], why, sizeof why) == sizeof why;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(read(told[0], &status, sizeof status), sizeof status);
    assert_int_equal(read(told[0], error, STORE_ERROR_TEXT), STORE_ERROR_TEXT);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(told[0]);
    close(told[1]);
    return status;
}

static void test_second_gateway_is_refused_without_the_lock_file(void **state)
{
    struct fixture *f = *state;
    char error[STORE_ERROR_TEXT], expected[STORE_ERROR_TEXT];
    snprintf(expected, sizeof expected, "data directory %s is in use by another process", f->dir);
    assert_int_equal(unlink(path_in(f->dir, "lock")), 0);
    for (int i = 0; i < 2; i++) { /* the second one finds the lock file of the first */
        assert_int_equal(open_elsewhere(f->dir, error), STORE_BUSY);
        assert_string_equal(error, expected);
    }
    put_task(f, 1, "o", "c", "t1");
    commit(f);
    kit_shut(f);
    assert_int_equal(open_elsewhere(f->dir, error), STORE_OK);
    kit_open(f);
}

/* As the doctor and a backup do: several at once, and no gateway meanwhile. */
static void test_directory_that_is_looked_at_takes_no_gateway(void **state)
{
    struct fixture *f = *state;
    struct store_lock one, two;
    char error[STORE_ERROR_TEXT], pid[32];
    bool in_use = false;
    assert_int_equal(store_lock_share(&one, f->dir, &in_use, pid, error), STORE_OK);
    assert_true(in_use);
    assert_int_equal(strtol(pid, NULL, 10), getpid());
    kit_shut(f);
    store_lock_release(&one);
    for (int i = 0; i < 2; i++) { /* with and without a lock file */
        assert_int_equal(store_lock_share(&one, f->dir, &in_use, pid, error), STORE_OK);
        assert_false(in_use);
        assert_int_equal(store_lock_share(&two, f->dir, &in_use, pid, error), STORE_OK);
        assert_false(in_use);
        store_lock_release(&two);
        assert_int_equal(open_elsewhere(f->dir, error), STORE_BUSY);
        store_lock_release(&one);
        assert_int_equal(unlink(path_in(f->dir, "lock")), 0);
    }
    kit_open(f);
}

/* In a child: what a gateway leaves behind that was killed while it started a program. */
static void hold_for_the_dead(const char *dir, int ready)
{
    char pid[32];
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    int fd = open(path_in(dir, "lock"), O_RDWR);
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)gone);
    bool good = flock(fd, LOCK_EX) == 0 && ftruncate(fd, 0) == 0 &&
                write(fd, pid, (size_t)n) == n && write(ready, "", 1) == 1;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    _exit(good ? 0 : 1);
}

static void test_lock_of_the_dead_is_waited_for(void **state)
{
    struct fixture *f = *state;
    char error[STORE_ERROR_TEXT] = "", byte;
    int ready[2], status = -1;
    kit_shut(f);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0)
        hold_for_the_dead(f->dir, ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(open_again(f->dir, error), STORE_OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    kit_open(f);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_second_gateway_is_told_who_is_there),
        TEST(test_second_gateway_is_refused_without_the_lock_file),
        TEST(test_directory_that_is_looked_at_takes_no_gateway),
        TEST(test_lock_of_the_dead_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
