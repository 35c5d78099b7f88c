/* Lines of a run at a worker, numbered in both directions.
 *
 * - A line to the agent stays in `out` until the worker has received it, and is sent again to a
 *   connection that comes back without it.  Its number is its position in core's inbox plus 1, so
 *   that the next gateway knows the same numbers; the run line is 1.
 * - A line of the agent is acknowledged when the batch that has its events is committed; the same
 *   batch has the mark from which a next gateway goes on.  The last line, the end, is acknowledged
 *   by `gone`.
 */
#include <stdlib.h>

#include "gateway/agents/workers_private.h"

#define REASON_MOST 4096 /* bytes */

/* --- to the agent ----------------------------------------------------------------------------- */

void run_put(struct run *r, uint64_t n, struct str line)
{
    struct buf frame = {0};
    ASSERT(n > r->out_n);
    worker_put_line(&frame, r->id, n, line);
    struct out_line *l = xalloc(sizeof *l + frame.len);
    *l = (struct out_line){.n = n, .len = frame.len};
    memcpy(l->bytes, frame.bytes, frame.len);
    buf_done(&frame);
    list_push(&r->out, &l->node);
    r->out_bytes += l->len;
    r->out_n = n;
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
        if (l->n == 1 && r->agent->rerun && r->in_n == 0 && !r->first)
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
    if (n == 1 || !r->task || r->ended || r->left)
        return true;
    r->last = n - 1;
    run_keep(r);
    r->events.on_taken(r->task, n - 1);
    return true;
}

/* --- of the agent ----------------------------------------------------------------------------- */

static void note(struct run *r)
{
    r->in_settled = r->in_handed;
    if (!list_is_in(&r->told))
        list_push(&r->workers->noted, &r->told);
}

static void sync_pause(struct run *r)
{
    struct instance *i = r->instance;
    if (!i || r->counts == r->paused)
        return;
    r->counts = r->paused;
    if (r->counts)
        i->n_paused++;
    else
        i->n_paused--;
    instance_hold(i);
}

/* The outcome of a line for which core looks something up is staged later, and no line may follow
 * it before: then the run is paused. */
static void hand_line(struct run *r, uint64_t n, struct str text)
{
    r->in_handed = n;
    r->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (!r->task || r->ended || r->events.on_line(r->task, text))
        r->paused = false;
    if (r->task && !r->ended)
        r->events.on_mark(r->task, n);
}

static void hand_end(struct run *r, uint64_t n, bool failed, struct str reason)
{
    r->in_handed = n;
    if (failed && reason.n == 0)
        reason = STR("the worker gave no reason");
    run_end_with(r, failed ? RUN_FAILED : RUN_DONE, reason);
}

static void hold_line(struct run *r, const struct worker_frame *f, struct str text)
{
    struct in_line *l = xalloc(sizeof *l + text.n);
    *l = (struct in_line){
        .n = f->n, .is_end = f->kind == WORKER_END, .failed = f->failed, .len = text.n};
    memcpy(l->bytes, text.p, text.n);
    list_push(&r->behind, &l->node);
}

static void hand_held(struct run *r)
{
    struct list *node;
    while (!r->paused && (node = list_pop(&r->behind)) != NULL) {
        struct in_line *l = list_item(node, struct in_line, node);
        struct str text = {l->bytes, l->len};
        if (l->is_end)
            hand_end(r, l->n, l->failed, text);
        else
            hand_line(r, l->n, text);
        free(l);
    }
}

static void hand_in(struct run *r, const struct worker_frame *f, struct str text)
{
    bool direct = !r->paused && list_is_empty(&r->behind);
    r->handing = true;
    if (!direct)
        hold_line(r, f, text);
    else if (f->kind == WORKER_END)
        hand_end(r, f->n, f->failed, text);
    else
        hand_line(r, f->n, text);
    hand_held(r);
    r->handing = false;
    if (!r->paused)
        note(r);
    sync_pause(r);
}

bool run_take(struct run *r, const struct worker_frame *frame, struct str text)
{
    if (frame->n > r->in_n + 1)
        return false;
    if (frame->n <= r->in_n || r->left) /* sent again; or the next gateway's to take */
        return true;
    r->in_n = frame->n;
    free(r->first);
    r->first = NULL;
    hand_in(r, frame, frame->kind == WORKER_END ? js_fit(frame->reason, REASON_MOST) : text);
    return true;
}

void worker_run_go_on(struct run *r)
{
    r->paused = false;
    if (r->handing)
        return;
    r->handing = true;
    hand_held(r);
    r->handing = false;
    if (!r->paused)
        note(r);
    sync_pause(r);
    runs_told(r->workers);
}

void run_drop_lines(struct run *r)
{
    struct list *node; /* the agent may be gone already */
    while ((node = list_pop(&r->out)) != NULL)
        free(list_item(node, struct out_line, node));
    free(r->first);
    r->first = NULL;
    while ((node = list_pop(&r->behind)) != NULL)
        free(list_item(node, struct in_line, node));
}

/* --- acknowledgements ------------------------------------------------------------------------- */

static void lines_committed(struct run *r, int status)
{
    if (status == 0)
        r->in_durable = r->in_flying;
    bool all = r->in_durable == r->in_settled;
    if (!all && status == 0)
        list_push(&r->workers->noted, &r->told);
    if (r->ended && !r->task && (all || status < 0)) {
        run_say_gone(r);
        run_drop_now(r);
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
        lines_committed(list_item(node, struct run, told), status);
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
        r->in_flying = r->in_settled;
    }
    w->waits = true;
    w->committed.done = on_lines_committed;
    journal_wait(&w->hub->journal, &w->committed);
}
