/* Files: their rows, the tasks that name them, and what they count in an owner's usage.  Rows that
 * are gone stay until their bytes are removed, so that a crash in between leaves nothing behind. */
#include "gateway/base/log.h"
#include "gateway/store/store_sqlite_private.h"

int sqlite_file_put(struct store_sqlite *s, const struct op *op)
{
    const struct file_record *f = op->file;
    struct sql_call c = sql_begin(&s->writer, STMT_FILE_PUT);
#define T(name) sql_text(&c, f->name);
#define N(type, name) sql_int(&c, f->name);
    FILE_NAMES(T)
    FILE_TEXTS(T)
    FILE_NUMBERS(N)
#undef T
#undef N
    int status = sql_run(&c);
    if (status < 0)
        return status;
    sqlite_note_id(s, f->file_id);
    c = sql_begin(&s->writer, STMT_FILE_COUNT);
    sql_text(&c, f->owner);
    sql_int(&c, file_record_cost(f));
    return sql_run(&c);
}

int sqlite_file_use(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_FILE_USE);
    sql_text(&c, op->owner);
    sql_text(&c, op->conversation_id);
    sql_text(&c, op->task_id);
    sql_text(&c, op->key);
    int status = sql_run(&c);
    if (status < 0)
        return status;
    c = sql_begin(&s->writer, STMT_FILE_USED);
    sql_text(&c, op->owner);
    sql_text(&c, op->conversation_id);
    sql_text(&c, op->key);
    return sql_run(&c);
}

int sqlite_files_expire(struct store_sqlite *s, const struct op *op)
{
    static const enum stmt steps[] = {STMT_FILES_EXPIRE_COUNT, STMT_FILES_EXPIRE};
    int status = STORE_OK;
    for (size_t i = 0; i < countof(steps) && status == STORE_OK; i++) {
        struct sql_call c = sql_begin(&s->writer, steps[i]);
        sql_int(&c, op->at);
        status = sql_run(&c);
    }
    return status;
}

int sqlite_files_remove(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_FILES_REMOVE);
    sql_text(&c, op->key);
    return sql_run(&c);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* The columns of SQL_FILE, then crc and shares. */
enum { FILE_STATE = 10, FILE_CRC, FILE_SHARES };

static void take_file(const struct sql_call *c, struct answer *a, struct file_record *ret)
{
    int at = 0;
#define T(name) ret->name = arena_str(&a->chunks, sql_col(c, at++));
#define N(type, name) ret->name = (type)sql_col_int(c, at++);
    FILE_NAMES(T)
    FILE_TEXTS(T)
    FILE_NUMBERS(N)
#undef T
#undef N
    ret->shares = sql_col_int(c, FILE_SHARES) != 0;
}

static struct sql_call begin_files(struct sql_reader *r, const struct query *q)
{
    static const enum stmt stmts[] = {[QUERY_FILE] = STMT_ASK_FILE,
                                      [QUERY_UPLOAD] = STMT_ASK_UPLOAD,
                                      [QUERY_BLOB] = STMT_ASK_BLOB,
                                      [QUERY_FILES_GONE] = STMT_ASK_FILES_GONE};
    struct sql_call c = sql_begin(&r->conn, stmts[q->kind]);
    if (q->kind == QUERY_FILE || q->kind == QUERY_UPLOAD) {
        sql_text(&c, q->owner);
        sql_text(&c, q->conversation_id);
    }
    if (q->kind != QUERY_FILES_GONE)
        sql_text(&c, q->key);
    return c;
}

/* Whether the bytes of a damaged row may be removed is not known: it is left out, and doctor names
 * it. */
int sqlite_ask_files(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    bool damaged = false, one = q->kind != QUERY_FILES_GONE;
    struct sql_call c = begin_files(r, q);
    while (sql_step(&c)) {
        if (!query_has_room(q, ret->n_files, 0, 0)) {
            ret->more = true;
            break;
        }
        damaged = damaged || !sql_is_sound(&c, 0, 0, FILE_STATE);
        if (sql_is_sound(&c, 0, 0, FILE_STATE))
            take_file(&c, ret, answer_add_file(ret));
    }
    int status = sql_end(&c);
    if (status < 0)
        return status;
    if (damaged)
        (void)sql_conn_damaged(&r->conn, "the row of a file is not as it was written");
    if (damaged && one)
        return STORE_CORRUPT;
    if (damaged)
        log_event_limited(LEVEL_ERROR, "store", "reads_fail", LOG_TEXT("why", r->conn.error));
    return one && ret->n_files == 0 ? STORE_NOT_FOUND : STORE_OK;
}
