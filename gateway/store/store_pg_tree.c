/* The tree of a conversation's messages, as it is written (core/batch.h, enum message_place): step
 * by step as store_sqlite_tree.c has it, with what each step must know asked inside the batch's
 * transaction. */
#include "gateway/store/store_pg_private.h"

/* A conversation in the current transaction.  The texts are copies. */
struct pg_tree {
    struct store_pg *s;
    const struct op *op;
    struct arena_chunk *chunks;
    struct str tip, tip_task;
};

static void in_tree(struct pg_tree *t, struct pg_call *c, enum pg_stmt stmt)
{
    pg_begin(c, &t->s->writer, stmt);
    pg_text(c, t->op->owner);
    pg_text(c, t->op->conversation_id);
}

static struct str copy_of(struct pg_tree *t, const PGresult *r, int column)
{
    return arena_str(&t->chunks, pg_col(r, 0, column));
}

static bool has_row(int status, const PGresult *r)
{
    return status == STORE_OK && PQntuples(r) > 0;
}

/* The first row of a question about one thing: one text, NULL for none. */
static int tree_text(struct pg_tree *t, enum pg_stmt stmt, struct str about, struct str *ret)
{
    struct pg_call c;
    PGresult *r;
    in_tree(t, &c, stmt);
    pg_text(&c, about);
    int status = pg_ask_within(t->s, &c, &r);
    *ret = has_row(status, r) ? copy_of(t, r, 0) : STR_NULL;
    PQclear(r);
    return status;
}

static int tree_tip(struct pg_tree *t)
{
    struct pg_call c;
    PGresult *r;
    in_tree(t, &c, PG_TIP);
    int status = pg_ask_within(t->s, &c, &r);
    if (has_row(status, r)) {
        t->tip = copy_of(t, r, 0);
        t->tip_task = copy_of(t, r, 1);
    }
    PQclear(r);
    return status;
}

static void tree_set_tip(struct pg_tree *t, struct str tip, struct str task_id)
{
    struct pg_call c;
    in_tree(t, &c, PG_TIP_SET);
    pg_text(&c, tip);
    pg_text(&c, task_id);
    pg_send(&c);
    t->tip = tip;
    t->tip_task = task_id;
}

static int tree_newest_child(struct pg_tree *t, struct str parent_id, struct str *ret)
{
    struct pg_call c;
    PGresult *r;
    in_tree(t, &c, parent_id.p ? PG_CHILDREN : PG_FIRST_ONES);
    pg_text(&c, parent_id);
    pg_int(&c, 1);
    int status = pg_ask_within(t->s, &c, &r);
    *ret = has_row(status, r) ? copy_of(t, r, 0) : STR_NULL;
    PQclear(r);
    return status;
}

/* The newest message below that one, or of all when it is NULL. */
static int tree_tip_below(struct pg_tree *t, struct str id)
{
    struct str child, task_id = STR_NULL;
    int status;
    while ((status = tree_newest_child(t, id, &child)) == STORE_OK && child.p)
        id = child;
    if (status == STORE_OK && id.p)
        status = tree_text(t, PG_ANSWERER_OF, id, &task_id);
    if (status == STORE_OK)
        tree_set_tip(t, id, task_id);
    return status;
}

/* --- a message -------------------------------------------------------------------------------- */

static int tree_place(struct pg_tree *t, struct str id, struct str *ret_parent,
                      struct str *ret_behind, bool *ret)
{
    struct pg_call c;
    PGresult *r;
    in_tree(t, &c, PG_PLACE);
    pg_text(&c, id);
    int status = pg_ask_within(t->s, &c, &r);
    *ret = has_row(status, r);
    if (*ret && ret_parent) {
        *ret_parent = copy_of(t, r, 0);
        *ret_behind = copy_of(t, r, 1);
    }
    PQclear(r);
    return status;
}

static int tree_under(struct pg_tree *t, struct str *parent, struct str *behind, bool *ret)
{
    struct str answer = STR_NULL;
    int status = behind->p ? tree_text(t, PG_ANSWER_OF, *behind, &answer) : STORE_OK;
    if (status < 0)
        return status;
    *ret = answer.p != NULL;
    if (!answer.p)
        return tree_place(t, *parent, NULL, NULL, ret);
    *parent = answer;
    *behind = STR_NULL;
    return STORE_OK;
}

static int tree_as_answer(struct pg_tree *t, struct str *parent, bool *ret)
{
    struct str question;
    int status = tree_text(t, PG_QUESTION_OF, t->op->message->task_id, &question);
    *ret = false;
    if (status == STORE_OK && question.p)
        status = tree_place(t, question, NULL, NULL, ret);
    *parent = question;
    return status;
}

/* *ret: what the op names exists. */
static int tree_find_place(struct pg_tree *t, struct str *parent, struct str *behind, bool *ret)
{
    const struct message_record *m = t->op->message;
    *parent = m->parent_id;
    *behind = m->behind;
    *ret = false;
    switch (t->op->place) {
    case PLACE_TIP: return STORE_OK;
    case PLACE_UNDER: return tree_under(t, parent, behind, ret);
    case PLACE_BESIDE: return tree_place(t, m->parent_id, parent, behind, ret);
    case PLACE_ANSWER: return tree_as_answer(t, parent, ret);
    }
    UNREACHABLE();
}

static void tree_put_row(struct pg_tree *t, struct str parent, struct str behind)
{
    const struct message_record *m = t->op->message;
    struct pg_call c;
    in_tree(t, &c, PG_MESSAGE_NEW);
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
        return;
    in_tree(t, &c, PG_COME_BETWEEN);
    pg_text(&c, m->task_id);
    pg_text(&c, m->message_id);
    pg_text(&c, parent);
    pg_send(&c);
}

static bool is_one_place(struct str a, struct str b)
{
    return !a.p == !b.p && (!a.p || str_eq(a, b));
}

static int tree_siblings(struct pg_tree *t, struct str parent_id, struct buf *ret)
{
    struct pg_call c;
    PGresult *r;
    in_tree(t, &c, parent_id.p ? PG_CHILDREN : PG_FIRST_ONES);
    pg_text(&c, parent_id);
    pg_int(&c, MAX_SIBLINGS);
    int status = pg_ask_within(t->s, &c, &r);
    if (status == STORE_OK)
        pg_join_ids(r, ret);
    PQclear(r);
    return status;
}

static int tree_tell(struct pg_tree *t, const struct str *parent, bool turned)
{
    struct placed *to = t->op->placed;
    struct buf siblings = {0};
    arena_done(&to->chunks);
    *to = (struct placed){.turned = turned};
    to->tip = arena_str(&to->chunks, t->tip);
    to->tip_task = arena_str(&to->chunks, t->tip_task);
    if (!parent)
        return STORE_OK;
    to->parent_id = arena_str(&to->chunks, *parent);
    int status = tree_siblings(t, *parent, &siblings);
    if (siblings.len > t->op->message->message_id.n)
        to->siblings = arena_str(&to->chunks, buf_str(&siblings));
    buf_done(&siblings);
    return status;
}

/* The message is there; the tip follows. */
static void tree_move_tip(struct pg_tree *t, bool placed)
{
    const struct message_record *m = t->op->message;
    bool is_answer = m->role == ROLE_ASSISTANT;
    if (!placed || t->op->place != PLACE_ANSWER)
        tree_set_tip(t, m->message_id, is_answer ? STR_NULL : m->task_id);
    else if (t->tip_task.p && m->task_id.p && str_eq(t->tip_task, m->task_id))
        tree_set_tip(t, m->message_id, STR_NULL);
}

static int tree_put(struct pg_tree *t)
{
    const struct message_record *m = t->op->message;
    struct str parent, behind;
    bool placed;
    int status = tree_find_place(t, &parent, &behind, &placed);
    if (status < 0)
        return status;
    if (!placed) {
        parent = t->tip;
        behind = t->tip_task;
    }
    if (m->role == ROLE_ASSISTANT)
        behind = STR_NULL;
    bool turned = placed && t->op->place != PLACE_ANSWER && !is_one_place(parent, t->tip);
    tree_put_row(t, parent, behind);
    tree_move_tip(t, placed);
    return tree_tell(t, &parent, turned);
}

int pg_put_message(struct store_pg *s, const struct op *op)
{
    struct pg_tree t = {.s = s, .op = op};
    struct pg_call c;
    in_tree(&t, &c, PG_CONVERSATION_ENSURE);
    pg_int(&c, op->message->created_at);
    pg_send(&c);
    int status = tree_tip(&t);
    if (status == STORE_OK)
        status = tree_put(&t);
    arena_done(&t.chunks);
    return status;
}

/* --- another branch --------------------------------------------------------------------------- */

static int tree_branch_to(struct pg_tree *t)
{
    struct str tip = t->tip, tip_task = t->tip_task;
    int status = STORE_OK;
    if (t->op->task_id.p)
        tree_set_tip(t, t->op->key, t->op->task_id);
    else
        status = tree_tip_below(t, t->op->key);
    if (status < 0)
        return status;
    return tree_tell(t, NULL, !is_one_place(tip, t->tip) || !is_one_place(tip_task, t->tip_task));
}

int pg_put_branch(struct store_pg *s, const struct op *op)
{
    struct pg_tree t = {.s = s, .op = op};
    bool exists = false;
    int status = tree_place(&t, op->key, NULL, NULL, &exists);
    if (status == STORE_OK && exists)
        status = tree_tip(&t);
    if (status == STORE_OK && exists)
        status = tree_branch_to(&t);
    arena_done(&t.chunks);
    return status;
}

/* --- removing --------------------------------------------------------------------------------- */

struct pg_removed {
    struct str id, parent_id, behind, heir;
    bool is_answer;
};

static int tree_first_of_task(struct pg_tree *t, struct pg_removed *ret, bool *ret_none)
{
    struct pg_call c;
    PGresult *r;
    in_tree(t, &c, PG_MESSAGE_OF_TASK);
    pg_text(&c, t->op->task_id);
    int status = pg_ask_within(t->s, &c, &r);
    *ret = (struct pg_removed){0};
    *ret_none = !has_row(status, r);
    if (!*ret_none)
        *ret = (struct pg_removed){.id = copy_of(t, r, 0),
                                   .parent_id = copy_of(t, r, 1),
                                   .behind = copy_of(t, r, 2),
                                   .is_answer = pg_col_int(r, 0, 3) == ROLE_ASSISTANT};
    PQclear(r);
    return status;
}

static int tree_heir(struct pg_tree *t, struct pg_removed *m)
{
    struct pg_call c;
    PGresult *r;
    if (m->is_answer)
        return STORE_OK;
    in_tree(t, &c, PG_HEIR_OF);
    pg_text(&c, m->id);
    pg_text(&c, t->op->task_id);
    int status = pg_ask_within(t->s, &c, &r);
    m->heir = has_row(status, r) ? copy_of(t, r, 0) : STR_NULL;
    PQclear(r);
    return status;
}

static void tree_pass_on(struct pg_tree *t, const struct pg_removed *m)
{
    struct pg_call c;
    in_tree(t, &c, PG_MESSAGE_PASS);
    pg_text(&c, m->id);
    pg_text(&c, m->heir);
    pg_send(&c);
}

static int tree_cut_out(struct pg_tree *t, const struct pg_removed *m)
{
    struct pg_call c;
    in_tree(t, &c, PG_CHILDREN_MOVE);
    pg_text(&c, m->id);
    pg_text(&c, m->parent_id);
    pg_text(&c, m->behind);
    pg_send(&c);
    in_tree(t, &c, PG_MESSAGE_DELETE);
    pg_text(&c, m->id);
    pg_send(&c);
    int status = tree_tip(t);
    return status == STORE_OK && t->tip.p && str_eq(t->tip, m->id) ? tree_tip_below(t, m->parent_id)
                                                                   : status;
}

static int tree_remove(struct pg_tree *t, struct pg_removed *m)
{
    int status = tree_heir(t, m);
    if (status < 0 || !m->heir.p)
        return status < 0 ? status : tree_cut_out(t, m);
    tree_pass_on(t, m);
    return STORE_OK;
}

int pg_messages_of_task_remove(struct store_pg *s, const struct op *op)
{
    struct pg_tree t = {.s = s, .op = op};
    struct pg_removed m;
    bool none = false;
    int status = tree_first_of_task(&t, &m, &none);
    while (status == STORE_OK && !none) {
        status = tree_remove(&t, &m);
        if (status == STORE_OK)
            status = tree_first_of_task(&t, &m, &none);
    }
    arena_done(&t.chunks);
    return status;
}
