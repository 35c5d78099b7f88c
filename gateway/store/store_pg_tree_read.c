/* The tree of a conversation's messages, as it is read: a path upwards, which is one statement, and
 * a turn.  Each answer is of one snapshot. */
#include <stdio.h>

#include "gateway/store/store_pg_private.h"

static void asked_here(struct pg_reader *r, struct pg_call *c, enum pg_stmt stmt,
                       const struct query *q)
{
    pg_begin(c, &r->conn, stmt);
    pg_text(c, q->owner);
    pg_text(c, q->conversation_id);
}

void pg_join_ids(const PGresult *r, struct buf *ret)
{
    for (int i = PQntuples(r); i-- > 0;) {
        if (ret->len)
            buf_putc(ret, ' ');
        buf_putstr(ret, pg_col(r, i, 0));
    }
}

/* One text about that id, NULL for none. */
static int id_about(struct pg_reader *r, const struct query *q, enum pg_stmt stmt, struct str about,
                    struct answer *ret, struct str *ret_id)
{
    struct pg_call c;
    PGresult *rows;
    asked_here(r, &c, stmt, q);
    pg_text(&c, about);
    int status = pg_ask(&c, &rows);
    *ret_id = status == STORE_OK && PQntuples(rows) > 0
                  ? arena_str(&ret->chunks, pg_col(rows, 0, 0))
                  : STR_NULL;
    PQclear(rows);
    return status;
}

static int read_tip(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    PGresult *rows;
    asked_here(r, &c, PG_TIP, q);
    int status = pg_ask(&c, &rows);
    if (status == STORE_OK && PQntuples(rows) > 0) {
        ret->tip = arena_str(&ret->chunks, pg_col(rows, 0, 0));
        ret->tip_task = arena_str(&ret->chunks, pg_col(rows, 0, 1));
    }
    PQclear(rows);
    return status;
}

/* Adds the message with this id, if there is one. */
static int one_message(struct pg_reader *r, const struct query *q, struct str id,
                       struct answer *ret)
{
    struct pg_call c;
    PGresult *rows;
    asked_here(r, &c, PG_ASK_MESSAGE, q);
    pg_text(&c, id);
    int status = pg_ask(&c, &rows);
    if (status == STORE_OK && PQntuples(rows) > 0)
        (void)pg_take_message(rows, 0, ret);
    PQclear(rows);
    return status;
}

/* --- a path ----------------------------------------------------------------------------------- */

static int path_end(struct pg_reader *r, const struct query *q, struct answer *ret,
                    struct str *ret_id)
{
    struct str below = q->before;
    int status = STORE_OK;
    *ret_id = q->key;
    if (q->key.p)
        return STORE_OK;
    if (!q->before.p && !q->task_id.p) {
        status = read_tip(r, q, ret);
        *ret_id = ret->tip;
        return status;
    }
    if (!below.p)
        status = id_about(r, q, PG_QUESTION_OF, q->task_id, ret, &below);
    return status == STORE_OK && below.p ? id_about(r, q, PG_PLACE, below, ret, ret_id) : status;
}

static int path_children(struct pg_reader *r, const struct query *q, struct str id,
                         struct answer *ret)
{
    struct buf ids = {0};
    struct pg_call c;
    PGresult *rows;
    asked_here(r, &c, PG_CHILDREN, q);
    pg_text(&c, id);
    pg_int(&c, MAX_SIBLINGS);
    int status = pg_ask(&c, &rows);
    if (status == STORE_OK)
        pg_join_ids(rows, &ids);
    if (ids.len)
        ret->children = arena_str(&ret->chunks, buf_str(&ids));
    buf_done(&ids);
    PQclear(rows);
    return status;
}

/* False when the row has no room. */
static bool path_take(const struct query *q, const PGresult *rows, int i, size_t *bytes,
                      struct answer *ret)
{
    struct message_record *m = pg_take_message(rows, i, ret);
    if (q->at && m->created_at > q->at) {
        ret->n_messages--;
        return true;
    }
    bool is_last_asked = (int64_t)ret->n_messages == pg_rows_wanted(q);
    ret->more = is_last_asked || !query_has_room(q, ret->n_messages - 1, *bytes, m->content.n);
    *bytes += m->content.n;
    if (ret->more) {
        ret->n_messages--;
        return false;
    }
    struct str siblings = pg_col(rows, i, 7);
    if (siblings.n > m->message_id.n)
        m->siblings = arena_str(&ret->chunks, siblings);
    return true;
}

/* Each parent is there, or its children would hang on another one; a message that was asked for by
 * name may be missing. */
static int path_is_whole(struct pg_reader *r, const struct query *q, struct str id,
                         const PGresult *rows)
{
    int n = PQntuples(rows);
    struct str above = n ? pg_col(rows, n - 1, 6) : q->key.p ? STR_NULL : id;
    if (!above.p)
        return STORE_OK;
    snprintf(r->conn.error, sizeof r->conn.error, "message %.*s of conversation %.*s is missing",
             (int)above.n, above.p, (int)q->conversation_id.n, q->conversation_id.p);
    return STORE_CORRUPT;
}

static int path_up(struct pg_reader *r, const struct query *q, struct str id, struct answer *ret)
{
    struct pg_call c;
    PGresult *rows;
    size_t bytes = 0;
    bool room = true;
    asked_here(r, &c, PG_ASK_PATH, q);
    pg_text(&c, id);
    pg_int(&c, q->at);
    pg_int(&c, q->siblings);
    pg_bound(&c, q);
    int status = pg_ask(&c, &rows);
    for (int i = 0; status == STORE_OK && room && i < PQntuples(rows); i++)
        room = path_take(q, rows, i, &bytes, ret);
    if (status == STORE_OK && room)
        status = path_is_whole(r, q, id, rows);
    PQclear(rows);
    answer_reverse(ret);
    return status;
}

static int read_path(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct str id;
    int status = path_end(r, q, ret, &id);
    if (status == STORE_OK && id.p && q->siblings)
        status = path_children(r, q, id, ret);
    return status == STORE_OK && id.p ? path_up(r, q, id, ret) : status;
}

/* --- a turn ----------------------------------------------------------------------------------- */

static int read_brief(struct pg_reader *r, const struct query *q, struct str task_id,
                      struct answer *ret)
{
    const struct query any = {.kind = QUERY_TURN};
    struct pg_call c;
    asked_here(r, &c, PG_ASK_BRIEF, q);
    pg_text(&c, task_id);
    return pg_list_tasks(&c, &any, ret);
}

/* The other half of the turn goes before or behind the message that was named, if any was. */
static int read_half(struct pg_reader *r, const struct query *q, enum pg_stmt half,
                     struct str task_id, struct answer *ret)
{
    struct str id = STR_NULL;
    int status = task_id.p ? id_about(r, q, half, task_id, ret, &id) : STORE_OK;
    return status == STORE_OK && id.p ? one_message(r, q, id, ret) : status;
}

static int read_turn(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    int status = one_message(r, q, q->key, ret);
    if (status < 0)
        return status;
    bool is_named = ret->n_messages > 0;
    bool is_answer = is_named && ret->messages[0].role == ROLE_ASSISTANT;
    struct str task_id = is_named ? ret->messages[0].task_id : q->key;
    status = task_id.p ? read_brief(r, q, task_id, ret) : STORE_OK;
    if (status == STORE_OK && !is_named && ret->n_tasks == 0)
        return STORE_NOT_FOUND; /* before any look at what may be another owner's */
    if (status == STORE_OK && (!is_named || is_answer))
        status = read_half(r, q, PG_QUESTION_OF, task_id, ret);
    if (status == STORE_OK && !is_answer)
        status = read_half(r, q, PG_ANSWER_OF, task_id, ret);
    if (is_answer)
        answer_reverse(ret); /* there is at most one task */
    return status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int of_one_moment(struct pg_reader *r, const struct query *q, struct answer *ret,
                         int (*ask)(struct pg_reader *, const struct query *, struct answer *))
{
    int status = pg_run_plain(&r->conn, PG_SNAPSHOT);
    if (status < 0)
        return status;
    status = ask(r, q, ret);
    if (!pg_conn_is_open(&r->conn) || PQtransactionStatus(r->conn.pg) == PQTRANS_IDLE)
        return status;
    char why[STORE_ERROR_TEXT];
    memcpy(why, r->conn.error, sizeof why);
    int end = pg_run_plain(&r->conn, PG_COMMIT);
    if (status < 0) /* the first failure is the one to report */
        memcpy(r->conn.error, why, sizeof why);
    return status < 0 ? status : end;
}

int pg_ask_path(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    return of_one_moment(r, q, ret, read_path);
}

int pg_ask_turn(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    return of_one_moment(r, q, ret, read_turn);
}
