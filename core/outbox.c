#include "core/outbox.h"

#include "core/hub.h"

static void put_body(struct buf *out, const struct task_record *task)
{
    buf_putc(out, '{');
    js_put_field(out, "type",
                 task->state.status == STATUS_COMPLETED ? STR("task.completed")
                                                        : STR("task.failed"));
    js_put_int(out, "timestamp", task->state.completed_at);
    js_put_raw(out, "data", STR("{"));
    js_put_field(out, "owner", task->owner);
    js_put_raw(out, "task", STR(""));
    task_write(out, task, false);
    buf_puts(out, "}}");
}

static void on_put_done(const struct op *op, int status)
{
    struct hub *h = op->ref;
    if (status == 0)
        h->o.outbox.posted(h->o.outbox.arg, op->outbox);
}

void outbox_stage(struct hub *h, const struct task_record *task)
{
    const struct outbox_options *o = &h->o.outbox;
    if (o->n_hooks == 0)
        return;
    struct buf body = {0};
    put_body(&body, task);
    for (size_t i = 0; i < o->n_hooks; i++) {
        char id[TASK_ID_LEN + 1];
        hub_new_id(h, id);
        struct outbox_record entry = {.key = h->next_key++,
                                      .hook = str_of(o->hooks[i]),
                                      .id = str_of(id),
                                      .at = h->clock.wall_ms,
                                      .body = buf_str(&body)};
        journal_put(
            &h->journal,
            &(struct op){.kind = OP_OUTBOX_PUT, .done = on_put_done, .ref = h, .outbox = &entry});
    }
    buf_done(&body);
}

void outbox_take(struct hub *h, int64_t key)
{
    journal_put(&h->journal, &(struct op){.kind = OP_OUTBOX_TAKE, .task_key = key});
}
