/* The exec adapter for core/agent.h: lines, endings, stdin, and what the program is given.
 * Real programs on a real loop; this binary is its own supervisor.  Field cases: F26, F27.
 */
#include "tests/support/exec_probe.h"

static const char run_line[] =
    "{\"type\":\"run\",\"task_id\":\"01J0\",\"conversation_id\":\"c-1\","
    "\"input\":\"say \\\"h\xc3\xa9\\\"\\n\",\"history\":[],\"parent\":{\"task_id\":null},\"metadata\":null}\n";

/* --- lines and endings ------------------------------------------------------------------------ */

static void test_exec_run_line_comes_first(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "head -n 1; echo two; echo");
    char expected[512];
    snprintf(expected, sizeof expected, "%stwo\n\n", run_line);
    expect(&p, RUN_DONE, "", expected);
}

static void test_exec_exit_status_is_told_with_stderr(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "echo boom >&2; exit 3");
    expect(&p, RUN_FAILED, "exit status 3: boom", "");
    start_sh(&p, "exit 255");
    expect(&p, RUN_FAILED, "exit status 255", "");
    start_sh(&p, "echo noise >&2; exit 0");
    expect(&p, RUN_DONE, "", "");
}

static void test_exec_signal_is_named(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "echo a; kill -9 $$");
    expect(&p, RUN_FAILED, "killed by signal 9 (SIGKILL)", "a\n");
    start_sh(&p, "echo why >&2; kill -TERM $$");
    expect(&p, RUN_FAILED, "killed by signal 15 (SIGTERM): why", "");
}

static void test_exec_stderr_keeps_the_last_4_kib(void **state)
{
    struct probe p = {0};
    (void)state;
    start_python(
        &p, "import sys\nfor i in range(200000): sys.stderr.write('%07d\\n' % i)\nsys.exit(1)");
    wait_until(has_ended, &p);
    assert_int_equal(strlen(p.text),
                     strlen("exit status 1: ") + 4095); /* the last newline is not told */
    assert_string_equal(p.text + strlen(p.text) - 7, "0199999");
    finish(&p);
}

static void test_exec_last_line_without_newline_counts(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "printf 'a\\nb'");
    expect(&p, RUN_DONE, "", "a\nb\n");
    start_sh(&p,
             "printf 'a\\r\\nb\\rc\\r\\n\\r\\nd\\r'"); /* CRLF: only the one before the newline */
    expect(&p, RUN_DONE, "", "a\nb\rc\n\nd\n");
}

static void test_exec_line_that_its_death_cut_is_none(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "printf '{}\\n{\"a\":'; echo why >&2; exit 1");
    expect(&p, RUN_FAILED, "exit status 1: why", "{}\n");
    start_sh(&p, "printf '{\"a\":\"b'; kill -9 $$");
    expect(&p, RUN_FAILED, "killed by signal 9 (SIGKILL)", "");
    start_sh(&p, "printf '{\"a\":1}'; exit 1"); /* this one is whole */
    expect(&p, RUN_FAILED, "exit status 1", json("{'a':1}\n"));
}

/* F27 */
static void test_exec_bytes_come_as_they_are(void **state)
{
    struct probe p = {0};
    (void)state;
    start_python(&p,
                 "import os\nfor c in 'h\\u00e9 \\u20ac \\U0001f600\\n'.encode() + b'\\xe9\\n':\n"
                 "  os.write(1, bytes([c]))");
    expect(&p, RUN_DONE, "", "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n\xe9\n");
    start_sh(&p, "printf 'a\\000b\\n'");
    wait_until(has_ended, &p);
    assert_int_equal(p.said.len, 4);
    assert_memory_equal(said(&p), "a\0b\n", 4);
    finish(&p);
}

static void test_exec_line_of_4_mib_passes_and_one_more_byte_fails(void **state)
{
    struct probe p = {0};
    (void)state;
    start_python(&p, "print('x' * (4 << 20)); print('end')");
    wait_until(has_ended, &p);
    assert_int_equal(p.end, RUN_DONE);
    assert_int_equal(p.said.len, MAX_AGENT_LINE + 1 + 4);
    finish(&p);
    start_python(&p, "print('first'); print('x' * ((4 << 20) + 1)); print('end')");
    expect(&p, RUN_FAILED, "a line of the agent exceeds 4 MiB, and its event 1 MiB", "first\n");
    start_python(&p, "import os\nwhile True: os.write(1, b'x' * 65536)");
    expect(&p, RUN_FAILED, "a line of the agent exceeds 4 MiB, and its event 1 MiB", "");
}

static void test_exec_missing_program_is_refused_by_name(void **state)
{
    struct probe p = {0};
    char error[256];
    char *missing[] = {"no-such-agent", NULL}, *path[] = {"./no/such", NULL},
         *etc[] = {"/etc", NULL};
    char *sh[] = {"sh", NULL};
    (void)state;
    assert_null(start_command(&p, missing, NULL, error));
    assert_string_equal(error, "cannot start \"no-such-agent\": No such file or directory");
    assert_null(start_command(&p, path, NULL, error));
    assert_string_equal(error, "cannot start \"./no/such\": No such file or directory");
    assert_null(start_command(&p, etc, NULL, error));
    assert_string_equal(error, "cannot start \"/etc\": Permission denied");
    assert_null(start_command(&p, sh, "/no/folder", error));
    assert_string_equal(error, "cannot start \"sh\" in /no/folder: No such file or directory");
}

static void write_script(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fchmod(fileno(f), 0755);
    fclose(f);
}

static void test_exec_program_relative_to_cwd_runs_there(void **state)
{
    struct probe p = {0};
    char error[256], expected[128], *command[] = {"./agent", NULL};
    (void)state;
    write_script("agent", "#!/bin/sh\npwd\n");
    p.run = start_command(&p, command, folder, error);
    assert_non_null(p.run);
    snprintf(expected, sizeof expected, "%s\n", folder);
    expect(&p, RUN_DONE, "", expected);
}

static void test_exec_fault_that_only_exec_finds_ends_the_run(void **state)
{
    struct probe p = {0};
    char error[256], *command[] = {"./broken", NULL};
    (void)state;
    write_script("broken", "#!/no/such/interpreter\n");
    p.run = start_command(&p, command, folder, error);
    assert_non_null(p.run);
    expect(&p, RUN_FAILED, "cannot start \"./broken\": No such file or directory", "");
}

/* A file that an exit handler of the supervisor would make. */
static void tell_exit(void)
{
    const char *path = getenv("EXEC_EXIT_TOLD");
    if (path)
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* No exit handler of a library may run in a supervisor: it could wait.  LeakSanitizer's did, for
 * ever, when a SIGCONT came while it stopped its own threads. */
static void test_exec_supervisor_leaves_at_once(void **state)
{
    char error[256], variable[128], *env[] = {mark, variable, NULL};
    char *broken[] = {"./broken", NULL}, *good[] = {"/bin/true", NULL};
    char **const commands[] = {broken, good};
    (void)state;
    write_script("broken", "#!/no/such/interpreter\n");
    snprintf(variable, sizeof variable, "EXEC_EXIT_TOLD=%s/exit", folder);
    for (size_t i = 0; i < countof(commands); i++) {
        struct probe p = {0};
        struct exec_settings settings = {
            .loop = &loop, .command = commands[i], .env = env, .cwd = folder};
        p.run = keep(agent_exec_ops.start(&settings, &spec, &events, &p, error));
        wait_until(has_ended, &p);
        finish(&p);
        wait_until(none_marked, NULL);
        assert_int_equal(access(variable + strlen("EXEC_EXIT_TOLD="), F_OK), -1);
    }
}

/* --- the program's input ---------------------------------------------------------------------- */

/* F26 */
static void test_exec_descriptors_are_0_1_2_and_pipes(void **state)
{
    struct probe p = {0};
    int leak = socket(AF_INET, SOCK_STREAM, 0); /* not close-on-exec: inherited by whoever forks */
    int high = fcntl(leak, F_DUPFD, 700);
    (void)state;
    start_python(&p, "import os\nfor f in sorted(os.listdir('/proc/self/fd')):\n"
                     "  p = '/proc/self/fd/' + f\n"
                     "  if os.path.lexists(p): print(f, os.readlink(p)[:5])");
    expect(&p, RUN_DONE, "", "0 pipe:\n1 pipe:\n2 pipe:\n");
    close(leak);
    close(high);
    start_sh(&p, "echo through > /dev/stdout");
    expect(&p, RUN_DONE, "", "through\n");
}

static void test_exec_environment_is_what_was_given(void **state)
{
    struct probe p = {0};
    char error[256], expected[512];
    char *command[] = {"/usr/bin/env", NULL};
    char *env[] = {"HOME=/elsewhere", "KEY=v=1", mark, NULL};
    struct exec_settings settings = {.loop = &loop, .command = command, .env = env};
    (void)state;
    setenv("LANG", "C.UTF-8", 1);
    setenv("SECRET", "of the gateway", 1);
    p.run = keep(agent_exec_ops.start(&settings, &spec, &events, &p, error));
    assert_non_null(p.run);
    snprintf(expected, sizeof expected, "PATH=%s\nLANG=C.UTF-8\nHOME=/elsewhere\nKEY=v=1\n%s\n",
             getenv("PATH"), mark);
    expect(&p, RUN_DONE, "", expected);
}

static void test_exec_signals_are_at_their_defaults(void **state)
{
    struct probe p = {0};
    (void)state; /* this process ignores SIGPIPE, its supervisor blocks all; 32 and 33 are libc's */
    start_sh(&p, "sed -En 's/^(Sig(Blk|Ign):).*(.{7})$/\\1\\3/p' /proc/self/status");
    expect(&p, RUN_DONE, "", "SigBlk:0000000\nSigIgn:0000000\n");
}

/* --- stdin ------------------------------------------------------------------------------------ */

static void answer(struct probe *p)
{
    assert_true(agent_exec_ops.deliver(p->run, str_of(json("{'type':'message','content':'hi'}"))));
    assert_true(agent_exec_ops.deliver(p->run, STR("last")));
}

static void test_exec_deliver_from_inside_on_line_is_read(void **state)
{
    struct probe p = {.on_first = answer};
    (void)state;
    start_sh(&p, "echo ready; head -n 3 | tail -n 2");
    expect(&p, RUN_DONE, "", "ready\n{\"type\":\"message\",\"content\":\"hi\"}\nlast\n");
}

static bool cannot_deliver(void *arg)
{
    struct probe *p = arg;
    return !agent_exec_ops.deliver(p->run, STR("x"));
}

static void test_exec_deliver_after_stdin_was_closed_is_refused(void **state)
{
    struct probe p = {0};
    (void)state;
    start_sh(&p, "exec 0<&-; echo closed; exec sleep 1000");
    wait_until(has_line, &p);
    wait_until(cannot_deliver, &p);
    agent_exec_ops.kill(p.run);
    expect(&p, RUN_FAILED, "killed by signal 9 (SIGKILL)", "closed\n");
}

static void test_exec_agent_that_never_reads_is_bounded(void **state)
{
    struct probe p = {0};
    size_t n = 0;
    struct str line = {xcalloc(1000), 1000};
    (void)state;
    start_sh(&p, "echo up; exec sleep 1000");
    wait_until(has_line, &p);
    while (agent_exec_ops.deliver(p.run, line))
        assert_true(++n < 3000);
    assert_in_range(n * 1001, EXEC_QUEUE - 1001, EXEC_QUEUE + 2 * 65536);
    agent_exec_ops.cancel(p.run); /* its line too finds room, and nothing hangs */
    expect(&p, RUN_FAILED, "killed by signal 15 (SIGTERM)", "up\n");
    free((char *)(uintptr_t)line.p);
}

static void test_exec_queue_is_written_as_the_agent_reads(void **state)
{
    struct probe p = {0};
    (void)state;
    start_python(
        &p, "import sys\nsys.stdin.readline()\nprint('up', flush=True)\nn = 0\n"
            "for l in sys.stdin:\n  if l == 'end\\n': break\n  assert int(l[:6]) == n; n += 1\n"
            "print(n)");
    wait_until(has_line, &p);
    for (int i = 0; i < 1000; i++) {
        char line[1024];
        snprintf(line, sizeof line, "%06d%*s", i, 994, "");
        assert_true(agent_exec_ops.deliver(p.run, str_of(line)));
    }
    assert_true(agent_exec_ops.deliver(p.run, STR("end")));
    expect(&p, RUN_DONE, "", "up\n1000\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "supervise") == 0) {
        atexit(tell_exit);
        return supervisor_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exec_run_line_comes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_exit_status_is_told_with_stderr, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_signal_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_stderr_keeps_the_last_4_kib, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_line_that_its_death_cut_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_last_line_without_newline_counts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_bytes_come_as_they_are, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_line_of_4_mib_passes_and_one_more_byte_fails,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_missing_program_is_refused_by_name, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_program_relative_to_cwd_runs_there, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_fault_that_only_exec_finds_ends_the_run, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_supervisor_leaves_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_descriptors_are_0_1_2_and_pipes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_environment_is_what_was_given, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_signals_are_at_their_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_deliver_from_inside_on_line_is_read, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_deliver_after_stdin_was_closed_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_agent_that_never_reads_is_bounded, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_exec_queue_is_written_as_the_agent_reads, setup,
                                        teardown),
    };
    return exec_probe_run("agent_exec", tests, countof(tests));
}
