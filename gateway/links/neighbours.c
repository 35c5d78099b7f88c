#include "gateway/links/neighbours.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/base/secret_line.h"
#include "gateway/cluster/cluster.h"
#include "gateway/front/listener.h"
#include "gateway/front/moved.h"
#include "gateway/front/relay.h"
#include "gateway/links/links.h"

#define SECRET_MAX 4096

struct neighbours {
    struct links *links; /* NULL: none */
    struct cluster_watcher watcher;
    struct front *front;
    bool has_begun;
    bool tells; /* others where it is reached */
};

static uint64_t home_of(void *arg, unsigned slot)
{
    const struct front *f = arg;
    struct home_of home = cluster_home_of_slot(f->cluster, slot);
    return home.at == HOME_AWAY ? (uint64_t)home.node->incarnation : 0;
}

static bool is_here(void *arg, struct str owner)
{
    const struct front *f = arg;
    return cluster_home_of(f->cluster, owner).at == HOME_HERE;
}

static bool may_speak(void *arg)
{
    return cluster_is_trusted(((const struct front *)arg)->cluster);
}

static bool identify_later(void *arg, struct str token, struct identity *ret)
{
    return front_identify(arg, token, STR_NULL, STR_NULL, ret);
}

/* An address that is none (the front does not know it) is the link's. */
static void adopt(void *arg, int fd, const char *from)
{
    struct net_address at;
    bool known = from && net_parse_address(str_of(from), &at);
    listener_take_linked(arg, fd, known ? &at : NULL, from == NULL);
}

static bool take_worker(void *arg, struct pipe *p, const struct pipe_user **ret_user,
                        void **ret_arg)
{
    const struct pipe_server *server = ((const struct front *)arg)->pipe_server;
    if (server)
        *ret_arg = server->open(server->arg, p, ret_user);
    return server;
}

static void is_up(void *arg)
{
    const struct pipe_server *server = ((const struct front *)arg)->pipe_server;
    if (server)
        server->is_up(server->arg);
}

static bool stays(void *arg, uint64_t incarnation)
{
    const struct front *f = arg;
    return cluster_find_node(f->cluster, (int64_t)incarnation);
}

static void on_nodes_changed(struct cluster_watcher *watcher)
{
    struct neighbours *n = container_of(watcher, struct neighbours, watcher);
    const struct cluster *c = n->front->cluster;
    const struct store_node *node;
    links_drop_unless(n->links, stays, n->front);
    for (size_t i = 0; (node = cluster_node(c, i)) != NULL; i++)
        if (node->incarnation != cluster_incarnation(c))
            links_add(n->links, (uint64_t)node->incarnation, node->name, node->link);
}

static bool open_all(struct neighbours *n, struct front *f, const struct crew_member *crew)
{
    struct buf secret = {0};
    char error[LINKS_ERROR_TEXT] = "";
    const char *wrong = NULL;
    if (crew)
        buf_putstr(&secret, crew->secret);
    else
        wrong = secret_line_read(f->config->cluster.secret_file, SECRET_MAX, &secret);
    const struct links_options o = {.loop = f->loop,
                                    .hub = f->hub,
                                    .cluster = STR("holdfast"),
                                    .node = str_of(f->config->cluster.node),
                                    .secret = buf_str(&secret),
                                    .incarnation = (uint64_t)cluster_incarnation(f->cluster),
                                    .listen = crew ? NULL : f->config->cluster.listen,
                                    .tls = !crew && f->config->cluster.tls,
                                    .is_crew = crew != NULL,
                                    .listen_fd = crew && crew->is_home ? crew->link_fd : 0,
                                    .arg = f,
                                    .home_of = home_of,
                                    .is_here = is_here,
                                    .may_speak = may_speak,
                                    .identify = identify_later,
                                    .adopt = adopt,
                                    .take_worker = take_worker,
                                    .is_up = is_up};
    if (wrong)
        snprintf(error, sizeof error, "cluster.secret_file: %s", wrong);
    else
        n->links = links_open(&o, error);
    secret_line_done(&secret);
    if (!n->links)
        log_event(LEVEL_ERROR, "link", "cannot_listen", LOG_TEXT("why", error));
    return n->links;
}

/* Without a store that several can share there is one node. */
struct neighbours *neighbours_open(struct front *f, const struct crew_member *member)
{
    const struct crew_member *crew =
        member && (member->is_front || member->is_home) ? member : NULL;
    struct neighbours *n = xcalloc(sizeof *n);
    n->front = f;
    n->watcher.changed = on_nodes_changed;
    n->tells = !crew;
    if (!(f->config->cluster.listen || crew) || !cluster_incarnation(f->cluster) ||
        open_all(n, f, crew))
        return n;
    free(n);
    return NULL;
}

const struct home_port *neighbours_home(struct neighbours *n)
{
    return n->links ? links_home(n->links) : NULL;
}

void neighbours_close_slots(struct neighbours *n, const struct slots *slots, bool are_away)
{
    if (are_away && !n->links)
        return;
    front_close_slots(n->front, slots);
    if (n->links)
        links_close_slots(n->links, slots);
}

void neighbours_write_metrics(struct neighbours *n, struct buf *out)
{
    if (n->links)
        links_write_metrics(n->links, out);
}

static uint32_t close_linked(void *arg, struct str owner, enum close_code code, const char *why)
{
    return links_close_owner(((struct neighbours *)arg)->links, owner, code, why);
}

/* A port that the system has chosen is told in the place of 0. */
static void advertise(struct neighbours *n)
{
    const char *address = n->front->config->cluster.advertise, *colon = strrchr(address, ':');
    char text[NODE_LINK_TEXT];
    snprintf(text, sizeof text, "%.*s:%d", (int)(colon - address), address, links_port(n->links));
    cluster_advertise(n->front->cluster, strcmp(colon, ":0") == 0 ? text : address);
}

static void neighbours_start(struct neighbours *n)
{
    n->has_begun = true;
    n->front->close_linked = close_linked;
    n->front->linked_arg = n;
    n->front->pipes = links_pipes(n->links);
    if (links_port(n->links))
        log_event(LEVEL_INFO, "link", "listening", LOG_INT("port", links_port(n->links)));
    cluster_watch(n->front->cluster, &n->watcher);
    if (n->tells)
        advertise(n);
    on_nodes_changed(&n->watcher);
}

bool neighbours_reach_home(const struct neighbours *n)
{
    return n->links && links_stats_of(n->links)->links_up > 0;
}

bool neighbours_reach_all(const struct neighbours *n)
{
    const struct cluster *c = n->front->cluster;
    const struct store_node *node;
    for (size_t i = 0; n->links && (node = cluster_node(c, i)) != NULL; i++)
        if (node->incarnation != cluster_incarnation(c) && node->link[0] &&
            !links_reach(n->links, (uint64_t)node->incarnation))
            return false;
    return true;
}

/* From the first turn on others may come, and are dialled: the hub is open. */
void neighbours_turn(struct neighbours *n)
{
    if (!n->links)
        return;
    if (!n->has_begun)
        neighbours_start(n);
    links_turn(n->links);
}

void neighbours_close(struct neighbours *n)
{
    if (!n)
        return;
    n->front->close_linked = NULL;
    n->front->pipes = NULL;
    cluster_unwatch(&n->watcher);
    links_close(n->links);
    free(n);
}
