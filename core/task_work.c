/* What a task has from its start on, or from an earlier event that needs it (task.h). */
#include "core/task_parts.h"

#include <stdlib.h>

const struct live_state task_fresh = {.status = STATUS_PENDING, .progress = -1};

struct task_work *task_work(struct task *t)
{
    if (t->work)
        return t->work;
    struct task_work *w = t->work = xcalloc(sizeof *w);
    w->task = t;
    w->staged = w->shown = task_fresh;
    task_init_clocks(w);
    list_init(&w->tools);
    list_init(&w->questions);
    list_init(&w->answered);
    list_init(&w->hooks);
    list_init(&w->enders);
    return w;
}

struct task_outcome *task_outcome(struct task *t)
{
    struct task_work *w = task_work(t);
    if (!w->outcome)
        w->outcome = xcalloc(sizeof *w->outcome);
    return w->outcome;
}

static void free_outcome(struct task_outcome *o)
{
    if (!o)
        return;
    str_free(&o->error_message);
    str_free(&o->output);
    str_free(&o->undelivered);
    str_free(&o->answers);
    free(o);
}

void task_free_work(struct task *t)
{
    struct task_work *w = t->work;
    if (!w)
        return;
    free_outcome(w->outcome);
    feed_forget(&w->entry);
    free(w->staged.waiting_for);
    free(w->shown.waiting_for);
    task_free_inbox(t);
    task_free_questions(t);
    task_free_hooks(t);
    said_done(&w->said);
    task_free_text(w);
    task_budget_free(w);
    free(w->history);
    free(w->turns);
    task_free_past(t);
    tool_names_free(w->tool_names);
    free(w->retracted);
    free(w->result);
    free(w->stop_text);
    free(w->canceller);
    free(w);
    t->work = NULL;
}
