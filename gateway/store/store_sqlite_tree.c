/* The rows that a conversation's tree asks about (message_tree.h), inside a batch's transaction. */
#include "gateway/store/store_sqlite_private.h"

static struct sql_call tree_begin(struct message_tree *t, enum stmt stmt)
{
    struct store_sqlite *s = t->store;
    struct sql_call c = sql_begin(&s->writer, stmt);
    sql_text(&c, t->op->owner);
    sql_text(&c, t->op->conversation_id);
    return c;
}

static struct str tree_take(struct message_tree *t, const struct sql_call *c, int column)
{
    return arena_str(&t->chunks, sql_col(c, column));
}

enum stmt sqlite_tree_stmt(enum tree_text what, struct str about)
{
    switch (what) {
    case TREE_QUESTION_OF: return STMT_QUESTION_OF;
    case TREE_ANSWER_OF: return STMT_ANSWER_OF;
    case TREE_ANSWERER_OF: return STMT_ANSWERER_OF;
    case TREE_PARENT_OF: return STMT_PLACE;
    case TREE_NEWEST_BELOW: return about.p ? STMT_CHILDREN : STMT_FIRST_ONES;
    }
    UNREACHABLE();
}

static int tree_text(struct message_tree *t, enum tree_text what, struct str about, struct str *ret)
{
    struct sql_call c = tree_begin(t, sqlite_tree_stmt(what, about));
    sql_text(&c, about);
    if (what == TREE_NEWEST_BELOW)
        sql_int(&c, 1);
    *ret = sql_step(&c) ? tree_take(t, &c, 0) : STR_NULL;
    return sql_end(&c);
}

static int tree_read_tip(struct message_tree *t)
{
    struct sql_call c = tree_begin(t, STMT_TIP);
    if (sql_step(&c)) {
        t->tip = tree_take(t, &c, 7);
        t->tip_task = tree_take(t, &c, 8);
    }
    return sql_end(&c);
}

static int tree_write_tip(struct message_tree *t)
{
    struct sql_call c = tree_begin(t, STMT_TIP_SET);
    sql_text(&c, t->tip);
    sql_text(&c, t->tip_task);
    return sql_run(&c);
}

static int tree_place(struct message_tree *t, struct str id, struct str *ret_parent,
                      struct str *ret_behind, bool *ret)
{
    struct sql_call c = tree_begin(t, STMT_PLACE);
    sql_text(&c, id);
    *ret = sql_step(&c);
    if (*ret) {
        *ret_parent = tree_take(t, &c, 0);
        *ret_behind = tree_take(t, &c, 1);
    }
    return sql_end(&c);
}

static int tree_put_row(struct message_tree *t, struct str parent, struct str behind)
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

static int tree_put(struct message_tree *t, struct str parent, struct str behind)
{
    const struct message_record *m = t->op->message;
    int status = tree_put_row(t, parent, behind);
    if (status < 0 || m->role != ROLE_ASSISTANT || !m->task_id.p)
        return status;
    struct sql_call c = tree_begin(t, STMT_COME_BETWEEN);
    sql_text(&c, m->task_id);
    sql_text(&c, m->message_id);
    sql_text(&c, parent);
    return sql_run(&c);
}

static int tree_siblings(struct message_tree *t, struct str parent_id, struct buf *ret)
{
    struct store_sqlite *s = t->store;
    return sqlite_ids_below(
        &s->writer,
        &(struct query){.owner = t->op->owner, .conversation_id = t->op->conversation_id},
        parent_id, ret);
}

static int tree_first_of_task(struct message_tree *t, struct tree_removed *ret)
{
    struct sql_call c = tree_begin(t, STMT_MESSAGE_OF_TASK);
    sql_text(&c, t->op->task_id);
    if (sql_step(&c))
        *ret = (struct tree_removed){.id = tree_take(t, &c, 0),
                                     .parent_id = tree_take(t, &c, 1),
                                     .behind = tree_take(t, &c, 2),
                                     .is_answer = sql_col_int(&c, 3) == ROLE_ASSISTANT};
    return sql_end(&c);
}

static int tree_find_heir(struct message_tree *t, struct tree_removed *m)
{
    struct sql_call c = tree_begin(t, STMT_HEIR_OF);
    sql_text(&c, m->id);
    sql_text(&c, t->op->task_id);
    m->heir = sql_step(&c) ? tree_take(t, &c, 0) : STR_NULL;
    return sql_end(&c);
}

static int tree_pass_on(struct message_tree *t, const struct tree_removed *m)
{
    struct sql_call c = tree_begin(t, STMT_MESSAGE_PASS);
    sql_text(&c, m->id);
    sql_text(&c, m->heir);
    return sql_run(&c);
}

static int tree_cut_out(struct message_tree *t, const struct tree_removed *m)
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
    return sql_run(&c);
}

static const struct tree_rows tree_rows = {
    .text = tree_text,
    .read_tip = tree_read_tip,
    .write_tip = tree_write_tip,
    .place = tree_place,
    .put = tree_put,
    .siblings = tree_siblings,
    .first_of_task = tree_first_of_task,
    .find_heir = tree_find_heir,
    .pass_on = tree_pass_on,
    .cut_out = tree_cut_out,
};

int sqlite_message_put(struct store_sqlite *s, const struct op *op)
{
    return message_tree_put(&tree_rows, s, op);
}

int sqlite_branch(struct store_sqlite *s, const struct op *op)
{
    return message_tree_branch(&tree_rows, s, op);
}

int sqlite_messages_of_task_remove(struct store_sqlite *s, const struct op *op)
{
    return message_tree_remove(&tree_rows, s, op);
}
