/* A holder, and gateways that come and go: each "gateway" is a child of the test that is killed, or
 * the test itself.  This binary is the holder, too. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/processes/holder.h"
#include "gateway/processes/spool.h"
#include "tests/support/t.h"

#define FAILSAFE_MS 30000
#define KEEP_S 60

static char base[] = "/tmp/holder-test-XXXXXX";
static int folder;

static void wait_readable(int fd)
{
    assert_int_equal(poll(&(struct pollfd){fd, POLLIN, 0}, 1, FAILSAFE_MS), 1);
}

static struct supervisor start(const char *name, uint32_t keep_s, const char *script)
{
    char error[SUPERVISOR_ERROR] = "";
    char *command[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char *)(uintptr_t)script, base, NULL};
    int listener = holder_bind(folder, name);
    assert_true(listener >= 0);
    struct hold hold = {folder, name, listener, keep_s, "digest"};
    struct supervisor_spec spec = {.command = command, .hold = &hold};
    struct supervisor s;
    bool started = supervisor_spawn(&spec, &s, error);
    close(listener);
    assert_string_equal(error, "");
    assert_true(started);
    return s;
}

/* A gateway that starts it, and is killed when it has done so. */
static void start_and_die(const char *name, uint32_t keep_s, const char *script,
                          enum supervisor_command command)
{
    pid_t gateway = fork();
    if (gateway == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct supervisor s = start(name, keep_s, script);
        if (command)
            supervisor_send(s.control, command);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(gateway, &status, 0), gateway);
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static enum holder_answer attach(const char *name, struct supervisor *ret)
{
    int control = -1;
    enum holder_answer answer;
    assert_int_equal(holder_find(folder, name, &control), HOLDER_LIVES);
    while ((answer = holder_receive(control, ret)) == HOLDER_WAITS)
        wait_readable(control);
    if (answer == HOLDER_REFUSED)
        close(control);
    return answer;
}

static void wait_for(const struct supervisor *s, const uint32_t *flag)
{
    while (!hold_page_is_set(flag)) {
        wait_readable(s->control);
        assert_true(holder_read(s->control) || hold_page_is_set(flag));
    }
}

/* Reads until the pipe ends, from that mark on. */
static void expect_output(const struct supervisor *s, uint64_t mark, const char *text)
{
    struct spool_out out;
    struct buf all = {0};
    ssize_t n;
    bool opened = spool_out_open(&out, s->page, s->stdio[1], s->spool_out, mark);
    assert_true(opened);
    while ((n = spool_out_read(&out, &all)) != 0)
        if (n < 0 && errno == EAGAIN)
            wait_readable(s->stdio[1]);
        else
            assert_true(n > 0);
    spool_out_settle(&out, out.taken);
    spool_out_close(&out);
    assert_string_equal(all.bytes ? all.bytes : "", text);
    buf_done(&all);
}

static void quit(struct supervisor *s, const char *name)
{
    supervisor_send(s->control, SUPERVISOR_QUIT);
    wait_readable(s->pidfd);
    assert_int_equal(holder_find(folder, name, NULL), HOLDER_GONE);
    holder_unlink(folder, name);
    assert_int_equal(holder_find(folder, name, NULL), HOLDER_NONE);
    supervisor_close(s);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static bool exists(const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", base, file);
    return access(path, F_OK) == 0;
}

static void wait_for_file(const char *file)
{
    for (int ms = 0; !exists(file); ms += 5) {
        assert_true(ms < FAILSAFE_MS);
        poll(NULL, 0, 5);
    }
}

static pid_t read_pid(const char *file)
{
    char path[128], line[32];
    snprintf(path, sizeof path, "%s/%s", base, file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    long pid = strtol(line, NULL, 10);
    assert_true(pid > 0);
    return (pid_t)pid;
}

/* Its tree is gone already, so it exits now. */
static void wait_gone(const char *name)
{
    int control = -1;
    if (holder_find(folder, name, &control) == HOLDER_LIVES) {
        wait_readable(control); /* its end */
        close(control);
    }
    assert_int_equal(holder_find(folder, name, NULL), HOLDER_GONE);
}

/* --- states ----------------------------------------------------------------------------------- */

static void test_holder_bound_socket_says_it_never_ran(void **state)
{
    (void)state;
    assert_int_equal(holder_find(folder, "one", NULL), HOLDER_NONE);
    int listener = holder_bind(folder, "one");
    close(listener); /* as a gateway does that is killed */
    assert_int_equal(holder_find(folder, "one", NULL), HOLDER_NEVER_RAN);
    struct supervisor s = start("one", KEEP_S, "echo hello; exit 3"); /* the next one binds again */
    wait_for(&s, &s.page->reported);
    assert_int_equal(WEXITSTATUS(s.page->status), 3);
    wait_for(&s, &s.page->gone);
    expect_output(&s, 0, "hello\n");
    quit(&s, "one");
}

static void test_holder_outlives_its_gateway_and_says_all_to_the_next(void **state)
{
    struct supervisor s;
    struct spool_in in;
    (void)state;
    start_and_die("two", KEEP_S, "echo one; read x; echo \"got $x\" >&1; echo end >&2; exit 5", 0);
    assert_int_equal(attach("two", &s), HOLDER_FOUND);
    assert_string_equal(s.page->digest, "digest");
    assert_true(spool_in_open(&in, s.page, s.stdio[0], s.spool_in));
    assert_true(spool_in_put(&in, 7, 0, STR("a line\n")));
    assert_int_equal(spool_in_flush(&in), SPOOL_DONE);
    assert_true(hold_page_has_told(s.page, 7, in.position));
    wait_for(&s, &s.page->reported);
    assert_int_equal(WEXITSTATUS(s.page->status), 5);
    supervisor_close(&s); /* a second gateway is gone, and has committed nothing */
    assert_int_equal(attach("two", &s), HOLDER_FOUND);
    assert_true(hold_page_is_set(&s.page->reported));
    assert_int_equal(hold_page_newest(s.page).number, 7);
    expect_output(&s, 0, "one\ngot a line\n");
    expect_output(&s, 4, "got a line\n");
    quit(&s, "two");
}

static void test_holder_lets_one_gateway_in_at_a_time(void **state)
{
    struct supervisor s, next;
    int control = -1;
    (void)state;
    start_and_die("three", KEEP_S, "read x; echo $x", 0);
    assert_int_equal(attach("three", &s), HOLDER_FOUND);
    assert_int_equal(holder_find(folder, "three", &control), HOLDER_LIVES);
    assert_int_equal(poll(&(struct pollfd){control, POLLIN, 0}, 1, 50), 0);
    supervisor_close(&s);
    wait_readable(control);
    assert_int_equal(holder_receive(control, &next), HOLDER_FOUND);
    quit(&next, "three");
}

static void test_holder_passes_over_gateways_that_died_at_its_door(void **state)
{
    struct supervisor s;
    (void)state;
    start_and_die("door", KEEP_S, "read x", 0);
    for (int i = 0; i < 10; i++) {
        int control;
        assert_int_equal(holder_find(folder, "door", &control), HOLDER_LIVES);
        close(control);
    }
    assert_int_equal(attach("door", &s), HOLDER_FOUND);
    quit(&s, "door");
}

/* --- ends ------------------------------------------------------------------------------------- */

static void test_holder_gives_up_after_its_time_and_takes_the_tree_along(void **state)
{
    (void)state;
    start_and_die(
        "four", 1,
        "sh -c 'echo $$ > $0/part; mv $0/part $0/pid4; exec setsid sleep 1000' $0 & sleep 1000", 0);
    wait_for_file("pid4");
    pid_t grandchild = read_pid("pid4");
    for (int ms = 0; kill(grandchild, 0) == 0; ms += 10) {
        assert_true(ms < FAILSAFE_MS);
        poll(NULL, 0, 10);
    }
    wait_gone("four");
    holder_unlink(folder, "four");
}

static void test_holder_told_to_end_does_so_at_once_without_a_gateway(void **state)
{
    struct supervisor s;
    (void)state;
    start_and_die("five", KEEP_S, "trap 'echo asked' TERM; echo up; while :; do sleep 1; done",
                  SUPERVISOR_TERM);
    assert_int_equal(attach("five", &s), HOLDER_FOUND); /* it waits with its report */
    wait_for(&s, &s.page->gone);
    assert_true(hold_page_is_set(&s.page->reported));
    assert_true(WIFSIGNALED(s.page->status));
    quit(&s, "five");
}

static void test_holder_stays_when_it_has_killed_the_tree(void **state)
{
    (void)state;
    struct supervisor s = start("six", KEEP_S, "setsid sleep 1000 & echo up; sleep 1000");
    wait_readable(s.stdio[1]);
    supervisor_send(s.control, SUPERVISOR_KILL);
    wait_for(&s, &s.page->gone);
    assert_int_equal(WTERMSIG(s.page->status), SIGKILL);
    expect_output(&s, 0, "up\n");
    quit(&s, "six");
}

static void test_holder_says_why_a_program_does_not_start(void **state)
{
    struct supervisor s;
    char path[128], error[SUPERVISOR_ERROR];
    (void)state;
    snprintf(path, sizeof path, "%s/script", base);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(write(fd, "#!/no/such/shell\n", 17), 17);
    close(fd);
    pid_t gateway = fork();
    if (gateway == 0) {
        char *command[] = {path, NULL};
        struct hold hold = {folder, "seven", holder_bind(folder, "seven"), KEEP_S, "digest"};
        struct supervisor_spec spec = {.command = command, .hold = &hold};
        _exit(supervisor_spawn(&spec, &s, error) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(gateway, &status, 0), gateway);
    assert_int_equal(status, 0);
    assert_int_equal(attach("seven", &s), HOLDER_FOUND);
    wait_for(&s, &s.page->gone);
    assert_int_equal(s.page->error, ENOENT);
    quit(&s, "seven");
}

static void test_holder_ends_stdin(void **state)
{
    struct supervisor s;
    (void)state;
    start_and_die("eight", KEEP_S, "cat; echo end", SUPERVISOR_END_STDIN);
    assert_int_equal(attach("eight", &s), HOLDER_FOUND);
    expect_output(&s, 0, "end\n");
    quit(&s, "eight");
}

static void test_holder_that_is_killed_takes_its_program_along(void **state)
{
    (void)state;
    struct supervisor s = start("nine", KEEP_S, "echo up; exec sleep 1000");
    wait_readable(s.stdio[1]);
    kill(s.pid, SIGKILL);
    expect_output(&s, 0, "up\n"); /* the pipe ends: nobody has it any more */
    wait_readable(s.pidfd);
    assert_int_equal(holder_find(folder, "nine", NULL), HOLDER_GONE);
    holder_unlink(folder, "nine");
    assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
    supervisor_close(&s);
}

/* --- versions --------------------------------------------------------------------------------- */

/* A holder of another version: its page is what it says.  What it answers is refused. */
static void answer_as(uint32_t version, uint32_t page_version, enum holder_answer expected)
{
    struct supervisor s;
    int page_fd = -1, control = -1, fds[7];
    struct hold_page *page = holder_new_page("digest", &page_fd);
    int listener = holder_bind(folder, "other");
    assert_int_equal(holder_find(folder, "other", &control), HOLDER_LIVES);
    int peer = accept(listener, NULL, NULL);
    page->version = page_version;
    for (int i = 0; i < 7; i++)
        fds[i] = i == 5 ? page_fd : i == 3 || i == 4 ? spool_new() : open("/dev/null", O_RDWR);
    uint32_t hello[3] = {HOLD_MAGIC, version, 1};
    char extra[CMSG_SPACE(sizeof fds)] __attribute__((aligned(8))) = {0};
    struct iovec text = {hello, sizeof hello};
    struct msghdr m = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = extra, .msg_controllen = sizeof extra};
    *CMSG_FIRSTHDR(&m) = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fds), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, sizeof fds);
    assert_int_equal(sendmsg(peer, &m, 0), sizeof hello);
    assert_int_equal(holder_receive(control, &s), expected);
    if (expected == HOLDER_FOUND)
        supervisor_close(&s);
    else
        close(control);
    for (int i = 0; i < 7; i++)
        close(fds[i]);
    close(peer);
    close(listener);
    holder_unmap(page);
    holder_unlink(folder, "other");
}

static void test_holder_of_another_version_is_refused(void **state)
{
    (void)state;
    answer_as(HOLD_VERSION, HOLD_VERSION, HOLDER_FOUND);
    answer_as(HOLD_VERSION + 1, HOLD_VERSION + 1, HOLDER_REFUSED);
    answer_as(HOLD_VERSION, HOLD_VERSION + 1, HOLDER_REFUSED);
    answer_as(0, HOLD_VERSION, HOLDER_REFUSED);
}

/* --- the page --------------------------------------------------------------------------------- */

static void test_hold_page_tells_which_lines_the_pipe_has(void **state)
{
    static struct hold_page page;
    (void)state;
    hold_page_init(&page, "digest");
    assert_true(hold_page_is_sound(&page, 0, 0));
    hold_page_put(&page, &(struct hold_line){.end = 10, .said = HOLD_SAID_RUN});
    for (uint64_t i = 1; i <= 200; i++) {
        assert_int_equal(hold_page_has_room(&page, 10 * i), true);
        hold_page_put(&page, &(struct hold_line){i, 10 * i + 10, HOLD_SAID_RUN});
        assert_false(hold_page_has_told(&page, i, 10 * i));
        assert_true(hold_page_has_told(&page, i, 10 * i + 10));
        assert_true(i == 1 || hold_page_has_told(&page, i - 1, 10 * i));
        assert_true(i == 1 || hold_page_has_told(&page, 1, 10 * i));
        assert_true(hold_page_is_sound(&page, 10 * i + 10, 10 * i));
    }
    assert_false(hold_page_is_sound(&page, 2009, 0)); /* its last line ends behind the spool */
    assert_false(hold_page_is_sound(&page, 2010, 2011));
    assert_false(hold_page_has_room(&page, 2010 - 630));
    assert_true(hold_page_has_room(&page, 2010 - 620));
    page.lines[page.n_lines % HOLD_LINES] = (struct hold_line){1, 2, 99}; /* half written */
    assert_true(hold_page_is_sound(&page, 2010, 0));
    page.lines[(page.n_lines - 5) % HOLD_LINES].end = 1;
    assert_false(hold_page_is_sound(&page, 2010, 0));
}

static void test_spool_probe_works_here(void **state)
{
    (void)state;
    assert_null(spool_probe());
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "supervise") == 0)
        return supervisor_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holder_bound_socket_says_it_never_ran),
        cmocka_unit_test(test_holder_outlives_its_gateway_and_says_all_to_the_next),
        cmocka_unit_test(test_holder_lets_one_gateway_in_at_a_time),
        cmocka_unit_test(test_holder_passes_over_gateways_that_died_at_its_door),
        cmocka_unit_test(test_holder_gives_up_after_its_time_and_takes_the_tree_along),
        cmocka_unit_test(test_holder_told_to_end_does_so_at_once_without_a_gateway),
        cmocka_unit_test(test_holder_stays_when_it_has_killed_the_tree),
        cmocka_unit_test(test_holder_says_why_a_program_does_not_start),
        cmocka_unit_test(test_holder_ends_stdin),
        cmocka_unit_test(test_holder_that_is_killed_takes_its_program_along),
        cmocka_unit_test(test_holder_of_another_version_is_refused),
        cmocka_unit_test(test_hold_page_tells_which_lines_the_pipe_has),
        cmocka_unit_test(test_spool_probe_works_here),
    };
    if (!mkdtemp(base) || (folder = holder_open_folder(base)) < 0)
        return 2;
    int failed = cmocka_run_group_tests_name("holder", tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command) == 0 ? failed : 2;
}
