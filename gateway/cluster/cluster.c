/* The loop's side: a copy of the newest view, and who wants to hear of changes. */
#include "gateway/cluster/cluster.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/hub.h"
#include "gateway/store/store_pg.h"

struct cluster {
    struct hub *hub;
    struct store_pg *pg; /* NULL: one node, all slots */
    struct store_view view;
    struct slots here; /* ours, and open */
    int64_t us;
    struct list watchers;
    uv_async_t async;
};

static void cluster_tell(struct cluster *c)
{
    list_each (at, &c->watchers) {
        struct cluster_watcher *w = list_item(at, struct cluster_watcher, at);
        w->changed(w);
    }
}

static void on_view(uv_async_t *async)
{
    struct cluster *c = container_of(async, struct cluster, async);
    store_pg_turned(c->pg);
    store_pg_view(c->pg, &c->view);
    for (unsigned i = 0; i < N_SLOTS; i++)
        if (c->view.home[i] == c->us)
            slots_add(&c->here, i);
        else
            slots_take(&c->here, i);
    cluster_tell(c);
}

/* Any thread. */
static void on_changed(void *arg)
{
    uv_async_send(&((struct cluster *)arg)->async);
}

struct cluster *cluster_open(uv_loop_t *loop, struct hub *hub, struct store_pg *pg)
{
    struct cluster *c = xcalloc(sizeof *c);
    c->hub = hub;
    c->pg = pg;
    list_init(&c->watchers);
    if (!pg)
        return c;
    c->us = store_pg_incarnation(pg);
    ASSERT(uv_async_init(loop, &c->async, on_view) == 0);
    store_pg_watch(pg, on_changed, c);
    return c;
}

static void on_cluster_closed(uv_handle_t *handle)
{
    free(container_of((uv_async_t *)handle, struct cluster, async));
}

void cluster_close(struct cluster *c)
{
    if (!c)
        return;
    if (!c->pg) {
        free(c);
        return;
    }
    store_pg_watch(c->pg, NULL, NULL);
    uv_close((uv_handle_t *)&c->async, on_cluster_closed);
}

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

struct home_of cluster_home_of(const struct cluster *c, struct str owner)
{
    unsigned slot = slot_of(owner);
    struct home_of h = {.at = HOME_HERE, .slot = slot, .moved = c->view.moved[slot]};
    if (!c->pg || slots_has(&c->here, slot))
        return h;
    h.at = HOME_SOON;
    if (c->view.home[slot] != c->us)
        h.node = cluster_find_node(c, c->view.home[slot]);
    if (h.node)
        h.at = HOME_AWAY;
    return h;
}

bool cluster_is_trusted(const struct cluster *c)
{
    return !c->pg || store_pg_is_trusted(c->pg);
}

int64_t cluster_incarnation(const struct cluster *c)
{
    return c->us;
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
