/* A node's way from one server to another: a standby that was promoted, or a backup.  Such a server
 * may have lost batches that were acknowledged.
 *
 * Each node keeps its last batches, with the number that each found in nodes.batch and the one that
 * it left there.  On a server of another history the writer
 *
 *   ASKS    reads its row, sends again what the row has not seen, in order, and says in its row
 *           that it is on that history
 *   WAITS   until every node that is not dead has said so (the watch asks), or was taken over
 *   SURE    and goes on
 *
 * Until it is sure it commits nothing, answers nothing and renews no trust: a node that was taken
 * over in what was lost is alive in these tables, and may not speak before its taker has.  Owners
 * are disjoint, so batches of several nodes commute.  Moves of slots do not: a node whose claim
 * is lost, whose row is gone, or which has kept too little raises the epoch and ends; and whoever
 * takes over a node that has not said anything raises it (docs/decisions.md).
 *
 * With `replicated` nothing is lost at a failover: nothing is kept, and nobody waits. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

#define KEPT_MS 60000 /* a standby that is further behind is none */

struct kept {
    struct list at;
    int64_t from, to; /* nodes.batch before and behind it */
    int64_t kept_at;  /* by pg_boot_ms */
    size_t bytes;
    struct batch *batch; /* NULL: it was given up */
};

/* --- keeping ---------------------------------------------------------------------------------- */

void pg_redo_init(struct store_pg *s)
{
    list_init(&s->redo.kept);
    s->redo.most = s->o.replicated ? 0 : s->o.redo_bytes;
}

static void redo_drop(struct store_pg *s, struct kept *k)
{
    list_remove(&k->at);
    s->redo.bytes -= k->bytes;
    batch_free(k->batch);
    free(k);
}

static struct kept *redo_oldest(const struct store_pg *s)
{
    return list_is_empty(&s->redo.kept) ? NULL : list_item(s->redo.kept.next, struct kept, at);
}

void pg_redo_done(struct store_pg *s)
{
    for (struct kept *k; (k = redo_oldest(s)) != NULL;)
        redo_drop(s, k);
}

void pg_redo_age(struct store_pg *s)
{
    for (struct kept *k; (k = redo_oldest(s)) != NULL;) {
        if (s->redo.bytes <= s->redo.most && pg_boot_ms() - k->kept_at < KEPT_MS)
            break;
        redo_drop(s, k);
    }
}

void pg_redo_keep(struct store_pg *s, int64_t from, int64_t to, const struct batch *batch)
{
    s->redo.last = to;
    if (s->redo.most == 0 || from == to)
        return;
    struct kept *k = xalloc(sizeof *k);
    *k = (struct kept){.from = from, .to = to, .kept_at = pg_boot_ms()};
    if (batch) {
        k->batch = batch_clone(batch);
        k->bytes = batch->bytes + batch->n_ops * sizeof *batch->ops;
    }
    k->bytes += sizeof *k;
    s->redo.bytes += k->bytes;
    list_push(&s->redo.kept, &k->at);
    pg_redo_age(s);
}

/* --- histories -------------------------------------------------------------------------------- */

int pg_history_read(struct pg_conn *conn, char ret[PG_HISTORY_TEXT])
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_HISTORY);
    int status = pg_ask(&c, &r);
    struct str text = status == STORE_OK ? pg_col(r, 0, 0) : STR_NULL;
    snprintf(ret, PG_HISTORY_TEXT, "%.*s", (int)text.n, text.p ? text.p : "");
    PQclear(r);
    return status;
}

bool pg_history_is(struct store_pg *s, const char *history)
{
    uv_mutex_lock(&s->lock);
    bool is = strcmp(s->history, history) == 0;
    uv_mutex_unlock(&s->lock);
    return is;
}

bool pg_is_sure(struct store_pg *s)
{
    return atomic_load(&s->phase) == PG_SURE;
}

static void asks_begin(struct store_pg *s)
{
    s->asks_since = pg_boot_ms();
    atomic_fetch_add(&s->asked, 1);
    atomic_store(&s->phase, PG_ASKS);
}

int pg_history_meet(struct store_pg *s)
{
    char history[PG_HISTORY_TEXT];
    int status = pg_history_read(&s->writer, history);
    if (status < 0 || pg_history_is(s, history))
        return status;
    log_event(LEVEL_WARN, "store", "another_history", LOG_TEXT("history", history));
    if (!s->o.replicated)
        asks_begin(s); /* first: nobody may find the new history and us sure of it */
    uv_mutex_lock(&s->lock);
    memcpy(s->history, history, sizeof s->history);
    uv_mutex_unlock(&s->lock);
    return STORE_OK;
}

int pg_history_ask(struct store_pg *s, struct pg_conn *conn)
{
    char history[PG_HISTORY_TEXT];
    int status = pg_history_read(conn, history);
    if (status < 0)
        return status;
    if (!pg_history_is(s, history)) {
        atomic_store(&s->suspects, true);
        snprintf(conn->error, sizeof conn->error, "the server is another one than before");
        return STORE_BUSY;
    }
    return STORE_OK;
}

/* --- an end ----------------------------------------------------------------------------------- */

static void put_alone(struct store_pg *s, enum pg_stmt stmt)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, stmt);
    pg_send(&c);
}

static int64_t highest_of(const struct store_pg *s, const struct store_view *v)
{
    int64_t highest = v->range > s->incarnation ? v->range : s->incarnation;
    for (size_t i = 0; i < v->n; i++)
        highest = v->nodes[i].incarnation > highest ? v->nodes[i].incarnation : highest;
    for (unsigned i = 0; i < N_SLOTS; i++)
        highest = v->moved[i] > highest ? v->moved[i] : highest;
    return v->epoch > highest ? v->epoch : highest;
}

static int64_t highest_known(struct store_pg *s)
{
    struct store_view *v = xcalloc(sizeof *v);
    (void)pg_watch_view(s, v);
    int64_t highest = highest_of(s, v);
    free(v);
    return highest;
}

int pg_raise(struct pg_conn *conn, int64_t given)
{
    struct pg_call c;
    pg_begin(&c, conn, PG_REWOUND);
    pg_int(&c, given);
    return pg_run(&c);
}

/* One transaction: whoever finds us gone finds the epoch too. */
static int raise_and_end(struct store_pg *s)
{
    struct pg_call c;
    put_alone(s, PG_BEGIN);
    pg_begin(&c, &s->writer, PG_REWOUND);
    pg_int(&c, highest_known(s));
    pg_send(&c);
    pg_begin(&c, &s->writer, PG_NODE_LEAVE);
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    pg_send(&c);
    put_alone(s, PG_COMMIT);
    return pg_flush(&s->writer, NULL, NULL);
}

int pg_tail_is_lost(struct store_pg *s, const char *why)
{
    log_event(LEVEL_ERROR, "store", "tail_lost", LOG_INT("committed", s->redo.last),
              LOG_TEXT("why", why));
    if (raise_and_end(s) < 0)
        return STORE_BUSY; /* first it must be known */
    return pg_say_fenced(s, "the server has lost batches that it had committed: a failover to an "
                            "asynchronous standby, or a restored backup");
}

/* --- asking ----------------------------------------------------------------------------------- */

static int row_exists(struct store_pg *s, bool *ret)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_ROW_EXISTS);
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    int status = pg_ask(&c, &r);
    *ret = status == STORE_OK && PQntuples(r) > 0;
    PQclear(r);
    return status;
}

/* If the newest claim is there, all before it are: a log is lost from its end. */
static int claim_is_kept(struct store_pg *s, bool *ret)
{
    struct pg_call c;
    PGresult *r;
    uv_mutex_lock(&s->lock);
    int64_t number = s->claimed, slot = s->claimed_slot;
    uv_mutex_unlock(&s->lock);
    pg_begin(&c, &s->writer, PG_SLOT_MOVED);
    pg_int(&c, slot);
    int status = pg_ask(&c, &r);
    *ret = status == STORE_OK && PQntuples(r) == 1 && pg_col_int(r, 0, 0) >= number;
    PQclear(r);
    return status;
}

static bool is_among(const PGresult *r, int64_t incarnation)
{
    for (int i = 0; i < PQntuples(r); i++)
        if (pg_col_int(r, i, 0) == incarnation)
            return true;
    return false;
}

/* A node that joined in what was lost, and may be gone as well: nobody will hear it. */
static int miss_others(struct store_pg *s, const struct store_view *v, bool *ret)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_INCARNATIONS);
    int status = pg_ask(&c, &r);
    *ret = false;
    for (size_t i = 0; status == STORE_OK && i < v->n; i++)
        *ret = *ret || (v->nodes[i].state != NODE_DEAD && !is_among(r, v->nodes[i].incarnation));
    PQclear(r);
    return status;
}

/* --- sending again ---------------------------------------------------------------------------- */

static struct kept *kept_from(const struct store_pg *s, int64_t row)
{
    list_each (it, &s->redo.kept) {
        struct kept *k = list_item(it, struct kept, at);
        if (k->from == row)
            return k;
    }
    return NULL;
}

static int void_again(struct store_pg *s, const struct kept *k)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_VOID);
    pg_int(&c, k->to);
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    pg_int(&c, k->from);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && PQntuples(r) == 0)
        status = STORE_BUSY;
    PQclear(r);
    return status;
}

static int send_kept(struct store_pg *s, struct kept *k)
{
    uint64_t n = 0;
    int status = pg_journal_load(&s->journal, &s->writer);
    while (status == STORE_OK && k) {
        struct list *next = k->at.next;
        s->in_row = k->from;
        status = k->batch ? pg_commit_again(s, k->batch, (uint64_t)k->to) : void_again(s, k);
        n += status == STORE_OK;
        k = next == &s->redo.kept ? NULL : list_item(next, struct kept, at);
    }
    s->in_row = s->redo.last; /* again from what the row says then, when it has failed */
    atomic_fetch_add(&s->redo.again, n);
    if (n > 0)
        log_event(LEVEL_WARN, "store", "tail_sent_again", LOG_INT("batches", (int64_t)n));
    return status;
}

/* An epoch that was raised in what is lost is raised. */
static int confirm(struct store_pg *s, const struct store_view *v)
{
    struct pg_call c;
    put_alone(s, PG_BEGIN);
    pg_begin(&c, &s->writer, PG_HISTORY_OF_NODE);
    pg_text(&c, str_of(s->history));
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    pg_send(&c);
    pg_begin(&c, &s->writer, PG_HISTORY_KEEP);
    pg_text(&c, str_of(s->history));
    pg_int(&c, highest_of(s, v));
    pg_int(&c, v->epoch);
    pg_send(&c);
    put_alone(s, PG_COMMIT);
    return pg_flush(&s->writer, NULL, NULL);
}

static int send_again(struct store_pg *s, int64_t row)
{
    bool is_whole = row == s->redo.last || (s->doubt && row == (int64_t)s->doubt) ||
                    (s->doubt && row == -(int64_t)s->doubt);
    if (is_whole)
        return STORE_OK;
    struct kept *k = kept_from(s, row);
    return k ? send_kept(s, k) : pg_tail_is_lost(s, "too few batches are kept (store.redo_mib)");
}

static int ask_within(struct store_pg *s, int64_t row, const struct store_view *v, bool has_view)
{
    bool kept = true, misses = false;
    int status = claim_is_kept(s, &kept);
    if (status == STORE_OK && !kept)
        return pg_tail_is_lost(s, "a claim of slots is lost");
    if (status == STORE_OK)
        status = send_again(s, row);
    if (status == STORE_OK && has_view)
        status = miss_others(s, v, &misses);
    if (status == STORE_OK && misses)
        status = pg_raise(&s->writer, highest_of(s, v));
    return status == STORE_OK ? confirm(s, v) : status;
}

/* The row of a node that joined in what was lost is gone: not silently. */
static int row_is_gone(struct store_pg *s)
{
    bool exists = false;
    atomic_store(&s->fenced, false);
    int status = row_exists(s, &exists);
    if (status == STORE_OK && !exists)
        return pg_tail_is_lost(s, "this gateway's row is gone");
    if (status == STORE_OK)
        status = pg_say_fenced(s, "another gateway has taken this store over");
    return status;
}

static int history_ask_row(struct store_pg *s)
{
    int64_t row = 0;
    int status = pg_read_back(s, &row);
    if (status == STORE_FENCED)
        return row_is_gone(s);
    if (status < 0)
        return status;
    if (pg_boot_ms() - s->asks_since > pg_lease_ms(s)) /* the others wait for us */
        return pg_tail_is_lost(s, "what was kept cannot be sent again");
    struct store_view *v = xcalloc(sizeof *v);
    bool has_view = pg_watch_view(s, v);
    status = ask_within(s, row, v, has_view);
    free(v);
    return status;
}

/* Without a watch there is nobody else to ask. */
static int ask_others(struct store_pg *s)
{
    int64_t n = 0;
    int status = pg_unconfirmed(&s->writer, s->history, &n);
    if (status == STORE_OK && n == 0)
        atomic_store(&s->phase, PG_SURE);
    return status;
}

int pg_history_settle(struct store_pg *s)
{
    int status = STORE_OK;
    if (pg_is_sure(s))
        return STORE_OK;
    if (atomic_load(&s->phase) == PG_ASKS) {
        status = history_ask_row(s);
        if (status == STORE_OK)
            atomic_store(&s->phase, PG_WAITS);
    }
    if (status == STORE_OK && !s->watch)
        status = ask_others(s);
    if (status == STORE_OK && !pg_is_sure(s)) {
        snprintf(s->writer.error, sizeof s->writer.error,
                 "the server is another one: other gateways have not said what they had");
        status = STORE_BUSY;
    }
    return status == STORE_UNKNOWN ? STORE_BUSY : status;
}
