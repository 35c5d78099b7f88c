/* The folder of a command: its ring against a naive model, its records as they were written. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gateway/processes/keep_folder.h"
#include "tests/support/t.h"

static char base[] = "/tmp/keep-folder-XXXXXX";
static int parent, folder;

static int setup(void **state)
{
    (void)state;
    parent = open(base, O_RDONLY | O_DIRECTORY);
    if (parent < 0 || mkdirat(parent, "proc_000000000000", 0700) < 0)
        return -1;
    folder = openat(parent, "proc_000000000000", O_RDONLY | O_DIRECTORY);
    return folder < 0;
}

static int teardown(void **state)
{
    (void)state;
    close(folder);
    keep_remove(parent, "proc_000000000000");
    bool gone = faccessat(parent, "proc_000000000000", F_OK, 0) < 0;
    close(parent);
    return !gone;
}

static void write_text(const char *name, const char *text)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* --- the ring --------------------------------------------------------------------------------- */

static char pattern(uint64_t at)
{
    return (char)(at * 2654435761u >> 13);
}

static bool is_pattern(struct str text, uint64_t at)
{
    bool good = true;
    for (size_t i = 0; i < text.n; i++)
        good &= text.p[i] == pattern(at + i);
    return good;
}

static void check_end(int ring, uint64_t total, size_t max)
{
    struct buf out = {0};
    buf_puts(&out, "before");
    struct keep_span got = keep_ring_read(ring, total > max ? total - max : 0, max, &out);
    assert_int_equal(got.end, total);
    assert_int_equal(got.end - got.first, out.len - 6);
    size_t kept = out.len - 6;
    size_t least = total < KEEP_RING - KEEP_CHUNK ? (size_t)total : KEEP_RING - KEEP_CHUNK;
    assert_true(kept >= (max < least ? max : least) && kept <= max);
    bool good = memcmp(out.bytes, "before", 6) == 0 &&
                is_pattern((struct str){out.bytes + 6, kept}, got.first);
    buf_done(&out);
    assert_true(good);
}

static void put_pattern(int ring, uint64_t *total, size_t n)
{
    static char chunk[KEEP_CHUNK];
    for (size_t i = 0; i < n; i++)
        chunk[i] = pattern(*total + i);
    assert_true(keep_ring_put(ring, total, chunk, n));
}

/* A reader that goes on from where it was, in steps of any size, beside a keeper that puts: each
 * byte comes once, and what does not come is said to be written over. */
static void test_keep_ring_is_read_from_a_place(void **state)
{
    uint64_t random = t_seed(), total = 0, place = 0, n_lost = 0;
    int ring = keep_ring_open(folder, true);
    struct buf out = {0};
    (void)state;
    for (int round = 0; round < 2000; round++) {
        bool burst = round % 500 == 499; /* of more than a ring */
        for (int i = 0; i < (burst ? 20 : 1); i++)
            put_pattern(ring, &total, burst ? KEEP_CHUNK : t_below(&random, 3000));
        buf_clear(&out);
        struct keep_span got = keep_ring_read(ring, place, t_below(&random, 5000), &out);
        assert_int_equal(got.end - got.first, out.len);
        assert_true(is_pattern(buf_str(&out), got.first));
        assert_true(got.first >= place && got.end <= total);
        assert_true(got.first == place || got.first + KEEP_RING == total + KEEP_CHUNK);
        n_lost += got.first - place;
        place = got.end;
    }
    buf_done(&out);
    assert_true(n_lost > 0);
    close(ring);
}

static void test_keep_ring_of_another_begins_at_its_end(void **state)
{
    uint64_t total = 0;
    struct buf out = {0};
    int ring = keep_ring_open(folder, true);
    (void)state;
    put_pattern(ring, &total, 100);
    struct keep_span got = keep_ring_read(ring, 5000, 100, &out);
    assert_int_equal(got.first, 100);
    assert_int_equal(got.end, 100);
    assert_int_equal(out.len, 0);
    close(ring);
}

static void test_keep_ring_holds_the_newest_bytes(void **state)
{
    uint64_t random = t_seed(), total = 0;
    char chunk[KEEP_CHUNK];
    int ring = keep_ring_open(folder, true);
    (void)state;
    assert_true(ring >= 0);
    for (int round = 0; round < 120; round++) {
        size_t n = t_below(&random, KEEP_CHUNK + 1);
        for (size_t i = 0; i < n; i++)
            chunk[i] = pattern(total + i);
        assert_true(keep_ring_put(ring, &total, chunk, n));
        assert_int_equal(keep_ring_total(ring), total);
        check_end(ring, total, t_below(&random, 2 * KEEP_RING));
    }
    struct stat st;
    assert_int_equal(fstat(ring, &st), 0);
    assert_true(st.st_size <= KEEP_RING + 8);
    close(ring);
}

/* A keeper that was killed between the bytes and their total: at most a chunk of the oldest is
 * gone. */
static void test_keep_ring_bears_a_put_that_was_cut(void **state)
{
    char chunk[KEEP_CHUNK];
    uint64_t total = 0;
    int ring = keep_ring_open(folder, true);
    (void)state;
    while (total < 3 * (uint64_t)KEEP_RING) {
        for (size_t i = 0; i < sizeof chunk; i++)
            chunk[i] = pattern(total + i);
        assert_true(keep_ring_put(ring, &total, chunk, sizeof chunk));
    }
    memset(chunk, 0x55, sizeof chunk);
    uint64_t told = total;
    assert_true(keep_ring_put(ring, &total, chunk, sizeof chunk));
    assert_int_equal(pwrite(ring, &told, sizeof told, 0), sizeof told);
    check_end(ring, told, KEEP_RING);
    close(ring);
}

static void test_keep_ring_that_is_none_is_empty(void **state)
{
    struct buf out = {0};
    (void)state;
    assert_int_equal(keep_ring_open(folder, false), -1);
    write_text("output", "12");
    int ring = keep_ring_open(folder, false);
    assert_int_equal(keep_ring_read(ring, 0, 100, &out).end, 0);
    assert_int_equal(out.len, 0);
    close(ring);
    write_text("output", "12345678");
    ring = keep_ring_open(folder, false); /* a total, and no bytes */
    struct keep_span got = keep_ring_read(ring, 0, 100, &out);
    assert_int_equal(got.first, got.end);
    assert_int_equal(out.len, 0);
    close(ring);
    buf_done(&out);
}

/* --- records ---------------------------------------------------------------------------------- */

static void test_keep_spec_comes_back_as_it_was(void **state)
{
    char *argv[] = {"/bin/sh", "-c", "echo \"\xc3\xa9\"\n", NULL}, *patterns[] = {"ERROR", NULL};
    struct keep_spec spec = {.owner = "ann \"x\"",
                             .conversation_id = "c-1",
                             .task_id = "01M8GNF42D0D69R3XETQ4JCTHQ",
                             .agent = "operator",
                             .command = argv[2],
                             .argv = {argv, 3},
                             .cwd = "/tmp",
                             .workdir = "/files",
                             .background = true,
                             .pty = true,
                             .notify_on_complete = true,
                             .watch_patterns = {patterns, 1},
                             .started_at = 1764280000123,
                             .timeout_ms = 180000,
                             .files = 1024};
    struct keep_spec got;
    (void)state;
    assert_true(keep_spec_write(folder, &spec));
    assert_true(keep_spec_read(folder, &got));
    assert_string_equal(got.owner, spec.owner);
    assert_string_equal(got.conversation_id, spec.conversation_id);
    assert_string_equal(got.task_id, spec.task_id);
    assert_string_equal(got.agent, spec.agent);
    assert_string_equal(got.command, spec.command);
    assert_int_equal(got.argv.n, 3);
    assert_string_equal(got.argv.list[2], spec.command);
    assert_null(got.argv.list[3]);
    assert_string_equal(got.cwd, spec.cwd);
    assert_string_equal(got.workdir, spec.workdir);
    assert_true(got.background && got.pty && got.notify_on_complete);
    assert_int_equal(got.watch_patterns.n, 1);
    assert_int_equal(got.started_at, spec.started_at);
    assert_int_equal(got.timeout_ms, spec.timeout_ms);
    assert_int_equal(got.files, spec.files);
    keep_spec_done(&got);
}

static void test_keep_records_that_are_damaged_read_as_none(void **state)
{
    const char *const specs[] = {
        "",
        "{",
        "[]",
        "null",
        json("{'owner':'ann'}"),
        json("{'owner':5,'conversation_id':'c','task_id':'t','command':'x','argv':['x']}"),
        json("{'owner':'a','conversation_id':'c','task_id':'t','command':'x','argv':[5]}")};
    const char *const statuses[] = {"", "{}", json("{'state':5}"), json("{'state':'asleep'}"),
                                    json("{'state':'running'")};
    struct keep_spec spec;
    struct keep_status status;
    (void)state;
    assert_false(keep_spec_read(folder, &spec));
    assert_false(keep_status_read(folder, &status));
    for (size_t i = 0; i < countof(specs); i++) {
        write_text("spec", specs[i]);
        assert_false(keep_spec_read(folder, &spec));
    }
    for (size_t i = 0; i < countof(statuses); i++) {
        write_text("status", statuses[i]);
        assert_false(keep_status_read(folder, &status));
    }
}

static void test_keep_status_comes_back_as_it_was(void **state)
{
    struct keep_status status = {.state = KEEP_KILLED,
                                 .keeper = 12,
                                 .pid = 13,
                                 .keeper_ticks = 123456789012,
                                 .pid_ticks = 5,
                                 .has_exit_code = true,
                                 .exit_code = -15,
                                 .ended_at = 1764280000123};
    struct keep_status got;
    (void)state;
    assert_true(keep_status_write(folder, &status));
    assert_true(keep_status_read(folder, &got));
    assert_int_equal(got.state, KEEP_KILLED);
    assert_int_equal(got.keeper, 12);
    assert_int_equal(got.pid, 13);
    assert_int_equal(got.keeper_ticks, 123456789012);
    assert_int_equal(got.exit_code, -15);
    assert_true(got.has_exit_code);
    assert_int_equal(got.ended_at, 1764280000123);
    status = (struct keep_status){.state = KEEP_FAILED, .error = "No such file"};
    assert_true(keep_status_write(folder, &status));
    assert_true(keep_status_read(folder, &got));
    assert_false(got.has_exit_code);
    assert_string_equal(got.error, "No such file");
}

static void test_keep_lock_is_seen(void **state)
{
    (void)state;
    assert_false(keep_is_locked(folder));
    write_text("lock", "");
    assert_false(keep_is_locked(folder));
    int fd = openat(folder, "lock", O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_true(keep_is_locked(folder));
    close(fd);
    assert_false(keep_is_locked(folder));
}

/* Happens once, while the lock is asked for: the flock below stands for that of the libc. */
static void (*meanwhile)(void);
static bool is_after; /* the question, not before it */

int flock(int fd, int operation)
{
    void (*now)(void) = meanwhile;
    meanwhile = NULL;
    if (now && !is_after)
        now();
    int result = (int)syscall(SYS_flock, fd, operation);
    int error = errno;
    if (now && is_after)
        now();
    errno = error;
    return result;
}

static int keeper_lock = -1;

static void begin_keeping(void)
{
    keeper_lock = openat(folder, "lock", O_RDWR | O_CREAT, 0600);
    assert_int_equal(syscall(SYS_flock, keeper_lock, LOCK_EX | LOCK_NB), 0);
}

static void say_that_it_runs(void)
{
    assert_true(keep_status_write(folder, &(struct keep_status){.keeper = getpid()}));
}

static void end_with_seven(void)
{
    assert_true(keep_status_write(
        folder, &(struct keep_status){
                    .state = KEEP_EXITED, .has_exit_code = true, .exit_code = 7, .ended_at = 1}));
    close(keeper_lock);
    keeper_lock = -1;
}

static void vanish(void)
{
    close(keeper_lock);
    keeper_lock = -1;
}

static void test_keep_look_knows_each_state(void **state)
{
    struct keep_status status = {.exit_code = 3};
    (void)state;
    assert_int_equal(keep_look(folder, &status), KEEP_NEVER_BEGAN);
    assert_int_equal(status.exit_code, 0);
    begin_keeping();
    assert_int_equal(keep_look(folder, &status), KEEP_YOUNG);
    say_that_it_runs();
    assert_int_equal(keep_look(folder, &status), KEEP_LIVES);
    assert_int_equal(status.keeper, getpid());
    vanish();
    assert_int_equal(keep_look(folder, &status), KEEP_VANISHED);
    end_with_seven();
    assert_int_equal(keep_look(folder, &status), KEEP_ENDED);
    assert_int_equal(status.exit_code, 7);
    write_text("status", ""); /* damaged: it began */
    assert_int_equal(keep_look(folder, &status), KEEP_VANISHED);
}

/* A keeper that ends while it is looked at is neither lost nor never began. */
static void test_keep_look_misses_no_end(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool says = i & 1;
        struct keep_status status;
        (void)unlinkat(folder, "status", 0);
        begin_keeping();
        if (says)
            say_that_it_runs();
        is_after = i & 2;
        meanwhile = end_with_seven;
        assert_int_equal(keep_look(folder, &status), KEEP_ENDED);
        assert_int_equal(status.exit_code, 7);
        assert_null(meanwhile);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keep_ring_holds_the_newest_bytes),
        TEST(test_keep_ring_is_read_from_a_place),
        TEST(test_keep_ring_of_another_begins_at_its_end),
        TEST(test_keep_ring_bears_a_put_that_was_cut),
        TEST(test_keep_ring_that_is_none_is_empty),
        TEST(test_keep_spec_comes_back_as_it_was),
        TEST(test_keep_records_that_are_damaged_read_as_none),
        TEST(test_keep_status_comes_back_as_it_was),
        TEST(test_keep_lock_is_seen),
        TEST(test_keep_look_knows_each_state),
        TEST(test_keep_look_misses_no_end),
    };
    if (!mkdtemp(base))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(base);
    return failed;
}
