/* The run of a task: when it may start, what the agent is given, and its end.
 *
 * A run starts when task.started is committed, so that a task which a restart finds pending has
 * never run and may be started again, and one that it finds running is an orphan. */
#include "core/task.h"

#include <stdio.h>

/* First in, first out: it starts when no other chat or notice task of the conversation is under
 * way, and none that waits was there before it. */
static bool must_wait(const struct task *t)
{
    if (!t->fixed->waits)
        return false;
    bool behind = false; /* what follows came later than t */
    list_each (it, &t->conversation->tasks) {
        const struct task *other = list_item(it, struct task, in_conversation);
        if (other == t)
            behind = true;
        else if (task_talks(other) &&
                 !(other->fixed->waits && other->phase <= PHASE_PENDING && behind))
            return true;
    }
    return false;
}

static bool take_slot(struct task *t)
{
    struct hub *h = t->hub;
    if (!t->agent->is_process)
        return true;
    if (h->n_processes >= h->o.limits.processes) {
        h->stats.limit_hits[LIMIT_PROCESSES]++;
        return false;
    }
    h->n_processes++;
    t->has_slot = true;
    return true;
}

void task_try_start(struct task *t)
{
    if (t->hub->restoring || t->hub->abandoned || t->phase != PHASE_PENDING ||
        list_is_in(&t->in_wait))
        return;
    if (!t->agent) {
        task_finish(t, STATUS_FAILED, TASK_AGENT_ERROR,
                    STR("agent_error: the agent is no longer configured"));
        return;
    }
    if (must_wait(t))
        return;
    if (!take_slot(t)) {
        list_push(&t->hub->waiting, &t->in_wait);
        return;
    }
    t->phase = PHASE_STARTING;
    t->staged.status = STATUS_RUNNING;
    t->staged.started_at = t->hub->clock.wall_ms;
    task_event(t, EVENT_TASK_STARTED, STR("{}"));
    task_stage(t);
}

void tasks_may_start(struct conversation *c)
{
    if (list_is_in(&c->freed))
        return;
    c->refs++;
    list_push(&c->hub->freed, &c->freed);
}

/* Only the first of those that wait for others may start, and those that wait for none: one
 * walk, however many there are. */
static void start_next(struct conversation *c)
{
    bool waits = false;
    list_each (it, &c->tasks) {
        struct task *t = list_item(it, struct task, in_conversation);
        if (t->phase != PHASE_PENDING || (t->fixed->waits && waits))
            continue;
        waits = waits || t->fixed->waits;
        task_try_start(t);
    }
    conversation_unref(c);
}

void tasks_proceed(struct hub *h)
{
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &h->freed);
    while ((node = list_pop(&now)) != NULL)
        start_next(list_item(node, struct conversation, freed));
    if (!journal_is_full(&h->journal))
        list_splice(&now, &h->paused);
    while ((node = list_pop(&now)) != NULL)
        task_unpause(list_item(node, struct task, in_wait));
    while (h->n_processes < h->o.limits.processes && (node = list_pop(&h->waiting)) != NULL)
        task_try_start(list_item(node, struct task, in_wait));
}

void task_unpause(struct task *t)
{
    t->paused = false;
    if (t->run)
        t->agent->ops->unpause(t->run);
}

void task_stop_run(struct task *t)
{
    struct clock *c = &t->hub->clock;
    if (t->has_slot)
        t->hub->n_processes--;
    t->has_slot = false;
    if (t->work) {
        timer_disarm(c, &t->work->timeout);
        timer_disarm(c, &t->work->idle);
        timer_disarm(c, &t->work->grace);
        task_stop_tools(t);
    }
    if (!t->run)
        return;
    struct dead_run *dead = xalloc(sizeof *dead);
    *dead = (struct dead_run){.ops = t->agent->ops, .run = t->run};
    list_push(&t->hub->dead_runs, &dead->node);
    t->run = NULL;
    if (t->paused)
        list_remove(&t->in_wait);
    t->paused = false;
}

static bool wants_more(struct task *t)
{
    if (!t->run || !journal_is_full(&t->hub->journal))
        return true;
    if (!t->paused) {
        t->paused = true;
        list_push(&t->hub->paused, &t->in_wait);
    }
    return false;
}

/* What an agent says behind a line that was none is not listened to. */
static bool is_broken(const struct task *t)
{
    return t->stopping == TASK_AGENT_ERROR || t->stopping == TASK_LIMIT;
}

static bool on_event(void *arg, const struct agent_line *line)
{
    struct task *t = arg;
    if (t->run && !task_is_ending(t) && !is_broken(t))
        task_line(t, line);
    return wants_more(t);
}

static bool on_line(void *arg, struct str text)
{
    struct task *t = arg;
    if (!t->run || task_is_ending(t) || is_broken(t))
        return true;
    struct agent_line line;
    if (!agent_line_decode(&t->hub->decoder, text, &line)) {
        char why[320];
        enum task_error e = line.over_limit ? TASK_LIMIT : TASK_AGENT_ERROR;
        snprintf(why, sizeof why, "%s: %s", task_error_code(e), line.error);
        task_stop(t, e, why);
        return true;
    }
    return on_event(t, &line);
}

static void on_end(void *arg, enum run_end end, struct str text)
{
    struct task *t = arg;
    if (task_is_ending(t))
        return;
    t->work->stopped_wall_ms = t->hub->clock.wall_ms;
    task_stop_run(t);
    if (t->stopping != TASK_OK) {
        task_finish(t, STATUS_FAILED, t->stopping, str_of(t->work->stop_text));
    } else if (end == RUN_DONE) {
        task_finish(t, STATUS_COMPLETED, TASK_OK, STR_NULL);
    } else {
        struct buf why = {0};
        buf_puts(&why, "agent_error: ");
        buf_putstr(&why, text);
        task_finish(t, STATUS_FAILED, TASK_AGENT_ERROR, buf_str(&why));
        buf_done(&why);
    }
}

static void on_room(void *arg)
{
    task_deliver(arg);
}

static const struct run_events run_events = {
    .on_line = on_line, .on_event = on_event, .on_room = on_room, .on_end = on_end};

static void put_history(struct buf *out, const struct answer *answer)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < answer->n_messages; i++) {
        const struct message_record *m = &answer->messages[i];
        buf_puts(out, i ? ",{" : "{");
        js_put_field(out, "role", str_of(role_name(m->role)));
        js_put_field(out, "content", m->content);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void put_parent(struct buf *out, const struct task_record *rec)
{
    buf_putc(out, '{');
    js_put_field(out, "task_id", rec->parent_task_id);
    js_put_field(out, "run_id", rec->parent_run_id);
    js_put_field(out, "call_id", rec->parent_call_id);
    js_put_field(out, "agent_id", rec->parent_agent_id);
    buf_putc(out, '}');
}

static void task_launch(struct task *t, const struct answer *answer)
{
    struct buf history = {0}, parent = {0};
    struct task_record rec = task_staged(t);
    put_history(&history, answer);
    put_parent(&parent, &rec);
    struct run_spec spec = {.task_id = rec.task_id,
                            .conversation_id = rec.conversation_id,
                            .owner = rec.owner,
                            .input = rec.input,
                            .history = buf_str(&history),
                            .parent = buf_str(&parent),
                            .metadata = rec.metadata.p ? rec.metadata : STR("null")};
    char error[256] = "";
    t->run = t->agent->ops->start(t->agent->settings, &spec, &run_events, t, error);
    buf_done(&history);
    buf_done(&parent);
    t->fixed = task_fixed_drop_input(t->fixed); /* the agent has it, and nobody else asks */
    if (!t->run) {
        char why[320];
        snprintf(why, sizeof why, "agent_error: %s", error);
        task_finish(t, STATUS_FAILED, TASK_AGENT_ERROR, str_of(why));
        return;
    }
    t->phase = PHASE_RUNNING;
    task_work(t);
    task_arm_clocks(t);
    task_deliver(t);
}

static void on_history(void *arg, int status, struct answer *answer)
{
    struct task *t = arg;
    t->refs--;
    if (t->phase != PHASE_STARTING)
        return;
    if (status < 0)
        task_finish(t, STATUS_FAILED, TASK_INTERNAL,
                    STR("internal: the conversation cannot be read"));
    else
        task_launch(t, answer);
}

/* The history holds what was said before the task's own input: the newest that fit.  The input's
 * message has an id behind the task's own, so the task's id is the border. */
void task_run(struct task *t)
{
    if (!task_talks(t)) {
        task_launch(t, &(struct answer){0});
        return;
    }
    t->refs++;
    hub_query(t->hub,
              &(struct query){.kind = QUERY_MESSAGES,
                              .owner = task_owner(t),
                              .conversation_id = task_conversation_id(t),
                              .before = task_id_of(t),
                              .limit = HISTORY_MESSAGES,
                              .max_bytes = MAX_HISTORY},
              on_history, t);
}
