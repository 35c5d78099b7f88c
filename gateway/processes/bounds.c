#include "gateway/processes/bounds.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "gateway/processes/cgroup.h"
#include "gateway/processes/folder_size.h"

#define MIB (1024 * 1024)
#define XCPU_S 5 /* between SIGXCPU, which tells the reason, and SIGKILL */
#define PAUSE 10 /* after a slow look, that many times its duration without one */

void bounds_open(struct bounds_watch *w, const struct bounds *bounds, const char *folder,
                 const char *parent, int64_t now_ms)
{
    *w = (struct bounds_watch){
        .bounds = bounds, .folder = folder, .group = -1, .due = now_ms + BOUNDS_LOOK_MS};
    snprintf(w->name, sizeof w->name, "command-%d", (int)getpid());
    if (parent)
        w->group = cgroup_make(parent, w->name, bounds->memory, bounds->processes);
    if (w->group >= 0)
        w->parent = parent;
}

/* Never more than there was.  The program can raise it again by that much. */
static int lower(__rlimit_resource_t what, uint64_t to, uint64_t by)
{
    struct rlimit limit;
    if (getrlimit(what, &limit) < 0)
        return errno;
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > to + by)
        limit.rlim_max = to + by;
    limit.rlim_cur = limit.rlim_max < to ? limit.rlim_max : to;
    return setrlimit(what, &limit) < 0 ? errno : 0;
}

int bounds_enter(const struct bounds_watch *w)
{
    const struct bounds *b = w->bounds;
    bool is_grouped = w->group >= 0 && cgroup_enter(w->group);
    int error = lower(RLIMIT_CORE, 0, 0);
    if (!error && b->memory && !is_grouped)
        error = lower(RLIMIT_DATA, b->memory, 0);
    if (!error && b->cpu_s)
        error = lower(RLIMIT_CPU, b->cpu_s, XCPU_S);
    if (!error && b->file)
        error = lower(RLIMIT_FSIZE, b->file, 0);
    return error;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool bounds_look(struct bounds_watch *w, int64_t now, char ret_why[BOUNDS_WHY])
{
    const struct bounds *b = w->bounds;
    bool is_over = false;
    if (now < w->due)
        return false;
    int64_t begun = now_ms();
    if (w->group >= 0 && b->cpu_s && cgroup_cpu_s(w->group) > b->cpu_s) {
        snprintf(ret_why, BOUNDS_WHY, "it used more than %llu s of processor time",
                 (unsigned long long)b->cpu_s);
        is_over = true;
    } else if (w->folder && b->folder && folder_exceeds(w->folder, b->folder)) {
        snprintf(ret_why, BOUNDS_WHY, "its conversation's folder takes more than %llu MiB",
                 (unsigned long long)(b->folder / MIB));
        is_over = true;
    }
    int64_t took = now_ms() - begun;
    w->due = now + took + (took * PAUSE > BOUNDS_LOOK_MS ? took * PAUSE : BOUNDS_LOOK_MS);
    return is_over;
}

bool bounds_close(struct bounds_watch *w, char ret_why[BOUNDS_WHY])
{
    if (w->group < 0)
        return false;
    bool ran_out = cgroup_ran_out(w->group);
    if (ran_out)
        snprintf(ret_why, BOUNDS_WHY, "it used more than %llu MiB of memory",
                 (unsigned long long)(w->bounds->memory / MIB));
    close(w->group);
    w->group = -1;
    cgroup_remove(w->parent, w->name);
    return ran_out;
}
