#include "gateway/front/ws.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/base/deadline.h"
#include "gateway/base/header_list.h"
#include "gateway/base/log.h"
#include "gateway/base/origin.h"
#include "gateway/front/address.h"
#include "gateway/front/admin.h"
#include "gateway/front/closing.h"
#include "gateway/front/echo.h"
#include "gateway/front/extension.h"
#include "gateway/front/http.h"
#include "gateway/front/incoming.h"
#include "gateway/front/lws_quirks.h"
#include "gateway/front/outgoing.h"
#include "gateway/front/tcp.h"
#include "gateway/front/tls.h"
#include "proto/js.h"
#include "proto/link.h"
#include "proto/str.h"

#define PING_AFTER_MS HEARTBEAT_MS
#define SILENT_AFTER_MS 30000 /* after the ping */
#define UNTOLD_MS 1000        /* input this long after the last reported one is news */
#define KEEPALIVE_MS 20000
#define TAKES_LATE_MS 5000
#define ALONE_MOST 4 /* messages a turn to the only one that has any */

/* --- admission: before the upgrade ------------------------------------------------------------ */

static void address_leave(struct front *f, struct address *a)
{
    a->n--;
    address_forget(f, a);
}

static bool is_version_13(struct lws *wsi)
{
    char version[8] = "";
    return lws_hdr_copy(wsi, version, sizeof version, WSI_TOKEN_VERSION) == 2 &&
           memcmp(version, "13", 2) == 0;
}

/* A proxy may drop the header; libwebsockets would hang up. */
static bool connection_names_upgrade(struct lws *wsi)
{
    char value[128] = ""; /* lws has no room for more */
    lws_hdr_copy(wsi, value, sizeof value, WSI_TOKEN_CONNECTION);
    for (struct str list = str_of(value); list.n > 0;) {
        struct str one = header_list_next(&list, ',');
        if (one.n == strlen("upgrade") && str_begins_nocase(one, STR("upgrade")))
            return true;
    }
    return false;
}

static const struct ws_kind *find_kind(const struct front *f, const char *path)
{
#ifdef HOLDFAST_ECHO
    if (strcmp(path, echo_kind.path) == 0)
        return &echo_kind;
#endif
    for (size_t i = 0; i < f->n_ws_kinds; i++)
        if (strcmp(path, f->ws_kinds[i].path) == 0)
            return &f->ws_kinds[i];
    return NULL;
}

/* NULL when the offer is good. */
static const char *refuse_subprotocol(struct lws *wsi, const struct ws_kind *kind)
{
    static const char *const served[][2] = {
        {WS_SUBPROTOCOL, "the subprotocol is " WS_SUBPROTOCOL ", in a list of less than 127 bytes"},
        {WS_WORKER_SUBPROTOCOL, "the subprotocol is " WS_WORKER_SUBPROTOCOL},
        {WS_NO_SUBPROTOCOL, "there is no subprotocol here"}};
    return lws_quirk_refuses(wsi, kind && kind->subprotocol ? kind->subprotocol : WS_SUBPROTOCOL,
                             served, countof(served));
}

/* 1: refused, and answered. */
static int admit(struct front *f, struct lws *wsi)
{
    char path[64] = "";
    if (admin_is(wsi))
        return http_refuse(wsi, 400, ERR_UNSUPPORTED, "the operator's socket has no WebSocket");
    if (!lws_quirk_line_is_whole(wsi))
        return http_refuse(wsi, 400, ERR_BAD_REQUEST, "the request line is incomplete");
    lws_hdr_copy(wsi, path, sizeof path, WSI_TOKEN_GET_URI);
    const struct ws_kind *kind = find_kind(f, path);
    if (strcmp(path, "/v1/ws") != 0 && !kind)
        return http_refuse(wsi, 404, ERR_NOT_FOUND, "the WebSocket is at /v1/ws");
    if (lws_hdr_total_length(wsi, WSI_TOKEN_KEY) <= 0) /* lws would read it anyway */
        return http_refuse(wsi, 400, ERR_BAD_REQUEST, "Sec-WebSocket-Key is missing");
    if (!connection_names_upgrade(wsi))
        return http_refuse(wsi, 400, ERR_BAD_REQUEST, "Connection does not say upgrade");
    if (!is_version_13(wsi)) /* RFC 6455 section 4.4 */
        return http_refuse(wsi, 426, ERR_UNSUPPORTED, "Sec-WebSocket-Version must be 13");
    if (http_check_origin(f, wsi) != ORIGIN_OK)
        return http_refuse(wsi, 403, ERR_UNAUTHORIZED, "this origin or host is not allowed");
    const char *refusal = refuse_subprotocol(wsi, kind);
    if (refusal)
        return http_refuse(wsi, 400, ERR_UNSUPPORTED, refusal);
    struct address *a = address_get(f, wsi);
    bool full = address_is_full(f, a, true) || f->phase == FRONT_CLOSING;
    address_forget(f, a);
    if (full) {
        f->refusals[REFUSED_CONNECTIONS]++;
        log_event_limited(LEVEL_WARN, "ws", "refused", LOG_TEXT("why", "too many connections"));
        return http_refuse(wsi, 503, ERR_OVERLOADED, "too many connections");
    }
    return 0;
}

/* --- the session's side ----------------------------------------------------------------------- */

void ws_is_known(struct conn *c)
{
    if (!c->stranger)
        return;
    c->stranger = false;
    c->front->n_strangers--;
    c->address->n_strangers--;
    free(c->bearer);
    free(c->cookie);
    c->bearer = c->cookie = NULL;
}

static bool authenticate(struct session *session, struct str token, struct identity *ret)
{
    struct conn *c = session->rim;
    struct str cookie = str_of(c->cookie);
    if (!token.p && !c->bearer && cookie.p && !c->from_browser) {
        snprintf(ret->error, sizeof ret->error, "a cookie needs an Origin");
        return false;
    }
    if (!front_identify(c->front, token, str_of(c->bearer), cookie, ret))
        return false;
    http_set_quota(c->address->group, ret);
    log_event(LEVEL_DEBUG, "ws", "welcome", LOG_INT("conn", (int64_t)c->number),
              LOG_STR("owner", ((struct str){ret->owner, ret->owner_len})));
    ws_is_known(c);
    return true;
}

static void hold(struct session *session, bool on)
{
    struct conn *c = session->rim;
    if (c->state == CONN_OPEN)
        lws_rx_flow_control(c->wsi, on ? 0 : 1);
}

static void flush(struct session *session);

static const struct session_ops session_ops = {
    .authenticate = authenticate, .hold = hold, .flush = flush};

/* --- opening and closing ---------------------------------------------------------------------- */

static int open_conn(struct front *f, struct lws *wsi, struct conn **user)
{
    struct conn *c = xcalloc(sizeof *c);
    char path[64] = "";
    *user = c;
    c->front = f;
    c->wsi = wsi;
    c->number = ++f->next_conn;
    c->stranger = true;
    c->address = address_get(f, wsi);
    c->address->n++;
    c->address->n_strangers++;
    c->from_browser = lws_hdr_total_length(wsi, WSI_TOKEN_ORIGIN) > 0;
    c->bearer = http_bearer(wsi);
    c->cookie = http_cookie(f, wsi);
    c->deflate = extension_terms(wsi);
    lws_hdr_copy(wsi, path, sizeof path, WSI_TOKEN_GET_URI);
    c->kind = find_kind(f, path);
    lws_quirk_head_is_read(wsi);
    lws_quirk_has_gone(wsi);
    c->opened_ms = c->heard_ms = c->kept_ms = f->hub->clock.now_ms;
    session_init(&c->session, f->hub, &session_ops, c);
    c->session.from = c->address->group;
    list_push(&f->conns, &c->all);
    list_push(&f->silent, &c->silent);
    f->n_conns++;
    f->n_strangers++;
    if (c->kind)
        c->kind->opened(c, wsi);
    char ip[NET_TEXT] = "";
    if (log_is_on(LEVEL_DEBUG))
        address_text(f, wsi, ip);
    log_event(LEVEL_DEBUG, "ws", "opened", LOG_INT("conn", (int64_t)c->number),
              LOG_TEXT("peer", ip));
    return 0;
}

static void count_close(struct front *f, enum close_code code)
{
    static const enum close_code codes[] = {
#define X(name, value, text) name,
        CLOSE_TABLE(X)
#undef X
    };
    _Static_assert(countof(codes) < countof(f->closes), "the last is of no code");
    size_t i = 0;
    while (i < countof(codes) && codes[i] != code)
        i++;
    f->closes[i < countof(codes) ? i : countof(f->closes) - 1]++;
}

static int ws_closed(struct conn *c)
{
    struct front *f = c->front;
    log_event(LEVEL_DEBUG, "ws", "closed", LOG_INT("conn", (int64_t)c->number),
              LOG_INT("code", c->session.close_code));
    count_close(f, c->session.close_code);
    if (c->kind)
        c->kind->closed(c);
    session_done(&c->session);
    c->state = CONN_DEAD;
    if (c->stranger) {
        f->n_strangers--;
        c->address->n_strangers--;
    }
    address_leave(f, c->address);
    f->n_conns--;
    list_remove(&c->all);
    list_remove(&c->silent);
    list_remove(&c->blocked);
    list_push(&f->dead, &c->all);
    return 0;
}

void ws_reap(struct front *f)
{
    struct list *node;
    while ((node = list_pop(&f->dead)) != NULL) {
        struct conn *c = list_item(node, struct conn, all);
        buf_done(&c->message);
        free(c->bearer);
        free(c->cookie);
        free(c);
    }
}

/* --- messages in ------------------------------------------------------------------------------ */

static void heard(struct conn *c)
{
    struct front *f = c->front;
    c->heard_ms = f->hub->clock.now_ms;
    c->pinged = c->ping_due = false;
    if (c->state != CONN_OPEN)
        return;
    list_remove(&c->silent);
    list_push(&f->silent, &c->silent);
}

static int receive(struct conn *c, const char *piece, size_t len)
{
    heard(c);
    if (c->state == CONN_OPEN && c->session.state != SESSION_CLOSING)
        incoming_take(c, piece, len);
    return 0;
}

/* --- messages out ----------------------------------------------------------------------------- */

static uint64_t bytes_acked(const struct conn *c)
{
    return tcp_bytes_acked(lws_get_socket_fd(c->wsi));
}

static void block(struct conn *c)
{
    lws_callback_on_writable(c->wsi);
    if (list_is_in(&c->blocked))
        return;
    c->moved_ms = c->front->hub->clock.now_ms;
    c->acked = bytes_acked(c);
    list_push(&c->front->blocked, &c->blocked);
}

void ws_cut(struct conn *c)
{
    closing_begin(c);
    deadline_now(c->wsi);
}

static bool must_wait(const struct conn *c)
{
    return lws_partial_buffered(c->wsi) || lws_quirk_goes_first(c->wsi);
}

/* Allowed during any send: when something is pending, the ping follows it. */
static void ping(struct conn *c)
{
    unsigned char frame[LWS_PRE + 2];
    c->ping_due = lws_partial_buffered(c->wsi);
    if (c->ping_due)
        return;
    memcpy(frame + LWS_PRE, "hf", 2);
    lws_write(c->wsi, frame + LWS_PRE, 2, LWS_WRITE_PING);
    c->pinged = true;
    c->pinged_ms = c->front->hub->clock.now_ms;
}

/* Pending answers go out before the close frame, in at most the time of the close itself; a peer
 * that took nothing for 30 s is not waited for. */
static bool is_waited_for(struct conn *c, bool pending)
{
    enum close_code code = c->session.close_code;
    bool takes = !pending || (code != CLOSE_SLOW && code != CLOSE_SILENT);
    if (!outgoing_is_due(c) || !takes)
        return false;
    if (pending && !c->lingers)
        deadline_set(c->wsi, CLOSE_WAIT_S);
    c->lingers |= pending;
    return true;
}

/* Writes one message, unless something is still pending: then the cursor waits (promise 7).  One a
 * turn, so that readers of one stream stay side by side, and copy lines that are still in the
 * processor's cache (eight a turn took five times as long with a hundred readers). */
static void flush(struct session *session)
{
    struct conn *c = session->rim;
    if (c->state != CONN_OPEN)
        return;
    if (c->ping_due)
        ping(c);
    bool pending = must_wait(c);
    if (!pending) {
        outgoing_write(c);
        if (c->state != CONN_OPEN)
            return;
        pending = must_wait(c);
        list_remove(&c->blocked);
    }
    if (session->state == SESSION_CLOSING && !is_waited_for(c, pending))
        closing_say(c);
    else if (pending)
        block(c);
    else if (outgoing_is_due(c))
        session_wake(session);
}

static void flush_once(struct front *f)
{
    struct list now, *node;
    f->is_alone = list_is_single(&f->hub->woken);
    list_init(&now);
    list_splice(&now, &f->hub->woken);
    while ((node = list_pop(&now)) != NULL) {
        struct session *session = list_item(node, struct session, woken);
        session->ops->flush(session);
    }
}

/* A reader that is alone has nobody to stay beside, and saves turns. */
void ws_flush_woken(struct front *f)
{
    flush_once(f);
    for (int i = 1; i < ALONE_MOST && list_is_single(&f->hub->woken); i++)
        flush_once(f);
    closing_turn(f);
}

/* Late bytes that the kernel had no room for show that the peer's program has read.  That is a sign
 * of life, for a peer whose pongs come after everything that waits. */
static void took(struct conn *c)
{
    msec_t now = c->front->hub->clock.now_ms;
    if (now - c->moved_ms >= TAKES_LATE_MS)
        heard(c);
    c->moved_ms = now;
}

static int writable(struct conn *c)
{
    if (list_is_in(&c->blocked))
        took(c);
    lws_quirk_has_gone(c->wsi);
    if (c->state != CONN_OPEN)
        return 0;
    list_remove(&c->blocked);
    session_wake(&c->session);
    return 0;
}

/* --- once a second ---------------------------------------------------------------------------- */

/* Any byte is a sign of life, and libwebsockets does not report some: pings, empty pongs,
 * beginnings of frames. */
static bool has_said_something(const struct conn *c, msec_t now)
{
    msec_t ago = tcp_silent_ms(lws_get_socket_fd(c->wsi));
    return ago >= 0 && now - ago > c->heard_ms + UNTOLD_MS;
}

static bool takes_nothing(const struct conn *c, msec_t now)
{
    bool watches = session_knows(&c->session) & LINK_WATCHES;
    return now - c->moved_ms >= (watches ? SLOW_AFTER_MS : SLOW_EVENTS_AFTER_MS);
}

static void check_silence(struct front *f)
{
    msec_t now = f->hub->clock.now_ms;
    list_each (it, &f->silent) {
        struct conn *c = list_item(it, struct conn, silent);
        if (now - c->heard_ms < PING_AFTER_MS)
            break;
        if (has_said_something(c, now))
            heard(c);
        else if (c->pinged && now - c->pinged_ms >= SILENT_AFTER_MS)
            session_close(&c->session, CLOSE_SILENT);
        else if (!c->pinged)
            ping(c);
    }
}

static void check_blocked(struct front *f)
{
    msec_t now = f->hub->clock.now_ms;
    list_each (it, &f->blocked) {
        struct conn *c = list_item(it, struct conn, blocked);
        uint64_t acked = bytes_acked(c);
        if (acked != c->acked) {
            c->acked = acked;
            took(c);
        } else if (takes_nothing(c, now)) {
            session_close(&c->session, CLOSE_SLOW);
        }
    }
}

/* For proxies that count only data: an empty line, which every client skips. */
static void keep_alive(struct conn *c, msec_t now)
{
    if (!c->session.keepalive_data || now - c->kept_ms < KEEPALIVE_MS)
        return;
    c->kept_ms = now;
    if (c->state != CONN_OPEN || lws_partial_buffered(c->wsi))
        return;
    unsigned char line[LWS_PRE + 1];
    line[LWS_PRE] = '\n';
    lws_write(c->wsi, line + LWS_PRE, 1, LWS_WRITE_TEXT);
}

void ws_tick(struct front *f)
{
    check_silence(f);
    check_blocked(f);
    list_each (it, &f->conns)
        keep_alive(list_item(it, struct conn, all), f->hub->clock.now_ms);
}

void ws_say_goaway(struct front *f)
{
    list_each (it, &f->conns)
        session_say_goaway(&list_item(it, struct conn, all)->session);
}

uint32_t ws_close_owner(struct front *f, struct str owner, enum close_code code, const char *why)
{
    uint32_t n = 0;
    list_each (it, &f->conns) {
        struct session *session = &list_item(it, struct conn, all)->session;
        bool is = session->state == SESSION_OPEN && str_eq(str_of(session->owner->name), owner);
        if (is && why)
            session_push_error(session, ERR_UNAUTHORIZED, STR_NULL, why);
        if (is)
            session_close(session, code);
        n += is;
    }
    return n;
}

void ws_close_all(struct front *f, enum close_code code)
{
    list_each (it, &f->conns)
        session_close(&list_item(it, struct conn, all)->session, code);
}

/* --- the callback ----------------------------------------------------------------------------- */

/* A ready message goes out before our close frame: the welcome to a hello in the same segment as
 * the peer's. */
static int peer_closes(struct conn *c, const unsigned char *payload, size_t len)
{
    if (c->state == CONN_OPEN && !lws_partial_buffered(c->wsi))
        outgoing_write(c);
    return closing_answer(c, payload, len);
}

static int keep_tls(struct front *f, SSL_CTX *context)
{
    f->tls = context;
    tls_begin(context);
    return 0;
}

static int created(struct front *f)
{
    f->n_wsi++;
    return 0;
}

static int destroyed(struct front *f, struct lws *wsi)
{
    peer_free(f, lws_get_opaque_user_data(wsi));
    lws_set_opaque_user_data(wsi, NULL);
    f->n_wsi--;
    return 0;
}

static int pong_came(struct conn *c)
{
    heard(c);
    if (extension_marks(c->wsi))
        session_close(&c->session, CLOSE_PROTOCOL);
    return 0;
}

int ws_callback(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len)
{
    struct front *f = lws_context_user(lws_get_context(wsi));
    struct conn **slot = user;

    switch (why) {
    case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS: return keep_tls(f, user);
    case LWS_CALLBACK_WSI_CREATE: return created(f);
    case LWS_CALLBACK_WSI_DESTROY: return destroyed(f, wsi);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: return admit(f, wsi);
    case LWS_CALLBACK_CONFIRM_EXTENSION_OKAY: return extension_confirm(wsi);
    case LWS_CALLBACK_ADD_HEADERS: return extension_answer(wsi, in);
    case LWS_CALLBACK_ESTABLISHED: return open_conn(f, wsi, slot);
    case LWS_CALLBACK_RECEIVE: return receive(*slot, in, len);
    case LWS_CALLBACK_RECEIVE_PONG: return pong_came(*slot);
    case LWS_CALLBACK_SERVER_WRITEABLE: return writable(*slot);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE: return peer_closes(*slot, in, len);
    case LWS_CALLBACK_WS_SERVER_DROP_PROTOCOL: return closing_dropped(slot ? *slot : NULL);
    case LWS_CALLBACK_CLOSED: return ws_closed(*slot);
    default: return http_callback(f, wsi, why, user, in, len);
    }
}
