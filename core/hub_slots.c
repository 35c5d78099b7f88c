/* Slots that come and go while others are served. */
#include "core/hub.h"
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

static void walk_owner(struct map_node *node, void *arg)
{
    struct walk *w = arg;
    slots_add(&w->busy, container_of(node, const struct owner, node)->slot);
}

void hub_find_idle(struct hub *h, struct slots *ret)
{
    struct walk w = {.hub = h};
    map_each(&h->streams, walk_stream, &w);
    map_each(&h->owners, walk_owner, &w);
    *ret = h->open;
    for (size_t i = 0; i < countof(ret->bits); i++)
        ret->bits[i] &= ~w.busy.bits[i];
}

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

void hub_leave(struct hub *h, const struct slots *slots)
{
    struct leaving l = {h, slots};
    for (size_t i = 0; i < countof(slots->bits); i++)
        h->open.bits[i] &= ~slots->bits[i];
    map_each(&h->streams, drop_cached, &l);
    revocations_leave(&h->revocations, slots);
    retention_leave(&h->retention, slots);
}
