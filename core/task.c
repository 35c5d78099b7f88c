#include "core/task_parts.h"

#include <stdlib.h>

#include "core/notice.h"
#include "proto/parts.h"

static struct task *task_alloc(struct hub *h, struct conversation *c, struct owner *quota,
                               const struct task_record *rec)
{
    struct task *t = xcalloc(sizeof *t);
    t->agent = hub_find_agent(h, rec->agent);
    t->fixed = task_fixed_new(rec);
    t->hub = h;
    t->conversation = c;
    c->refs++;
    list_push(&c->tasks, &t->in_conversation);
    h->n_live++;
    h->use[c->owner->slot].tasks++;
    t->quota = quota;
    quota->refs++;
    quota->n_live++;
    return t;
}

static void put_created_event(struct task *t, const struct task_record *rec, struct str actor)
{
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "agent", rec->agent);
    js_put_field(&data, "input", rec->input);
    if (rec->parts.p)
        js_put_raw(&data, "parts", rec->parts);
    if (rec->name.p)
        js_put_field(&data, "name", rec->name);
    if (rec->description.p)
        js_put_field(&data, "description", rec->description);
    if (actor.p)
        js_put_field(&data, "actor", actor);
    buf_putc(&data, '}');
    task_event(t, EVENT_TASK_CREATED, buf_str(&data));
    buf_done(&data);
}

/* Its question comes into the conversation, or the one that it answers becomes the tip. */
static void put_question(struct task *t, const struct task_plan *plan)
{
    struct message_record m = {.task_id = task_id_of(t),
                               .parent_id = plan->parent_id,
                               .behind = plan->behind,
                               .content = plan->input,
                               .parts = plan->parts,
                               .role = task_type(t) == TYPE_NOTICE ? ROLE_SYSTEM : ROLE_USER};
    if (plan->question_id.p)
        conversation_branch(t->conversation, plan->question_id, task_id_of(t));
    else
        conversation_say(t->conversation, &m, plan->place);
}

static void put_task_answer(struct task *t, struct str content, bool partial)
{
    conversation_say(t->conversation,
                     &(struct message_record){.task_id = task_id_of(t),
                                              .content = content,
                                              .role = ROLE_ASSISTANT,
                                              .partial = partial},
                     PLACE_ANSWER);
}

/* Appends the title of a conversation that begins with this task; nothing when it gives none. */
static void put_title(const struct task *t, struct buf *out)
{
    static const enum task_field by[] = {FIELD_name, FIELD_description};
    bool asks = task_type(t) == TYPE_CHAT || task_type(t) == TYPE_BACKGROUND;
    for (size_t i = 0; task_type(t) == TYPE_BACKGROUND && i < countof(by) && !out->len; i++)
        parts_put_title(task_field(t, by[i]), STR_NULL, out);
    if (asks && out->len == 0)
        parts_put_title(task_field(t, FIELD_input), task_field(t, FIELD_parts), out);
}

/* A chat sets the conversation's agent, and ends a row of turns that nobody asked for. */
static void touch_conversation(struct task *t, bool is_new, bool unlisted)
{
    bool chats = is_new && task_type(t) == TYPE_CHAT;
    bool notices = is_new && task_type(t) == TYPE_NOTICE;
    struct buf title = {0};
    if (is_new)
        put_title(t, &title);
    t->conversation->refs++;
    journal_put(&t->hub->journal,
                &(struct op){.kind = OP_CONVERSATION,
                             .done = conversation_op_done,
                             .ref = t->conversation,
                             .owner = task_owner(t),
                             .conversation_id = task_conversation_id(t),
                             .title = title.len ? buf_str(&title) : STR_NULL,
                             .agent = chats ? task_field(t, FIELD_agent) : STR_NULL,
                             .turns = chats     ? TURNS_RESET
                                      : notices ? TURNS_ADD
                                                : TURNS_KEEP,
                             .unlisted = unlisted,
                             .at = t->hub->clock.wall_ms});
    buf_done(&title);
}

static void put_request_key(struct task *t, struct str key)
{
    journal_put(&t->hub->journal, &(struct op){.kind = OP_REQUEST_KEY,
                                               .owner = task_owner(t),
                                               .conversation_id = task_conversation_id(t),
                                               .task_id = task_id_of(t),
                                               .key = key,
                                               .at = t->hub->clock.wall_ms});
}

static struct task_record planned(const struct hub *h, const struct task_plan *plan)
{
    return (struct task_record){.type = plan->type,
                                .notify_on_complete = plan->notify_on_complete,
                                .waits = plan->wait_for_others,
                                .created_at = h->clock.wall_ms,
                                .agent = str_of(plan->agent->name),
                                .name = plan->name,
                                .description = plan->description,
                                .input = plan->input,
                                .parts = plan->parts,
                                .metadata = plan->metadata,
                                .context = plan->context,
                                .parent_task_id = plan->parent_task_id,
                                .parent_call_id = plan->parent_call_id,
                                .parent_run_id = plan->parent_task_id,
                                .parent_agent_id = plan->parent_agent_id,
                                .ancestors = plan->ancestors,
                                .question_id = plan->question_id};
}

static void on_new_done(const struct op *op, int status);

struct task *task_create(struct hub *h, const struct task_plan *plan)
{
    struct task_record rec = planned(h, plan);
    struct task *t = task_alloc(h, plan->conversation, plan->quota, &rec);
    char id[TASK_ID_LEN + 1];
    hub_new_id(h, id);
    t->stream = hub_add_stream(h, str_of(plan->owner->name), str_of(plan->conversation->id),
                               (struct str){id, TASK_ID_LEN}, hub_new_key(h));
    t->stream->task = t;
    if (h->o.chain_digest)
        t->stream->chain = chain_new(h->o.chain_digest);

    touch_conversation(t, true, plan->unlisted);
    t->refs++;
    rec = task_staged(t);
    journal_put(&h->journal,
                &(struct op){.kind = OP_TASK_NEW, .done = on_new_done, .ref = t, .record = &rec});
    if (task_talks(t))
        put_question(t, plan);
    if (plan->request_key.p)
        put_request_key(t, plan->request_key);
    put_created_event(t, &rec, plan->actor);
    if (plan->webhook.p) {
        const char *made, *why = task_add_hook(t, plan->webhook_id, plan->webhook, &made);
        ASSERT(!why); /* the caller has asked for the limit */
    }
    return t;
}

struct task *task_adopt(struct hub *h, const struct task_record *rec)
{
    struct owner *owner = owner_ref(h, rec->owner);
    struct conversation *c = conversation_ref(h, owner, rec->conversation_id);
    struct task *t = task_alloc(h, c, owner, rec);
    conversation_unref(c);
    owner_unref(h, owner);
    t->stream = hub_find_stream(h, rec->owner, rec->conversation_id, rec->task_id);
    if (!t->stream)
        t->stream = hub_add_stream(h, rec->owner, rec->conversation_id, rec->task_id, rec->key);
    t->stream->task = t;
    if (h->o.chain_digest && !t->stream->chain)
        t->stream->chain = chain_new(h->o.chain_digest);
    stream_set(t->stream, rec->state.first, rec->state.head, false);
    if (rec->state.status != STATUS_PENDING || rec->state.cancel_requested_at)
        task_work(t)->staged = task_work(t)->shown =
            (struct live_state){.status = rec->state.status, /* whoever asked a question is gone */
                                .progress = rec->state.progress,
                                .cancel_requested_at = rec->state.cancel_requested_at,
                                .started_at = rec->state.started_at};
    t->phase = rec->state.status == STATUS_PENDING ? PHASE_PENDING : PHASE_RUNNING;
    t->cancel_shown = rec->state.cancel_requested_at != 0;
    if (rec->state.retracted.p)
        task_work(t)->retracted = xstrdup(rec->state.retracted);
    if (t->phase == PHASE_RUNNING && task_goes_on(t))
        task_past_begin(t, rec->mark);
    return t;
}

static void run_enders(struct task *t, int status)
{
    struct list now, *node;
    if (!t->work)
        return;
    list_init(&now);
    list_splice(&now, &t->work->enders);
    while ((node = list_pop(&now)) != NULL) {
        struct waiter *w = list_item(node, struct waiter, node);
        w->done(w, status);
    }
}

void task_free(struct task *t)
{
    if (!t)
        return;
    list_remove(&t->in_conversation);
    run_enders(t, STORE_IO); /* for a task that has not ended: the hub ends */
    task_stop_run(t);
    list_remove(&t->in_wait);
    task_free_work(t);
    free(t->fixed);
    owner_unref(t->hub, t->quota);
    conversation_unref(t->conversation);
    free(t);
}

bool task_name_is_taken(const struct conversation *c, struct str name)
{
    list_each (it, &c->tasks) {
        struct str taken =
            task_field(list_item(it, const struct task, in_conversation), FIELD_name);
        if (taken.p && str_eq(name, taken))
            return true;
    }
    return false;
}

uint64_t task_event(struct task *t, enum event_type event, struct str data)
{
    size_t before = t->stream->tail.len;
    uint64_t seq = stream_append(t->stream, t->hub->clock.wall_ms, event, data);
    size_t bytes = t->stream->tail.len - before;
    t->bytes += bytes;
    t->hub->use[t->conversation->owner->slot].events++;
    if (t->work)
        t->work->heard_ms = t->hub->clock.now_ms;
    journal_dirty(&t->hub->journal, t->stream, bytes);
    if (t->hub->o.happened && event != EVENT_TOKEN && event != EVENT_THINKING)
        t->hub->o.happened(t->hub->o.arg, t, event, data, 0);
    return seq;
}

/* Everyone who opened the conversation gets the newest committed state. */
static void announce(struct task *t)
{
    if (!feed_has_readers(&t->conversation->feed))
        return;
    struct buf line = {0};
    struct task_record view = task_view(t);
    buf_puts(&line, "{\"type\":\"task\",\"task\":");
    task_write(&line, &view, true);
    buf_putc(&line, '}');
    feed_put(&t->conversation->feed, &task_work(t)->entry, STR_NULL, buf_str(&line));
    buf_done(&line);
}

void task_on_end(struct task *t, struct waiter *w)
{
    list_push(&task_work(t)->enders, &w->node);
}

void task_uncount(struct task *t)
{
    t->hub->n_live--;
    t->hub->use[t->conversation->owner->slot].tasks--;
    t->quota->n_live--;
    t->hub->notices_may_go = true;
}

static void bury(struct task *t)
{
    t->phase = PHASE_ENDED;
    list_remove(&t->in_conversation);
    task_uncount(t);
    list_remove(&t->in_wait);
    list_push(&t->hub->dead_tasks, &t->in_wait);
}

#define MAX_KEPT_SUMMARY 2048 /* bytes; a longer one is read from the store again */

static void keep_summary(struct stream *s, const struct task_record *view)
{
    struct buf summary = {0};
    if (view->state.output.n > MAX_KEPT_SUMMARY) /* nor does what has it in it fit */
        return;
    task_write(&summary, view, false);
    if (summary.len <= MAX_KEPT_SUMMARY)
        s->summary = xstrdup(buf_str(&summary));
    buf_done(&summary);
}

/* The end is on disk: from now on the stream stands for the task. */
static void ended(struct task *t)
{
    struct stream *s = t->stream;
    struct conversation *c = t->conversation;
    s->ended = true;
    if (shown_state(t)->status == STATUS_CANCELLED)
        histogram_add(&t->hub->stats.cancel_time,
                      t->work->outcome->completed_at - shown_state(t)->cancel_requested_at);
    t->hub->stats.tasks_ended[shown_state(t)->status]++;
    announce(t);
    struct task_record view = task_view(t);
    keep_summary(s, &view);
    if (t->agent && t->agent->ops->settled)
        t->agent->ops->settled(t->agent->settings, task_id_of(t));
    s->task = NULL;
    bury(t);
    retention_look_at(&t->hub->retention, view.owner);
    run_enders(t, 0);
    tasks_may_start(c);
    notice_due(c);
    t->stream = NULL;
    hub_release_stream(t->hub, s);
}

static void show(struct task *t, const struct task_state *state)
{
    struct task_work *w = t->work;
    free(w->shown.waiting_for);
    w->shown = (struct live_state){.status = state->status,
                                   .progress = state->progress,
                                   .cancel_requested_at = state->cancel_requested_at,
                                   .started_at = state->started_at,
                                   .waiting_for = xstrdup(state->waiting_for)};
}

static void report(const struct task *t)
{
    struct task_record view = task_view(t);
    if (t->hub->o.reported)
        t->hub->o.reported(t->hub->o.arg, &view);
}

static void shown_new(struct task *t)
{
    struct conversation *c = t->conversation;
    ASSERT(t->phase == PHASE_CREATING);
    t->phase = PHASE_PENDING;
    report(t);
    list_each (it, &c->followers) {
        struct follower *f = list_item(it, struct follower, node);
        f->task_came(f, t->stream);
    }
    list_each (it, &c->owner->followers) {
        struct follower *f = list_item(it, struct follower, node);
        f->task_came(f, t->stream);
    }
    announce(t);
    task_try_start(t);
}

static void shown_set(struct task *t)
{
    const struct live_state *shown = shown_state(t);
    if (status_is_terminal(shown->status)) {
        report(t);
        ended(t);
        return;
    }
    announce(t);
    bool cancel = shown->cancel_requested_at && !t->cancel_shown;
    t->cancel_shown = shown->cancel_requested_at != 0;
    if (cancel)
        task_stop(t, TASK_CANCELLED_ERROR, "cancelled");
    if (t->phase == PHASE_STARTING && shown_state(t)->status == STATUS_RUNNING) {
        report(t);
        task_run(t);
    }
}

/* Its creation failed: nobody has heard of it, and nothing of it is on disk. */
static void never_was(struct task *t)
{
    struct conversation *c = t->conversation;
    t->lost = true;
    t->stream->task = NULL; /* released when the journal reports it settled */
    t->stream = NULL;
    bury(t);
    run_enders(t, 0);
    tasks_may_start(c); /* waiting tasks: at the end of the turn, after the rollback */
    notice_due(c);
}

bool task_op_counts(struct task *t)
{
    t->refs--;
    return !t->lost && t->phase != PHASE_ENDED;
}

static void on_new_done(const struct op *op, int status)
{
    struct task *t = op->ref;
    if (!task_op_counts(t))
        return;
    if (status < 0) {
        never_was(t);
        return;
    }
    shown_new(t);
}

void task_state_done(const struct op *op, int status)
{
    struct task *t = op->ref;
    if (!task_op_counts(t))
        return;
    if (status < 0) {
        t->work->staged.status = t->work->shown.status;
        t->work->staged.cancel_requested_at = t->work->shown.cancel_requested_at;
        return;
    }
    show(t, op->state);
    shown_set(t);
}

void task_lost(struct task *t)
{
    if (t->phase == PHASE_ENDED || t->phase == PHASE_CREATING)
        return;
    t->phase = PHASE_RUNNING; /* a staged end is lost too */
    task_finish(t, STATUS_FAILED, TASK_INTERNAL,
                STR("internal: the store did not accept the task's events"));
}

/* Text as a JSON string that leaves room for the rest of its line. */
static void put_output(struct buf *data, const char *key, struct str text, bool *truncated)
{
    struct str cut = js_fit(text, MAX_EVENT_LINE - MAX_OUTPUT - 16384);
    *truncated = *truncated || cut.n < text.n;
    js_put_field(data, key, cut);
}

static void put_terminal(struct task *t, struct str message)
{
    const struct task_work *w = t->work;
    const struct live_state *s = &w->staged;
    struct task_outcome *o = w->outcome;
    char proof[CHAIN_HEX + 1];
    struct buf data = {0};
    buf_putc(&data, '{');
    if (s->status == STATUS_COMPLETED) {
        put_output(&data, "output", o->output, &o->output_truncated);
        js_put_raw(&data, "result", w->result ? str_of(w->result) : STR("null"));
    } else {
        js_put_field(&data, "status", str_of(status_name(s->status)));
        js_put_key(&data, "error");
        task_error_put(&data, o->error, message);
        put_output(&data, "output", o->output, &o->output_truncated);
    }
    if (s->status == STATUS_CANCELLED) {
        js_put_raw(&data, "cancel", STR("{"));
        js_put_int(&data, "requested_at", s->cancel_requested_at);
        js_put_int(&data, "stopped_at", w->stopped_wall_ms ? w->stopped_wall_ms : o->completed_at);
        if (w->canceller)
            js_put_field(&data, "actor", str_of(w->canceller));
        buf_putc(&data, '}');
    }
    if (stream_prove(t->stream, proof))
        js_put_field(&data, "chain", str_of(proof));
    buf_putc(&data, '}');
    task_event(t, s->status == STATUS_COMPLETED ? EVENT_TASK_COMPLETED : EVENT_TASK_FAILED,
               buf_str(&data));
    buf_done(&data);
}

/* An agent without a final answer has still answered: with its whole text. */
static void put_final_answer(struct task *t)
{
    struct said *said = &t->work->said;
    struct buf data = {0};
    buf_putc(&data, '{');
    put_output(&data, "output", buf_str(&said->tokens), &said->tokens_cut);
    buf_putc(&data, '}');
    task_event(t, EVENT_FINAL_ANSWER, buf_str(&data));
    said_answer_tokens(said);
    buf_done(&data);
}

/* Its end is known: from now on its state is the final one. */
static void set_outcome(struct task *t, enum task_status status, enum task_error error,
                        struct str message, bool joined)
{
    struct task_outcome *o = task_outcome(t);
    struct said *said = &t->work->said;
    str_free(&o->error_message);
    o->error = error;
    o->error_message = str_own(message);
    if (!o->output.p) { /* there already, when it ends anew because its end was lost */
        o->output = said_take_output(said);
        o->output_truncated = joined && said->tokens_cut;
    }
    o->completed_at = t->hub->clock.wall_ms;
    struct live_state *staged = &t->work->staged;
    free(staged->waiting_for);
    staged->waiting_for = NULL;
    staged->status = status;
    if (status == STATUS_COMPLETED)
        staged->progress = 1;
}

void task_finish(struct task *t, enum task_status status, enum task_error error, struct str message)
{
    struct buf clean = {0};
    if (task_is_ending(t))
        return;
    if (staged_state(t)->cancel_requested_at) { /* whatever else has happened to it */
        status = STATUS_CANCELLED;
        error = TASK_CANCELLED_ERROR;
        message = STR("cancelled");
    }
    t->phase = PHASE_ENDING;
    task_stop_run(t);
    list_remove(&t->in_wait);
    task_say_held(t);
    message = task_hide(t->hub, message, &clean);
    bool joined = !task_work(t)->said.has_final; /* its output is joined tokens, no answer */
    if (status == STATUS_COMPLETED && joined)
        put_final_answer(t);
    set_outcome(t, status, error, message, joined);
    task_close_inbox(t);
    task_close_questions(t);
    put_terminal(t, message);
    struct str output = t->work->outcome->output;
    if (task_talks(t) && output.n)
        put_task_answer(t, output, status != STATUS_COMPLETED);
    touch_conversation(t, false, false);
    struct task_record rec = task_staged(t);
    notice_stage(t, &rec);
    outbox_stage(t->hub, &rec);
    task_tell_hooks(t, outbox_type(&rec), &rec);
    task_stage(t);
    task_tell_parent(t, &rec); /* behind that, so that it is told of a task that has ended */
    journal_want_seal(&t->hub->journal, t->stream);
    buf_done(&clean);
}
