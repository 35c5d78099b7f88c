/* The journal: as SQLite's (store_sqlite_journal.c), with one row for each commit that brings
 * lines, whose number is the batch's.  Rows belong to an incarnation; a start makes those of its
 * own name's earlier ones its own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/store/journal_entry.h"
#include "gateway/store/store_pg_private.h"

#define CUT_ROWS 32  /* dead rows worth a deletion */
#define CUT_MOST 256 /* deleted at once */
#define PAGE_ROWS 64 /* read at once */

struct pg_tail {
    struct map_node node;
    struct list at;
    int64_t task_key;
    int64_t row; /* the oldest one with live lines of it */
};

struct pg_change {
    int64_t task_key;
    bool has_lines; /* otherwise: those so far are dead */
};

static const uint64_t secret[2] = {0x686f6c6466617374, 2}; /* keys are ours: nobody can aim */

static struct map_key key_of(const int64_t *key)
{
    return (struct map_key){{{(const char *)key, sizeof *key}}};
}

static struct map_key pg_tail_key(const struct map_node *node)
{
    return key_of(&container_of(node, const struct pg_tail, node)->task_key);
}

/* --- scanning --------------------------------------------------------------------------------- */

/* The result of a scan for one task. */
struct pg_found {
    struct map_node node;
    struct list at; /* in order of the first row */
    int64_t task_key;
    bool exists;
    unsigned slot;
    uint64_t sealed; /* last line in blocks */
    int64_t row;
    uint64_t first, last; /* live lines; last 0: none */
    struct buf bytes;
};

struct pg_scan {
    struct pg_conn *conn;
    int64_t incarnation, first_row; /* first_row: 1 without any */
    struct map tasks;
    struct list live;
    size_t n_live;
    bool want_bytes;
};

static struct map_key pg_found_key(const struct map_node *node)
{
    return key_of(&container_of(node, const struct pg_found, node)->task_key);
}

static int row_is_odd(struct pg_scan *scan, int64_t row)
{
    snprintf(scan->conn->error, sizeof scan->conn->error,
             "row %" PRId64 " of node %" PRId64 " in the journal is not as it was written", row,
             scan->incarnation);
    return STORE_CORRUPT;
}

static struct pg_found *pg_found_get(struct pg_scan *scan, int64_t task_key)
{
    struct map_node *node = map_find(&scan->tasks, key_of(&task_key));
    return node ? container_of(node, struct pg_found, node) : NULL;
}

static void found_add(struct pg_scan *scan, int64_t task_key, struct buf *keys)
{
    if (pg_found_get(scan, task_key))
        return;
    struct pg_found *f = xcalloc(sizeof *f);
    f->task_key = task_key;
    map_put(&scan->tasks, &f->node);
    pg_keys_add(keys, task_key);
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
    pg_keys_begin(&keys);
    for (int i = 0; i < PQntuples(rows) && status == STORE_OK; i++) {
        struct str bytes = pg_col(rows, i, 1);
        while (status == STORE_OK && bytes.n) {
            struct journal_entry e;
            if (journal_entry_take(&bytes, &e))
                found_add(scan, e.task_key, &keys);
            else
                status = row_is_odd(scan, pg_col_int(rows, i, 0));
        }
    }
    PGresult *r = NULL;
    if (status == STORE_OK && pg_keys_n(&keys) > 0) {
        status = pg_ask_sealed(scan->conn, &keys, &r);
        for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
            struct pg_found *f = pg_found_get(scan, pg_col_int(r, i, 0));
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

static int take_entry(struct pg_scan *scan, int64_t row, const struct journal_entry *e)
{
    struct pg_found *f = pg_found_get(scan, e->task_key);
    ASSERT(f);
    if (!f->exists || e->last <= f->sealed)
        return STORE_OK;
    if (!f->last) {
        list_push(&scan->live, &f->at);
        scan->n_live++;
        f->row = row;
        f->first = e->first;
    } else if (e->first != f->last + 1) { /* promise 1: dense, or not at all */
        snprintf(scan->conn->error, sizeof scan->conn->error,
                 "row %" PRId64 " of node %" PRId64 " in the journal: event %" PRIu64
                 " of the task with key %" PRId64 " follows its event %" PRIu64,
                 row, scan->incarnation, e->first, e->task_key, f->last);
        return STORE_CORRUPT;
    }
    f->last = e->last;
    if (scan->want_bytes)
        buf_putstr(&f->bytes, e->bytes);
    return STORE_OK;
}

static int take_row(struct pg_scan *scan, int64_t row, struct str bytes)
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
            status = take_row(scan, last, pg_col(r, i, 1));
        }
        more = n == PAGE_ROWS;
        PQclear(r);
    }
    return status;
}

/* All of one state, also while others write. */
static int pg_scan(struct pg_scan *scan, struct pg_conn *conn, int64_t incarnation, bool want_bytes)
{
    *scan = (struct pg_scan){
        .conn = conn, .incarnation = incarnation, .first_row = 1, .want_bytes = want_bytes};
    map_init(&scan->tasks, secret, pg_found_key);
    list_init(&scan->live);
    int status = pg_run_plain(conn, PG_SNAPSHOT);
    if (status == STORE_OK)
        status = pg_scan_rows(scan);
    if (!pg_conn_is_open(conn) || PQtransactionStatus(conn->pg) == PQTRANS_IDLE)
        return status;
    int end = pg_run_plain(conn, PG_COMMIT);
    return status < 0 ? status : end;
}

static void pg_found_free(struct map_node *node, void *arg)
{
    struct pg_found *f = container_of(node, struct pg_found, node);
    (void)arg;
    buf_done(&f->bytes);
    free(f);
}

static void pg_scan_done(struct pg_scan *scan)
{
    map_each(&scan->tasks, pg_found_free, NULL);
    map_done(&scan->tasks);
}

/* --- tails, to read --------------------------------------------------------------------------- */

static int by_block_key(const void *a, const void *b)
{
    const struct block *const *x = a, *const *y = b;
    return ((*x)->task_key > (*y)->task_key) - ((*x)->task_key < (*y)->task_key);
}

static int pg_tails_fill(struct pg_scan *scan, const struct slots *slots, struct pg_tails *t)
{
    t->at = xalloc((scan->n_live + 1) * sizeof(struct block *));
    list_each (at, &scan->live) {
        struct pg_found *f = list_item(at, struct pg_found, at);
        if (slots && !slots_has(slots, f->slot))
            continue;
        struct block *b = block_new(f->task_key, f->first, f->last, f->bytes.len);
        if (!b)
            return STORE_IO;
        if (f->bytes.len)
            memcpy(b->bytes, f->bytes.bytes, f->bytes.len);
        buf_done(&f->bytes); /* so that only one task at a time exists twice */
        t->at[t->n++] = b;
    }
    qsort(t->at, t->n, sizeof(struct block *), by_block_key);
    return STORE_OK;
}

int pg_tails_load(struct pg_conn *conn, int64_t incarnation, const struct slots *slots,
                  struct pg_tails *ret)
{
    struct pg_scan scan;
    struct pg_tails t = {0};
    int status = pg_scan(&scan, conn, incarnation, true);
    if (status == STORE_OK)
        status = pg_tails_fill(&scan, slots, &t);
    pg_scan_done(&scan);
    if (status < 0)
        pg_tails_done(&t);
    else
        *ret = t;
    return status;
}

void pg_tails_done(struct pg_tails *t)
{
    for (size_t i = 0; i < t->n; i++)
        block_free(t->at[i]);
    free(t->at);
    *t = (struct pg_tails){0};
}

/* --- tails, to write -------------------------------------------------------------------------- */

static struct pg_tail *pg_tail_find(const struct pg_journal *j, int64_t task_key)
{
    struct map_node *node = map_find(&j->tails, key_of(&task_key));
    return node ? container_of(node, struct pg_tail, node) : NULL;
}

static void pg_tail_add(struct pg_journal *j, int64_t task_key, int64_t row)
{
    struct pg_tail *t = xcalloc(sizeof *t);
    t->task_key = task_key;
    t->row = row;
    map_put(&j->tails, &t->node);
    list_push(&j->order, &t->at);
}

static void pg_tail_remove(struct pg_journal *j, struct pg_tail *t)
{
    map_remove(&j->tails, &t->node);
    list_remove(&t->at);
    free(t);
}

static struct pg_tail *oldest(const struct pg_journal *j)
{
    return list_is_empty(&j->order) ? NULL : list_item(j->order.next, struct pg_tail, at);
}

void pg_journal_init(struct pg_journal *j)
{
    *j = (struct pg_journal){0};
    map_init(&j->tails, secret, pg_tail_key);
    list_init(&j->order);
}

void pg_journal_done(struct pg_journal *j)
{
    while (!list_is_empty(&j->order))
        pg_tail_remove(j, oldest(j));
    map_done(&j->tails);
    buf_done(&j->row);
    free(j->changes);
    free(j->there);
    *j = (struct pg_journal){0};
}

int pg_journal_load(struct pg_journal *j, struct pg_conn *conn)
{
    struct pg_scan scan;
    int status = pg_scan(&scan, conn, j->incarnation, false);
    if (status == STORE_OK) {
        while (!list_is_empty(&j->order))
            pg_tail_remove(j, oldest(j));
        list_each (at, &scan.live) {
            const struct pg_found *f = list_item(at, struct pg_found, at);
            pg_tail_add(j, f->task_key, f->row);
        }
        j->first = scan.first_row;
    }
    pg_scan_done(&scan);
    pg_journal_rollback(j);
    return status;
}

bool pg_journal_has(const struct pg_journal *j, int64_t task_key)
{
    return pg_tail_find(j, task_key) != NULL;
}

static void pg_change_put(struct pg_journal *j, int64_t task_key, bool has_lines)
{
    if (j->n_changes == j->cap_changes) {
        j->cap_changes = j->cap_changes ? j->cap_changes * 2 : 64;
        j->changes = xrealloc(j->changes, j->cap_changes * sizeof *j->changes);
    }
    j->changes[j->n_changes++] = (struct pg_change){task_key, has_lines};
}

void pg_journal_lines(struct pg_journal *j, int64_t task_key, uint64_t first, uint64_t last,
                      struct str bytes)
{
    journal_entry_put(&j->row, &(struct journal_entry){task_key, first, last, bytes});
    pg_change_put(j, task_key, true);
}

void pg_journal_drop(struct pg_journal *j, int64_t task_key)
{
    pg_change_put(j, task_key, false);
}

/* Works from the committed state: rows that die in this transaction go in a later one. */
static void pg_cut(struct pg_journal *j, struct pg_conn *conn, int64_t n)
{
    const struct pg_tail *t = oldest(j);
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

void pg_journal_strangers(const struct pg_journal *j, bool all, struct buf *keys)
{
    for (size_t i = 0; i < j->n_changes; i++)
        if (j->changes[i].has_lines && (all || !pg_tail_find(j, j->changes[i].task_key)))
            pg_keys_add(keys, j->changes[i].task_key);
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
    for (size_t i = 0; i < j->n_changes; i++) {
        const struct pg_change *change = &j->changes[i];
        struct pg_tail *t = pg_tail_find(j, change->task_key);
        if (change->has_lines && !t && tail_is_there(j, change->task_key))
            pg_tail_add(j, change->task_key, n);
        else if (!change->has_lines && t)
            pg_tail_remove(j, t);
    }
    j->first = j->cut_to;
    pg_journal_rollback(j); /* starts anew from here */
}

void pg_journal_rollback(struct pg_journal *j)
{
    j->cut_to = j->first;
    j->n_changes = 0;
    free(j->there);
    j->there = NULL;
    j->n_there = 0;
    buf_clear(&j->row);
    if (j->row.cap > (1u << 20))
        buf_done(&j->row);
}
