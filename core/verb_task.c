/* The requests about one task.  All look it up by (owner, conversation, task), and a task that this
 * owner cannot see gets one answer (promise 5). */
#include "core/call.h"
#include "core/session.h"

static struct stream *verb_task_find(struct call *c)
{
    return hub_find_stream(c->hub, str_of(c->owner->name), c->req.conversation_id, c->req.task_id);
}

void call_ask_task(struct call *c, store_query_fn done)
{
    call_query(c,
               &(struct query){.kind = QUERY_TASK,
                               .conversation_id = c->req.conversation_id,
                               .task_id = c->req.task_id},
               done);
}

/* True when the call is over: the task does not exist, or cannot be looked up. */
bool call_is_absent(struct call *c, int status)
{
    if (status == 0)
        return false;
    if (status == STORE_NOT_FOUND)
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_TASK);
    else
        call_store_failed(c, status);
    return true;
}

/* The record was read while the task was live, and it has ended since: it is read again.  True when
 * the answer is used up. */
static bool is_stale(struct call *c, const struct stream *s, const struct task_record *task,
                     store_query_fn done)
{
    if ((s && s->task) || status_is_terminal(task->state.status))
        return false;
    if (call_may_ask_again(c, task))
        call_ask_task(c, done);
    else
        call_fail(c, ERR_INTERNAL, STALE_RECORD);
    return true;
}

/* For a task without a stream in memory: it is not live, and nobody else reads it. */
static struct stream *add_stream(struct call *c, const struct task_record *task)
{
    struct stream *s =
        hub_add_stream(c->hub, task->owner, task->conversation_id, task->task_id, task->key);
    stream_set(s, task->state.first, task->state.head, true);
    return s;
}

/* --- resume ----------------------------------------------------------------------------------- */

static void count_resume(struct hub *h, enum resume_plan plan, bool coalesce)
{
    if (plan == RESUME_GAP)
        h->stats.resumes_gap++;
    else if (coalesce)
        h->stats.resumes_coalesced++;
    else
        h->stats.resumes_exact++;
}

static void refuse_ahead(struct call *c, const struct stream *s)
{
    struct buf line = {0};
    c->hub->stats.resumes_ahead++;
    error_line(&line, ERR_OUT_OF_RANGE, c->req.id,
               c->req.after > s->head ? "\"after\" is beyond the task's newest event"
                                      : "\"after\" is of a history that the store has lost",
               -1, (int64_t)s->head);
    call_finish(c, ERR_OUT_OF_RANGE, buf_str(&line));
    buf_done(&line);
}

/* The cursor may be of a history that the store has lost since; in what it has now, the number may
 * be another event's.  Whoever has none, or says when it was told, is asked no more. */
static bool is_of_lost_history(const struct call *c, const struct stream *s)
{
    const struct hub *h = c->hub;
    return c->req.after > 0 && c->req.epoch < (uint64_t)h->epoch && s->task_key >> 32 < h->epoch;
}

/* Bounds, plan and subscription in one turn: nothing can slip between (promise 1). */
static void attach(struct call *c, struct stream *s, struct str summary)
{
    struct stream_bounds have = stream_bounds(s);
    enum resume_plan plan = resume_decide(c->req.after, have);
    if (plan == RESUME_AHEAD || is_of_lost_history(c, s)) {
        refuse_ahead(c, s);
        return;
    }
    if (c->session && !session_may_follow(c->session, s)) {
        c->hub->stats.limit_hits[LIMIT_SUBSCRIPTIONS]++;
        call_fail(c, ERR_OVERLOADED, FOLLOWS_TOO_MUCH);
        return;
    }
    count_resume(c->hub, plan, c->req.coalesce);
    struct buf line = {0};
    reply_begin(c, &line, "resumed");
    js_put_raw(&line, "task", summary);
    js_put_int(&line, "after", (int64_t)c->req.after);
    js_put_int(&line, "head", (int64_t)have.head);
    if (plan == RESUME_GAP)
        js_put_int(&line, "first", (int64_t)have.first);
    if (c->hub->epoch)
        js_put_int(&line, "epoch", c->hub->epoch);
    buf_putc(&line, '}');
    if (c->session) {
        uint64_t after = plan == RESUME_GAP ? have.first - 1 : c->req.after;
        struct subscription *sub = session_subscribe(c->session, s, after);
        sub->coalesce = c->req.coalesce;
        subscription_roll_up(sub, (uint32_t)c->req.rollup_ms);
        sub->marks = true;
        sub->caught_up_at = have.head;
    }
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

static void on_resume(void *arg, int status, struct answer *answer);

static void on_resume_settled(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0)
        call_read_failed(c);
    else
        call_ask_task(c, on_resume);
}

/* The task or its events are being removed, or were since the record was read: it is read again
 * when the removal is on disk. */
static bool is_taken(struct call *c, const struct task_record *task)
{
    if (!retention_has_taken(&c->hub->retention, task))
        return false;
    if (!hub_can_write(c->hub)) /* whether it is removed is not decided */
        call_read_failed(c);
    else if (call_may_ask_again(c, task))
        call_wait(c, on_resume_settled);
    else
        call_fail(c, ERR_INTERNAL, STALE_RECORD);
    return true;
}

static void on_resume(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status == STORE_NOT_FOUND)
        c->hub->stats.resumes_refused++;
    if (call_is_absent(c, status))
        return;
    const struct task_record *task = &answer->tasks[0];
    struct stream *s = verb_task_find(c); /* may have become known during the look-up */
    if ((!s && is_taken(c, task)) || is_stale(c, s, task, on_resume))
        return;
    if (!s)
        s = add_stream(c, task);
    struct task_record view = s->task ? task_view(s->task) : *task;
    struct hub *h = c->hub;
    struct buf summary = {0};
    task_write(&summary, &view, false);
    s->pins++;
    attach(c, s, buf_str(&summary));
    s->pins--;
    hub_release_stream(h, s);
    buf_done(&summary);
}

void verb_resume(struct call *c)
{
    struct stream *s = verb_task_find(c);
    if (!s || (!s->task && !s->summary)) {
        call_ask_task(c, on_resume);
        return;
    }
    if (s->task && s->task->phase == PHASE_CREATING) { /* not committed: it does not exist yet */
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_TASK);
        return;
    }
    struct buf summary = {0};
    if (s->task) {
        struct task_record view = task_view(s->task);
        task_write(&summary, &view, false);
    } else {
        buf_puts(&summary, s->summary);
    }
    attach(c, s, buf_str(&summary));
    buf_done(&summary);
}

/* --- unsubscribe ------------------------------------------------------------------------------ */

static void on_unsubscribe(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (!call_is_absent(c, status))
        call_ok(c);
}

void verb_unsubscribe(struct call *c)
{
    struct stream *s = verb_task_find(c);
    if (s && s->task && s->task->phase == PHASE_CREATING)
        s = NULL;
    if (!s) {
        call_ask_task(c, on_unsubscribe);
        return;
    }
    if (c->session)
        session_unsubscribe(c->session, s);
    call_ok(c);
}

/* --- task ------------------------------------------------------------------------------------- */

static void reply_task(struct call *c, const struct task_record *task)
{
    struct buf line = {0};
    reply_begin(c, &line, "task");
    js_put_raw(&line, "task", STR(""));
    task_write(&line, task, false);
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

struct task *call_live_task(struct call *c)
{
    struct stream *s = verb_task_find(c);
    return s && s->task && s->task->phase != PHASE_CREATING ? s->task : NULL;
}

static void verb_task_on_task(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (call_is_absent(c, status))
        return;
    if (is_stale(c, verb_task_find(c), &answer->tasks[0], verb_task_on_task))
        return;
    struct task *t = call_live_task(c);
    struct task_record view = t ? task_view(t) : answer->tasks[0];
    reply_task(c, &view);
}

void verb_task(struct call *c)
{
    struct task *t = call_live_task(c);
    if (!t) {
        call_ask_task(c, verb_task_on_task);
        return;
    }
    struct task_record view = task_view(t);
    reply_task(c, &view);
}

/* --- cancel, cancel_all ----------------------------------------------------------------------- */

static void on_cancelled(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0) {
        call_write_failed(c);
        return;
    }
    struct buf line = {0};
    reply_begin(c, &line, "ok");
    js_put_int(&line, "cancelled", c->n);
    js_put_raw(&line, "task_ids", STR("["));
    buf_putstr(&line, buf_str(&c->out));
    buf_puts(&line, "]}");
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

/* The reply waits until everything staged so far is on disk: this intent, an earlier one, or the
 * completion that came first. */
static void wait_for_cancel(struct call *c)
{
    call_wait(c, on_cancelled);
}

static void cancel_tree(struct call *c)
{
    struct conversation *conversation =
        conversation_find(c->hub, str_of(c->owner->name), c->req.conversation_id);
    if (conversation)
        c->n = task_cancel_tree(conversation, c->req.task_id, c->req.actor, &c->out);
}

static void on_cancel(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (call_is_absent(c, status))
        return;
    if (c->req.tree) /* it has ended, but its descendants may be live */
        cancel_tree(c);
    wait_for_cancel(c);
}

void verb_cancel(struct call *c)
{
    struct task *t = call_live_task(c);
    if (!t) {
        call_ask_task(c, on_cancel);
        return;
    }
    if (c->req.tree)
        cancel_tree(c);
    else
        c->n = task_cancel_told(t, c->req.actor, &c->out);
    wait_for_cancel(c);
}

void verb_cancel_all(struct call *c)
{
    struct conversation *conversation =
        conversation_find(c->hub, str_of(c->owner->name), c->req.conversation_id);
    if (conversation)
        list_each (it, &conversation->tasks) {
            struct task *t = list_item(it, struct task, in_conversation);
            c->n += task_cancel_told(t, c->req.actor, &c->out);
        }
    wait_for_cancel(c);
}

/* --- send, respond ---------------------------------------------------------------------------- */

static void on_send(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (!call_is_absent(c, status))
        call_fail(c, ERR_TASK_TERMINATED, "the task has ended");
}

static const char *why_not_sent(enum error e)
{
    return e == ERR_TASK_TERMINATED ? "the task has ended"
           : e == ERR_NO_INBOX      ? "the task accepts no messages"
                                    : "the task's inbox is full";
}

void verb_send(struct call *c)
{
    struct task *t = call_live_task(c);
    if (!t) {
        call_ask_task(c, on_send);
        return;
    }
    enum error e = task_send(t, STR("user"), c->req.actor, c->req.content, STR_NULL);
    if (e)
        call_fail(c, e, why_not_sent(e));
    else
        call_wait_ok(c);
}

static void on_respond(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (call_is_absent(c, status))
        return;
    if (is_stale(c, verb_task_find(c), &answer->tasks[0], on_respond))
        return;
    const char *why;
    enum error e = question_respond_late(answer->tasks[0].state.answers, &c->req, &why);
    if (e)
        call_fail(c, e, why);
    else
        call_ok(c);
}

void verb_respond(struct call *c)
{
    struct task *t = call_live_task(c);
    if (!t) {
        call_ask_task(c, on_respond);
        return;
    }
    const char *why;
    enum error e = task_respond(t, &c->req, &why);
    if (e)
        call_fail(c, e, why);
    else
        call_wait_ok(c);
}
