/* The contents of DATA/processes at a start.
 *
 *   status ended ──────────────────────────────────────────────▶ as it ended
 *   status running, the lock is held, pid and start ticks fit ──▶ adopted
 *   no status, the lock is held ───────────────────────────────▶ young: looked at again soon
 *   no status, the lock is free ───────────────────────────────▶ never began: its call begins it
 *   anything else ─────────────────────────────────────────────▶ lost; a keeper that still holds
 *                                                                the lock is told by its own FIFO
 *
 * A process that a call waited for, or whose start may not have been answered, is kept as long as
 * the task lives that goes on with that call (process_claim).
 *
 * The pid alone proves nothing: it may be a stranger's by now.  So the pidfd is opened first, then
 * the ticks are compared: they belong to the process of the pidfd.  A record without ticks (an
 * import) must name a process whose command line is that of the keeper of this folder. */
#include "gateway/processes/processes_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/processes/tree.h"

static bool is_id(const char *name)
{
    return strlen(name) == KEEP_ID_LEN && strncmp(name, "proc_", 5) == 0 &&
           strspn(name + 5, "0123456789abcdef") == KEEP_ID_LEN - 5;
}

/* "holdfast", "keep", ".../ID", each followed by a NUL. */
static bool is_command_line_of(pid_t pid, const char *id)
{
    char path[64], text[4200];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    static const char begins[] = "holdfast\0keep"; /* its own NUL counts */
    return n > (ssize_t)(sizeof begins + KEEP_ID_LEN) && memcmp(text, begins, sizeof begins) == 0 &&
           memcmp(text + n - 1 - KEEP_ID_LEN, id, KEEP_ID_LEN) == 0;
}

/* A pidfd of the keeper in the record; -1: there is no such process any more. */
static int find_keeper(const struct process *p)
{
    const struct keep_status *s = &p->status;
    int pidfd = s->keeper > 0 ? (int)syscall(SYS_pidfd_open, s->keeper, 0) : -1;
    if (pidfd < 0)
        return -1;
    bool same = s->keeper_ticks ? process_start_ticks(s->keeper) == s->keeper_ticks
                                : is_command_line_of(s->keeper, p->id);
    if (same)
        return pidfd;
    close(pidfd);
    return -1;
}

static void kill_through_fifo(int folder)
{
    static const char frame[] = {KEEP_KILL, 0, 0};
    int fifo = openat(folder, "input", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fifo < 0)
        return;
    (void)!write(fifo, frame, sizeof frame);
    close(fifo);
}

static void record_end(struct process *p, int folder)
{
    p->status.ended_at = p->all->o.hub->clock.wall_ms;
    if (folder >= 0 && !keep_status_write(folder, &p->status))
        log_event_limited(LEVEL_WARN, "process", "not_recorded", LOG_TEXT("id", p->id));
}

void process_take_as_lost(struct process *p, int folder)
{
    p->status.state = KEEP_LOST;
    p->status.has_exit_code = false;
    record_end(p, folder);
}

void process_take_as_failed(struct process *p, int folder)
{
    p->status = (struct keep_status){.state = KEEP_FAILED, .has_exit_code = true, .exit_code = -1};
    snprintf(p->status.error, sizeof p->status.error, "its keeper ended before it");
    record_end(p, folder);
}

static bool adopt(struct process *p)
{
    int pidfd = find_keeper(p);
    if (pidfd >= 0 && process_watch_keeper(p, pidfd)) {
        p->adopted = true;
        processes_wake(p->all);
        return true;
    }
    if (pidfd >= 0)
        close(pidfd);
    return false;
}

/* One that never began stays without a status: it is begun again, if need be by a later gateway. */
static void find_out(struct process *p, int folder)
{
    enum keep_sight sight = keep_look(folder, &p->status);
    if (sight == KEEP_LIVES && !adopt(p)) {
        sight = keep_look(folder, &p->status); /* it may have ended meanwhile */
        if (sight == KEEP_LIVES) {
            kill_through_fifo(folder);
            process_take_as_lost(p, folder);
        }
    }
    if (sight == KEEP_VANISHED)
        process_take_as_lost(p, folder);
    p->young = sight == KEEP_YOUNG;
    p->never_began = sight == KEEP_NEVER_BEGAN;
    if (p->never_began)
        p->status.state = KEEP_LOST;
}

bool process_is_still_young(struct process *p)
{
    int folder = process_folder(p);
    p->young = p->never_began = false;
    if (folder < 0)
        process_take_as_lost(p, folder);
    else
        find_out(p, folder);
    if (p->never_began && !p->unclaimed)
        process_take_as_failed(p, folder);
    if (folder >= 0)
        close(folder);
    if (p->young)
        return true;
    if (!process_runs(p) && !(p->unclaimed && p->never_began))
        process_ended(p);
    else if (p->to_end)
        process_kill(p);
    return false;
}

static void restore(struct processes *all, const char *id)
{
    struct keep_spec spec;
    int folder = openat(all->dir, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0)
        return;
    if (!keep_spec_read(folder, &spec)) {
        bool half_made = !keep_has_spec(folder); /* a gateway died over it: nothing has begun */
        close(folder);
        if (half_made)
            keep_remove(all->dir, id);
        else
            log_event(LEVEL_WARN, "process", "unreadable", LOG_TEXT("id", id));
        return;
    }
    struct process *p = process_add(all, id, &spec);
    p->unclaimed = true;
    find_out(p, folder);
    processes_arm_tick(all, 0);
    if (p->spec.background)
        process_watch_restore(p, folder);
    close(folder);
    log_event(LEVEL_INFO, "process", "found", LOG_TEXT("id", id),
              LOG_TEXT("state", keep_state_name(p->status.state)));
    if (!process_runs(p) && p->spec.background && !p->never_began)
        process_tell_end(p);
}

static int by_start(const void *a, const void *b)
{
    const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;
    return (x->spec.started_at > y->spec.started_at) - (x->spec.started_at < y->spec.started_at);
}

static void sort(struct processes *all)
{
    size_t n = 0, at = 0;
    list_each (it, &all->list)
        n++;
    struct process **order = xcalloc((n + 1) * sizeof(struct process *));
    list_each (it, &all->list)
        order[at++] = list_item(it, struct process, node);
    qsort(order, n, sizeof *order, by_start);
    list_init(&all->list);
    for (size_t i = 0; i < n; i++) {
        order[i]->node = (struct list){0};
        list_push(&all->list, &order[i]->node);
    }
    free(order);
}

const char *processes_place(struct processes *all)
{
    if (!all->place[0])
        place_read(all->o.data, all->place);
    return all->place;
}

void processes_restore(struct processes *all)
{
    if (!processes_open_dir(all, false))
        return;
    int copy = fcntl(all->dir, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        if (copy >= 0)
            close(copy);
        log_event(LEVEL_ERROR, "process", "cannot_restore", LOG_TEXT("why", strerror(errno)));
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (is_id(entry->d_name))
            restore(all, entry->d_name);
    closedir(dir);
    sort(all);
}
