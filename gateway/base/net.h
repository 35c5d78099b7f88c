/* net -- addresses of peers and of networks, as numbers.
 *
 * Shape:    every address is 16 bytes; IPv4 is kept as ::ffff:a.b.c.d, so that there is one kind.
 * Thread:   any.
 * Owns:     nothing.
 */
#ifndef GATEWAY_BASE_NET_H
#define GATEWAY_BASE_NET_H

#include "proto/base.h"

struct sockaddr;

struct net_address {
    uint8_t bytes[16];
};

struct net {
    struct net_address address;
    unsigned bits; /* how many count, of 128 */
};

/* "10.0.0.1", "::1", "[::1]"; no names, no zones. */
bool net_parse_address(struct str text, struct net_address *ret) MUST_USE;
/* "10.0.0.0/8", "fd00::/8", or one address.  Bits after the prefix must be zero. */
bool net_parse(struct str text, struct net *ret) MUST_USE;
/* False for any family but IP. */
bool net_of_sockaddr(const struct sockaddr *from, struct net_address *ret) MUST_USE;
/* The peer of a socket; false when it is not IP. */
bool net_of_peer(int fd, struct net_address *ret) MUST_USE;
bool net_list_has(const struct net *nets, size_t n_nets, const struct net_address *address);
/* 127.0.0.0/8 and ::1. */
bool net_is_loopback(const struct net_address *address);
/* An address that the public Internet can route: in none of IANA's special-purpose registries (RFC
 * 6890 and its successors), no multicast, and no tunnel or translation to an IPv4 address. */
bool net_is_public(const struct net_address *address);
/* The text of an address, IPv4 as a.b.c.d. */
#define NET_TEXT 46
void net_format(const struct net_address *address, char ret_text[NET_TEXT]);
/* The text of the group that an address counts in: an IPv4 address alone; for IPv6 the network of
 * its first bits ("2001:db8:1:2::/64"), because a customer gets a whole network. 128: the address
 * alone. */
void net_format_group(const struct net_address *address, unsigned ipv6_prefix,
                      char ret_text[NET_TEXT]);

#endif
