/* Which instance gets which run.  Fair among owners: a place goes to the owner with the fewest runs
 * at workers, and among those to the run that has waited longest. */
#include <stdlib.h>

#include "gateway/agents/workers_private.h"
#include "proto/str.h"

static bool serves(const struct instance *i, const char *agent)
{
    for (size_t at = 0; at < i->agents.len; at += strlen(i->agents.bytes + at) + 1)
        if (strcmp(i->agents.bytes + at, agent) == 0)
            return true;
    return false;
}

/* Or may have one: it has to be asked for. */
static bool has_place(const struct instance *i)
{
    const struct worker *w = i->worker;
    bool some = i->wire.ask ? i->places > 0 || !i->asked : i->n_runs < i->most;
    return i->is_here && !i->drains && !w->draining && some && w->n_runs < w->config->runs;
}

/* The one with the smallest part of its places taken; among equals, the one that was given a run
 * longest ago.  NULL: none has a place. */
static struct instance *find_place(struct workers *w, const char *agent)
{
    struct instance *best = NULL;
    list_each (it, &w->instances) {
        struct instance *i = list_item(it, struct instance, all);
        if (!has_place(i) || !serves(i, agent))
            continue;
        if (!best || (uint64_t)i->n_runs * best->most < (uint64_t)best->n_runs * i->most)
            best = i;
    }
    return best;
}

/* The run that is next for an instance, of those that wait. */
static bool place_next(struct workers *w, struct run **ret_run, struct instance **ret_instance)
{
    const char *known[16] = {NULL}; /* agents that were looked up: with a place, or without one */
    struct instance *places[countof(known)];
    size_t n = 0;
    struct run *best = NULL;
    list_each (it, &w->waiting) {
        struct run *r = list_item(it, struct run, at);
        if (best && best->share->given <= r->share->given)
            continue;
        size_t k = 0;
        while (k < n && known[k] != r->agent->name)
            k++;
        struct instance *i = k < n ? places[k] : find_place(w, r->agent->name);
        if (k == n && n < countof(known)) {
            known[n] = r->agent->name;
            places[n++] = i;
        }
        if (!i)
            continue;
        best = r;
        *ret_instance = i;
        if (r->share->given == 0)
            break;
    }
    *ret_run = best;
    return best != NULL;
}

/* False: it comes later, if at all; until then the instance has none. */
static bool take_place_of(struct instance *i)
{
    if (!i->wire.ask)
        return true;
    if (i->places == 0) {
        i->asked = true;
        if (!i->wire.ask(i->wire.arg))
            return false;
        i->asked = false;
        i->places = 1;
    }
    i->places--;
    return true;
}

/* Other homes may need those for which no run is left. */
static void give_back(struct workers *w)
{
    list_each (it, &w->instances) {
        struct instance *i = list_item(it, struct instance, all);
        uint32_t n = i->places;
        i->places = 0;
        if (n > 0 && i->is_here)
            i->wire.release(i->wire.arg, n);
    }
}

void places_give(struct workers *w)
{
    struct run *r;
    struct instance *i;
    while (!list_is_empty(&w->waiting) && place_next(w, &r, &i)) {
        if (!take_place_of(i))
            continue;
        place_leave(r);
        list_remove(&i->all);
        list_push(&w->instances, &i->all);
        run_give(r, i);
    }
    give_back(w);
}

static void on_due(struct timer *timer)
{
    places_give(container_of(timer, struct workers, due));
}

void places_due(struct workers *w)
{
    w->due.fire = on_due;
    timer_arm(&w->hub->clock, &w->due, w->hub->clock.now_ms);
}

void place_wait(struct run *r, bool first)
{
    struct workers *w = r->workers;
    if (first)
        list_push_front(&w->waiting, &r->at);
    else
        list_push(&w->waiting, &r->at);
    r->place = RUN_WAITING;
    w->n_waiting++;
    if (r->agent->wait_ms)
        timer_arm(&w->hub->clock, &r->timer, w->hub->clock.now_ms + r->agent->wait_ms);
}

void place_leave(struct run *r)
{
    list_remove(&r->at);
    r->workers->n_waiting -= r->place == RUN_WAITING;
    r->place = RUN_NOWHERE;
    timer_disarm(&r->workers->hub->clock, &r->timer);
}
