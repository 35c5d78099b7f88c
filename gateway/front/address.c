#include "gateway/front/address.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/bucket.h"
#include "gateway/base/cells.h"
#include "gateway/base/header_list.h"
#include "gateway/front/proxied.h"

#define SOCKETS_BEYOND 16 /* of one address, beyond twice its connections */
#define UNKNOWN "?"       /* no address looks like this */

/* --- identity --------------------------------------------------------------------------------- */

bool address_is_trusted(const struct front *f, const struct net_address *a)
{
    const struct config *c = f->config;
    return net_list_has(c->trusted_nets, c->trusted_proxies.n, a);
}

/* "203.0.113.7", and as some proxies write it, "203.0.113.7:4711" and "[2001:db8::7]:4711". */
static bool parse_forwarded(struct str one, struct net_address *ret)
{
    const char *colon = one.n > 0 ? memrchr(one.p, ':', one.n) : NULL;
    if (net_parse_address(one, ret))
        return true;
    size_t host = colon ? (size_t)(colon - one.p) : 0, port = one.n - host;
    if (host == 0 || port < 2 || port > 6)
        return false;
    for (size_t i = host + 1; i < one.n; i++)
        if (one.p[i] < '0' || one.p[i] > '9')
            return false;
    bool is_bare_ipv6 = one.p[0] != '[' && memchr(one.p, ':', host);
    return !is_bare_ipv6 && net_parse_address((struct str){one.p, host}, ret);
}

/* From the right, because the nearest proxy has written last: the first address that is no proxy of
 * ours.  False when an entry is not an address: then the client is unknown, and it is not the
 * proxy. */
static bool walk_forwarded(const struct front *f, struct str list, struct net_address *at)
{
    while (list.n > 0 && address_is_trusted(f, at)) {
        if (!parse_forwarded(header_list_last(&list, ','), at))
            return false;
    }
    return true;
}

bool address_was_forwarded(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_X_FORWARDED_FOR) > 0;
}

void address_text(struct front *f, struct lws *wsi, char ret_ip[NET_TEXT])
{
    struct net_address at;
    snprintf(ret_ip, NET_TEXT, UNKNOWN);
    const struct net_address *named = proxied_client(wsi);
    if (named)
        net_format(named, ret_ip);
    else
        lws_get_peer_simple(wsi, ret_ip, NET_TEXT);
    if (f->config->trusted_proxies.n == 0 || !net_parse_address(str_of(ret_ip), &at))
        return;
    int n = lws_hdr_total_length(wsi, WSI_TOKEN_X_FORWARDED_FOR);
    char *forwarded = n > 0 ? xcalloc((size_t)n + 1) : NULL;
    if (forwarded)
        n = lws_hdr_copy(wsi, forwarded, n + 1, WSI_TOKEN_X_FORWARDED_FOR);
    bool known =
        !forwarded || (n > 0 && walk_forwarded(f, (struct str){forwarded, (size_t)n}, &at));
    free(forwarded);
    if (known)
        net_format(&at, ret_ip);
    else
        snprintf(ret_ip, NET_TEXT, UNKNOWN);
}

void address_group(struct front *f, struct lws *wsi, char ret_group[NET_TEXT])
{
    struct net_address at;
    address_text(f, wsi, ret_group);
    if (net_parse_address(str_of(ret_group), &at))
        net_format_group(&at, f->config->rim_limits.ipv6_prefix, ret_group);
}

/* --- connections ------------------------------------------------------------------------------ */

struct map_key address_key(const struct map_node *node)
{
    return (struct map_key){{str_of(container_of(node, const struct address, node)->group)}};
}

static struct address *address_of(struct front *f, const char group[NET_TEXT])
{
    struct map_node *node = map_find(&f->addresses, (struct map_key){{str_of(group)}});
    if (node)
        return container_of(node, struct address, node);
    struct address *a = xcalloc(sizeof *a);
    snprintf(a->group, sizeof a->group, "%s", group);
    map_put(&f->addresses, &a->node);
    return a;
}

struct address *address_get(struct front *f, struct lws *wsi)
{
    char group[NET_TEXT] = "";
    address_group(f, wsi, group);
    return address_of(f, group);
}

void address_forget(struct front *f, struct address *a)
{
    if (a->n > 0 || a->n_sockets > 0)
        return;
    map_remove(&f->addresses, &a->node);
    free(a);
}

bool address_is_full(const struct front *f, const struct address *a, bool for_stranger)
{
    uint32_t all = f->config->rim_limits.connections,
             each = f->config->rim_limits.connections_per_address;
    if (f->n_conns + f->n_streams >= all || a->n >= each)
        return true;
    return for_stranger && (f->n_strangers >= (all + 1) / 2 || a->n_strangers >= (each + 1) / 2);
}

/* --- sockets ---------------------------------------------------------------------------------- */

struct peer *peer_new(struct front *f, int fd, const struct net_address *named)
{
    struct net_address at;
    char group[NET_TEXT] = "";
    struct peer *p = cell_new(sizeof *p);
    if (!p)
        return NULL;
    *p = (struct peer){0};
    if (named) {
        p->named = xalloc(sizeof *named);
        *p->named = at = *named;
    }
    if (!named && (!net_of_peer(fd, &at) || address_is_trusted(f, &at)))
        return p;
    net_format_group(&at, f->config->rim_limits.ipv6_prefix, group);
    p->address = address_of(f, group);
    if (p->address->n_sockets >=
        2 * (uint64_t)f->config->rim_limits.connections_per_address + SOCKETS_BEYOND) {
        peer_forget_name(p);
        cell_free(p);
        return NULL;
    }
    p->address->n_sockets++;
    return p;
}

void peer_forget_name(struct peer *p)
{
    free(p->named);
    p->named = NULL;
}

void peer_free(struct front *f, struct peer *p)
{
    if (!p)
        return;
    if (p->address) {
        p->address->n_sockets--;
        address_forget(f, p->address);
    }
    peer_forget_name(p);
    cell_free(p);
}

/* --- requests --------------------------------------------------------------------------------- */

struct pace {
    struct map_node node;
    struct list by_age; /* oldest request first */
    char *who;
    struct bucket requests;
};

struct map_key pace_key(const struct map_node *node)
{
    return (struct map_key){{str_of(container_of(node, const struct pace, node)->who)}};
}

static struct pace *pace_get(struct front *f, struct str who)
{
    struct map_node *node = map_find(&f->paces, (struct map_key){{who}});
    if (node)
        return container_of(node, struct pace, node);
    struct pace *p = xcalloc(sizeof *p);
    p->who = xstrdup(who);
    p->requests = bucket_full(f->config->limits.burst, f->hub->clock.now_ms);
    map_put(&f->paces, &p->node);
    return p;
}

bool pace_take(struct front *f, struct str who)
{
    const struct hub_limits *l = &f->config->limits;
    struct pace *p = pace_get(f, who);
    bucket_fill(&p->requests, f->hub->clock.now_ms, l->requests_per_second, l->burst);
    list_remove(&p->by_age);
    list_push(&f->paced, &p->by_age);
    if (p->requests.tokens < 1)
        return false;
    p->requests.tokens -= 1;
    return true;
}

static void forget(struct front *f, struct pace *p)
{
    list_remove(&p->by_age);
    map_remove(&f->paces, &p->node);
    free(p->who);
    free(p);
}

void pace_tick(struct front *f)
{
    const struct hub_limits *l = &f->config->limits;
    double fills_ms = bucket_fills_ms(l->requests_per_second, l->burst);
    list_each (it, &f->paced) {
        struct pace *p = list_item(it, struct pace, by_age);
        if ((double)(f->hub->clock.now_ms - p->requests.at) < fills_ms)
            return;
        forget(f, p);
    }
}

void pace_done(struct front *f)
{
    list_each (it, &f->paced)
        forget(f, list_item(it, struct pace, by_age));
}
