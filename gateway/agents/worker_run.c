/* A run at a worker: numbered lines in both directions.
 *
 *              place_wait            run_give              end, or lost
 *   start ───────────────▶ waiting ───────────▶ given ──────────────────▶ ended ─────▶ freed
 *                             ▲      lost, and nothing came of it │
 *                             └───────────────────────────────────┘
 *
 * - A line to the agent stays in `out` until the worker has received it, and is sent again to a
 *   connection that comes back without it.
 * - A line of the agent is acknowledged when the batch that has its events is committed.  The last
 *   one, the end, is acknowledged by `gone`: so a run outlives core's free until that is on disk.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/run_line.h"
#include "gateway/agents/workers_private.h"
#include "proto/str.h"

#define RUN_MAGIC 0x776f726bu
#define OUT_MOST (1024 * 1024) /* bytes that wait for the worker, beside the run line */
#define REASON_MOST 4096       /* bytes */

struct map_key run_key(const struct map_node *node)
{
    return (struct map_key){{str_of(container_of(node, const struct run, node)->id)}};
}

struct map_key share_key(const struct map_node *node)
{
    return (struct map_key){{str_of(container_of(node, const struct share, node)->owner)}};
}

static struct run *worker_run_of(struct run *r)
{
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

/* --- an owner's part -------------------------------------------------------------------------- */

static struct share *share_ref(struct workers *w, struct str owner)
{
    struct map_node *node = map_find(&w->shares, (struct map_key){{owner}});
    struct share *s = node ? container_of(node, struct share, node) : NULL;
    if (!s) {
        s = xcalloc(sizeof *s);
        s->owner = xstrdup(owner);
        map_put(&w->shares, &s->node);
    }
    s->refs++;
    return s;
}

static void share_unref(struct workers *w, struct share *s)
{
    if (--s->refs > 0)
        return;
    map_remove(&w->shares, &s->node);
    free(s->owner);
    free(s);
}

/* --- lines to the agent ----------------------------------------------------------------------- */

static void out_put(struct run *r, struct str line)
{
    struct buf frame = {0};
    worker_put_line(&frame, r->id, ++r->out_n, line);
    struct out_line *l = xalloc(sizeof *l + frame.len);
    *l = (struct out_line){.n = r->out_n, .len = frame.len};
    memcpy(l->bytes, frame.bytes, frame.len);
    buf_done(&frame);
    list_push(&r->out, &l->node);
    r->out_bytes += l->len;
    if (r->instance)
        instance_wake(r->instance, r);
}

static void out_drop(struct run *r, uint64_t upto)
{
    while (!list_is_empty(&r->out)) {
        struct out_line *l = list_item(r->out.next, struct out_line, node);
        if (l->n > upto)
            return;
        list_remove(&l->node);
        r->out_bytes -= l->len;
        if (l->n == 1 && r->agent->rerun && r->in_n == 0)
            r->first = l;
        else
            free(l);
    }
}

bool run_acked(struct run *r, uint64_t n)
{
    if (n > r->out_sent)
        return false;
    if (n <= r->out_acked)
        return true;
    r->out_acked = n;
    out_drop(r, n);
    if (r->message && r->message <= n && r->task && !r->ended && r->events.on_room)
        r->events.on_room(r->task); /* core offers it again, and deliver recognizes it */
    return true;
}

/* --- places ----------------------------------------------------------------------------------- */

void run_give(struct run *r, struct instance *i)
{
    r->instance = i;
    r->share->given++;
    i->n_runs++;
    i->worker->n_runs++;
    r->workers->stats.given++;
    list_push(&i->runs, &r->at);
    instance_wake(i, r);
}

/* The place is free, but is not given to anybody yet. */
static void run_leave(struct run *r)
{
    struct instance *i = r->instance;
    if (!i)
        return;
    r->instance = NULL;
    r->share->given--;
    i->n_runs--;
    i->worker->n_runs--;
    i->n_paused -= r->paused;
    list_remove(&r->at);
    list_remove(&r->ready);
    instance_hold(i);
}

static void worker_run_drop(struct run *r)
{
    ASSERT(!r->instance);
    out_drop(r, r->out_n);
    free(r->first);
    list_remove(&r->told);
    map_remove(&r->workers->runs, &r->node);
    share_unref(r->workers, r->share);
    r->magic = 0;
    free(r);
}

void run_forget(struct run *r)
{
    run_leave(r);
    worker_run_drop(r);
}

static void run_end(struct run *r, enum run_end end, struct str text)
{
    if (r->ended || !r->task)
        return;
    r->ended = true;
    r->events.on_end(r->task, end, text);
}

/* The worker need not keep the run any longer. */
static void say_gone(struct run *r)
{
    struct instance *i = r->instance;
    if (i && i->is_here) {
        worker_put_gone(&i->notes, str_of(r->id));
        buf_putc(&i->notes, '\n');
        instance_wake(i, NULL);
    }
    run_leave(r);
}

/* Nothing came of it: the next instance gets all of its lines, from the first on. */
static void run_wait_again(struct run *r)
{
    run_leave(r);
    if (r->first)
        list_push_front(&r->out, &r->first->node);
    if (r->first)
        r->out_bytes += r->first->len;
    r->first = NULL;
    r->out_sent = r->out_acked = 0;
    place_wait(r, true);
}

void run_lose(struct run *r, const char *why)
{
    bool lost_lines = r->out_acked > 1; /* beside the run line: a message that it had received */
    r->workers->stats.lost += !r->ended;
    if (r->agent->rerun && r->in_n == 0 && !lost_lines && r->task && !r->ended) {
        run_wait_again(r);
        return;
    }
    run_leave(r);
    run_end(r, RUN_LOST, str_of(why));
    if (!r->task)
        worker_run_drop(r);
}

void run_resume(struct run *r, uint64_t received)
{
    r->out_sent = r->out_n; /* anything that was put may have arrived */
    if (received < r->out_acked || !run_acked(r, received)) {
        run_lose(r, "the worker came back with another number of received lines");
        return;
    }
    r->out_sent = received;
    instance_wake(r->instance, r);
}

/* --- lines of the agent ----------------------------------------------------------------------- */

static void note(struct run *r)
{
    if (!list_is_in(&r->told))
        list_push(&r->workers->noted, &r->told);
}

static void line_hand_over(struct run *r, struct str text)
{
    if (!r->task || r->ended || r->events.on_line(r->task, text) || r->paused || !r->instance)
        return;
    r->paused = true;
    r->instance->n_paused++;
    instance_hold(r->instance);
}

bool run_take(struct run *r, const struct worker_frame *frame, struct str text)
{
    if (frame->n > r->in_n + 1)
        return false;
    if (frame->n <= r->in_n) /* sent again, because the connection broke before its ack */
        return true;
    r->in_n = frame->n;
    free(r->first);
    r->first = NULL;
    note(r);
    if (frame->kind == WORKER_LINE)
        line_hand_over(r, text);
    else
        run_end(r, frame->failed ? RUN_FAILED : RUN_DONE,
                frame->failed && !frame->reason.n ? STR("the worker gave no reason")
                                                  : js_fit(frame->reason, REASON_MOST));
    return true;
}

/* --- acknowledgements ------------------------------------------------------------------------- */

static void run_committed(struct run *r, int status)
{
    if (status == 0)
        r->in_durable = r->in_flying;
    bool all = r->in_durable == r->in_n;
    if (!all && status == 0)
        note(r);
    if (r->ended && !r->task && (all || status < 0)) {
        say_gone(r);
        worker_run_drop(r);
        return;
    }
    r->ack_due = r->in_durable > 0;
    if (r->instance)
        instance_wake(r->instance, r);
}

static void on_lines_committed(struct waiter *waiter, int status)
{
    struct workers *w = container_of(waiter, struct workers, committed);
    struct list done;
    list_init(&done);
    list_splice(&done, &w->flying);
    w->waits = false;
    for (struct list *node; (node = list_pop(&done)) != NULL;)
        run_committed(list_item(node, struct run, told), status);
    places_give(w);
    runs_told(w);
}

void runs_told(struct workers *w)
{
    if (w->waits || list_is_empty(&w->noted))
        return;
    list_splice(&w->flying, &w->noted);
    list_each (it, &w->flying) {
        struct run *r = list_item(it, struct run, told);
        r->in_flying = r->in_n;
    }
    w->waits = true;
    w->committed.done = on_lines_committed;
    journal_wait(&w->hub->journal, &w->committed);
}

/* --- the port --------------------------------------------------------------------------------- */

static void on_wait_over(struct timer *timer)
{
    struct run *r = container_of(timer, struct run, timer);
    char why[64];
    snprintf(why, sizeof why, "no worker took it within %lld s",
             (long long)(r->agent->wait_ms / 1000));
    place_leave(r);
    run_end(r, RUN_FAILED, str_of(why));
}

static struct run *worker_start(void *settings, const struct run_spec *spec,
                                const struct run_events *events, void *task, char *ret_error)
{
    const struct worker_agent *agent = settings;
    struct workers *w = agent->workers;
    struct run *r = xcalloc(sizeof *r);
    struct buf line = {0};
    (void)ret_error;
    ASSERT(spec->task_id.n <= WORKER_MAX_RUN);
    r->magic = RUN_MAGIC;
    r->workers = w;
    r->agent = agent;
    r->events = *events;
    r->task = task;
    r->timer.fire = on_wait_over;
    memcpy(r->id, spec->task_id.p, spec->task_id.n);
    list_init(&r->out);
    r->share = share_ref(w, spec->owner);
    map_put(&w->runs, &r->node);
    run_line_put(&line, spec);
    line.len -= strlen("}\n");
    js_put_field(&line, "agent", str_of(agent->name));
    buf_putc(&line, '}');
    out_put(r, buf_str(&line));
    buf_done(&line);
    r->out_most = r->out_bytes + OUT_MOST;
    place_wait(r, false);
    places_give(w);
    return r;
}

static void worker_cancel(struct run *run)
{
    struct run *r = worker_run_of(run);
    if (r->ended)
        return;
    if (r->instance) {
        out_put(r, STR("{\"type\":\"cancel\"}"));
        return;
    }
    place_leave(r);
    run_end(r, RUN_FAILED, STR("no worker had taken it"));
}

static void worker_kill(struct run *run)
{
    struct run *r = worker_run_of(run);
    if (r->ended)
        return;
    if (r->instance)
        say_gone(r);
    else
        place_leave(r);
    run_end(r, RUN_FAILED, STR("the worker did not stop it in time"));
}

/* As with a pipe: a message is accepted when the worker has received it.  Until then it is refused,
 * and recognized when it is tried again. */
static bool message_put(struct run *r, struct str line)
{
    if (!r->message) {
        out_put(r, line);
        r->message = r->out_n;
    }
    if (r->out_acked < r->message)
        return false;
    r->message = 0;
    return true;
}

static bool worker_deliver(struct run *run, struct str line)
{
    struct run *r = worker_run_of(run);
    if (r->ended)
        return false;
    if (str_begins(line, STR("{\"type\":\"message\",")))
        return message_put(r, line);
    if (r->out_bytes + line.n > r->out_most)
        return false;
    out_put(r, line);
    return true;
}

static bool worker_is_deaf(struct run *run)
{
    return worker_run_of(run)->ended;
}

static void worker_unpause(struct run *run)
{
    struct run *r = worker_run_of(run);
    if (r->paused && r->instance) {
        r->instance->n_paused--;
        r->paused = false;
        instance_hold(r->instance);
    }
    r->paused = false;
}

static bool worker_waits(struct run *run)
{
    const struct run *r = worker_run_of(run);
    return !r->ended && (!r->instance || !r->instance->is_here);
}

static void worker_free(struct run *run)
{
    if (!run)
        return;
    struct run *r = worker_run_of(run);
    struct workers *w = r->workers;
    bool waits = !r->ended && !r->instance;
    if (waits)
        place_leave(r);
    r->task = NULL;
    worker_unpause(r);
    if (r->ended && r->instance && r->in_durable < r->in_n)
        return; /* until its end is on disk */
    say_gone(r);
    worker_run_drop(r);
    places_give(w);
}

const struct agent_ops agent_worker_ops = {
    .kind = "worker",
    .start = worker_start,
    .cancel = worker_cancel,
    .kill = worker_kill,
    .deliver = worker_deliver,
    .is_deaf = worker_is_deaf,
    .unpause = worker_unpause,
    .waits = worker_waits,
    .free = worker_free,
};
