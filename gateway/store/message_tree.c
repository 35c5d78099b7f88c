#include "gateway/store/message_tree.h"

static bool is_same_place(struct str a, struct str b)
{
    return !a.p == !b.p && (!a.p || str_eq(a, b));
}

static int set_tip(struct message_tree *t, struct str tip, struct str task_id)
{
    t->tip = tip;
    t->tip_task = task_id;
    return t->rows->write_tip(t);
}

/* The newest message below that one, or of all when it is NULL. */
static int set_tip_below(struct message_tree *t, struct str id)
{
    struct str child, task_id = STR_NULL;
    int status;
    while ((status = t->rows->text(t, TREE_NEWEST_BELOW, id, &child)) == STORE_OK && child.p)
        id = child;
    if (status == STORE_OK && id.p)
        status = t->rows->text(t, TREE_ANSWERER_OF, id, &task_id);
    return status == STORE_OK ? set_tip(t, id, task_id) : status;
}

/* --- a message -------------------------------------------------------------------------------- */

static int exists(struct message_tree *t, struct str id, bool *ret)
{
    struct str parent, behind;
    return t->rows->place(t, id, &parent, &behind, ret);
}

static int place_under(struct message_tree *t, struct str *parent, struct str *behind, bool *ret)
{
    struct str answer = STR_NULL;
    int status = behind->p ? t->rows->text(t, TREE_ANSWER_OF, *behind, &answer) : STORE_OK;
    if (status < 0)
        return status;
    *ret = answer.p != NULL;
    if (!answer.p)
        return exists(t, *parent, ret);
    *parent = answer;
    *behind = STR_NULL;
    return STORE_OK;
}

static int place_as_answer(struct message_tree *t, struct str *parent, bool *ret)
{
    struct str question;
    int status = t->rows->text(t, TREE_QUESTION_OF, t->op->message->task_id, &question);
    *ret = false;
    if (status == STORE_OK && question.p)
        status = exists(t, question, ret);
    *parent = question;
    return status;
}

/* *ret: what the op names exists. */
static int find_place(struct message_tree *t, struct str *parent, struct str *behind, bool *ret)
{
    const struct message_record *m = t->op->message;
    *parent = m->parent_id;
    *behind = m->behind;
    *ret = false;
    switch (t->op->place) {
    case PLACE_TIP: return STORE_OK;
    case PLACE_ROOT: *parent = *behind = STR_NULL, *ret = true; return STORE_OK;
    case PLACE_UNDER: return place_under(t, parent, behind, ret);
    case PLACE_BESIDE: return t->rows->place(t, m->parent_id, parent, behind, ret);
    case PLACE_ANSWER: return place_as_answer(t, parent, ret);
    }
    UNREACHABLE();
}

static int tell_place(struct message_tree *t, const struct str *parent, bool turned)
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
    int status = t->rows->siblings(t, *parent, &siblings);
    if (siblings.len > t->op->message->message_id.n)
        to->siblings = arena_str(&to->chunks, buf_str(&siblings));
    buf_done(&siblings);
    return status;
}

/* The message is there; the tip follows. */
static int move_tip(struct message_tree *t, bool placed)
{
    const struct message_record *m = t->op->message;
    bool is_answer = m->role == ROLE_ASSISTANT;
    if (!placed || t->op->place != PLACE_ANSWER)
        return set_tip(t, m->message_id, is_answer ? STR_NULL : m->task_id);
    if (t->tip_task.p && m->task_id.p && str_eq(t->tip_task, m->task_id))
        return set_tip(t, m->message_id, STR_NULL);
    return STORE_OK;
}

static int put_message(struct message_tree *t)
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
    status = t->rows->put(t, parent, behind);
    if (status == STORE_OK)
        status = move_tip(t, placed);
    return status == STORE_OK ? tell_place(t, &parent, turned) : status;
}

int message_tree_put(const struct tree_rows *rows, void *store, const struct op *op)
{
    struct message_tree t = {.rows = rows, .store = store, .op = op};
    int status = rows->read_tip(&t);
    if (status == STORE_OK)
        status = put_message(&t);
    arena_done(&t.chunks);
    return status;
}

void message_tree_prepend(struct buf *ids, struct str id)
{
    size_t had = ids->len;
    buf_putstr(ids, id);
    if (had == 0)
        return;
    buf_putc(ids, ' ');
    memmove(ids->bytes + id.n + 1, ids->bytes, had);
    memcpy(ids->bytes, id.p, id.n);
    ids->bytes[id.n] = ' ';
}

/* --- another branch --------------------------------------------------------------------------- */

static int branch_to(struct message_tree *t)
{
    struct str tip = t->tip, tip_task = t->tip_task;
    int status =
        t->op->task_id.p ? set_tip(t, t->op->key, t->op->task_id) : set_tip_below(t, t->op->key);
    if (status < 0)
        return status;
    return tell_place(t, NULL,
                      !is_same_place(tip, t->tip) || !is_same_place(tip_task, t->tip_task));
}

int message_tree_branch(const struct tree_rows *rows, void *store, const struct op *op)
{
    struct message_tree t = {.rows = rows, .store = store, .op = op};
    bool is_there = false;
    int status = exists(&t, op->key, &is_there);
    if (status == STORE_OK && is_there)
        status = rows->read_tip(&t);
    if (status == STORE_OK && is_there)
        status = branch_to(&t);
    arena_done(&t.chunks);
    return status;
}

/* --- removing --------------------------------------------------------------------------------- */

static int cut_out(struct message_tree *t, const struct tree_removed *m)
{
    int status = t->rows->cut_out(t, m);
    if (status == STORE_OK)
        status = t->rows->read_tip(t);
    return status == STORE_OK && t->tip.p && str_eq(t->tip, m->id) ? set_tip_below(t, m->parent_id)
                                                                   : status;
}

static int remove_one(struct message_tree *t, struct tree_removed *m)
{
    int status = m->is_answer ? STORE_OK : t->rows->find_heir(t, m);
    if (status < 0)
        return status;
    return m->heir.p ? t->rows->pass_on(t, m) : cut_out(t, m);
}

int message_tree_remove(const struct tree_rows *rows, void *store, const struct op *op)
{
    struct message_tree t = {.rows = rows, .store = store, .op = op};
    struct tree_removed m = {0};
    int status = rows->first_of_task(&t, &m);
    while (status == STORE_OK && m.id.p) {
        status = remove_one(&t, &m);
        m = (struct tree_removed){0};
        if (status == STORE_OK)
            status = rows->first_of_task(&t, &m);
    }
    arena_done(&t.chunks);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------- */

int message_tree_path_end(const struct turn_asked *a, struct str *ret_id)
{
    const struct query *q = a->q;
    struct str below = q->before;
    int status = STORE_OK;
    *ret_id = q->key;
    if (q->key.p)
        return STORE_OK;
    if (!q->before.p && !q->task_id.p) {
        status = a->rows->tip(a);
        *ret_id = a->ret->tip;
        return status;
    }
    if (!below.p)
        status = a->rows->text(a, TREE_QUESTION_OF, q->task_id, &below);
    return status == STORE_OK && below.p ? a->rows->text(a, TREE_PARENT_OF, below, ret_id) : status;
}

/* The other half of the turn goes before or behind the message that was named, if any was. */
static int add_half(const struct turn_asked *a, enum tree_text half, struct str task_id)
{
    struct str id = STR_NULL;
    int status = task_id.p ? a->rows->text(a, half, task_id, &id) : STORE_OK;
    return status == STORE_OK && id.p ? a->rows->message(a, id) : status;
}

int message_tree_turn(const struct turn_asked *a)
{
    struct answer *ret = a->ret;
    int status = a->rows->message(a, a->q->key);
    if (status < 0)
        return status;
    bool is_named = ret->n_messages > 0;
    bool is_answer = is_named && ret->messages[0].role == ROLE_ASSISTANT;
    struct str task_id = is_named ? ret->messages[0].task_id : a->q->key;
    status = task_id.p ? a->rows->task(a, task_id) : STORE_OK;
    if (status == STORE_OK && !is_named && ret->n_tasks == 0)
        return STORE_NOT_FOUND; /* before any look at what may be another owner's */
    if (status == STORE_OK && (!is_named || is_answer))
        status = add_half(a, TREE_QUESTION_OF, task_id);
    if (status == STORE_OK && !is_answer)
        status = add_half(a, TREE_ANSWER_OF, task_id);
    if (is_answer)
        answer_reverse(ret); /* there is at most one task */
    return status;
}
