/* The thread that keeps the lease, watches the other nodes and deals out what is nobody's.
 *
 * A round: a sign of life on a connection of its own, if the loop has turned since the last; the
 * tables; then what follows from them.  A node counts as dead when the same beat of it was seen for
 * a whole lease, by our own clock, on one connection, while every round of ours was in time: after
 * an outage of the server, when nobody's beats have moved, all watches begin anew.  Nothing here
 * looks at a clock of the server's: a failover changes that.
 *
 * A dead node is taken over in one transaction that also asks whether its beat is still the one
 * that was watched: of it and a renewal that come at once, one wins.  What it left is then rescued
 * by a thread of its own, because a beat must not wait for that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

#define AGAIN_MS 200 /* after a connection was lost */

struct watched {
    int64_t incarnation, beat;
    int64_t since; /* by pg_boot_ms: since when the beat has been that one */
};

struct pg_watch {
    struct store_pg *s;
    uv_thread_t thread;
    struct pg_conn conn;
    struct store_view now;
    char names[STORE_NODES_MAX][48]; /* of the connections of now's nodes */
    int64_t last_moved;
    char history[PG_HISTORY_TEXT]; /* of conn's server */
    struct watched watched[STORE_NODES_MAX];
    size_t n_watched;
    bool fails;       /* the last one */
    int64_t round_at; /* when the last one was over */

    struct pg_rescuer rescuer;

    uv_mutex_t lock; /* for the members below */
    uv_cond_t wake;
    bool stop;
    void (*changed)(void *arg);
    void *arg;
    struct store_view view;
    struct slots release;
    bool releases, tells_link, tells_leaving, has_left;
    char link[NODE_LINK_TEXT];
    atomic_bool turned, begun; /* begun: the loop has turned at all */
    _Atomic uint64_t n_takeovers;
};

static int64_t interval(const struct pg_watch *w)
{
    return pg_lease_ms(w->s) / 5;
}

static struct store_node *node_of(struct pg_watch *w, int64_t incarnation)
{
    for (size_t i = 0; i < w->now.n; i++)
        if (w->now.nodes[i].incarnation == incarnation)
            return &w->now.nodes[i];
    return NULL;
}

/* --- transactions ----------------------------------------------------------------------------- */

/* Begins with a sign of life, which holds our own row of beats: whoever would end us waits, and
 * then finds another beat than the one that he watched. */
static int begin_alive(struct pg_watch *w)
{
    int status = pg_run_plain(&w->conn, PG_BEGIN);
    return status < 0 ? status : pg_beat_on(w->s, &w->conn);
}

static int end_either(struct pg_watch *w, int status)
{
    if (status == STORE_OK)
        return pg_run_plain(&w->conn, PG_COMMIT);
    if (pg_conn_is_open(&w->conn) && PQtransactionStatus(w->conn.pg) != PQTRANS_IDLE)
        (void)pg_run_plain(&w->conn, PG_ROLLBACK);
    return status;
}

/* --- slots ------------------------------------------------------------------------------------ */

static void claim_note(struct store_pg *s, int64_t number, int64_t slot)
{
    uv_mutex_lock(&s->lock);
    s->claimed = number;
    s->claimed_slot = slot;
    uv_mutex_unlock(&s->lock);
}

/* The newest id of any record is read behind the claim: whoever had the slots has written all. */
static int claim(struct pg_watch *w, unsigned n)
{
    struct pg_call c;
    PGresult *r;
    int64_t number = 0, slot = -1;
    int status = begin_alive(w);
    if (status == STORE_OK)
        status = pg_number_take(&w->conn, &number);
    if (status == STORE_OK) {
        pg_begin(&c, &w->conn, PG_SLOTS_CLAIM);
        pg_int(&c, w->s->incarnation);
        pg_int(&c, number);
        pg_int(&c, n);
        status = pg_ask(&c, &r);
        slot = status == STORE_OK && PQntuples(r) > 0 ? pg_col_int(r, 0, 0) : -1;
        PQclear(r);
    }
    status = end_either(w, status);
    if (status == STORE_OK && slot >= 0)
        claim_note(w->s, number, slot);
    return status < 0 ? status : pg_newest_read(&w->conn, w->now.newest_id);
}

static int claim_free(struct pg_watch *w)
{
    unsigned n = store_view_claims(&w->now, w->s->incarnation);
    if (n == 0)
        return STORE_OK;
    int status = claim(w, n);
    return status < 0 ? status : pg_view_read(&w->conn, &w->now, w->names, &w->last_moved);
}

static int release_some(struct pg_watch *w)
{
    struct slots some;
    struct buf keys = {0};
    struct pg_call c;
    int64_t number = 0;
    uv_mutex_lock(&w->lock);
    bool releases = w->releases;
    some = w->release;
    w->releases = false;
    memset(&w->release, 0, sizeof w->release);
    uv_mutex_unlock(&w->lock);
    if (!releases)
        return STORE_OK;
    pg_ints_begin(&keys);
    for (unsigned i = 0; i < N_SLOTS; i++)
        if (slots_has(&some, i))
            pg_ints_add(&keys, i);
    int status = begin_alive(w);
    if (status == STORE_OK)
        status = pg_number_take(&w->conn, &number);
    if (status == STORE_OK) {
        pg_begin(&c, &w->conn, PG_SLOTS_RELEASE);
        pg_int(&c, number);
        pg_int(&c, w->s->incarnation);
        pg_array(&c, &keys);
        status = pg_run(&c);
    }
    status = end_either(w, status);
    buf_done(&keys);
    if (status == STORE_OK)
        return pg_view_read(&w->conn, &w->now, w->names, &w->last_moved);
    store_pg_release(w->s, &some); /* whatever became of it, it may be asked for again */
    return status;
}

/* --- the others ------------------------------------------------------------------------------- */

static int end_node(struct pg_watch *w, const struct watched *x)
{
    struct pg_call c;
    PGresult *r;
    int status = begin_alive(w); /* of two that would end each other, one does */
    if (status < 0)
        return end_either(w, status);
    pg_begin(&c, &w->conn, PG_NODE_DEAD);
    pg_int(&c, x->incarnation);
    pg_text(&c, str_of(w->history));
    status = pg_ask(&c, &r);
    if (status == STORE_OK && PQntuples(r) == 0)
        status = STORE_NOT_FOUND;
    bool unheard = status == STORE_OK && !w->s->o.replicated && pg_col_int(r, 0, 0) == 1;
    PQclear(r);
    if (unheard) /* what it had may be lost, and it has not sent that again */
        status = pg_raise(&w->conn, x->incarnation);
    if (status == STORE_OK) {
        pg_begin(&c, &w->conn, PG_BEAT_DEAD);
        pg_int(&c, x->incarnation);
        pg_int(&c, x->beat);
        status = pg_ask(&c, &r);
        if (status == STORE_OK && PQntuples(r) == 0)
            status = STORE_NOT_FOUND; /* it lives */
        PQclear(r);
    }
    return end_either(w, status);
}

static int take_over(struct pg_watch *w, const struct watched *x, const char *name)
{
    struct store_node *node = node_of(w, x->incarnation);
    int status = pg_backends_end(&w->conn, name, 0); /* half a batch would hold its row for ever */
    if (status == STORE_OK)
        status = end_node(w, x);
    if (status != STORE_OK)
        return status == STORE_NOT_FOUND || status == STORE_BUSY ? STORE_OK : status;
    atomic_fetch_add(&w->n_takeovers, 1);
    log_event(LEVEL_WARN, "cluster", "taken_over", LOG_TEXT("node", node->name),
              LOG_INT("incarnation", x->incarnation));
    return pg_view_read(&w->conn, &w->now, w->names, &w->last_moved); /* with the epoch */
}

static struct watched *watched_of(struct pg_watch *w, int64_t incarnation)
{
    for (size_t i = 0; i < w->n_watched; i++)
        if (w->watched[i].incarnation == incarnation)
            return &w->watched[i];
    return NULL;
}

static void watch_anew(struct pg_watch *w)
{
    for (size_t i = 0; i < w->n_watched; i++)
        w->watched[i].since = pg_boot_ms();
}

/* The table of those that are watched becomes that of the nodes that there are. */
static void watch_those(struct pg_watch *w)
{
    struct watched next[STORE_NODES_MAX];
    size_t n = 0;
    int64_t now = pg_boot_ms();
    for (size_t i = 0; i < w->now.n; i++) {
        const struct store_node *node = &w->now.nodes[i];
        if (node->incarnation == w->s->incarnation || node->state == NODE_DEAD)
            continue;
        const struct watched *before = watched_of(w, node->incarnation);
        bool same = before && before->beat == node->beat;
        next[n++] = (struct watched){node->incarnation, node->beat, same ? before->since : now};
    }
    memcpy(w->watched, next, n * sizeof *next);
    w->n_watched = n;
}

static int watch_judge(struct pg_watch *w)
{
    int status = STORE_OK;
    watch_those(w);
    for (size_t i = 0; i < w->n_watched && status == STORE_OK; i++) {
        const struct watched *x = &w->watched[i];
        const struct store_node *node = node_of(w, x->incarnation);
        if (node && pg_boot_ms() - x->since >= pg_lease_ms(w->s))
            status = take_over(w, x, w->names[node - w->now.nodes]);
    }
    return status;
}

/* A dead node is in order: its slots are free. */
static void on_rescued(void *arg)
{
    struct pg_watch *w = arg;
    uv_mutex_lock(&w->lock);
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->lock);
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Waits for a batch that is under way: it is the same row. */
static int tell_row(struct pg_watch *w, enum pg_stmt stmt, const char *link)
{
    struct pg_call c;
    pg_begin(&c, &w->conn, stmt);
    if (link)
        pg_text(&c, str_of(link));
    pg_int(&c, w->s->incarnation);
    pg_text(&c, (struct str){w->s->life, sizeof w->s->life});
    return pg_run(&c);
}

static int tell_others(struct pg_watch *w)
{
    char link[NODE_LINK_TEXT];
    int status = STORE_OK;
    uv_mutex_lock(&w->lock);
    bool tells_link = w->tells_link, leaves = w->tells_leaving;
    memcpy(link, w->link, sizeof link);
    w->tells_link = w->tells_leaving = false;
    uv_mutex_unlock(&w->lock);
    if (tells_link)
        status = tell_row(w, PG_NODE_LINK, link);
    if (tells_link && status < 0)
        store_pg_advertise(w->s, link);
    if (leaves && status == STORE_OK)
        status = tell_row(w, PG_NODE_GOES, NULL);
    if (leaves && status < 0)
        store_pg_leave(w->s);
    return status;
}

/* Tasks that are begun from now on have keys above the epoch. */
static int take_range(struct pg_watch *w)
{
    bool rewound = w->now.epoch > w->now.range && w->now.epoch > w->s->incarnation;
    if (!atomic_exchange(&w->s->wants_range, false) && !rewound)
        return STORE_OK;
    return pg_number_take(&w->conn, &w->now.range);
}

static void watch_publish(struct pg_watch *w)
{
    uv_mutex_lock(&w->lock);
    w->view = w->now;
    if (w->changed)
        w->changed(w->arg);
    uv_mutex_unlock(&w->lock);
}

/* On another server all is read again, and told again: it may have lost what it was told. */
static int watch_connect(struct pg_watch *w)
{
    char history[PG_HISTORY_TEXT];
    if (!pg_conn_open(&w->conn, &w->s->o, w->s->name))
        return STORE_IO;
    if (pg_history_read(&w->conn, history) < 0) {
        pg_conn_close(&w->conn);
        return STORE_IO;
    }
    if (strcmp(history, w->history) != 0 && w->history[0]) {
        w->last_moved = -1;
        uv_mutex_lock(&w->lock);
        w->tells_link = w->tells_link || w->link[0] != 0;
        w->tells_leaving = w->tells_leaving || w->has_left;
        uv_mutex_unlock(&w->lock);
    }
    memcpy(w->history, history, sizeof history);
    watch_anew(w);
    return STORE_OK;
}

/* A row that is gone is the writer's to find out, who says why. */
static int beat_unsure(struct pg_watch *w)
{
    struct pg_call c;
    pg_begin(&c, &w->conn, PG_BEAT);
    pg_int(&c, atomic_load(&w->s->load));
    pg_int(&c, w->s->incarnation);
    return pg_run(&c);
}

/* Its number first: what is read is not older. */
static int ask_agreed(struct pg_watch *w)
{
    struct store_pg *s = w->s;
    uint64_t asked = atomic_load(&s->asked) + 1;
    int64_t n = 0;
    if (atomic_load(&s->phase) != PG_WAITS)
        return STORE_OK;
    int status = pg_unconfirmed(&w->conn, w->history, &n);
    if (status == STORE_OK)
        status = pg_view_read(&w->conn, &w->now, w->names, &w->last_moved);
    w->now.agreed = status == STORE_OK && n == 0 ? asked : 0;
    return status;
}

static int act(struct pg_watch *w)
{
    bool sure = pg_is_sure(w->s);
    int status = take_range(w);
    if (status == STORE_OK)
        status = watch_judge(w);
    if (status == STORE_OK && sure)
        status = release_some(w);
    if (status == STORE_OK && sure)
        status = claim_free(w);
    if (status == STORE_OK)
        status = tell_others(w);
    return status;
}

static int round_within(struct pg_watch *w)
{
    struct store_pg *s = w->s;
    if (!pg_conn_is_open(&w->conn) && watch_connect(w) < 0)
        return STORE_IO;
    w->now.agreed = 0;
    bool known = pg_history_is(s, w->history) && atomic_load(&s->phase) != PG_ASKS;
    if (!pg_history_is(s, w->history))
        atomic_store(&s->suspects, true); /* one of us is with another server */
    int64_t sent = pg_boot_ms();
    if (!atomic_exchange(&w->turned, false) && atomic_load(&w->begun))
        return STORE_OK; /* a loop that hangs is no sign of life; a long start is one */
    w->conn.warned = false;
    int status = known ? pg_beat_on(s, &w->conn) : beat_unsure(w);
    if (status == STORE_OK && w->conn.warned) /* not where it was promised to be */
        status = STORE_BUSY;
    if (status < 0)
        return status;
    if (known && pg_is_sure(s))
        s->beat_at = sent;
    if (sent - w->round_at > 2 * interval(w))
        watch_anew(w);
    if (known) /* what was known on the server before is compared with this one first */
        status = pg_view_read(&w->conn, &w->now, w->names, &w->last_moved);
    if (status == STORE_OK && known)
        status = ask_agreed(w);
    if (status == STORE_OK && known)
        status = act(w);
    w->round_at = sent;
    pg_rescuer_turn(&w->rescuer, &w->now);
    return status;
}

static void watch_round(struct pg_watch *w)
{
    int status = round_within(w);
    bool first = status < 0 && !w->fails;
    w->fails = status < 0;
    if (status < 0) {
        pg_note_error(w->s, &w->conn);
        if (status != STORE_FENCED && first)
            log_event(LEVEL_WARN, "cluster", "beat_fails", LOG_TEXT("why", w->conn.error));
    }
    watch_publish(w); /* also so that the loop turns */
}

static void watch_run(void *arg)
{
    struct pg_watch *w = arg;
    uv_mutex_lock(&w->lock);
    while (!w->stop && !atomic_load(&w->s->fenced)) {
        uv_mutex_unlock(&w->lock);
        watch_round(w);
        uv_mutex_lock(&w->lock);
        bool again = !pg_conn_is_open(&w->conn) && interval(w) > AGAIN_MS; /* it was just lost */
        if (!w->stop)
            uv_cond_timedwait(&w->wake, &w->lock,
                              (uint64_t)(again ? AGAIN_MS : interval(w)) * 1000000u);
    }
    uv_mutex_unlock(&w->lock);
}

/* --- outside ---------------------------------------------------------------------------------- */

static void watch_begin(struct store_pg *s)
{
    struct pg_watch *w = xcalloc(sizeof *w);
    w->s = s;
    w->rescuer = (struct pg_rescuer){.s = s, .done = on_rescued, .arg = w};
    w->last_moved = -1;
    w->round_at = pg_boot_ms();
    atomic_store(&w->turned, true);
    ASSERT(uv_mutex_init(&w->lock) == 0 && uv_cond_init(&w->wake) == 0);
    s->watch = w;
    if (watch_connect(w) == STORE_OK &&
        pg_view_read(&w->conn, &w->now, w->names, &w->last_moved) == STORE_OK)
        w->view = w->now;
    ASSERT(uv_thread_create(&w->thread, watch_run, w) == 0);
}

void store_pg_watch(struct store_pg *store, void (*changed)(void *arg), void *arg)
{
    if (!store->watch)
        watch_begin(store);
    struct pg_watch *w = store->watch;
    uv_mutex_lock(&w->lock);
    w->changed = changed;
    w->arg = arg;
    uv_mutex_unlock(&w->lock);
}

void pg_watch_stop(struct store_pg *s)
{
    struct pg_watch *w = s->watch;
    if (!w)
        return;
    uv_mutex_lock(&w->lock);
    w->stop = true;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->lock);
    uv_thread_join(&w->thread);
    pg_rescuer_collect(&w->rescuer);
    pg_conn_close(&w->conn);
    uv_cond_destroy(&w->wake);
    uv_mutex_destroy(&w->lock);
    free(w);
    s->watch = NULL;
}

void store_pg_watch_end(struct store_pg *store)
{
    pg_watch_stop(store);
}

void store_pg_turned(struct store_pg *store)
{
    if (!store->watch)
        return;
    atomic_store(&store->watch->begun, true);
    atomic_store(&store->watch->turned, true);
}

void store_pg_view(struct store_pg *store, struct store_view *ret)
{
    uv_mutex_lock(&store->watch->lock);
    *ret = store->watch->view;
    uv_mutex_unlock(&store->watch->lock);
}

bool pg_watch_view(struct store_pg *s, struct store_view *ret)
{
    if (s->watch)
        store_pg_view(s, ret);
    return s->watch != NULL;
}

void store_pg_agreed(struct store_pg *store, uint64_t agreed)
{
    int waits = PG_WAITS;
    if (agreed != atomic_load(&store->asked) + 1 ||
        !atomic_compare_exchange_strong(&store->phase, &waits, PG_SURE))
        return;
    uv_mutex_lock(&store->watch->lock);
    uv_cond_signal(&store->watch->wake); /* a sign of life is trusted from now on */
    uv_mutex_unlock(&store->watch->lock);
}

uint64_t store_pg_takeovers(const struct store_pg *store)
{
    return store->watch ? atomic_load(&store->watch->n_takeovers) : 0;
}

void store_pg_advertise(struct store_pg *store, const char *address)
{
    struct pg_watch *w = store->watch;
    uv_mutex_lock(&w->lock);
    snprintf(w->link, sizeof w->link, "%s", address);
    w->tells_link = true;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->lock);
}

void store_pg_leave(struct store_pg *store)
{
    struct pg_watch *w = store->watch;
    uv_mutex_lock(&w->lock);
    w->tells_leaving = w->has_left = true;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->lock);
}

void store_pg_release(struct store_pg *store, const struct slots *slots)
{
    struct pg_watch *w = store->watch;
    uv_mutex_lock(&w->lock);
    for (size_t i = 0; i < countof(slots->bits); i++)
        w->release.bits[i] |= slots->bits[i];
    w->releases = true;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->lock);
}
