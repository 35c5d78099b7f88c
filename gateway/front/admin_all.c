#include "gateway/front/admin_all.h"

#include <stdlib.h>

#include "gateway/base/deadline.h"
#include "gateway/cluster/cluster.h"
#include "gateway/front/address.h"
#include "gateway/front/relay.h"
#include "proto/str.h"

struct gather {
    struct exchange *x;
    const struct admin_all *how;
    const struct route *route; /* the exchange's own */
    struct list parts;         /* of struct part: those that have not answered */
    struct buf request;
    bool asks, failed;
};

struct part {
    struct list at;
    struct gather *gather;
    struct pipe *pipe;
    struct buf got;
};

static void part_free(struct part *p)
{
    list_remove(&p->at);
    buf_done(&p->got);
    free(p);
}

static void gather_free(struct gather *g)
{
    g->x->own = NULL;
    g->x->route = g->route;
    buf_done(&g->request);
    free(g);
}

static void gather_closed(struct exchange *x)
{
    struct gather *g = x->own;
    list_each (it, &g->parts) {
        struct part *p = list_item(it, struct part, at);
        x->front->pipes->close(p->pipe);
        part_free(p);
    }
    gather_free(g);
}

static const struct exchange_kind gather_kind = {.closed = gather_closed};
static const struct route gather_route = {.pattern = "", .query = "", .kind = &gather_kind};

static void gather_settle(struct gather *g)
{
    struct exchange *x = g->x;
    const struct admin_all *how = g->how;
    bool failed = g->failed;
    if (g->asks || !list_is_empty(&g->parts))
        return;
    gather_free(g);
    if (failed)
        http_api_fail(x, ERR_OVERLOADED, "a gateway did not answer: ask again");
    else
        how->finish(x);
}

/* Its body, when the answer is a good one. */
static bool read_good_body(struct str got, struct str *ret_body)
{
    const char *end = got.n ? memmem(got.p, got.n, "\r\n\r\n", 4) : NULL;
    if (!end || !str_begins(got, STR("HTTP/1.1 200 ")))
        return false;
    *ret_body = str_from(got, (size_t)(end - got.p) + 4);
    return true;
}

static void part_bytes(void *arg, struct str bytes)
{
    struct part *p = arg;
    buf_putstr(&p->got, bytes);
    p->gather->x->front->pipes->took(p->pipe, bytes.n);
}

static void part_room(void *arg)
{
    (void)arg; /* the request is in one piece */
}

static void part_ended(void *arg)
{
    struct part *p = arg;
    struct gather *g = p->gather;
    struct str body;
    bool good = read_good_body(buf_str(&p->got), &body);
    if (good && g->how->join)
        g->how->join(g->x, body);
    g->failed = g->failed || !good;
    part_free(p);
    gather_settle(g);
}

static const struct pipe_user part_user = {
    .bytes = part_bytes, .room = part_room, .ended = part_ended};

static void ask_node(void *arg, uint64_t node)
{
    struct gather *g = arg;
    const struct pipe_port *pipes = g->x->front->pipes;
    struct part *p = xcalloc(sizeof *p);
    p->gather = g;
    list_push(&g->parts, &p->at);
    p->pipe = pipes->open_operator(pipes->arg, node, &part_user, p);
    if (p->pipe) {
        (void)pipes->write(p->pipe, buf_str(&g->request));
        return;
    }
    g->failed = true;
    part_free(p);
}

/* Those that live are as many as can be reached. */
static bool is_complete(const struct gather *g)
{
    const struct cluster *c = g->x->front->cluster;
    const struct store_node *node;
    size_t living = 0, asked = 0;
    for (size_t i = 0; (node = cluster_node(c, i)) != NULL; i++)
        living += node->incarnation != cluster_incarnation(c) && node->link[0];
    list_each (it, &g->parts)
        asked++;
    return asked >= living;
}

static void put_request(struct exchange *x, struct buf *out)
{
    buf_putf(out, "%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n",
             http_method(x->wsi) == GET ? "GET" : "POST", x->route->pattern);
    if (x->body.len)
        buf_putf(out, "content-type: application/json\r\ncontent-length: %zu\r\n", x->body.len);
    buf_puts(out, "\r\n");
    buf_putstr(out, buf_str(&x->body));
}

void admin_ask_all(struct exchange *x, const struct admin_all *how)
{
    const struct pipe_port *pipes = x->front->pipes;
    const struct peer *peer = lws_get_opaque_user_data(x->wsi);
    if (!pipes || (peer && peer->is_linked)) { /* or another gateway asks all */
        how->finish(x);
        return;
    }
    struct gather *g = xcalloc(sizeof *g);
    *g = (struct gather){.x = x, .how = how, .route = x->route, .asks = true};
    list_init(&g->parts);
    put_request(x, &g->request);
    x->own = g;
    x->route = &gather_route;
    pipes->each(pipes->arg, ask_node, g);
    g->failed = g->failed || !is_complete(g);
    g->asks = false;
    deadline_set(x->wsi, HTTP_ANSWER_S);
    gather_settle(g);
}
