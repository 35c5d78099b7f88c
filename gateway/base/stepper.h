/* stepper -- calls a function once in each turn of the loop, or at a fixed interval, until it is
 * stopped.
 *
 * Pace:     a late step does not delay the following ones; steps that a busy loop missed are
 *           skipped. (A repeating timer of libuv counts from the late one, so that over time all
 *           timers fire together.)
 * Why:      a timer of 0 ms that starts itself again fires again in the same turn of the loop
 *           (libuv 1.44), and nothing else runs; an idle handle fires once a turn.
 * Thread:   loop.
 * Owns:     its handle, until closed was called: then the memory is the owner's again.
 */
#ifndef GATEWAY_BASE_STEPPER_H
#define GATEWAY_BASE_STEPPER_H

#include <uv.h>

#include "proto/base.h"

typedef void (*stepper_fn)(void *arg);

struct stepper {
    union {
        uv_handle_t any;
        uv_idle_t idle;   /* for pace_ms 0 */
        uv_timer_t timer; /* for any other pace */
    } handle;
    unsigned pace_ms;
    uint64_t due; /* when the next step is due, in the loop's time */
    stepper_fn step, closed;
    void *arg;
};

void stepper_init(struct stepper *s, uv_loop_t *loop, unsigned pace_ms, stepper_fn step, void *arg);
/* The first step comes soon, never from inside the call, whatever the pace; this holds even when
 * the stepper already runs. */
void stepper_start(struct stepper *s);
void stepper_stop(struct stepper *s);
/* Ends all steps; closed is called once, in a later turn. */
void stepper_close(struct stepper *s, stepper_fn closed);

#endif
