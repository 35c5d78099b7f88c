#include "core/approval.h"

/* Whether it has one; if not, both of its bufs are empty. */
static bool approval_topic(const struct tool *tool, const struct tool_caller *caller,
                           struct str arguments, struct tool_topic *ret)
{
    *ret = (struct tool_topic){0};
    if (tool->topic && tool->topic(tool, caller, arguments, ret) &&
        ret->name.len <= APPROVAL_TOPIC_BYTES && ret->key.len <= APPROVAL_TOPIC_BYTES)
        return true;
    tool_topic_done(ret);
    return false;
}

bool approval_asks(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                   bool (*is_allowed)(void *task, struct str key), void *task,
                   struct approval_question *ret)
{
    *ret = (struct approval_question){0};
    if (!tool->asks || !tool->asks(tool, caller, arguments, &ret->prompt))
        return false;
    return !approval_topic(tool, caller, arguments, &ret->topic) ||
           !is_allowed(task, buf_str(&ret->topic.key));
}

void approval_question_done(struct approval_question *q)
{
    buf_done(&q->prompt);
    tool_topic_done(&q->topic);
}

struct str approval_ids(const struct approval_question *q)
{
    return q->topic.key.len ? APPROVAL_IDS : STR_NULL;
}

static void put_option(struct buf *data, const char *id, struct str name, const char *kind)
{
    buf_putc(data, '{');
    js_put_field(data, "id", str_of(id));
    js_put_field(data, "name", name);
    js_put_field(data, "kind", str_of(kind));
    buf_putc(data, '}');
}

void approval_put_options(const struct approval_question *q, struct buf *data)
{
    struct buf name = {0};
    if (!q->topic.key.len)
        return;
    buf_puts(&name, "Allow ");
    buf_putstr(&name, buf_str(&q->topic.name));
    buf_puts(&name, " in this conversation");
    js_put_raw(data, "options", STR("["));
    put_option(data, APPROVAL_ONCE, STR("Allow once"), "allow_once");
    buf_putc(data, ',');
    put_option(data, APPROVAL_CONVERSATION, buf_str(&name), "allow_always");
    buf_putc(data, ',');
    put_option(data, APPROVAL_REJECT, STR("Reject"), "reject_once");
    buf_putc(data, ']');
    buf_done(&name);
}

enum approved approval_read(struct str answer)
{
    if (str_eq(answer, STR("\"" APPROVAL_CONVERSATION "\"")))
        return APPROVED_CONVERSATION;
    return str_eq(answer, STR("true")) || str_eq(answer, STR("\"" APPROVAL_ONCE "\""))
               ? APPROVED_ONCE
               : APPROVED_NOT;
}

void approval_allow(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                    void (*allow)(void *task, struct str key), void *task)
{
    struct tool_topic topic;
    if (approval_topic(tool, caller, arguments, &topic))
        allow(task, buf_str(&topic.key));
    tool_topic_done(&topic);
}
