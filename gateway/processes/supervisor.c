#include "gateway/processes/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/fault.h"
#include "gateway/processes/children.h"
#include "gateway/processes/holder.h"
#include "gateway/processes/spawn.h"
#include "gateway/processes/spool.h"
#include "gateway/processes/tree.h"

/* Design
 *
 *   gateway ──control (SOCK_SEQPACKET)── supervisor ──fork, setsid, exec── program ── grandchildren
 *      └────────────── three pipes: stdin, stdout, stderr ───────────────────┘
 *
 * The supervisor is a session of its own, so that no signal to the program's group reaches it; it
 * also blocks all signals.  It is a subreaper: a process of the tree that loses its parent becomes
 * its child, even after its own setsid, and is found there.  The program has PDEATHSIG, in case
 * somebody kills the supervisor itself.  The stdio pipes are not sockets: "echo > /dev/stdout" must
 * work in the program.
 */

#define CONTROL_FD HOLDER_CONTROL /* in the supervisor */
#define OWN_ARGUMENTS 6           /* before the command's */

enum { END_CONTROL = CONTROL_FD, N_ENDS };

/* --- the gateway's side ----------------------------------------------------------------------- */

/* A gateway that was started with 0, 1 or 2 closed must not have its pipes there: the spawn's dup2
 * would overwrite them. */
static int lift(int fd)
{
    if (fd >= HOLDER_N_FDS)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HOLDER_N_FDS);
    int error = errno;
    close(fd);
    errno = error;
    return high;
}

static void close_ends(int *ends, int n)
{
    for (int i = 0; i < n; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

/* ours[i] and theirs[i] are the two ends of the supervisor's descriptor i. */
static bool open_ends(int ours[N_ENDS], int theirs[N_ENDS])
{
    for (int i = 0; i < N_ENDS; i++)
        ours[i] = theirs[i] = -1;
    for (int i = 0; i < N_ENDS; i++) {
        int pair[2];
        int failed = i == END_CONTROL ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)
                                      : pipe2(pair, O_CLOEXEC);
        if (failed)
            return false;
        ours[i] = lift(pair[i == 0]);
        theirs[i] = lift(pair[i != 0]);
        if (ours[i] < 0 || theirs[i] < 0 || fcntl(ours[i], F_SETFL, O_NONBLOCK) < 0)
            return false;
    }
    return true;
}

static const char *env_find(char **env, const char *key, size_t key_len)
{
    for (; env && *env; env++)
        if (strncmp(*env, key, key_len) == 0 && (*env)[key_len] == '=')
            return *env;
    return NULL;
}

static size_t count(char **list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* The whole environment of the program; free only the array. */
static char **make_env(char **extra)
{
    static const char *const inherited[] = {"PATH", "HOME", "LANG"};
    char **env = xcalloc((count(extra) + countof(inherited) + 1) * sizeof *env);
    size_t n = 0;

    for (size_t i = 0; i < countof(inherited); i++) {
        size_t key_len = strlen(inherited[i]);
        const char *own = env_find(environ, inherited[i], key_len);
        if (own && !env_find(extra, inherited[i], key_len))
            env[n++] = (char *)(uintptr_t)own;
    }
    for (; extra && *extra; extra++)
        env[n++] = *extra;
    return env;
}

/* own: the supervisor's arguments; all stay the caller's. */
static char **make_argv(char **command, char *own[OWN_ARGUMENTS])
{
    size_t n = count(command);
    char **argv = xcalloc((n + OWN_ARGUMENTS + 1) * sizeof *argv);
    memcpy(argv, own, OWN_ARGUMENTS * sizeof *argv);
    memcpy(argv + OWN_ARGUMENTS, command, n * sizeof *argv);
    return argv;
}

static int check_file(int cwd, const char *path)
{
    struct stat st;
    if (fstatat(cwd, path, &st, 0) < 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return faccessat(cwd, path, X_OK, AT_EACCESS) < 0 ? errno : 0;
}

/* 0, or the errno with which execvp would fail, as far as that is known beforehand. */
static int check_program(int cwd, const char *program, char **env)
{
    if (strchr(program, '/'))
        return check_file(cwd, program);

    const char *entry = env_find(env, "PATH", 4);
    const char *path = entry ? entry + strlen("PATH=") : "/bin:/usr/bin";
    int error = ENOENT;
    for (;;) {
        char file[PATH_MAX];
        size_t n = strcspn(path, ":");
        int len = snprintf(file, sizeof file, "%.*s%s%s", (int)n, path, n ? "/" : "", program);
        int fault = len < (int)sizeof file ? check_file(cwd, file) : ENAMETOOLONG;
        if (!fault)
            return 0;
        if (fault == EACCES)
            error = fault;
        if (!path[n])
            return error;
        path += n + 1;
    }
}

static bool supervisor_refuse(char *ret_error, const char *program, const char *where, int error)
{
    snprintf(ret_error, SUPERVISOR_ERROR, "cannot start \"%s\"%s%s: %s", program,
             where ? " in " : "", where ? where : "", strerror(error));
    return false;
}

static bool check(const struct supervisor_spec *spec, char **env, char *ret_error)
{
    const char *program = spec->command[0];
    int cwd = AT_FDCWD;

    if (spec->cwd && (cwd = open(spec->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return supervisor_refuse(ret_error, program, spec->cwd, errno);
    int error = check_program(cwd, program, env);
    if (cwd >= 0)
        close(cwd);
    return error ? supervisor_refuse(ret_error, program, NULL, error) : true;
}

bool supervisor_check(const struct supervisor_spec *spec, char *ret_error)
{
    char **env = make_env(spec->env);
    bool good = check(spec, env, ret_error);
    free(env);
    return good;
}

/* posix_spawn of the supervisor, whose descriptor i is theirs[i]: 0 or an errno. */
static int supervisor_launch(const struct supervisor_spec *spec, char **env, const int *theirs,
                             int n_theirs, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    char name[] = "holdfast", verb[] = "supervise", dashes[] = "--", files[24], keep_s[24];
    char kept[HOLDER_NAME];
    char *own[OWN_ARGUMENTS] = {name, verb, files, keep_s, kept, dashes};
    int error = 0;

    snprintf(files, sizeof files, "%llu", (unsigned long long)spawn_files());
    snprintf(keep_s, sizeof keep_s, "%u", spec->hold ? spec->hold->keep_s : 0);
    snprintf(kept, sizeof kept, "%s", spec->hold ? spec->hold->name : "");
    char **argv = make_argv(spec->command, own);

    posix_spawn_file_actions_init(&actions);
    if (spec->cwd)
        error = posix_spawn_file_actions_addchdir_np(&actions, spec->cwd);
    for (int i = 0; i < n_theirs && !error; i++)
        error = posix_spawn_file_actions_adddup2(&actions, theirs[i], i);
    if (!error)
        error = posix_spawn_file_actions_addclosefrom_np(&actions, n_theirs);
    if (!error)
        error = spawn_session(spec->self, &actions, argv, env, ret_pid);
    posix_spawn_file_actions_destroy(&actions);
    free(argv);
    return error;
}

/* A holder has the gateway's ends, too: theirs, from N_ENDS on; ret_copies are those that are
 * closed once it has them.  0 or an errno. */
static int open_held(const struct hold *hold, const int ours[N_ENDS], int theirs[HOLDER_N_FDS],
                     int ret_copies[HOLDER_N_FDS], struct supervisor *ret)
{
    int page = -1;
    ret->page = holder_new_page(hold->digest, &page);
    if (!ret->page)
        return errno;
    ret_copies[0] = page;
    ret->spool_out = spool_new();
    ret->spool_in = spool_new();
    const int from[HOLDER_N_FDS] = {[HOLDER_LISTENER] = hold->listener,
                                    [HOLDER_FOLDER] = hold->folder,
                                    [HOLDER_IN] = ours[0],
                                    [HOLDER_OUT] = ours[1],
                                    [HOLDER_ERR] = ours[2],
                                    [HOLDER_SPOOL_OUT] = ret->spool_out,
                                    [HOLDER_SPOOL_IN] = ret->spool_in,
                                    [HOLDER_PAGE] = page};
    for (int i = N_ENDS; i < HOLDER_N_FDS; i++) {
        theirs[i] = from[i];
        if (from[i] >= 0 && from[i] < HOLDER_N_FDS) /* the spawn's dup2 would overwrite it */
            theirs[i] = ret_copies[i] = fcntl(from[i], F_DUPFD_CLOEXEC, HOLDER_N_FDS);
        if (theirs[i] < 0)
            return errno;
    }
    return 0;
}

static int open_pidfd(pid_t pid, int *ret)
{
    *ret = (int)syscall(SYS_pidfd_open, pid, 0); /* sets close-on-exec */
    if (*ret >= 0)
        return 0;
    int error = errno;
    kill(pid, SIGKILL); /* unreaped, so it is still this one; PDEATHSIG kills its child */
    children_reap(P_PID, (id_t)pid, 0, &(siginfo_t){0});
    return error;
}

bool supervisor_spawn(const struct supervisor_spec *spec, struct supervisor *ret, char *ret_error)
{
    int ours[N_ENDS], theirs[HOLDER_N_FDS], copies[HOLDER_N_FDS];
    int n_theirs = spec->hold ? HOLDER_N_FDS : N_ENDS, error = 0;
    struct supervisor s = {.pidfd = -1, .spool_out = -1, .spool_in = -1};

    ASSERT(spec->command && spec->command[0]);
    char **env = make_env(spec->env);
    if (!check(spec, env, ret_error)) {
        free(env);
        return false;
    }
    for (int i = 0; i < HOLDER_N_FDS; i++)
        theirs[i] = copies[i] = -1;
    if (!open_ends(ours, theirs))
        error = errno;
    if (!error && spec->hold)
        error = open_held(spec->hold, ours, theirs, copies, &s);
    if (!error)
        error = FAULT(SPAWN) ? EAGAIN : supervisor_launch(spec, env, theirs, n_theirs, &s.pid);
    free(env);
    close_ends(theirs, N_ENDS);
    close_ends(copies, HOLDER_N_FDS);
    if (!error)
        error = open_pidfd(s.pid, &s.pidfd);
    s.control = ours[END_CONTROL];
    memcpy(s.stdio, ours, sizeof s.stdio);
    if (error) {
        supervisor_close(&s);
        return supervisor_refuse(ret_error, spec->command[0], NULL, error);
    }
    *ret = s;
    return true;
}

void supervisor_close(struct supervisor *s)
{
    int all[] = {s->pidfd,    s->control,   s->stdio[0], s->stdio[1],
                 s->stdio[2], s->spool_out, s->spool_in};
    close_ends(all, countof(all));
    holder_unmap(s->page);
    s->page = NULL;
}

void supervisor_send(int control, enum supervisor_command command)
{
    char byte = (char)command;
    (void)!send(control, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void supervisor_wake(int pidfd)
{
    if (pidfd >= 0)
        syscall(SYS_pidfd_send_signal, pidfd, SIGCONT, NULL, 0);
}

bool supervisor_read_report(int control, struct supervisor_report *ret)
{
    struct supervisor_report report;
    ssize_t n;
    do /* a reset (it exited before it read our last command) is reported first, and once */
        n = recv(control, &report, sizeof report, MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n != (ssize_t)sizeof report)
        return false;
    *ret = report;
    return true;
}

static void put_signal(struct buf *out, int number)
{
    const char *name = sigabbrev_np(number);
    buf_putf(out, "killed by signal %d", number);
    if (name)
        buf_putf(out, " (SIG%s)", name);
}

bool supervisor_put_end(const struct supervisor_report *report, const char *program,
                        struct buf *out)
{
    if (report->error)
        buf_putf(out, "cannot start \"%s\": %s", program, strerror(report->error));
    else if (WIFSIGNALED(report->status))
        put_signal(out, WTERMSIG(report->status));
    else if (WEXITSTATUS(report->status) == 0)
        return true;
    else
        buf_putf(out, "exit status %d", WEXITSTATUS(report->status));
    return false;
}

/* --- the supervisor's side -------------------------------------------------------------------- */

static void report(int error, int status)
{
    struct supervisor_report r = {.error = error, .status = status};
    (void)!send(CONTROL_FD, &r, sizeof r, MSG_NOSIGNAL);
}

static void supervisor_on_ended(struct tree *t, int status)
{
    report(t->error, status);
}

/* The program's pipes belong to the program alone: it decides when they end. */
static void leave_stdio(struct tree *t)
{
    (void)t;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < CONTROL_FD; fd++)
        if (dup2(null, fd) < 0)
            close(fd);
    if (null >= 0)
        close(null);
}

/* Until the tree has ended, or must be killed. */
static void watch(struct tree *t)
{
    while (tree_reap(t)) {
        struct pollfd p[] = {{.fd = CONTROL_FD, .events = POLLIN},
                             {.fd = t->signals, .events = POLLIN}};
        char command;

        if (poll(p, countof(p), -1) < 0 && errno != EINTR)
            return;
        tree_wait(t, 0);
        if (!p[0].revents)
            continue;
        ssize_t n = recv(CONTROL_FD, &command, 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0 || command == SUPERVISOR_KILL)
            return;
        if (command == SUPERVISOR_TERM)
            tree_ask(t, false);
    }
}

/* The program does not get them.  False: they are not there. */
static bool own_descriptors(int n)
{
    for (int fd = CONTROL_FD; fd < n; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return false;
    return true;
}

int supervisor_main(int argc, char **argv)
{
    struct tree tree = {.ended = supervisor_on_ended, .release = leave_stdio};

    if (argc <= OWN_ARGUMENTS || strcmp(argv[OWN_ARGUMENTS - 1], "--") != 0 ||
        !own_descriptors(argv[4][0] ? HOLDER_N_FDS : N_ENDS)) {
        fprintf(stderr, "holdfast supervise: only the gateway itself starts this\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGCONT); /* a stopped one sees the end of its control, too */
    spawn_set_files(strtoull(argv[2], NULL, 10));
#ifdef HOLDFAST_FAULTS
    (void)fault_open(); /* from the program's environment */
#endif
    if (argv[4][0]) {
        holder_run(argv + OWN_ARGUMENTS, argv[4], (uint32_t)strtoul(argv[3], NULL, 10));
        _exit(0);
    }
    int error = tree_open(&tree);
    if (!error)
        error = tree_start(&tree, argv + OWN_ARGUMENTS, NULL, NULL);
    if (error)
        report(error, 0);
    else
        watch(&tree);
    tree_kill(&tree);
    /* Skips the exit handlers of all the gateway's libraries.  One of them may wait for ever: a
     * SIGCONT (supervisor_wake) that arrives while LeakSanitizer stops its own threads undoes their
     * stop. */
    _exit(error ? 1 : 0);
}
