/* The node's life in the database: it joins, gives a sign every few seconds, and leaves.
 *
 * One process has the store at a time.  A start ends an earlier one at once when nobody can be left
 * of that: it had the same data directory, whose lock is ours now, or it has left.  Otherwise it
 * watches that one's beats: none for the time of a lease, by our own clock, and it counts as dead;
 * one, and the start is refused.  Whoever was ended meanwhile cannot commit any more: its row is
 * dead, and each batch asks that row (the fence). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

#define LEASE_S 10
#define WATCH_MS 200 /* between two looks at another node's beats */
#define STATE_DEAD 2
#define OTHERS_MAX 16

struct other {
    int64_t incarnation, beat;
    bool is_gone; /* nobody can be left of it */
    char node[80];
    char name[48];
};

static uint64_t lease_ns(const struct store_pg *s)
{
    return (uint64_t)(s->o.lease_s ? s->o.lease_s : LEASE_S) * 1000000000u;
}

void pg_node_name(int64_t incarnation, const char *life, char ret[48])
{
    const unsigned char *p = (const unsigned char *)life;
    snprintf(ret, 48, "holdfast/%" PRId64 "/%02x%02x%02x%02x", incarnation, p[0], p[1], p[2], p[3]);
}

/* --- others ----------------------------------------------------------------------------------- */

static void note_newest(struct store_pg *s, struct str id)
{
    if (id.n == TASK_ID_LEN && memcmp(id.p, s->marks.newest_id, TASK_ID_LEN) > 0)
        memcpy(s->marks.newest_id, id.p, TASK_ID_LEN);
}

/* The living ones; at most one, but for starts that failed in the middle. */
static int others_read(struct store_pg *s, struct other ret[OTHERS_MAX], size_t *ret_n)
{
    struct pg_call c;
    PGresult *r;
    *ret_n = 0;
    pg_begin(&c, &s->writer, PG_NODES);
    int status = pg_ask(&c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
        note_newest(s, pg_col(r, i, 3));
        struct str life = pg_col(r, i, 6), node = pg_col(r, i, 1), place = pg_col(r, i, 2);
        if (pg_col_int(r, i, 5) >= STATE_DEAD || life.n != PG_LIFE_BYTES)
            continue;
        if (*ret_n == OTHERS_MAX) {
            snprintf(s->writer.error, sizeof s->writer.error, "too many rows of living nodes");
            status = STORE_IO;
            break;
        }
        struct other *o = &ret[(*ret_n)++];
        *o = (struct other){.incarnation = pg_col_int(r, i, 0), .beat = pg_col_int(r, i, 4)};
        o->is_gone =
            s->holds_place && str_eq(place, str_of(s->place)) && str_eq(node, str_of(s->node));
        snprintf(o->node, sizeof o->node, "%.*s", (int)(node.n < 79 ? node.n : 79), node.p);
        pg_node_name(o->incarnation, life.p, o->name);
    }
    PQclear(r);
    return status;
}

static int beat_of(struct store_pg *s, const struct other *o, int64_t *ret)
{
    struct other now[OTHERS_MAX];
    size_t n = 0;
    int status = others_read(s, now, &n);
    *ret = -1; /* it has left */
    for (size_t i = 0; i < n; i++)
        if (now[i].incarnation == o->incarnation)
            *ret = now[i].beat;
    return status;
}

/* STORE_BUSY: it lives. */
static int other_watch(struct store_pg *s, struct other *o)
{
    uint64_t until = uv_hrtime() + lease_ns(s);
    log_event(LEVEL_INFO, "store", "waits_for_lease", LOG_TEXT("node", o->node));
    while (uv_hrtime() < until) {
        int64_t beat = 0;
        uv_sleep(WATCH_MS);
        int status = beat_of(s, o, &beat);
        if (status < 0)
            return status;
        if (beat < 0)
            break;
        if (beat != o->beat)
            return STORE_BUSY;
    }
    return STORE_OK;
}

static int backends_end(struct pg_conn *conn, const char *name, int pid)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_END_BACKENDS);
    pg_text(&c, str_of(name));
    pg_int(&c, pid);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && pg_col_int(r, 0, 0) > 0)
        status = STORE_BUSY;
    PQclear(r);
    return status;
}

/* --- joining ---------------------------------------------------------------------------------- */

static void bury(struct store_pg *s, const struct other *o)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_NODE_DEAD);
    pg_int(&c, o->incarnation);
    pg_send(&c);
    pg_begin(&c, &s->writer, PG_BEAT_DEAD);
    pg_int(&c, o->incarnation);
    pg_int(&c, o->beat);
    pg_send(&c);
}

static void node_enter(struct store_pg *s)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_NODE_NEW);
    pg_int(&c, s->incarnation);
    pg_text(&c, str_of(s->node));
    pg_text(&c, (struct str){s->life, sizeof s->life});
    pg_text(&c, str_of(s->place));
    pg_text(&c, str_of(s->marks.newest_id));
    pg_send(&c);
    pg_begin(&c, &s->writer, PG_BEAT_NEW);
    pg_int(&c, s->incarnation);
    pg_send(&c);
}

static int number_take(struct store_pg *s, int64_t *ret)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_CLUSTER_NUMBER);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK)
        *ret = pg_col_int(r, 0, 0);
    PQclear(r);
    return status;
}

/* Keys begin at our number, and behind all that there are: a clock of the server's may have been
 * set back by years. */
static int keys_begin(struct store_pg *s)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_NEWEST_KEY);
    int status = pg_ask(&c, &r);
    int64_t first = s->incarnation << 32 | 1;
    if (status == STORE_OK) {
        int64_t newest = pg_col_int(r, 0, 0);
        s->marks.next_key = newest >= first ? newest + 1 : first;
    }
    PQclear(r);
    return status;
}

/* One transaction, behind the lock of the cluster's row: the second of two that start at once finds
 * the first, and refuses. */
static int join_locked(struct store_pg *s, const struct other *dead, size_t n)
{
    struct other now[OTHERS_MAX];
    size_t n_now = 0;
    int status = pg_run_plain(&s->writer, PG_BEGIN);
    if (status == STORE_OK)
        status = pg_run_plain(&s->writer, PG_CLUSTER_LOCK);
    if (status == STORE_OK)
        status = others_read(s, now, &n_now);
    for (size_t i = 0; i < n_now && status == STORE_OK; i++) {
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known = known || (dead[k].incarnation == now[i].incarnation &&
                              (dead[k].beat == now[i].beat || dead[k].is_gone));
        if (known)
            bury(s, &now[i]);
        else
            status = STORE_BUSY;
    }
    if (status == STORE_OK)
        status = pg_flush(&s->writer, NULL, NULL);
    if (status == STORE_OK)
        status = number_take(s, &s->incarnation);
    if (status == STORE_OK)
        node_enter(s);
    if (status == STORE_OK)
        status = pg_flush(&s->writer, NULL, NULL);
    if (status == STORE_OK)
        return pg_run_plain(&s->writer, PG_COMMIT);
    if (pg_conn_is_open(&s->writer) && PQtransactionStatus(s->writer.pg) != PQTRANS_IDLE)
        (void)pg_run_plain(&s->writer, PG_ROLLBACK);
    return status;
}

/* Rows of the dead whose journal is gone: the newest id lives on in ours. */
static int forget_dead(struct store_pg *s)
{
    int status = pg_run_plain(&s->writer, PG_NODES_FORGET);
    return status < 0 ? status : pg_run_plain(&s->writer, PG_BEATS_FORGET);
}

static int join_fails(struct store_pg *s, const struct other *o, int status, char *ret_error)
{
    if (status == STORE_BUSY && o)
        snprintf(ret_error, STORE_ERROR_TEXT,
                 "another gateway, \"%s\", serves this database: stop it first", o->node);
    else if (status == STORE_BUSY)
        snprintf(ret_error, STORE_ERROR_TEXT, "another gateway has begun to serve this database");
    else
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot join the cluster: %.200s", s->writer.error);
    return status;
}

int pg_node_join(struct store_pg *s, char ret_error[STORE_ERROR_TEXT])
{
    struct other others[OTHERS_MAX];
    size_t n = 0;
    int status = pg_node_check_standby(s);
    if (status == STORE_OK)
        status = others_read(s, others, &n);
    for (size_t i = 0; i < n && status == STORE_OK; i++) {
        if (!others[i].is_gone)
            status = other_watch(s, &others[i]);
        if (status == STORE_OK) /* a half-sent batch would hold its row for ever */
            status = backends_end(&s->writer, others[i].name, 0);
        if (status < 0)
            return join_fails(s, &others[i], status, ret_error);
    }
    if (status == STORE_OK)
        status = join_locked(s, others, n);
    if (status == STORE_OK)
        status = keys_begin(s);
    if (status == STORE_OK)
        status = forget_dead(s);
    if (status < 0)
        return join_fails(s, NULL, status, ret_error);
    pg_node_name(s->incarnation, s->life, s->name);
    s->beat_at = uv_hrtime();
    return STORE_OK;
}

/* --- the sign of life ------------------------------------------------------------------------- */

int pg_node_check_standby(struct store_pg *s)
{
    if (!s->o.replicated)
        return STORE_OK;
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_STANDBYS);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && pg_col(r, 0, 0).n == 0) {
        snprintf(s->writer.error, sizeof s->writer.error,
                 "store.durability is \"replicated\", and the server has no synchronous standby: "
                 "synchronous_standby_names is empty");
        status = STORE_IO;
    }
    PQclear(r);
    return status;
}

/* Every fifth of a lease.  What it finds out shows in the next commit. */
void pg_node_beat(struct store_pg *s)
{
    uint64_t now = uv_hrtime();
    if (s->fenced || now - s->beat_at < lease_ns(s) / 5 || !pg_conn_is_open(&s->writer))
        return;
    s->beat_at = now;
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_BEAT);
    pg_int(&c, s->incarnation);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && PQntuples(r) == 0) {
        s->fenced = true;
        snprintf(s->writer.error, sizeof s->writer.error, "another gateway has taken over");
    }
    PQclear(r);
    if (status < 0 || s->fenced)
        pg_note_error(s, &s->writer);
}

void pg_node_leave(struct store_pg *s)
{
    struct pg_call c;
    if (s->incarnation == 0 || s->fenced || s->doubt || !pg_conn_is_open(&s->writer))
        return;
    pg_begin(&c, &s->writer, PG_NODE_LEAVE);
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    (void)pg_run(&c); /* otherwise the next start waits for the lease */
}

int pg_backend_end(struct store_pg *s, int pid)
{
    return backends_end(&s->writer, s->name, pid);
}
