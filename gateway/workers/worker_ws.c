#include "gateway/workers/worker_ws.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/front/address.h"
#include "gateway/front/admin_all.h"
#include "gateway/front/http_api.h"
#include "gateway/front/ws.h"
#include "gateway/workers/worker_fan.h"
#include "proto/str.h"

struct worker_ws {
    struct conn *conn;
    struct doors *doors;
    struct worker_fan *fan;   /* NULL: before hello */
    struct buf refusal;       /* the last line, without a fan */
    char group[NET_TEXT + 2]; /* the bucket of its address; no owner has such a name */
};

/* --- to the socket ---------------------------------------------------------------------------- */

static void socket_wake(void *arg)
{
    struct worker_ws *ws = arg;
    session_wake(&ws->conn->session);
}

static void socket_hold(void *arg, bool on)
{
    struct session *session = &((struct worker_ws *)arg)->conn->session;
    session->ops->hold(session, on);
}

static void socket_close(void *arg, enum close_code code)
{
    struct worker_ws *ws = arg;
    session_close(&ws->conn->session, code);
}

/* --- hello ------------------------------------------------------------------------------------ */

static void worker_refuse(struct worker_ws *ws, enum error e, const char *why, enum close_code code)
{
    error_line(&ws->refusal, e, STR_NULL, why, -1, -1);
    log_event_limited(LEVEL_WARN, "worker", "refused", LOG_TEXT("why", why));
    session_close(&ws->conn->session, code);
}

/* A hello costs one request of its address, so that secrets cannot be tried faster than tokens. */
static void take_hello(struct worker_ws *ws, const struct worker_frame *frame, struct str line)
{
    struct conn *c = ws->conn;
    const struct worker_socket to = {socket_wake, socket_hold, socket_close, ws};
    enum error e = ERR_BAD_REQUEST;
    const char *why = frame->kind == WORKER_BAD ? frame->error : "the first frame must be a hello";
    if (!pace_take(c->front, str_of(ws->group))) {
        c->front->hub->stats.limit_hits[LIMIT_RATE]++;
        worker_refuse(ws, ERR_RATE_LIMITED, "too many requests", CLOSE_FLOOD);
        return;
    }
    if (workers_are_resuming(ws->doors->workers)) {
        worker_refuse(ws, ERR_OVERLOADED, "the gateway has just begun", CLOSE_GOING_AWAY);
        return;
    }
    if (frame->kind == WORKER_HELLO)
        ws->fan = worker_fan_open(ws->doors, frame, line, &to, &e, &why);
    if (!ws->fan) {
        worker_refuse(ws, e, why, e == ERR_UNAUTHORIZED ? CLOSE_UNAUTHORIZED : CLOSE_POLICY);
        return;
    }
    struct owner *nobody = owner_ref(c->front->hub, STR("\x01"
                                                        "worker"));
    session_adopt(&c->session, &(struct asker){.owner = nobody, .quota = nobody});
    owner_unref(c->front->hub, nobody);
    c->session.keepalive_data = true; /* so that a worker notices a path that is dead */
    ws_is_known(c);
}

/* --- the kind --------------------------------------------------------------------------------- */

static void worker_opened(struct conn *c, struct lws *wsi)
{
    struct worker_ws *ws = xcalloc(sizeof *ws);
    char group[NET_TEXT];
    ws->conn = c;
    ws->doors = (struct doors *)(uintptr_t)c->kind->of_kind;
    address_group(c->front, wsi, group);
    snprintf(ws->group, sizeof ws->group, "\x01%s", group);
    c->own = ws;
}

static void worker_receive(struct conn *c, struct str message)
{
    struct worker_ws *ws = c->own;
    struct worker_frame frame;
    while (message.n > 0 && c->session.state != SESSION_CLOSING) {
        const char *newline = memchr(message.p, '\n', message.n);
        struct str line = {message.p, newline ? (size_t)(newline - message.p) : message.n};
        message = str_from(message, line.n + (newline != NULL));
        worker_frame_decode(&ws->doors->decoder, line, &frame);
        if (frame.kind == WORKER_NO_MEMORY)
            ws_cut(c);
        else if (ws->fan)
            worker_fan_take(ws->fan, &frame, line);
        else if (frame.kind != WORKER_NOTHING)
            take_hello(ws, &frame, line);
    }
    if (ws->fan)
        worker_fan_taken(ws->fan);
}

static bool worker_fill(struct conn *c, struct buf *out, enum ws_form *ret_as)
{
    struct worker_ws *ws = c->own;
    *ret_as = WS_TEXT;
    if (ws->fan)
        return worker_fan_fill(ws->fan, out);
    bool some = ws->refusal.len > 0;
    buf_putstr(out, buf_str(&ws->refusal));
    buf_done(&ws->refusal);
    return some;
}

static bool worker_has_output(const struct conn *c)
{
    const struct worker_ws *ws = c->own;
    return ws->fan ? worker_fan_has_output(ws->fan) : ws->refusal.len > 0;
}

/* It has no owner, and so no home that could move. */
static bool worker_is_served_here(const struct conn *c)
{
    (void)c;
    return false;
}

static void worker_closed(struct conn *c)
{
    struct worker_ws *ws = c->own;
    if (ws->fan)
        worker_fan_close(ws->fan);
    buf_done(&ws->refusal);
    free(ws);
    c->own = NULL;
}

/* --- the operator ----------------------------------------------------------------------------- */

static struct workers *workers_of(const struct exchange *x)
{
    return (struct workers *)(uintptr_t)x->route->of_kind;
}

static void admin_workers(struct exchange *x)
{
    workers_put(workers_of(x), &x->answer);
    http_api_ready(x, 200);
}

static void say_ok(struct exchange *x)
{
    buf_puts(&x->answer, "{\"type\":\"ok\"}");
    http_api_ready(x, 200);
}

static void set_drain(struct exchange *x, bool on)
{
    static const struct admin_all ok = {.finish = say_ok};
    struct js_doc doc = {0};
    struct buf name = {0};
    bool is_object = js_parse(&doc, x->body.len ? x->body.bytes : "", x->body.len, JS_CLIENT) &&
                     js_type(&doc, 0) == JS_OBJECT;
    uint32_t node = is_object ? js_get(&doc, 0, "worker") : 0;
    if (node && js_type(&doc, node) == JS_STRING)
        js_value(&doc, node, &name);
    if (workers_drain(workers_of(x), buf_str(&name), on)) {
        log_event(LEVEL_INFO, "admin", on ? "drained" : "undrained",
                  LOG_STR("worker", buf_str(&name)));
        admin_ask_all(x, &ok);
    } else {
        http_api_fail(x, ERR_BAD_REQUEST, "\"worker\" must name an entry of workers");
    }
    buf_done(&name);
    js_done(&doc);
}

static void admin_drain(struct exchange *x)
{
    set_drain(x, true);
}

static void admin_undrain(struct exchange *x)
{
    set_drain(x, false);
}

struct doors *worker_ws_open(struct front *f, struct workers *w)
{
    struct doors *d = xcalloc(sizeof *d);
    const struct ws_kind kind = {.path = "/v1/worker",
                                 .subprotocol = WS_WORKER_SUBPROTOCOL,
                                 .most_bytes = MAX_AGENT_LINE + WORKER_FRAME_BYTES,
                                 .hello_bytes = MAX_HELLO_MESSAGE,
                                 .opened = worker_opened,
                                 .receive = worker_receive,
                                 .fill = worker_fill,
                                 .has_output = worker_has_output,
                                 .is_served_here = worker_is_served_here,
                                 .closed = worker_closed,
                                 .of_kind = d};
    static const struct {
        enum method method;
        const char *pattern;
        void (*own)(struct exchange *x);
    } routes[] = {{GET, "/v1/admin/workers", admin_workers},
                  {POST, "/v1/admin/workers/drain", admin_drain},
                  {POST, "/v1/admin/workers/undrain", admin_undrain}};
    doors_open(d, f, w);
    front_add_ws_kind(f, &kind);
    for (size_t i = 0; i < countof(routes); i++)
        front_add_route(f, &(struct route){.method = routes[i].method,
                                           .pattern = routes[i].pattern,
                                           .own = routes[i].own,
                                           .query = "",
                                           .made_status = 200,
                                           .is_admins = true,
                                           .of_kind = w});
    return d;
}

void worker_ws_close(struct doors *d)
{
    if (d)
        doors_close(d);
    free(d);
}
