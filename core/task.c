#include "core/notice.h"

#include <stdio.h>
#include <stdlib.h>

static struct task *task_alloc(struct hub *h, struct conversation *c, struct owner *quota,
                               struct str agent)
{
    struct task *t = xcalloc(sizeof *t);
    t->agent = hub_find_agent(h, agent);
    t->agent_name = xstrdup(agent);
    t->hub = h;
    t->conversation = c;
    c->refs++;
    task_init_clocks(t);
    task_init_inbox(t);
    list_init(&t->questions);
    list_init(&t->enders);
    list_push(&c->tasks, &t->in_conversation);
    h->n_live++;
    t->quota = quota;
    quota->refs++;
    quota->n_live++;
    return t;
}

static struct str own(struct str s)
{
    return (struct str){xstrdup(s), s.n};
}

/* The owner's and the conversation's names and the id are borrowed from the stream. */
static void borrow_names(struct task *t)
{
    t->rec.owner = str_of(t->stream->owner);
    t->rec.conversation_id = str_of(t->stream->conversation_id);
    t->rec.task_id = (struct str){t->stream->task_id, TASK_ID_LEN};
    t->rec.agent = str_of(t->agent_name);
}

static void put_created_event(struct task *t)
{
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "agent", t->rec.agent);
    js_put_field(&data, "input", t->rec.input);
    if (t->rec.name.p)
        js_put_field(&data, "name", t->rec.name);
    if (t->rec.description.p)
        js_put_field(&data, "description", t->rec.description);
    buf_putc(&data, '}');
    task_event(t, EVENT_TASK_CREATED, buf_str(&data));
    buf_done(&data);
}

static void put_message(struct task *t, enum message_role role, struct str content, bool partial)
{
    conversation_say(t->conversation, &(struct message_record){.task_id = t->rec.task_id,
                                                               .content = content,
                                                               .role = role,
                                                               .partial = partial});
}

/* A chat names the conversation and its agent; it ends a row of turns that nobody asked for. */
static void touch_conversation(struct task *t, bool is_new)
{
    bool chats = is_new && t->rec.type == TYPE_CHAT;
    bool notices = is_new && t->rec.type == TYPE_NOTICE;
    struct str title = {t->rec.input.p, utf8_chars(t->rec.input, AUTO_TITLE_CHARS)};
    t->conversation->refs++;
    journal_put(&t->hub->journal, &(struct op){.kind = OP_CONVERSATION,
                                               .ref = t->conversation,
                                               .owner = t->rec.owner,
                                               .conversation_id = t->rec.conversation_id,
                                               .title = chats ? title : STR_NULL,
                                               .agent = chats ? t->rec.agent : STR_NULL,
                                               .turns = chats     ? TURNS_RESET
                                                        : notices ? TURNS_ADD
                                                                  : TURNS_KEEP,
                                               .at = t->hub->clock.wall_ms});
}

struct task *task_create(struct hub *h, const struct task_plan *plan)
{
    struct task *t = task_alloc(h, plan->conversation, plan->quota, str_of(plan->agent->name));
    char id[TASK_ID_LEN + 1];
    hub_new_id(h, id);
    t->rec = (struct task_record){.key = h->next_key++,
                                  .type = plan->type,
                                  .notify_on_complete = plan->notify_on_complete,
                                  .waits = plan->wait_for_others,
                                  .created_at = h->clock.wall_ms,
                                  .name = own(plan->name),
                                  .description = own(plan->description),
                                  .input = own(plan->input),
                                  .metadata = own(plan->metadata),
                                  .parent_task_id = own(plan->parent_task_id),
                                  .parent_call_id = own(plan->parent_call_id),
                                  .parent_run_id = own(plan->parent_task_id),
                                  .parent_agent_id = own(plan->parent_agent_id),
                                  .ancestors = own(plan->ancestors)};
    t->rec.state = (struct task_state){.status = STATUS_PENDING, .progress = -1, .first = 1};
    t->shown = t->rec.state;
    t->stream = hub_add_stream(h, str_of(plan->owner->name), str_of(plan->conversation->id),
                               (struct str){id, TASK_ID_LEN}, t->rec.key);
    t->stream->task = t;
    borrow_names(t);

    touch_conversation(t, true);
    t->refs++;
    journal_put(&h->journal, &(struct op){.kind = OP_TASK_NEW, .ref = t, .record = &t->rec});
    if (task_talks(t))
        put_message(t, t->rec.type == TYPE_NOTICE ? ROLE_SYSTEM : ROLE_USER, t->rec.input, false);
    if (plan->request_key.p)
        journal_put(&h->journal, &(struct op){.kind = OP_REQUEST_KEY,
                                              .owner = t->rec.owner,
                                              .conversation_id = t->rec.conversation_id,
                                              .task_id = t->rec.task_id,
                                              .key = plan->request_key,
                                              .at = h->clock.wall_ms});
    put_created_event(t);
    h->stats.tasks_started++;
    return t;
}

struct task *task_adopt(struct hub *h, const struct task_record *rec)
{
    struct owner *owner = owner_ref(h, rec->owner);
    struct conversation *c = conversation_ref(h, owner, rec->conversation_id);
    struct task *t = task_alloc(h, c, owner, rec->agent);
    conversation_unref(c);
    owner_unref(h, owner);
    t->rec = *rec;
    t->rec.name = own(rec->name);
    t->rec.description = own(rec->description);
    t->rec.input = own(rec->input);
    t->rec.metadata = own(rec->metadata);
    t->stream = hub_find_stream(h, rec->owner, rec->conversation_id, rec->task_id);
    if (!t->stream)
        t->stream = hub_add_stream(h, rec->owner, rec->conversation_id, rec->task_id, rec->key);
    t->stream->task = t;
    borrow_names(t);
    t->rec.parent_task_id = own(rec->parent_task_id);
    t->rec.parent_run_id = own(rec->parent_run_id);
    t->rec.parent_call_id = own(rec->parent_call_id);
    t->rec.parent_agent_id = own(rec->parent_agent_id);
    t->rec.ancestors = own(rec->ancestors);
    t->rec.state.waiting_for = STR_NULL; /* whoever asked is gone */
    t->rec.state.output = t->rec.state.result = t->rec.state.undelivered = STR_NULL;
    t->rec.state.error_message = t->rec.state.answers = STR_NULL;
    t->shown = t->rec.state;
    t->phase = rec->state.status == STATUS_PENDING ? PHASE_PENDING : PHASE_RUNNING;
    t->cancel_shown = rec->state.cancel_requested_at != 0;
    return t;
}

static void run_enders(struct task *t, int status)
{
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &t->enders);
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
    run_enders(t, STORE_IO); /* of a task that has not ended: the hub goes */
    task_stop_run(t);
    list_remove(&t->in_wait);
    list_remove(&t->in_conversation);
    feed_forget(&t->entry);
    task_free_inbox(t);
    task_free_questions(t);
    said_done(&t->said);
    free((char *)t->rec.name.p);
    free((char *)t->rec.description.p);
    free((char *)t->rec.input.p);
    free((char *)t->rec.metadata.p);
    free((char *)t->rec.parent_task_id.p);
    free((char *)t->rec.parent_run_id.p);
    free((char *)t->rec.parent_call_id.p);
    free((char *)t->rec.parent_agent_id.p);
    free((char *)t->rec.ancestors.p);
    free((char *)t->rec.state.error_message.p);
    free((char *)t->rec.state.output.p);
    free((char *)t->rec.state.undelivered.p);
    free((char *)t->rec.state.answers.p);
    free((char *)t->rec.state.waiting_for.p);
    free(t->shown_waiting_for);
    free(t->result);
    free(t->stop_text);
    free(t->agent_name);
    owner_unref(t->hub, t->quota);
    conversation_unref(t->conversation);
    free(t);
}

bool task_name_is_taken(const struct conversation *c, struct str name)
{
    list_each (it, &c->tasks) {
        const struct task *t = list_item(it, const struct task, in_conversation);
        if (t->rec.name.p && str_eq(name, t->rec.name))
            return true;
    }
    return false;
}

struct task_record task_view(const struct task *t)
{
    struct task_record view = t->rec;
    view.state = t->shown;
    view.state.head = t->stream->head;
    return view;
}

uint64_t task_event(struct task *t, enum event_type event, struct str data)
{
    size_t before = t->stream->tail.len;
    uint64_t seq = stream_append(t->stream, t->hub->clock.wall_ms, event, data);
    size_t bytes = t->stream->tail.len - before;
    t->bytes += bytes;
    t->heard_ms = t->hub->clock.now_ms;
    t->rec.state.head = seq;
    journal_dirty(&t->hub->journal, t->stream, bytes);
    return seq;
}

void task_stage(struct task *t)
{
    struct journal *j = &t->hub->journal;
    if (t->staged_in == j->building_number && j->building) {
        batch_set_state(j->building, &j->building->ops[t->staged_op], &t->rec.state);
        return;
    }
    t->refs++;
    journal_put(j,
                &(struct op){
                    .kind = OP_TASK_SET, .ref = t, .task_key = t->rec.key, .state = &t->rec.state});
    t->staged_in = j->building_number;
    t->staged_op = j->building->n_ops - 1;
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
    feed_put(&t->conversation->feed, &t->entry, STR_NULL, buf_str(&line));
    buf_done(&line);
}

void task_on_end(struct task *t, struct waiter *w)
{
    list_push(&t->enders, &w->node);
}

static void bury(struct task *t)
{
    t->phase = PHASE_ENDED;
    list_remove(&t->in_conversation);
    t->hub->n_live--;
    t->quota->n_live--;
    t->hub->notices_may_go = true; /* there is room for one more */
    list_remove(&t->in_wait);
    list_push(&t->hub->dead_tasks, &t->in_wait);
}

#define MAX_KEPT_SUMMARY 2048 /* bytes; a longer one is read from the store again */

/* The end is on disk: from here on the stream stands for the task. */
static void ended(struct task *t)
{
    struct stream *s = t->stream;
    struct conversation *c = t->conversation;
    s->ended = true;
    if (t->shown.status == STATUS_CANCELLED)
        histogram_add(&t->hub->stats.cancel_time,
                      t->shown.completed_at - t->shown.cancel_requested_at);
    t->hub->stats.tasks_ended[t->shown.status]++;
    announce(t);
    struct task_record view = task_view(t);
    struct buf summary = {0};
    task_write(&summary, &view, false);
    if (summary.len <= MAX_KEPT_SUMMARY)
        s->summary = xstrdup(buf_str(&summary));
    buf_done(&summary);
    s->task = NULL;
    bury(t);
    retention_look_at(&t->hub->retention, view.owner);
    task_tell_parent(t, &view);
    run_enders(t, 0);
    list_each (it, &c->tasks)
        task_try_start(list_item(it, struct task, in_conversation));
    notice_due(c);
    t->stream = NULL;
    hub_release_stream(t->hub, s);
}

static void show(struct task *t, const struct task_state *state)
{
    t->shown = *state;
    t->shown.error_message = t->rec.state.error_message;
    t->shown.output = t->rec.state.output;
    t->shown.result = t->rec.state.result;
    t->shown.undelivered = t->rec.state.undelivered;
    t->shown.answers = t->rec.state.answers;
    free(t->shown_waiting_for);
    t->shown_waiting_for = xstrdup(state->waiting_for);
    t->shown.waiting_for = (struct str){t->shown_waiting_for, state->waiting_for.n};
}

static void report(const struct task *t)
{
    const struct task_record *r = &t->rec;
    if (t->hub->o.reported)
        t->hub->o.reported(r->task_id, r->conversation_id, r->agent, t->shown.status,
                           t->shown.error);
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
    announce(t);
    task_try_start(t);
}

static void shown_set(struct task *t)
{
    if (status_is_terminal(t->shown.status)) {
        report(t);
        ended(t);
        return;
    }
    announce(t);
    bool cancel = t->shown.cancel_requested_at && !t->cancel_shown;
    t->cancel_shown = t->shown.cancel_requested_at != 0;
    if (cancel)
        task_stop(t, TASK_CANCELLED_ERROR, "cancelled");
    if (t->phase == PHASE_STARTING && t->shown.status == STATUS_RUNNING) {
        report(t);
        task_run(t);
    }
}

/* It never was: nobody has been told of it, and nothing of it is on disk. */
static void never_was(struct task *t)
{
    struct conversation *c = t->conversation;
    t->lost = true;
    t->stream->task = NULL; /* released when the journal has told it settled */
    t->stream = NULL;
    bury(t);
    run_enders(t, 0);
    list_each (it, &c->tasks) { /* who waited for it: in the next turn, when all is rolled back */
        struct task *other = list_item(it, struct task, in_conversation);
        if (other->phase == PHASE_PENDING && !list_is_in(&other->in_wait))
            list_push(&t->hub->waiting, &other->in_wait);
    }
    notice_due(c);
}

void task_op_done(struct task *t, const struct op *op, int status)
{
    t->refs--;
    if (t->lost || t->phase == PHASE_ENDED)
        return;
    if (op->kind == OP_INBOX_PUT) {
        if (status == 0)
            task_inbox_committed(t, op->first);
        else
            task_inbox_lost(t, op->first);
        return;
    }
    if (status == 0) {
        show(t, op->kind == OP_TASK_NEW ? &op->record->state : op->state);
        if (op->kind == OP_TASK_NEW)
            shown_new(t);
        else
            shown_set(t);
        return;
    }
    if (op->kind == OP_TASK_NEW) {
        never_was(t);
        return;
    }
    t->rec.state.status = t->shown.status;
    t->rec.state.cancel_requested_at = t->shown.cancel_requested_at;
}

void task_lost(struct task *t)
{
    if (t->phase == PHASE_ENDED || t->phase == PHASE_CREATING)
        return;
    t->phase = PHASE_RUNNING; /* an end that was staged is lost too */
    task_finish(t, STATUS_FAILED, TASK_INTERNAL,
                STR("internal: the store did not take what the task said"));
}

bool task_cancel(struct task *t)
{
    if (task_is_ending(t) || t->rec.state.cancel_requested_at)
        return false;
    t->rec.state.cancel_requested_at = t->hub->clock.wall_ms;
    task_stage(t);
    return true;
}

/* Text as a JSON string that leaves room for the rest of its line. */
static void put_output(struct buf *data, const char *key, struct str text, bool *truncated)
{
    size_t room = MAX_EVENT_LINE - MAX_OUTPUT - 16384;
    size_t start = data->len;
    for (size_t max = text.n; text.p; max = max / 4 * 3) {
        size_t n = utf8_cut(text, max);
        js_put_field(data, key, (struct str){text.p, n});
        *truncated = *truncated || n < text.n;
        if (data->len - start <= room)
            return;
        data->len = start;
    }
    js_put_field(data, key, STR_NULL);
}

static void put_terminal(struct task *t, struct str message)
{
    struct task_state *s = &t->rec.state;
    struct buf data = {0};
    buf_putc(&data, '{');
    if (s->status == STATUS_COMPLETED) {
        put_output(&data, "output", s->output, &s->output_truncated);
        js_put_raw(&data, "result", s->result.p ? s->result : STR("null"));
    } else {
        js_put_field(&data, "status", str_of(status_name(s->status)));
        js_put_raw(&data, "error", STR("{"));
        js_put_field(&data, "code", str_of(task_error_code(s->error)));
        js_put_field(&data, "message", message);
        buf_putc(&data, '}');
        put_output(&data, "output", s->output, &s->output_truncated);
    }
    if (s->status == STATUS_CANCELLED) {
        js_put_raw(&data, "cancel", STR("{"));
        js_put_int(&data, "requested_at", s->cancel_requested_at);
        js_put_int(&data, "stopped_at", t->stopped_wall_ms ? t->stopped_wall_ms : s->completed_at);
        buf_putc(&data, '}');
    }
    buf_putc(&data, '}');
    task_event(t, s->status == STATUS_COMPLETED ? EVENT_TASK_COMPLETED : EVENT_TASK_FAILED,
               buf_str(&data));
    buf_done(&data);
}

/* The agent that said no final answer has still answered: with all that it said. */
static void put_final_answer(struct task *t)
{
    struct buf data = {0};
    buf_putc(&data, '{');
    put_output(&data, "output", buf_str(&t->said.tokens), &t->said.tokens_cut);
    buf_putc(&data, '}');
    task_event(t, EVENT_FINAL_ANSWER, buf_str(&data));
    said_final(&t->said, buf_str(&t->said.tokens));
    buf_done(&data);
}

void task_finish(struct task *t, enum task_status status, enum task_error error, struct str message)
{
    if (task_is_ending(t))
        return;
    if (t->rec.state.cancel_requested_at) { /* whatever else has become of it */
        status = STATUS_CANCELLED;
        error = TASK_CANCELLED_ERROR;
        message = STR("cancelled");
    }
    t->phase = PHASE_ENDING;
    task_stop_run(t);
    list_remove(&t->in_wait);
    bool joined = !t->said.has_final; /* the output is not the agent's own, but what it said */
    if (status == STATUS_COMPLETED && joined)
        put_final_answer(t);
    struct task_state *s = &t->rec.state;
    free((char *)s->output.p);
    free((char *)s->error_message.p);
    free((char *)s->waiting_for.p);
    s->status = status;
    s->error = error;
    s->error_message = own(message);
    s->output = own(said_output(&t->said));
    s->output_truncated = joined && t->said.tokens_cut;
    s->result = str_of(t->result);
    s->waiting_for = STR_NULL;
    s->completed_at = t->hub->clock.wall_ms;
    if (status == STATUS_COMPLETED)
        s->progress = 1;
    task_close_inbox(t);
    task_close_questions(t);
    put_terminal(t, message);
    if (task_talks(t) && s->output.n)
        put_message(t, ROLE_ASSISTANT, s->output, status != STATUS_COMPLETED);
    touch_conversation(t, false);
    notice_stage(t);
    outbox_stage(t->hub, &t->rec);
    task_stage(t);
    journal_want_seal(&t->hub->journal, t->stream);
}
