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
    for (int i = 0; i < PQntuples(r); i++)
        message_tree_prepend(ret, pg_col(r, i, 0));
}

static int asked_text(const struct turn_asked *a, enum tree_text what, struct str about,
                      struct str *ret)
{
    struct pg_call c;
    PGresult *rows;
    asked_here(a->reader, &c, pg_tree_stmt(what, about), a->q);
    pg_text(&c, about);
    int status = pg_ask(&c, &rows);
    *ret = status == STORE_OK && PQntuples(rows) > 0
               ? arena_str(&a->ret->chunks, pg_col(rows, 0, 0))
               : STR_NULL;
    PQclear(rows);
    return status;
}

static int asked_tip(const struct turn_asked *a)
{
    struct pg_call c;
    PGresult *rows;
    asked_here(a->reader, &c, PG_TIP, a->q);
    int status = pg_ask(&c, &rows);
    if (status == STORE_OK && PQntuples(rows) > 0) {
        a->ret->tip = arena_str(&a->ret->chunks, pg_col(rows, 0, 0));
        a->ret->tip_task = arena_str(&a->ret->chunks, pg_col(rows, 0, 1));
    }
    PQclear(rows);
    return status;
}

static int asked_message(const struct turn_asked *a, struct str id)
{
    struct pg_call c;
    PGresult *rows;
    asked_here(a->reader, &c, PG_ASK_MESSAGE, a->q);
    pg_text(&c, id);
    int status = pg_ask(&c, &rows);
    if (status == STORE_OK && PQntuples(rows) > 0)
        (void)pg_take_message(rows, 0, a->ret);
    PQclear(rows);
    return status;
}

static int asked_task(const struct turn_asked *a, struct str task_id)
{
    struct pg_call c;
    asked_here(a->reader, &c, PG_ASK_BRIEF, a->q);
    pg_text(&c, task_id);
    return pg_list_tasks(&c, &(struct query){.kind = QUERY_TURN}, a->ret);
}

static const struct turn_rows pg_turn_rows = {asked_text, asked_tip, asked_message, asked_task};

/* --- a path ----------------------------------------------------------------------------------- */

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

static int read_path(const struct turn_asked *a)
{
    struct str id;
    int status = message_tree_path_end(a, &id);
    if (status == STORE_OK && id.p && a->q->siblings)
        status = path_children(a->reader, a->q, id, a->ret);
    return status == STORE_OK && id.p ? path_up(a->reader, a->q, id, a->ret) : status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int of_one_moment(struct pg_reader *r, const struct query *q, struct answer *ret,
                         int (*ask)(const struct turn_asked *a))
{
    int status = pg_run_plain(&r->conn, PG_SNAPSHOT);
    if (status < 0)
        return status;
    status = ask(&(struct turn_asked){&pg_turn_rows, r, q, ret});
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
    return of_one_moment(r, q, ret, message_tree_turn);
}
