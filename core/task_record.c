/* A task's record, assembled from its parts: as it is staged, and as it is shown. */
#include "core/task_parts.h"

/* The outcome counts only if this state has seen the end: a later one may be on its way. */
static struct task_state state_of(const struct task *t, const struct live_state *s, uint64_t head)
{
    struct task_state state = {.status = s->status,
                               .progress = s->progress,
                               .first = t->stream->first,
                               .head = head,
                               .cancel_requested_at = s->cancel_requested_at,
                               .started_at = s->started_at,
                               .waiting_for = str_of(s->waiting_for),
                               .retracted = str_of(t->work ? t->work->retracted : NULL)};
    if (!status_is_terminal(s->status))
        return state;
    ASSERT(t->work); /* a task that ends in memory has its outcome there */
    const struct task_outcome *o = t->work->outcome;
    state.error = o->error;
    state.completed_at = o->completed_at;
    state.output_truncated = o->output_truncated;
    state.error_message = o->error_message;
    state.output = o->output;
    state.result = str_of(t->work->result);
    state.undelivered = o->undelivered;
    state.answers = o->answers;
    return state;
}

static struct task_record record_of(const struct task *t, const struct live_state *s, uint64_t head)
{
    struct task_record rec = {.key = task_key(t),
                              .owner = task_owner(t),
                              .conversation_id = task_conversation_id(t),
                              .task_id = task_id_of(t),
                              .state = state_of(t, s, head)};
    task_fixed_fill(t->fixed, &rec);
    return rec;
}

struct task_record task_view(const struct task *t)
{
    return record_of(t, shown_state(t), t->stream->head);
}

struct task_record task_staged(const struct task *t)
{
    return record_of(t, staged_state(t), t->stream->next - 1);
}

void task_stage(struct task *t)
{
    struct journal *j = &t->hub->journal;
    struct task_work *w = task_work(t);
    struct task_state state = state_of(t, &w->staged, t->stream->next - 1);
    if (w->staged_in == j->building_number && j->building) {
        batch_set_state(j->building, &j->building->ops[w->staged_op], &state);
        return;
    }
    t->refs++;
    journal_put(j, &(struct op){.kind = OP_TASK_SET,
                                .done = task_state_done,
                                .ref = t,
                                .task_key = task_key(t),
                                .state = &state});
    w->staged_in = j->building_number;
    ASSERT(j->building->n_ops <= UINT32_MAX);
    w->staged_op = (uint32_t)(j->building->n_ops - 1);
}
