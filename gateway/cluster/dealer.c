#include "gateway/cluster/dealer.h"

#define KEPT_OF_SHARE 4 /* a node keeps that part of its share of slots, however busy it is */

/* --- what slots weigh ------------------------------------------------------------------------- */

static void measure_slot(struct dealer *d, unsigned slot, const struct slot_use *use, float seconds)
{
    float now = (float)(use->events - d->events[slot]) / seconds;
    float part = seconds * 1000 / (seconds * 1000 + (float)d->patience);
    d->rates[slot] += (now - d->rates[slot]) * part;
    d->events[slot] = use->events;
}

/* Below DEALER_QUIET it falls silent at half of that, so that it does not flutter there. */
void dealer_measure(struct dealer *d, const struct slot_use use[N_SLOTS], const struct slots *ours,
                    msec_t now)
{
    uint64_t load = 0;
    bool measures = now > d->measured_at;
    float seconds = (float)(now - d->measured_at) / 1000;
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (measures)
            measure_slot(d, i, &use[i], seconds);
        d->weights[i] = 1 + use[i].tasks * DEALER_TASK + (uint32_t)d->rates[i];
        load += slots_has(ours, i) ? d->weights[i] - 1 : 0;
    }
    d->measured_at = now;
    bool is_quiet = load < (d->told ? DEALER_QUIET / 2 : DEALER_QUIET);
    d->told = is_quiet || d->percent == 0 ? 0 : load > UINT32_MAX ? UINT32_MAX : (uint32_t)load;
}

/* --- how much goes ---------------------------------------------------------------------------- */

static struct dealt by_number(const struct store_deal *all)
{
    unsigned more = all->have > all->share ? all->have - all->share : 0;
    return (struct dealt){.weight = more, .idle = more, .by_number = true};
}

/* The lightest has not even half of the mean, and not half of its share of slots: it has just come,
 * and has not caught up. */
static bool somebody_waits(const struct store_deal *all)
{
    return all->least * 2 * (int64_t)all->n < all->sum && all->fewest < N_SLOTS / all->n / 2;
}

static bool is_uneven(struct dealer *d, const struct store_deal *all, msec_t now)
{
    int64_t n = (int64_t)all->n;
    if (somebody_waits(all))
        return true;
    if (all->weight * n * 100 <= all->sum * (100 + (int64_t)d->percent)) {
        d->uneven_since = 0;
        return false;
    }
    if (d->uneven_since == 0)
        d->uneven_since = now;
    return now - d->uneven_since >= d->patience;
}

static void dealer_end(struct dealer *d, msec_t now)
{
    d->left = 0;
    d->begun_at = d->uneven_since = 0;
    d->looks_after = now + d->patience;
}

static struct dealt by_load(struct dealer *d, const struct store_deal *all, msec_t now)
{
    struct dealt ret = {0};
    unsigned fair = N_SLOTS / all->n, kept = fair / KEPT_OF_SHARE;
    int64_t above = all->weight - all->sum / (int64_t)all->n;
    if (d->begun_at && (d->left <= 0 || now - d->begun_at > d->patience))
        dealer_end(d, now);
    if (!d->begun_at) {
        if (now < d->looks_after || above <= 0 || !is_uneven(d, all, now))
            return ret;
        d->begun_at = now;
        d->left = above;
    }
    ret.weight = d->left;
    ret.idle = all->have > fair ? all->have - fair : 0;
    ret.idle_too = all->have > kept ? all->have - kept : 0;
    return ret;
}

struct dealt dealer_look(struct dealer *d, const struct store_view *v, int64_t us, msec_t now)
{
    struct store_deal all;
    store_view_deal(v, us, &all);
    if (all.by_load && all.share > 0)
        return by_load(d, &all, now);
    d->begun_at = d->uneven_since = 0;
    d->left = 0;
    return by_number(&all);
}

/* --- which ------------------------------------------------------------------------------------ */

/* As many as weigh no more than that in all, and at most so many; their weight. */
static int64_t pick(const struct dealer *d, const struct dealt *dealt, const struct slots *among,
                    int64_t weight, unsigned most, struct slots *ret)
{
    int64_t sum = 0;
    *ret = (struct slots){0};
    for (unsigned i = 0; i < N_SLOTS && most > 0; i++) {
        int64_t w = dealt->by_number ? 1 : d->weights[i];
        if (!slots_has(among, i) || sum + w > weight)
            continue;
        slots_add(ret, i);
        sum += w;
        most--;
    }
    return sum;
}

void dealer_choose(struct dealer *d, const struct dealt *dealt, const struct choices *among,
                   bool may_close, struct slots *ret_go, struct slots *ret_close)
{
    int64_t gone = pick(d, dealt, &among->idle, dealt->weight, dealt->idle, ret_go);
    int64_t left = dealt->weight - gone, closed = 0;
    *ret_close = (struct slots){0};
    if (may_close)
        closed = pick(d, dealt, &among->read, left, DEALER_CLOSES, ret_close);
    if (may_close && closed == 0)
        closed = pick(d, dealt, &among->live, left, DEALER_PARTS, ret_close);
    if (may_close && gone + closed == 0)
        gone = pick(d, dealt, &among->idle, left, dealt->idle_too, ret_go);
    d->left -= gone + closed;
}
