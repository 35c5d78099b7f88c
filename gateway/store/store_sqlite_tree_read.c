/* The tree of a conversation's messages, as it is read: a path upwards, and a turn.  Each answer is
 * of one snapshot. */
#include "gateway/store/store_sqlite_private.h"

static struct sql_call asked_in(struct sql_conn *conn, enum stmt stmt, const struct query *q)
{
    struct sql_call c = sql_begin(conn, stmt);
    sql_text(&c, q->owner);
    sql_text(&c, q->conversation_id);
    return c;
}

int sqlite_ids_below(struct sql_conn *conn, const struct query *q, struct str parent_id,
                     struct buf *ret)
{
    struct sql_call c = sql_begin(conn, parent_id.p ? STMT_CHILDREN : STMT_FIRST_ONES);
    sql_text(&c, q->owner);
    sql_text(&c, q->conversation_id);
    sql_text(&c, parent_id);
    sql_int(&c, MAX_SIBLINGS);
    while (sql_step(&c))
        message_tree_prepend(ret, sql_col(&c, 0));
    return sql_end(&c);
}

static int ask_text(const struct turn_asked *a, enum tree_text what, struct str about,
                    struct str *ret)
{
    struct sql_reader *r = a->reader;
    struct sql_call c = asked_in(&r->conn, sqlite_tree_stmt(what, about), a->q);
    sql_text(&c, about);
    *ret = sql_step(&c) ? arena_str(&a->ret->chunks, sql_col(&c, 0)) : STR_NULL;
    return sql_end(&c);
}

static int ask_tip(const struct turn_asked *a)
{
    struct sql_reader *r = a->reader;
    struct sql_call c = asked_in(&r->conn, STMT_TIP, a->q);
    bool sound = true;
    if (sql_step(&c)) {
        sound = sql_is_sound(&c, 0, 0, 9);
        a->ret->tip = arena_str(&a->ret->chunks, sql_col(&c, 7));
        a->ret->tip_task = arena_str(&a->ret->chunks, sql_col(&c, 8));
    }
    int end = sql_end(&c);
    return sound ? end
                 : sql_conn_damaged(&r->conn, "conversation %.*s is not as it was written",
                                    (int)a->q->conversation_id.n, a->q->conversation_id.p);
}

static int ask_message(const struct turn_asked *a, struct str id)
{
    struct sql_reader *r = a->reader;
    struct sql_call c = asked_in(&r->conn, STMT_ASK_MESSAGE, a->q);
    sql_text(&c, id);
    int status = sql_step(&c) ? sqlite_take_message(&c, a->ret) : STORE_OK;
    int end = sql_end(&c);
    return status < 0 ? status : end;
}

static int ask_task_of_turn(const struct turn_asked *a, struct str task_id)
{
    struct sql_reader *r = a->reader;
    struct sql_call c = asked_in(&r->conn, STMT_ASK_BRIEF, a->q);
    sql_text(&c, task_id);
    return sqlite_list_tasks(&c, &(struct query){0}, a->ret);
}

static const struct turn_rows turn_rows = {ask_text, ask_tip, ask_message, ask_task_of_turn};

/* --- a path ----------------------------------------------------------------------------------- */

/* The newest message of the answer has this parent; false when it has no room there. */
static bool path_fits(const struct query *q, struct answer *ret, size_t *bytes)
{
    size_t next = ret->messages[ret->n_messages - 1].content.n;
    ret->more = !query_has_room(q, ret->n_messages - 1, *bytes, next);
    *bytes += next;
    if (ret->more)
        ret->n_messages--;
    return !ret->more;
}

static int add_siblings(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct message_record *m = &ret->messages[ret->n_messages - 1];
    struct buf ids = {0};
    int status = sqlite_ids_below(&r->conn, q, m->parent_id, &ids);
    if (ids.len > m->message_id.n)
        m->siblings = arena_str(&ret->chunks, buf_str(&ids));
    buf_done(&ids);
    return status;
}

static int add_children(struct sql_reader *r, const struct query *q, struct str id,
                        struct answer *ret)
{
    struct buf ids = {0};
    int status = sqlite_ids_below(&r->conn, q, id, &ids);
    if (ids.len)
        ret->children = arena_str(&ret->chunks, buf_str(&ids));
    buf_done(&ids);
    return status;
}

/* Each parent is there, or its children would hang on another one. */
static int missing(struct sql_reader *r, const struct query *q, struct str id)
{
    return sql_conn_damaged(&r->conn, "message %.*s of conversation %.*s is missing", (int)id.n,
                            id.p, (int)q->conversation_id.n, q->conversation_id.p);
}

static int walk_up(const struct turn_asked *a, struct str id)
{
    const struct query *q = a->q;
    struct answer *ret = a->ret;
    size_t bytes = 0;
    int status = STORE_OK;
    while (status == STORE_OK && id.p) {
        size_t before = ret->n_messages;
        status = ask_message(a, id);
        if (status == STORE_OK && ret->n_messages == before) /* unless it was asked for by name */
            status = q->key.p && before == 0 ? STORE_OK : missing(a->reader, q, id);
        if (status < 0 || ret->n_messages == before)
            break;
        const struct message_record *m = &ret->messages[before];
        id = m->parent_id;
        if (q->at && m->created_at > q->at)
            ret->n_messages--;
        else if (!path_fits(q, ret, &bytes))
            break;
        else if (q->siblings)
            status = add_siblings(a->reader, q, ret);
    }
    answer_reverse(ret);
    return status;
}

static int ask_path(const struct turn_asked *a)
{
    struct str id;
    int status = message_tree_path_end(a, &id);
    if (status == STORE_OK && id.p && a->q->siblings)
        status = add_children(a->reader, a->q, id, a->ret);
    return status == STORE_OK ? walk_up(a, id) : status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int in_snapshot(struct sql_reader *r, const struct query *q, struct answer *ret,
                       int (*ask)(const struct turn_asked *a))
{
    int status = sql_run_plain(&r->conn, STMT_SNAPSHOT);
    if (status < 0)
        return status;
    status = ask(&(struct turn_asked){&turn_rows, r, q, ret});
    char why[STORE_ERROR_TEXT];
    memcpy(why, r->conn.error, sizeof why);
    int end = sql_run_plain(&r->conn, STMT_COMMIT);
    if (status < 0) /* the first failure is the one to report */
        memcpy(r->conn.error, why, sizeof why);
    return status < 0 ? status : end;
}

int sqlite_ask_path(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    return in_snapshot(r, q, ret, ask_path);
}

int sqlite_ask_turn(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    return in_snapshot(r, q, ret, message_tree_turn);
}
