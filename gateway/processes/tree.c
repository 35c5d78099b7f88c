#include "gateway/processes/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

int tree_open(struct tree *t)
{
    sigset_t set;

    t->fault = -1;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return t->signals < 0 ? errno : 0;
}

/* gate ends when the parent has released it. */
_Noreturn static void become(char **command, pid_t parent, int (*prepare)(void *arg), void *arg,
                             int gate, int fault)
{
    sigset_t none;
    char nothing;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    (void)!read(gate, &nothing, 1);
    int error = prepare ? prepare(arg) : 0;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!error) {
        execvp(command[0], command);
        error = errno;
    }
    (void)!write(fault, &error, sizeof error);
    _exit(127);
}

/* The errno of prepare or exec; 0: exec has closed it. */
static int take_fault(struct tree *t)
{
    int error = 0;
    if (t->fault < 0 || read(t->fault, &error, sizeof error) != (ssize_t)sizeof error)
        error = 0;
    if (t->fault >= 0)
        close(t->fault);
    t->fault = -1;
    return error;
}

/* Waits until it runs, or has failed.  If a signal comes first, because something has stopped it,
 * this does not wait: its end will tell. */
static int wait_for_exec(struct tree *t)
{
    struct pollfd p[] = {{.fd = t->fault, .events = POLLIN}, {.fd = t->signals, .events = POLLIN}};
    while (poll(p, countof(p), -1) < 0 && errno == EINTR)
        ;
    return p[0].revents ? take_fault(t) : 0;
}

int tree_start(struct tree *t, char **command, int (*prepare)(void *arg), void *arg)
{
    int fault[2], gate[2], error = 0;
    pid_t self = getpid();

    if (pipe2(fault, O_CLOEXEC) || pipe2(gate, O_CLOEXEC))
        return errno; /* this is a small process: it ends, and everything with it */
    t->program = fork();
    if (t->program == 0) {
        close(gate[1]);
        become(command, self, prepare, arg, gate[0], fault[1]);
    }
    if (t->program < 0) {
        error = errno;
        t->program = 0;
    }
    t->release(t);
    close(gate[0]);
    close(gate[1]);
    close(fault[1]);
    t->fault = fault[0];
    if (!error)
        error = wait_for_exec(t);
    if (error && t->program) {
        waitpid(t->program, NULL, 0);
        t->program = 0;
    }
    return error;
}

bool tree_reap(struct tree *t)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0)
            return true;
        if (pid < 0)
            return false;
        if (pid == t->program) {
            t->program = 0;
            t->error = take_fault(t);
            t->ended(t, status);
        }
    }
}

bool tree_wait(struct tree *t, int timeout_ms)
{
    struct signalfd_siginfo info;
    struct pollfd p = {.fd = t->signals, .events = POLLIN};
    bool asked = false;

    poll(&p, 1, timeout_ms);
    while (read(t->signals, &info, sizeof info) > 0)
        asked |= info.ssi_signo == SIGTERM;
    return asked;
}

/* The number in that column of /proc/PID/stat, counted from the state, which is 0; 0 when it cannot
 * be read. */
static uint64_t stat_column(pid_t pid, int column)
{
    char path[64], text[1024];

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* "pid (name) S ppid …"; the name may contain anything */
    at = at && at[1] ? at + 2 : NULL;
    for (; at && column > 0; column--) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

pid_t process_parent(pid_t pid)
{
    return (pid_t)stat_column(pid, 1);
}

uint64_t process_start_ticks(pid_t pid)
{
    return pid > 0 ? stat_column(pid, 19) : 0;
}

/* A stopped process would not even die of a SIGTERM. */
static void ask_process(pid_t pid)
{
    kill(pid, SIGTERM);
    kill(pid, SIGCONT);
}

/* Asks each process of the program's session except the program and its children; false when there
 * is none.  A pid that was seen in the session and is another's a moment later would have to be new
 * there. */
static bool ask_inside(pid_t program)
{
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    bool found = false;

    if (!proc)
        return false;
    while ((entry = readdir(proc))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && pid != program && (pid_t)stat_column(pid, 3) == program &&
            process_parent(pid) != program) {
            ask_process(pid);
            found = true;
        }
    }
    closedir(proc);
    return found;
}

void tree_ask(struct tree *t, bool wrapped)
{
    if (!t->program || (wrapped && ask_inside(t->program)))
        return;
    bool has_group = kill(-t->program, 0) == 0; /* not yet, if something stops it before it runs */
    ask_process(has_group ? -t->program : t->program);
}

/* A pid whose parent we are cannot become another's before we reap it.  This reads all of /proc,
 * because not every kernel has /proc/self/task/N/children; it happens only when something is
 * left. */
static void kill_children(void)
{
    pid_t self = getpid();
    struct dirent *entry;
    DIR *proc = opendir("/proc");

    if (!proc)
        return;
    while ((entry = readdir(proc))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10); /* 0 for all entries but processes */
        if (pid > 0 && process_parent(pid) == self)
            kill(pid, SIGKILL);
    }
    closedir(proc);
}

/* One generation a round: the children of the dead become ours.  Continues as long as something
 * does not die (a process in the kernel, another user's); the gateway does not wait for that. */
void tree_kill(struct tree *t)
{
    for (int wait_ms = 10; tree_reap(t); wait_ms = wait_ms < 1000 ? wait_ms * 2 : wait_ms) {
        if (t->program)
            kill(-t->program, SIGKILL);
        kill_children();
        tree_wait(t, wait_ms);
    }
}
