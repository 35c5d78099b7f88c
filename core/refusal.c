#include "core/refusal.h"

#include <stdio.h>

#include "core/task.h"

static const char *const op_names[] = {
    [OP_TASK_NEW] = "task_new",
    [OP_TASK_SET] = "task_set",
    [OP_LINES] = "lines",
    [OP_SEAL] = "seal",
    [OP_MESSAGE] = "message",
    [OP_BRANCH] = "branch",
    [OP_CONVERSATION] = "conversation",
    [OP_TITLE] = "title",
    [OP_CONVERSATION_DELETE] = "conversation_delete",
    [OP_REQUEST_KEY] = "request_key",
    [OP_ACK] = "ack",
    [OP_INBOX_PUT] = "inbox_put",
    [OP_INBOX_TAKE] = "inbox_take",
    [OP_MARK] = "mark",
    [OP_NOTE] = "note",
    [OP_NOTICE_PUT] = "notice_put",
    [OP_NOTICE_TAKE] = "notice_take",
    [OP_EVENTS_REMOVE] = "events_remove",
    [OP_OUTBOX_PUT] = "outbox_put",
    [OP_OUTBOX_TAKE] = "outbox_take",
    [OP_REVOKE] = "revoke",
    [OP_FILE_PUT] = "file_put",
    [OP_FILE_USE] = "file_use",
    [OP_FILES_EXPIRE] = "files_expire",
    [OP_FILES_REMOVE] = "files_remove",
    [OP_TASK_REMOVE] = "task_remove",
};

struct search {
    int64_t task_key;
    struct refusal *found;
};

static void look_at(struct map_node *node, void *arg)
{
    const struct search *w = arg;
    const struct stream *s = container_of(node, const struct stream, node);
    if (s->task_key != w->task_key)
        return;
    w->found->owner = stream_owner(s);
    snprintf(w->found->task_id, sizeof w->found->task_id, "%s", s->task_id);
}

/* Most ops of a task name it by its key alone; while it lives, its stream is there. */
static void find_task(struct hub *h, int64_t task_key, struct refusal *ret)
{
    if (task_key)
        map_each(&h->streams, look_at, &(struct search){task_key, ret});
}

static void name_op(struct hub *h, const struct op *op, struct refusal *ret)
{
    bool is_tasks = op->kind != OP_NOTICE_TAKE && op->kind != OP_OUTBOX_TAKE; /* keys of others */
    struct str id = op->record    ? op->record->task_id
                    : op->message ? op->message->task_id
                                  : op->task_id;
    ret->op = op_names[op->kind];
    ret->owner = op->record   ? op->record->owner
                 : op->notice ? op->notice->owner
                 : op->file   ? op->file->owner
                              : op->owner;
    snprintf(ret->task_id, sizeof ret->task_id, "%.*s", (int)id.n, id.p ? id.p : "");
    if (!ret->task_id[0] && is_tasks)
        find_task(h, op->task_key, ret);
}

bool refusal_find(struct hub *h, struct refusal *ret)
{
    const struct journal *j = &h->journal;
    const struct batch *b = timer_is_armed(&j->retry) ? j->flying : NULL; /* not the store's */
    *ret = (struct refusal){.batch = b ? b->number : 0};
    for (size_t i = 0; b && i < b->n_ops; i++) {
        if (b->ops[i].refused) {
            name_op(h, &b->ops[i], ret);
            return true;
        }
    }
    return false;
}
