/* Design.  Rules that a table of keys cannot express: values with a syntax of their own, and values
 * that depend on each other.  Each function checks one part, after the file and the flags were
 * read; it must accept what an earlier fault has left (a NULL text, a default), and does not report
 * that fault again.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/base/folders.h"
#include "gateway/config/config_check.h"
#include "proto/str.h"

struct config_path config_path(const char *format, ...)
{
    struct config_path path;
    va_list args;

    va_start(args, format);
    vsnprintf(path.text, sizeof path.text, format, args);
    va_end(args);
    return path;
}

bool config_text_is(const char *text, const char *other)
{
    return text && str_eq(str_of(text), str_of(other));
}

void config_set_text(char **member, const char *text)
{
    free(*member);
    *member = xstrdup(str_of(text));
}

/* --- the command line ------------------------------------------------------------------------- */

/* As if the file had set it. */
static void take_choice(struct config *c, const char *flag, const char *name, const char *value,
                        struct faults *f)
{
    const struct key *key = key_find(key_find(&config_table, "log")->table, name);
    struct buf wanted = {0};
    int choice = value ? key_choice(key->choices, value) : -1;

    if (choice >= 0)
        key_put_number(key, c, choice);
    if (!value || choice >= 0)
        return;
    key_put_wanted(key, &wanted);
    fault(f, flag, "must be %s", wanted.bytes);
    buf_done(&wanted);
}

static void take_flags(struct config *c, const struct config_flags *flags, struct faults *f)
{
    if (flags->listen)
        config_set_text(&c->listen, flags->listen);
    if (flags->data && *flags->data)
        config_set_text(&c->data, flags->data);
    else if (flags->data)
        fault(f, "--data", "must name a directory");
    take_choice(c, "--log-level", "level", flags->log_level, f);
    take_choice(c, "--log-format", "format", flags->log_format, f);
}

/* --- listening and access --------------------------------------------------------------------- */

static bool parse_port(const char *text, uint16_t *ret)
{
    size_t n = strspn(text, "0123456789");
    unsigned long port = n >= 1 && n <= 5 && text[n] == '\0' ? strtoul(text, NULL, 10) : 65536;

    *ret = (uint16_t)port;
    return port <= 65535;
}

static void check_listen(struct config *c, const char *path, struct faults *f)
{
    const char *colon = strrchr(c->listen, ':');
    struct net_address address;
    struct str host = colon ? (struct str){c->listen, (size_t)(colon - c->listen)} : STR_NULL;

    if (str_eq(host, STR("localhost")))
        host = STR("127.0.0.1");
    bool naked_ipv6 = host.p && host.n > 0 && host.p[0] != '[' && memchr(host.p, ':', host.n);
    if (!colon || naked_ipv6 || !net_parse_address(host, &address) ||
        !parse_port(colon + 1, &c->listen_port)) {
        fault(f, path, "must be ADDRESS:PORT, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:0");
        return;
    }
    if (host.p[0] == '[')
        host = (struct str){host.p + 1, host.n - 2};
    c->listen_host = xstrdup(host);
    c->is_loopback = net_is_loopback(&address);
    if (c->errors == ERRORS_BY_BIND)
        c->errors = c->is_loopback ? ERRORS_FULL : ERRORS_SHORT;
    if (!c->is_loopback && !config_has_keys(c) && !c->guests)
        fault(f, path,
              "without auth.keys, anyone beyond loopback could connect as a guest; configure "
              "keys, or set \"guests\": true");
}

/* A developer who tries a gateway on their own machine may use any client. */
static void check_faces(struct config *c)
{
    for (size_t i = 0; i < N_FACES; i++)
        if (!c->faces_said[i])
            c->faces[i] = c->is_loopback;
}

static void check_origins(struct config *c, struct faults *f)
{
    struct origins *parsed = &c->parsed_origins;
    *parsed = (struct origins){.n = c->origins.n};
    if (parsed->n > 0)
        parsed->list = xcalloc(parsed->n * sizeof *parsed->list);
    for (size_t i = 0; i < c->origins.n; i++)
        if (!origin_parse(str_of(c->origins.list[i]), &parsed->list[i]))
            fault(f, config_path("origins[%zu]", i).text,
                  "must be scheme://host, scheme://host:port or scheme://*.host, and nothing else");
    if (c->origins.n == 0 && c->auth.cookie && c->listen_host && !c->is_loopback)
        fault(f, "origins",
              "must not be empty while auth.cookie is in use beyond loopback: only a list keeps "
              "other sites from using their visitors' cookies");
}

static void check_hosts(struct config *c, struct faults *f)
{
    struct origins *o = &c->parsed_origins;

    o->n_hosts = c->hosts.n;
    if (o->n_hosts > 0)
        o->hosts = xcalloc(o->n_hosts * sizeof *o->hosts);
    for (size_t i = 0; i < o->n_hosts; i++)
        if (!origin_parse_host(str_of(c->hosts.list[i]), &o->hosts[i]))
            fault(f, config_path("hosts[%zu]", i).text,
                  "must be a name or *.name, without a scheme or port");
}

static struct net *check_nets(const struct config_texts *texts, const char *path, struct faults *f)
{
    struct net *nets = texts->n > 0 ? xcalloc(texts->n * sizeof *nets) : NULL;

    for (size_t i = 0; i < texts->n; i++)
        if (!net_parse(str_of(texts->list[i]), &nets[i]))
            fault(f, config_path("%s[%zu]", path, i).text,
                  "must be an address or a network, such as 10.0.0.0/8");
    return nets;
}

static void check_data(struct config *c, struct faults *f)
{
    struct buf path = {0};

    if (c->data)
        return;
    if (!folders_put_state(&path))
        fault(f, "data", "is missing, and without HOME there is no default");
    c->data = buf_take(&path);
}

static void check_admin(struct config *c)
{
    struct buf path = {0};

    if (!c->admin.socket && c->data) {
        buf_putf(&path, "%s/admin.sock", c->data);
        c->admin.socket = buf_take(&path);
    } else if (c->admin.socket && !*c->admin.socket) {
        free(c->admin.socket);
        c->admin.socket = NULL;
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

bool config_is_name(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < ' ' || *p == 0x7f)
            return false;
    return true;
}

/* RFC 6265: the characters of a cookie's name. */
static bool is_cookie_name(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", *p))
            return false;
    return true;
}

static void check_key(const struct config *c, size_t at, struct faults *f)
{
    const struct config_key *key = &c->auth.keys[at];
    bool is_secret = key->alg == ALG_HS256;
    struct config_path path = config_path("auth.keys[%zu].kid", at);

    if (key->kid && config_text_is(key->kid, "guest"))
        fault(f, path.text, "\"guest\" is the gateway's own key");
    for (size_t i = 0; key->kid && i < at; i++)
        if (config_text_is(c->auth.keys[i].kid, key->kid))
            fault(f, path.text, "is the same as that of auth.keys[%zu]", i);
    path = config_path("auth.keys[%zu].secret_file", at);
    if (is_secret && !key->secret_file)
        fault(f, path.text, "is missing (HS256 needs it)");
    else if (!is_secret && key->secret_file)
        fault(f, path.text, "is for HS256 only");
    path = config_path("auth.keys[%zu].public_key_file", at);
    if (!is_secret && !key->public_key_file)
        fault(f, path.text, "is missing (%s needs it)", key_alg_text((enum key_alg)key->alg));
    else if (is_secret && key->public_key_file)
        fault(f, path.text, "is not for HS256, which needs a secret");
}

bool config_has_keys(const struct config *c)
{
    return c->auth.n_keys > 0 || c->auth.jwks_url;
}

/* To answer in the issuer's place is to make tokens. */
static void check_jwks(const struct config *c, struct faults *f)
{
    static const char *const here[] = {"http://127.0.0.1", "http://[::1]", "http://localhost"};
    const char *url = c->auth.jwks_url;
    bool good = !url || str_begins(str_of(url), STR("https://"));
    for (size_t i = 0; !good && i < countof(here); i++) {
        size_t n = strlen(here[i]);
        good =
            strncmp(url, here[i], n) == 0 && (!url[n] || strchr(":/", url[n])) && !strchr(url, '@');
    }
    if (!good)
        fault(f, "auth.jwks_url", "must begin with https://, or be on this machine");
}

static void check_auth(struct config *c, struct faults *f)
{
    check_jwks(c, f);
    if (c->auth.tenant_claim && !config_has_keys(c))
        fault(f, "auth.tenant_claim", "is for tokens of auth.keys or auth.jwks_url: give one");
    for (size_t i = 0; i < c->auth.n_keys; i++)
        check_key(c, i, f);
    if (c->auth.cookie && !is_cookie_name(c->auth.cookie))
        fault(f, "auth.cookie", "is not a valid cookie name");
    c->serves_guests = c->guests || !config_has_keys(c);
    if (!c->tls.cert != !c->tls.key)
        fault(f, c->tls.cert ? "tls.key" : "tls.cert", "is missing: a certificate needs its key");
}

/* --- the store -------------------------------------------------------------------------------- */

static void check_node(struct config *c)
{
    char host[256] = "";
    if (c->cluster.node)
        return;
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(host, sizeof host, "holdfast");
    c->cluster.node = xstrdup(str_of(host));
}

/* A name of the network is allowed in what others are told. */
static bool has_port(const char *text)
{
    const char *colon = strrchr(text, ':');
    uint16_t port;
    return colon && colon > text && parse_port(colon + 1, &port);
}

static void check_links(struct config *c, bool postgres, struct faults *f)
{
    if (c->cluster.advertise && !has_port(c->cluster.advertise))
        fault(f, "cluster.advertise", "must be HOST:PORT");
    if (c->cluster.front_only && !c->cluster.listen)
        fault(f, "cluster.front_only", "needs cluster.listen: others serve its clients");
    if (c->cluster.tls && !c->cluster.listen)
        fault(f, "cluster.tls", "needs cluster.listen");
    if (!c->cluster.listen)
        return;
    if (!has_port(c->cluster.listen))
        fault(f, "cluster.listen", "must be ADDRESS:PORT, such as 10.0.0.5:8090");
    if (!postgres || !c->cluster.secret_file)
        fault(f, "cluster.listen", "needs store.kind \"postgres\" and cluster.secret_file");
    if (!c->cluster.advertise)
        c->cluster.advertise = xstrdup(str_of(c->cluster.listen));
}

static void check_store(struct config *c, struct faults *f)
{
    bool postgres = c->store.kind == STORE_POSTGRES;
    if (c->store.durability == DURABLE_BY_KIND)
        c->store.durability = postgres ? DURABLE_POWER : DURABLE_PROCESS;
    else if (postgres && c->store.durability == DURABLE_PROCESS)
        fault(f, "store.durability",
              "must be \"power\" or \"replicated\" with store.kind \"postgres\": a crash of the "
              "server would lose what was acknowledged");
    else if (!postgres && c->store.durability == DURABLE_REPLICATED)
        fault(f, "store.durability", "\"replicated\" needs store.kind \"postgres\"");
    if (postgres != (c->store.url_file != NULL))
        fault(f, "store.url_file",
              postgres ? "is missing: store.kind \"postgres\" needs it"
                       : "needs store.kind \"postgres\"");
    if (postgres && c->serves_guests && !c->cluster.secret_file)
        fault(f, "cluster.secret_file",
              "is missing: guests must be the same on every machine (or configure auth.keys)");
    check_node(c);
    check_links(c, postgres, f);
    if (postgres && c->processes > 1 && !c->cluster.listen)
        fault(f, "processes",
              "needs cluster.listen with store.kind \"postgres\": each is a node of its own");
}

/* --- all -------------------------------------------------------------------------------------- */

void config_check(struct config *c, const struct config_flags *flags, struct faults *f)
{
    take_flags(c, flags, f);
    check_listen(c, flags->listen ? "--listen" : "listen", f);
    check_data(c, f);
    check_admin(c);
    check_auth(c, f);
    check_store(c, f);
    check_faces(c);
    check_origins(c, f);
    check_hosts(c, f);
    c->trusted_nets = check_nets(&c->trusted_proxies, "trusted_proxies", f);
    if (c->proxy_protocol && c->trusted_proxies.n == 0)
        fault(f, "proxy_protocol", "needs trusted_proxies: nobody else may speak for a client");
    c->metrics.allow_nets = check_nets(&c->metrics.allow, "metrics.allow", f);
    c->http_get.allow_nets = check_nets(&c->http_get.allow, "http_get.allow", f);
    c->webhook_allow_nets = check_nets(&c->webhook_allow, "webhook_allow", f);
    config_check_agents(c, f);
    config_check_mcp(c, f);
    config_check_page(c, f);
    if (c->traces.url)
        config_check_url(c->traces.url, "traces.url", f);
    if (c->rim_limits.store_mib_per_owner == 0) {
        uint64_t tenth = (uint64_t)c->retention.store_gib * 1024 / 10;
        c->rim_limits.store_mib_per_owner = tenth > 0 ? tenth : 1;
    }
}
