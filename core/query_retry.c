#include "core/query_retry.h"

#include <stdlib.h>

#include "core/backoff.h"

#define RETRY_FIRST_MS 10
#define RETRY_MOST_MS 1000

struct retry {
    struct list node; /* in the hub's, while the timer runs */
    struct hub *hub;
    struct query query;
    store_query_fn done;
    void *arg;
    struct timer again;
    uint64_t tries;
};

static void retry_answered(void *arg, int status, struct answer *answer);

static void on_retry_due(struct timer *timer)
{
    struct retry *r = container_of(timer, struct retry, again);
    list_remove(&r->node);
    hub_query(r->hub, &r->query, retry_answered, r);
}

static void retry_later(struct retry *r, msec_t wait)
{
    struct clock *c = &r->hub->clock;
    list_push(&r->hub->retries, &r->node);
    timer_arm(c, &r->again, c->now_ms + wait);
}

static bool may_pass(const struct hub *h, int status)
{
    return store_may_pass(status) && h->o.shared && !h->closing;
}

static void retry_answered(void *arg, int status, struct answer *answer)
{
    struct retry *r = arg;
    if (may_pass(r->hub, status)) {
        retry_later(r, backoff_ms(++r->tries, RETRY_FIRST_MS, RETRY_MOST_MS));
        return;
    }
    r->done(r->arg, status, answer);
    free(r);
}

static struct retry *retry_new(struct hub *h, const struct query *q, store_query_fn done, void *arg)
{
    struct retry *r = xcalloc(sizeof *r);
    *r =
        (struct retry){.hub = h, .query = *q, .done = done, .arg = arg, .again.fire = on_retry_due};
    return r;
}

void query_retry(struct hub *h, const struct query *q, store_query_fn done, void *arg)
{
    struct retry *r = retry_new(h, q, done, arg);
    hub_query(h, &r->query, retry_answered, r);
}

void query_retry_in(struct hub *h, msec_t wait, const struct query *q, store_query_fn done,
                    void *arg)
{
    retry_later(retry_new(h, q, done, arg), wait);
}

void query_retries_done(struct hub *h)
{
    struct list *node;
    while ((node = list_pop(&h->retries)) != NULL) {
        struct retry *r = list_item(node, struct retry, node);
        timer_disarm(&h->clock, &r->again);
        retry_answered(r, STORE_IO, &(struct answer){0});
    }
}
