#include "gateway/front/relay.h"

#include <stdlib.h>

#include "core/home.h"
#include "gateway/base/deadline.h"
#include "gateway/front/address.h"
#include "gateway/front/http_files.h"
#include "gateway/front/http_head.h"
#include "proto/str.h"

/* Headers that the home reads, those that tell who asks among them. */
static const char *const relayed[] = {
    "authorization:",
    "cookie:",
    "origin:",
    "sec-fetch-site:",
    "content-type:",
    "content-length:",
    "content-disposition:",
    "upload-offset:",
    "range:",
    "if-range:",
    "if-none-match:",
    "traceparent:",
    "tracestate:",
};

#define RELAY_S 90 /* until the first byte of an answer: longer than any home waits for a disk */

struct relay {
    struct exchange *x;
    struct pipe *pipe; /* NULL: it has ended */
    struct buf answer; /* LWS_PRE bytes, then those that came and are not written */
    size_t ours;       /* of these that the home has not sent */
    bool has_begun;    /* the answer */
};

static const struct exchange_kind relay_kind;
static const struct route relay_route = {.pattern = "", .query = "", .kind = &relay_kind};

/* --- the request's head ----------------------------------------------------------------------- */

static void put_arguments(struct lws *wsi, struct buf *out)
{
    int n = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS); /* no pair is longer */
    char *pair = xcalloc((size_t)(n > 0 ? n : 0) + 1);
    for (int i = 0; lws_hdr_copy_fragment(wsi, pair, n + 1, WSI_TOKEN_HTTP_URI_ARGS, i) >= 0; i++) {
        char *value = strchr(pair, '=');
        buf_putc(out, i ? '&' : '?');
        if (value)
            *value++ = 0;
        http_put_encoded(out, pair, "");
        buf_puts(out, value ? "=" : "");
        http_put_encoded(out, value ? value : "", "");
    }
    free(pair);
}

static void put_request_head(struct exchange *x, const char *path, struct buf *out)
{
    static const char *const methods[] = {[GET] = "GET",     [POST] = "POST", [DELETE] = "DELETE",
                                          [PATCH] = "PATCH", [HEAD] = "HEAD", [PUT] = "PUT"};
    char *host = http_head_value(x->wsi, "host:");
    buf_putf(out, "%s ", methods[x->route->method]);
    http_put_encoded(out, path, "/");
    put_arguments(x->wsi, out);
    buf_putf(out, " HTTP/1.1\r\nhost: %s\r\nconnection: close\r\n", host ? host : "");
    for (size_t i = 0; i < countof(relayed); i++) {
        char *value = http_head_value(x->wsi, relayed[i]);
        if (value)
            buf_putf(out, "%s %s\r\n", relayed[i], value);
        free(value);
    }
    buf_puts(out, "\r\n");
    free(host);
}

/* --- the answer ------------------------------------------------------------------------------- */

/* The status line, and behind it that the connection ends: a client must not send its next request
 * there.  Returns the rest. */
static struct str put_first_line(struct relay *r, struct str bytes)
{
    static const char last[] = "connection: close\r\n";
    const char *end = memchr(bytes.p, '\n', bytes.n);
    size_t n = end ? (size_t)(end - bytes.p) + 1 : bytes.n;
    buf_put(&r->answer, bytes.p, n);
    if (end)
        buf_puts(&r->answer, last);
    r->ours = end ? sizeof last - 1 : 0;
    return str_from(bytes, n);
}

static void relay_on_bytes(void *arg, struct str bytes)
{
    struct relay *r = arg;
    if (!r->answer.len) {
        buf_reserve(&r->answer, LWS_PRE);
        r->answer.len = LWS_PRE;
    }
    if (!r->has_begun)
        bytes = put_first_line(r, bytes);
    buf_putstr(&r->answer, bytes);
    r->has_begun = r->x->sends = r->x->answered = true;
    http_api_hold(r->x, false); /* what else comes of the body falls */
    lws_callback_on_writable(r->x->wsi);
}

static void relay_on_room(void *arg)
{
    http_api_hold(((struct relay *)arg)->x, false);
}

/* Without an answer: a home that goes on with the upload elsewhere, or that is lost. */
static void relay_on_ended(void *arg)
{
    struct relay *r = arg;
    r->pipe = NULL;
    if (r->has_begun)
        lws_callback_on_writable(r->x->wsi);
    else if (r->x->to_come > 0)
        deadline_now(r->x->wsi);
    else
        http_api_fail(r->x, ERR_OVERLOADED, "the node that serves this owner was lost");
}

static const struct pipe_user relay_user = {
    .bytes = relay_on_bytes, .room = relay_on_room, .ended = relay_on_ended};

static int relay_writable(struct exchange *x)
{
    struct relay *r = x->own;
    if (x->to_come > 0 || lws_partial_buffered(x->wsi)) {
        if (x->to_come == 0)
            lws_callback_on_writable(x->wsi);
        return 0;
    }
    size_t n = r->answer.len ? r->answer.len - LWS_PRE : 0;
    if (n == 0)
        return r->pipe ? 0 : -1; /* that was all */
    x->moved_ms = x->front->hub->clock.now_ms;
    r->answer.len = 0;
    if (lws_write(x->wsi, (unsigned char *)r->answer.bytes + LWS_PRE, n, LWS_WRITE_HTTP) < 0)
        return -1;
    lws_set_timeout(x->wsi, NO_PENDING_TIMEOUT, 0);
    if (r->pipe)
        x->front->pipes->took(r->pipe, n - r->ours);
    r->ours = 0;
    lws_callback_on_writable(x->wsi);
    return 0;
}

/* --- the kind --------------------------------------------------------------------------------- */

static void relay_on_piece(struct exchange *x, const char *bytes, size_t n)
{
    struct relay *r = x->own;
    if (r->pipe && !x->front->pipes->write(r->pipe, (struct str){bytes, n}))
        http_api_hold(x, true);
}

static void relay_closed(struct exchange *x)
{
    struct relay *r = x->own;
    if (r->pipe)
        x->front->pipes->close(r->pipe);
    buf_done(&r->answer);
    free(r);
}

static void relay_begin(struct exchange *x)
{
    deadline_set(x->wsi, RELAY_S); /* the home answers before that */
}

static void relay_put_error(const struct exchange *x, struct buf *out, enum error e,
                            const char *message)
{
    (void)x;
    http_put_error(out, e, message);
}

static const char *relay_header(const struct exchange *x, const char **ret_value)
{
    (void)x;
    *ret_value = NULL;
    return NULL;
}

static struct str relay_lines(const struct exchange *x)
{
    (void)x;
    return STR("");
}

static void relay_nothing(struct exchange *x)
{
    (void)x; /* relay_takes has opened it */
}

static const struct exchange_kind relay_kind = {.begin = relay_begin,
                                                .put_error = relay_put_error,
                                                .closed = relay_closed,
                                                .header = relay_header,
                                                .lines = relay_lines,
                                                .head = relay_nothing,
                                                .piece = relay_on_piece,
                                                .writable = relay_writable};

/* --- who is elsewhere ------------------------------------------------------------------------- */

static struct relay *relay_new(struct exchange *x)
{
    struct relay *r = xcalloc(sizeof *r);
    r->x = x;
    x->own = r;
    x->route = &relay_route;
    x->hangs_up = true;
    return r;
}

static void relay_open(struct exchange *x, struct str owner, const char *from, struct str head)
{
    const struct pipe_port *pipes = x->front->pipes;
    struct relay *r = relay_new(x);
    r->pipe = pipes ? pipes->open(pipes->arg, owner, from, &relay_user, r) : NULL;
    if (r->pipe)
        (void)pipes->write(r->pipe, head);
    else
        http_api_fail(x, ERR_OVERLOADED, "the node that serves this owner cannot be reached now");
}

/* Why an owner's exchange can be had neither here nor there; NULL: there. */
static const char *why_nowhere(const struct exchange *x, struct str owner)
{
    const struct peer *peer = lws_get_opaque_user_data(x->wsi);
    if (peer && peer->is_linked)
        return "this owner is being moved to another node";
    return home_is_away(x->front->hub, owner) ? NULL : "this owner is not served yet";
}

bool relay_takes(struct exchange *x, const char *path)
{
    struct buf head = {0};
    if (!x->route->kind || !x->route->kind->is_homes ||
        slots_has(&x->front->hub->open, slot_of(str_of(x->owner->name))))
        return false;
    const char *why = why_nowhere(x, str_of(x->owner->name));
    if (why) {
        http_api_fail(x, ERR_OVERLOADED, why);
        return true;
    }
    put_request_head(x, path, &head);
    relay_open(x, str_of(x->owner->name), x->from, buf_str(&head));
    buf_done(&head);
    return true;
}

static void put_order(const struct exchange *x, struct buf *out)
{
    buf_putf(out,
             "POST %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
             "content-type: application/json\r\ncontent-length: %zu\r\n\r\n",
             x->route->pattern, x->body.len);
    buf_putstr(out, buf_str(&x->body));
}

bool relay_order(struct exchange *x, struct str owner)
{
    struct buf order = {0};
    if (slots_has(&x->front->hub->open, slot_of(owner)))
        return false;
    const char *why = why_nowhere(x, owner);
    if (why) {
        http_api_fail(x, ERR_OVERLOADED, why);
        return true;
    }
    put_order(x, &order);
    relay_open(x, owner, NULL, buf_str(&order));
    buf_done(&order);
    return true;
}

void relay_to_node(struct exchange *x, uint64_t node)
{
    const struct pipe_port *pipes = x->front->pipes;
    struct buf order = {0};
    put_order(x, &order);
    struct relay *r = relay_new(x);
    r->pipe = pipes ? pipes->open_operator(pipes->arg, node, &relay_user, r) : NULL;
    if (r->pipe)
        (void)pipes->write(r->pipe, buf_str(&order));
    else
        http_api_fail(x, ERR_OVERLOADED, "that gateway cannot be reached now");
    buf_done(&order);
}
