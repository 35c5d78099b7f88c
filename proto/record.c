#include "proto/record.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/js.h"

static const char *const statuses[] = {
    [STATUS_PENDING] = "pending",     [STATUS_RUNNING] = "running",
    [STATUS_COMPLETED] = "completed", [STATUS_FAILED] = "failed",
    [STATUS_CANCELLED] = "cancelled",
};

const char *status_name(enum task_status s)
{
    ASSERT((unsigned)s < countof(statuses));
    return statuses[s];
}

bool status_find(struct str name, enum task_status *ret)
{
    for (size_t i = 0; i < countof(statuses); i++) {
        if (str_eq(name, str_of(statuses[i]))) {
            *ret = (enum task_status)i;
            return true;
        }
    }
    return false;
}

const char *type_name(enum task_type t)
{
    switch (t) {
    case TYPE_CHAT: return "chat";
    case TYPE_BACKGROUND: return "background";
    case TYPE_CHILD: return "child";
    case TYPE_NOTICE: return "notice";
    }
    UNREACHABLE();
}

const char *role_name(enum message_role r)
{
    switch (r) {
    case ROLE_USER: return "user";
    case ROLE_ASSISTANT: return "assistant";
    case ROLE_SYSTEM: return "system";
    }
    UNREACHABLE();
}

static void put_given(struct buf *out, const char *key, struct str value)
{
    if (value.p)
        js_put_field(out, key, value);
}

static void put_time(struct buf *out, const char *key, int64_t ms)
{
    if (ms)
        js_put_int(out, key, ms);
}

static void put_true(struct buf *out, const char *key, bool value)
{
    if (value)
        js_put_bool(out, key, true);
}

/* The fewest digits that read back as the same number; null for unknown. */
static void put_progress(struct buf *out, double progress)
{
    if (!(progress >= 0)) {
        js_put_raw(out, "progress", STR("null"));
        return;
    }
    char digits[32];
    int n = 0;
    for (int precision = 1; precision <= 17; precision++) {
        n = snprintf(digits, sizeof digits, "%.*g", precision, progress);
        if (strtod(digits, NULL) == progress) /* NOLINT(cert-err34-c): our own digits */
            break;
    }
    js_put_raw(out, "progress", (struct str){digits, (size_t)n});
}

static void put_error(struct buf *out, const struct task_state *state)
{
    if (state->error == TASK_OK)
        return;
    js_put_key(out, "error");
    task_error_put(out, state->error, state->error_message);
}

static void put_parent(struct buf *out, const struct task_record *task)
{
    if (!task->parent_task_id.p && !task->parent_run_id.p && !task->parent_call_id.p &&
        !task->parent_agent_id.p)
        return;
    js_put_raw(out, "parent", STR("{"));
    put_given(out, "task_id", task->parent_task_id);
    put_given(out, "run_id", task->parent_run_id);
    put_given(out, "call_id", task->parent_call_id);
    put_given(out, "agent_id", task->parent_agent_id);
    buf_putc(out, '}');
}

static void put_results(struct buf *out, const struct task_state *state)
{
    put_given(out, "output", state->output);
    put_true(out, "output_truncated", state->output_truncated);
    if (state->result.p)
        js_put_raw(out, "result", state->result);
    if (state->undelivered.p && !str_eq(state->undelivered, STR("[]")))
        js_put_raw(out, "undelivered", state->undelivered);
    if (state->retracted.p)
        js_put_raw(out, "retracted", state->retracted);
}

void task_write(struct buf *out, const struct task_record *task, bool brief)
{
    const struct task_state *state = &task->state;
    buf_putc(out, '{');
    js_put_field(out, "task_id", task->task_id);
    js_put_field(out, "conversation_id", task->conversation_id);
    put_given(out, "question_id", task->question_id);
    js_put_field(out, "agent", task->agent);
    js_put_field(out, "type", str_of(type_name(task->type)));
    put_given(out, "name", task->name);
    put_given(out, "description", task->description);
    js_put_field(out, "status", str_of(status_name(state->status)));
    put_progress(out, state->progress);
    js_put_int(out, "head", (int64_t)state->head);
    put_given(out, "waiting_for", state->waiting_for);
    put_time(out, "cancel_requested_at", state->cancel_requested_at);
    put_error(out, state);
    if (brief)
        put_true(out, "output_truncated", state->output_truncated);
    else
        put_results(out, state);
    put_true(out, "notify_on_complete", task->notify_on_complete);
    if (!brief && task->metadata.p)
        js_put_raw(out, "metadata", task->metadata);
    put_parent(out, task);
    put_time(out, "created_at", task->created_at);
    put_time(out, "started_at", state->started_at);
    put_time(out, "completed_at", state->completed_at);
    buf_putc(out, '}');
}

void ids_write(struct buf *out, const char *key, struct str ids)
{
    js_put_raw(out, key, STR("["));
    for (size_t i = 0, n; i < ids.n; i += n + 1) {
        const char *end = memchr(ids.p + i, ' ', ids.n - i);
        n = end ? (size_t)(end - ids.p) - i : ids.n - i;
        if (i)
            buf_putc(out, ',');
        js_put_str(out, (struct str){ids.p + i, n});
    }
    buf_putc(out, ']');
}

void message_write(struct buf *out, const struct message_record *message)
{
    buf_putc(out, '{');
    js_put_field(out, "message_id", message->message_id);
    put_given(out, "parent_id", message->parent_id);
    if (message->siblings.p)
        ids_write(out, "siblings", message->siblings);
    js_put_field(out, "role", str_of(role_name(message->role)));
    js_put_field(out, "content", message->content);
    if (message->parts.p)
        js_put_raw(out, "parts", message->parts);
    js_put_field(out, "task_id", message->task_id);
    js_put_bool(out, "partial", message->partial);
    js_put_int(out, "created_at", message->created_at);
    buf_putc(out, '}');
}

void conversation_write(struct buf *out, const struct conversation_record *conversation)
{
    buf_putc(out, '{');
    js_put_field(out, "conversation_id", conversation->conversation_id);
    js_put_field(out, "title", conversation->title);
    js_put_int(out, "updated_at", conversation->updated_at);
    js_put_int(out, "running", conversation->running);
    if (conversation->flags & CONVERSATION_PINNED)
        js_put_bool(out, "pinned", true);
    if (conversation->flags & CONVERSATION_ARCHIVED)
        js_put_bool(out, "archived", true);
    buf_putc(out, '}');
}

void file_put(struct buf *out, const struct file_record *file)
{
    js_put_field(out, "file_id", file->file_id);
    js_put_field(out, "name", file->name);
    js_put_field(out, "media_type", file->media_type);
    js_put_int(out, "size", file->size);
    js_put_field(out, "sha256", file->sha256);
}
