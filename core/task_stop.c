/* How a task is stopped: cancelled by a client or its parent; asked, then forced; and the clocks
 * that do so.
 *
 * A run is told to stop when the reason is committed: a cancel in the record, all else in a note
 * (NOTE_STOPPED).  So a gateway that is killed right after that leaves a run that is about to end,
 * and the next one knows why. */
#include "core/task_parts.h"

#include <stdio.h>
#include <stdlib.h>

#define FORCE_MS 2000 /* after a kill: then the task ends without waiting for the run */

/* --- why -------------------------------------------------------------------------------------- */

static void put_stop_note(struct task *t, enum task_error why, const char *text)
{
    struct buf note = {0};
    buf_puts(&note, task_error_code(why));
    buf_putc(&note, '\n');
    buf_puts(&note, text);
    task_note(t, NOTE_STOPPED, buf_str(&note));
    buf_done(&note);
}

/* The record has a cancel, and the note its actor, who is not to be lost. */
static void note_stop(struct task *t)
{
    bool names_canceller = staged_state(t)->cancel_requested_at && t->work->canceller;
    if (task_goes_on(t) && t->stopping != TASK_CANCELLED_ERROR && !names_canceller)
        put_stop_note(t, t->stopping, t->work->stop_text);
}

/* A later gateway may be the one that ends the task, and tells it. */
static void note_canceller(struct task *t, struct str actor)
{
    struct task_work *w = task_work(t);
    w->canceller = xstrdup(actor);
    put_stop_note(t, TASK_CANCELLED_ERROR, w->canceller);
}

void task_past_stop(struct task *t, struct str note)
{
    const char *end = memchr(note.p, '\n', note.n);
    struct str code = {note.p, end ? (size_t)(end - note.p) : 0};
    for (int e = TASK_OK + 1; e <= N_TASK_ERRORS; e++) {
        if (!str_eq(code, str_of(task_error_code((enum task_error)e))))
            continue;
        struct task_work *w = task_work(t);
        char **text = e == TASK_CANCELLED_ERROR ? &w->canceller : &w->stop_text;
        free(*text);
        *text = xstrdup((struct str){end + 1, note.n - code.n - 1});
        if (e != TASK_CANCELLED_ERROR)
            t->stopping = (enum task_error)e;
        return;
    }
}

/* --- a cancel --------------------------------------------------------------------------------- */

bool task_cancel(struct task *t, struct str actor)
{
    if (task_is_ending(t) || staged_state(t)->cancel_requested_at)
        return false;
    struct task_work *w = task_work(t);
    w->staged.cancel_requested_at = t->hub->clock.wall_ms;
    free(w->canceller); /* of an earlier cancel, which was not committed */
    w->canceller = NULL;
    if (actor.p)
        note_canceller(t, actor);
    task_stage(t);
    return true;
}

uint32_t task_cancel_told(struct task *t, struct str actor, struct buf *ids)
{
    if (!task_cancel(t, actor))
        return 0;
    if (ids->len && ids->bytes[ids->len - 1] != '[')
        buf_putc(ids, ',');
    js_put_str(ids, task_id_of(t));
    return 1;
}

/* --- telling it ------------------------------------------------------------------------------- */

static void tell_stop(struct task *t)
{
    struct task_work *w = t->work;
    if (timer_is_armed(&w->grace))
        return;       /* it was asked already */
    ASSERT(t->agent); /* of the run that is told */
    timer_arm(&t->hub->clock, &w->grace, t->hub->clock.now_ms + t->agent->grace_ms);
    t->agent->ops->cancel(task_run_of(t));
    task_budget_let_go(t);
}

struct stop_wait {
    struct waiter waiter;
    struct task *task; /* a reference */
};

/* A note that the store has given up holds nobody back. */
static void on_stop_noted(struct waiter *waiter, int status)
{
    struct stop_wait *w = container_of(waiter, struct stop_wait, waiter);
    struct task *t = w->task;
    (void)status;
    free(w);
    t->refs--;
    if (task_run_of(t) && !t->left && !task_is_ending(t) && !t->hub->closing)
        tell_stop(t);
}

static void tell_when_noted(struct task *t)
{
    struct stop_wait *w = xalloc(sizeof *w);
    *w = (struct stop_wait){.waiter.done = on_stop_noted, .task = t};
    t->refs++;
    journal_wait(&t->hub->journal, &w->waiter);
}

void task_stop(struct task *t, enum task_error why, const char *text)
{
    if (task_is_ending(t))
        return;
    struct task_work *w = task_work(t);
    if (t->stopping == TASK_OK) {
        t->stopping = why;
        w->stop_text = xstrdup(str_of(text));
        note_stop(t);
    }
    if (t->agent && t->agent->outlives && (t->left || t->phase == PHASE_RESUMING)) {
        if (task_run_of(t) && why == TASK_CANCELLED_ERROR)
            t->agent->ops->cancel(task_run_of(t));
        return; /* it lives: it is stopped when its run is there again */
    }
    if (!task_run_of(t) || t->left)
        task_finish(t, STATUS_FAILED, t->stopping, str_of(w->stop_text));
    else if (why == TASK_CANCELLED_ERROR || !task_goes_on(t))
        tell_stop(t);
    else
        tell_when_noted(t);
}

void task_on_stop(void *task, struct str text)
{
    struct task *t = task;
    struct buf why = {0};
    if (!task_run_of(t) || t->left || task_is_ending(t))
        return;
    buf_putf(&why, "%s: ", task_error_code(TASK_AGENT_ERROR));
    buf_putstr(&why, text);
    buf_putc(&why, 0);
    task_stop(t, TASK_AGENT_ERROR, why.bytes);
    buf_done(&why);
}

/* --- clocks ----------------------------------------------------------------------------------- */

static void on_grace(struct timer *timer)
{
    struct task_work *w = container_of(timer, struct task_work, grace);
    struct task *t = w->task;
    if (!w->killed) {
        w->killed = true;
        timer_arm(&t->hub->clock, &w->grace, t->hub->clock.now_ms + FORCE_MS);
        t->agent->ops->kill(task_run_of(t));
        return;
    }
    task_stop_run(t); /* it cannot even be killed: the task ends anyway */
    task_stop(t, t->stopping, w->stop_text);
}

static void on_timeout(struct timer *timer)
{
    struct task *t = container_of(timer, struct task_work, timeout)->task;
    char text[96];
    snprintf(text, sizeof text, "timeout: no end within %lld s",
             (long long)(t->agent->timeout_ms / 1000));
    task_stop(t, TASK_TIMEOUT, text);
}

static void task_on_idle(struct timer *timer)
{
    struct task_work *w = container_of(timer, struct task_work, idle);
    struct task *t = w->task;
    msec_t due = w->heard_ms + t->agent->idle_timeout_ms;
    bool waits = task_run_of(t) && t->agent->ops->waits && t->agent->ops->waits(task_run_of(t));
    if (waits || !list_is_empty(&w->tools) ||
        task_has_children(t)) /* it waits: the clock stands still */
        due = t->hub->clock.now_ms + t->agent->idle_timeout_ms;
    if (due > t->hub->clock.now_ms) {
        timer_arm(&t->hub->clock, &w->idle, due);
        return;
    }
    if (task_run_of(t) && t->stopping == TASK_OK && t->agent->ops->settle &&
        t->agent->ops->settle(task_run_of(t)))
        return;
    char text[96];
    snprintf(text, sizeof text, "timeout: no event for %lld s",
             (long long)(t->agent->idle_timeout_ms / 1000));
    task_stop(t, TASK_TIMEOUT, text);
}

void task_init_clocks(struct task_work *w)
{
    w->timeout.fire = on_timeout;
    w->idle.fire = task_on_idle;
    w->grace.fire = on_grace;
}

void task_arm_clocks(struct task *t)
{
    struct clock *c = &t->hub->clock;
    struct task_work *w = t->work;
    w->heard_ms = c->now_ms;
    if (t->agent->timeout_ms)
        timer_arm(c, &w->timeout, c->now_ms + t->agent->timeout_ms);
    if (t->agent->idle_timeout_ms)
        timer_arm(c, &w->idle, c->now_ms + t->agent->idle_timeout_ms);
}

void task_stand_clocks(struct task *t, bool stand)
{
    struct clock *c = &t->hub->clock;
    struct task_work *w = t->work;
    if (!task_run_of(t) || stand == w->clocks_stand)
        return;
    w->clocks_stand = stand;
    if (stand) {
        w->timeout_left = timer_is_armed(&w->timeout) ? w->timeout.due - c->now_ms : 0;
        timer_disarm(c, &w->timeout);
        timer_disarm(c, &w->idle);
        return;
    }
    w->heard_ms = c->now_ms;
    if (w->timeout_left > 0)
        timer_arm(c, &w->timeout, c->now_ms + w->timeout_left);
    if (t->agent->idle_timeout_ms)
        timer_arm(c, &w->idle, c->now_ms + t->agent->idle_timeout_ms);
    task_budget_review(t);
}
