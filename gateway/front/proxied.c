#include "gateway/front/proxied.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/front/address.h"
#include "gateway/front/listener.h"
#include "gateway/front/proxy_header.h"

#define HEADER_MS 5000
#define HEADER_TOLD_BY 6 /* bytes: no method of HTTP begins like these, nor does TLS */

struct greeting {
    struct list all;
    struct front *front;
    struct timer deadline;
    uv_poll_t poll;
    int fd;       /* -1: handed over */
    bool trusted; /* a header is due; otherwise there must be none */
    size_t n;
    char bytes[PROXY_HEADER_MAX];
};

static void proxied_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Gives the descriptor to the caller. */
static int let_go(struct greeting *g)
{
    int fd = g->fd;
    g->fd = -1;
    list_remove(&g->all);
    g->front->n_greetings--;
    timer_disarm(&g->front->hub->clock, &g->deadline);
    uv_close((uv_handle_t *)&g->poll, proxied_on_closed);
    return fd;
}

static void proxied_refuse(struct greeting *g, const char *why)
{
    g->front->refusals[REFUSED_PROXY]++;
    log_event_limited(LEVEL_WARN, "proxy", "refused", LOG_TEXT("why", why));
    close(let_go(g));
}

static void on_deadline(struct timer *timer)
{
    proxied_refuse(container_of(timer, struct greeting, deadline), "no header arrived in time");
}

static void hand_over(struct greeting *g, bool says_who, const struct net_address *client)
{
    struct front *f = g->front;
    listener_take(f, let_go(g), says_who ? client : NULL);
}

/* Wakes the poll when there are more bytes than these, which are examined but not taken. */
static void wait_for(struct greeting *g, size_t n)
{
    int low = (int)n;
    setsockopt(g->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
}

/* For a peer that may not speak for others: anything that begins like a header is no request. */
static void look_for_none(struct greeting *g, struct str seen, enum proxy_verdict verdict)
{
    if (verdict == PROXY_BAD) {
        wait_for(g, 1);
        hand_over(g, false, NULL);
    } else if (seen.n >= HEADER_TOLD_BY || verdict == PROXY_DONE) {
        proxied_refuse(g, "a header from a peer that is not a trusted proxy");
    } else {
        wait_for(g, seen.n + 1);
    }
}

/* Examines the available bytes, and takes the header; the rest is not ours. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct greeting *g = poll->data;
    struct net_address client;
    bool says_who = false;
    size_t whole = 0;
    (void)status;
    (void)events;
    ssize_t n = recv(g->fd, g->bytes + g->n, sizeof g->bytes - g->n, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        proxied_refuse(g, "the header is cut off");
        return;
    }
    size_t seen = g->n + (size_t)n;
    enum proxy_verdict verdict =
        proxy_header_read((struct str){g->bytes, seen}, &whole, &says_who, &client);
    if (!g->trusted) {
        look_for_none(g, (struct str){g->bytes, seen}, verdict);
        return;
    }
    if (verdict == PROXY_BAD || (verdict == PROXY_MORE && seen == sizeof g->bytes)) {
        proxied_refuse(g, "the connection begins without a header");
        return;
    }
    size_t ours = (verdict == PROXY_DONE ? whole : seen) - g->n;
    if (recv(g->fd, g->bytes + g->n, ours, 0) != (ssize_t)ours) { /* it was there a moment ago */
        proxied_refuse(g, "the header cannot be read");
        return;
    }
    g->n += ours;
    if (verdict == PROXY_DONE)
        hand_over(g, says_who, &client);
}

bool proxied_accept(struct front *f, int fd)
{
    if (!f->config->proxy_protocol)
        return false;
    struct net_address peer;
    struct greeting *g = xcalloc(sizeof *g);
    g->trusted = net_of_peer(fd, &peer) && address_is_trusted(f, &peer);
    g->front = f;
    g->fd = fd;
    if (uv_poll_init(f->loop, &g->poll, fd) < 0) {
        close(fd);
        free(g);
        return true;
    }
    g->poll.data = g;
    g->deadline.fire = on_deadline;
    list_push(&f->greetings, &g->all);
    f->n_greetings++;
    timer_arm(&f->hub->clock, &g->deadline, f->hub->clock.now_ms + HEADER_MS);
    uv_poll_start(&g->poll, UV_READABLE, on_readable);
    return true;
}

const struct net_address *proxied_client(struct lws *wsi)
{
    const struct peer *p = lws_get_opaque_user_data(wsi);
    return p ? p->named : NULL;
}

void proxied_close_all(struct front *f)
{
    list_each (it, &f->greetings)
        close(let_go(list_item(it, struct greeting, all)));
}
