/* The nodes that are dialled, and the port where others dial. */
#include "gateway/links/links.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/backoff.h"
#include "gateway/base/log.h"
#include "gateway/base/secret_line.h"
#include "gateway/links/links_private.h"

#define FIRST_AGAIN_MS 100
#define MOST_AGAIN_MS 5000
#define LISTEN_BACKLOG 64

/* --- dialling --------------------------------------------------------------------------------- */

static void dial_later(struct peer *p)
{
    struct clock *c = &p->links->o.hub->clock;
    uint32_t random = 0;
    msec_t most = backoff_ms(++p->tries, FIRST_AGAIN_MS, MOST_AGAIN_MS);
    p->links->o.hub->o.random(&random, sizeof random);
    timer_arm(c, &p->again, c->now_ms + backoff_between(most / 2, most, random));
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct peer *p = req->data;
    if (p) {
        p->resolving = NULL;
        if (status == 0) {
            p->link = link_new(p->links, p);
            link_dial(p->link, found->ai_addr);
        } else {
            log_event_limited(LEVEL_WARN, "link", "cannot_dial", LOG_TEXT("node", p->node),
                              LOG_TEXT("why", uv_strerror(status)));
            dial_later(p);
        }
    }
    uv_freeaddrinfo(found);
    free(req);
}

/* HOST:PORT; IPv6 in brackets. */
static bool split_address(const char *address, char host[128], char port[8])
{
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address || strlen(colon + 1) >= 8 || colon - address >= 128)
        return false;
    bool bracketed = address[0] == '[' && colon[-1] == ']';
    snprintf(host, 128, "%.*s", (int)(colon - address - 2 * bracketed), address + bracketed);
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

static int parse_address(const char *host, const char *port, struct sockaddr_storage *ret)
{
    int n = (int)strtol(port, NULL, 10), status = uv_ip4_addr(host, n, (struct sockaddr_in *)ret);
    return status < 0 ? uv_ip6_addr(host, n, (struct sockaddr_in6 *)ret) : status;
}

/* An address that is no name needs no thread: at a stop libwebsockets closes a descriptor twice
 * (server_stop), which may be one that such a thread has just opened. */
static bool dials_at_once(struct peer *p, const char *host, const char *port)
{
    struct sockaddr_storage at;
    if (parse_address(host, port, &at) < 0)
        return false;
    p->link = link_new(p->links, p);
    link_dial(p->link, (const struct sockaddr *)&at);
    return true;
}

static void on_dial(struct timer *timer)
{
    struct peer *p = container_of(timer, struct peer, again);
    char host[128], port[8];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (p->link || p->resolving || !split_address(p->address, host, port))
        return;
    if (dials_at_once(p, host, port))
        return;
    p->resolving = xcalloc(sizeof *p->resolving);
    p->resolving->data = p;
    if (uv_getaddrinfo(p->links->o.loop, p->resolving, on_resolved, host, port, &hints) == 0)
        return;
    free(p->resolving);
    p->resolving = NULL;
    dial_later(p);
}

void peer_is_up(struct peer *p)
{
    const struct links_options *o = &p->links->o;
    p->tries = 0;
    if (o->is_up)
        o->is_up(o->arg);
}

void peer_is_down(struct peer *p)
{
    p->link = NULL;
    if (!p->links->is_closing)
        dial_later(p);
}

static struct peer *find_peer(const struct links *l, uint64_t incarnation)
{
    list_each (it, &l->peers) {
        struct peer *p = list_item(it, struct peer, all);
        if (p->incarnation == incarnation)
            return p;
    }
    return NULL;
}

static void peer_free(struct peer *p, const char *why)
{
    struct link *link = p->link;
    if (p->resolving)
        p->resolving->data = NULL;
    if (link)
        link_close(link, LINK_END_REPLACED, why);
    timer_disarm(&p->links->o.hub->clock, &p->again);
    list_remove(&p->all);
    free(p);
}

void links_add(struct links *l, uint64_t incarnation, const char *node, const char *address)
{
    struct peer *p = find_peer(l, incarnation);
    if (p && strcmp(p->address, address) == 0)
        return;
    if (p)
        peer_free(p, "it has another address");
    if (!address[0])
        return;
    p = xcalloc(sizeof *p);
    p->links = l;
    p->incarnation = incarnation;
    p->again.fire = on_dial;
    snprintf(p->node, sizeof p->node, "%s", node);
    snprintf(p->address, sizeof p->address, "%s", address);
    list_push(&l->peers, &p->all);
    timer_arm(&l->o.hub->clock, &p->again, l->o.hub->clock.now_ms);
}

void links_drop(struct links *l, uint64_t incarnation)
{
    struct peer *p = find_peer(l, incarnation);
    if (p)
        peer_free(p, "the node is gone");
}

void links_drop_unless(struct links *l, bool (*stays)(void *arg, uint64_t incarnation), void *arg)
{
    list_each (it, &l->peers) {
        struct peer *p = list_item(it, struct peer, all);
        if (!stays(arg, p->incarnation))
            peer_free(p, "the node is gone");
    }
}

void links_each(struct links *l,
                void (*visit)(void *arg, const char *node, bool up, int64_t rtt_us), void *arg)
{
    list_each (it, &l->peers) {
        const struct peer *p = list_item(it, struct peer, all);
        bool up = p->link && p->link->state == LINK_UP;
        visit(arg, p->node, up, up ? p->link->rtt_us : -1);
    }
}

/* --- being dialled ---------------------------------------------------------------------------- */

static void on_dialled(uv_stream_t *listener, int status)
{
    struct links *l = listener->data;
    if (status < 0)
        return;
    struct link *k = link_new(l, NULL);
    if (uv_accept(listener, (uv_stream_t *)&k->tcp) < 0)
        link_close(k, LINK_END_CLOSED, "it cannot be accepted");
    else if (l->n_strangers > MOST_STRANGERS)
        link_close(k, LINK_END_REFUSED, "too many strangers");
    else
        link_accept(k);
}

static int find_port(uv_tcp_t *tcp)
{
    struct sockaddr_storage at;
    int n = sizeof at;
    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&at, &n) < 0)
        return 0;
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

static void on_listener_closed(uv_handle_t *handle)
{
    links_handle_gone(handle->data);
}

static int bind_at(struct links *l, const char *address)
{
    struct sockaddr_storage at;
    char host[128], port[8];
    if (!split_address(address, host, port))
        return UV_EINVAL;
    int status = parse_address(host, port, &at);
    if (status == 0)
        status = uv_tcp_bind(&l->listener, (struct sockaddr *)&at, 0);
    return status;
}

static int listen_here(struct links *l)
{
    int status =
        l->o.listen_fd ? uv_tcp_open(&l->listener, l->o.listen_fd) : bind_at(l, l->o.listen);
    if (status == 0)
        status = uv_listen((uv_stream_t *)&l->listener, LISTEN_BACKLOG, on_dialled);
    l->bound = status == 0 ? find_port(&l->listener) : 0;
    return status;
}

static bool open_listener(struct links *l, char *error)
{
    if (!l->o.listen && !l->o.listen_fd)
        return true;
    ASSERT(uv_tcp_init(l->o.loop, &l->listener) == 0);
    l->listener.data = l;
    l->n_handles++;
    l->listens = true;
    int status = listen_here(l);
    if (status < 0)
        snprintf(error, LINKS_ERROR_TEXT, "cannot listen at %s: %s",
                 l->o.listen ? l->o.listen : "its socket", uv_strerror(status));
    return status == 0;
}

int links_port(const struct links *l)
{
    return l->bound;
}

/* --- all of it -------------------------------------------------------------------------------- */

struct links *links_open(const struct links_options *o, char error[LINKS_ERROR_TEXT])
{
    struct links *l = xcalloc(sizeof *l);
    l->o = *o;
    list_init(&l->all);
    list_init(&l->peers);
    buf_putstr(&l->cluster, o->cluster);
    buf_putstr(&l->node, o->node);
    buf_putstr(&l->secret, o->secret);
    l->n_handles = 1; /* links_close's own */
    front_port_init(l);
    pipe_port_init(l);
    if (open_listener(l, error))
        return l;
    links_close(l);
    return NULL;
}

const struct home_port *links_home(struct links *l)
{
    return &l->port;
}

const struct pipe_port *links_pipes(struct links *l)
{
    return &l->pipes;
}

const struct links_stats *links_stats_of(const struct links *l)
{
    return &l->stats;
}

/* A link that we dialled has the sessions of clients here, whose home is the other node. */
static bool link_is_of_a_front(const struct link *k)
{
    return !k->peer;
}

bool links_reach(struct links *l, uint64_t incarnation)
{
    return link_to(l, incarnation) != NULL;
}

void links_close_slots(struct links *l, const struct slots *slots)
{
    list_each (it, &l->all) {
        struct link *k = list_item(it, struct link, all);
        if (link_is_of_a_front(k))
            home_close_slots(k, slots);
    }
}

uint32_t links_close_owner(struct links *l, struct str owner, enum close_code code, const char *why)
{
    uint32_t n = 0;
    list_each (it, &l->all) {
        struct link *k = list_item(it, struct link, all);
        n += link_is_of_a_front(k) ? home_close_owner(k, owner, code, why) : 0;
    }
    return n;
}

/* Without a lease nothing may be said: what waits goes when the lease is sure again, or never. */
void links_turn(struct links *l)
{
    if (!l->o.may_speak(l->o.arg))
        return;
    list_each (it, &l->all) {
        struct link *k = list_item(it, struct link, all);
        if (k->state != LINK_ENDED && !k->peer)
            home_turn(k);
        pipes_turn(k);
        link_write(k);
    }
}

void links_handle_gone(struct links *l)
{
    if (--l->n_handles > 0)
        return;
    buf_done(&l->cluster);
    buf_done(&l->node);
    secret_line_done(&l->secret);
    free(l);
}

void links_close(struct links *l)
{
    if (!l)
        return;
    l->is_closing = true;
    if (l->listens)
        uv_close((uv_handle_t *)&l->listener, on_listener_closed);
    while (!list_is_empty(&l->peers))
        peer_free(list_item(l->peers.next, struct peer, all), "this node stops");
    list_each (it, &l->all)
        link_close(list_item(it, struct link, all), LINK_END_REPLACED, "this node stops");
    links_handle_gone(l);
}
