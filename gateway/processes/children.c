#include "gateway/processes/children.h"

#include <pthread.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pid_t *pids;
static size_t n_pids, cap;
static bool looking; /* children_look was called once: orphans are ours to reap */

/* n_pids when there is none. */
static size_t find(pid_t pid)
{
    size_t i = 0;
    while (i < n_pids && pids[i] != pid)
        i++;
    return i;
}

void children_add(pid_t pid)
{
    pthread_mutex_lock(&mutex);
    if (n_pids == cap) {
        cap = cap ? 2 * cap : 64;
        pids = xrealloc(pids, cap * sizeof *pids);
    }
    pids[n_pids++] = pid;
    pthread_mutex_unlock(&mutex);
}

bool children_has(pid_t pid)
{
    pthread_mutex_lock(&mutex);
    bool has = find(pid) < n_pids;
    pthread_mutex_unlock(&mutex);
    return has;
}

static void children_forget(pid_t pid)
{
    pthread_mutex_lock(&mutex);
    size_t i = find(pid);
    if (i < n_pids)
        pids[i] = pids[--n_pids];
    pthread_mutex_unlock(&mutex);
}

bool children_reap(idtype_t type, id_t id, int options, siginfo_t *ret)
{
    *ret = (siginfo_t){0};
    if (waitid(type, id, ret, WEXITED | options) < 0) {
        *ret = (siginfo_t){0};
        return true;
    }
    if (ret->si_pid == 0)
        return false;
    children_forget(ret->si_pid);
    if (looking)
        children_look(); /* it may have hidden others */
    return true;
}

static void wake_stopped(void)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid) {
        if (children_has(info.si_pid)) /* unreaped, so the pid still belongs to it */
            kill(info.si_pid, SIGCONT);
        info = (siginfo_t){0};
    }
}

/* The kernel shows the first of the dead.  A spawned one is left to children_reap, which looks
 * again. */
void children_look(void)
{
    siginfo_t info = {0};
    looking = true;
    wake_stopped();
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
           !children_has(info.si_pid)) {
        (void)waitpid(info.si_pid, NULL, WNOHANG);
        info = (siginfo_t){0};
    }
}
