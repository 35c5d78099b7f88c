/* One connection between two nodes: its handshake, its frames, its end. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/links/links_private.h"

static void on_link_timer(struct timer *timer);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *from);
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);

static struct map_key on_link_key(const struct map_node *node)
{
    const struct on_link *on = container_of((struct map_node *)node, struct on_link, node);
    return (struct map_key){{{(const char *)&on->id, sizeof on->id}, STR_NULL, STR_NULL}};
}

void link_register(struct link *k, struct map *map, struct list *list, struct on_link *on)
{
    on->link = k;
    map_put(map, &on->node);
    list_push(list, &on->all);
}

void link_unregister(struct map *map, struct on_link *on)
{
    map_remove(map, &on->node);
    list_remove(&on->all);
}

struct on_link *link_find(const struct map *map, uint32_t id)
{
    struct map_key key = {{{(const char *)&id, sizeof id}, STR_NULL, STR_NULL}};
    struct map_node *node = map_find(map, key);
    return node ? container_of(node, struct on_link, node) : NULL;
}

struct link *link_new(struct links *l, struct peer *peer)
{
    struct link *k = xcalloc(sizeof *k);
    k->links = l;
    k->peer = peer;
    k->rtt_us = -1;
    map_init(&k->sessions, l->secret_of_maps, on_link_key);
    map_init(&k->requests, l->secret_of_maps, on_link_key);
    map_init(&k->pipes, l->secret_of_maps, on_link_key);
    list_init(&k->all_sessions);
    list_init(&k->all_requests);
    list_init(&k->all_pipes);
    list_init(&k->blocked);
    list_init(&k->over);
    list_push(&l->all, &k->all);
    ASSERT(uv_tcp_init(l->o.loop, &k->tcp) == 0);
    k->tcp.data = k;
    k->write.data = k;
    k->timer.fire = on_link_timer;
    k->heard_ms = l->o.hub->clock.now_ms;
    l->n_handles++;
    if (!peer)
        l->n_strangers++;
    timer_arm(&l->o.hub->clock, &k->timer, k->heard_ms + LINK_HELLO_MS);
    return k;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void on_link_closed(uv_handle_t *handle)
{
    struct link *k = handle->data;
    struct links *l = k->links;
    list_remove(&k->all);
    map_done(&k->sessions);
    map_done(&k->requests);
    map_done(&k->pipes);
    buf_done(&k->mine);
    buf_done(&k->theirs);
    buf_done(&k->in);
    buf_done(&k->out);
    buf_done(&k->flying);
    buf_done(&k->sealed);
    buf_done(&k->opened);
    link_tls_end(k);
    free(k);
    links_handle_gone(l);
}

static const char *const ends[N_LINK_ENDS] = {
#define X(name, label) [name] = label,
    LINK_END_TABLE(X)
#undef X
};

/* The last frames go out if the socket takes them at once. */
void link_close(struct link *k, enum link_end end, const char *why)
{
    struct links *l = k->links;
    bool was_up = k->state == LINK_UP;
    if (k->state == LINK_ENDED)
        return;
    link_write(k);
    if (k->state == LINK_ENDED) /* by that write */
        return;
    k->state = LINK_ENDED;
    l->stats.ends[end]++;
    log_event_limited(end == LINK_END_REPLACED ? LEVEL_DEBUG : LEVEL_WARN, "link", "ended",
                      LOG_TEXT("node", k->name), LOG_TEXT("how", ends[end]), LOG_TEXT("why", why));
    timer_disarm(&l->o.hub->clock, &k->timer);
    if (!k->peer && !was_up)
        l->n_strangers--;
    pipes_end(k);
    if (k->peer) {
        l->stats.links_up -= was_up;
        front_end(k);
        peer_is_down(k->peer);
    } else {
        home_end(k);
    }
    uv_close((uv_handle_t *)&k->tcp, on_link_closed);
}

/* --- writing ---------------------------------------------------------------------------------- */

bool link_is_full(const struct link *k)
{
    return k->out.len + k->flying.len >= LINK_BACKLOG;
}

void link_say(struct link *k, const struct link_frame *f)
{
    if (k->state != LINK_ENDED)
        link_put(&k->out, f);
}

static void on_written(uv_write_t *write, int status)
{
    struct link *k = write->data;
    k->writing = false;
    k->links->stats.bytes_out += k->flying.len;
    buf_done(&k->flying);
    if (k->state == LINK_ENDED)
        return;
    if (status < 0)
        link_close(k, LINK_END_CLOSED, uv_strerror(status));
    else if (!k->peer)
        home_drained(k);
}

/* At most once a turn: a thousand sessions are one system call. */
void link_write(struct link *k)
{
    struct buf *out = k->tls ? &k->sealed : &k->out;
    if (k->writing || k->listens || k->state == LINK_CONNECTING || k->state == LINK_ENDED)
        return;
    if (k->tls)
        link_tls_seal(k, &k->out, &k->sealed);
    if (out->len == 0)
        return;
    uv_buf_t now = uv_buf_init(out->bytes, (unsigned)out->len);
    int n = uv_try_write((uv_stream_t *)&k->tcp, &now, 1);
    if (n < 0 && n != UV_EAGAIN) {
        buf_clear(&k->out);
        buf_clear(out);
        link_close(k, LINK_END_CLOSED, uv_strerror(n));
        return;
    }
    size_t done = n > 0 ? (size_t)n : 0;
    k->links->stats.bytes_out += done;
    if (done == out->len) {
        buf_clear(out);
        return;
    }
    buf_consume(out, done);
    k->flying = *out;
    *out = (struct buf){0};
    now = uv_buf_init(k->flying.bytes, (unsigned)k->flying.len);
    k->writing = uv_write(&k->write, (uv_stream_t *)&k->tcp, &now, 1, on_written) == 0;
    ASSERT(k->writing);
}

/* --- the handshake ---------------------------------------------------------------------------- */

static void say_hello(struct link *k)
{
    struct links *l = k->links;
    char nonce[LINK_NONCE];
    struct link_frame hello = {.kind = LINK_HELLO, .number = {LINK_VERSION, l->o.incarnation}};
    ASSERT(l->o.hub->o.random(nonce, sizeof nonce));
    hello.text[0] = buf_str(&l->cluster);
    hello.text[1] = buf_str(&l->node);
    hello.bytes = (struct str){nonce, sizeof nonce};
    link_put(&k->mine, &hello);
    buf_putstr(&k->out, buf_str(&k->mine));
    k->state = LINK_GREETING;
}

/* Both sides learn why. */
static void link_refuse(struct link *k, const char *why)
{
    link_say(k, &(struct link_frame){.kind = LINK_BYE, .text = {str_of(why)}});
    link_close(k, LINK_END_REFUSED, why);
}

static void take_hello(struct link *k, const struct link_frame *f)
{
    const struct link_frame mine = link_hello_of(&k->mine);
    const char *why = link_refuses(&mine, f);
    if (!why && k->peer && f->number[1] != k->peer->incarnation)
        why = "another process has this address";
    if (why) {
        link_refuse(k, why);
        return;
    }
    k->incarnation = f->number[1];
    snprintf(k->name, sizeof k->name, "%.*s", (int)f->text[1].n, f->text[1].p);
    link_put(&k->theirs, f);
    k->state = LINK_PROVING;
    if (k->peer)
        link_prove(k);
}

static void take_proof(struct link *k, const struct link_frame *f)
{
    struct links *l = k->links;
    if (!link_is_proven(k, f)) {
        link_refuse(k, "its proof is wrong: the secrets differ");
        return;
    }
    if (!k->peer) {
        link_prove(k);
        l->n_strangers--;
    }
    k->state = LINK_UP;
    k->pinged_ns = 0;
    timer_arm(&l->o.hub->clock, &k->timer, l->o.hub->clock.now_ms + LINK_PING_MS);
    log_event(LEVEL_INFO, "link", "up", LOG_TEXT("node", k->name),
              LOG_TEXT("as", k->peer ? "front" : "home"));
    if (k->peer) {
        l->stats.links_up++;
        peer_is_up(k->peer);
    }
}

/* --- frames ----------------------------------------------------------------------------------- */

static void take_pong(struct link *k)
{
    if (k->pinged_ns)
        k->rtt_us = (int64_t)((uv_hrtime() - k->pinged_ns) / 1000);
    k->pinged_ns = 0;
}

static void take_bye(struct link *k, const struct link_frame *f)
{
    char why[160];
    snprintf(why, sizeof why, "the other node says: %.*s", (int)f->text[0].n, f->text[0].p);
    link_close(k, LINK_END_REFUSED, why);
}

static void take_up(struct link *k, const struct link_frame *f)
{
    if (f->kind == LINK_PING)
        link_say(k, &(struct link_frame){.kind = LINK_PONG});
    else if (f->kind == LINK_PONG)
        take_pong(k);
    else if (pipe_take(k, f))
        return;
    else if (k->peer)
        front_take(k, f);
    else
        home_take(k, f);
}

static void link_take(struct link *k, const struct link_frame *f)
{
    if (f->kind == LINK_BYE)
        take_bye(k, f);
    else if (k->state == LINK_GREETING)
        take_hello(k, f);
    else if (k->state == LINK_PROVING)
        take_proof(k, f);
    else
        take_up(k, f);
}

static void take_frames(struct link *k, struct str *bytes)
{
    struct link_frame f;
    while (k->state != LINK_ENDED) {
        size_t most = k->state == LINK_UP ? LINK_MOST : LINK_MOST_STRANGER;
        enum link_reading how = link_read(bytes, most, &f);
        if (how == LINK_SHORT)
            return;
        if (how == LINK_READ)
            link_take(k, &f);
        else
            link_close(k, LINK_END_BROKEN, "a frame that no node sends");
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct link *k = handle->data;
    (void)suggested;
    *buf = uv_buf_init(k->links->read, sizeof k->links->read);
}

/* The dialler speaks first, in TLS or not. */
static void take_first(struct link *k, char first)
{
    k->listens = false;
    if (first == LINK_TLS_FIRST)
        link_tls_begin(k);
    else if (k->links->o.tls)
        link_refuse(k, "it does not encrypt: cluster.tls is set at one end alone");
}

/* Whole frames are taken where they were read; only a beginning is kept. */
static void take_bytes(struct link *k, struct str bytes)
{
    struct buf kept = k->in;
    k->in = (struct buf){0};
    if (kept.len > 0) {
        buf_putstr(&kept, bytes);
        bytes = buf_str(&kept);
    }
    take_frames(k, &bytes);
    if (k->state != LINK_ENDED && bytes.n > 0 && bytes.p == kept.bytes) {
        k->in = kept;
        return;
    }
    if (k->state != LINK_ENDED && bytes.n > 0)
        buf_putstr(&k->in, bytes);
    buf_done(&kept);
}

static void take_sealed(struct link *k, struct str bytes)
{
    struct buf opened = k->opened;
    k->opened = (struct buf){0};
    const char *why = link_tls_take(k, bytes, &opened);
    if (opened.len > 0)
        take_bytes(k, buf_str(&opened));
    if (why && k->state != LINK_ENDED)
        link_close(k, LINK_END_REFUSED, why);
    buf_clear(&opened);
    k->opened = opened;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *from)
{
    struct link *k = stream->data;
    if (n < 0) {
        link_close(k, LINK_END_CLOSED,
                   n == UV_EOF ? "the other node closed it" : uv_strerror((int)n));
        return;
    }
    k->heard_ms = k->links->o.hub->clock.now_ms;
    k->links->stats.bytes_in += (uint64_t)n;
    struct str bytes = {from->base, (size_t)n};
    if (k->listens && n > 0)
        take_first(k, *from->base);
    if (k->state == LINK_ENDED)
        return;
    if (k->tls)
        take_sealed(k, bytes);
    else
        take_bytes(k, bytes);
}

/* --- its life --------------------------------------------------------------------------------- */

static void on_link_timer(struct timer *timer)
{
    struct link *k = container_of(timer, struct link, timer);
    struct clock *c = &k->links->o.hub->clock;
    if (k->state != LINK_UP) {
        link_close(k, LINK_END_SILENT, "no handshake within 10 s");
        return;
    }
    if (c->now_ms - k->heard_ms >= LINK_SILENT_MS) {
        link_close(k, LINK_END_SILENT, "it says nothing");
        return;
    }
    if (!k->pinged_ns) {
        k->pinged_ns = uv_hrtime();
        link_say(k, &(struct link_frame){.kind = LINK_PING});
    }
    timer_arm(c, &k->timer, c->now_ms + LINK_PING_MS);
}

static void link_begins(struct link *k)
{
    (void)uv_tcp_nodelay(&k->tcp, 1);
    if (k->peer && k->links->o.tls)
        link_tls_begin(k);
    say_hello(k);
    if (uv_read_start((uv_stream_t *)&k->tcp, on_alloc, on_read) < 0)
        link_close(k, LINK_END_CLOSED, "it cannot be read");
}

void link_accept(struct link *k)
{
    snprintf(k->name, sizeof k->name, "a stranger");
    k->listens = true;
    link_begins(k);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct link *k = connect->data;
    if (k->state == LINK_ENDED)
        return;
    if (status < 0)
        link_close(k, LINK_END_CLOSED, uv_strerror(status));
    else
        link_begins(k);
}

void link_dial(struct link *k, const struct sockaddr *to)
{
    snprintf(k->name, sizeof k->name, "%s", k->peer->node);
    k->connecting.data = k;
    int status = uv_tcp_connect(&k->connecting, &k->tcp, to, on_connected);
    if (status < 0)
        link_close(k, LINK_END_CLOSED, uv_strerror(status));
}
