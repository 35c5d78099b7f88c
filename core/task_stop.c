/* How a task is stopped: asked, then by force; and the clocks that ask. */
#include "core/task.h"

#include <stdio.h>

#define FORCE_MS 2000 /* behind a kill: then the task ends without waiting for the run */

void task_stop(struct task *t, enum task_error why, const char *text)
{
    if (task_is_ending(t))
        return;
    if (t->stopping == TASK_OK) {
        t->stopping = why;
        t->stop_text = xstrdup(str_of(text));
    }
    if (!t->run) {
        task_finish(t, STATUS_FAILED, t->stopping, str_of(t->stop_text));
        return;
    }
    if (timer_is_armed(&t->grace))
        return; /* it was asked already */
    timer_arm(&t->hub->clock, &t->grace, t->hub->clock.now_ms + t->agent->grace_ms);
    t->agent->ops->cancel(t->run);
}

static void on_grace(struct timer *timer)
{
    struct task *t = container_of(timer, struct task, grace);
    if (!t->killed) {
        t->killed = true;
        timer_arm(&t->hub->clock, &t->grace, t->hub->clock.now_ms + FORCE_MS);
        t->agent->ops->kill(t->run);
        return;
    }
    task_stop_run(t); /* it cannot even be killed: the task ends all the same */
    task_stop(t, t->stopping, t->stop_text);
}

static void on_timeout(struct timer *timer)
{
    struct task *t = container_of(timer, struct task, timeout);
    char text[96];
    snprintf(text, sizeof text, "timeout: no end within %lld s",
             (long long)(t->agent->timeout_ms / 1000));
    task_stop(t, TASK_TIMEOUT, text);
}

static void on_idle(struct timer *timer)
{
    struct task *t = container_of(timer, struct task, idle);
    msec_t due = t->heard_ms + t->agent->idle_timeout_ms;
    bool waits = t->run && t->agent->ops->waits && t->agent->ops->waits(t->run);
    if (waits || !list_is_empty(&t->tools) ||
        task_has_children(t)) /* it waits: the clock stands still */
        due = t->hub->clock.now_ms + t->agent->idle_timeout_ms;
    if (due > t->hub->clock.now_ms) {
        timer_arm(&t->hub->clock, &t->idle, due);
        return;
    }
    char text[96];
    snprintf(text, sizeof text, "timeout: no event for %lld s",
             (long long)(t->agent->idle_timeout_ms / 1000));
    task_stop(t, TASK_TIMEOUT, text);
}

void task_init_clocks(struct task *t)
{
    t->timeout.fire = on_timeout;
    t->idle.fire = on_idle;
    t->grace.fire = on_grace;
}

void task_arm_clocks(struct task *t)
{
    struct clock *c = &t->hub->clock;
    t->heard_ms = c->now_ms;
    if (t->agent->timeout_ms)
        timer_arm(c, &t->timeout, c->now_ms + t->agent->timeout_ms);
    if (t->agent->idle_timeout_ms)
        timer_arm(c, &t->idle, c->now_ms + t->agent->idle_timeout_ms);
}

void task_stand_clocks(struct task *t, bool stand)
{
    struct clock *c = &t->hub->clock;
    if (stand == t->clocks_stand || !t->run)
        return;
    t->clocks_stand = stand;
    if (stand) {
        t->timeout_left = timer_is_armed(&t->timeout) ? t->timeout.due - c->now_ms : 0;
        timer_disarm(c, &t->timeout);
        timer_disarm(c, &t->idle);
        return;
    }
    t->heard_ms = c->now_ms;
    if (t->timeout_left > 0)
        timer_arm(c, &t->timeout, c->now_ms + t->timeout_left);
    if (t->agent->idle_timeout_ms)
        timer_arm(c, &t->idle, c->now_ms + t->agent->idle_timeout_ms);
}
