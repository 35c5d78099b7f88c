/* The server as one of several processes that share a port. */
#include "gateway/crew/crew.h"
#include "gateway/crew/crew_page.h"
#include "gateway/links/neighbours.h"
#include "gateway/metrics.h"
#include "gateway/server.h"

bool server_is_front(const struct server *s)
{
    return s->member && s->member->is_front;
}

bool server_is_ahead(void *arg)
{
    const struct server *s = arg;
    return crew_page_is_ahead(s->member->page, s->member->at, s->front.n_wsi);
}

static void tell_sockets(const struct server *s)
{
    bool accepts = s->front.phase == FRONT_SERVING && !s->front.is_cut_off;
    crew_page_count(s->member->page, s->member->at, accepts ? s->front.n_wsi : CREW_ACCEPTS_NONE);
}

void server_publish_metrics(struct server *s)
{
    struct buf text = {0};
    if (!s->member)
        return;
    metrics_write(s, &text);
    crew_page_put(s->member->page, s->member->at, buf_str(&text));
    buf_done(&text);
}

void server_put_metrics(void *arg, struct buf *out)
{
    struct server *s = arg;
    server_publish_metrics(s);
    if (s->member)
        crew_page_read(s->member->page, out);
    else
        metrics_write(s, out);
}

bool server_waits_for_home(const struct server *s)
{
    return server_is_front(s) && !s->abandoned && neighbours_reach_home(s->neighbours);
}

/* A front is of no use without its home.  A node has owners of its own: it waits only while others
 * take the clients, and no longer than a node can be gone without being taken over. */
static bool may_begin(const struct server *s)
{
    if (server_is_front(s))
        return !s->front.is_cut_off;
    ASSERT(s->member); /* who awaits others is one of a crew */
    return neighbours_reach_all(s->neighbours) ||
           !crew_page_others_accept(s->member->page, s->member->at) ||
           s->hub.clock.now_ms - s->awaits_since >= (msec_t)s->config->cluster.lease_s * 1000;
}

bool server_awaits_others(struct server *s)
{
    s->awaits_others = s->member && !s->member->is_home;
    s->awaits_since = s->hub.clock.now_ms;
    return s->awaits_others;
}

bool server_reaches_others(struct server *s)
{
    if (s->member)
        tell_sockets(s);
    if (server_is_front(s))
        s->front.is_cut_off = !neighbours_reach_home(s->neighbours);
    bool begins = s->awaits_others && may_begin(s);
    s->awaits_others = s->awaits_others && !begins;
    return begins;
}
