/* The requests that change a conversation as a whole: its title, its deletion, and
 * acknowledgements. */
#include "core/call.h"
#include "core/grant.h"
#include "core/schedule.h"

/* --- title ------------------------------------------------------------------------------------ */

static void ask_title(struct call *c);

unsigned call_flags(const struct call *c, enum maybe value)
{
    return (c->req.pinned == value ? CONVERSATION_PINNED : 0u) |
           (c->req.archived == value ? CONVERSATION_ARCHIVED : 0u);
}

static void on_title(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (c->conversation->deleting) {
        call_fail(c, ERR_CONFLICT, IS_BEING_DELETED);
        return;
    }
    if (c->conversation->deletions != c->n) { /* the answer may describe a deleted one */
        if (c->asked_again) {
            call_fail(c, ERR_CONFLICT, IS_BEING_DELETED);
            return;
        }
        c->asked_again = true;
        ask_title(c);
        return;
    }
    if (status == STORE_NOT_FOUND) {
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_CONVERSATION);
        return;
    }
    if (status < 0) {
        call_store_failed(c, status);
        return;
    }
    c->conversation->refs++;
    journal_put(&c->hub->journal,
                &(struct op){.kind = OP_CONVERSATION,
                             .force = true,
                             .done = conversation_op_done,
                             .ref = c->conversation,
                             .owner = str_of(c->owner->name),
                             .conversation_id = c->req.conversation_id,
                             .title = c->req.title,
                             .flags_set = call_flags(c, MAYBE_YES) |
                                          (c->req.title.p ? CONVERSATION_NAMED : 0u),
                             .flags_clear = call_flags(c, MAYBE_NO),
                             .at = c->req.title.p ? c->hub->clock.wall_ms : 0});
    call_wait_ok(c);
}

static void ask_title(struct call *c)
{
    c->n = c->conversation->deletions;
    call_query(
        c, &(struct query){.kind = QUERY_CONVERSATION, .conversation_id = c->req.conversation_id},
        on_title);
}

void verb_title(struct call *c)
{
    c->conversation = conversation_ref(c->hub, c->owner, c->req.conversation_id);
    ask_title(c);
}

/* A conversation that is only moved to another place has not changed. */
void verb_pin(struct call *c)
{
    verb_title(c);
}

void verb_archive(struct call *c)
{
    verb_title(c);
}

/* --- delete ----------------------------------------------------------------------------------- */

static void on_deleted(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    c->conversation->deleting = NULL;
    if (status == 0)
        conversation_deleted(c->conversation);
    retention_look_at(&c->hub->retention, str_of(c->owner->name));
    if (status < 0)
        call_write_failed(c);
    else
        call_ok(c);
}

/* All of its tasks have ended and are on disk as ended: now the whole conversation is removed. */
static void remove_it(struct call *c)
{
    schedules_forget(c->owner, c->req.conversation_id);
    grants_forget(c->owner, c->req.conversation_id);
    c->conversation->refs++;
    chat_files_end(c->hub, &(struct op){.kind = OP_CONVERSATION_DELETE,
                                        .done = conversation_op_done,
                                        .ref = c->conversation,
                                        .owner = str_of(c->owner->name),
                                        .conversation_id = c->req.conversation_id});
    call_wait(c, on_deleted);
}

/* Damage that hides whether it was listed does not prevent the removal. */
static void on_to_remove(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status == 0)
        c->conversation->unlisted = answer->conversations[0].unlisted;
    remove_it(c);
}

/* All of its tasks have ended and are on disk as ended: now the whole conversation is removed.
 * Watchers are told, unless they never knew of it, which cannot be found out afterwards. */
static void look_and_remove(struct call *c)
{
    if (!feed_has_readers(&c->owner->watch)) {
        remove_it(c);
        return;
    }
    call_query(
        c, &(struct query){.kind = QUERY_CONVERSATION, .conversation_id = c->req.conversation_id},
        on_to_remove);
}

static void check_ended(struct call *c)
{
    if (list_is_empty(&c->conversation->tasks))
        look_and_remove(c);
    else
        task_on_end(list_item(c->conversation->tasks.next, struct task, in_conversation),
                    &c->waiter);
}

static void give_up_delete(struct call *c)
{
    c->conversation->deleting = NULL;
    call_write_failed(c);
}

/* A task whose creation failed is as gone as one that has ended; a status means that the hub
 * ends. */
static void on_one_ended(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0)
        give_up_delete(c);
    else
        check_ended(c);
}

static void on_all_asked(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0) {
        give_up_delete(c);
        return;
    }
    c->waiter.done = on_one_ended;
    check_ended(c);
}

void verb_delete(struct call *c)
{
    c->conversation = conversation_ref(c->hub, c->owner, c->req.conversation_id);
    if (c->conversation->deleting || c->conversation->grafting) {
        call_fail(c, ERR_CONFLICT, c->conversation->deleting ? IS_BEING_DELETED : IS_BEING_MADE);
        return;
    }
    c->conversation->deleting = c;
    list_each (it, &c->conversation->tasks)
        (void)task_cancel(list_item(it, struct task, in_conversation), c->req.actor);
    call_wait(c, on_all_asked);
}

/* --- ack -------------------------------------------------------------------------------------- */

static void on_acked(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0) {
        call_write_failed(c);
        return;
    }
    struct buf line = {0};
    reply_begin(c, &line, "ok");
    js_put_int(&line, "acked", c->n);
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

static void ack_next(struct call *c);

static bool came_before(const struct request *r, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (str_eq(r->task_ids[i], r->task_ids[at]))
            return true;
    return false;
}

/* Counts only results that exist and were not acknowledged yet. */
static void on_ack(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status < 0 && status != STORE_NOT_FOUND) {
        call_store_failed(c, status);
        return;
    }
    const struct task_record *t = answer->n_tasks ? &answer->tasks[0] : NULL;
    if (t && t->type == TYPE_BACKGROUND && status_is_terminal(t->state.status) && !t->state.acked &&
        !came_before(&c->req, c->at)) {
        c->n++;
        journal_put(&c->hub->journal, &(struct op){.kind = OP_ACK,
                                                   .owner = str_of(c->owner->name),
                                                   .conversation_id = c->req.conversation_id,
                                                   .key = t->task_id});
    }
    c->at++;
    ack_next(c);
}

static void ack_next(struct call *c)
{
    if (c->at == c->req.n_task_ids) {
        call_wait(c, on_acked);
        return;
    }
    call_query(c,
               &(struct query){.kind = QUERY_TASK,
                               .conversation_id = c->req.conversation_id,
                               .task_id = c->req.task_ids[c->at]},
               on_ack);
}

void verb_ack(struct call *c)
{
    ack_next(c);
}
