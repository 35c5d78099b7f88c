/* Slots that come and go while others are served. */
#include "core/grant.h"
#include "core/handover.h"
#include "core/hub.h"
#include "core/schedule.h"
#include "core/task_parts.h"

struct walk {
    struct hub *hub;
    struct slots busy;
};

static bool is_only_cached(const struct stream *s)
{
    return !s->task && !s->pins && !s->sealing && !s->tail.len && !s->load &&
           list_is_empty(&s->cursors) && !list_is_in(&s->dirty) && !list_is_in(&s->want_seal);
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

static void walk_owner(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct owner *o = container_of(node, const struct owner, node);
    bool is_bare = o->refs == o->n_sessions + o->n_schedules + o->n_grants && !o->watch.lines;
    if (!is_bare || !rows_are_settled(o))
        slots_add(&w->busy, o->slot);
}

static void less_busy(const struct slots *among, const struct walk *w, struct slots *ret)
{
    for (size_t i = 0; i < countof(ret->bits); i++)
        ret->bits[i] = among->bits[i] & ~w->busy.bits[i];
}

void hub_find_idle(struct hub *h, const struct slots *among, struct slots *ret)
{
    struct walk w = {.hub = h};
    map_each(&h->streams, walk_stream, &w);
    map_each(&h->owners, walk_owner, &w);
    less_busy(among, &w, ret);
}

/* --- those that only readers keep ------------------------------------------------------------- */

static void walk_live_stream(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct stream *s = container_of(node, const struct stream, node);
    if (s->task || s->pins || s->sealing || list_is_in(&s->dirty) || list_is_in(&s->want_seal))
        slots_add(&w->busy, slot_of(stream_owner(s)));
}

static void walk_live_owner(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    const struct owner *o = container_of(node, const struct owner, node);
    if (o->n_live > 0 || o->n_calls > 0 || !rows_are_settled(o))
        slots_add(&w->busy, o->slot);
}

void hub_find_movable(struct hub *h, const struct slots *among, struct slots *ret)
{
    struct walk w = {.hub = h};
    map_each(&h->streams, walk_live_stream, &w);
    map_each(&h->owners, walk_live_owner, &w);
    list_each (it, &h->due)
        slots_add(&w.busy, list_item(it, struct conversation, due)->owner->slot);
    list_each (it, &h->freed)
        slots_add(&w.busy, list_item(it, struct conversation, freed)->owner->slot);
    handovers_mark(h, &w.busy);
    less_busy(among, &w, ret);
}

void hub_close_slots(struct hub *h, const struct slots *slots)
{
    for (size_t i = 0; i < countof(slots->bits); i++)
        h->open.bits[i] &= ~slots->bits[i];
}

void hub_reopen_slots(struct hub *h, const struct slots *slots)
{
    for (size_t i = 0; i < countof(slots->bits); i++)
        h->open.bits[i] |= slots->bits[i];
}

/* --- leaving ---------------------------------------------------------------------------------- */

struct leaving {
    struct hub *hub;
    const struct slots *slots;
};

static void drop_cached(struct map_node *node, void *arg)
{
    const struct leaving *l = arg;
    struct stream *s = container_of(node, struct stream, node);
    if (!slots_has(l->slots, slot_of(stream_owner(s))))
        return;
    ASSERT(is_only_cached(s));
    block_cache_drop(&l->hub->cache, s);
    hub_release_stream(l->hub, s);
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

void hub_leave(struct hub *h, const struct slots *slots)
{
    struct leaving l = {h, slots};
    hub_close_slots(h, slots);
    map_each(&h->streams, drop_cached, &l);
    map_each(&h->owners, drop_rows, &l);
    revocations_leave(&h->revocations, slots);
    retention_leave(&h->retention, slots);
}

void hub_rewound(struct hub *h, int64_t epoch, int64_t range)
{
    h->epoch = epoch > h->epoch ? epoch : h->epoch;
    if (range > h->next_key >> 32)
        h->next_key = range << 32 | 1;
}
