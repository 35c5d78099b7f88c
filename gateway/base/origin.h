/* origin -- the check of Origin and Host: which pages may connect (PROTOCOL.md section 1).
 *
 * Shape:    pure functions of a request's two headers and of the configured list.  Requests with
 *           more than one Origin or Host header must be refused before they come here.
 * Thread:   any.
 * Owns:     nothing, except that a parsed struct origin owns its host (origin_done).
 */
#ifndef GATEWAY_BASE_ORIGIN_H
#define GATEWAY_BASE_ORIGIN_H

#include "proto/base.h"

/* An entry of "origins": scheme://host[:port]; a host that begins with "*." matches any
 * sub-domain. */
struct origin {
    char *scheme;    /* lower case */
    char *host;      /* lower case; an IPv6 address with its brackets; without "*." */
    uint16_t port;   /* the scheme's default when none was written; 0 if it has none */
    bool subdomains; /* any name below host, not host itself */
};

/* The configured lists. */
struct origins {
    struct origin *list;
    size_t n; /* 0: only a page of this gateway may connect */
    struct origin *hosts;
    size_t n_hosts; /* 0: beyond loopback any Host is accepted */
};

/* Reads an entry of the configuration; false when it is malformed. */
bool origin_parse(struct str text, struct origin *ret) MUST_USE;
/* The same for "hosts": a host, or "*." and a host; scheme is NULL. */
bool origin_parse_host(struct str text, struct origin *ret) MUST_USE;
void origin_done(struct origin *o);

enum origin_verdict {
    ORIGIN_OK,
    ORIGIN_FOREIGN,      /* Origin is not among the allowed ones */
    ORIGIN_FOREIGN_HOST, /* Host is not the gateway's own name */
    ORIGIN_MISSING,      /* the identity comes from a cookie, and there is no Origin */
};

/* origin: the header's value, STR_NULL when there is none ("" is a foreign one). host: likewise for
 * Host.  identity_from_cookie: no other token came with the request. */
enum origin_verdict origin_check(const struct origins *listed, struct str origin, struct str host,
                                 bool is_loopback_bind, bool identity_from_cookie);

/* Whether Origin is exactly an entry of origins: only these get CORS headers. */
bool origin_is_listed(const struct origins *listed, struct str origin);

/* "foreign origin": for the answer and the log. */
const char *origin_verdict_text(enum origin_verdict verdict);

#endif
