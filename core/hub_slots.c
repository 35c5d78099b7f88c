/* Slots that come and go while others are served.
 *
 *   movable ──closed──▶ quiet ──its tasks are left──▶ idle ──left──▶ released
 *
 * A task whose run may move is left as at a planned stop: what it said is committed and sealed, and
 * the next home goes on with it. */
#include "core/grant.h"
#include "core/handover.h"
#include "core/hub.h"
#include "core/notice.h"
#include "core/schedule.h"
#include "core/task_parts.h"

#define RANGE_BITS 32
#define RANGE_HALF ((uint64_t)1 << (RANGE_BITS - 1))

struct walk {
    struct hub *hub;
    bool live; /* tasks that may move are no hindrance */
    struct slots busy;
};

static bool is_only_cached(const struct stream *s)
{
    return (!s->task || task_is_parted(s->task)) && !s->pins && !s->sealing && !s->tail.len &&
           !s->load && list_is_empty(&s->cursors) && !list_is_in(&s->dirty) && !s->wants_seal;
}

static void walk_stream(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct stream *s = container_of(node, const struct stream, node);
    if (!is_only_cached(s))
        slots_add(&w->busy, slot_of(stream_owner(s)));
}

static bool schedules_are_settled(const struct owner *o)
{
    list_each (it, &o->schedules) {
        const struct schedule *s = list_item(it, struct schedule, node);
        if (s->changes > 0 || s->running)
            return false;
    }
    return true;
}

static bool grants_are_settled(const struct owner *o)
{
    list_each (it, &o->grants) {
        const struct grant *g = list_item(it, struct grant, node);
        if (!g->committed || g->taken)
            return false;
    }
    return true;
}

static bool rows_are_settled(const struct owner *o)
{
    return schedules_are_settled(o) && grants_are_settled(o);
}

/* Nothing holds it but tasks, and notices, which are in the store too. */
static void walk_conversation(struct map_node *node, void *arg)
{
    const struct conversation *c = container_of(node, const struct conversation, node);
    uint32_t n = 0;
    (void)arg;
    list_each (it, &c->tasks)
        n++;
    list_each (it, &c->notices)
        n++;
    c->owner->n_settled += n == c->refs && !feed_has_readers(&c->feed);
}

static void walk_owner(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    struct owner *o = container_of(node, struct owner, node);
    uint32_t bare = o->n_sessions + o->n_schedules + o->n_grants + o->n_live + o->n_settled;
    if (o->refs != bare || o->watch.lines || !rows_are_settled(o))
        slots_add(&w->busy, o->slot);
    o->n_settled = 0;
}

static void less_busy(const struct slots *among, const struct walk *w, struct slots *ret)
{
    for (size_t i = 0; i < countof(ret->bits); i++)
        ret->bits[i] = among->bits[i] & ~w->busy.bits[i];
}

void hub_find_idle(struct hub *h, const struct slots *among, struct slots *ret)
{
    struct walk w = {.hub = h};
    handovers_expire(h);
    map_each(&h->streams, walk_stream, &w);
    map_each(&h->conversations, walk_conversation, &w);
    map_each(&h->owners, walk_owner, &w);
    less_busy(among, &w, ret);
}

/* --- those that only readers, or tasks that may move, keep ------------------------------------ */

static void walk_live_stream(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct stream *s = container_of(node, const struct stream, node);
    bool is_going = s->pins || s->sealing || list_is_in(&s->dirty) || s->wants_seal;
    if (s->task ? !w->live || !task_may_move(s->task) : is_going)
        slots_add(&w->busy, slot_of(stream_owner(s)));
}

static void walk_live_owner(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct owner *o = container_of(node, const struct owner, node);
    if (o->n_calls > 0 || !rows_are_settled(o))
        slots_add(&w->busy, o->slot);
}

void hub_find_movable(struct hub *h, const struct slots *among, bool live, struct slots *ret)
{
    struct walk w = {.hub = h, .live = live};
    handovers_expire(h);
    map_each(&h->streams, walk_live_stream, &w);
    map_each(&h->owners, walk_live_owner, &w);
    list_each (it, &h->freed)
        slots_add(&w.busy, list_item(it, struct conversation, freed)->owner->slot);
    handovers_mark(h, &w.busy);
    less_busy(among, &w, ret);
}

/* Readers are gone: what is told from now on nobody waits for here. */
static void walk_read_stream(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct stream *s = container_of(node, const struct stream, node);
    if (!list_is_empty(&s->cursors) || s->load)
        slots_add(&w->busy, slot_of(stream_owner(s)));
}

static void walk_read_conversation(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct conversation *c = container_of(node, const struct conversation, node);
    if (feed_has_readers(&c->feed) || !list_is_empty(&c->followers) || c->noticing)
        slots_add(&w->busy, c->owner->slot);
}

static void walk_read_owner(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct owner *o = container_of(node, const struct owner, node);
    if (o->watch.lines || !list_is_empty(&o->followers))
        slots_add(&w->busy, o->slot);
}

void hub_find_quiet(struct hub *h, const struct slots *among, struct slots *ret)
{
    struct walk w = {.hub = h};
    struct slots movable;
    hub_find_movable(h, among, true, &movable);
    map_each(&h->streams, walk_read_stream, &w);
    map_each(&h->conversations, walk_read_conversation, &w);
    map_each(&h->owners, walk_read_owner, &w);
    less_busy(&movable, &w, ret);
}

void hub_close_slots(struct hub *h, const struct slots *slots)
{
    slots_less(&h->open, slots);
}

struct leaving {
    struct hub *hub;
    const struct slots *slots;
    unsigned n_tasks;
};

/* Its turn may have come while nothing began there, or the gateway's end. */
static void catch_up(struct map_node *node, void *arg)
{
    const struct leaving *l = arg;
    struct task *t = container_of(node, struct stream, node)->task;
    if (!t || !slots_has(l->slots, slot_of(task_owner(t))))
        return;
    if (t->phase == PHASE_PENDING)
        task_try_start(t);
    else if (t->phase == PHASE_RUNNING && hub_leaves_runs(l->hub) && task_goes_on(t))
        task_leave(t);
}

void hub_reopen_slots(struct hub *h, const struct slots *slots)
{
    struct leaving l = {h, slots, 0};
    for (size_t i = 0; i < countof(slots->bits); i++)
        h->open.bits[i] |= slots->bits[i];
    h->notices_may_go = true;
    map_each(&h->streams, catch_up, &l);
}

/* --- leaving ---------------------------------------------------------------------------------- */

static void part_task(struct map_node *node, void *arg)
{
    struct leaving *l = arg;
    struct stream *s = container_of(node, struct stream, node);
    if (!s->task || !slots_has(l->slots, slot_of(stream_owner(s))))
        return;
    l->n_tasks++;
    task_leave(s->task);
    journal_want_seal(&l->hub->journal, s);
}

unsigned hub_part(struct hub *h, const struct slots *slots)
{
    struct leaving l = {h, slots, 0};
    map_each(&h->streams, part_task, &l);
    return l.n_tasks;
}

void hub_forget_task(struct hub *h, struct task *t)
{
    struct stream *s = t->stream;
    task_forget(t);
    block_cache_drop(&h->cache, s);
    hub_release_stream(h, s);
}

static void drop_cached(struct map_node *node, void *arg)
{
    const struct leaving *l = arg;
    struct stream *s = container_of(node, struct stream, node);
    if (!slots_has(l->slots, slot_of(stream_owner(s))))
        return;
    ASSERT(is_only_cached(s));
    if (s->task)
        task_drop(s->task);
    block_cache_drop(&l->hub->cache, s);
    hub_release_stream(l->hub, s);
}

static void drop_notices(struct map_node *node, void *arg)
{
    const struct leaving *l = arg;
    struct conversation *c = container_of(node, struct conversation, node);
    if (slots_has(l->slots, c->owner->slot))
        notices_forget(c);
}

/* The next home reads them from their rows. */
static void drop_rows(struct map_node *node, void *arg)
{
    const struct leaving *l = arg;
    struct owner *o = container_of(node, struct owner, node);
    if (!slots_has(l->slots, o->slot))
        return;
    o->refs++;
    schedules_drop(o);
    grants_drop(o);
    owner_unref(l->hub, o);
}

void hub_forget_rows(struct hub *h, const struct slots *slots)
{
    struct leaving l = {h, slots, 0};
    map_each(&h->conversations, drop_notices, &l);
    map_each(&h->owners, drop_rows, &l);
    revocations_leave(&h->revocations, slots);
    retention_leave(&h->retention, slots);
}

void hub_leave(struct hub *h, const struct slots *slots)
{
    struct leaving l = {h, slots, 0};
    hub_close_slots(h, slots);
    map_each(&h->streams, drop_cached, &l);
    hub_forget_rows(h, slots);
}

void hub_rewound(struct hub *h, int64_t epoch, int64_t range)
{
    h->epoch = epoch > h->epoch ? epoch : h->epoch;
    if (range > h->next_key >> RANGE_BITS)
        h->next_key = range << RANGE_BITS | 1;
}

static uint64_t place_in_range(const struct hub *h)
{
    return (uint64_t)h->next_key & (2 * RANGE_HALF - 1);
}

int64_t hub_new_key(struct hub *h)
{
    ASSERT(!h->o.shared || place_in_range(h) > 0); /* this one would be a neighbour's */
    return h->next_key++;
}

bool hub_wants_range(const struct hub *h)
{
    return place_in_range(h) >= RANGE_HALF;
}
