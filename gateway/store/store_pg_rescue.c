/* A dead node's rows, put in order.  The lines in its journal become blocks, behind those that
 * there are; then its rows go, and its slots are nobody's.  Each piece holds the dead node's row:
 * several who do it at once do it one after the other, and one that comes late finds none. */
#include <stdlib.h>

#include "core/backoff.h"
#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

#define PIECE 1024 /* tasks, or … */
#define PIECE_BYTES (4 << 20)
#define AGAIN_MOST_MS 60000 /* between two that fail */

static int rescue_hold(struct pg_conn *conn, int64_t incarnation)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_NODE_HOLD);
    pg_int(&c, incarnation);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && PQntuples(r) == 0)
        status = STORE_NOT_FOUND;
    PQclear(r);
    return status;
}

static int rescue_begin(struct pg_conn *conn, int64_t incarnation)
{
    int status = pg_run_plain(conn, PG_BEGIN);
    return status < 0 ? status : rescue_hold(conn, incarnation);
}

static int rescue_end(struct pg_conn *conn, int status)
{
    if (status == STORE_OK)
        return pg_run_plain(conn, PG_COMMIT);
    if (pg_conn_is_open(conn) && PQtransactionStatus(conn->pg) != PQTRANS_IDLE)
        (void)pg_run_plain(conn, PG_ROLLBACK);
    return status;
}

/* The lines behind that number. */
static struct lines behind(const struct block *b, uint64_t sealed)
{
    struct lines left = {b->first, b->last, {b->bytes, b->len}};
    while (left.first <= sealed && left.first <= left.last) {
        const char *end = memchr(left.bytes.p, '\n', left.bytes.n);
        size_t n = end ? (size_t)(end - left.bytes.p) + 1 : left.bytes.n;
        left.bytes.p += n;
        left.bytes.n -= n;
        left.first++;
    }
    return left;
}

/* Lines of several tasks, to be put in blocks. */
struct pg_blocks {
    struct buf keys, firsts, lasts, bytes;
};

static void blocks_begin(struct pg_blocks *b)
{
    *b = (struct pg_blocks){0};
    pg_ints_begin(&b->keys);
    pg_ints_begin(&b->firsts);
    pg_ints_begin(&b->lasts);
    pg_texts_begin(&b->bytes);
}

static void blocks_add(struct pg_blocks *b, int64_t task_key, struct lines lines)
{
    struct lines block;
    while (lines_take_block(&lines, &block)) {
        pg_ints_add(&b->keys, task_key);
        pg_ints_add(&b->firsts, (int64_t)block.first);
        pg_ints_add(&b->lasts, (int64_t)block.last);
        pg_texts_add(&b->bytes, block.bytes);
    }
}

/* … and frees them. */
static void blocks_send(struct pg_blocks *b, struct pg_conn *conn)
{
    struct buf *arrays[] = {&b->keys, &b->firsts, &b->lasts, &b->bytes};
    struct pg_call c;
    pg_begin(&c, conn, PG_BLOCKS_NEW);
    for (size_t i = 0; i < countof(arrays); i++)
        pg_array(&c, arrays[i]);
    if (pg_array_n(&b->keys) > 0)
        pg_send(&c);
    for (size_t i = 0; i < countof(arrays); i++)
        buf_done(arrays[i]);
}

static const struct block *tail_of(struct block *const *tails, size_t n, int64_t task_key)
{
    size_t low = 0;
    while (n > 1) { /* they are in order, and it is one of them */
        size_t half = n / 2;
        low += tails[low + half]->task_key <= task_key ? half : 0;
        n -= half;
    }
    ASSERT(tails[low]->task_key == task_key);
    return tails[low];
}

/* Another one may have sealed some meanwhile; whoever has the row sees all of it. */
static int put_tails(struct pg_conn *conn, struct block *const *tails, size_t n)
{
    struct buf keys = {0};
    struct pg_blocks blocks;
    PGresult *r;
    pg_ints_begin(&keys);
    for (size_t i = 0; i < n; i++)
        pg_ints_add(&keys, tails[i]->task_key);
    int status = pg_ask_sealed(conn, &keys, &r);
    blocks_begin(&blocks);
    for (int row = 0; status == STORE_OK && row < PQntuples(r); row++) {
        const struct block *b = tail_of(tails, n, pg_col_int(r, row, 0));
        uint64_t sealed = (uint64_t)pg_col_int(r, row, 1);
        if (b->last > sealed)
            blocks_add(&blocks, b->task_key, behind(b, sealed));
    }
    PQclear(r);
    buf_done(&keys);
    blocks_send(&blocks, conn);
    return status < 0 ? status : pg_flush(conn, NULL, NULL);
}

static int rescue_lines(struct pg_conn *conn, int64_t incarnation)
{
    struct tails tails;
    int status = pg_tails_load(conn, incarnation, NULL, &tails);
    if (status < 0)
        return status;
    for (size_t at = 0; at < tails.n && status == STORE_OK;) {
        size_t n = 0, bytes = 0;
        for (; at + n < tails.n && n < PIECE && bytes < PIECE_BYTES; n++)
            bytes += tails.at[at + n]->len;
        status = rescue_begin(conn, incarnation);
        if (status == STORE_OK)
            status = put_tails(conn, tails.at + at, n);
        status = rescue_end(conn, status);
        at += n;
    }
    tails_done(&tails);
    return status;
}

static void send_about(struct pg_conn *conn, enum pg_stmt stmt, int64_t incarnation)
{
    struct pg_call c;
    pg_begin(&c, conn, stmt);
    pg_int(&c, incarnation);
    pg_send(&c);
}

/* The cluster's row is locked before the node's, as by a start of that name: else each may wait for
 * the other. */
static int rescue_slots(struct pg_conn *conn, int64_t incarnation)
{
    struct pg_call c;
    int64_t number = 0;
    int status = pg_run_plain(conn, PG_BEGIN);
    if (status == STORE_OK)
        status = pg_number_take(conn, &number);
    if (status == STORE_OK)
        status = rescue_hold(conn, incarnation);
    if (status == STORE_OK) {
        send_about(conn, PG_JOURNAL_GONE, incarnation);
        send_about(conn, PG_NEWEST_ID_KEEP, incarnation);
        pg_begin(&c, conn, PG_SLOTS_FREE);
        pg_int(&c, number);
        pg_int(&c, incarnation);
        pg_send(&c);
        send_about(conn, PG_NODE_FORGET, incarnation);
        send_about(conn, PG_BEAT_FORGET, incarnation);
        status = pg_flush(conn, NULL, NULL);
    }
    return rescue_end(conn, status);
}

int pg_rescue(struct pg_conn *conn, int64_t incarnation)
{
    int status = rescue_lines(conn, incarnation);
    return status < 0 ? status : rescue_slots(conn, incarnation);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void rescuer_run(void *arg)
{
    struct pg_rescuer *r = arg;
    struct pg_conn conn = {0};
    if (pg_conn_open(&conn, &r->s->o, r->s->name)) {
        int status = pg_rescue(&conn, r->about);
        r->failed = status < 0 && status != STORE_NOT_FOUND;
        if (status == STORE_OK)
            log_event(LEVEL_INFO, "cluster", "rescued", LOG_INT("incarnation", r->about));
        else if (r->failed)
            log_event(LEVEL_ERROR, "cluster", "rescue_fails", LOG_INT("incarnation", r->about),
                      LOG_TEXT("why", conn.error));
    }
    pg_conn_close(&conn);
    atomic_store(&r->is_over, true);
    r->done(r->arg);
}

void pg_rescuer_collect(struct pg_rescuer *r)
{
    if (!r->about)
        return;
    uv_thread_join(&r->thread);
    r->last = r->about;
    r->about = 0;
    r->n_failed = r->failed ? r->n_failed + 1 : 0;
    r->again_at = 0;
    if (r->failed)
        r->again_at = pg_boot_ms() + backoff_ms(r->n_failed, pg_lease_ms(r->s) / 5, AGAIN_MOST_MS);
}

/* The dead node behind the last one; else the first, when it may be its turn again.  0: none. */
static int64_t next_of(const struct pg_rescuer *r, const struct store_view *view)
{
    int64_t first = 0, behind = 0;
    for (size_t i = 0; i < view->n; i++) {
        int64_t n = view->nodes[i].incarnation;
        if (view->nodes[i].state != NODE_DEAD)
            continue;
        first = !first || n < first ? n : first;
        if (n > r->last && (!behind || n < behind))
            behind = n;
    }
    return behind ? behind : pg_boot_ms() >= r->again_at ? first : 0;
}

void pg_rescuer_turn(struct pg_rescuer *r, const struct store_view *view)
{
    if (r->about && !atomic_load(&r->is_over))
        return;
    pg_rescuer_collect(r);
    r->about = next_of(r, view);
    if (!r->about)
        return;
    r->failed = false;
    atomic_store(&r->is_over, false);
    if (uv_thread_create(&r->thread, rescuer_run, r) != 0)
        r->about = 0;
}
