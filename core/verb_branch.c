/* branch: the branch of the conversation that all readers get. */
#include "core/call.h"

static void on_branch_chosen(const struct op *op, int status)
{
    struct call *c = op->ref;
    if (status < 0)
        return; /* the waiter is told too */
    conversation_tell_branch(c->conversation, op->placed);
    reply_begin(c, &c->out, "branch");
    js_put_field(&c->out, "conversation_id", op->conversation_id);
    js_put_field(&c->out, "message_id", op->placed->tip);
    if (op->placed->tip_task.p)
        js_put_field(&c->out, "task_id", op->placed->tip_task);
    buf_putc(&c->out, '}');
}

static void on_branch_written(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0) {
        call_write_failed(c);
        return;
    }
    struct buf reply = c->out;
    c->out = (struct buf){0};
    call_reply(c, buf_str(&reply));
    buf_done(&reply);
}

/* A task's id means its answer, or its question with the task at work on it. */
static void branch_choose(struct call *c, const struct message_record *m)
{
    struct str id = c->req.message_id;
    bool is_question = !str_eq(m->message_id, id) && m->role != ROLE_ASSISTANT;
    journal_put(&c->hub->journal, &(struct op){.kind = OP_BRANCH,
                                               .done = on_branch_chosen,
                                               .ref = c,
                                               .owner = str_of(c->owner->name),
                                               .conversation_id = c->req.conversation_id,
                                               .key = m->message_id,
                                               .task_id = is_question ? id : STR_NULL});
    call_wait(c, on_branch_written);
}

static void on_branch_turn(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    bool is_gone = c->conversation->deletions != c->n || c->conversation->deleting;
    const struct message_record *m = status == 0 ? turn_find(answer, c->req.message_id) : NULL;
    if (status < 0 && status != STORE_NOT_FOUND)
        call_store_failed(c, status);
    else if (!m || is_gone)
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_MESSAGE);
    else
        branch_choose(c, m);
}

void verb_branch(struct call *c)
{
    c->conversation = conversation_ref(c->hub, c->owner, c->req.conversation_id);
    c->n = c->conversation->deletions;
    call_query(c,
               &(struct query){.kind = QUERY_TURN,
                               .conversation_id = c->req.conversation_id,
                               .key = c->req.message_id},
               on_branch_turn);
}
