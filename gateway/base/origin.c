#include "gateway/base/origin.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/net.h"

#define MAX_HOST 255 /* bytes of the longest name in DNS */
#define MAX_SCHEME 31

/* A scheme, host and port, in lower case, with the default port filled in. */
struct parts {
    char scheme[MAX_SCHEME + 1];
    char host[MAX_HOST + 1];
    uint16_t port;
};

/* --- reading ---------------------------------------------------------------------------------- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
}

static struct str from(struct str text, size_t at)
{
    return (struct str){text.p + at, text.n - at};
}

static bool read_scheme(struct str text, char *ret)
{
    if (text.n < 1 || text.n > MAX_SCHEME || !is_alnum(text.p[0]) || text.p[0] <= '9')
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (!is_alnum(text.p[i]) && !memchr("+-.", text.p[i], 3))
            return false;
        ret[i] = lower(text.p[i]);
    }
    ret[text.n] = '\0';
    return true;
}

/* A name without empty labels at the front or inside; "[…]" as the address is usually written. */
static bool read_host(struct str text, char *ret)
{
    struct net_address address;
    char canonical[NET_TEXT];

    if (text.n < 1 || text.n > MAX_HOST)
        return false;
    if (text.p[0] == '[') {
        if (!net_parse_address(text, &address))
            return false;
        net_format(&address, canonical);
        snprintf(ret, MAX_HOST + 1, "[%s]", canonical);
        return true;
    }
    for (size_t i = 0; i < text.n; i++) {
        bool empty_label = text.p[i] == '.' && (i == 0 || text.p[i - 1] == '.');
        if (empty_label || (!is_alnum(text.p[i]) && !memchr("-._", text.p[i], 3)))
            return false;
        ret[i] = lower(text.p[i]);
    }
    ret[text.n] = '\0';
    return true;
}

static bool read_port(struct str text, uint16_t *ret)
{
    unsigned port = 0;

    if (text.n < 1 || text.n > 5 || text.p[0] == '0')
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text.p[i] - '0');
    }
    *ret = (uint16_t)port;
    return port <= UINT16_MAX;
}

/* host[:port]; the port is port_else when there is none. */
static bool read_host_port(struct str text, uint16_t port_else, char *ret_host, uint16_t *ret_port)
{
    size_t end = text.n;

    while (end > 0 && text.p[end - 1] >= '0' && text.p[end - 1] <= '9')
        end--;
    *ret_port = port_else;
    if (end > 0 && text.p[end - 1] == ':') {
        if (!read_port(from(text, end), ret_port))
            return false;
        text.n = end - 1;
    }
    return read_host(text, ret_host);
}

static uint16_t default_port(const char *scheme)
{
    if (str_eq(str_of(scheme), STR("https")))
        return 443;
    return str_eq(str_of(scheme), STR("http")) ? 80 : 0;
}

/* Splits at "://".  False when there is none. */
static bool split(struct str text, struct str *ret_scheme, struct str *ret_rest)
{
    const char *mark = text.p ? memmem(text.p, text.n, "://", 3) : NULL;

    if (!mark)
        return false;
    *ret_scheme = (struct str){text.p, (size_t)(mark - text.p)};
    *ret_rest = from(text, ret_scheme->n + 3);
    return true;
}

static bool read_origin(struct str text, struct parts *ret)
{
    struct str scheme, rest;

    return split(text, &scheme, &rest) && read_scheme(scheme, ret->scheme) &&
           read_host_port(rest, default_port(ret->scheme), ret->host, &ret->port);
}

bool origin_parse(struct str text, struct origin *ret)
{
    struct parts parts;
    struct str scheme, rest;
    bool subdomains = false;

    if (!split(text, &scheme, &rest) || !read_scheme(scheme, parts.scheme))
        return false;
    if (rest.n > 2 && rest.p[0] == '*' && rest.p[1] == '.') {
        subdomains = true;
        rest = from(rest, 2);
    }
    if (!read_host_port(rest, default_port(parts.scheme), parts.host, &parts.port) ||
        (subdomains && parts.host[0] == '['))
        return false;
    *ret = (struct origin){
        .scheme = xstrdup(str_of(parts.scheme)),
        .host = xstrdup(str_of(parts.host)),
        .port = parts.port,
        .subdomains = subdomains,
    };
    return true;
}

bool origin_parse_host(struct str text, struct origin *ret)
{
    char host[MAX_HOST + 1];
    bool subdomains = text.n > 2 && text.p[0] == '*' && text.p[1] == '.';

    if (!read_host(subdomains ? from(text, 2) : text, host) || (subdomains && host[0] == '['))
        return false;
    *ret = (struct origin){.host = xstrdup(str_of(host)), .subdomains = subdomains};
    return true;
}

void origin_done(struct origin *o)
{
    free(o->scheme);
    free(o->host);
    *o = (struct origin){0};
}

/* --- the rules -------------------------------------------------------------------------------- */

static bool host_matches(const struct origin *o, const char *host)
{
    struct str name = str_of(host), own = str_of(o->host);

    if (!o->subdomains)
        return str_eq(name, own);
    return name.n > own.n + 1 && name.p[name.n - own.n - 1] == '.' &&
           str_eq(from(name, name.n - own.n), own);
}

static bool is_listed(const struct origins *listed, const struct parts *origin)
{
    for (size_t i = 0; i < listed->n; i++) {
        const struct origin *o = &listed->list[i];
        if (str_eq(str_of(o->scheme), str_of(origin->scheme)) && o->port == origin->port &&
            host_matches(o, origin->host))
            return true;
    }
    return false;
}

bool origin_is_listed(const struct origins *listed, struct str origin)
{
    struct parts parts;

    return read_origin(origin, &parts) && is_listed(listed, &parts);
}

static bool has_host(const struct origin *list, size_t n, const char *host)
{
    for (size_t i = 0; i < n; i++)
        if (host_matches(&list[i], host))
            return true;
    return false;
}

/* A name that only this machine answers to, or that the operator has listed.  Beyond loopback any
 * address counts too: a page that was loaded from an address has no name to rebind. */
static bool is_own_host(const struct origins *listed, struct str header, bool is_loopback_bind)
{
    static const struct str localhost = STR("localhost"), below = STR(".localhost");
    struct net_address address;
    char host[MAX_HOST + 1];
    uint16_t port;

    if (!header.p || !read_host_port(header, 0, host, &port))
        return false;
    struct str name = str_of(host);
    if (str_eq(name, localhost) ||
        (name.n > below.n && str_eq(from(name, name.n - below.n), below)))
        return true;
    if (net_parse_address(name, &address) && (!is_loopback_bind || net_is_loopback(&address)))
        return true;
    return has_host(listed->list, listed->n, host) ||
           has_host(listed->hosts, listed->n_hosts, host);
}

/* Without a list: only a page of this gateway. */
static bool is_same_site(const struct parts *origin, struct str header)
{
    char host[MAX_HOST + 1];
    uint16_t port;

    return origin->port != 0 && header.p && default_port(origin->scheme) != 0 &&
           read_host_port(header, default_port(origin->scheme), host, &port) &&
           port == origin->port && str_eq(str_of(host), str_of(origin->host));
}

enum origin_verdict origin_check(const struct origins *listed, struct str origin, struct str host,
                                 bool is_loopback_bind, bool identity_from_cookie)
{
    struct parts parts;

    if ((is_loopback_bind || listed->n_hosts > 0) && !is_own_host(listed, host, is_loopback_bind))
        return ORIGIN_FOREIGN_HOST;
    if (!origin.p)
        return identity_from_cookie ? ORIGIN_MISSING : ORIGIN_OK;
    if (!read_origin(origin, &parts))
        return ORIGIN_FOREIGN;
    bool allowed = listed->n > 0 ? is_listed(listed, &parts) : is_same_site(&parts, host);
    return allowed ? ORIGIN_OK : ORIGIN_FOREIGN;
}

const char *origin_verdict_text(enum origin_verdict verdict)
{
    switch (verdict) {
    case ORIGIN_OK: return "allowed";
    case ORIGIN_FOREIGN: return "foreign origin";
    case ORIGIN_FOREIGN_HOST: return "foreign host";
    case ORIGIN_MISSING: return "a cookie's identity needs an Origin";
    }
    UNREACHABLE();
}
