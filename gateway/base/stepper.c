#include "gateway/base/stepper.h"

static void stepper_on_idle(uv_idle_t *idle)
{
    struct stepper *s = idle->data;
    s->step(s->arg);
}

static void stepper_on_timer(uv_timer_t *timer)
{
    struct stepper *s = timer->data;
    uint64_t now = uv_now(timer->loop);
    s->due += (1 + (now - s->due) / s->pace_ms) * s->pace_ms;
    uv_timer_start(timer, stepper_on_timer, s->due - now, 0);
    s->step(s->arg);
}

static void on_close(uv_handle_t *handle)
{
    struct stepper *s = handle->data;
    s->closed(s->arg);
}

void stepper_init(struct stepper *s, uv_loop_t *loop, unsigned pace_ms, stepper_fn step, void *arg)
{
    *s = (struct stepper){.pace_ms = pace_ms, .step = step, .arg = arg};
    if (pace_ms)
        uv_timer_init(loop, &s->handle.timer);
    else
        uv_idle_init(loop, &s->handle.idle);
    s->handle.any.data = s;
}

void stepper_start(struct stepper *s)
{
    if (s->pace_ms) {
        s->due = uv_now(s->handle.any.loop);
        uv_timer_start(&s->handle.timer, stepper_on_timer, 0, 0);
    } else {
        uv_idle_start(&s->handle.idle, stepper_on_idle);
    }
}

void stepper_stop(struct stepper *s)
{
    if (s->pace_ms)
        uv_timer_stop(&s->handle.timer);
    else
        uv_idle_stop(&s->handle.idle);
}

void stepper_close(struct stepper *s, stepper_fn closed)
{
    s->closed = closed;
    uv_close(&s->handle.any, on_close);
}
