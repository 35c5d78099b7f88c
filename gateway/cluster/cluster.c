/* The loop's side: a copy of the newest view, and what follows from it for the hub.  Slots that are
 * ours by the view are restored, and open then.  Of more than our part (dealer.h), those in which
 * nothing lives are given away: left, then, when all that was staged is committed, released.  Those
 * that only readers and followers keep are closed first: requests are refused, sessions end with
 * 1001, and their clients find the next home.  With tasks that can go on there it is the same, and
 * when the readers are gone these are left, as at a stop. */
#include "gateway/cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/hub.h"
#include "gateway/base/log.h"
#include "gateway/cluster/dealer.h"
#include "gateway/cluster/repairs.h"
#include "gateway/store/store_pg.h"

#define CLOCK_OFF_MS 2000
#define PATIENCE_LEASES 2 /* how long nodes must be uneven before owners are moved for it */
#define CLOSING_TICK_MS 20
#define CLOSING_REST 9   /* times what a look took: it goes over all tasks */
#define CLOSING_MS 10000 /* a slot that is not idle by then is served again */
#define CLOSING_AGAIN_MS 30000
#define CLOSING_SOON_MS 2000 /* the same of a node that ends */

struct cluster {
    struct hub *hub;
    struct store_pg *pg; /* NULL: one node, all slots */
    struct cluster_options o;
    struct store_view view;
    struct slots ours;      /* by the view, but for those that leave */
    struct repairs repairs; /* of ours */
    int untold;             /* why some are not repaired, while nobody is served yet */
    struct slots closing;   /* refused, and not idle yet */
    struct slots parted;    /* of these, those whose tasks are left: there is no way back */
    msec_t closing_since, closes_after;
    uv_timer_t tick;      /* runs while some are closing */
    struct slots leaving; /* left, and not released yet */
    bool started, begun, serves, restores, leaves, stopped, clock_is_off;
    struct waiter staged; /* before leaving ones may be released */
    int64_t us;
    struct list watchers;
    uv_async_t async;
    struct dealer dealer;
};

static bool slots_are_empty(const struct slots *s)
{
    for (size_t i = 0; i < countof(s->bits); i++)
        if (s->bits[i])
            return false;
    return true;
}

static void cluster_tell(struct cluster *c)
{
    list_each (at, &c->watchers) {
        struct cluster_watcher *w = list_item(at, struct cluster_watcher, at);
        w->changed(w);
    }
}

/* --- slots that come -------------------------------------------------------------------------- */

static void restore_next(struct cluster *c);

static void unrepaired_of(const struct cluster *c, struct slots *ret)
{
    *ret = c->hub->unrepaired;
    slots_add_those(ret, &c->repairs.unrepaired);
}

static void tell_repaired(struct cluster *c)
{
    struct slots rest;
    unrepaired_of(c, &rest);
    log_event(LEVEL_INFO, "cluster", "slots_repaired", LOG_INT("unrepaired", slots_count(&rest)));
}

/* A node that serves nobody yet may end by what it is told, so that is told when nothing is left
 * that could be served. */
static void tell_opened(struct cluster *c, int status)
{
    if (status < 0 && !c->serves && !slots_are_empty(&c->repairs.waiting)) {
        c->untold = status;
        return;
    }
    c->serves = c->serves || status == 0;
    c->o.opened(c->o.arg, status);
    if (status == 0 && c->untold)
        c->o.opened(c->o.arg, c->untold);
    c->untold = 0;
}

/* Slots that cannot be repaired are kept: the next node would fail as well.  Those that are left
 * when the others have opened are tried again. */
static void cluster_on_restored(void *arg, int status)
{
    struct cluster *c = arg;
    struct slots closed = c->repairs.going, again;
    if (status == REPAIRED_MORE) {
        repairs_take_open(&c->repairs, &c->hub->open);
        tell_repaired(c);
        tell_opened(c, 0);
        cluster_tell(c);
        return;
    }
    c->restores = false;
    unsigned n = slots_count(&closed);
    slots_less(&closed, &c->hub->open);
    again = closed;
    slots_less(&again, &c->hub->unrepaired);
    bool held = slots_count(&closed) > slots_count(&again);
    bool failed = repairs_done(&c->repairs, &again, c->hub->clock.now_ms);
    if (repairs_take_open(&c->repairs, &c->hub->open))
        tell_repaired(c);
    if (slots_count(&closed) < n || n == 0)
        tell_opened(c, 0);
    if (held || failed)
        tell_opened(c, status);
    if (c->stopped || (!c->serves && slots_are_empty(&c->repairs.waiting)))
        return;
    cluster_tell(c);
    restore_next(c);
}

static void restore_next(struct cluster *c)
{
    struct slots own = {0};
    int64_t number = 0;
    unsigned n = 0;
    if (c->restores || c->stopped || (c->begun && slots_are_empty(&c->repairs.waiting)))
        return;
    if (!c->started || (c->pg && !store_pg_is_sure(c->pg)))
        return;
    c->begun = c->restores = true;
    repairs_next(&c->repairs);
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (!slots_has(&c->repairs.going, i))
            continue;
        number = c->view.moved[i] > number ? c->view.moved[i] : number;
        if (store_pg_is_own(c->pg, i, c->view.moved[i]))
            slots_add(&own, i);
        n++;
    }
    log_event(LEVEL_INFO, "cluster", "slots_come", LOG_INT("slots", n));
    hub_restore_slots(c->hub, &c->repairs.going, &own, (struct tenure){number, c->view.newest_id},
                      cluster_on_restored, c);
}

/* --- slots that go ---------------------------------------------------------------------------- */

static void on_staged(struct waiter *w, int status)
{
    struct cluster *c = container_of(w, struct cluster, staged);
    (void)status; /* a batch that was given up is over as well */
    if (!c->stopped)
        store_pg_release(c->pg, &c->leaving);
}

/* They are idle. */
static void leave(struct cluster *c, const struct slots *idle)
{
    c->leaves = true;
    c->leaving = *idle;
    slots_less(&c->ours, idle);
    slots_less(&c->closing, idle);
    slots_less(&c->parted, idle);
    log_event(LEVEL_INFO, "cluster", "slots_go", LOG_INT("slots", slots_count(idle)));
    c->o.leaving(c->o.arg, &c->leaving);
    hub_leave(c->hub, &c->leaving);
    c->staged.done = on_staged;
    journal_wait(&c->hub->journal, &c->staged);
}

/* The rest was not idle in time: it is served again, and left alone for a while. */
static void closing_give_up(struct cluster *c)
{
    struct slots rest = c->closing;
    slots_less(&rest, &c->parted);
    if (slots_are_empty(&rest))
        return;
    log_event(LEVEL_INFO, "cluster", "slots_stay", LOG_INT("slots", slots_count(&rest)));
    hub_reopen_slots(c->hub, &rest);
    c->closing = c->parted;
    c->closes_after =
        c->hub->clock.now_ms + (c->hub->draining ? CLOSING_SOON_MS : CLOSING_AGAIN_MS);
    cluster_tell(c);
}

/* Nobody reads them here any more: their tasks are left, as soon as each may be. */
static void part(struct cluster *c, const struct slots *busy)
{
    struct slots quiet = c->closing;
    slots_less(&quiet, &c->parted);
    if (slots_are_empty(&quiet))
        return;
    hub_find_quiet(c->hub, &quiet, &quiet);
    slots_less(&quiet, busy);
    if (slots_are_empty(&quiet) || !store_pg_is_sure(c->pg) || !cluster_is_trusted(c))
        return;
    log_event(LEVEL_INFO, "cluster", "tasks_part", LOG_INT("tasks", hub_part(c->hub, &quiet)));
    for (size_t i = 0; i < countof(quiet.bits); i++)
        c->parted.bits[i] |= quiet.bits[i];
}

static void look_at_closing(struct cluster *c)
{
    struct slots idle, busy = {0};
    c->o.closing(c->o.arg, &c->closing, false); /* some have come back too early */
    c->o.busy(c->o.arg, &busy);
    part(c, &busy);
    if (c->leaves)
        return;
    hub_find_idle(c->hub, &c->closing, &idle);
    slots_less(&idle, &busy);
    if (!slots_are_empty(&idle))
        leave(c, &idle);
    else if (c->hub->clock.now_ms - c->closing_since > CLOSING_MS)
        closing_give_up(c);
}

static void on_closing_tick(uv_timer_t *timer)
{
    struct cluster *c = container_of(timer, struct cluster, tick);
    uint64_t begun = uv_hrtime();
    if (c->stopped || slots_are_empty(&c->closing))
        return;
    look_at_closing(c);
    uint64_t rest = (uv_hrtime() - begun) / 1000000 * CLOSING_REST;
    uv_timer_start(timer, on_closing_tick, rest > CLOSING_TICK_MS ? rest : CLOSING_TICK_MS, 0);
}

static bool may_close(const struct cluster *c)
{
    return slots_are_empty(&c->closing) && c->hub->clock.now_ms >= c->closes_after;
}

static void close_some(struct cluster *c, const struct slots *some)
{
    log_event(LEVEL_INFO, "cluster", "slots_close", LOG_INT("slots", slots_count(some)));
    c->closing = *some;
    c->closing_since = c->hub->clock.now_ms;
    hub_close_slots(c->hub, some);
    c->o.closing(c->o.arg, some, false);
    uv_timer_start(&c->tick, on_closing_tick, CLOSING_TICK_MS, 0);
}

static void find_choices(struct cluster *c, struct choices *ret)
{
    struct slots busy = {0};
    c->o.busy(c->o.arg, &busy);
    hub_find_idle(c->hub, &c->hub->open, &ret->idle);
    hub_find_movable(c->hub, &c->hub->open, false, &ret->read);
    hub_find_movable(c->hub, &c->hub->open, true, &ret->live);
    slots_less(&ret->idle, &busy);
    slots_less(&ret->read, &busy);
    slots_less(&ret->live, &busy);
    slots_less(&ret->read, &ret->idle);
    slots_less(&ret->live, &ret->idle);
    slots_less(&ret->live, &ret->read);
}

/* Slots that were left are given away as a whole before others are looked at.  A node that leaves
 * has no part: it keeps the slots in which something lives that cannot move, as long as it does. */
static void leave_some(struct cluster *c)
{
    struct choices *among;
    struct slots go, some;
    msec_t now = c->hub->clock.now_ms;
    dealer_measure(&c->dealer, c->hub->use, &c->ours, now);
    store_pg_load(c->pg, c->dealer.told);
    if (c->restores || c->leaves || !cluster_has_others(c) || !store_pg_is_sure(c->pg))
        return;
    struct dealt dealt = dealer_look(&c->dealer, &c->view, c->us, now);
    if (dealt.by_number)
        dealt.weight -= slots_count(&c->closing);
    if (dealt.weight <= 0)
        return;
    among = xalloc(sizeof *among);
    find_choices(c, among);
    dealer_choose(&c->dealer, &dealt, among, may_close(c), &go, &some);
    free(among);
    if (!slots_are_empty(&go))
        leave(c, &go);
    if (!slots_are_empty(&some))
        close_some(c, &some);
}

/* --- the view --------------------------------------------------------------------------------- */

/* Also while nothing was restored yet, so that the first restore has all.  A slot that leaves, and
 * is ours by a newer claim, has left and come back between two views.  before: NULL for none. */
static void take_slots(struct cluster *c, const struct store_view *before)
{
    for (unsigned i = 0; i < N_SLOTS; i++) {
        bool mine = c->view.home[i] == c->us;
        bool again = before && c->view.moved[i] > before->moved[i];
        if ((!mine || again) && slots_has(&c->leaving, i))
            slots_take(&c->leaving, i);
        if (!mine) {
            slots_take(&c->ours, i);
            slots_take(&c->closing, i);
            slots_take(&c->parted, i);
            repairs_forget(&c->repairs, i);
        }
        if (!mine || slots_has(&c->ours, i) || slots_has(&c->leaving, i))
            continue;
        slots_add(&c->ours, i);
        repairs_add(&c->repairs, i);
    }
    c->leaves = c->leaves && !slots_are_empty(&c->leaving);
}

static bool is_other_node(const struct store_node *a, const struct store_node *b)
{
    return a->incarnation != b->incarnation || a->state != b->state ||
           strcmp(a->link, b->link) != 0;
}

static bool is_other(const struct store_view *a, const struct store_view *b)
{
    bool other = a->n != b->n || memcmp(a->home, b->home, sizeof a->home) != 0 ||
                 memcmp(a->moved, b->moved, sizeof a->moved) != 0;
    for (size_t i = 0; i < a->n && !other; i++)
        other = is_other_node(&a->nodes[i], &b->nodes[i]);
    return other;
}

/* A session that began while its owner was nobody's knows of no home. */
static void close_strays(struct cluster *c)
{
    struct slots away = {0};
    for (unsigned i = 0; i < N_SLOTS; i++)
        if (c->view.home[i] != 0 && c->view.home[i] != c->us)
            slots_add(&away, i);
    slots_less(&away, &c->hub->open); /* those that are ours until we have left them */
    c->o.closing(c->o.arg, &away, true);
}

/* All have said what they had; a release that was lost is asked for again. */
static void agree(struct cluster *c)
{
    store_pg_agreed(c->pg, c->view.agreed);
    if (c->leaves && !list_is_in(&c->staged.node))
        store_pg_release(c->pg, &c->leaving);
}

/* No lease and no order depends on it, but times that somebody names count by this clock. */
static void look_at_clock(struct cluster *c)
{
    int64_t ms = c->view.clock_off_ms;
    bool is_off = ms > CLOCK_OFF_MS || ms < -CLOCK_OFF_MS;
    if (is_off && !c->clock_is_off)
        log_event(LEVEL_ERROR, "cluster", "clock_is_off", LOG_INT("ms", ms),
                  LOG_TEXT("why", "this machine's clock and the server's differ"));
    else if (!is_off && c->clock_is_off)
        log_event(LEVEL_INFO, "cluster", "clock_is_right");
    c->clock_is_off = is_off;
}

static void on_view(uv_async_t *async)
{
    struct cluster *c = container_of(async, struct cluster, async);
    struct store_view *before;
    if (c->stopped)
        return;
    store_pg_turned(c->pg);
    before = xalloc(sizeof *before);
    *before = c->view;
    store_pg_view(c->pg, &c->view);
    look_at_clock(c);
    hub_rewound(c->hub, c->view.epoch, c->view.range);
    if (hub_wants_range(c->hub))
        store_pg_want_range(c->pg);
    bool other = is_other(before, &c->view);
    take_slots(c, before);
    free(before);
    if (c->view.agreed)
        agree(c);
    if (other) {
        cluster_tell(c);
        close_strays(c);
    }
    repairs_look(&c->repairs, c->hub->clock.now_ms);
    restore_next(c);
    if (c->begun)
        leave_some(c);
}

/* Any thread. */
static void on_changed(void *arg)
{
    uv_async_send(&((struct cluster *)arg)->async);
}

/* --- open and close --------------------------------------------------------------------------- */

/* One home has all slots for ever, and only the others look for it. */
static void fix_view(struct cluster *c)
{
    struct store_node *node = &c->view.nodes[0];
    c->us = c->o.us;
    for (unsigned i = 0; i < N_SLOTS; i++)
        c->view.home[i] = c->o.home;
    if (c->o.home == c->us)
        return;
    c->view.n = 1;
    node->incarnation = c->o.home;
    snprintf(node->name, sizeof node->name, "home");
    snprintf(node->link, sizeof node->link, "%s", c->o.home_link);
}

struct cluster *cluster_open(uv_loop_t *loop, struct hub *hub, struct store_pg *pg,
                             const struct cluster_options *options)
{
    struct cluster *c = xcalloc(sizeof *c);
    c->hub = hub;
    c->pg = pg;
    c->o = *options;
    list_init(&c->watchers);
    repairs_init(&c->repairs);
    if (!pg && options->us)
        fix_view(c);
    if (!pg)
        return c;
    c->us = store_pg_incarnation(pg);
    c->dealer.patience = options->lease_ms * PATIENCE_LEASES;
    c->dealer.percent = options->uneven_percent;
    ASSERT(uv_async_init(loop, &c->async, on_view) == 0);
    ASSERT(uv_timer_init(loop, &c->tick) == 0);
    store_pg_watch(pg, on_changed, c);
    store_pg_view(pg, &c->view);
    take_slots(c, NULL);
    return c;
}

void cluster_start(struct cluster *c)
{
    hub_rewound(c->hub, c->view.epoch, 0);
    c->started = true;
    if (c->pg || c->o.home != c->us)
        restore_next(c); /* a front has no slots, but begins all the same */
    else
        hub_restore(c->hub, c->o.opened, c->o.arg);
}

void cluster_leave(struct cluster *c)
{
    if (c->pg)
        store_pg_leave(c->pg);
}

void cluster_stop(struct cluster *c)
{
    if (!c || c->stopped)
        return;
    c->stopped = true;
    if (c->pg)
        store_pg_watch(c->pg, NULL, NULL);
}

void cluster_join(struct cluster *c)
{
    if (c && c->pg)
        store_pg_watch_end(c->pg);
}

static void on_cluster_closed(uv_handle_t *handle)
{
    free(container_of((uv_async_t *)handle, struct cluster, async));
}

static void on_tick_closed(uv_handle_t *handle)
{
    struct cluster *c = container_of((uv_timer_t *)handle, struct cluster, tick);
    uv_close((uv_handle_t *)&c->async, on_cluster_closed);
}

void cluster_close(struct cluster *c)
{
    cluster_stop(c);
    if (c && c->pg)
        uv_close((uv_handle_t *)&c->tick, on_tick_closed);
    else
        free(c);
}

/* --- questions -------------------------------------------------------------------------------- */

const struct store_node *cluster_find_node(const struct cluster *c, int64_t incarnation)
{
    for (size_t i = 0; i < c->view.n; i++)
        if (c->view.nodes[i].incarnation == incarnation && c->view.nodes[i].state != NODE_DEAD)
            return &c->view.nodes[i];
    return NULL;
}

const struct store_node *cluster_node(const struct cluster *c, size_t i)
{
    for (size_t k = 0; k < c->view.n; k++)
        if (c->view.nodes[k].state != NODE_DEAD && i-- == 0)
            return &c->view.nodes[k];
    return NULL;
}

bool cluster_has_others(const struct cluster *c)
{
    for (size_t i = 0; i < c->view.n && c->pg; i++)
        if (c->view.nodes[i].state == NODE_LIVES && c->view.nodes[i].incarnation != c->us)
            return true;
    return false;
}

struct home_of cluster_home_of(const struct cluster *c, struct str owner)
{
    return cluster_home_of_slot(c, slot_of(owner));
}

struct home_of cluster_home_of_slot(const struct cluster *c, unsigned slot)
{
    struct home_of h = {.at = HOME_HERE, .slot = slot, .moved = c->view.moved[slot]};
    if (slots_has(&c->hub->open, slot))
        return h;
    h.at = HOME_SOON;
    if (c->view.home[slot] != c->us)
        h.node = cluster_find_node(c, c->view.home[slot]);
    if (h.node)
        h.at = HOME_AWAY;
    return h;
}

unsigned cluster_slots_of(const struct cluster *c, int64_t incarnation)
{
    return c->us ? store_view_count(&c->view, incarnation) : 0;
}

bool cluster_is_trusted(const struct cluster *c)
{
    return !c->pg || store_pg_is_trusted(c->pg);
}

int64_t cluster_incarnation(const struct cluster *c)
{
    return c->us;
}

int64_t cluster_home_beside(const struct cluster *c)
{
    return c->o.home != c->us ? c->o.home : 0;
}

struct cluster_counts cluster_count(const struct cluster *c)
{
    struct cluster_counts n = {0};
    struct slots coming = c->repairs.waiting, leaving = c->leaving, unrepaired;
    unrepaired_of(c, &unrepaired);
    slots_add_those(&coming, &c->repairs.going);
    slots_less(&coming, &unrepaired);
    slots_add_those(&leaving, &c->closing);
    n.open = slots_count(&c->hub->open);
    n.coming = slots_count(&coming);
    n.leaving = slots_count(&leaving);
    n.unrepaired = slots_count(&unrepaired);
    for (size_t i = 0; i < c->view.n; i++)
        n.nodes[c->view.nodes[i].state]++;
    if (c->pg)
        n.takeovers = store_pg_takeovers(c->pg);
    return n;
}

void cluster_advertise(struct cluster *c, const char *address)
{
    if (c->pg)
        store_pg_advertise(c->pg, address);
}

void cluster_watch(struct cluster *c, struct cluster_watcher *watcher)
{
    list_push(&c->watchers, &watcher->at);
}

void cluster_unwatch(struct cluster_watcher *watcher)
{
    list_remove(&watcher->at);
}
