/* The tree of a conversation's messages, as it is written (core/batch.h, enum message_place). */
#include "gateway/store/store_sqlite_private.h"

/* A conversation in the current transaction.  The texts are copies: SQLite's own last until the
 * next step. */
struct tree {
    struct store_sqlite *s;
    const struct op *op;
    struct arena_chunk *chunks;
    struct str tip, tip_task;
};

static struct sql_call tree_begin(struct tree *t, enum stmt stmt)
{
    struct sql_call c = sql_begin(&t->s->writer, stmt);
    sql_text(&c, t->op->owner);
    sql_text(&c, t->op->conversation_id);
    return c;
}

static struct str tree_take(struct tree *t, const struct sql_call *c, int column)
{
    return arena_str(&t->chunks, sql_col(c, column));
}

/* The first row of a question about one thing: one text, NULL for none. */
static int ask_text(struct tree *t, enum stmt stmt, struct str about, struct str *ret)
{
    struct sql_call c = tree_begin(t, stmt);
    sql_text(&c, about);
    *ret = sql_step(&c) ? tree_take(t, &c, 0) : STR_NULL;
    return sql_end(&c);
}

static int read_tip(struct tree *t)
{
    struct sql_call c = tree_begin(t, STMT_TIP);
    if (sql_step(&c)) {
        t->tip = tree_take(t, &c, 7);
        t->tip_task = tree_take(t, &c, 8);
    }
    return sql_end(&c);
}

static int set_tip(struct tree *t, struct str tip, struct str task_id)
{
    struct sql_call c = tree_begin(t, STMT_TIP_SET);
    sql_text(&c, tip);
    sql_text(&c, task_id);
    t->tip = tip;
    t->tip_task = task_id;
    return sql_run(&c);
}

static int newest_child(struct tree *t, struct str parent_id, struct str *ret)
{
    struct sql_call c = tree_begin(t, parent_id.p ? STMT_CHILDREN : STMT_FIRST_ONES);
    sql_text(&c, parent_id);
    sql_int(&c, 1);
    *ret = sql_step(&c) ? tree_take(t, &c, 0) : STR_NULL;
    return sql_end(&c);
}

/* The newest message below that one, or of all when it is NULL. */
static int set_tip_below(struct tree *t, struct str id)
{
    struct str child, task_id = STR_NULL;
    int status;
    while ((status = newest_child(t, id, &child)) == STORE_OK && child.p)
        id = child;
    if (status == STORE_OK && id.p)
        status = ask_text(t, STMT_ANSWERER_OF, id, &task_id);
    return status == STORE_OK ? set_tip(t, id, task_id) : status;
}

/* --- a message -------------------------------------------------------------------------------- */

static int place_of(struct tree *t, struct str id, struct str *ret_parent, struct str *ret_behind,
                    bool *ret)
{
    struct sql_call c = tree_begin(t, STMT_PLACE);
    sql_text(&c, id);
    *ret = sql_step(&c);
    if (*ret && ret_parent) {
        *ret_parent = tree_take(t, &c, 0);
        *ret_behind = tree_take(t, &c, 1);
    }
    return sql_end(&c);
}

static int place_under(struct tree *t, struct str *parent, struct str *behind, bool *ret)
{
    struct str answer = STR_NULL;
    int status = behind->p ? ask_text(t, STMT_ANSWER_OF, *behind, &answer) : STORE_OK;
    if (status < 0)
        return status;
    *ret = answer.p != NULL;
    if (!answer.p)
        return place_of(t, *parent, NULL, NULL, ret);
    *parent = answer;
    *behind = STR_NULL;
    return STORE_OK;
}

static int place_as_answer(struct tree *t, struct str *parent, bool *ret)
{
    struct str question;
    int status = ask_text(t, STMT_QUESTION_OF, t->op->message->task_id, &question);
    *ret = false;
    if (status == STORE_OK && question.p)
        status = place_of(t, question, NULL, NULL, ret);
    *parent = question;
    return status;
}

/* *ret: what the op names exists. */
static int find_place(struct tree *t, struct str *parent, struct str *behind, bool *ret)
{
    const struct message_record *m = t->op->message;
    *parent = m->parent_id;
    *behind = m->behind;
    *ret = false;
    switch (t->op->place) {
    case PLACE_TIP: return STORE_OK;
    case PLACE_UNDER: return place_under(t, parent, behind, ret);
    case PLACE_BESIDE: return place_of(t, m->parent_id, parent, behind, ret);
    case PLACE_ANSWER: return place_as_answer(t, parent, ret);
    }
    UNREACHABLE();
}

static int put_row(struct tree *t, struct str parent, struct str behind)
{
    const struct message_record *m = t->op->message;
    struct sql_call c = tree_begin(t, STMT_MESSAGE_NEW);
    sql_text(&c, m->message_id);
    sql_text(&c, m->task_id);
    sql_int(&c, m->role);
    sql_int(&c, m->partial);
    sql_int(&c, m->created_at);
    sql_text(&c, m->content);
    sql_text(&c, parent);
    sql_text(&c, behind);
    return sql_run(&c);
}

static int come_between(struct tree *t, struct str question)
{
    struct sql_call c = tree_begin(t, STMT_COME_BETWEEN);
    sql_text(&c, t->op->message->task_id);
    sql_text(&c, t->op->message->message_id);
    sql_text(&c, question);
    return sql_run(&c);
}

static bool is_same_place(struct str a, struct str b)
{
    return !a.p == !b.p && (!a.p || str_eq(a, b));
}

static int put_placed(struct tree *t, const struct str *parent, bool turned)
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
    const struct query here = {.owner = t->op->owner, .conversation_id = t->op->conversation_id};
    int status = sqlite_ids_below(&t->s->writer, &here, *parent, &siblings);
    if (siblings.len > t->op->message->message_id.n)
        to->siblings = arena_str(&to->chunks, buf_str(&siblings));
    buf_done(&siblings);
    return status;
}

/* The message is there; the tip follows. */
static int move_tip(struct tree *t, bool placed)
{
    const struct message_record *m = t->op->message;
    bool is_answer = m->role == ROLE_ASSISTANT;
    if (!placed || t->op->place != PLACE_ANSWER)
        return set_tip(t, m->message_id, is_answer ? STR_NULL : m->task_id);
    if (t->tip_task.p && m->task_id.p && str_eq(t->tip_task, m->task_id))
        return set_tip(t, m->message_id, STR_NULL);
    return STORE_OK;
}

static int message_put(struct tree *t)
{
    const struct message_record *m = t->op->message;
    struct str parent, behind;
    bool placed;
    int status = find_place(t, &parent, &behind, &placed);
    if (status < 0)
        return status;
    if (!placed) {
        parent = t->tip;
        behind = t->tip_task;
    }
    if (m->role == ROLE_ASSISTANT)
        behind = STR_NULL;
    bool turned = placed && t->op->place != PLACE_ANSWER && !is_same_place(parent, t->tip);
    status = put_row(t, parent, behind);
    if (status == STORE_OK && m->role == ROLE_ASSISTANT && m->task_id.p)
        status = come_between(t, parent);
    if (status == STORE_OK)
        status = move_tip(t, placed);
    return status == STORE_OK ? put_placed(t, &parent, turned) : status;
}

int sqlite_message_put(struct store_sqlite *s, const struct op *op)
{
    struct tree t = {.s = s, .op = op};
    int status = read_tip(&t);
    if (status == STORE_OK)
        status = message_put(&t);
    arena_done(&t.chunks);
    return status;
}

/* --- another branch --------------------------------------------------------------------------- */

static int branch_to(struct tree *t)
{
    struct str tip = t->tip, tip_task = t->tip_task;
    int status =
        t->op->task_id.p ? set_tip(t, t->op->key, t->op->task_id) : set_tip_below(t, t->op->key);
    if (status < 0)
        return status;
    return put_placed(t, NULL,
                      !is_same_place(tip, t->tip) || !is_same_place(tip_task, t->tip_task));
}

int sqlite_branch(struct store_sqlite *s, const struct op *op)
{
    struct tree t = {.s = s, .op = op};
    bool exists = false;
    int status = place_of(&t, op->key, NULL, NULL, &exists);
    if (status == STORE_OK && exists)
        status = read_tip(&t);
    if (status == STORE_OK && exists)
        status = branch_to(&t);
    arena_done(&t.chunks);
    return status;
}

/* --- removing --------------------------------------------------------------------------------- */

struct removed {
    struct str id, parent_id, behind, heir;
    bool is_answer;
};

static int first_of_task(struct tree *t, struct removed *ret, bool *ret_none)
{
    struct sql_call c = tree_begin(t, STMT_MESSAGE_OF_TASK);
    sql_text(&c, t->op->task_id);
    *ret = (struct removed){0};
    *ret_none = !sql_step(&c);
    if (!*ret_none)
        *ret = (struct removed){.id = tree_take(t, &c, 0),
                                .parent_id = tree_take(t, &c, 1),
                                .behind = tree_take(t, &c, 2),
                                .is_answer = sql_col_int(&c, 3) == ROLE_ASSISTANT};
    return sql_end(&c);
}

static int find_heir(struct tree *t, struct removed *m)
{
    if (m->is_answer)
        return STORE_OK;
    struct sql_call c = tree_begin(t, STMT_HEIR_OF);
    sql_text(&c, m->id);
    sql_text(&c, t->op->task_id);
    m->heir = sql_step(&c) ? tree_take(t, &c, 0) : STR_NULL;
    return sql_end(&c);
}

static int pass_on(struct tree *t, const struct removed *m)
{
    struct sql_call c = tree_begin(t, STMT_MESSAGE_PASS);
    sql_text(&c, m->id);
    sql_text(&c, m->heir);
    return sql_run(&c);
}

static int cut_out(struct tree *t, const struct removed *m)
{
    struct sql_call c = tree_begin(t, STMT_CHILDREN_MOVE);
    sql_text(&c, m->id);
    sql_text(&c, m->parent_id);
    sql_text(&c, m->behind);
    int status = sql_run(&c);
    if (status < 0)
        return status;
    c = tree_begin(t, STMT_MESSAGE_DELETE);
    sql_text(&c, m->id);
    status = sql_run(&c);
    if (status == STORE_OK)
        status = read_tip(t);
    return status == STORE_OK && t->tip.p && str_eq(t->tip, m->id) ? set_tip_below(t, m->parent_id)
                                                                   : status;
}

int sqlite_messages_of_task_remove(struct store_sqlite *s, const struct op *op)
{
    struct tree t = {.s = s, .op = op};
    struct removed m;
    bool none = false;
    int status = first_of_task(&t, &m, &none);
    while (status == STORE_OK && !none) {
        status = find_heir(&t, &m);
        if (status == STORE_OK)
            status = m.heir.p ? pass_on(&t, &m) : cut_out(&t, &m);
        if (status == STORE_OK)
            status = first_of_task(&t, &m, &none);
    }
    arena_done(&t.chunks);
    return status;
}
