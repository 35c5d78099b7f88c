/* stepper -- calls a function once in each turn of the loop, or every so many milliseconds, until
 * it is told to stop.
 *
 * Pace:     a step that comes late does not put off those behind it; what a busy loop missed is
 *           left out.  (A repeating timer of libuv's counts from when it was late, so that in time
 *           all of them come in step.)
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
        uv_idle_t idle;   /* pace_ms 0 */
        uv_timer_t timer; /* else */
    } handle;
    unsigned pace_ms;
    uint64_t due; /* of the step that comes next, in the loop's time */
    stepper_fn step, closed;
    void *arg;
};

void stepper_init(struct stepper *s, uv_loop_t *loop, unsigned pace_ms, stepper_fn step, void *arg);
/* The first step comes soon, never from inside the call, whatever the pace; also when it runs
 * already. */
void stepper_start(struct stepper *s);
void stepper_stop(struct stepper *s);
/* No step comes any more; closed does, once, in a later turn. */
void stepper_close(struct stepper *s, stepper_fn closed);

#endif
