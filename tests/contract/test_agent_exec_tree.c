/* The exec adapter for core/agent.h: backpressure, cancel, kill, and that nothing of a run's
 * tree outlives it.  This binary is its own supervisor, and its own gateway that is killed.  Field
 * cases: F16, F17, F19, F33.
 */
#include <sys/prctl.h>

#include "gateway/processes/strays.h"
#include "tests/support/exec_probe.h"

/* Its grandchildren ignore SIGTERM, hold stdout and write to a file; one leaves the group. */
static const char stubborn_tree[] =
    "trap '' TERM; rm -f $0/marker.*\n"
    "writer='trap \"\" TERM; while :; do echo x >> $0/marker.$1; sleep 0.02; done'\n"
    "sh -c \"$writer\" $0 1 &\n"
    "setsid sh -c \"$writer\" $0 2 &\n"
    "while [ ! -s $0/marker.1 ] || [ ! -s $0/marker.2 ]; do sleep 0.01; done\n"
    "echo up\n";

static void start_stubborn(struct probe *p, const char *then)
{
    char script[1024];
    snprintf(script, sizeof script, "%s%s", stubborn_tree, then);
    start_sh(p, script);
    wait_until(has_line, p);
}

static off_t marker_size(int which)
{
    struct stat st;
    char path[128];
    snprintf(path, sizeof path, "%s/marker.%d", folder, which);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Nothing runs that could write; the pause only gives a writer that is there its chance. */
static void assert_markers_rest(void)
{
    off_t one = marker_size(1), two = marker_size(2);
    assert_true(one > 0 && two > 0);
    sleep_ms(100);
    assert_int_equal(marker_size(1), one);
    assert_int_equal(marker_size(2), two);
}

/* --- backpressure ----------------------------------------------------------------------------- */

/* The process that has the mark and is called name; 0 when there is none. */
static int find_marked(const char *name)
{
    int found = 0;
    struct dirent *e;
    DIR *proc = opendir("/proc");

    while ((e = readdir(proc))) {
        char path[300], text[64] = "";
        int pid = (int)strtol(e->d_name, NULL, 10);
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        if (pid == 0 || !is_marked(pid) || !read_file(path, text, sizeof text))
            continue;
        if (strncmp(text, name, strlen(name)) == 0)
            found = pid;
    }
    closedir(proc);
    return found;
}

/* The bytes that a process has written so far, by the kernel's count. */
static long bytes_written(int pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/io", pid);
    if (!read_file(path, text, sizeof text))
        return -1;
    const char *at = strstr(text, "wchar: ");
    return at ? strtol(at + 7, NULL, 10) : -1;
}

static long rss_kib(void)
{
    char text[4096];
    read_file("/proc/self/status", text, sizeof text);
    return strtol(strstr(text, "VmRSS:") + 6, NULL, 10);
}

struct stall {
    int pid;
    long bytes;
    int looks; /* in a row that saw no byte moved */
};

static bool has_stalled(void *arg)
{
    struct stall *s = arg;
    long bytes = bytes_written(s->pid);
    s->looks = bytes == s->bytes ? s->looks + 1 : 0;
    s->bytes = bytes;
    return s->looks > 20;
}

static bool unpause_until_end(void *arg)
{
    struct probe *p = arg;
    if (!p->ended)
        agent_exec_ops.unpause(p->run);
    return p->ended;
}

static void test_exec_paused_agent_sleeps_and_nothing_is_lost(void **state)
{
    const size_t n_lines = 200000; /* of 1,000 bytes: ten times the slack for sanitizers below */
    struct probe p = {.pause_every = 1, .numbered = true};
    struct stall stall = {0};
    (void)state;

    start_python(
        &p, "import sys\nfor i in range(200000): sys.stdout.write('%06d' % i + 'x' * 993 + '\\n')");
    wait_until(has_line, &p);
    stall.pid = find_marked("python3");
    assert_true(stall.pid > 0);
    long rss = rss_kib();
    wait_until(has_stalled, &stall);
    assert_int_equal(p.n_lines, 1);
    assert_in_range(stall.bytes, 1, 3 * 65536); /* the pipe, what was read, what it is writing */
    assert_true(rss_kib() - rss < 20000);

    p.pause_every = 5000; /* now and then */
    wait_until(unpause_until_end, &p);
    assert_int_equal(p.end, RUN_DONE);
    assert_int_equal(p.n_lines, n_lines);
    assert_int_equal(p.n_bytes, n_lines * 1000);
    assert_true(rss_kib() - rss < 20000);
    finish(&p);
}

static void wait_until_lines(struct probe *p, size_t n)
{
    while (p->n_lines < n) /* the test's own time-out is the failsafe */
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(p->n_lines, n);
}

static bool tree_has_gone(void *arg)
{
    struct probe *p = arg;
    return none_marked(NULL) && agent_exec_ops.deliver(p->run, STR("x")) == false;
}

static void test_exec_paused_at_exit_ends_after_its_lines(void **state)
{
    struct probe p = {.pause_every = 1};
    (void)state;
    start_sh(&p, "echo 1; echo 2; echo 3; printf 4; exit 5");
    wait_until(tree_has_gone, &p);
    for (size_t n = 1; n <= 4; n++) { /* one line for each unpause */
        wait_until_lines(&p, n);
        assert_false(p.ended);
        agent_exec_ops.unpause(p.run);
    }
    expect(&p, RUN_FAILED, "exit status 5", "1\n2\n3\n4\n");
}

static void unpause_now(struct probe *p)
{
    agent_exec_ops.unpause(p->run);
}

static void test_exec_unpause_from_inside_on_line_counts(void **state)
{
    struct probe p = {.pause_every = 1, .on_first = unpause_now};
    (void)state;
    start_sh(&p, "echo 1; echo 2");
    wait_until_lines(&p, 2);
    wait_until(tree_has_gone, &p);
    assert_false(p.ended); /* paused again, at the second */
    agent_exec_ops.unpause(p.run);
    expect(&p, RUN_DONE, "", "1\n2\n");
}

static void test_exec_stderr_flood_stops_nobody(void **state)
{
    struct probe p = {0};
    (void)state;
    start_python(&p, "import sys\nsys.stderr.write('e' * (20 << 20))\nprint('done')");
    expect(&p, RUN_DONE, "", "done\n");
}

/* --- cancel and kill -------------------------------------------------------------------------- */

/* F17 */
static void test_exec_cancel_is_read_and_signalled(void **state)
{
    struct probe p = {0};
    (void)state;
    start_python(&p, "import signal, sys\n"
                     "sys.stdin.readline()\n"
                     "def stop(*a):\n"
                     "  print(sys.stdin.readline().strip()); print('stopped'); sys.exit(4)\n"
                     "signal.signal(signal.SIGTERM, stop)\n"
                     "print('up', flush=True)\n"
                     "while True: signal.pause()");
    wait_until(has_line, &p);
    agent_exec_ops.cancel(p.run);
    agent_exec_ops.cancel(p.run); /* again is nothing */
    expect(&p, RUN_FAILED, "exit status 4", "up\n{\"type\":\"cancel\"}\nstopped\n");
}

static void test_exec_cancel_before_the_agent_runs_reaches_it(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "exec sleep 1000");
    agent_exec_ops.cancel(p.run);
    expect(&p, RUN_FAILED, "killed by signal 15 (SIGTERM)", "");
}

/* F16, F19 */
static void test_exec_kill_after_ignored_cancel_takes_the_whole_tree(void **state)
{
    struct probe p = {0};
    (void)state;
    start_stubborn(&p, "wait; wait; sleep 1000");
    agent_exec_ops.cancel(p.run);
    off_t before = marker_size(1);
    while (marker_size(1) < before + 6) /* they write on after the SIGTERM */
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_false(p.ended);
    agent_exec_ops.kill(p.run);
    wait_until(has_ended, &p);
    assert_int_equal(count_marked(), 0);
    assert_markers_rest();
    /* That it was told shows that EXEC_KILL_MS have not run out. */
    expect(&p, RUN_FAILED, "killed by signal 9 (SIGKILL)", "up\n");
}

static void kill_now(struct probe *p)
{
    agent_exec_ops.kill(p->run);
}

static void test_exec_kill_from_inside_on_line_ends_it(void **state)
{
    struct probe p = {.on_first = kill_now};
    (void)state;
    start_sh(&p, "echo up; exec sleep 1000");
    expect(&p, RUN_FAILED, "killed by signal 9 (SIGKILL)", "up\n");
}

static void test_exec_kill_at_once_ends_it(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "exec sleep 1000");
    agent_exec_ops.kill(p.run);
    wait_until(has_ended, &p);
    assert_int_equal(p.end, RUN_FAILED);
    finish(&p);
}

/* --- grandchildren ---------------------------------------------------------------------------- */

/* Nobody is left at once, or, where a SIGKILL takes longer than EXEC_KILL_MS, soon. */
static void test_exec_grandchild_that_holds_stdout_is_waited_for_one_second(void **state)
{
    struct probe p = {0};
    uint64_t begun = now_ms();
    (void)state;
    start_sh(&p, "(sleep 0.2; echo late; exec sleep 1000) & echo up");
    wait_until(has_ended, &p);
    /* Not before; and long before the grandchild would have ended, however busy the machine is. */
    assert_in_range(p.ended_at - begun, EXEC_DRAIN_MS, FAILSAFE_MS);
    wait_until(none_marked, NULL);
    expect(&p, RUN_DONE, "", "up\nlate\n");
}

static void test_exec_grandchild_without_stdout_dies_with_its_agent(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 & echo up");
    wait_until(has_ended, &p);
    wait_until(none_marked, NULL);
    expect(&p, RUN_DONE, "", "up\n");
}

static void test_exec_stubborn_tree_ends_with_its_agent(void **state)
{
    struct probe p = {0};
    (void)state;
    start_stubborn(&p, "exit 7");
    wait_until(has_ended, &p);
    wait_until(none_marked, NULL);
    assert_markers_rest();
    expect(&p, RUN_FAILED, "exit status 7", "up\n");
}

static void test_exec_killed_supervisor_takes_its_agent_along(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "echo up; grep PPid /proc/$$/status; exec sleep 1000");
    wait_until(has_line, &p);
    wait_until_lines(&p, 2);
    kill((pid_t)strtol(strchr(said(&p), ':') + 1, NULL, 10), SIGKILL);
    wait_until(has_ended, &p);
    assert_string_equal(p.text, "its supervisor ended without a report");
    wait_until(none_marked, NULL);
    finish(&p);
}

/* A process that begins within the same tick of the clock (10 ms) counts as older. */
static void adopt(void)
{
    strays_adopt();
    sleep_ms(30);
}

/* No zombie either; it reaps none. */
static bool has_no_child(void *arg)
{
    (void)arg;
    return waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* It kills who would end its tree: what it has started is an orphan then, and so are theirs. */
static void test_exec_agent_that_kills_its_supervisor_leaves_nobody(void **state)
{
    struct probe p = {0};
    (void)state;
    adopt();
    start_stubborn(&p, "setsid setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &\n"
                       "kill -9 $PPID; sleep 1000");
    wait_until(has_ended, &p);
    assert_string_equal(p.text, "its supervisor ended without a report");
    wait_until(none_marked, NULL);
    assert_markers_rest();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    finish(&p);
    wait_until(has_no_child, NULL);
}

static bool two_marked(void *arg)
{
    (void)arg;
    return count_marked() == 2;
}

/* Those of others live on, and what was there before. */
static void test_exec_sweep_of_strays_spares_other_runs(void **state)
{
    struct probe p = {0}, other = {0};
    (void)state;
    pid_t helper = fork(); /* as of sh -c "helper & exec holdfast" */
    if (helper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(127);
    }
    adopt();
    start_sh(&other, "echo up; read line; read line; echo still");
    wait_until(has_line, &other);
    start_sh(&p, "sleep 1000 & kill -9 $PPID");
    wait_until(has_ended, &p);
    finish(&p);
    wait_until(two_marked, NULL); /* the other's supervisor, and its shell */
    assert_false(other.ended);
    assert_int_equal(waitpid(helper, NULL, WNOHANG), 0);
    kill(helper, SIGKILL);
    (void)waitpid(helper, NULL, 0); /* or the sweep, which may go on, has reaped it */
    assert_true(agent_exec_ops.deliver(other.run, STR("go")));
    wait_until(has_ended, &other);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    expect(&other, RUN_DONE, "", "up\nstill\n");
}

static void on_signal_closed(uv_handle_t *handle)
{
    handle->data = NULL;
}

/* A supervisor that is stopped reports nothing, and its run would last until its time is over. */
static void expect_end_although_stopped(const char *script)
{
    struct probe p = {0};
    uv_signal_t sigchld;
    strays_watch(&loop, &sigchld);
    start_sh(&p, script);
    wait_until(has_ended, &p);
    uv_close((uv_handle_t *)&sigchld, on_signal_closed);
    uv_run(&loop, UV_RUN_NOWAIT);
    expect(&p, RUN_FAILED, "exit status 3", "up\n");
}

static void test_exec_agent_that_stops_its_supervisor_ends(void **state)
{
    (void)state;
    expect_end_although_stopped("echo up; kill -STOP $PPID; exit 3");
    expect_end_although_stopped("sleep 1000 & echo up; kill -STOP $PPID; exit 3");
    expect_end_although_stopped("while kill -STOP $PPID; do sleep 0.02; done & echo up; exit 3");
}

/* --- many, and the gateway's end -------------------------------------------------------------- */

static bool all_have_ended(void *arg)
{
    struct probe *p = arg;
    for (int i = 0; i < 100; i++)
        if (!p[i].ended)
            return false;
    return true;
}

static void test_exec_100_runs_at_once_keep_apart(void **state)
{
    static struct probe p[100];
    (void)state;
    for (int i = 0; i < 100; i++) {
        char script[64];
        snprintf(script, sizeof script, "for l in 1 2 3 4 5; do echo %d; done; exit %d", i, i % 2);
        start_sh(&p[i], script);
    }
    wait_until(all_have_ended, p);
    for (int i = 0; i < 100; i++) {
        char lines[64];
        snprintf(lines, sizeof lines, "%d\n%d\n%d\n%d\n%d\n", i, i, i, i, i);
        expect(&p[i], i % 2 ? RUN_FAILED : RUN_DONE, i % 2 ? "exit status 1" : "", lines);
    }
}

static void test_exec_free_in_mid_run_leaves_nothing(void **state)
{
    struct probe p = {0};
    (void)state;
    start_stubborn(&p, "sleep 1000"); /* what is left is the teardown's to find */
    finish(&p);
    start_sh(&p, "yes"); /* at once, before it runs */
    finish(&p);
    start_python(&p, "while True: print('flood')");
    p.pause_every = 1;
    wait_until(has_line, &p);
    finish(&p);
}

/* This process as a gateway: runs a stubborn agent until it is killed. */
_Noreturn static void gateway_main(char **argv)
{
    struct probe p = {0};

    signal(SIGPIPE, SIG_IGN);
    snprintf(folder, sizeof folder, "%s", argv[2]);
    snprintf(mark, sizeof mark, "%s", argv[3]);
    uv_loop_init(&loop);
    start_stubborn(&p, "sleep 1000");
    (void)!write(1, "up\n", 3);
    for (;;)
        uv_run(&loop, UV_RUN_ONCE);
}

static bool four_marked(void *arg)
{
    (void)arg;
    return count_marked() >= 4; /* the supervisor, the agent, its two */
}

/* F33: kill -9 of the gateway. */
static void test_exec_killed_gateway_takes_all_trees_along(void **state)
{
    int out[2];
    char up[3];
    (void)state;

    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t gateway = fork();
    if (gateway == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no gateway */
        dup2(out[1], 1);
        execl("/proc/self/exe", "test", "gateway", folder, mark, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    assert_int_equal(read(out[0], up, sizeof up), 3);
    close(out[0]);
    wait_until(four_marked, NULL);
    kill(gateway, SIGKILL);
    assert_int_equal(waitpid(gateway, NULL, 0), gateway);
    wait_until(none_marked, NULL);
    assert_markers_rest();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "supervise") == 0)
        return supervisor_main(argc, argv);
    if (argc > 3 && strcmp(argv[1], "gateway") == 0)
        gateway_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exec_paused_agent_sleeps_and_nothing_is_lost, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_paused_at_exit_ends_after_its_lines, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_unpause_from_inside_on_line_counts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_stderr_flood_stops_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_cancel_is_read_and_signalled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_cancel_before_the_agent_runs_reaches_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_kill_after_ignored_cancel_takes_the_whole_tree,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_kill_from_inside_on_line_ends_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_kill_at_once_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_exec_grandchild_that_holds_stdout_is_waited_for_one_second, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_grandchild_without_stdout_dies_with_its_agent,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_stubborn_tree_ends_with_its_agent, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_agent_that_kills_its_supervisor_leaves_nobody,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_sweep_of_strays_spares_other_runs, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_killed_supervisor_takes_its_agent_along, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_agent_that_stops_its_supervisor_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_100_runs_at_once_keep_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_free_in_mid_run_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_killed_gateway_takes_all_trees_along, setup,
                                        teardown),
    };
    return exec_probe_run("agent_exec_tree", tests, countof(tests));
}
