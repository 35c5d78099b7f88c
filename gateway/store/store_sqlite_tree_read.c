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
    struct str ids[MAX_SIBLINGS];
    struct arena_chunk *chunks = NULL;
    size_t n = 0;
    struct sql_call c = sql_begin(conn, parent_id.p ? STMT_CHILDREN : STMT_FIRST_ONES);
    sql_text(&c, q->owner);
    sql_text(&c, q->conversation_id);
    sql_text(&c, parent_id);
    sql_int(&c, MAX_SIBLINGS);
    while (sql_step(&c))
        ids[n++] = arena_str(&chunks, sql_col(&c, 0));
    for (size_t i = n; i-- > 0;) {
        if (ret->len)
            buf_putc(ret, ' ');
        buf_putstr(ret, ids[i]);
    }
    arena_done(&chunks);
    return sql_end(&c);
}

/* One text about that id, NULL for none. */
static int ask_id(struct sql_reader *r, const struct query *q, enum stmt stmt, struct str about,
                  struct answer *ret, struct str *ret_id)
{
    struct sql_call c = asked_in(&r->conn, stmt, q);
    sql_text(&c, about);
    *ret_id = sql_step(&c) ? arena_str(&ret->chunks, sql_col(&c, 0)) : STR_NULL;
    return sql_end(&c);
}

static int ask_tip(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = asked_in(&r->conn, STMT_TIP, q);
    bool sound = true;
    if (sql_step(&c)) {
        sound = sql_is_sound(&c, 0, 0, 9);
        ret->tip = arena_str(&ret->chunks, sql_col(&c, 7));
        ret->tip_task = arena_str(&ret->chunks, sql_col(&c, 8));
    }
    int end = sql_end(&c);
    return sound ? end
                 : sql_conn_damaged(&r->conn, "conversation %.*s is not as it was written",
                                    (int)q->conversation_id.n, q->conversation_id.p);
}

/* Adds the message with this id, if there is one. */
static int add_message(struct sql_reader *r, const struct query *q, struct str id,
                       struct answer *ret)
{
    struct sql_call c = asked_in(&r->conn, STMT_ASK_MESSAGE, q);
    sql_text(&c, id);
    int status = sql_step(&c) ? sqlite_take_message(&c, ret) : STORE_OK;
    int end = sql_end(&c);
    return status < 0 ? status : end;
}

/* --- a path ----------------------------------------------------------------------------------- */

static int find_end(struct sql_reader *r, const struct query *q, struct answer *ret,
                    struct str *ret_id)
{
    struct str below = q->before;
    int status = STORE_OK;
    *ret_id = q->key;
    if (q->key.p)
        return STORE_OK;
    if (!q->before.p && !q->task_id.p) {
        status = ask_tip(r, q, ret);
        *ret_id = ret->tip;
        return status;
    }
    if (!below.p)
        status = ask_id(r, q, STMT_QUESTION_OF, q->task_id, ret, &below);
    return status == STORE_OK && below.p ? ask_id(r, q, STMT_PLACE, below, ret, ret_id) : status;
}

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

static int walk_up(struct sql_reader *r, const struct query *q, struct str id, struct answer *ret)
{
    size_t bytes = 0;
    int status = STORE_OK;
    while (status == STORE_OK && id.p) {
        size_t before = ret->n_messages;
        status = add_message(r, q, id, ret);
        if (status == STORE_OK && ret->n_messages == before) /* unless it was asked for by name */
            status = q->key.p && before == 0 ? STORE_OK : missing(r, q, id);
        if (status < 0 || ret->n_messages == before)
            break;
        const struct message_record *m = &ret->messages[before];
        id = m->parent_id;
        if (q->at && m->created_at > q->at)
            ret->n_messages--;
        else if (!path_fits(q, ret, &bytes))
            break;
        else if (q->siblings)
            status = add_siblings(r, q, ret);
    }
    answer_reverse(ret);
    return status;
}

static int ask_path(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct str id;
    int status = find_end(r, q, ret, &id);
    if (status == STORE_OK && id.p && q->siblings)
        status = add_children(r, q, id, ret);
    return status == STORE_OK ? walk_up(r, q, id, ret) : status;
}

/* --- a turn ----------------------------------------------------------------------------------- */

static int add_task(struct sql_reader *r, const struct query *q, struct str task_id,
                    struct answer *ret)
{
    const struct query any = {0};
    struct sql_call c = asked_in(&r->conn, STMT_ASK_BRIEF, q);
    sql_text(&c, task_id);
    return sqlite_list_tasks(&c, &any, ret);
}

/* The other half of the turn goes before or behind the message that was named, if any was. */
static int add_half(struct sql_reader *r, const struct query *q, enum stmt half, struct str task_id,
                    struct answer *ret)
{
    struct str id = STR_NULL;
    int status = task_id.p ? ask_id(r, q, half, task_id, ret, &id) : STORE_OK;
    return status == STORE_OK && id.p ? add_message(r, q, id, ret) : status;
}

static int ask_turn(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    int status = add_message(r, q, q->key, ret);
    if (status < 0)
        return status;
    bool is_named = ret->n_messages > 0;
    bool is_answer = is_named && ret->messages[0].role == ROLE_ASSISTANT;
    struct str task_id = is_named ? ret->messages[0].task_id : q->key;
    status = task_id.p ? add_task(r, q, task_id, ret) : STORE_OK;
    if (status == STORE_OK && !is_named && ret->n_tasks == 0)
        return STORE_NOT_FOUND; /* before any look at what may be another owner's */
    if (status == STORE_OK && (!is_named || is_answer))
        status = add_half(r, q, STMT_QUESTION_OF, task_id, ret);
    if (status == STORE_OK && !is_answer)
        status = add_half(r, q, STMT_ANSWER_OF, task_id, ret);
    if (is_answer)
        answer_reverse(ret); /* there is at most one task */
    return status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int in_snapshot(struct sql_reader *r, const struct query *q, struct answer *ret,
                       int (*ask)(struct sql_reader *, const struct query *, struct answer *))
{
    int status = sql_run_plain(&r->conn, STMT_SNAPSHOT);
    if (status < 0)
        return status;
    status = ask(r, q, ret);
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
    return in_snapshot(r, q, ret, ask_turn);
}
