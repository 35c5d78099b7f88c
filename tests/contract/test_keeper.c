/* A keeper from outside: what its FIFO, its folder and its program may do to it.  This binary is
 * its own keeper. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/processes/keep_folder.h"
#include "gateway/processes/keeper.h"
#include "gateway/processes/tree.h"
#include "tests/support/t.h"

#define FAILSAFE_MS 30000
#define ID "proc_000000000000"
#define EXIT_TOLD "KEEPER_EXIT_TOLD" /* a file that an exit handler of a keeper would make */

static char base[] = "/tmp/keeper-XXXXXX";
static char exit_told[64];
static int parent, folder, pidfd;
static pid_t keeper;

static int setup(void **state)
{
    (void)state;
    pidfd = -1;
    parent = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 || mkdirat(parent, ID, 0700) < 0)
        return -1;
    folder = openat(parent, ID, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder < 0;
}

static int teardown(void **state)
{
    (void)state;
    if (pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
        (void)waitpid(keeper, NULL, 0);
        close(pidfd);
    }
    close(folder);
    keep_remove(parent, ID);
    close(parent);
    unlink(exit_told);
    return 0;
}

static bool until(bool (*done)(void *arg), void *arg)
{
    for (int ms = 0; ms < FAILSAFE_MS; ms += 5) {
        if (done(arg))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return done(arg);
}

static void start(char *const *argv, bool background)
{
    char path[64], variable[128], error[256] = "", *env[] = {variable, NULL};
    size_t n = 0;
    while (argv[n])
        n++;
    struct keep_spec spec = {.owner = "ann",
                             .conversation_id = "c",
                             .task_id = "t",
                             .command = "x",
                             .argv = {(char **)(uintptr_t)argv, n},
                             .background = background};
    assert_true(keep_spec_write(folder, &spec));
    snprintf(path, sizeof path, "%s/%s", base, ID);
    snprintf(variable, sizeof variable, EXIT_TOLD "=%s", exit_told);
    pidfd = keeper_spawn(path, folder, env, NULL, &keeper, error);
    assert_string_equal(error, "");
    assert_true(pidfd >= 0);
}

static void start_sh(const char *script)
{
    char *argv[] = {"/bin/sh", "-c", (char *)(uintptr_t)script, NULL};
    start(argv, true);
}

static bool has_begun(void *arg)
{
    struct keep_status *status = arg;
    return keep_status_read(folder, status) && status->pid != 0;
}

static void expect_end(enum keep_state state, int code)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    struct keep_status status;
    assert_int_equal(poll(&p, 1, FAILSAFE_MS), 1);
    assert_true(keep_status_read(folder, &status));
    assert_int_equal(status.state, state);
    assert_int_equal(status.exit_code, code);
}

/* --- its FIFO --------------------------------------------------------------------------------- */

struct wanted {
    char text[32];
    uint64_t total;
};

static bool has_printed(void *arg)
{
    const struct wanted *w = arg;
    struct buf out = {0};
    int ring = keep_ring_open(folder, false);
    struct keep_span span = keep_ring_read(ring, 0, KEEP_RING, &out);
    bool good = span.end == w->total && out.len >= strlen(w->text) &&
                memcmp(out.bytes + out.len - strlen(w->text), w->text, strlen(w->text)) == 0;
    close(ring);
    buf_done(&out);
    return good;
}

static void put_frame(int fifo, char kind, size_t n, char fill)
{
    static char frame[3 + UINT16_MAX];
    frame[0] = kind;
    frame[1] = (char)(n & 0xff);
    frame[2] = (char)(n >> 8);
    memset(frame + 3, fill, n);
    assert_int_equal(write(fifo, frame, n + 3), n + 3);
}

/* Its head may announce up to 65,535 bytes: then these are the frame, and the next one is taken. */
static void test_keeper_takes_a_frame_of_any_length(void **state)
{
    static const size_t lengths[] = {KEEP_FRAME - 3, KEEP_FRAME, KEEP_FRAME + 1, 2 * KEEP_FRAME,
                                     UINT16_MAX};
    struct wanted w = {.text = "y"};
    struct keep_status status;
    (void)state;
    start_sh("exec cat");
    assert_true(until(has_begun, &status));
    int fifo = openat(folder, "input", O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < countof(lengths); i++) {
        put_frame(fifo, KEEP_WRITE, lengths[i], 'x');
        put_frame(fifo, '?', lengths[i], '!'); /* of no kind that is known: nothing */
        put_frame(fifo, KEEP_WRITE, 1, 'y');
        w.total += lengths[i] + 1;
        assert_true(until(has_printed, &w));
    }
    put_frame(fifo, KEEP_CLOSE, 0, 0);
    close(fifo);
    expect_end(KEEP_EXITED, 0);
}

/* --- its folder ------------------------------------------------------------------------------- */

static bool is_gone(void *arg)
{
    const struct keep_status *status = arg;
    return process_start_ticks(status->pid) != status->pid_ticks;
}

static void test_keeper_whose_folder_is_removed_ends_with_its_command(void **state)
{
    struct keep_status status;
    struct pollfd p;
    (void)state;
    start_sh("trap '' TERM; sleep 1000 & sleep 1000");
    assert_true(until(has_begun, &status));
    keep_remove(parent, ID);
    assert_int_equal(faccessat(parent, ID, F_OK, 0), -1);
    p = (struct pollfd){.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, FAILSAFE_MS), 1);
    assert_true(is_gone(&status));
}

/* --- its end ---------------------------------------------------------------------------------- */

static void tell_exit(void)
{
    const char *path = getenv(EXIT_TOLD);
    if (path)
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* No exit handler of a library may run in it: it could wait. */
static void test_keeper_leaves_at_once(void **state)
{
    char *missing[] = {"/no/such/program", NULL};
    (void)state;
    start(missing, true);
    expect_end(KEEP_FAILED, -1);
    assert_int_equal(access(exit_told, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "keep") == 0) {
        atexit(tell_exit);
        return keeper_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        TEST(test_keeper_takes_a_frame_of_any_length),
        TEST(test_keeper_whose_folder_is_removed_ends_with_its_command),
        TEST(test_keeper_leaves_at_once),
    };
    if (!mkdtemp(base))
        return 1;
    snprintf(exit_told, sizeof exit_told, "%s/exit", base);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(base);
    return failed;
}
