#include "core/outbox.h"

#include "core/hub.h"
#include "core/task_trace.h"

const char *outbox_type(const struct task_record *task)
{
    return task->state.status == STATUS_COMPLETED ? "task.completed" : "task.failed";
}

void outbox_put_message(const struct hub *h, struct buf *out, const char *type, int64_t at,
                        const struct task_record *task)
{
    buf_putc(out, '{');
    js_put_field(out, "type", str_of(type));
    js_put_int(out, "timestamp", at);
    struct task_trace trace;
    if (task_trace_of(task->task_id, task->metadata, h->o.traced, h->o.trace_share, &trace))
        trace_put_members(out, &trace.own);
    js_put_raw(out, "data", STR("{"));
    js_put_field(out, "owner", task->owner);
    js_put_raw(out, "task", STR(""));
    task_write(out, task, false);
    buf_puts(out, "}}");
}

static void on_put_done(const struct op *op, int status)
{
    struct hub *h = op->ref;
    if (status == 0 && h->o.outbox.posted)
        h->o.outbox.posted(h->o.outbox.arg, op->outbox);
}

void outbox_put(struct hub *h, struct str owner, struct str hook, struct str body)
{
    char id[TASK_ID_LEN + 1];
    hub_new_id(h, id);
    struct outbox_record entry = {.key = hub_new_key(h),
                                  .hook = hook,
                                  .id = str_of(id),
                                  .at = h->clock.wall_ms,
                                  .body = body,
                                  .slot = slot_of(owner)};
    journal_put(
        &h->journal,
        &(struct op){.kind = OP_OUTBOX_PUT, .done = on_put_done, .ref = h, .outbox = &entry});
}

void outbox_stage(struct hub *h, const struct task_record *task)
{
    const struct outbox_options *o = &h->o.outbox;
    if (o->n_hooks == 0)
        return;
    struct buf body = {0};
    outbox_put_message(h, &body, outbox_type(task), task->state.completed_at, task);
    for (size_t i = 0; i < o->n_hooks; i++)
        outbox_put(h, task->owner, str_of(o->hooks[i]), buf_str(&body));
    buf_done(&body);
}

void outbox_take(struct hub *h, int64_t key)
{
    journal_put(&h->journal, &(struct op){.kind = OP_OUTBOX_TAKE, .task_key = key});
}

unsigned outbox_slot(struct str body)
{
    struct js_doc doc = {0};
    struct buf owner = {0};
    uint32_t at = 0;
    if (js_parse(&doc, body.p, body.n, JS_OURS) && js_type(&doc, 0) == JS_OBJECT) {
        uint32_t data = js_get(&doc, 0, "data");
        at = js_get(&doc, 0, "owner");
        if (!at && data && js_type(&doc, data) == JS_OBJECT)
            at = js_get(&doc, data, "owner");
    }
    if (at)
        js_value(&doc, at, &owner);
    unsigned slot = at ? slot_of(buf_str(&owner)) : 0;
    buf_done(&owner);
    js_done(&doc);
    return slot;
}
