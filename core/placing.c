/* Where a chat goes that does not go to the end of its conversation. */
#include <stdlib.h>

#include "core/call.h"

void placing_free(struct placing *p)
{
    if (!p)
        return;
    free(p->input);
    free(p->parts);
    free(p->agent);
    free(p);
}

const struct message_record *turn_find(const struct answer *answer, struct str id)
{
    for (size_t i = 0; i < answer->n_messages; i++)
        if (str_eq(answer->messages[i].message_id, id))
            return &answer->messages[i];
    return answer->n_messages ? &answer->messages[answer->n_messages - 1] : NULL;
}

static const struct message_record *question_of(const struct answer *answer)
{
    const struct message_record *first = answer->n_messages ? &answer->messages[0] : NULL;
    return first && first->role != ROLE_ASSISTANT ? first : NULL;
}

static void set_id(char to[TASK_ID_LEN + 1], struct str id)
{
    if (id.n == TASK_ID_LEN)
        memcpy(to, id.p, TASK_ID_LEN);
}

static bool is_live(const struct call *c, const struct answer *answer)
{
    const struct task_record *t = answer->n_tasks ? &answer->tasks[0] : NULL;
    const struct stream *s =
        t ? hub_find_stream(c->hub, t->owner, t->conversation_id, t->task_id) : NULL;
    return s && s->task;
}

/* --- what each of the three wants of the turn that it names ----------------------------------- */

/* Under a message; under what a task says, or will say. */
static enum error place_reply(struct call *c, const struct answer *answer, const char **ret_why)
{
    struct placing *p = c->placing;
    const struct message_record *m = turn_find(answer, c->req.reply_to);
    *ret_why = "\"reply_to\" names a task without a message";
    if (!m)
        return ERR_BAD_REQUEST;
    p->place = PLACE_UNDER;
    set_id(p->parent_id, m->message_id);
    if (!str_eq(m->message_id, c->req.reply_to) && m->role != ROLE_ASSISTANT)
        set_id(p->behind, c->req.reply_to);
    return ERR_NONE;
}

static enum error place_edit(struct call *c, const struct answer *answer, const char **ret_why)
{
    struct placing *p = c->placing;
    const struct message_record *named = turn_find(answer, c->req.edit);
    const struct message_record *m = question_of(answer);
    bool names_answer = named && named != m && str_eq(named->message_id, c->req.edit);
    *ret_why = "\"edit\" names no message of the user";
    if (!m || m->role != ROLE_USER || names_answer)
        return ERR_BAD_REQUEST;
    p->place = PLACE_BESIDE;
    set_id(p->parent_id, m->message_id);
    return ERR_NONE;
}

static enum error place_regenerate(struct call *c, const struct answer *answer,
                                   const char **ret_why)
{
    struct placing *p = c->placing;
    const struct message_record *question = question_of(answer);
    *ret_why = "\"regenerate\" names no answer, and no task of type chat or notice";
    if (!question || !answer->n_tasks || str_eq(question->message_id, c->req.regenerate))
        return ERR_BAD_REQUEST;
    *ret_why = "the task is still running";
    if (is_live(c, answer))
        return ERR_CONFLICT;
    set_id(p->question_id, question->message_id);
    p->input = xstrdup(question->content);
    p->parts = question->parts.p ? xstrdup(question->parts) : NULL;
    p->agent = xstrdup(answer->tasks[0].agent);
    return ERR_NONE;
}

static void on_turn(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    struct placing *p = c->placing;
    if (status == STORE_CORRUPT) {
        hub_tell_damage(c->hub, "", 0);
        p->refuse(c, ERR_INTERNAL, "this conversation's data in the store is damaged");
        return;
    }
    if (status < 0 && status != STORE_NOT_FOUND) {
        p->refuse(c, ERR_OVERLOADED, STORE_CANNOT_BE_READ);
        return;
    }
    const char *why = NO_SUCH_MESSAGE;
    enum error e = ERR_NOT_FOUND;
    bool is_gone = c->conversation->deletions != c->n || c->conversation->deleting;
    if (status == 0 && !is_gone)
        e = c->req.reply_to.p ? place_reply(c, answer, &why)
            : c->req.edit.p   ? place_edit(c, answer, &why)
                              : place_regenerate(c, answer, &why);
    if (e)
        p->refuse(c, e, why);
    else
        p->then(c);
}

void placing_find(struct call *c, void (*then)(struct call *c),
                  void (*refuse)(struct call *c, enum error e, const char *message))
{
    const struct request *r = &c->req;
    struct str id = r->reply_to.p ? r->reply_to : r->edit.p ? r->edit : r->regenerate;
    if (id.p || r->begin)
        c->placing = xcalloc(sizeof *c->placing);
    if (!id.p) {
        if (r->begin)
            c->placing->place = PLACE_ROOT;
        then(c);
        return;
    }
    c->placing->then = then;
    c->placing->refuse = refuse;
    c->n = c->conversation->deletions;
    call_query(
        c, &(struct query){.kind = QUERY_TURN, .conversation_id = r->conversation_id, .key = id},
        on_turn);
}
