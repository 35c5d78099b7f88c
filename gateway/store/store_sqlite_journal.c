/* The journal: every line is appended here once, in the order of commits, and stays until a block
 * holds it (or its task is deleted).
 *
 * Design.  One row holds the lines of one commit, from any number of tasks, so that a commit costs
 * one insertion at the end of one b-tree; a row beyond ROW_BYTES is followed by another.  The store
 * numbers the rows, upwards, and there is no index: a start finds what it needs by reading all of
 * them.  A row that is not as it was written (its checksum says so) is refused, because nobody
 * knows whose lines it had.
 *
 * What is live, and which rows may go, is in journal_tails.h.  Once there are dead rows, a commit
 * deletes a bounded number.  A silent task pins the journal; core seals such tails by age.
 */
#include <inttypes.h>

#include "gateway/store/store_sqlite_private.h"

#define ROW_BYTES 65536
#define CUT_ROWS 32 /* dead rows worth a deletion; one takes these and 3 x its own */

/* --- scanning --------------------------------------------------------------------------------- */

struct scan {
    struct sql_conn *conn;
    struct journal_scan found;
};

static int found_get(struct scan *scan, int64_t task_key, struct journal_found **ret)
{
    *ret = journal_scan_find(&scan->found, task_key);
    if (*ret)
        return STORE_OK;
    struct sql_call c = sql_begin(scan->conn, STMT_SEALED);
    sql_int(&c, task_key);
    struct journal_found *f = journal_scan_add(&scan->found, task_key);
    f->exists = sql_step(&c);
    if (f->exists)
        f->sealed = (uint64_t)sql_col_int(&c, 0);
    *ret = f;
    return sql_end(&c);
}

static int scan_entry(struct scan *scan, int64_t row, const struct journal_entry *e)
{
    struct journal_found *f;
    int status = found_get(scan, e->task_key, &f);
    enum journal_take took = JOURNAL_TAKEN;
    if (status == STORE_OK)
        took = journal_scan_take(&scan->found, f, (struct journal_row){0, row}, e);
    if (took == JOURNAL_TAKEN)
        return status;
    if (took == JOURNAL_DAMAGED)
        return sql_conn_damaged(scan->conn,
                                "row %" PRId64 ": the events %" PRIu64 " to %" PRIu64
                                " of the task with key %" PRId64 " are not as they were written",
                                row, e->first, e->last, e->task_key);
    return sql_conn_damaged(scan->conn,
                            "row %" PRId64 ": event %" PRIu64 " of the task with key %" PRId64
                            " follows its event %" PRIu64,
                            row, e->first, e->task_key, f->last);
}

/* Only the row knew whose lines it had: this names the first entry, if that can still be read. */
static int row_damaged(struct scan *scan, int64_t row, struct str bytes)
{
    struct journal_entry e;
    if (!journal_entry_take(&bytes, &e))
        return sql_conn_damaged(scan->conn,
                                "row %" PRId64 " of the journal is not as it was written", row);
    return sql_conn_damaged(scan->conn,
                            "row %" PRId64
                            " of the journal is not as it was written; its first lines may be the "
                            "events %" PRIu64 " to %" PRIu64 " of the task with key %" PRId64,
                            row, e.first, e.last, e.task_key);
}

static int scan_row(struct scan *scan, const struct sql_call *c)
{
    int64_t row = sql_col_int(c, 0);
    struct str bytes = sql_col(c, 1);
    int status = STORE_OK;
    if (!sql_is_sound(c, 0, 0, 1))
        return row_damaged(scan, row, bytes);
    while (status == STORE_OK && bytes.n) {
        struct journal_entry e;
        status = journal_entry_take(&bytes, &e)
                     ? scan_entry(scan, row, &e)
                     : sql_conn_damaged(scan->conn, "row %" PRId64 " of the journal holds no entry",
                                        row);
    }
    return status;
}

static int scan_rows(struct scan *scan)
{
    int status = STORE_OK;
    struct sql_call c = sql_begin(scan->conn, STMT_JOURNAL_ROWS);
    while (status == STORE_OK && sql_step(&c))
        status = scan_row(scan, &c);
    int end = sql_end(&c);
    return status < 0 ? status : end;
}

int sql_tails_load(struct sql_conn *conn, struct tails *ret)
{
    struct scan scan = {.conn = conn};
    journal_scan_init(&scan.found, true);
    int status = scan_rows(&scan);
    if (status == STORE_OK)
        status = tails_fill(ret, &scan.found, NULL);
    journal_scan_done(&scan.found);
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

int sqlite_journal_open(struct sqlite_journal *j, struct sql_conn *conn)
{
    struct scan scan = {.conn = conn};
    *j = (struct sqlite_journal){.conn = conn, .first_row = 1, .next_row = 1};
    journal_tails_init(&j->tails);

    struct sql_call c = sql_begin(conn, STMT_JOURNAL_BOUNDS);
    if (sql_step(&c) && sql_col(&c, 0).p) {
        j->first_row = sql_col_int(&c, 0);
        j->next_row = sql_col_int(&c, 1) + 1;
    }
    int status = sql_end(&c);
    journal_scan_init(&scan.found, false);
    if (status == STORE_OK)
        status = scan_rows(&scan);
    if (status == STORE_OK)
        journal_tails_load(&j->tails, &scan.found);
    journal_scan_done(&scan.found);
    sqlite_journal_rollback(j);
    return status;
}

void sqlite_journal_close(struct sqlite_journal *j)
{
    if (!j->conn)
        return;
    journal_tails_done(&j->tails);
    buf_done(&j->row);
    *j = (struct sqlite_journal){0};
}

bool sqlite_journal_has(const struct sqlite_journal *j, int64_t task_key)
{
    return journal_tails_find(&j->tails, task_key) != NULL;
}

static int row_write(struct sqlite_journal *j)
{
    struct sql_call c = sql_begin(j->conn, STMT_JOURNAL_PUT);
    sql_int(&c, j->batch_row);
    sql_blob(&c, buf_str(&j->row));
    int status = sql_run(&c);
    buf_clear(&j->row);
    j->batch_row++;
    return status;
}

int sqlite_journal_lines(struct sqlite_journal *j, int64_t task_key, uint64_t first, uint64_t last,
                         struct str bytes)
{
    journal_entry_put(&j->row, &(struct journal_entry){task_key, first, last, bytes});
    journal_tails_change(&j->tails, task_key, j->batch_row);
    return j->row.len >= ROW_BYTES ? row_write(j) : STORE_OK;
}

void sqlite_journal_drop(struct sqlite_journal *j, int64_t task_key)
{
    journal_tails_change(&j->tails, task_key, 0);
}

/* Works from the committed state: rows that die in this transaction go in a later one. */
static int cut(struct sqlite_journal *j)
{
    int64_t to = j->first_row + 3 * (j->batch_row - j->next_row) + CUT_ROWS;
    const struct journal_tail *oldest = journal_tails_oldest(&j->tails);
    int64_t live = oldest ? oldest->row : j->next_row;
    if (live - j->first_row < CUT_ROWS)
        return STORE_OK;
    if (to > live)
        to = live;
    j->cut_to = to;
    struct sql_call c = sql_begin(j->conn, STMT_JOURNAL_CUT);
    sql_int(&c, to);
    return sql_run(&c);
}

int sqlite_journal_finish(struct sqlite_journal *j)
{
    int status = j->row.len ? row_write(j) : STORE_OK;
    return status < 0 ? status : cut(j);
}

void sqlite_journal_commit(struct sqlite_journal *j)
{
    for (size_t i = 0; i < j->tails.n_changes; i++) {
        const struct journal_change *change = &j->tails.changes[i];
        struct journal_tail *t = journal_tails_find(&j->tails, change->task_key);
        if (change->row && !t)
            journal_tails_add(&j->tails, change->task_key, change->row);
        else if (!change->row && t)
            journal_tails_remove(&j->tails, t);
    }
    j->next_row = j->batch_row;
    j->first_row = j->cut_to;
    sqlite_journal_rollback(j); /* starts anew from here */
}

void sqlite_journal_rollback(struct sqlite_journal *j)
{
    j->batch_row = j->next_row;
    j->cut_to = j->first_row;
    j->tails.n_changes = 0;
    buf_clear(&j->row);
    if (j->row.cap > 4 * ROW_BYTES)
        buf_done(&j->row);
}
