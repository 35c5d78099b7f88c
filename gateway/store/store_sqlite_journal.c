/* The journal: every line is appended here once, in the order of commits, and stays until a block
 * holds it (or its task is deleted).
 *
 * Design.  One row holds the lines of one commit, from any number of tasks, so that a commit costs
 * one insertion at the end of one b-tree; a row beyond ROW_BYTES is followed by another.  The store
 * numbers the rows, upwards, and there is no index: a start finds what it needs by reading all of
 * them.  A row that is not as it was written (its checksum says so) is refused, because nobody
 * knows whose lines it had.
 *
 * An entry is live while its task exists, and neither a block nor a removal reaches its last line.
 * For each task with live entries the writer keeps the number of the oldest row that has some
 * (struct tail), in a list that is always in the order of those numbers, because a new tail has its
 * lines in the newest row.  All rows below the first of that list are dead: once there are some, a
 * commit deletes them, a bounded number.  A silent task pins the journal; core seals such tails by
 * age.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "gateway/store/journal_entry.h"
#include "gateway/store/store_sqlite_private.h"

#define ROW_BYTES 65536
#define CUT_ROWS 32 /* dead rows worth a deletion; one takes these and 3 x its own */

struct tail {
    struct map_node node;
    struct list at;
    int64_t task_key;
    int64_t row; /* the oldest row with live lines of it */
};

struct tail_change {
    int64_t task_key;
    int64_t row; /* the row of the last lines; 0: those so far are dead */
};

static const uint64_t secret[2] = {0x686f6c6466617374, 1}; /* keys are ours: nobody can aim */

static struct map_key key_of_int(const int64_t *key)
{
    return (struct map_key){{{(const char *)key, sizeof *key}}};
}

static struct map_key tail_key(const struct map_node *node)
{
    return key_of_int(&container_of(node, const struct tail, node)->task_key);
}

/* --- scanning --------------------------------------------------------------------------------- */

/* The result of a scan for one task. */
struct found {
    struct map_node node;
    struct list at; /* in order of the first live row; only if there are live lines */
    int64_t task_key;
    int64_t row;
    bool exists;
    uint64_t sealed; /* last line in blocks */
    uint64_t first, last;
    struct buf bytes;
};

struct scan {
    struct sql_conn *conn;
    struct map tasks;
    struct list live;
    size_t n_live;
    bool want_bytes;
};

static struct map_key found_key(const struct map_node *node)
{
    return key_of_int(&container_of(node, const struct found, node)->task_key);
}

static int found_get(struct scan *scan, int64_t task_key, struct found **ret)
{
    struct map_node *node = map_find(&scan->tasks, key_of_int(&task_key));
    if (node) {
        *ret = container_of(node, struct found, node);
        return STORE_OK;
    }
    struct sql_call c = sql_begin(scan->conn, STMT_SEALED);
    sql_int(&c, task_key);
    struct found *f = xcalloc(sizeof *f);
    f->task_key = task_key;
    f->exists = sql_step(&c);
    if (f->exists)
        f->sealed = (uint64_t)sql_col_int(&c, 0);
    map_put(&scan->tasks, &f->node);
    *ret = f;
    return sql_end(&c);
}

static int scan_entry(struct scan *scan, int64_t row, const struct journal_entry *e)
{
    struct found *f;
    int status = found_get(scan, e->task_key, &f);
    if (status < 0 || !f->exists || e->last <= f->sealed)
        return status;
    if (!list_is_in(&f->at)) {
        list_push(&scan->live, &f->at);
        scan->n_live++;
        f->row = row;
        f->first = e->first;
    } else if (e->first != f->last + 1) { /* promise 1: dense, or not at all */
        return sql_conn_damaged(scan->conn,
                                "row %" PRId64 ": event %" PRIu64 " of the task with key %" PRId64
                                " follows its event %" PRIu64,
                                row, e->first, e->task_key, f->last);
    }
    f->last = e->last;
    if (scan->want_bytes)
        buf_putstr(&f->bytes, e->bytes);
    return STORE_OK;
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

static void scan_init(struct scan *scan, struct sql_conn *conn, bool want_bytes)
{
    *scan = (struct scan){.conn = conn, .want_bytes = want_bytes};
    map_init(&scan->tasks, secret, found_key);
    list_init(&scan->live);
}

static void found_free(struct map_node *node, void *arg)
{
    struct found *f = container_of(node, struct found, node);
    (void)arg;
    buf_done(&f->bytes);
    free(f);
}

static void scan_done(struct scan *scan)
{
    map_each(&scan->tasks, found_free, NULL);
    map_done(&scan->tasks);
}

/* --- tails, to read --------------------------------------------------------------------------- */

static int by_task_key(const void *a, const void *b)
{
    const struct block *const *x = a, *const *y = b;
    return ((*x)->task_key > (*y)->task_key) - ((*x)->task_key < (*y)->task_key);
}

static int tails_fill(struct scan *scan, struct sql_tails *t)
{
    t->at = xalloc((scan->n_live + 1) * sizeof(struct block *));
    list_each (at, &scan->live) {
        struct found *f = list_item(at, struct found, at);
        struct block *b = block_new(f->task_key, f->first, f->last, f->bytes.len);
        if (!b)
            return STORE_IO;
        if (f->bytes.len)
            memcpy(b->bytes, f->bytes.bytes, f->bytes.len);
        buf_done(&f->bytes); /* so that only one task at a time exists twice */
        t->at[t->n++] = b;
    }
    qsort(t->at, t->n, sizeof(struct block *), by_task_key);
    return STORE_OK;
}

int sql_tails_load(struct sql_conn *conn, struct sql_tails *ret)
{
    struct scan scan;
    struct sql_tails t = {0};
    scan_init(&scan, conn, true);
    int status = scan_rows(&scan);
    if (status == STORE_OK)
        status = tails_fill(&scan, &t);
    scan_done(&scan);
    if (status < 0)
        sql_tails_done(&t);
    else
        *ret = t;
    return status;
}

void sql_tails_done(struct sql_tails *t)
{
    for (size_t i = 0; i < t->n; i++)
        block_free(t->at[i]);
    free(t->at);
    *t = (struct sql_tails){0};
}

/* --- tails, to write -------------------------------------------------------------------------- */

static struct tail *tail_find(const struct sqlite_journal *j, int64_t task_key)
{
    struct map_node *node = map_find(&j->tails, key_of_int(&task_key));
    return node ? container_of(node, struct tail, node) : NULL;
}

static void tail_add(struct sqlite_journal *j, int64_t task_key, int64_t row)
{
    struct tail *t = xcalloc(sizeof *t);
    t->task_key = task_key;
    t->row = row;
    map_put(&j->tails, &t->node);
    list_push(&j->order, &t->at);
}

static void tail_remove(struct sqlite_journal *j, struct tail *t)
{
    map_remove(&j->tails, &t->node);
    list_remove(&t->at);
    free(t);
}

int sqlite_journal_open(struct sqlite_journal *j, struct sql_conn *conn)
{
    struct scan scan;
    *j = (struct sqlite_journal){.conn = conn, .first_row = 1, .next_row = 1};
    map_init(&j->tails, secret, tail_key);
    list_init(&j->order);

    struct sql_call c = sql_begin(conn, STMT_JOURNAL_BOUNDS);
    if (sql_step(&c) && sql_col(&c, 0).p) {
        j->first_row = sql_col_int(&c, 0);
        j->next_row = sql_col_int(&c, 1) + 1;
    }
    int status = sql_end(&c);
    scan_init(&scan, conn, false);
    if (status == STORE_OK)
        status = scan_rows(&scan);
    if (status == STORE_OK) {
        list_each (at, &scan.live) {
            const struct found *f = list_item(at, struct found, at);
            tail_add(j, f->task_key, f->row);
        }
    }
    scan_done(&scan);
    sqlite_journal_rollback(j);
    return status;
}

void sqlite_journal_close(struct sqlite_journal *j)
{
    if (!j->conn)
        return;
    while (!list_is_empty(&j->order))
        tail_remove(j, list_item(j->order.next, struct tail, at));
    map_done(&j->tails);
    buf_done(&j->row);
    free(j->changes);
    *j = (struct sqlite_journal){0};
}

bool sqlite_journal_has(const struct sqlite_journal *j, int64_t task_key)
{
    return tail_find(j, task_key) != NULL;
}

static void change_put(struct sqlite_journal *j, int64_t task_key, int64_t row)
{
    if (j->n_changes == j->cap_changes) {
        j->cap_changes = j->cap_changes ? j->cap_changes * 2 : 64;
        j->changes = xrealloc(j->changes, j->cap_changes * sizeof *j->changes);
    }
    j->changes[j->n_changes++] = (struct tail_change){task_key, row};
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
    change_put(j, task_key, j->batch_row);
    return j->row.len >= ROW_BYTES ? row_write(j) : STORE_OK;
}

void sqlite_journal_drop(struct sqlite_journal *j, int64_t task_key)
{
    change_put(j, task_key, 0);
}

/* Works from the committed state: rows that die in this transaction go in a later one. */
static int cut(struct sqlite_journal *j)
{
    int64_t to = j->first_row + 3 * (j->batch_row - j->next_row) + CUT_ROWS;
    int64_t live = j->next_row;
    if (!list_is_empty(&j->order))
        live = list_item(j->order.next, struct tail, at)->row;
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
    for (size_t i = 0; i < j->n_changes; i++) {
        const struct tail_change *change = &j->changes[i];
        struct tail *t = tail_find(j, change->task_key);
        if (change->row && !t)
            tail_add(j, change->task_key, change->row);
        else if (!change->row && t)
            tail_remove(j, t);
    }
    j->next_row = j->batch_row;
    j->first_row = j->cut_to;
    sqlite_journal_rollback(j); /* starts anew from here */
}

void sqlite_journal_rollback(struct sqlite_journal *j)
{
    j->batch_row = j->next_row;
    j->cut_to = j->first_row;
    j->n_changes = 0;
    buf_clear(&j->row);
    if (j->row.cap > 4 * ROW_BYTES)
        buf_done(&j->row);
}
