/* The tools that a task's agent calls through a line: immediate ones, and those that take time.
 * Jobs are stopped at the end of the turn (hub_reap), because their callbacks may be on the
 * stack. */
#include "core/task_parts.h"

#include <stdlib.h>

struct tool_use {
    struct list node;  /* in the task's tools, then in the hub's dead_tools */
    struct task *task; /* NULL once it is told, or nobody waits for it */
    const struct tool *tool;
    struct tool_job *job;
    char *call_id;
    char *arguments; /* while the user is asked; otherwise NULL */
};

static const struct tool *task_find_tool(const struct agent *a, struct str name)
{
    for (size_t i = 0; i < a->n_tools; i++)
        if (str_eq(name, str_of(a->tools[i]->name)))
            return a->tools[i];
    return NULL;
}

static void tell_result(struct task *t, const struct tool *tool, struct str call_id, bool good,
                        struct str output)
{
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "call_id", call_id);
    js_put_field(&data, "name", str_of(tool->name));
    (void)event_put_output(&data, output);
    js_put_bool(&data, "is_error", !good);
    buf_putc(&data, '}');
    task_event_hidden(t, EVENT_TOOL_RESULT, buf_str(&data));
    buf_done(&data);

    struct buf answer = {0};
    task_begin_answer(&answer, "tool_result", call_id);
    (void)event_put_output(&answer, output);
    js_put_bool(&answer, "is_error", !good);
    task_end_answer(t, &answer);
}

static void drop_use(struct hub *h, struct tool_use *use)
{
    use->task = NULL;
    list_remove(&use->node);
    list_push(&h->dead_tools, &use->node);
}

static void tool_on_done(void *user, bool good, struct str output)
{
    struct tool_use *use = user;
    struct task *t = use->task;
    if (!t)
        return;
    drop_use(t->hub, use);
    if (!task_is_ending(t))
        tell_result(t, use->tool, str_of(use->call_id), good, output);
}

static struct tool_caller caller_of(const struct task *t)
{
    return (struct tool_caller){.owner = task_owner(t),
                                .conversation_id = task_conversation_id(t),
                                .task_id = task_id_of(t),
                                .is_program = true};
}

static void start_job(struct tool_use *use, struct str arguments)
{
    struct task *t = use->task;
    struct buf why = {0};
    struct tool_caller caller = caller_of(t);
    use->job = use->tool->start(use->tool, &caller, arguments, tool_on_done, use, &why);
    if (!use->job) {
        drop_use(t->hub, use);
        tell_result(t, use->tool, str_of(use->call_id), false, buf_str(&why));
    }
    buf_done(&why);
}

static void on_approval(void *arg, struct str answer)
{
    struct tool_use *use = arg;
    struct task *t = use->task;
    bool stops = t->staged.cancel_requested_at || t->stopping != TASK_OK;
    if (str_eq(answer, STR("true")) && !stops) {
        start_job(use, str_of(use->arguments));
        return;
    }
    drop_use(t->hub, use);
    tell_result(t, use->tool, str_of(use->call_id), false,
                stops ? STR("the task is being stopped")
                      : STR("the user did not approve the call"));
}

/* True when the user must approve the call first, or the task has failed by asking. */
static bool ask_first(struct tool_use *use, struct str arguments)
{
    struct task *t = use->task;
    struct buf question = {0};
    struct tool_caller caller = caller_of(t);
    bool asks = use->tool->asks && use->tool->asks(use->tool, &caller, arguments, &question);
    if (asks && task_ask_approval(t, buf_str(&question), str_of(use->tool->name), arguments,
                                  on_approval, use))
        use->arguments = xstrdup(arguments);
    else if (asks)
        drop_use(t->hub, use);
    buf_done(&question);
    return asks;
}

static void start_tool(struct task *t, const struct tool *tool, const struct agent_line *line)
{
    struct tool_use *use = xcalloc(sizeof *use);
    *use = (struct tool_use){.task = t, .tool = tool, .call_id = xstrdup(line->call_id)};
    list_push(&t->work->tools, &use->node);
    if (!ask_first(use, line->arguments))
        start_job(use, line->arguments);
}

void task_call_tool(struct task *t, const struct agent_line *line)
{
    const struct tool *tool = task_find_tool(t->agent, line->name);
    if (!tool || tool->says) {
        task_answer_error(t, line->call_id, ERR_NOT_FOUND, "the agent has no such tool");
        return;
    }
    struct buf data = {0}, output = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "call_id", line->call_id);
    js_put_field(&data, "name", line->name);
    js_put_raw(&data, "arguments", line->arguments);
    buf_putc(&data, '}');
    task_event_hidden(t, EVENT_TOOL_CALL, buf_str(&data));
    buf_done(&data);
    if (tool->start) {
        start_tool(t, tool, line);
        return;
    }
    bool good = tool->call(line->arguments, t->hub->clock.wall_ms, &output);
    tell_result(t, tool, line->call_id, good, buf_str(&output));
    buf_done(&output);
}

void task_stop_tools(struct task *t)
{
    list_each (it, &t->work->tools)
        drop_use(t->hub, list_item(it, struct tool_use, node));
}

void task_reap_tools(struct hub *h)
{
    struct list *node;
    while ((node = list_pop(&h->dead_tools)) != NULL) {
        struct tool_use *use = list_item(node, struct tool_use, node);
        if (use->job)
            use->tool->stop(use->job);
        free(use->call_id);
        free(use->arguments);
        free(use);
    }
}
