/* An instance: one process of a worker, with a connection or within the grace after one.
 *
 * It sends in this order: what concerns no run (welcome, gone, drain), then its runs in turn. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/workers_private.h"
#include "gateway/base/log.h"
#include "proto/str.h"

#define NOTES_MOST 65536 /* bytes; an instance that does not take them is not read */

/* --- output ----------------------------------------------------------------------------------- */

void instance_wake(struct instance *i, struct run *r)
{
    if (!i->is_here)
        return;
    if (r && !list_is_in(&r->ready))
        list_push(&i->ready, &r->ready);
    i->wire.wake(i->wire.arg);
}

void instance_hold(struct instance *i)
{
    bool hold = i->n_paused > 0 || i->notes.len > NOTES_MOST;
    if (!i->is_here || hold == i->held)
        return;
    i->held = hold;
    i->wire.hold(i->wire.arg, hold);
}

bool instance_has_output(const struct instance *i)
{
    return i->notes.len > 0 || !list_is_empty(&i->ready);
}

/* True when all of it is in. */
static bool fill_run(struct run *r, struct buf *out, size_t begun, size_t end)
{
    if (r->ack_due)
        worker_put_ack(out, r->id, r->in_durable);
    if (r->ack_due)
        buf_putc(out, '\n');
    r->ack_due = false;
    if (r->writing > 0 || r->left)
        return true;
    list_each (it, &r->out) {
        struct out_line *l = list_item(it, struct out_line, node);
        if (l->n <= r->out_sent)
            continue;
        if (out->len > begun && out->len + l->len > end)
            return false;
        buf_put(out, l->bytes, l->len);
        buf_putc(out, '\n');
        r->out_sent = l->n;
    }
    if (r->cancel_due)
        worker_put_cancel(out, r->id);
    if (r->cancel_due)
        buf_putc(out, '\n');
    r->cancel_due = false;
    return true;
}

bool instance_fill(struct instance *i, struct buf *out, size_t max)
{
    size_t begun = out->len, end = begun + max;
    struct list *node;
    buf_putstr(out, buf_str(&i->notes));
    buf_done(&i->notes);
    while (out->len < end && (node = list_pop(&i->ready)) != NULL) {
        struct run *r = list_item(node, struct run, ready);
        if (fill_run(r, out, begun, end))
            continue;
        list_push(&i->ready, &r->ready);
        break;
    }
    instance_hold(i);
    return out->len > begun;
}

static void instance_say(struct instance *i, struct str line)
{
    buf_putstr(&i->notes, line);
    buf_putc(&i->notes, '\n');
    instance_wake(i, NULL);
}

void instance_say_drain(struct instance *i)
{
    if (i->is_here)
        instance_say(i, STR("{\"type\":\"drain\"}"));
}

static void fail(struct instance *i, const char *why)
{
    struct buf line = {0};
    error_line(&line, ERR_BAD_REQUEST, STR_NULL, why, -1, -1);
    instance_say(i, buf_str(&line));
    buf_done(&line);
    log_event_limited(LEVEL_WARN, "worker", "broken", LOG_TEXT("worker", i->worker->config->name),
                      LOG_TEXT("why", why));
    i->wire.close(i->wire.arg, CLOSE_POLICY);
}

/* --- coming and going ------------------------------------------------------------------------- */

static struct instance *find_instance(struct workers *w, const struct worker *worker, struct str id)
{
    list_each (it, &w->instances) {
        struct instance *i = list_item(it, struct instance, all);
        if (i->worker == worker && str_eq(str_of(i->id), id))
            return i;
    }
    return NULL;
}

static void lose_runs(struct instance *i, const char *why)
{
    while (!list_is_empty(&i->runs))
        run_lose(list_item(i->runs.next, struct run, at), why);
}

void instance_free(struct instance *i)
{
    ASSERT(list_is_empty(&i->runs));
    timer_disarm(&i->workers->hub->clock, &i->grace);
    list_remove(&i->all);
    i->worker->n_instances--;
    buf_done(&i->agents);
    buf_done(&i->notes);
    free(i);
}

static void on_grace_over(struct timer *timer)
{
    struct instance *i = container_of(timer, struct instance, grace);
    struct workers *w = i->workers;
    log_event(LEVEL_WARN, "worker", "lost", LOG_TEXT("worker", i->worker->config->name),
              LOG_TEXT("instance", i->id), LOG_INT("runs", i->n_runs));
    lose_runs(i, "its worker did not come back");
    instance_free(i);
    places_give(w);
}

void instance_lost(struct instance *i)
{
    struct workers *w = i->workers;
    log_event(LEVEL_INFO, "worker", "left", LOG_TEXT("worker", i->worker->config->name),
              LOG_TEXT("instance", i->id), LOG_INT("runs", i->n_runs));
    i->is_here = i->held = false;
    buf_done(&i->notes);
    while (list_pop(&i->ready) != NULL)
        ;
    if (list_is_empty(&i->runs))
        instance_free(i);
    else
        timer_arm(&w->hub->clock, &i->grace,
                  w->hub->clock.now_ms + (msec_t)w->config->worker_grace_s * 1000);
}

static struct instance *instance_new(struct workers *w, struct worker *worker, struct str id)
{
    struct instance *i = xcalloc(sizeof *i);
    i->workers = w;
    i->worker = worker;
    memcpy(i->id, id.p, id.n);
    i->grace.fire = on_grace_over;
    list_init(&i->runs);
    list_init(&i->ready);
    list_push_front(&w->instances, &i->all);
    worker->n_instances++;
    return i;
}

/* --- hello ------------------------------------------------------------------------------------ */

/* Runs that the worker no longer has are lost, unless it cannot have received them. */
static void resume_runs(struct instance *i, const struct worker_decoder *d,
                        const struct worker_frame *hello)
{
    struct list before;
    list_init(&before);
    list_splice(&before, &i->runs);
    list_each (it, &i->workers->adrift) {
        struct run *r = list_item(it, struct run, at);
        if (strcmp(r->of_worker, i->worker->config->name) != 0 ||
            strcmp(r->of_instance, i->id) != 0)
            continue;
        run_adopt(r, i);
        list_remove(&r->at);
        list_push(&before, &r->at);
    }
    for (struct list *node; (node = list_pop(&before)) != NULL;) {
        struct run *r = list_item(node, struct run, at);
        uint64_t received = 0;
        bool has = worker_frame_opens(d, hello, r->id, &received);
        list_push(&i->runs, &r->at);
        if (r->left)
            continue;
        if (has || (r->out_acked == 0 && r->in_n == 0 && r->last == 0))
            run_resume(r, received);
        else
            run_lose(r, "its worker came back without it");
    }
}

static void put_welcome(struct instance *i, const struct worker_decoder *d,
                        const struct worker_frame *hello)
{
    struct buf line = {0};
    uint64_t received;
    buf_puts(&line, "{\"type\":\"welcome\"");
    js_put_int(&line, "grace_s", i->workers->config->worker_grace_s);
    js_put_raw(&line, "open", STR("{"));
    list_each (it, &i->runs) {
        const struct run *r = list_item(it, struct run, at);
        if (worker_frame_opens(d, hello, r->id, &received)) /* also one that was left */
            js_put_int(&line, r->id, (int64_t)r->in_durable);
    }
    buf_puts(&line, "}}");
    instance_say(i, buf_str(&line));
    buf_done(&line);
}

/* NULL: all agents are this worker's to serve. */
static const char *judge_agents(const struct worker *w, const struct worker_frame *hello)
{
    for (size_t at = 0; at < hello->agents.n;) {
        struct str name = str_of(hello->agents.p + at);
        size_t k = 0;
        while (k < w->config->agents.n && !str_eq(str_of(w->config->agents.list[k]), name))
            k++;
        if (k == w->config->agents.n)
            return "\"agents\" has one that is not among the agents of this worker";
        at += name.n + 1;
    }
    return NULL;
}

struct instance *instance_hello(struct workers *w, struct worker *worker,
                                const struct worker_decoder *d, const struct worker_frame *hello,
                                const struct worker_wire *wire, const char **ret_why)
{
    struct instance *i = find_instance(w, worker, hello->instance);
    *ret_why = judge_agents(worker, hello);
    if (!*ret_why && !i && worker->n_instances >= worker->config->instances)
        *ret_why = "this worker has as many instances as it may have";
    if (*ret_why)
        return NULL;
    bool returned = i != NULL;
    if (returned && i->is_here) { /* its connection is dead, and only the worker knows it */
        i->wire.close(i->wire.arg, CLOSE_GOING_AWAY);
        i->wire.gone(i->wire.arg);
        buf_done(&i->notes);
        while (list_pop(&i->ready) != NULL)
            ;
    }
    if (!returned)
        i = instance_new(w, worker, hello->instance);
    timer_disarm(&w->hub->clock, &i->grace);
    w->stats.returned += returned;
    i->wire = *wire;
    i->is_here = true;
    i->held = false;
    i->most = hello->runs;
    i->asked = false;
    i->places = 0;
    buf_clear(&i->agents);
    buf_putstr(&i->agents, hello->agents);
    resume_runs(i, d, hello);
    put_welcome(i, d, hello);
    if (worker->draining)
        instance_say_drain(i);
    instance_hold(i);
    log_event(LEVEL_INFO, "worker", returned ? "returned" : "joined",
              LOG_TEXT("worker", worker->config->name), LOG_TEXT("instance", i->id),
              LOG_INT("runs", i->n_runs));
    places_give(w);
    return i;
}

/* --- frames ----------------------------------------------------------------------------------- */

static struct run *find_run(const struct instance *i, struct str id)
{
    struct map_node *node = map_find(&i->workers->runs, (struct map_key){{id}});
    struct run *r = node ? container_of(node, struct run, node) : NULL;
    return r && r->instance == i ? r : NULL;
}

static void take_of_run(struct instance *i, const struct worker_frame *frame, struct str text)
{
    struct run *r = find_run(i, frame->run);
    if (!r && frame->kind != WORKER_ACK) {
        struct buf line = {0};
        worker_put_gone(&line, frame->run);
        instance_say(i, buf_str(&line));
        buf_done(&line);
        instance_hold(i);
    } else if (r && frame->kind == WORKER_ACK) {
        if (!run_acked(r, frame->n))
            fail(i, "an ack of a line that was not sent");
    } else if (r && !run_take(r, frame, text)) {
        fail(i, "a line's \"n\" is not the last one plus 1");
    }
}

static void take_drain(struct instance *i)
{
    i->drains = true;
    instance_say_drain(i); /* no run comes after this */
    instance_hold(i);
}

void instance_take(struct instance *i, const struct worker_frame *frame, struct str text)
{
    switch (frame->kind) {
    case WORKER_BAD: fail(i, frame->error); return;
    case WORKER_HELLO: fail(i, "a second hello"); return;
    case WORKER_DRAIN: take_drain(i); return;
    case WORKER_LINE:
    case WORKER_END:
    case WORKER_ACK: take_of_run(i, frame, text); return;
    case WORKER_NO_MEMORY:
    case WORKER_NOTHING: return;
    }
    UNREACHABLE();
}

void instance_taken(struct instance *i)
{
    runs_told(i->workers);
}

void instance_place(struct instance *i)
{
    i->asked = false;
    i->places++;
    places_give(i->workers);
}

uint32_t instance_runs(const struct instance *i)
{
    return i->n_runs;
}

const char *instance_worker(const struct instance *i)
{
    return i->worker->config->name;
}
