#include "gateway/workers/worker_ws.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/front/address.h"
#include "gateway/front/http_api.h"
#include "gateway/front/ws.h"
#include "proto/str.h"

struct worker_ws {
    struct conn *conn;
    struct workers *workers;
    struct instance *instance; /* NULL: before hello, or another connection has it */
    struct buf refusal;        /* the last line, without an instance */
    char group[NET_TEXT + 2];  /* the bucket of its address; no owner has such a name */
};

static struct worker_decoder decoder; /* scratch: one loop, one thread */

/* --- the instance's wire ---------------------------------------------------------------------- */

static void wire_wake(void *arg)
{
    struct worker_ws *ws = arg;
    session_wake(&ws->conn->session);
}

static void wire_hold(void *arg, bool on)
{
    struct session *session = &((struct worker_ws *)arg)->conn->session;
    session->ops->hold(session, on);
}

static void wire_close(void *arg, enum close_code code)
{
    struct worker_ws *ws = arg;
    session_close(&ws->conn->session, code);
}

static void wire_gone(void *arg)
{
    struct worker_ws *ws = arg;
    ws->instance = NULL;
}

/* --- hello ------------------------------------------------------------------------------------ */

static void worker_refuse(struct worker_ws *ws, enum error e, const char *why, enum close_code code)
{
    error_line(&ws->refusal, e, STR_NULL, why, -1, -1);
    log_event_limited(LEVEL_WARN, "worker", "refused", LOG_TEXT("why", why));
    session_close(&ws->conn->session, code);
}

/* A hello costs one request of its address, so that secrets cannot be tried faster than tokens. */
static void take_hello(struct worker_ws *ws, const struct worker_frame *frame)
{
    struct conn *c = ws->conn;
    const struct worker_wire wire = {wire_wake, wire_hold, wire_close, wire_gone, ws};
    enum error e = ERR_BAD_REQUEST;
    const char *why = frame->kind == WORKER_BAD ? frame->error : "the first frame must be a hello";
    if (!pace_take(c->front, str_of(ws->group))) {
        c->front->hub->stats.limit_hits[LIMIT_RATE]++;
        worker_refuse(ws, ERR_RATE_LIMITED, "too many requests", CLOSE_FLOOD);
        return;
    }
    if (workers_are_resuming(ws->workers)) {
        worker_refuse(ws, ERR_OVERLOADED, "the gateway has just begun", CLOSE_GOING_AWAY);
        return;
    }
    if (frame->kind == WORKER_HELLO)
        ws->instance = workers_hello(ws->workers, &decoder, frame, &wire, &e, &why);
    if (!ws->instance) {
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
    ws->workers = (struct workers *)(uintptr_t)c->kind->of_kind;
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
        worker_frame_decode(&decoder, line, &frame);
        if (frame.kind == WORKER_NO_MEMORY)
            ws_cut(c);
        else if (ws->instance)
            instance_take(ws->instance, &frame, line);
        else if (frame.kind != WORKER_NOTHING)
            take_hello(ws, &frame);
    }
    if (ws->instance)
        instance_taken(ws->instance);
}

static bool worker_fill(struct conn *c, struct buf *out, enum ws_form *ret_as)
{
    struct worker_ws *ws = c->own;
    *ret_as = WS_TEXT;
    if (ws->instance)
        return instance_fill(ws->instance, out, MAX_MESSAGE_OUT);
    bool some = ws->refusal.len > 0;
    buf_putstr(out, buf_str(&ws->refusal));
    buf_done(&ws->refusal);
    return some;
}

static bool worker_has_output(const struct conn *c)
{
    const struct worker_ws *ws = c->own;
    return ws->instance ? instance_has_output(ws->instance) : ws->refusal.len > 0;
}

static void worker_closed(struct conn *c)
{
    struct worker_ws *ws = c->own;
    if (ws->instance)
        instance_lost(ws->instance);
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

static void set_drain(struct exchange *x, bool on)
{
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
        buf_puts(&x->answer, "{\"type\":\"ok\"}");
        http_api_ready(x, 200);
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

void worker_ws_open(struct front *f, struct workers *w)
{
    const struct ws_kind kind = {.path = "/v1/worker",
                                 .subprotocol = WS_WORKER_SUBPROTOCOL,
                                 .most_bytes = MAX_AGENT_LINE + WORKER_FRAME_BYTES,
                                 .hello_bytes = MAX_HELLO_MESSAGE,
                                 .opened = worker_opened,
                                 .receive = worker_receive,
                                 .fill = worker_fill,
                                 .has_output = worker_has_output,
                                 .closed = worker_closed,
                                 .of_kind = w};
    static const struct {
        enum method method;
        const char *pattern;
        void (*own)(struct exchange *x);
    } routes[] = {{GET, "/v1/admin/workers", admin_workers},
                  {POST, "/v1/admin/workers/drain", admin_drain},
                  {POST, "/v1/admin/workers/undrain", admin_undrain}};
    front_add_ws_kind(f, &kind);
    for (size_t i = 0; i < countof(routes); i++)
        front_add_route(f, &(struct route){.method = routes[i].method,
                                           .pattern = routes[i].pattern,
                                           .own = routes[i].own,
                                           .query = "",
                                           .made_status = 200,
                                           .is_admins = true,
                                           .of_kind = w});
}
