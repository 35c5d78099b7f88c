/* A batch into a transaction, its outcome, and what becomes of it when that is not known.
 *
 * The node's row has the number of the last batch (nodes.batch).  A batch's first statement moves
 * it from the one that we left there to its own, and waits for whoever has the row: so of two
 * transactions with one batch the second does nothing.  After anything that leaves the outcome open
 * the backend is ended, a new connection asks the row by a write, and
 *
 *   it says the batch's number    it was applied
 *   … the one that we left        it was not: it is sent again, unchanged
 *   … minus the batch's number    it was given up (void), and can never be applied
 *   there is none, or it is dead  another process has the store (STORE_FENCED)
 *   anything else                 the server has lost batches that it had committed: as fenced,
 *                                 because what clients have seen is not what the store has
 *
 * On a server of another history store_pg_redo.c comes first, and sends lost ones again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

int pg_say_fenced(struct store_pg *s, const char *why)
{
    snprintf(s->writer.error, sizeof s->writer.error, "%s", why);
    atomic_store(&s->fenced, true);
    return STORE_FENCED;
}

/* --- the connection --------------------------------------------------------------------------- */

/* Readers of the connection before may have seen what no standby had. */
int pg_writer_open(struct store_pg *s)
{
    if (pg_conn_is_open(&s->writer) && !atomic_exchange(&s->suspects, false))
        return STORE_OK;
    pg_conn_close(&s->writer);
    atomic_store(&s->suspects, false);
    if (!pg_conn_open(&s->writer, &s->o, s->name))
        return STORE_IO;
    atomic_fetch_add(&s->generation, 1);
    int status = s->pid ? pg_backend_end(s, s->pid) : STORE_OK;
    if (status == STORE_OK)
        status = pg_node_check_standby(s);
    if (status == STORE_OK)
        status = pg_history_meet(s);
    if (status == STORE_OK)
        s->pid = pg_conn_pid(&s->writer);
    else
        pg_conn_close(&s->writer);
    return status;
}

/* --- after a doubt ---------------------------------------------------------------------------- */

/* Reads nodes.batch, as it is on every disk that a commit must be on. */
int pg_read_back(struct store_pg *s, int64_t *ret)
{
    struct pg_call c;
    PGresult *r;
    s->writer.warned = false;
    pg_begin(&c, &s->writer, PG_READ_BACK);
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && s->writer.warned) {
        pg_conn_close(&s->writer);
        status = STORE_UNKNOWN;
    }
    if (status == STORE_OK && PQntuples(r) == 0)
        status = pg_say_fenced(s, "another gateway has taken this store over");
    if (status == STORE_OK) {
        struct str newest = pg_col(r, 0, 1);
        *ret = pg_col_int(r, 0, 0);
        if (newest.n == TASK_ID_LEN)
            memcpy(s->marks.newest_id, newest.p, TASK_ID_LEN);
    }
    PQclear(r);
    return status;
}

/* Settles whether batch n was applied.  STORE_OK: it was; STORE_NOT_FOUND: it was not, and nobody
 * is left who could; STORE_VOID: it never will be; STORE_UNKNOWN, STORE_FENCED. */
static int settle(struct store_pg *s, uint64_t n)
{
    int64_t row = 0;
    int status = pg_read_back(s, &row);
    if (status == STORE_FENCED)
        return status;
    if (status < 0)
        return STORE_UNKNOWN;
    if (row == (int64_t)n) {
        if (pg_journal_load(&s->journal, &s->writer) < 0)
            return STORE_UNKNOWN;
        s->has_garbage = true; /* maybe */
        s->number = n;
        atomic_fetch_add(&s->commits, 1);
    } else if (row != s->in_row && row != -(int64_t)n) {
        return pg_tail_is_lost(s, "its row is of an earlier batch");
    }
    s->doubt = 0;
    int outcome = row == (int64_t)n ? STORE_OK : row == s->in_row ? STORE_NOT_FOUND : STORE_VOID;
    s->in_row = row;
    return outcome;
}

/* Its own outcome is the same question again. */
static int give_up(struct store_pg *s, uint64_t n)
{
    struct pg_call c;
    s->doubt = n;
    s->writer.warned = false;
    pg_begin(&c, &s->writer, PG_VOID);
    pg_int(&c, -(int64_t)n);
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    pg_int(&c, s->in_row);
    if (pg_run(&c) < 0 || s->writer.warned)
        return STORE_UNKNOWN;
    int status = settle(s, n);
    return status == STORE_NOT_FOUND ? STORE_UNKNOWN : status;
}

/* --- sending ---------------------------------------------------------------------------------- */

static void take_gone(struct store_pg *s, const PGresult *r)
{
    s->deletes = true;
    for (int i = 0; i < PQntuples(r); i++)
        pg_journal_drop(&s->journal, pg_col_int(r, i, 0));
}

static void take_there(struct store_pg *s, const PGresult *r)
{
    size_t n = (size_t)PQntuples(r);
    int64_t *keys = xalloc((n + 1) * sizeof *keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = pg_col_int(r, (int)i, 0);
    pg_journal_there(&s->journal, keys, n);
}

/* Results are told apart by the names that the statements give them (store_pg_sql.c). */
static bool take_sent(void *arg, size_t i, PGresult *r)
{
    struct store_pg *s = arg;
    (void)i;
    const char *name = PQnfields(r) == 1 ? PQfname(r, 0) : "";
    if (strcmp(name, "gone") == 0)
        take_gone(s, r);
    else if (strcmp(name, "there") == 0)
        take_there(s, r);
    else if (strcmp(PQcmdStatus(r), "COMMIT") == 0)
        s->committed = true;
    return false;
}

struct within {
    struct store_pg *s;
    size_t at; /* of the question, behind what was queued before it */
    PGresult *result;
};

static bool take_within(void *arg, size_t i, PGresult *r)
{
    struct within *w = arg;
    if (i < w->at)
        return take_sent(w->s, i, r);
    w->result = r;
    return true;
}

int pg_ask_within(struct store_pg *s, struct pg_call *c, PGresult **ret)
{
    struct within w = {.s = s, .at = s->writer.n_queued};
    *ret = NULL;
    pg_send(c);
    int status = pg_flush(&s->writer, take_within, &w);
    ASSERT(status < 0 || w.result);
    if (status < 0)
        PQclear(w.result);
    else
        *ret = w.result;
    return status;
}

static void put_fence(struct store_pg *s, uint64_t n)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_FENCE);
    pg_int(&c, (int64_t)n);
    pg_text(&c, str_of(s->newest_id));
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    pg_int(&c, s->in_row);
    pg_send(&c);
}

static void put_plain(struct store_pg *s, enum pg_stmt stmt)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, stmt);
    pg_send(&c);
}

static void newest_note(struct store_pg *s, struct str id)
{
    if (id.n == TASK_ID_LEN && memcmp(id.p, s->newest_id, TASK_ID_LEN) > 0)
        memcpy(s->newest_id, id.p, TASK_ID_LEN);
}

/* The fence takes it along, so it must be known before the ops are put. */
static void find_newest(struct store_pg *s, const struct batch *batch)
{
    memcpy(s->newest_id, s->marks.newest_id, sizeof s->newest_id);
    for (size_t i = 0; i < batch->n_ops; i++) {
        const struct op *op = &batch->ops[i];
        if (op->kind == OP_TASK_NEW)
            newest_note(s, op->record->task_id);
        else if (op->kind == OP_MESSAGE)
            newest_note(s, op->message->message_id);
        else if (op->kind == OP_FILE_PUT)
            newest_note(s, op->file->file_id);
    }
}

static void put_strangers(struct store_pg *s)
{
    struct buf keys = {0};
    pg_ints_begin(&keys);
    pg_journal_strangers(&s->journal, s->deletes, &keys);
    if (pg_array_n(&keys) > 0) {
        struct pg_call c;
        pg_begin(&c, &s->writer, PG_TASKS_EXIST);
        pg_array(&c, &keys);
        pg_send(&c);
    }
    buf_done(&keys);
}

/* STORE_UNKNOWN, or an error that the server answered: then nothing has changed. */
static int send_batch(struct store_pg *s, const struct batch *batch, uint64_t n)
{
    s->deletes = s->committed = false;
    s->writer.warned = false;
    find_newest(s, batch);
    put_plain(s, PG_BEGIN);
    put_fence(s, n);
    int status = pg_put_ops(s, batch);
    if (status < 0) /* the transaction is over (pg_flush) */
        return status;
    put_strangers(s);
    pg_journal_finish(&s->journal, &s->writer, (int64_t)n);
    put_plain(s, PG_COMMIT);
    status = pg_flush(&s->writer, take_sent, s);
    if (status == STORE_OK && (s->writer.warned || !s->committed)) {
        pg_conn_close(&s->writer); /* a warning: it may not be where it was promised to be */
        status = STORE_UNKNOWN;
    }
    return status;
}

static void commit_keep(struct store_pg *s, uint64_t n)
{
    s->number = n;
    s->in_row = (int64_t)n;
    memcpy(s->marks.newest_id, s->newest_id, sizeof s->newest_id);
    pg_journal_commit(&s->journal, (int64_t)n);
    s->has_garbage = s->has_garbage || s->deletes;
    atomic_fetch_add(&s->commits, 1);
}

/* The fence was not hit, without a doubt of ours: nobody but another process, or a lost tail. */
static int find_out(struct store_pg *s, uint64_t n)
{
    int status = settle(s, n);
    return status == STORE_NOT_FOUND ? STORE_BUSY : status;
}

static int commit_new(struct store_pg *s, const struct batch *batch, uint64_t n)
{
    int status = send_batch(s, batch, n);
    if (status == STORE_OK) {
        commit_keep(s, n);
        return STORE_OK;
    }
    pg_journal_rollback(&s->journal);
    if (status == STORE_UNKNOWN)
        s->doubt = n;
    else if (strcmp(s->writer.state, "22012") == 0)
        return find_out(s, n);
    return status;
}

int pg_commit_again(struct store_pg *s, const struct batch *batch, uint64_t n)
{
    int status = send_batch(s, batch, n);
    if (status == STORE_OK)
        commit_keep(s, n);
    else
        pg_journal_rollback(&s->journal);
    return status;
}

static int commit_ready(struct store_pg *s)
{
    int status = pg_writer_open(s);
    if (status == STORE_OK)
        status = pg_history_settle(s);
    if (status == STORE_OK || status == STORE_FENCED)
        return status;
    return s->doubt ? STORE_UNKNOWN : status == STORE_UNKNOWN ? STORE_IO : status;
}

static int commit_known(struct store_pg *s, const struct batch *batch, uint64_t n)
{
    int status = STORE_OK;
    if (s->doubt) {
        status = settle(s, n);
        if (status != STORE_NOT_FOUND)
            return status;
    }
    return batch->give_up ? give_up(s, n) : commit_new(s, batch, n);
}

int pg_commit(void *store, const struct batch *batch)
{
    struct store_pg *s = store;
    uint64_t left = (uint64_t)(s->in_row < 0 ? -s->in_row : s->in_row);
    uint64_t n = batch->number ? batch->number : left + 1;
    ASSERT(!s->doubt || s->doubt == n || !batch->number);
    if (s->doubt)
        n = s->doubt;
    if (atomic_load(&s->fenced))
        return STORE_FENCED;
    if (n == s->number)
        return STORE_OK;
    if (s->in_row == -(int64_t)n)
        return STORE_VOID;
    int status = commit_ready(s);
    int64_t from = s->in_row;
    if (status == STORE_OK)
        status = commit_known(s, batch, n);
    if (status == STORE_OK || status == STORE_VOID)
        pg_redo_keep(s, from, s->in_row, status == STORE_OK ? batch : NULL);
    if (status < 0 && status != STORE_VOID)
        pg_note_error(s, &s->writer);
    return status;
}
