/* Files: their rows, the tasks that name them, and what they count in an owner's usage, as in
 * store_sqlite_files.c. */
#include "gateway/store/store_pg_private.h"

void pg_put_file(struct store_pg *s, const struct op *op)
{
    const struct file_record *f = op->file;
    struct pg_call call, *c = &call;
    pg_begin(c, &s->writer, PG_FILE_PUT);
    pg_int(c, slot_of(f->owner));
#define T(name) pg_text(c, f->name);
#define N(type, name) pg_int(c, f->name);
    FILE_NAMES(T)
    FILE_TEXTS(T)
    FILE_NUMBERS(N)
#undef T
#undef N
    pg_send(c);
    pg_begin(c, &s->writer, PG_FILE_COUNT);
    pg_text(c, f->owner);
    pg_int(c, slot_of(f->owner));
    pg_int(c, file_record_cost(f));
    pg_send(c);
}

void pg_put_file_use(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_FILE_USE);
    pg_text(&c, op->owner);
    pg_text(&c, op->conversation_id);
    pg_text(&c, op->task_id);
    pg_text(&c, op->key);
    pg_send(&c);
}

void pg_put_files_expire(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_FILES_EXPIRE);
    pg_int(&c, op->at);
    pg_int(&c, s->incarnation);
    pg_send(&c);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* The state, the columns of PG_FILE, and shares. */
static void row_file(const PGresult *r, int row, struct answer *a)
{
    struct file_record *ret = answer_add_file(a);
    int at = 1;
#define T(name) ret->name = arena_str(&a->chunks, pg_col(r, row, at++));
#define N(type, name) ret->name = (type)pg_col_int(r, row, at++);
    FILE_NAMES(T)
    FILE_TEXTS(T)
    FILE_NUMBERS(N)
#undef T
#undef N
    ret->shares = pg_col_int(r, row, at) != 0;
}

int pg_ask_files(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    static const enum pg_stmt stmts[] = {[QUERY_FILE] = PG_ASK_FILE,
                                         [QUERY_UPLOAD] = PG_ASK_UPLOAD,
                                         [QUERY_BLOB] = PG_ASK_BLOB,
                                         [QUERY_FILES_GONE] = PG_ASK_FILES_GONE};
    struct pg_call c;
    PGresult *rows;
    bool one = q->kind != QUERY_FILES_GONE;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, stmts[q->kind]);
    if (q->kind == QUERY_FILE || q->kind == QUERY_UPLOAD) {
        pg_text(&c, q->owner);
        pg_text(&c, q->conversation_id);
    }
    if (one)
        pg_text(&c, q->key);
    else
        pg_slots(&c, q, slots);
    if (!one)
        pg_int(&c, pg_rows_wanted(q));
    int status = pg_ask(&c, &rows);
    for (int i = 0; status == STORE_OK && i < PQntuples(rows); i++) {
        bool is_last_asked = !one && i + 1 == (int)pg_rows_wanted(q);
        if (is_last_asked || !query_has_room(q, ret->n_files, 0, 0)) {
            ret->more = true;
            break;
        }
        row_file(rows, i, ret);
    }
    PQclear(rows);
    return status == STORE_OK && one && ret->n_files == 0 ? STORE_NOT_FOUND : status;
}
