/* Memory of a run for the next gateway: notes, and how far its agent was read.  All of it lies in
 * the batch of the events before it, so what is known after a kill is of one moment. */
#include "core/task_parts.h"

#include <stdlib.h>

void task_note(struct task *t, uint64_t number, struct str bytes)
{
    journal_put(&t->hub->journal, &(struct op){.kind = OP_NOTE,
                                               .task_key = task_key(t),
                                               .first = number,
                                               .last = t->stream->next - 1,
                                               .bytes = bytes});
}

/* Nothing that it says counts any more, or nobody needs it again. */
static bool keeps_nothing(const struct task *t)
{
    return !task_run_of(t) || t->left || task_is_ending(t) || !task_goes_on(t) ||
           t->stopping == TASK_AGENT_ERROR || t->stopping == TASK_LIMIT;
}

void task_on_note(void *task, bool standing, struct str bytes)
{
    struct task *t = task;
    struct task_work *w = t->work;
    struct hub *h = t->hub;
    if (keeps_nothing(t))
        return;
    if (standing) {
        task_note(t, NOTE_STANDING, bytes);
        return;
    }
    if (t->bytes + bytes.n > h->o.limits.task_bytes) {
        h->stats.limit_hits[LIMIT_TASK_BYTES]++;
        task_stop(t, TASK_LIMIT, "limit: the task's events exceed limits.task_bytes");
        return;
    }
    t->bytes += bytes.n;
    if (w->next_note < NOTE_FIRST)
        w->next_note = NOTE_FIRST;
    task_note(t, w->next_note++, bytes);
}

static void stage_mark(struct task *t)
{
    struct journal *j = &t->hub->journal;
    struct task_work *w = t->work;
    if (j->building && w->marked_in == j->building_number) {
        batch_set_mark(&j->building->ops[w->mark_op], w->mark);
        return;
    }
    journal_put(j, &(struct op){.kind = OP_MARK, .task_key = task_key(t), .first = w->mark});
    w->marked_in = j->building_number;
    ASSERT(j->building->n_ops <= UINT32_MAX);
    w->mark_op = (uint32_t)(j->building->n_ops - 1);
}

bool task_on_mark(void *task, uint64_t mark)
{
    struct task *t = task;
    if (keeps_nothing(t))
        return false;
    ASSERT(mark >= t->work->mark);
    task_note_held(t);
    t->work->mark = mark;
    if (t->work->n_lookups > 0)
        return false;
    stage_mark(t);
    return true;
}

void task_lookup_over(struct task *t)
{
    struct task_work *w = t->work;
    if (!w || --w->n_lookups > 0 || !w->waits_for_lookup)
        return;
    w->waits_for_lookup = false;
    if (!keeps_nothing(t))
        stage_mark(t);
    if (!t->paused)
        task_unpause(t);
}

/* --- commits ---------------------------------------------------------------------------------- */

struct commit_wait {
    struct waiter waiter;
    struct task *task; /* a reference */
};

static void on_kept(struct waiter *waiter, int status)
{
    struct commit_wait *w = container_of(waiter, struct commit_wait, waiter);
    struct task *t = w->task;
    free(w);
    t->refs--;
    if (status == 0 && task_run_of(t) && !t->left && !task_is_ending(t) && t->agent->ops->proceed)
        t->agent->ops->proceed(task_run_of(t));
}

void task_when_committed(void *task)
{
    struct task *t = task;
    struct commit_wait *w = xalloc(sizeof *w);
    *w = (struct commit_wait){.waiter.done = on_kept, .task = t};
    t->refs++;
    journal_wait(&t->hub->journal, &w->waiter);
}

void task_on_unknown(void *task, struct str tool)
{
    struct hub *h = ((struct task *)task)->hub;
    hub_count(h->stats.unknown_effects, tool);
}

/* --- a planned stop --------------------------------------------------------------------------- */

/* One that is being stopped ends as always: it is soon over. */
void task_leave(struct task *t)
{
    struct clock *c = &t->hub->clock;
    struct task_work *w = t->work;
    if (t->left || task_is_ending(t) || t->phase <= PHASE_PENDING || t->stopping != TASK_OK ||
        staged_state(t)->cancel_requested_at)
        return;
    if (w) {
        timer_disarm(c, &w->timeout);
        timer_disarm(c, &w->idle);
        task_inbox_rest(t);
        task_disarm_questions(t);
        task_budget_stop(t);
        task_leave_tools(t);
    }
    task_say_held(t);
    task_note_held(t);
    task_note(t, NOTE_STOPPED, STR(""));
    t->left = true;
    if (task_run_of(t))
        t->agent->ops->leave(task_run_of(t));
}

/* --- a move ----------------------------------------------------------------------------------- */

static bool run_may_move(const struct task *t)
{
    const struct agent_ops *ops = t->agent->ops;
    return task_run_of(t) && !agent_is_settled(t->agent) &&
           !(ops->is_bound && ops->is_bound(task_run_of(t)));
}

bool task_may_move(const struct task *t)
{
    const struct task_work *w = t->work;
    if (t->phase == PHASE_PENDING || t->left)
        return t->phase == PHASE_PENDING || !agent_is_settled(t->agent);
    bool stops = t->stopping != TASK_OK || staged_state(t)->cancel_requested_at;
    return t->phase == PHASE_RUNNING && task_goes_on(t) && !stops && run_may_move(t) &&
           list_is_empty(&w->tools) && w->n_lookups == 0;
}

bool task_is_parted(const struct task *t)
{
    bool rests = t->phase == PHASE_PENDING || (t->left && !agent_is_settled(t->agent));
    return rests && t->refs == 0 && !t->has_slot && !(t->work && !list_is_empty(&t->work->enders));
}

void task_drop(struct task *t)
{
    ASSERT(task_is_parted(t));
    task_forget(t);
}

void task_forget(struct task *t)
{
    ASSERT(t->refs == 0 && !t->has_slot);
    t->stream->task = NULL;
    task_uncount(t);
    task_free(t);
}
