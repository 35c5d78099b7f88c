/* clock -- the injected clock, and timers that core's owner runs.
 *
 * Shape:    core never asks the system for the time: struct clock holds what its owner set at the
 *           start of the turn.  Timers are a binary heap; clock_run fires those that are due, and
 *           clock_next returns when the next one is, so that the owner needs one timer of its own.
 * Units:    now_ms is monotonic; wall_ms is Unix time, only for people and records (F40: a jump of
 *           the wall clock moves no time-out).
 * Thread:   loop.
 * Owns:     nothing: timers are embedded in their users, which disarm them before they are freed.
 */
#ifndef CORE_CLOCK_H
#define CORE_CLOCK_H

#include "proto/base.h"

struct timer {
    msec_t due;
    size_t at; /* 1 + position in the heap; 0 when not armed */
    void (*fire)(struct timer *timer);
};

struct clock {
    msec_t now_ms;
    int64_t wall_ms;
    int64_t set_back_ms; /* by how much the wall clock was set back, in all */
    struct timer **heap;
    size_t n, cap;
};

void clock_init(struct clock *c);
void clock_done(struct clock *c);
void clock_set(struct clock *c, msec_t now_ms, int64_t wall_ms); /* at the start of a turn */
/* Arms or moves a timer whose owner has set fire.  It fires in the first clock_run at which now_ms
 * has reached due; a timer may arm itself and others while it fires. */
void timer_arm(struct clock *c, struct timer *t, msec_t due);
void timer_disarm(struct clock *c, struct timer *t);
static inline bool timer_is_armed(const struct timer *t)
{
    return t->at != 0;
}
void clock_run(struct clock *c);
/* Milliseconds until the next timer is due, 0 when one is; -1 when none is armed. */
msec_t clock_next(const struct clock *c);

#endif
