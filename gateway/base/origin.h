/* origin -- who may connect: the check of Origin and Host (PROTOCOL.md section 1).
 *
 * Shape:    pure functions of a request's two headers and of the configured list.  Requests with
 *           more than one Origin or Host header must be refused before they come here.
 * Thread:   any.
 * Owns:     nothing, but for a parsed struct origin its host (origin_done).
 */
#ifndef GATEWAY_BASE_ORIGIN_H
#define GATEWAY_BASE_ORIGIN_H

#include "proto/base.h"

/* An entry of "origins": scheme://host[:port]; a host that begins with "*." is any sub-domain. */
struct origin {
    char *scheme;    /* lower case */
    char *host;      /* lower case; an IPv6 address with its brackets; without "*." */
    uint16_t port;   /* the scheme's own when it was not written; 0 where it has none */
    bool subdomains; /* any name below host, not host itself */
};

/* What a configuration lists. */
struct origins {
    struct origin *list;
    size_t n; /* 0: a page of this gateway alone may connect */
    struct origin *hosts;
    size_t n_hosts; /* 0: beyond loopback any Host is served */
};

/* Reads an entry of the configuration; false when it is none. */
bool origin_parse(struct str text, struct origin *ret) MUST_USE;
/* The same of "hosts": a host, or "*." and one; scheme is NULL. */
bool origin_parse_host(struct str text, struct origin *ret) MUST_USE;
void origin_done(struct origin *o);

enum origin_verdict {
    ORIGIN_OK,
    ORIGIN_FOREIGN,      /* Origin is none that is allowed */
    ORIGIN_FOREIGN_HOST, /* asked for by a name that is not its own */
    ORIGIN_MISSING,      /* a cookie's identity, and no Origin */
};

/* origin: the header's value, STR_NULL when there is none ("" is a foreign one).  host: the same of
 * Host.  identity_from_cookie: no other token came with the request. */
enum origin_verdict origin_check(const struct origins *listed, struct str origin, struct str host,
                                 bool is_loopback_bind, bool identity_from_cookie);

/* Origin is, exactly, an entry of origins: the only ones that get CORS headers. */
bool origin_is_listed(const struct origins *listed, struct str origin);

/* "foreign origin": for the answer and the log. */
const char *origin_verdict_text(enum origin_verdict verdict);

#endif
