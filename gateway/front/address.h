/* address -- the peer of a connection, and how much of the gateway each peer may use.
 *
 * Shape:    the peer's address, or the one that its PROXY header named (proxied.h). When that is
 *           one of trusted_proxies, the last entry of its X-Forwarded-For that is none of them:
 *           only configured proxies may speak for others. Connections are counted by address;
 *           requests over HTTP, which have no connection of their own, are paced by requester. The
 *           unit of counting and pacing is a group: an IPv4 address, or the IPv6 addresses that
 *           share their first limits.ipv6_prefix bits.
 * Thread:   loop.
 * Owns:     the front owns the addresses and paces; both are freed when nothing needs them.
 */
#ifndef GATEWAY_FRONT_ADDRESS_H
#define GATEWAY_FRONT_ADDRESS_H

#include "core/map.h"
#include "gateway/base/net.h"
#include "gateway/front/deflate.h"
#include "gateway/front/front.h"

/* Connections of one group: WebSockets, and streams of events over HTTP. */
struct address {
    struct map_node node;
    char group[NET_TEXT];
    uint32_t n, n_strangers; /* strangers: not welcomed yet */
    uint32_t n_sockets;      /* of any kind, even silent ones; not those of trusted proxies */
};

/* The peer of a socket; lives as long as the socket.  The peer of a WebSocket has grown: it is the
 * first member of a struct conn (ws.h). */
struct peer {
    struct address *address;      /* counts the socket; NULL: not counted */
    struct net_address *named;    /* by its PROXY header; NULL: not, or it is a WebSocket's */
    struct deflate_terms deflate; /* of the offer of compression that was accepted (extension.h) */
    uint8_t n_offers;             /* examined so far */
    bool is_conn;
    bool is_linked;   /* another node has it, and carries its bytes (relay.h) */
    bool is_operator; /* of that: an order that was given there */
    bool is_asking;   /* a head was read, and its exchange is not over (lws_quirks.h) */
    bool goes_first;  /* libwebsockets has something to send (lws_quirks.h) */
};

/* For a fresh socket; named as in its PROXY header, or NULL.  Returns NULL when the address has too
 * many sockets already (twice limits.connections_per_address, plus some for requests), and without
 * memory. */
struct peer *peer_new(struct front *f, int fd, const struct net_address *named);
void peer_forget_name(struct peer *p);
void peer_free(struct front *f, struct peer *p); /* NULL is allowed */
bool address_is_trusted(const struct front *f, const struct net_address *a);

struct map_key address_key(const struct map_node *node);
/* "?": a trusted proxy has passed it on for a client that it does not name.  All of those count as
 * one. */
void address_text(struct front *f, struct lws *wsi, char ret_ip[NET_TEXT]);
/* The group that it counts in; "?" too. */
void address_group(struct front *f, struct lws *wsi, char ret_group[NET_TEXT]);
/* Whether it came through a proxy that speaks HTTP, trusted or not. */
bool address_was_forwarded(struct lws *wsi);
struct address *address_get(struct front *f, struct lws *wsi); /* found or made */
void address_forget(struct front *f, struct address *a);       /* when it holds nothing */
/* limits.connections and limits.connections_per_address; strangers may hold half of either. */
bool address_is_full(const struct front *f, const struct address *a, bool for_stranger);

/* A bucket of limits.burst requests that fills at limits.requests_per_second. */
struct map_key pace_key(const struct map_node *node);
bool pace_take(struct front *f, struct str who); /* false: too many */
void pace_tick(struct front *f);                 /* once a second: forgets the full buckets */
void pace_done(struct front *f);

#endif
