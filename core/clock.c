#include "core/clock.h"

#include <stdlib.h>

void clock_init(struct clock *c)
{
    *c = (struct clock){0};
}

void clock_done(struct clock *c)
{
    free(c->heap);
    c->heap = NULL;
}

void clock_set(struct clock *c, msec_t now_ms, int64_t wall_ms)
{
    if (wall_ms < c->wall_ms)
        c->set_back_ms += c->wall_ms - wall_ms;
    c->now_ms = now_ms;
    c->wall_ms = wall_ms;
}

static void set(struct clock *c, size_t at, struct timer *t)
{
    c->heap[at] = t;
    t->at = at + 1;
}

static void sift_up(struct clock *c, size_t at)
{
    struct timer *t = c->heap[at];
    while (at > 0 && t->due < c->heap[(at - 1) / 2]->due) {
        set(c, at, c->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    set(c, at, t);
}

static void sift_down(struct clock *c, size_t at)
{
    struct timer *t = c->heap[at];
    for (;;) {
        size_t kid = at * 2 + 1;
        if (kid >= c->n)
            break;
        if (kid + 1 < c->n && c->heap[kid + 1]->due < c->heap[kid]->due)
            kid++;
        if (t->due <= c->heap[kid]->due)
            break;
        set(c, at, c->heap[kid]);
        at = kid;
    }
    set(c, at, t);
}

void timer_disarm(struct clock *c, struct timer *t)
{
    if (!t->at)
        return;
    size_t at = t->at - 1;
    t->at = 0;
    struct timer *last = c->heap[--c->n];
    if (last == t)
        return;
    set(c, at, last);
    sift_up(c, at);
    sift_down(c, last->at - 1);
}

void timer_arm(struct clock *c, struct timer *t, msec_t due)
{
    timer_disarm(c, t);
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 64;
        c->heap = xrealloc(c->heap, c->cap * sizeof(struct timer *));
    }
    t->due = due;
    set(c, c->n++, t);
    sift_up(c, c->n - 1);
}

void clock_run(struct clock *c)
{
    while (c->n && c->heap[0]->due <= c->now_ms) {
        struct timer *t = c->heap[0];
        timer_disarm(c, t);
        t->fire(t);
    }
}

msec_t clock_next(const struct clock *c)
{
    if (c->n == 0)
        return -1;
    return c->heap[0]->due > c->now_ms ? c->heap[0]->due - c->now_ms : 0;
}
