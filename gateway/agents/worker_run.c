/* A run at a worker: core's port, and where the run is.
 *
 *   start ──▶ waiting ──note──▶ given ───────────────▶ ended ──▶ freed
 *                ▲               │  ▲     end, or lost
 *                └───────────────┘  │ its instance comes back
 *            lost, nothing came     │
 *   resume ──▶ adrift ──────────────┘
 *
 * A worker is told of a run when a note says so on disk.  So a next gateway knows which runs no
 * worker can have, and which one may still come back with each of the others.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/run_line.h"
#include "gateway/agents/workers_private.h"
#include "proto/str.h"

#define RUN_MAGIC 0x776f726bu
#define OUT_MOST (1024 * 1024) /* bytes that wait for the worker, beside the run line */

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

/* --- places ----------------------------------------------------------------------------------- */

/* For the next gateway: to which instance the run was given, and how far that has its lines. */
void run_keep(struct run *r)
{
    struct buf note = {0};
    buf_putc(&note, '{');
    js_put_field(&note, "worker", str_of(r->of_worker));
    js_put_field(&note, "instance", str_of(r->of_instance));
    js_put_int(&note, "last", (int64_t)r->last);
    buf_putc(&note, '}');
    r->events.on_note(r->task, true, buf_str(&note));
    buf_done(&note);
}

static void take_place(struct run *r, struct instance *i)
{
    r->place = RUN_GIVEN;
    r->instance = i;
    r->share->given++;
    i->n_runs++;
    i->worker->n_runs++;
    list_push(&i->runs, &r->at);
}

void run_give(struct run *r, struct instance *i)
{
    take_place(r, i);
    r->workers->stats.given++;
    free(r->of_worker);
    free(r->of_instance);
    r->of_worker = xstrdup(str_of(i->worker->config->name));
    r->of_instance = xstrdup(str_of(i->id));
    r->writing++;
    run_keep(r);
    r->events.when_committed(r->task);
}

void run_adopt(struct run *r, struct instance *i)
{
    place_leave(r);
    take_place(r, i);
}

void worker_run_leave(struct run *r)
{
    struct instance *i = r->instance;
    if (!i)
        return;
    r->instance = NULL;
    r->place = RUN_NOWHERE;
    r->share->given--;
    i->n_runs--;
    i->worker->n_runs--;
    i->n_paused -= r->counts;
    r->counts = false;
    list_remove(&r->at);
    list_remove(&r->ready);
    instance_hold(i);
    if (i->is_here && i->wire.release)
        i->wire.release(i->wire.arg, 1);
}

void run_drop_now(struct run *r)
{
    ASSERT(r->place == RUN_NOWHERE);
    run_drop_lines(r);
    list_remove(&r->told);
    map_remove(&r->workers->runs, &r->node);
    share_unref(r->workers, r->share);
    free(r->of_worker);
    free(r->of_instance);
    r->magic = 0;
    free(r);
}

void run_forget(struct run *r)
{
    worker_run_leave(r);
    run_drop_now(r);
}

void run_end_with(struct run *r, enum run_end end, struct str text)
{
    if (r->ended || !r->task)
        return;
    r->ended = true;
    r->events.on_end(r->task, end, text);
}

void run_say_gone(struct run *r)
{
    struct instance *i = r->instance;
    if (i && i->is_here) {
        worker_put_gone(&i->notes, str_of(r->id));
        buf_putc(&i->notes, '\n');
        instance_wake(i, NULL);
    }
    worker_run_leave(r);
}

/* Nothing came of it: the next instance gets all of its lines, from the first on. */
static void run_wait_again(struct run *r)
{
    if (r->first) {
        list_push_front(&r->out, &r->first->node);
        r->out_bytes += r->first->len;
    }
    r->first = NULL;
    r->out_sent = r->out_acked = 0;
    place_wait(r, true);
}

void run_lose(struct run *r, const char *why)
{
    bool nothing_came = r->in_n == 0 && r->out_acked <= 1 && r->last == 0;
    r->workers->stats.lost += !r->ended;
    if (r->place == RUN_ADRIFT)
        place_leave(r);
    worker_run_leave(r);
    if (r->agent->rerun && nothing_came && r->task && !r->ended && !r->left) {
        run_wait_again(r);
        return;
    }
    if (!r->left)
        run_end_with(r, RUN_LOST, str_of(why));
    if (!r->task)
        run_drop_now(r);
}

void run_resume(struct run *r, uint64_t received)
{
    bool unlikely = received < r->out_acked || (received > r->out_n && !r->resumed);
    if (unlikely) {
        run_lose(r, "the worker came back with another number of received lines");
        return;
    }
    r->out_sent = r->out_n > received ? r->out_n : received; /* all of it may have arrived */
    (void)run_acked(r, received);
    r->out_sent = received;
    r->cancel_due = r->cancelled;
    instance_wake(r->instance, r);
}

/* --- the port --------------------------------------------------------------------------------- */

static void on_wait_over(struct timer *timer)
{
    struct run *r = container_of(timer, struct run, timer);
    char why[64];
    if (r->place == RUN_ADRIFT) {
        run_lose(r, "its worker did not come back after a restart of the gateway");
        places_give(r->workers);
        return;
    }
    snprintf(why, sizeof why, "no worker took it within %lld s",
             (long long)(r->agent->wait_ms / 1000));
    place_leave(r);
    run_end_with(r, RUN_FAILED, str_of(why));
}

static struct run *worker_run_new(const struct worker_agent *agent, const struct run_spec *spec,
                                  const struct run_events *events, void *task)
{
    struct run *r = xcalloc(sizeof *r);
    struct buf line = {0};
    ASSERT(spec->task_id.n <= WORKER_MAX_RUN);
    r->magic = RUN_MAGIC;
    r->workers = agent->workers;
    r->agent = agent;
    r->events = *events;
    r->task = task;
    r->timer.fire = on_wait_over;
    memcpy(r->id, spec->task_id.p, spec->task_id.n);
    list_init(&r->out);
    list_init(&r->behind);
    r->share = share_ref(r->workers, spec->owner);
    map_put(&r->workers->runs, &r->node);
    run_line_put(&line, spec);
    line.len -= strlen("}\n");
    js_put_field(&line, "agent", str_of(agent->name));
    buf_putc(&line, '}');
    run_put(r, 1, buf_str(&line));
    buf_done(&line);
    r->out_most = r->out_bytes + OUT_MOST;
    return r;
}

static struct run *worker_start(void *settings, const struct run_spec *spec,
                                const struct run_events *events, void *task, char *ret_error)
{
    struct run *r = worker_run_new(settings, spec, events, task);
    (void)ret_error;
    place_wait(r, false);
    places_due(r->workers);
    return r;
}

static void worker_cancel(struct run *run)
{
    struct run *r = worker_run_of(run);
    if (r->ended || r->cancelled)
        return;
    r->cancelled = r->cancel_due = true;
    if (r->instance)
        instance_wake(r->instance, r);
    if (r->place != RUN_WAITING)
        return;
    place_leave(r);
    run_end_with(r, RUN_FAILED, STR("no worker had taken it"));
}

static void worker_kill(struct run *run)
{
    struct run *r = worker_run_of(run);
    if (r->ended)
        return;
    if (r->instance)
        run_say_gone(r);
    else
        place_leave(r);
    run_end_with(r, RUN_FAILED, STR("the worker did not stop it in time"));
}

static bool worker_deliver_at(struct run *run, uint64_t position, struct str line)
{
    struct run *r = worker_run_of(run);
    if (r->ended || r->left)
        return false;
    if (position < r->out_acked) { /* the worker has it from an earlier gateway */
        r->events.on_taken(r->task, position);
        return true;
    }
    if (r->out_bytes + line.n > r->out_most)
        return false;
    run_put(r, position + 1, line);
    return true;
}

static bool worker_is_deaf(struct run *run)
{
    return worker_run_of(run)->ended;
}

static void worker_unpause(struct run *run)
{
    struct run *r = worker_run_of(run);
    if (!r->left)
        worker_run_go_on(r);
}

static bool worker_waits(struct run *run)
{
    const struct run *r = worker_run_of(run);
    return !r->ended && (!r->instance || !r->instance->is_here);
}

/* Its worker reaches this home alone, or may be about to come back to it. */
static bool worker_is_bound(struct run *run)
{
    const struct run *r = worker_run_of(run);
    return r->place == RUN_ADRIFT || (r->instance && !r->instance->wire.ask);
}

/* The note is on disk. */
static void worker_proceed(struct run *run)
{
    struct run *r = worker_run_of(run);
    r->writing--;
    if (r->instance)
        instance_wake(r->instance, r);
}

/* The worker keeps a run that was left: it hears nothing of it from here on. */
static void worker_leave(struct run *run)
{
    struct run *r = worker_run_of(run);
    r->left = true;
    if (r->place == RUN_WAITING || r->place == RUN_ADRIFT)
        place_leave(r);
}

/* Its slot goes to another home.  Its worker is sent away, so that what it says of the run reaches
 * nobody before its next hello has found it there. */
static void run_part(struct run *r)
{
    struct instance *i = r->instance;
    if (i && i->is_here)
        i->wire.close(i->wire.arg, CLOSE_GOING_AWAY);
    worker_run_leave(r);
    run_drop_now(r);
}

static void worker_free(struct run *run)
{
    if (!run)
        return;
    struct run *r = worker_run_of(run);
    struct workers *w = r->workers;
    if (r->place == RUN_WAITING || r->place == RUN_ADRIFT)
        place_leave(r);
    r->task = NULL;
    r->paused = false;
    if (r->left && !w->stops) {
        run_part(r);
        return;
    }
    if (r->instance && (r->left || (r->ended && r->in_durable < r->in_n)))
        return; /* until its end is on disk, or the gateway's own */
    run_say_gone(r);
    run_drop_now(r);
    places_give(w);
}

/* --- after a restart -------------------------------------------------------------------------- */

/* All that a worker has said stays: it is read on from the mark. */
struct recall {
    struct workers *workers;
    char *worker, *instance; /* NULL: none was told of the run */
    uint64_t last;
};

static void worker_forget(struct recall *recall)
{
    struct workers *w = recall->workers;
    if (w->recalled == recall)
        w->recalled = NULL;
    free(recall->worker);
    free(recall->instance);
    free(recall);
    if (--w->n_recalls == 0 && w->resumed)
        w->resumed(w->resumed_arg);
}

static char *note_text(const struct js_doc *doc, const char *key)
{
    struct buf text = {0};
    uint32_t node = js_get(doc, 0, key);
    if (node)
        js_value(doc, node, &text);
    buf_putc(&text, 0);
    return buf_take(&text);
}

static bool read_note(struct recall *recall, struct str note)
{
    struct js_doc doc = {0};
    int64_t last = -1;
    bool read = js_parse(&doc, note.p, note.n, JS_OURS) && js_type(&doc, 0) == JS_OBJECT &&
                js_get(&doc, 0, "last") && js_int(&doc, js_get(&doc, 0, "last"), &last) &&
                last >= 0;
    if (read) {
        recall->worker = note_text(&doc, "worker");
        recall->instance = note_text(&doc, "instance");
        recall->last = (uint64_t)last;
    }
    js_done(&doc);
    return read;
}

static struct recall *worker_recall(void *settings, struct recall *recall,
                                    const struct recalled *item, bool *ret_settled)
{
    const struct worker_agent *agent = settings;
    if (!recall) {
        recall = xcalloc(sizeof *recall);
        recall->workers = agent->workers;
        agent->workers->recalled = recall;
        agent->workers->n_recalls++;
    }
    *ret_settled = true;
    if (item->standing && !read_note(recall, item->note)) {
        worker_forget(recall);
        return NULL;
    }
    return recall;
}

/* It is asked for the task whose notes were told last. */
static bool worker_is_there(void *settings, struct str task_id, uint64_t *ret_last,
                            char ret_why[256])
{
    const struct workers *w = ((const struct worker_agent *)settings)->workers;
    const struct recall *recall = w->recalled;
    (void)task_id;
    *ret_last = recall ? recall->last : 0;
    for (size_t i = 0; recall && recall->worker && i < w->n; i++)
        if (strcmp(w->list[i].config->name, recall->worker) == 0)
            return true;
    snprintf(ret_why, 256, "the gateway was restarted, and its worker is no longer configured");
    return recall && !recall->worker;
}

static struct run *worker_resume(void *settings, const struct run_spec *spec,
                                 const struct resumption *from, const struct run_events *events,
                                 void *task, char *ret_error)
{
    struct run *r = worker_run_new(settings, spec, events, task);
    struct workers *w = r->workers;
    (void)ret_error;
    r->resumed = true;
    r->in_n = r->in_handed = r->in_settled = r->in_flying = r->in_durable = from->mark;
    r->last = from->recall->last;
    r->of_worker = from->recall->worker;
    r->of_instance = from->recall->instance;
    from->recall->worker = from->recall->instance = NULL;
    worker_forget(from->recall);
    if (!r->of_instance) {
        place_wait(r, false);
        places_due(w);
        return r;
    }
    r->place = RUN_ADRIFT;
    list_push(&w->adrift, &r->at);
    timer_arm(&w->hub->clock, &r->timer,
              w->hub->clock.now_ms + (msec_t)w->config->worker_grace_s * 1000);
    return r;
}

const struct agent_ops agent_worker_ops = {
    .kind = "worker",
    .shares = true,
    .roams = true,
    .start = worker_start,
    .cancel = worker_cancel,
    .kill = worker_kill,
    .is_deaf = worker_is_deaf,
    .unpause = worker_unpause,
    .waits = worker_waits,
    .is_bound = worker_is_bound,
    .free = worker_free,
    .proceed = worker_proceed,
    .recall = worker_recall,
    .forget = worker_forget,
    .is_there = worker_is_there,
    .resume = worker_resume,
    .leave = worker_leave,
    .deliver_at = worker_deliver_at,
};
