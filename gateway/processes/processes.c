#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/task.h"
#include "gateway/base/fault.h"
#include "gateway/base/log.h"
#include "gateway/processes/children.h"
#include "gateway/processes/keeper.h"
#include "gateway/processes/processes_private.h"
#include "gateway/processes/spawn.h"
#include "gateway/processes/strays.h"
#include "gateway/processes/terminal_text.h"

#define LOOK_BYTES 262144 /* of watched output in one turn of the loop: about a millisecond */
#define TAIL_FACTOR 8     /* how much farther back the second look for text goes */
#define LOOK_MORE_MS 10   /* until the next turn with that many */
#define WAKE_MS 5000
#define WRITE_BYTES 49152 /* in frames, into an empty FIFO of 16 pages */
#define WRITE_MORE 28672  /* that it may hold by then: pages may be half empty */

struct list *processes_list(struct processes *all)
{
    return &all->list;
}

/* --- the folder ------------------------------------------------------------------------------- */

bool processes_open_dir(struct processes *all, bool make)
{
    if (all->dir < 0 && (!make || mkdir(all->path, 0700) == 0 || errno == EEXIST))
        all->dir = open(all->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return all->dir >= 0;
}

int process_folder(const struct process *p)
{
    return openat(p->all->dir, p->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static void free_process(struct process *p)
{
    list_remove(&p->node);
    buf_done(&p->watch.telling);
    keep_spec_done(&p->spec);
    free(p);
}

void process_drop(struct process *p)
{
    keep_remove(p->all->dir, p->id);
    free_process(p);
}

void process_forget(struct process *p)
{
    ASSERT(p->never_began && !p->keeper);
    process_drop(p);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void on_poll_closed(uv_handle_t *handle)
{
    free(container_of((uv_poll_t *)(void *)handle, struct keeper_watch, poll));
}

static void stop_watching(struct process *p)
{
    struct keeper_watch *w = p->keeper;
    if (!w)
        return;
    p->keeper = NULL;
    w->process = NULL;
    uv_close((uv_handle_t *)&w->poll, on_poll_closed);
    close(w->pidfd);
}

static void processes_finish(struct process *p)
{
    int folder = process_folder(p);
    struct keep_status status;
    if (folder >= 0 && keep_look(folder, &status) == KEEP_ENDED)
        p->status = status;
    else if (folder < 0 || keep_has_status(folder))
        process_take_as_lost(p, folder);
    else
        process_take_as_failed(p, folder);
    if (folder >= 0)
        close(folder);
    stop_watching(p);
    hub_give_slot(p->all->o.hub);
    process_ended(p);
}

void process_ended(struct process *p)
{
    log_event(LEVEL_INFO, "process", "ended", LOG_TEXT("id", p->id),
              LOG_TEXT("state", keep_state_name(p->status.state)),
              LOG_INT("code", p->status.exit_code));
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &p->waiters);
    while ((node = list_pop(&now)) != NULL) {
        struct process_waiter *w = list_item(node, struct process_waiter, node);
        w->ended(w, p);
    }
    if (p->forgotten && !p->claimed) {
        process_drop(p);
        return;
    }
    if (!p->spec.background) {
        process_answered(p);
        return;
    }
    process_tell_end(p);
    if (p->watch.on)
        processes_arm_tick(p->all, 0);
}

/* An answer that is not committed is lost: then the folder is all that the next gateway has. */
static void on_answer_committed(struct waiter *waiter, int status)
{
    struct process *p = container_of(waiter, struct process, committed);
    if (status == 0) {
        process_drop(p);
        FAULT_DIE(DROPPED);
    } else {
        free_process(p);
    }
}

void process_answered(struct process *p)
{
    p->claimed = false;
    if (p->spec.background || p->left || p->unclaimed)
        return;
    p->committed.done = on_answer_committed;
    journal_wait(&p->all->o.hub->journal, &p->committed);
}

static void on_keeper_exit(uv_poll_t *poll, int status, int events)
{
    struct keeper_watch *w = container_of(poll, struct keeper_watch, poll);
    siginfo_t info;
    (void)status, (void)events;
    if (!w->process || !children_reap(P_PIDFD, (id_t)w->pidfd, WNOHANG, &info))
        return;
    if (strays_may_be(&info))
        strays_kill(poll->loop);
    processes_finish(w->process);
}

bool process_watch_keeper(struct process *p, int pidfd)
{
    struct keeper_watch *w = xcalloc(sizeof *w);
    if (uv_poll_init(p->all->o.loop, &w->poll, pidfd) < 0) {
        free(w);
        return false;
    }
    w->process = p;
    w->pidfd = pidfd;
    p->keeper = w;
    hub_hold_slot(p->all->o.hub);
    uv_poll_start(&w->poll, UV_READABLE, on_keeper_exit);
    return true;
}

/* --- the tick --------------------------------------------------------------------------------- */

void processes_arm_tick(struct processes *all, int64_t in_ms)
{
    struct clock *c = &all->o.hub->clock;
    if (timer_is_armed(&all->tick) && all->tick.due <= c->now_ms + in_ms)
        return;
    timer_arm(c, &all->tick, c->now_ms + in_ms);
}

/* Examines those that were not examined in this round, until the budget is spent.  True when there
 * is more to examine now. */
static bool go_round(struct processes *all)
{
    size_t budget = LOOK_BYTES;
    bool more = false;
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (!p->watch.on || p->watch.round == all->round)
            continue;
        if (budget == 0)
            return true;
        p->watch.round = all->round;
        more |= process_watch_look(p, &budget);
    }
    all->round++;
    return more;
}

/* Until its task has ended, its call may ask for it. */
static bool may_be_claimed(const struct process *p)
{
    const struct stream *s =
        hub_find_stream(p->all->o.hub, str_of(p->spec.owner), str_of(p->spec.conversation_id),
                        str_of(p->spec.task_id));
    return p->unclaimed && s && s->task && !task_is_ending(s->task);
}

/* One for which nobody asks any more is over in the foreground.  True when it may still be asked
 * for. */
static bool look_for_claim(struct process *p)
{
    if (!p->unclaimed || may_be_claimed(p))
        return p->unclaimed;
    p->unclaimed = false;
    if (p->spec.background)
        return false;
    if (process_runs(p))
        process_kill(p);
    else
        process_drop(p);
    return false;
}

struct process *process_claim(struct processes *all, const struct tool_caller *caller)
{
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (!p->unclaimed || !p->spec.call || !str_eq(caller->call, str_of(p->spec.call)) ||
            !str_eq(caller->task_id, str_of(p->spec.task_id)) ||
            !str_eq(caller->owner, str_of(p->spec.owner)))
            continue;
        p->unclaimed = false;
        p->claimed = true;
        FAULT_DIE(ATTACH);
        return p;
    }
    return NULL;
}

static void on_tick(struct timer *timer)
{
    struct processes *all = container_of(timer, struct processes, tick);
    bool more = go_round(all), again = more, young = false;
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (p->young) {
            young |= process_is_still_young(p);
            again = true;
            continue; /* it may be gone */
        }
        again |= process_watch_tell(p) || p->watch.on;
        if (!process_runs(p) && p->told == UNTOLD && !(p->unclaimed && p->never_began)) {
            process_tell_end(p);
            again = true;
        }
        again |= look_for_claim(p); /* last: it may be gone then */
    }
    if (again || young)
        processes_arm_tick(all, more ? LOOK_MORE_MS : young ? YOUNG_MS : TICK_MS);
}

/* --- starting --------------------------------------------------------------------------------- */

static bool may_go(const struct process *p, int64_t ended_before)
{
    return !process_runs(p) && p->told == TOLD && !p->watch.on && !p->watch.telling.len &&
           list_is_empty(&p->waiters) && !p->unclaimed && !p->claimed &&
           !list_is_in(&p->committed.node) && p->status.ended_at < ended_before;
}

static void prune(struct processes *all)
{
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (may_go(p, all->o.hub->clock.wall_ms - all->o.ttl_ms))
            process_drop(p);
    }
}

static bool processes_has_room(struct processes *all, const char *owner, char ret_error[256])
{
    struct hub *h = all->o.hub;
    struct process *oldest = NULL;
    size_t n = 0;
    prune(all);
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (strcmp(p->spec.owner, owner) != 0)
            continue;
        n++;
        if (may_go(p, INT64_MAX) && (!oldest || p->status.ended_at < oldest->status.ended_at))
            oldest = p;
    }
    if (n >= PROCESSES_PER_OWNER && oldest)
        process_drop(oldest);
    else if (n >= PROCESSES_PER_OWNER)
        snprintf(ret_error, 256, "%d processes run already: end one first", PROCESSES_PER_OWNER);
    else if (hub_has_slot(h))
        return true;
    if (!hub_has_slot(h)) {
        h->stats.limit_hits[LIMIT_PROCESSES]++;
        snprintf(ret_error, 256, "too many processes run now: try again later");
    }
    return ret_error[0] == 0;
}

static void make_id(struct processes *all, char ret[KEEP_ID_LEN + 1])
{
    unsigned char bytes[6];
    ASSERT(all->o.hub->o.random(bytes, sizeof bytes));
    snprintf(ret, KEEP_ID_LEN + 1, "proc_%02x%02x%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2],
             bytes[3], bytes[4], bytes[5]);
}

struct process *process_add(struct processes *all, const char *id, const struct keep_spec *spec)
{
    struct process *p = xcalloc(sizeof *p);
    p->all = all;
    snprintf(p->id, sizeof p->id, "%s", id);
    p->spec = *spec;
    p->told = spec->background && spec->notify_on_complete ? UNTOLD : TOLD;
    list_init(&p->waiters);
    list_push(&all->list, &p->node);
    return p;
}

static bool processes_launch(struct process *p, char **env, char ret_error[256])
{
    struct buf path = {0};
    pid_t pid = 0;
    int folder = -1, pidfd = -1;
    if (mkdirat(p->all->dir, p->id, 0700) == 0)
        folder = process_folder(p);
    if (folder < 0 || !keep_spec_write(folder, &p->spec))
        snprintf(ret_error, 256, "cannot start a command: its folder: %s", strerror(errno));
    else {
        FAULT_DIE(FOLDER);
        buf_putf(&path, "%s/%s", p->all->path, p->id);
        pidfd = keeper_spawn(path.bytes, folder, env, p->all->o.self, &pid, ret_error);
        FAULT_DIE(KEEPER);
    }
    buf_done(&path);
    if (folder >= 0)
        close(folder);
    if (pidfd >= 0 && !process_watch_keeper(p, pidfd)) {
        snprintf(ret_error, 256, "cannot start a command: too many watches");
        keeper_discard(pidfd);
        return false;
    }
    return pidfd >= 0;
}

struct process *process_start(struct processes *all, struct keep_spec *spec, char **env,
                              char ret_error[256])
{
    char id[KEEP_ID_LEN + 1];
    ret_error[0] = 0;
    if (!processes_has_room(all, spec->owner, ret_error)) {
        keep_spec_done(spec);
        return NULL;
    }
    if (!processes_open_dir(all, true)) {
        snprintf(ret_error, 256, "cannot start a command: the data directory: %s", strerror(errno));
        keep_spec_done(spec);
        return NULL;
    }
    make_id(all, id);
    spec->started_at = all->o.hub->clock.wall_ms;
    spec->files = (int64_t)(spawn_files() & INT64_MAX);
    struct process *p = process_add(all, id, spec);
    *spec = (struct keep_spec){0};
    if (!processes_launch(p, env, ret_error)) {
        process_drop(p);
        return NULL;
    }
    if (p->spec.watch_patterns.n) {
        process_watch_begin(p);
        processes_arm_tick(all, TICK_MS);
    }
    log_event(LEVEL_INFO, "process", "started", LOG_TEXT("id", p->id),
              LOG_TEXT("task", p->spec.task_id));
    return p;
}

/* --- using them ------------------------------------------------------------------------------- */

struct process *process_find(struct processes *all, const struct tool_caller *caller, struct str id)
{
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (p->spec.background && str_eq(id, str_of(p->id)) &&
            str_eq(caller->owner, str_of(p->spec.owner)) &&
            str_eq(caller->conversation_id, str_of(p->spec.conversation_id)))
            return p;
    }
    return NULL;
}

void process_refresh(struct process *p)
{
    struct keep_status status;
    int folder = process_runs(p) && !p->status.pid ? process_folder(p) : -1;
    if (folder < 0)
        return;
    if (keep_status_read(folder, &status) && status.state == KEEP_RUNNING)
        p->status = status;
    close(folder);
}

void process_wait(struct process *p, struct process_waiter *waiter)
{
    ASSERT(process_runs(p));
    list_push(&p->waiters, &waiter->node);
}

void process_kill(struct process *p)
{
    p->to_end = true;
    if (!p->keeper)
        return;
    syscall(SYS_pidfd_send_signal, p->keeper->pidfd, SIGTERM, NULL, 0);
    /* Its command may have stopped it. */
    syscall(SYS_pidfd_send_signal, p->keeper->pidfd, SIGCONT, NULL, 0);
}

static bool write_frame(int fifo, char kind, struct str bytes)
{
    char frame[KEEP_FRAME];
    frame[0] = kind;
    frame[1] = (char)(bytes.n & 0xff);
    frame[2] = (char)(bytes.n >> 8);
    if (bytes.n)
        memcpy(frame + 3, bytes.p, bytes.n);
    return write(fifo, frame, bytes.n + 3) == (ssize_t)bytes.n + 3;
}

static bool write_frames(int fifo, struct str bytes, bool close_behind)
{
    while (bytes.n) {
        size_t n = bytes.n < KEEP_FRAME - 3 ? bytes.n : KEEP_FRAME - 3;
        if (!write_frame(fifo, KEEP_WRITE, (struct str){bytes.p, n}))
            return false;
        bytes.p += n;
        bytes.n -= n;
    }
    return !close_behind || write_frame(fifo, KEEP_CLOSE, STR(""));
}

bool process_write(struct process *p, struct str bytes, bool close_behind)
{
    int folder = process_folder(p), unread = 0;
    int fifo =
        folder < 0 ? -1 : openat(folder, "input", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    bool good = fifo >= 0 && ioctl(fifo, FIONREAD, &unread) == 0 &&
                bytes.n + (size_t)unread <= (unread ? WRITE_MORE : WRITE_BYTES) &&
                write_frames(fifo, bytes, close_behind);
    if (good && close_behind && !p->spec.pty)
        keep_put_closed(folder); /* a request right after this one must see it */
    if (fifo >= 0)
        close(fifo);
    if (folder >= 0)
        close(folder);
    return good;
}

bool process_input_is_closed(const struct process *p)
{
    int folder = process_folder(p);
    bool closed = folder >= 0 && keep_has_closed(folder);
    if (folder >= 0)
        close(folder);
    return closed;
}

/* The text of the last max bytes; whether some came before them. */
static bool read_tail(int ring, size_t max, bool ended, struct buf *out)
{
    struct buf bytes = {0};
    uint64_t total = keep_ring_total(ring);
    struct keep_span span = keep_ring_read(ring, total > max ? total - max : 0, max, &bytes);
    terminal_text(buf_str(&bytes), span.first > 0, ended, out);
    buf_done(&bytes);
    return span.first > 0;
}

bool process_text(const struct process *p, size_t chars, struct buf *out)
{
    struct buf text = {0};
    int folder = process_folder(p), ring = folder < 0 ? -1 : keep_ring_open(folder, false);
    bool cut = false;
    if (folder >= 0)
        close(folder);
    if (ring < 0)
        return false;
    /* Escapes and overwritten bytes are no characters: this reads some more than that many can
     * take, and again, if that was not enough. */
    size_t max = 4 * chars + 4 * KEEP_FRAME;
    cut = read_tail(ring, max, !process_runs(p), &text);
    if (cut && utf8_tail(buf_str(&text), chars).n == text.len) {
        buf_clear(&text);
        cut = read_tail(ring, TAIL_FACTOR * max, !process_runs(p), &text);
    }
    close(ring);
    struct str tail = utf8_tail(buf_str(&text), chars);
    bool more = cut || tail.n < text.len;
    buf_putstr(out, tail);
    buf_done(&text);
    return more;
}

/* --- all of them ------------------------------------------------------------------------------ */

void processes_delete(void *arg, struct str owner, struct str conversation_id)
{
    struct processes *all = arg;
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (!str_eq(owner, str_of(p->spec.owner)) ||
            !str_eq(conversation_id, str_of(p->spec.conversation_id)))
            continue;
        p->told = TOLD;
        p->forgotten = true;
        p->watch.on = false;
        if (process_runs(p))
            process_kill(p);
        else if (!p->claimed && !list_is_in(&p->committed.node))
            process_drop(p);
    }
}

/* The kernel reports stopped keepers only when they are our children.  Those of an earlier gateway
 * we do not hear about: one that its command has stopped is continued after a while. */
static void on_wake(struct timer *timer)
{
    struct processes *all = container_of(timer, struct processes, wake);
    bool again = false;
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        if (p->adopted && p->keeper) {
            syscall(SYS_pidfd_send_signal, p->keeper->pidfd, SIGCONT, NULL, 0);
            again = true;
        }
    }
    if (again)
        processes_wake(all);
}

void processes_wake(struct processes *all)
{
    struct clock *c = &all->o.hub->clock;
    if (!timer_is_armed(&all->wake))
        timer_arm(c, &all->wake, c->now_ms + WAKE_MS);
}

struct processes *processes_open(const struct processes_options *options)
{
    struct processes *all = xcalloc(sizeof *all);
    struct buf path = {0};
    list_init(&all->list);
    all->o = *options;
    all->dir = -1;
    all->tick.fire = on_tick;
    all->wake.fire = on_wake;
    buf_putf(&path, "%s/processes", options->data);
    all->path = buf_take(&path);
    return all;
}

void processes_close(struct processes *all)
{
    if (!all)
        return;
    list_each (it, &all->list) {
        struct process *p = list_item(it, struct process, node);
        stop_watching(p);
        list_remove(&p->committed.node);
        free_process(p);
    }
    if (all->dir >= 0)
        close(all->dir);
    free(all->path);
    free(all);
}
