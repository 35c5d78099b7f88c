/* The journal: as SQLite's (store_sqlite_journal.c), with one row for each commit that brings
 * lines, whose number is the batch's.  Rows belong to an incarnation; a start makes those of its
 * own name's earlier ones its own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/store/store_pg_private.h"

#define CUT_ROWS 32  /* dead rows worth a deletion */
#define CUT_MOST 256 /* deleted at once */
#define PAGE_ROWS 64 /* read at once */
#define OUR_ROW 1    /* of a change: the row of the batch */

/* --- scanning --------------------------------------------------------------------------------- */

struct pg_scan {
    struct pg_conn *conn;
    int64_t incarnation, first_row; /* first_row: 1 without any */
    struct journal_scan found;
};

static int row_is_odd(struct pg_scan *scan, int64_t row)
{
    snprintf(scan->conn->error, sizeof scan->conn->error,
             "row %" PRId64 " of node %" PRId64 " in the journal is not as it was written", row,
             scan->incarnation);
    return STORE_CORRUPT;
}

static void meet(struct pg_scan *scan, int64_t task_key, struct buf *keys)
{
    if (journal_scan_find(&scan->found, task_key))
        return;
    journal_scan_add(&scan->found, task_key);
    pg_ints_add(keys, task_key);
}

int pg_ask_sealed(struct pg_conn *conn, const struct buf *keys, PGresult **ret)
{
    struct pg_call c;
    pg_begin(&c, conn, PG_SEALED);
    pg_array(&c, keys);
    return pg_ask(&c, ret);
}

/* Asks which of a page's tasks exist, and what of theirs is in blocks. */
static int ask_found(struct pg_scan *scan, const PGresult *rows)
{
    struct buf keys = {0};
    int status = STORE_OK;
    pg_ints_begin(&keys);
    for (int i = 0; i < PQntuples(rows) && status == STORE_OK; i++) {
        struct str bytes = pg_col(rows, i, 1);
        while (status == STORE_OK && bytes.n) {
            struct journal_entry e;
            if (journal_entry_take(&bytes, &e))
                meet(scan, e.task_key, &keys);
            else
                status = row_is_odd(scan, pg_col_int(rows, i, 0));
        }
    }
    PGresult *r = NULL;
    if (status == STORE_OK && pg_array_n(&keys) > 0) {
        status = pg_ask_sealed(scan->conn, &keys, &r);
        for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
            struct journal_found *f = journal_scan_find(&scan->found, pg_col_int(r, i, 0));
            ASSERT(f);
            f->exists = true;
            f->sealed = (uint64_t)pg_col_int(r, i, 1);
            f->slot = (unsigned)pg_col_int(r, i, 2);
        }
    }
    PQclear(r);
    buf_done(&keys);
    return status;
}

static int take_entry(struct pg_scan *scan, struct journal_row row, const struct journal_entry *e)
{
    struct journal_found *f = journal_scan_find(&scan->found, e->task_key);
    ASSERT(f);
    enum journal_take took = journal_scan_take(&scan->found, f, row, e);
    if (took != JOURNAL_GAP)
        return took == JOURNAL_TAKEN ? STORE_OK : row_is_odd(scan, row.n);
    snprintf(scan->conn->error, sizeof scan->conn->error,
             "row %" PRId64 " of node %" PRId64 " in the journal: event %" PRIu64
             " of the task with key %" PRId64 " follows its event %" PRIu64,
             row.n, row.incarnation, e->first, e->task_key, f->last);
    return STORE_CORRUPT;
}

static int take_row(struct pg_scan *scan, struct journal_row row, struct str bytes)
{
    struct journal_entry e;
    int status = STORE_OK;
    while (status == STORE_OK && journal_entry_take(&bytes, &e))
        status = take_entry(scan, row, &e);
    return status;
}

static int pg_scan_rows(struct pg_scan *scan)
{
    int64_t last = INT64_MIN;
    int status = STORE_OK;
    for (bool more = true; more && status == STORE_OK;) {
        struct pg_call c;
        PGresult *r;
        pg_begin(&c, scan->conn, PG_JOURNAL_ROWS);
        pg_int(&c, scan->incarnation);
        pg_int(&c, last);
        pg_int(&c, PAGE_ROWS);
        status = pg_ask(&c, &r);
        if (status == STORE_OK)
            status = ask_found(scan, r);
        int n = status == STORE_OK ? PQntuples(r) : 0;
        for (int i = 0; i < n && status == STORE_OK; i++) {
            if (last == INT64_MIN)
                scan->first_row = pg_col_int(r, i, 0);
            last = pg_col_int(r, i, 0);
            status = take_row(scan, (struct journal_row){scan->incarnation, last}, pg_col(r, i, 1));
        }
        more = n == PAGE_ROWS;
        PQclear(r);
    }
    return status;
}

/* All of one state, also while others write. */
static int pg_scan(struct pg_scan *scan, struct pg_conn *conn, int64_t incarnation, bool want_bytes)
{
    *scan = (struct pg_scan){.conn = conn, .incarnation = incarnation, .first_row = 1};
    journal_scan_init(&scan->found, want_bytes);
    int status = pg_run_plain(conn, PG_SNAPSHOT);
    if (status == STORE_OK)
        status = pg_scan_rows(scan);
    if (!pg_conn_is_open(conn) || PQtransactionStatus(conn->pg) == PQTRANS_IDLE)
        return status;
    int end = pg_run_plain(conn, PG_COMMIT);
    return status < 0 ? status : end;
}

int pg_tails_load(struct pg_conn *conn, int64_t incarnation, const struct slots *slots,
                  struct tails *ret)
{
    struct pg_scan scan;
    int status = pg_scan(&scan, conn, incarnation, true);
    if (status == STORE_OK)
        status = tails_fill(ret, &scan.found, slots);
    journal_scan_done(&scan.found);
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

void pg_journal_init(struct pg_journal *j)
{
    *j = (struct pg_journal){0};
    journal_tails_init(&j->tails);
}

void pg_journal_done(struct pg_journal *j)
{
    journal_tails_done(&j->tails);
    buf_done(&j->row);
    free(j->there);
    *j = (struct pg_journal){0};
}

int pg_journal_load(struct pg_journal *j, struct pg_conn *conn)
{
    struct pg_scan scan;
    int status = pg_scan(&scan, conn, j->incarnation, false);
    if (status == STORE_OK) {
        journal_tails_load(&j->tails, &scan.found);
        j->first = scan.first_row;
    }
    journal_scan_done(&scan.found);
    pg_journal_rollback(j);
    return status;
}

bool pg_journal_has(const struct pg_journal *j, int64_t task_key)
{
    return journal_tails_find(&j->tails, task_key) != NULL;
}

void pg_journal_lines(struct pg_journal *j, int64_t task_key, uint64_t first, uint64_t last,
                      struct str bytes)
{
    journal_entry_put(&j->row, &(struct journal_entry){task_key, first, last, bytes});
    journal_tails_change(&j->tails, task_key, OUR_ROW);
}

void pg_journal_drop(struct pg_journal *j, int64_t task_key)
{
    struct journal_tail *t = journal_tails_find(&j->tails, task_key);
    if (t)
        t->drops = true;
    journal_tails_change(&j->tails, task_key, 0);
}

/* Works from the committed state: rows that die in this transaction go in a later one. */
static void pg_cut(struct pg_journal *j, struct pg_conn *conn, int64_t n)
{
    const struct journal_tail *t = journal_tails_oldest(&j->tails);
    int64_t live = t ? t->row : n;
    struct pg_call c;
    if (live - j->first < CUT_ROWS)
        return;
    j->cut_to = live < j->first + CUT_MOST ? live : j->first + CUT_MOST;
    pg_begin(&c, conn, PG_JOURNAL_CUT);
    pg_int(&c, j->incarnation);
    pg_int(&c, j->first);
    pg_int(&c, j->cut_to);
    pg_send(&c);
}

void pg_journal_finish(struct pg_journal *j, struct pg_conn *conn, int64_t n)
{
    if (j->row.len) {
        struct pg_call c;
        pg_begin(&c, conn, PG_JOURNAL_PUT);
        pg_int(&c, j->incarnation);
        pg_int(&c, n);
        pg_text(&c, buf_str(&j->row));
        pg_send(&c);
    }
    pg_cut(j, conn, n);
}

/* Lines behind a block of the same batch begin a new tail. */
void pg_journal_strangers(const struct pg_journal *j, bool all, struct buf *keys)
{
    for (size_t i = 0; i < j->tails.n_changes; i++) {
        const struct journal_change *change = &j->tails.changes[i];
        const struct journal_tail *t = journal_tails_find(&j->tails, change->task_key);
        if (change->row && (all || !t || t->drops))
            pg_ints_add(keys, change->task_key);
    }
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void pg_journal_there(struct pg_journal *j, int64_t *keys, size_t n)
{
    qsort(keys, n, sizeof *keys, by_number);
    free(j->there);
    j->there = keys;
    j->n_there = n;
}

static bool tail_is_there(const struct pg_journal *j, int64_t task_key)
{
    return j->n_there > 0 &&
           bsearch(&task_key, j->there, j->n_there, sizeof task_key, by_number) != NULL;
}

void pg_journal_commit(struct pg_journal *j, int64_t n)
{
    for (size_t i = 0; i < j->tails.n_changes; i++) {
        const struct journal_change *change = &j->tails.changes[i];
        struct journal_tail *t = journal_tails_find(&j->tails, change->task_key);
        if (change->row && !t && tail_is_there(j, change->task_key))
            journal_tails_add(&j->tails, change->task_key, n);
        else if (!change->row && t)
            journal_tails_remove(&j->tails, t);
    }
    j->first = j->cut_to;
    pg_journal_rollback(j); /* starts anew from here */
}

void pg_journal_rollback(struct pg_journal *j)
{
    j->cut_to = j->first;
    for (size_t i = 0; i < j->tails.n_changes; i++) {
        struct journal_tail *t = journal_tails_find(&j->tails, j->tails.changes[i].task_key);
        if (t)
            t->drops = false;
    }
    j->tails.n_changes = 0;
    free(j->there);
    j->there = NULL;
    j->n_there = 0;
    buf_clear(&j->row);
    if (j->row.cap > (1u << 20))
        buf_done(&j->row);
}
