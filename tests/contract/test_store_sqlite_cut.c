/* F35: the gateway died while it wrote. The write-ahead log ends in the middle of a commit, at any
 * byte: all commits before it are whole, the torn one is gone as a whole, and writing continues
 * after it. */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/contract/store_kit.h"

#define COMMITS 8
#define LINES_EACH 7 /* lines of a commit */
#define STEP 109     /* bytes; no divisor of a frame, so that cuts fall everywhere in one */

static const char *path_in(const char *dir, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static off_t wal_size(const struct fixture *f)
{
    struct stat st;
    assert_int_equal(stat(path_in(f->dir, "holdfast.db-wal"), &st), 0);
    return st.st_size;
}

static void copy_file(const char *from, const char *to, const char *name, off_t size)
{
    static char bytes[4 << 20];
    int fd = open(path_in(from, name), O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_in_range(n, 0, sizeof bytes - 1);
    if (size >= 0 && size < n)
        n = size;
    fd = open(path_in(to, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, (size_t)n), n);
    close(fd);
}

/* The state for a gateway that starts on the log's first bytes: lines 1 to head, nothing torn. */
static uint64_t head_of(struct fixture *copy)
{
    struct answer *a = ask(copy, (struct query){.kind = QUERY_TAILS});
    assert_int_equal(a->n_blocks, 1);
    uint64_t head = a->blocks[0]->last;
    assert_lines(a, 0, 1, 1, head);
    return head;
}

static void check_cut(const struct fixture *f, off_t size, uint64_t expected)
{
    struct fixture copy = {.batch = batch_new()};
    snprintf(copy.dir, sizeof copy.dir, "%.50s/copy", f->dir);
    assert_int_equal(mkdir(copy.dir, 0700), 0);
    copy_file(f->dir, copy.dir, "holdfast.db", -1);
    copy_file(f->dir, copy.dir, "holdfast.db-wal", size);
    kit_open(&copy);
    uint64_t head = head_of(&copy);
    if (head != expected)
        fail_msg("cut at %lld: head %llu", (long long)size, (unsigned long long)head);
    put_lines(&copy, 1, head + 1, head + 1);
    commit(&copy);
    kit_reopen(&copy);
    assert_int_equal(head_of(&copy), head + 1);
    kit_shut(&copy);
    batch_free(copy.batch);
    dir_remove(copy.dir);
}

static void test_log_cut_at_any_byte_loses_the_torn_commit_alone(void **state)
{
    struct fixture *f = *state;
    off_t ends[COMMITS + 1] = {0};
    put_task(f, 1, "o", "c", "t1");
    put_lines(f, 1, 1, LINES_EACH);
    commit(f);
    for (int i = 0; i < COMMITS; i++) {
        ends[i] = wal_size(f);
        uint64_t first = (uint64_t)(i + 1) * LINES_EACH + 1;
        put_lines(f, 1, first, first + LINES_EACH - 1);
        commit(f);
    }
    ends[COMMITS] = wal_size(f);
    assert_true(ends[COMMITS] > ends[0]);
    off_t cut = ends[0];
    for (int i = 0; i < COMMITS; i++) {
        off_t step = i < COMMITS - 1 ? (ends[i + 1] - ends[i]) / 4 + 1 : STEP;
        for (; cut < ends[i + 1]; cut += step)
            check_cut(f, cut, (uint64_t)(i + 1) * LINES_EACH);
        cut = ends[i + 1];
    }
    check_cut(f, cut, (COMMITS + 1) * LINES_EACH);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_log_cut_at_any_byte_loses_the_torn_commit_alone, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
