#include "gateway/front/ws.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/cells.h"
#include "gateway/base/deadline.h"
#include "gateway/base/log.h"
#include "gateway/front/address.h"
#include "gateway/front/admission.h"
#include "gateway/front/closing.h"
#include "gateway/front/extension.h"
#include "gateway/front/http.h"
#include "gateway/front/incoming.h"
#include "gateway/front/lws_quirks.h"
#include "gateway/front/outgoing.h"
#include "gateway/front/tcp.h"
#include "gateway/front/tls.h"
#include "proto/link.h"

#define PING_AFTER_MS HEARTBEAT_MS
#define SILENT_AFTER_MS 30000 /* after the ping */
#define UNTOLD_MS 1000        /* input this long after the last reported one is news */
#define KEEPALIVE_MS 20000
#define TAKES_LATE_MS 5000
#define ALONE_MOST 4 /* messages a turn to the only one that has any */

/* --- the session's side ----------------------------------------------------------------------- */

void ws_is_known(struct conn *c)
{
    struct stranger *stranger = c->stranger;
    if (!stranger)
        return;
    c->stranger = NULL;
    c->front->n_strangers--;
    c->address->n_strangers--;
    free(stranger->bearer);
    free(stranger->cookie);
    free(stranger);
}

static bool authenticate(struct session *session, struct str token, struct identity *ret)
{
    struct conn *c = session->rim;
    struct stranger known = {0}, *stranger = c->stranger ? c->stranger : &known;
    struct str bearer = str_of(stranger->bearer), cookie = str_of(stranger->cookie);
    if (!token.p && !bearer.p && cookie.p && !c->from_browser) {
        snprintf(ret->error, sizeof ret->error, "a cookie needs an Origin");
        return false;
    }
    if (!front_identify(c->front, token, bearer, cookie, ret))
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

/* The peer grows into a connection, and needs libwebsockets' memory for a pointer no longer.
 * Returns NULL without memory. */
static struct conn *grow_peer(struct lws *wsi)
{
    struct peer *peer = lws_get_opaque_user_data(wsi);
    ASSERT(peer && !peer->is_conn);
    struct conn *c = cell_resize(peer, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct conn){.peer = c->peer};
    c->peer.is_conn = true;
    lws_set_opaque_user_data(wsi, &c->peer);
    lws_set_wsi_user(wsi, c);
    return c;
}

static struct conn *conn_of(struct lws *wsi)
{
    struct peer *peer = lws_get_opaque_user_data(wsi);
    return peer && peer->is_conn ? container_of(peer, struct conn, peer) : NULL;
}

static int open_conn(struct front *f, struct lws *wsi)
{
    struct conn *c = grow_peer(wsi);
    char path[64] = "";
    if (!c)
        return 1;
    c->front = f;
    c->wsi = wsi;
    c->number = ++f->next_conn;
    c->stranger = xcalloc(sizeof *c->stranger);
    c->address = address_get(f, wsi);
    c->address->n++;
    c->address->n_strangers++;
    c->from_browser = lws_hdr_total_length(wsi, WSI_TOKEN_ORIGIN) > 0;
    c->stranger->bearer = http_bearer(wsi);
    c->stranger->cookie = http_cookie(f, wsi);
    lws_hdr_copy(wsi, path, sizeof path, WSI_TOKEN_GET_URI);
    c->kind = admission_kind(f, path);
    lws_quirk_head_is_read(wsi);
    lws_quirk_has_gone(wsi);
    c->opened_ms = c->heard_ms = f->hub->clock.now_ms;
    session_init(&c->session, f->hub, &session_ops, c);
    c->session.from = c->address->group;
    list_push(&f->conns, &c->all);
    f->n_conns++;
    f->n_strangers++;
    if (c->kind)
        c->kind->opened(c, wsi);
    char ip[NET_TEXT] = "";
    if (log_is_on(LEVEL_DEBUG))
        address_text(f, wsi, ip);
    log_event(LEVEL_DEBUG, "ws", "opened", LOG_INT("conn", (int64_t)c->number),
              LOG_TEXT("peer", ip));
    peer_forget_name(&c->peer);
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
    ws_is_known(c);
    c->address->n--;
    address_forget(f, c->address);
    f->n_conns--;
    list_remove(&c->all);
    ws_unstall(c);
    incoming_done(c);
    return 0;
}

/* --- messages in ------------------------------------------------------------------------------ */

static void heard(struct conn *c)
{
    struct front *f = c->front;
    c->heard_ms = f->hub->clock.now_ms;
    c->pinged_after_ms = 0;
    c->ping_due = false;
    if (c->state != CONN_OPEN)
        return;
    list_remove(&c->all);
    list_push(&f->conns, &c->all);
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

void ws_stall(struct conn *c, struct list *where)
{
    struct stall *stall = c->stall = xcalloc(sizeof *stall);
    stall->conn = c;
    stall->moved_ms = c->front->hub->clock.now_ms;
    stall->acked = bytes_acked(c);
    list_push(where, &stall->node);
}

void ws_unstall(struct conn *c)
{
    if (!c->stall)
        return;
    list_remove(&c->stall->node);
    free(c->stall);
    c->stall = NULL;
}

static void block(struct conn *c)
{
    lws_callback_on_writable(c->wsi);
    if (!c->stall)
        ws_stall(c, &c->front->blocked);
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

/* Allowed during any send: when something is pending, the ping follows it.  libwebsockets reports
 * no empty pong, but neither does it touch the connection's receive buffer for one, which thus
 * takes no memory as long as the peer is silent; on TCP has_said_something notices it. */
static void ping(struct conn *c)
{
    bool is_tcp = tcp_silent_ms(lws_get_socket_fd(c->wsi)) >= 0;
    unsigned char frame[LWS_PRE + 2];
    c->ping_due = lws_partial_buffered(c->wsi);
    if (c->ping_due)
        return;
    memcpy(frame + LWS_PRE, "hf", 2);
    lws_write(c->wsi, frame + LWS_PRE, is_tcp ? 0 : 2, LWS_WRITE_PING);
    c->pinged_after_ms = (uint32_t)(c->front->hub->clock.now_ms - c->heard_ms);
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
        ws_unstall(c);
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
    if (now - c->stall->moved_ms >= TAKES_LATE_MS)
        heard(c);
    c->stall->moved_ms = now;
}

static int writable(struct conn *c)
{
    if (c->stall)
        took(c);
    lws_quirk_has_gone(c->wsi);
    if (c->state != CONN_OPEN)
        return 0;
    ws_unstall(c);
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
    return now - c->stall->moved_ms >= (watches ? SLOW_AFTER_MS : SLOW_EVENTS_AFTER_MS);
}

static void check_silence(struct front *f)
{
    msec_t now = f->hub->clock.now_ms;
    list_each (it, &f->conns) {
        struct conn *c = list_item(it, struct conn, all);
        if (c->state != CONN_OPEN)
            continue;
        msec_t silent = now - c->heard_ms;
        if (silent < PING_AFTER_MS)
            break;
        if (has_said_something(c, now))
            heard(c);
        else if (!c->pinged_after_ms)
            ping(c);
        else if (silent - c->pinged_after_ms >= SILENT_AFTER_MS)
            session_close(&c->session, CLOSE_SILENT);
    }
}

static void check_blocked(struct front *f)
{
    msec_t now = f->hub->clock.now_ms;
    list_each (it, &f->blocked) {
        struct stall *stall = list_item(it, struct stall, node);
        struct conn *c = stall->conn;
        uint64_t acked = bytes_acked(c);
        if (acked != stall->acked) {
            stall->acked = acked;
            took(c);
        } else if (takes_nothing(c, now)) {
            session_close(&c->session, CLOSE_SLOW);
        }
    }
}

/* For proxies that count only data: an empty line, which every client skips.  before: the last
 * tick, or 0. */
static void keep_alive(struct conn *c, msec_t now, msec_t before)
{
    msec_t age = now - c->opened_ms, was = before > c->opened_ms ? before - c->opened_ms : 0;
    bool is_due = age / KEEPALIVE_MS > was / KEEPALIVE_MS;
    if (!c->session.keepalive_data || !is_due || c->state != CONN_OPEN ||
        lws_partial_buffered(c->wsi))
        return;
    unsigned char line[LWS_PRE + 1];
    line[LWS_PRE] = '\n';
    lws_write(c->wsi, line + LWS_PRE, 1, LWS_WRITE_TEXT);
}

void ws_tick(struct front *f)
{
    msec_t now = f->hub->clock.now_ms;
    check_silence(f);
    check_blocked(f);
    list_each (it, &f->conns)
        keep_alive(list_item(it, struct conn, all), now, f->ticked_ms);
    f->ticked_ms = now;
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
    struct conn *c = conn_of(wsi);
    if (c && c->state != CONN_DEAD)
        ws_closed(c);
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
    struct conn *c = conn_of(wsi);

    switch (why) {
    case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS: return keep_tls(f, user);
    case LWS_CALLBACK_WSI_CREATE: return created(f);
    case LWS_CALLBACK_WSI_DESTROY: return destroyed(f, wsi);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: return admission_decide(f, wsi);
    case LWS_CALLBACK_CONFIRM_EXTENSION_OKAY: return extension_confirm(wsi);
    case LWS_CALLBACK_ADD_HEADERS: return extension_answer(wsi, in);
    case LWS_CALLBACK_ESTABLISHED: return open_conn(f, wsi);
    case LWS_CALLBACK_RECEIVE: return receive(c, in, len);
    case LWS_CALLBACK_RECEIVE_PONG: return pong_came(c);
    case LWS_CALLBACK_SERVER_WRITEABLE: return writable(c);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE: return peer_closes(c, in, len);
    case LWS_CALLBACK_WS_SERVER_DROP_PROTOCOL: return closing_dropped(c);
    case LWS_CALLBACK_CLOSED: return c ? ws_closed(c) : 0;
    default: return http_callback(f, wsi, why, user, in, len);
    }
}
