#include "gateway/front/front.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/grant.h"
#include "core/home.h"
#include "gateway/base/cells.h"
#include "gateway/base/log.h"
#include "gateway/front/address.h"
#include "gateway/front/admin.h"
#include "gateway/front/admin_state.h"
#include "gateway/front/deflate.h"
#include "gateway/front/extension.h"
#include "gateway/front/http_api.h"
#include "gateway/front/listener.h"
#include "gateway/front/lws_quirks.h"
#include "gateway/front/proxied.h"
#include "gateway/front/ws.h"

/* A connection's for its life, and there may be 100,000.  It is also how much is read at once; the
 * buffer itself is only for control frames (4.1.6), so most of them are never touched. */
#define RX_BUFFER 256
#define WORKER_RX_BUFFER 16384 /* there are few, and they send much: one read is one turn */
#define HEADER_BYTES 16384

/* --- identity --------------------------------------------------------------------------------- */

/* Doesn't tell an attacker why a token failed; the reason goes to the log.  The reply says only
 * that no token came, or that the client may start anew as a guest (PROTOCOL.md section 2), which
 * without keys anybody may. */
static bool refuse_token(struct front *f, bool has_token, struct identity *ret)
{
    bool is_guest = strncmp(ret->error, UNKNOWN_GUEST, strlen(UNKNOWN_GUEST)) == 0;
    if (!has_token)
        return false;
    f->refusals[REFUSED_TOKEN]++;
    log_event_limited(LEVEL_INFO, "auth", "refused", LOG_TEXT("why", ret->error));
    bool is_open = is_guest || !config_has_keys(f->config);
    snprintf(ret->error, sizeof ret->error, "%s",
             ret->later ? "the keys of the issuer are not known yet"
             : is_open  ? UNKNOWN_GUEST
                        : "the token is not valid");
    return false;
}

bool front_identify(struct front *f, struct str hello_token, struct str bearer, struct str cookie,
                    struct identity *ret)
{
    if (!auth_check(f->auth, hello_token, bearer, cookie, f->hub->clock.wall_ms, ret))
        return refuse_token(f, hello_token.p || bearer.p || cookie.p, ret);
    struct str owner = {ret->owner, ret->owner_len};
    struct str grant_id = ret->rights ? ret->rights->grant_id : STR_NULL;
    if (!revocations_have(&f->hub->revocations, owner, f->hub->clock.wall_ms) &&
        (!grant_id.p || home_is_away(f->hub, owner) || grant_find(f->hub, owner, grant_id)))
        return true;
    f->refusals[REFUSED_REVOKED]++;
    rights_unref(ret->rights);
    ret->rights = NULL;
    buf_done(&ret->token);
    snprintf(ret->error, sizeof ret->error, "revoked");
    return false;
}

bool front_identify_link(struct front *f, const struct file_link *link, struct str proof,
                         struct identity *ret)
{
    return auth_check_file(f->auth, link, proof, f->hub->clock.wall_ms, ret) &&
           !revocations_have(&f->hub->revocations, (struct str){ret->owner, ret->owner_len},
                             f->hub->clock.wall_ms);
}

bool front_sign_file(struct front *f, const struct file_link *link, struct buf *out)
{
    return auth_sign_file(f->auth, link, f->hub->clock.wall_ms, out);
}

bool front_sign(struct front *f, struct str claims, struct buf *out)
{
    return auth_sign(f->auth, claims, f->hub->clock.wall_ms, out);
}

bool front_is_ready(const struct front *f)
{
    return f->phase == FRONT_SERVING && !f->is_cut_off && hub_can_write(f->hub) &&
           hub_is_trusted(f->hub);
}

/* --- libwebsockets ---------------------------------------------------------------------------- */

static void on_lws_log(int level, const char *line)
{
    size_t n = strcspn(line, "\n");
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)(n < 200 ? n : 200), line);
    log_event_limited(level == LLL_ERR ? LEVEL_WARN : LEVEL_DEBUG, "lws", "said",
                      LOG_TEXT("text", text));
}

/* A proxy that keeps a connection open must close it before the gateway does, or one of its
 * requests gets lost now and then: nginx and AWS close after 60 s by default, Traefik after 90 s,
 * Caddy after 120 s. */
#define IDLE_S 130

/* As much as libwebsockets gives the kernel at once; each further piece asks epoll five times. A
 * chunk of a face can be ten times as long as the lines that it says. */
#define MOST_SENT (1u << 20)

#define PROTOCOL(name_, rx_bytes)                                                          \
    {                                                                                      \
        .name = (name_), .callback = ws_callback, .per_session_data_size = sizeof(void *), \
        .rx_buffer_size = (rx_bytes), .tx_packet_size = MOST_SENT                          \
    }
static const struct lws_protocols protocols[] = {PROTOCOL(WS_SUBPROTOCOL, RX_BUFFER),
                                                 PROTOCOL(WS_WORKER_SUBPROTOCOL, WORKER_RX_BUFFER),
                                                 PROTOCOL(WS_NO_SUBPROTOCOL, RX_BUFFER),
                                                 {0}};
static const struct lws_protocols tls_protocols[] = {
    PROTOCOL(WS_SUBPROTOCOL, LWS_QUIRK_TLS_BUFFER),
    PROTOCOL(WS_WORKER_SUBPROTOCOL, LWS_QUIRK_TLS_BUFFER),
    PROTOCOL(WS_NO_SUBPROTOCOL, LWS_QUIRK_TLS_BUFFER),
    {0}};

static void *lws_memory(void *p, size_t size, const char *reason)
{
    (void)reason;
    if (size > 0)
        return cell_resize(p, size);
    cell_free(p);
    return NULL;
}

static bool open_lws(struct front *f)
{
    void *loops[] = {f->loop};
    lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
    lws_set_allocator(lws_memory);
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .foreign_loops = loops,
        .pcontext = &f->lws,
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
                   (f->config->tls.cert ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0),
        .user = f,
        .max_http_header_data = HEADER_BYTES,
        .pt_serv_buf_size = 65536 + 1024, /* .uid and .gid are 0: the process stays what it is */
    };
    f->lws = lws_create_context(&info);
    if (!f->lws)
        return false;
    info.protocols = f->config->tls.cert ? tls_protocols : protocols;
    info.retry_and_idle_policy = &lws_quirk_no_timers;
    info.vhost_name = "holdfast";
    info.keepalive_timeout = IDLE_S;
    info.ssl_cert_filepath = f->config->tls.cert; /* NULL: plain */
    info.ssl_private_key_filepath = f->config->tls.key;
    info.alpn = "http/1.1"; /* otherwise clients use HTTP/2, and hand-made chunks break */
    info.extensions = f->deflate ? extension_list : NULL;
    f->vhost = lws_create_vhost(f->lws, &info);
    info.vhost_name = "admin";
    info.protocols = protocols;
    info.extensions = NULL;
    info.ssl_cert_filepath = info.ssl_private_key_filepath = NULL;
    if (f->vhost && f->config->admin.socket)
        f->admin_vhost = lws_create_vhost(f->lws, &info);
    return f->vhost && (f->admin_vhost || !f->config->admin.socket);
}

/* --- start and stop --------------------------------------------------------------------------- */

void front_init(struct front *f, uv_loop_t *loop, struct hub *hub, const struct config *config)
{
    *f =
        (struct front){.loop = loop, .hub = hub, .config = config, .listen_fd = -1, .admin_fd = -1};
    struct list *const lists[] = {&f->conns,     &f->blocked,   &f->failed, &f->streams, &f->bodies,
                                  &f->under_way, &f->greetings, &f->paced,  &f->watchers};
    for (size_t i = 0; i < countof(lists); i++)
        list_init(lists[i]);
    uint64_t secret[2];
    ASSERT(RAND_bytes((unsigned char *)secret, sizeof secret) == 1);
    map_init(&f->addresses, secret, address_key);
    map_init(&f->paces, secret, pace_key);
    buf_reserve(&f->out, LWS_PRE + MAX_EVENT_LINE);
    memset(f->out.bytes, 0, LWS_PRE);
}

void front_add_route(struct front *f, const struct route *route)
{
    f->routes = xrealloc(f->routes, (f->n_routes + 1) * sizeof *route);
    f->routes[f->n_routes++] = *route;
}

void front_add_ws_kind(struct front *f, const struct ws_kind *kind)
{
    f->ws_kinds = xrealloc(f->ws_kinds, (f->n_ws_kinds + 1) * sizeof *kind);
    f->ws_kinds[f->n_ws_kinds++] = *kind;
}

void front_set_auth(struct front *f, struct auth *auth)
{
    auth_close(f->auth);
    f->auth = auth;
}

bool front_open(struct front *f)
{
    f->deflate = f->config->compression ? deflate_open() : NULL;
    if (!open_lws(f)) {
        log_event(LEVEL_ERROR, "lws", "cannot_open",
                  LOG_TEXT("why", f->config->tls.cert ? "see tls.cert and tls.key" : "no context"));
        return false;
    }
    return listener_open(f) && admin_open(f);
}

void front_start(struct front *f)
{
    listener_start(f);
    admin_start(f);
}

void front_tick(struct front *f)
{
    ws_tick(f);
    sse_tick(f);
    http_api_tick(f);
    admin_state_tick(f);
    pace_tick(f);
}

void front_close(struct front *f)
{
    ws_close_all(f, CLOSE_GOING_AWAY);
    if (f->listener.data)
        uv_close((uv_handle_t *)&f->listener, NULL);
    admin_close(f);
    proxied_close_all(f);
    lws_quirk_destroy(f);
}

void front_done(struct front *f)
{
    map_done(&f->addresses);
    pace_done(f);
    map_done(&f->paces);
    if (f->listen_fd >= 0)
        close(f->listen_fd);
    free(f->routes);
    free(f->ws_kinds);
    auth_close(f->auth);
    deflate_close(f->deflate);
    buf_done(&f->out);
    buf_done(&f->lines);
}
