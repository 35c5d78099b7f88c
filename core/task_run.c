/* The run of a task: when it may start, what the agent is given, and its end.
 *
 * A run starts when task.started is committed.  So a task that a restart finds pending has never
 * run and may be started again; one that it finds running goes on (task_resume.c), or is an orphan.
 * The history is read while that commit is under way: everything in it was committed before the
 * task may start. */
#include "core/task_parts.h"

#include <stdlib.h>

#include "core/task_trace.h"
#include "proto/parts.h"

/* First in, first out: it starts when no other chat or notice task of the conversation is under
 * way, and none that waits came before it. */
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
    if (!t->agent->is_process)
        return true;
    t->has_slot = hub_take_slot(t->hub);
    return t->has_slot;
}

/* The run has failed, or there is none; said: by the adapter, which knows paths and addresses. */
static void fail_run(struct task *t, enum task_error e, struct str said)
{
    struct buf why = {0};
    buf_putf(&why, "%s: ", task_error_code(e));
    if (t->agent->short_errors) {
        if (t->hub->o.failed)
            t->hub->o.failed(task_id_of(t), t->agent->name, said);
        said = e == TASK_ORPHANED ? STR("the agent could not go on") : STR("the agent broke off");
    }
    buf_putstr(&why, said);
    task_finish(t, STATUS_FAILED, e, buf_str(&why));
    buf_done(&why);
}

/* False: it has failed, and has no slot. */
static bool task_prepare(struct task *t)
{
    char error[256] = "";
    if (!task_goes_on(t) || !t->agent->ops->prepare ||
        t->agent->ops->prepare(t->agent->settings, task_id_of(t), error))
        return true;
    task_stop_run(t);
    fail_run(t, TASK_AGENT_ERROR, str_of(error));
    return false;
}

static void fail_without_agent(struct task *t)
{
    struct buf why = {0};
    buf_puts(&why, "agent_error: the agent is no longer configured: ");
    buf_putstr(&why, task_field(t, FIELD_agent));
    task_finish(t, STATUS_FAILED, TASK_AGENT_ERROR, buf_str(&why));
    buf_done(&why);
}

static void ask_history(struct task *t);

void task_try_start(struct task *t)
{
    if (!slots_has(&t->hub->open, slot_of(task_owner(t))) || t->hub->abandoned ||
        t->phase != PHASE_PENDING || list_is_in(&t->in_wait))
        return;
    if (t->hub->draining && task_goes_on(t))
        return; /* the next gateway starts it */
    if (!t->agent) {
        fail_without_agent(t);
        return;
    }
    if (must_wait(t))
        return;
    if (!take_slot(t)) {
        list_push(&t->hub->waiting, &t->in_wait);
        return;
    }
    if (!task_prepare(t))
        return;
    t->phase = PHASE_STARTING;
    task_work(t)->staged.status = STATUS_RUNNING;
    t->work->staged.started_at = t->hub->clock.wall_ms;
    task_event(t, EVENT_TASK_STARTED, STR("{}"));
    task_stage(t);
    ask_history(t);
}

void tasks_may_start(struct conversation *c)
{
    if (list_is_in(&c->freed))
        return;
    c->refs++;
    list_push(&c->hub->freed, &c->freed);
}

/* Among waiting tasks, only the first that waits for others may start, and all that wait for none:
 * one walk, however many there are. */
void tasks_start_next(struct conversation *c)
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

void task_unpause(struct task *t)
{
    t->paused = false;
    bool waits = t->work && (t->work->waits_for_lookup || task_budget_holds(t));
    if (task_run_of(t) && !t->left && !waits)
        t->agent->ops->unpause(task_run_of(t));
}

void task_stop_run(struct task *t)
{
    struct clock *c = &t->hub->clock;
    if (t->has_slot)
        hub_give_slot(t->hub);
    t->has_slot = false;
    if (t->work) {
        timer_disarm(c, &t->work->timeout);
        timer_disarm(c, &t->work->idle);
        timer_disarm(c, &t->work->grace);
        task_budget_stop(t);
        task_stop_tools(t);
    }
    if (!task_run_of(t))
        return;
    struct dead_run *dead = xalloc(sizeof *dead);
    *dead = (struct dead_run){.ops = t->agent->ops, .run = task_run_of(t)};
    list_push(&t->hub->dead_runs, &dead->node);
    t->work->run = NULL;
    if (t->paused)
        list_remove(&t->in_wait);
    t->paused = false;
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
        fail_run(t, end == RUN_LOST ? TASK_ORPHANED : TASK_AGENT_ERROR, text);
    }
}

static void on_room(void *arg)
{
    task_deliver(arg);
}

const struct run_events task_run_events = {.on_line = task_on_line,
                                           .on_event = task_on_event,
                                           .on_room = on_room,
                                           .on_end = on_end,
                                           .on_note = task_on_note,
                                           .on_mark = task_on_mark,
                                           .on_taken = task_on_taken,
                                           .when_committed = task_when_committed,
                                           .on_unknown = task_on_unknown,
                                           .on_moot = task_on_moot,
                                           .is_allowed = task_is_allowed,
                                           .allow = task_allow,
                                           .on_stop = task_on_stop,
                                           .on_anew = task_on_anew,
                                           .on_say = task_on_say};

static void put_message(struct buf *out, const struct message_record *m)
{
    buf_puts(out, out->len > 1 ? ",{" : "{");
    js_put_field(out, "role", str_of(role_name(m->role)));
    js_put_field(out, "content", m->content);
    if (m->parts.p)
        js_put_raw(out, "parts", m->parts);
    buf_putc(out, '}');
}

static void put_history(struct buf *out, const struct answer *answer)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < answer->n_messages; i++)
        put_message(out, &answer->messages[i]);
    buf_putc(out, ']');
}

/* A task stands there twice, one message behind the other. */
static char *turns_of(const struct answer *answer)
{
    struct buf ids = {0};
    struct str last = STR_NULL;
    for (size_t i = 0; i < answer->n_messages; i++) {
        struct str id = answer->messages[i].task_id;
        if (!id.p || (last.p && str_eq(id, last)))
            continue;
        if (ids.len)
            buf_putc(&ids, ' ');
        buf_putstr(&ids, id);
        last = id;
    }
    buf_puts(&ids, "");
    return buf_take(&ids);
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

/* Tasks that are not turns have no history, and a context replaces it. */
static bool reads_history(const struct task *t)
{
    return task_talks(t) && !task_field(t, FIELD_context).p;
}

/* Whether it is to run now: committed as running, with its history. */
static bool may_run(struct task *t)
{
    bool begins = t->phase == PHASE_STARTING && shown_state(t)->status == STATUS_RUNNING;
    if (!begins && t->phase != PHASE_RESUMING)
        return false;
    if (hub_leaves_runs(t->hub) && task_goes_on(t)) {
        task_leave(t);
        return false;
    }
    return !reads_history(t) || task_work(t)->history;
}

/* The input and the history go to the agent, and nobody else needs them. */
void task_run(struct task *t)
{
    if (!may_run(t))
        return;
    if (!hub_is_trusted(t->hub)) { /* another home may have ended it: nothing begins after that */
        list_push(&t->hub->unsure, &t->in_wait);
        return;
    }
    bool again = t->phase == PHASE_RESUMING;
    struct task_work *w = task_work(t);
    struct buf parent = {0};
    struct task_record rec = task_staged(t);
    put_parent(&parent, &rec);
    struct run_spec spec = {.task_id = rec.task_id,
                            .conversation_id = rec.conversation_id,
                            .owner = rec.owner,
                            .input = rec.input,
                            .parts = rec.parts,
                            .history = rec.context.p ? rec.context
                                       : w->history  ? str_of(w->history)
                                                     : STR("[]"),
                            .is_context = rec.context.p != NULL,
                            .turns = str_of(w->turns),
                            .parent = buf_str(&parent),
                            .metadata = rec.metadata.p ? rec.metadata : STR("null"),
                            .attempt = w->attempt ? w->attempt : 1};
    struct task_trace trace;
    if (task_trace_of(spec.task_id, spec.metadata, t->hub->o.traced, t->hub->o.trace_share, &trace))
        spec.trace = &trace.own;
    char error[256] = "";
    bool refused = !again && parts_have_file(spec.parts) && !t->agent->takes_files;
    if (!refused)
        w->run = again
                     ? task_resume_run(t, &spec, error)
                     : t->agent->ops->start(t->agent->settings, &spec, &task_run_events, t, error);
    buf_done(&parent);
    free(w->history);
    free(w->turns);
    w->history = w->turns = NULL;
    if (refused) {
        task_finish(t, STATUS_FAILED, TASK_AGENT_ERROR,
                    STR("agent_error: the agent takes no files, and the message has one"));
        return;
    }
    if (!task_run_of(t)) {
        fail_run(t, again ? TASK_ORPHANED : TASK_AGENT_ERROR, str_of(error));
        return;
    }
    t->phase = PHASE_RUNNING;
    task_budget_begin(t, spec.metadata);
    t->fixed = task_fixed_drop_input(t->fixed); /* and with it what spec points to */
    if (again)
        task_resumed(t);
    else
        task_arm_clocks(t);
    task_deliver(t);
}

void task_resume(struct task *t)
{
    if (t->phase != PHASE_RESUMING)
        return;
    if (reads_history(t))
        ask_history(t);
    else
        task_run(t);
}

static void on_history(void *arg, int status, struct answer *answer)
{
    struct task *t = arg;
    t->refs--;
    if (t->phase != PHASE_STARTING && t->phase != PHASE_RESUMING)
        return;
    if (status < 0) {
        task_finish(t, STATUS_FAILED, TASK_INTERNAL,
                    STR("internal: the conversation cannot be read"));
        return;
    }
    struct buf history = {0};
    put_history(&history, answer);
    task_work(t)->history = buf_take(&history);
    free(task_work(t)->turns);
    task_work(t)->turns = turns_of(answer);
    task_run(t);
}

/* The history holds what was said before the question, on its branch: the newest that fit.  A task
 * that goes on gets what it had then.  A context replaces it. */
static void ask_history(struct task *t)
{
    if (!reads_history(t))
        return;
    t->refs++;
    hub_query(t->hub,
              &(struct query){.kind = QUERY_PATH,
                              .owner = task_owner(t),
                              .conversation_id = task_conversation_id(t),
                              .task_id = task_id_of(t),
                              .at = t->phase == PHASE_RESUMING ? staged_state(t)->started_at : 0,
                              .limit = HISTORY_MESSAGES,
                              .max_bytes = MAX_HISTORY},
              on_history, t);
}
