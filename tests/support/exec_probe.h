/* exec_probe -- what the tests of the exec adapter share: a core that takes notes, and waiting.
 *
 * Shape:    for one test file each, hence static: a loop, a folder, a mark in the environment of
 *           every process that a run starts.  setup and teardown go around each test; teardown
 *           checks that nothing is left of it.
 * Thread:   one.
 */
#ifndef TESTS_SUPPORT_EXEC_PROBE_H
#define TESTS_SUPPORT_EXEC_PROBE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/agents/agent_exec.h"
#include "gateway/processes/supervisor.h"
#include "proto/limits.h"
#include "tests/support/t.h"

#define FAILSAFE_MS 120000
#define MARK "HOLDFAST_EXEC_TEST" /* in the environment of every process of a run */

/* --- a core that takes notes ------------------------------------------------------------------ */

struct probe {
    struct run *run;
    struct buf said; /* the lines, each with '\n' */
    size_t n_lines;
    size_t n_bytes;
    size_t pause_every; /* on_line returns false after every so many lines; 0: never */
    void (*on_first)(struct probe *p);
    bool numbered; /* the lines begin with 0, 1, 2 …: checked and counted, not kept */
    bool ended;
    enum run_end end;
    char text[8192];
    uint64_t ended_at; /* ms */
};

static uv_loop_t loop;
static char mark[64];
static char folder[] = "/tmp/exec-test-XXXXXX";
static int n_fds_before;
static struct run *live[256];
static size_t n_live;

static inline bool on_line(void *task, struct str line)
{
    struct probe *p = task;
    assert_false(p->ended);
    if (p->numbered) {
        assert_int_equal(strtol(line.p, NULL, 10), (long)p->n_lines);
        p->n_bytes += line.n + 1;
    } else {
        buf_putstr(&p->said, line);
        buf_putc(&p->said, '\n');
    }
    p->n_lines++;
    if (p->n_lines == 1 && p->on_first)
        p->on_first(p);
    return !p->pause_every || p->n_lines % p->pause_every != 0;
}

static inline void on_end(void *task, enum run_end end, struct str text)
{
    struct probe *p = task;
    assert_false(p->ended);
    assert_true(text.n < sizeof p->text);
    p->ended = true;
    p->end = end;
    memcpy(p->text, text.p, text.n);
    p->text[text.n] = 0;
    p->ended_at = uv_hrtime() / 1000000;
}

static const struct run_events events = {.on_line = on_line, .on_end = on_end};
static const struct run_spec spec = {
    .task_id = {"01J0", 4},
    .conversation_id = {"c-1", 3},
    .input = {"say \"h\xc3\xa9\"\n", 10},
    .history = {"[]", 2},
    .parent = {"{\"task_id\":null}", 16},
    .metadata = {"null", 4},
};
/* A test that fails leaves its runs to the teardown. */
static inline struct run *keep(struct run *run)
{
    if (run)
        live[n_live++] = run;
    return run;
}

static inline void release(struct run *run)
{
    for (size_t i = 0; i < n_live; i++)
        if (live[i] == run)
            live[i] = live[--n_live];
    agent_exec_ops.free(run);
}

static inline struct run *start_command(struct probe *p, char **command, const char *cwd,
                                        char *error)
{
    char *env[] = {mark, NULL};
    struct exec_settings settings = {.loop = &loop, .command = command, .env = env, .cwd = cwd};
    return keep(agent_exec_ops.start(&settings, &spec, &events, p, error));
}

static inline void start(struct probe *p, const char *interpreter, const char *script)
{
    char error[256] = "";
    char *command[] = {(char *)(uintptr_t)interpreter, "-c", (char *)(uintptr_t)script, folder,
                       NULL};
    p->run = start_command(p, command, NULL, error);
    assert_string_equal(error, "");
    assert_non_null(p->run);
}

static inline void start_sh(struct probe *p, const char *script)
{
    start(p, "/bin/sh", script);
}

static inline void start_python(struct probe *p, const char *script)
{
    start(p, "/usr/bin/python3", script);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static inline void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Turns the loop until done(arg); looks at least every 10 ms. */
static inline void wait_until(bool (*done)(void *arg), void *arg)
{
    uv_timer_t tick;
    uint64_t begun = uv_hrtime();

    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, on_tick, 10, 10);
    bool is_done = done(arg); /* once true, it may not stay: see none_marked */
    while (!is_done && uv_hrtime() - begun < FAILSAFE_MS * 1000000ULL) {
        uv_run(&loop, UV_RUN_ONCE);
        is_done = done(arg);
    }
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(is_done);
}

static inline bool has_ended(void *arg)
{
    struct probe *p = arg;
    return p->ended;
}

static inline bool has_line(void *arg)
{
    struct probe *p = arg;
    return p->n_lines > 0;
}

static inline void finish(struct probe *p)
{
    if (p->run)
        release(p->run);
    buf_done(&p->said);
    *p = (struct probe){0};
}

static inline const char *said(const struct probe *p)
{
    return p->said.bytes ? p->said.bytes : "";
}

static inline void expect(struct probe *p, enum run_end end, const char *text, const char *lines)
{
    wait_until(has_ended, p);
    assert_string_equal(p->text, text);
    assert_int_equal(p->end, end);
    if (lines)
        assert_string_equal(said(p), lines);
    finish(p);
}

static inline uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* A file's beginning as a string; false when there is nothing. */
static inline bool read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Whether a process belongs to a run of this test: supervisor, agent or below; no zombies. */
static inline bool is_marked(int pid)
{
    char path[64], env[4096] = {0};
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    if (!read_file(path, env, sizeof env))
        return false;
    return memmem(env, sizeof env, mark, strlen(mark) + 1) != NULL;
}

static inline int count_marked(void)
{
    int n = 0;
    struct dirent *e;
    DIR *proc = opendir("/proc");

    while ((e = readdir(proc)))
        n += e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
             is_marked((int)strtol(e->d_name, NULL, 10));
    closedir(proc);
    return n;
}

/* A process that is just becoming another program shows no environment: hence several looks. */
static inline bool none_marked(void *arg)
{
    (void)arg;
    for (int look = 0; look < 3; look++) {
        if (count_marked() > 0)
            return false;
        uv_sleep(1);
    }
    return true;
}

static inline int count_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static inline int setup(void **state)
{
    static unsigned serial;
    (void)state;
    snprintf(mark, sizeof mark, MARK "=%d.%u", getpid(), serial++);
    uv_loop_init(&loop);
    uv_run(&loop, UV_RUN_NOWAIT);
    n_fds_before = count_fds();
    return 0;
}

/* After any test, nothing may be left: no handle, descriptor, process or zombie. */
static inline int teardown(void **state)
{
    (void)state;
    while (n_live > 0)
        release(live[0]);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_marked(), 0);
    assert_int_equal(count_fds(), n_fds_before);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static inline int exec_probe_run(const char *name, const struct CMUnitTest *tests, size_t n)
{
    char command[64];

    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(folder))
        return 1;
    int failed = _cmocka_run_group_tests(name, tests, n, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}

#endif
