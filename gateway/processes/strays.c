#include "gateway/processes/strays.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/processes/children.h"
#include "gateway/processes/tree.h"
#include "proto/base.h"

#define ROUNDS 100        /* about 9 s: one that dies may wait for a processor */
#define PAUSE_NS 5000000  /* longer with each round … */
#define LONGEST_PAUSES 20 /* … up to so many */

static uint64_t adopted; /* ticks since boot */

void strays_adopt(void)
{
    struct timespec now;
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    clock_gettime(CLOCK_BOOTTIME, &now);
    adopted = (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec * hz / 1000000000;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Whether it began after this process, and is another program, or none any more: it dies, and its
 * children are not ours yet.  A child that posix_spawn has just made is still this program; one
 * that our starter has left to us (sh -c "helper & exec holdfast") is older. */
static bool is_stray(pid_t pid)
{
    char path[64];
    struct stat self, its;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    if (process_start_ticks(pid) <= adopted || stat("/proc/self/exe", &self) < 0)
        return false;
    if (stat(path, &its) < 0)
        return errno == ENOENT;
    return its.st_dev != self.st_dev || its.st_ino != self.st_ino;
}

/* False when there is no stray, living or dead. */
static bool kill_generation(void)
{
    pid_t self = getpid();
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    bool found = false;
    while (proc && (entry = readdir(proc))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || process_parent(pid) != self || children_has(pid))
            continue;
        bool stray = is_stray(pid);
        if (stray)
            kill(pid, SIGKILL);
        found |= waitpid(pid, NULL, WNOHANG) != 0 || stray;
    }
    if (proc)
        closedir(proc);
    return found;
}

/* One generation a round: the children of the dead become ours. */
static void sweep(uv_work_t *work)
{
    (void)work;
    for (int i = 1; i <= ROUNDS && kill_generation(); i++) {
        int pauses = i < LONGEST_PAUSES ? i : LONGEST_PAUSES;
        nanosleep(&(struct timespec){.tv_nsec = pauses * PAUSE_NS}, NULL);
    }
}

static void on_swept(uv_work_t *work, int status)
{
    (void)status;
    free(work);
}

void strays_kill(uv_loop_t *loop)
{
    uv_work_t *work = xcalloc(sizeof *work);
    if (uv_queue_work(loop, work, sweep, on_swept) < 0)
        free(work);
}

static void on_child(uv_signal_t *signal, int number)
{
    (void)signal, (void)number;
    children_look();
}

void strays_watch(uv_loop_t *loop, uv_signal_t *signal)
{
    uv_signal_init(loop, signal);
    signal->data = signal;
    uv_signal_start(signal, on_child, SIGCHLD);
    children_look(); /* to reap what our starter has left to us */
}
