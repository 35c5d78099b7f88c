/* The node's life in the database: it joins, gives a sign every few seconds, and leaves.
 *
 * Several share the store, each as the home of some slots.  A start takes what an earlier process
 * of its own name left, at once when nobody can be left of that: it had the same data directory,
 * whose lock is ours now, or it has left.  Otherwise it watches that one's beats: none for the time
 * of a lease, by our own clock, and it counts as dead; one, and the start is refused.  Whoever was
 * ended meanwhile cannot commit any more: its row is gone, and each batch asks that row (the
 * fence).  Then it takes slots that are nobody's, up to its share.  Of the others it waits for
 * none: store_pg_watch.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

#define LEASE_S 10
#define WATCH_MS 200 /* between two looks at another node's beats */
#define STATE_DEAD 2
#define JOINS_MOST 4  /* with one that the server ends because of locks, of 1 to 10 s each */
#define OTHERS_MAX 16 /* of one name: but for starts that failed in the middle, one */

struct other {
    int64_t incarnation, beat;
    bool is_gone;    /* nobody can be left of it */
    bool is_unheard; /* it lived, and has not said that it is on this history */
    char node[80];
    char name[48];
};

int64_t pg_lease_ms(const struct store_pg *s)
{
    return (int64_t)(s->o.lease_s ? s->o.lease_s : LEASE_S) * 1000;
}

int64_t pg_boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void pg_node_name(int64_t incarnation, const char *life, char ret[48])
{
    const unsigned char *p = (const unsigned char *)life;
    snprintf(ret, 48, "holdfast/%" PRId64 "/%02x%02x%02x%02x", incarnation, p[0], p[1], p[2], p[3]);
}

/* --- others ----------------------------------------------------------------------------------- */

/* Those of our name. */
static int others_read(struct store_pg *s, struct other ret[OTHERS_MAX], size_t *ret_n,
                       size_t *ret_living)
{
    struct pg_call c;
    PGresult *r;
    *ret_n = *ret_living = 0;
    pg_begin(&c, &s->writer, PG_NODES);
    int status = pg_ask(&c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
        struct str life = pg_col(r, i, 6), node = pg_col(r, i, 1), place = pg_col(r, i, 2);
        bool lives = pg_col_int(r, i, 5) == NODE_LIVES, ours = str_eq(node, str_of(s->node));
        *ret_living += lives && !ours;
        if (!ours || life.n != PG_LIFE_BYTES)
            continue;
        if (*ret_n == OTHERS_MAX || *ret_living == STORE_NODES_MAX) {
            snprintf(s->writer.error, sizeof s->writer.error, "too many rows of nodes");
            status = STORE_IO;
            break;
        }
        struct other *o = &ret[(*ret_n)++];
        *o = (struct other){.incarnation = pg_col_int(r, i, 0), .beat = pg_col_int(r, i, 4)};
        o->is_gone =
            pg_col_int(r, i, 5) == NODE_DEAD || (s->holds_place && str_eq(place, str_of(s->place)));
        struct str history = pg_col(r, i, 10);
        o->is_unheard = pg_col_int(r, i, 5) != NODE_DEAD && history.n > 0 && !s->o.replicated &&
                        !str_eq(history, str_of(s->history));
        snprintf(o->node, sizeof o->node, "%.*s", (int)(node.n < 79 ? node.n : 79), node.p);
        pg_node_name(o->incarnation, life.p, o->name);
    }
    PQclear(r);
    return status;
}

static int beat_of(struct store_pg *s, const struct other *o, int64_t *ret)
{
    struct other now[OTHERS_MAX];
    size_t n = 0, living = 0;
    int status = others_read(s, now, &n, &living);
    *ret = -1; /* it has left */
    for (size_t i = 0; i < n; i++)
        if (now[i].incarnation == o->incarnation && !now[i].is_gone)
            *ret = now[i].beat;
    return status;
}

/* STORE_BUSY: it lives. */
static int other_watch(struct store_pg *s, struct other *o)
{
    int64_t until = pg_boot_ms() + pg_lease_ms(s);
    log_event(LEVEL_INFO, "store", "waits_for_lease", LOG_TEXT("node", o->node));
    while (pg_boot_ms() < until) {
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

int pg_backends_end(struct pg_conn *conn, const char *name, int pid)
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

static void send_about(struct store_pg *s, enum pg_stmt stmt, int64_t incarnation)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, stmt);
    pg_int(&c, incarnation);
    pg_send(&c);
}

/* All that it had is ours. */
static void inherit(struct store_pg *s, const struct other *o)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_SLOTS_PASS);
    pg_int(&c, s->incarnation);
    pg_int(&c, s->incarnation);
    pg_int(&c, o->incarnation);
    pg_send(&c);
    if (o->is_unheard) { /* what it had may be lost */
        pg_begin(&c, &s->writer, PG_REWOUND);
        pg_int(&c, o->incarnation);
        pg_send(&c);
    }
    send_about(s, PG_NEWEST_ID_KEEP, o->incarnation);
    send_about(s, PG_NODE_FORGET, o->incarnation);
    send_about(s, PG_BEAT_FORGET, o->incarnation);
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
    pg_int(&c, s->o.takes_no_slots ? NODE_LEAVES : NODE_LIVES);
    pg_text(&c, STR(HOLDFAST_VERSION));
    pg_text(&c, str_of(s->history));
    pg_send(&c);
    send_about(s, PG_BEAT_NEW, s->incarnation);
    send_about(s, PG_JOURNAL_INHERIT, s->incarnation);
}

int pg_number_take(struct pg_conn *conn, int64_t *ret)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_CLUSTER_NUMBER);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK)
        *ret = pg_col_int(r, 0, 0);
    PQclear(r);
    return status;
}

int pg_history_note(const struct store_pg *s, struct pg_conn *conn)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_HISTORY_NOTE);
    pg_int(&c, s->o.replicated);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && PQntuples(r) > 0 && pg_col_int(r, 0, 0) > 0)
        log_event(LEVEL_WARN, "store", "another_history", LOG_INT("epoch", pg_col_int(r, 0, 0)));
    PQclear(r);
    return status;
}

static int slots_begin(struct store_pg *s, size_t living)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_SLOTS_CLAIM);
    pg_int(&c, s->incarnation);
    pg_int(&c, s->incarnation);
    pg_int(&c, (int64_t)(N_SLOTS / (living + 1))); /* the newest has the smallest share */
    int status = pg_ask(&c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++)
        slots_add(&s->dealt, (unsigned)pg_col_int(r, i, 0) % N_SLOTS);
    PQclear(r);
    return status;
}

/* A start's tenure is its incarnation, of what it inherits and of what is dealt to it. */
bool store_pg_is_own(const struct store_pg *store, unsigned slot, int64_t tenure)
{
    return tenure == store->incarnation && !slots_has(&store->dealt, slot);
}

int pg_newest_read(struct pg_conn *conn, char ret[TASK_ID_LEN + 1])
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_NEWEST_ID);
    int status = pg_ask(&c, &r);
    struct str id = status == STORE_OK ? pg_col(r, 0, 0) : STR_NULL;
    ret[0] = 0;
    if (id.n == TASK_ID_LEN) {
        memcpy(ret, id.p, TASK_ID_LEN);
        ret[TASK_ID_LEN] = 0;
    }
    PQclear(r);
    return status;
}

/* STORE_FENCED when one of our name may not be taken. */
static int join_check(const struct other *now, size_t n_now, const struct other *dead, size_t n)
{
    for (size_t i = 0; i < n_now; i++) {
        bool known = now[i].is_gone;
        for (size_t k = 0; k < n; k++)
            known =
                known || (dead[k].incarnation == now[i].incarnation && dead[k].beat == now[i].beat);
        if (!known)
            return STORE_FENCED;
    }
    return STORE_OK;
}

/* Behind the lock of the cluster's row: the second of two of one name that start at once finds the
 * first, and refuses. */
static int join_within(struct store_pg *s, const struct other *dead, size_t n)
{
    struct other now[OTHERS_MAX];
    size_t n_now = 0, living = 0;
    int status = pg_run_plain(&s->writer, PG_CLUSTER_LOCK);
    if (status == STORE_OK)
        status = others_read(s, now, &n_now, &living);
    if (status == STORE_OK)
        status = join_check(now, n_now, dead, n);
    if (status == STORE_OK)
        status = pg_history_note(s, &s->writer);
    if (status == STORE_OK)
        status = pg_run_plain(&s->writer, PG_NUMBER_RAISE);
    if (status == STORE_OK)
        status = pg_number_take(&s->writer, &s->incarnation);
    if (status == STORE_OK)
        status = pg_newest_read(&s->writer, s->marks.newest_id);
    for (size_t i = 0; i < n_now && status == STORE_OK; i++)
        inherit(s, &now[i]);
    if (status == STORE_OK) {
        node_enter(s);
        status = pg_flush(&s->writer, NULL, NULL);
    }
    return status == STORE_OK ? slots_begin(s, living) : status;
}

static int join_locked(struct store_pg *s, const struct other *dead, size_t n)
{
    int status = pg_run_plain(&s->writer, PG_BEGIN);
    if (status == STORE_OK)
        status = join_within(s, dead, n);
    if (status == STORE_OK)
        return pg_run_plain(&s->writer, PG_COMMIT);
    if (pg_conn_is_open(&s->writer) && PQtransactionStatus(s->writer.pg) != PQTRANS_IDLE)
        (void)pg_run_plain(&s->writer, PG_ROLLBACK);
    return status;
}

/* STORE_BUSY: a lock that somebody holds, such as whoever rescues what our name left. */
static int join_again(struct store_pg *s, const struct other *dead, size_t n)
{
    int status = STORE_BUSY;
    for (int i = 0; i < JOINS_MOST && status == STORE_BUSY; i++) {
        s->beat_at = pg_boot_ms();
        status = join_locked(s, dead, n);
    }
    return status;
}

static int join_fails(struct store_pg *s, const struct other *o, int status, char *ret_error)
{
    if (status == STORE_BUSY && o)
        snprintf(
            ret_error, STORE_ERROR_TEXT,
            "another gateway, \"%s\", serves this database under the same name: stop it first, "
            "or give this one another cluster.node",
            o->node);
    else if (status == STORE_FENCED)
        snprintf(ret_error, STORE_ERROR_TEXT,
                 "another gateway of this name has begun to serve this database");
    else
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot join the cluster: %.200s", s->writer.error);
    return status;
}

int pg_node_join(struct store_pg *s, char ret_error[STORE_ERROR_TEXT])
{
    struct other others[OTHERS_MAX];
    size_t n = 0, living = 0;
    int status = pg_node_check_standby(s);
    if (status == STORE_OK)
        status = pg_history_read(&s->writer, s->history);
    if (status == STORE_OK)
        status = others_read(s, others, &n, &living);
    for (size_t i = 0; i < n && status == STORE_OK; i++) {
        if (!others[i].is_gone)
            status = other_watch(s, &others[i]);
        if (status == STORE_OK) /* a half-sent batch would hold its row for ever */
            status = pg_backends_end(&s->writer, others[i].name, 0);
        if (status < 0)
            return join_fails(s, &others[i], status, ret_error);
    }
    if (status == STORE_OK)
        status = join_again(s, others, n);
    if (status < 0)
        return join_fails(s, NULL, status, ret_error);
    pg_node_name(s->incarnation, s->life, s->name);
    s->marks.next_key = s->incarnation << 32 | 1;
    int64_t unheard = 0;
    status = s->o.replicated ? STORE_OK : pg_unconfirmed(&s->writer, s->history, &unheard);
    atomic_store(&s->phase, unheard > 0 ? PG_WAITS : PG_SURE);
    return status;
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

int pg_beat_on(struct store_pg *s, struct pg_conn *conn)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, conn, PG_BEAT);
    pg_int(&c, atomic_load(&s->load));
    pg_int(&c, s->incarnation);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK && PQntuples(r) == 0) {
        s->fenced = true;
        snprintf(conn->error, sizeof conn->error, "another gateway has taken over");
        status = STORE_FENCED;
    }
    PQclear(r);
    return status;
}

/* Every fifth of a lease.  What it finds out shows in the next commit. */
void pg_node_beat(struct store_pg *s)
{
    int64_t now = pg_boot_ms();
    if (s->watch || s->fenced || now - s->beat_at < pg_lease_ms(s) / 5 ||
        !pg_conn_is_open(&s->writer))
        return;
    if (pg_beat_on(s, &s->writer) < 0)
        pg_note_error(s, &s->writer);
    s->beat_at = now;
}

void pg_node_leave(struct store_pg *s)
{
    struct pg_call c;
    if (s->incarnation == 0 || s->fenced || s->doubt || !pg_is_sure(s) ||
        !pg_conn_is_open(&s->writer))
        return;
    pg_begin(&c, &s->writer, PG_NODE_LEAVE);
    pg_int(&c, s->incarnation);
    pg_text(&c, (struct str){s->life, sizeof s->life});
    (void)pg_run(&c); /* otherwise the next start waits for the lease */
}

int pg_backend_end(struct store_pg *s, int pid)
{
    return pg_backends_end(&s->writer, s->name, pid);
}

void store_pg_want_range(struct store_pg *store)
{
    atomic_store(&store->wants_range, true);
}
