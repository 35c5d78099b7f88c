/* A task's webhooks. Each is a row of the outbox that is held until the task ends; what is told
 * about the task is another row, for delivery, put with the change that it tells. So both survive a
 * restart, and no end is told of which the store knows nothing. */
#include <stdlib.h>

#include "core/hub.h"
#include "core/task_parts.h"
#include "proto/webhook.h"

struct task_hook {
    struct list node;
    int64_t key; /* of its row */
    char *id, *json;
};

static void hook_free(struct task_hook *hook)
{
    list_remove(&hook->node);
    free(hook->id);
    free(hook->json);
    free(hook);
}

static struct task_hook *hook_find(const struct task *t, struct str id)
{
    if (t->work)
        list_each (it, &t->work->hooks) {
            struct task_hook *hook = list_item(it, struct task_hook, node);
            if (str_eq(str_of(hook->id), id))
                return hook;
        }
    return NULL;
}

static struct task_hook *hook_keep(struct task *t, int64_t key, struct str id, struct str json)
{
    struct task_hook *hook = xcalloc(sizeof *hook);
    *hook = (struct task_hook){.key = key, .id = xstrdup(id), .json = xstrdup(json)};
    list_push(&task_work(t)->hooks, &hook->node);
    t->work->n_hooks++;
    return hook;
}

static void hook_take(struct task *t, struct task_hook *hook)
{
    outbox_take(t->hub, hook->key);
    t->work->n_hooks--;
    hook_free(hook);
}

/* A held row says whose it is: {"task_key":…,"webhook_id":…,"webhook":{…}}. */
static void hook_stage(struct task *t, const struct task_hook *hook)
{
    struct buf body = {0};
    char id[TASK_ID_LEN + 1];
    hub_new_id(t->hub, id);
    buf_putc(&body, '{');
    js_put_int(&body, "task_key", task_key(t));
    js_put_field(&body, "webhook_id", str_of(hook->id));
    js_put_raw(&body, "webhook", str_of(hook->json));
    buf_putc(&body, '}');
    struct outbox_record row = {.key = hook->key,
                                .hook = STR(OUTBOX_HELD),
                                .id = str_of(id),
                                .at = t->hub->clock.wall_ms,
                                .body = buf_str(&body),
                                .slot = slot_of(task_owner(t))};
    journal_put(&t->hub->journal, &(struct op){.kind = OP_OUTBOX_PUT, .outbox = &row});
    buf_done(&body);
}

const char *task_add_hook(struct task *t, struct str id, struct str json, const char **ret_id)
{
    uint32_t most = t->hub->o.limits.task_webhooks;
    struct task_hook *old = id.p ? hook_find(t, id) : NULL;
    if (most == 0)
        return "tasks have no webhooks here";
    if (!old && t->work && t->work->n_hooks >= most)
        return "the task has too many webhooks";
    char made[TASK_ID_LEN + 1];
    if (!id.p) {
        hub_new_id(t->hub, made);
        id = str_of(made);
    }
    struct task_hook *hook = hook_keep(t, hub_new_key(t->hub), id, json);
    hook_stage(t, hook);
    if (old)
        hook_take(t, old);
    *ret_id = hook->id;
    return NULL;
}

void task_remove_hook(struct task *t, struct str id)
{
    struct task_hook *hook = hook_find(t, id);
    if (hook)
        hook_take(t, hook);
}

void hook_put(struct buf *out, const char *id, struct str json)
{
    ASSERT(json.n > 0); /* an object, whose brace is there already */
    buf_putc(out, '{');
    js_put_field(out, "webhook_id", str_of(id));
    buf_putc(out, ',');
    buf_put(out, json.p + 1, json.n - 1);
}

void task_put_hooks(const struct task *t, struct buf *out)
{
    bool first = true;
    if (t->work)
        list_each (it, &t->work->hooks) {
            const struct task_hook *hook = list_item(it, const struct task_hook, node);
            if (!first)
                buf_putc(out, ',');
            hook_put(out, hook->id, str_of(hook->json));
            first = false;
        }
}

void task_tell_hooks(struct task *t, const char *type, const struct task_record *rec)
{
    if (!t->work || t->work->n_hooks == 0)
        return;
    struct hub *h = t->hub;
    bool ends = status_is_terminal(rec->state.status);
    struct buf message = {0}, body = {0};
    outbox_put_message(h, &message, type, ends ? rec->state.completed_at : h->clock.wall_ms, rec);
    list_each (it, &t->work->hooks) {
        const struct task_hook *hook = list_item(it, const struct task_hook, node);
        buf_clear(&body);
        webhook_put_message(&body, rec->owner, str_of(hook->json), buf_str(&message));
        outbox_put(h, rec->owner, STR(OUTBOX_OF_TASKS), buf_str(&body));
        if (ends)
            outbox_take(h, hook->key);
    }
    buf_done(&message);
    buf_done(&body);
}

void task_free_hooks(struct task *t)
{
    list_each (it, &t->work->hooks)
        hook_free(list_item(it, struct task_hook, node));
}

/* --- at a start ------------------------------------------------------------------------------- */

int64_t hook_task_key(struct hub *h, struct str body)
{
    int64_t key = -1;
    bool good = js_parse(&h->doc, body.p, body.n, JS_OURS) && js_type(&h->doc, 0) == JS_OBJECT;
    uint32_t at = good ? js_get(&h->doc, 0, "task_key") : 0;
    return at && js_int(&h->doc, at, &key) ? key : -1;
}

void task_restore_hook(struct task *t, const struct outbox_record *row)
{
    struct js_doc *doc = &t->hub->doc;
    struct buf id = {0}, json = {0};
    bool good = js_parse(doc, row->body.p, row->body.n, JS_OURS) && js_type(doc, 0) == JS_OBJECT;
    uint32_t name = good ? js_get(doc, 0, "webhook_id") : 0;
    uint32_t hook = good ? js_get(doc, 0, "webhook") : 0;
    if (name && hook && js_type(doc, name) == JS_STRING) {
        js_value(doc, name, &id);
        js_copy(doc, hook, &json);
        hook_keep(t, row->key, buf_str(&id), buf_str(&json));
    }
    buf_done(&id);
    buf_done(&json);
}
