/* The rows that a conversation's tree asks about (message_tree.h), inside a batch's transaction:
 * what is written is queued, what is asked goes behind that. */
#include "gateway/store/store_pg_private.h"

static void pg_tree_begin(struct message_tree *t, struct pg_call *c, enum pg_stmt stmt)
{
    struct store_pg *s = t->store;
    pg_begin(c, &s->writer, stmt);
    pg_text(c, t->op->owner);
    pg_text(c, t->op->conversation_id);
}

static struct str pg_tree_take(struct message_tree *t, const PGresult *r, int column)
{
    return arena_str(&t->chunks, pg_col(r, 0, column));
}

/* Asks; *ret has one row or more, or is NULL. */
static int pg_tree_ask(struct message_tree *t, struct pg_call *c, PGresult **ret)
{
    int status = pg_ask_within(t->store, c, ret);
    if (status == STORE_OK && PQntuples(*ret) > 0)
        return STORE_OK;
    PQclear(*ret);
    *ret = NULL;
    return status;
}

enum pg_stmt pg_tree_stmt(enum tree_text what, struct str about)
{
    switch (what) {
    case TREE_QUESTION_OF: return PG_QUESTION_OF;
    case TREE_ANSWER_OF: return PG_ANSWER_OF;
    case TREE_ANSWERER_OF: return PG_ANSWERER_OF;
    case TREE_PARENT_OF: return PG_PLACE;
    case TREE_NEWEST_BELOW: return about.p ? PG_CHILDREN : PG_FIRST_ONES;
    }
    UNREACHABLE();
}

static const struct pg_answers *answers_of(const struct message_tree *t)
{
    return &((const struct store_pg *)t->store)->answers;
}

static bool is_known_question(const struct message_tree *t, struct str id)
{
    struct str question;
    return id.p && pg_answer_question(answers_of(t), &question) && str_eq(question, id);
}

static int pg_tree_text(struct message_tree *t, enum tree_text what, struct str about,
                        struct str *ret)
{
    struct pg_call c;
    PGresult *r;
    if (what == TREE_QUESTION_OF && pg_answer_question(answers_of(t), ret))
        return STORE_OK;
    pg_tree_begin(t, &c, pg_tree_stmt(what, about));
    pg_text(&c, about);
    if (what == TREE_NEWEST_BELOW)
        pg_int(&c, 1);
    int status = pg_tree_ask(t, &c, &r);
    *ret = r ? pg_tree_take(t, r, 0) : STR_NULL;
    PQclear(r);
    return status;
}

static int pg_tree_read_tip(struct message_tree *t)
{
    struct pg_call c;
    PGresult *r;
    if (pg_answer_tip(answers_of(t), &t->tip, &t->tip_task))
        return STORE_OK;
    pg_tree_begin(t, &c, PG_TIP);
    int status = pg_tree_ask(t, &c, &r);
    if (r) {
        t->tip = pg_tree_take(t, r, 0);
        t->tip_task = pg_tree_take(t, r, 1);
    }
    PQclear(r);
    return status;
}

static int pg_tree_write_tip(struct message_tree *t)
{
    struct pg_call c;
    pg_tree_begin(t, &c, PG_TIP_SET);
    pg_text(&c, t->tip);
    pg_text(&c, t->tip_task);
    pg_send(&c);
    return STORE_OK;
}

static int pg_tree_place(struct message_tree *t, struct str id, struct str *ret_parent,
                         struct str *ret_behind, bool *ret)
{
    struct pg_call c;
    PGresult *r;
    *ret = is_known_question(t, id);
    if (*ret) { /* nobody asks where that is */
        *ret_parent = *ret_behind = STR_NULL;
        return STORE_OK;
    }
    pg_tree_begin(t, &c, PG_PLACE);
    pg_text(&c, id);
    int status = pg_tree_ask(t, &c, &r);
    *ret = r != NULL;
    if (r) {
        *ret_parent = pg_tree_take(t, r, 0);
        *ret_behind = pg_tree_take(t, r, 1);
    }
    PQclear(r);
    return status;
}

static int pg_tree_put(struct message_tree *t, struct str parent, struct str behind)
{
    const struct message_record *m = t->op->message;
    struct pg_call c;
    pg_tree_begin(t, &c, PG_MESSAGE_NEW);
    pg_text(&c, m->message_id);
    pg_text(&c, m->task_id);
    pg_int(&c, m->role);
    pg_int(&c, m->partial);
    pg_int(&c, m->created_at);
    pg_text(&c, m->content);
    pg_text(&c, parent);
    pg_text(&c, behind);
    pg_send(&c);
    if (m->role != ROLE_ASSISTANT || !m->task_id.p)
        return STORE_OK;
    pg_tree_begin(t, &c, PG_COME_BETWEEN);
    pg_text(&c, m->task_id);
    pg_text(&c, m->message_id);
    pg_text(&c, parent);
    pg_send(&c);
    return STORE_OK;
}

static int pg_tree_siblings(struct message_tree *t, struct str parent_id, struct buf *ret)
{
    struct pg_call c;
    PGresult *r;
    if (is_known_question(t, parent_id)) {
        buf_putstr(ret, t->op->message->message_id);
        return STORE_OK;
    }
    pg_tree_begin(t, &c, parent_id.p ? PG_CHILDREN : PG_FIRST_ONES);
    pg_text(&c, parent_id);
    pg_int(&c, MAX_SIBLINGS);
    int status = pg_tree_ask(t, &c, &r);
    if (r)
        pg_join_ids(r, ret);
    PQclear(r);
    return status;
}

static int pg_tree_first_of_task(struct message_tree *t, struct tree_removed *ret)
{
    struct pg_call c;
    PGresult *r;
    pg_tree_begin(t, &c, PG_MESSAGE_OF_TASK);
    pg_text(&c, t->op->task_id);
    int status = pg_tree_ask(t, &c, &r);
    if (r)
        *ret = (struct tree_removed){.id = pg_tree_take(t, r, 0),
                                     .parent_id = pg_tree_take(t, r, 1),
                                     .behind = pg_tree_take(t, r, 2),
                                     .is_answer = pg_col_int(r, 0, 3) == ROLE_ASSISTANT};
    PQclear(r);
    return status;
}

static int pg_tree_find_heir(struct message_tree *t, struct tree_removed *m)
{
    struct pg_call c;
    PGresult *r;
    pg_tree_begin(t, &c, PG_HEIR_OF);
    pg_text(&c, m->id);
    pg_text(&c, t->op->task_id);
    int status = pg_tree_ask(t, &c, &r);
    m->heir = r ? pg_tree_take(t, r, 0) : STR_NULL;
    PQclear(r);
    return status;
}

static int pg_tree_pass_on(struct message_tree *t, const struct tree_removed *m)
{
    struct pg_call c;
    pg_tree_begin(t, &c, PG_MESSAGE_PASS);
    pg_text(&c, m->id);
    pg_text(&c, m->heir);
    pg_send(&c);
    return STORE_OK;
}

static int pg_tree_cut_out(struct message_tree *t, const struct tree_removed *m)
{
    struct pg_call c;
    pg_tree_begin(t, &c, PG_CHILDREN_MOVE);
    pg_text(&c, m->id);
    pg_text(&c, m->parent_id);
    pg_text(&c, m->behind);
    pg_send(&c);
    pg_tree_begin(t, &c, PG_MESSAGE_DELETE);
    pg_text(&c, m->id);
    pg_send(&c);
    return STORE_OK;
}

static const struct tree_rows pg_tree_rows = {
    .text = pg_tree_text,
    .read_tip = pg_tree_read_tip,
    .write_tip = pg_tree_write_tip,
    .place = pg_tree_place,
    .put = pg_tree_put,
    .siblings = pg_tree_siblings,
    .first_of_task = pg_tree_first_of_task,
    .find_heir = pg_tree_find_heir,
    .pass_on = pg_tree_pass_on,
    .cut_out = pg_tree_cut_out,
};

int pg_put_message(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_CONVERSATION_ENSURE);
    pg_text(&c, op->owner);
    pg_text(&c, op->conversation_id);
    pg_int(&c, op->message->created_at);
    pg_send(&c);
    return message_tree_put(&pg_tree_rows, s, op);
}

int pg_put_branch(struct store_pg *s, const struct op *op)
{
    return message_tree_branch(&pg_tree_rows, s, op);
}

int pg_messages_of_task_remove(struct store_pg *s, const struct op *op)
{
    return message_tree_remove(&pg_tree_rows, s, op);
}
