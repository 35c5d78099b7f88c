/* The requests about a task's webhooks. */
#include "core/call.h"
#include "core/task_parts.h"

static void on_set(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0) {
        call_write_failed(c);
        return;
    }
    struct buf line = {0};
    reply_begin(c, &line, "webhook");
    js_put_raw(&line, "webhook", buf_str(&c->out));
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

static void on_set_late(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (!call_is_absent(c, status))
        call_fail(c, ERR_TASK_TERMINATED, "the task has ended");
}

void verb_webhook(struct call *c)
{
    struct task *t = call_live_task(c);
    const char *id = NULL;
    if (!t || task_is_ending(t)) {
        call_ask_task(c, on_set_late);
        return;
    }
    const char *why = task_add_hook(t, c->req.webhook_id, c->req.webhook, &id);
    if (why) {
        call_fail(c, t->hub->o.limits.task_webhooks ? ERR_OVERLOADED : ERR_UNSUPPORTED, why);
        return;
    }
    hook_put(&c->out, id, c->req.webhook);
    call_wait(c, on_set);
}

static void reply_webhooks(struct call *c, const struct task *t)
{
    struct buf line = {0};
    reply_begin(c, &line, "webhooks");
    js_put_raw(&line, "webhooks", STR("["));
    if (t)
        task_put_hooks(t, &line);
    buf_puts(&line, "]}");
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

static void webhooks_looked_up(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (!call_is_absent(c, status))
        reply_webhooks(c, call_live_task(c)); /* those of a task that has ended are gone */
}

void verb_webhooks(struct call *c)
{
    struct task *t = call_live_task(c);
    if (t)
        reply_webhooks(c, t);
    else
        call_ask_task(c, webhooks_looked_up);
}

static void on_delete_late(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (!call_is_absent(c, status))
        call_ok(c);
}

void verb_webhook_delete(struct call *c)
{
    struct task *t = call_live_task(c);
    if (!t || task_is_ending(t)) {
        call_ask_task(c, on_delete_late);
        return;
    }
    task_remove_hook(t, c->req.webhook_id);
    call_wait_ok(c);
}
