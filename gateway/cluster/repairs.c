#include "gateway/cluster/repairs.h"

#include "core/backoff.h"

#define AGAIN_FIRST_MS 1000
#define AGAIN_MOST_MS 60000

void repairs_init(struct repairs *r)
{
    *r = (struct repairs){.width = N_SLOTS};
}

void repairs_add(struct repairs *r, unsigned slot)
{
    slots_add(&r->waiting, slot);
}

void repairs_forget(struct repairs *r, unsigned slot)
{
    slots_take(&r->waiting, slot);
    slots_take(&r->failed, slot);
    slots_take(&r->unrepaired, slot);
}

void repairs_next(struct repairs *r)
{
    unsigned n = 0;
    r->going = (struct slots){0};
    for (unsigned i = 0; i < N_SLOTS && n < r->width; i++) {
        unsigned slot = (r->from + i) % N_SLOTS;
        if (!slots_has(&r->waiting, slot))
            continue;
        slots_take(&r->waiting, slot);
        slots_add(&r->going, slot);
        n++;
    }
}

static unsigned first_of(const struct slots *s)
{
    unsigned slot = 0;
    while (!slots_has(s, slot))
        slot++;
    return slot;
}

static void leave_out(struct repairs *r, const struct slots *slots, msec_t now)
{
    slots_add_those(&r->failed, slots);
    slots_add_those(&r->unrepaired, slots);
    if (r->due_at <= now)
        r->due_at = now + backoff_ms(++r->n_tries, AGAIN_FIRST_MS, AGAIN_MOST_MS);
}

static bool failed_alone(struct repairs *r, const struct slots *closed, msec_t now)
{
    unsigned before = slots_count(&r->unrepaired);
    r->from = (first_of(closed) + 1) % N_SLOTS;
    leave_out(r, closed, now);
    if (++r->n_alone == REPAIRS_ALONE) {
        leave_out(r, &r->waiting, now);
        r->waiting = (struct slots){0};
        r->n_alone = 0;
    }
    return slots_count(&r->unrepaired) > before;
}

bool repairs_done(struct repairs *r, const struct slots *closed, msec_t now)
{
    unsigned n = slots_count(&r->going), n_closed = slots_count(closed);
    r->going = (struct slots){0};
    if (n_closed == 0) {
        r->width = r->width < N_SLOTS / 2 ? r->width * 2 : N_SLOTS;
        r->n_alone = n > 0 ? 0 : r->n_alone;
        return false;
    }
    r->width = n > 1 ? n / 2 : 1;
    if (n == 1)
        return failed_alone(r, closed, now);
    slots_add_those(&r->waiting, closed);
    return false;
}

void repairs_look(struct repairs *r, msec_t now)
{
    if (slots_count(&r->failed) == 0 || now < r->due_at)
        return;
    slots_add_those(&r->waiting, &r->failed);
    r->failed = (struct slots){0};
}

bool repairs_take_open(struct repairs *r, const struct slots *open)
{
    unsigned before = slots_count(&r->unrepaired);
    slots_less(&r->unrepaired, open);
    if (slots_count(&r->unrepaired) == 0)
        r->n_tries = 0;
    return slots_count(&r->unrepaired) < before;
}
