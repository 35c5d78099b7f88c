/* The tools that a task's agent calls through a line: immediate ones, and those that take time.  A
 * call that has an effect begins when its tool_call, and the answer to its approval, are committed:
 * so a restart never finds an effect of which the store knows nothing.
 *
 * The calls of an agent that outlives the gateway are noted while they are under way: the numbers
 * of their tool_call events.  What the next gateway does with one is for its tool to say (tool.h).
 *
 * Jobs are stopped at the end of the turn (hub_reap), because their callbacks may be on the
 * stack. */
#include "core/task_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/approval.h"
#include "core/secrets.h"

struct tool_use {
    struct list node; /* in the task's tools, then in the hub's dead_tools */
    struct hub *hub;
    struct task *task;       /* NULL once it is told, or nobody waits for it */
    const struct tool *tool; /* NULL: of an earlier gateway, and not there any more */
    struct tool_job *job;
    char *call_id, *name;
    char *arguments;      /* until it begins; then NULL */
    bool is_hidden;       /* the event has not all of them */
    uint64_t seq;         /* of its tool_call */
    struct waiter waiter; /* for the commit that it begins after … */
    bool waits;           /* … while it does */
    bool leaves;          /* what it began goes on */
    bool stands;          /* the budget is used up */
    bool is_elsewhere;    /* recalled: it was made where its tool cannot look (tool.place) */
};

static const struct tool *task_find_tool(const struct agent *a, struct str name)
{
    for (size_t i = 0; i < a->n_tools; i++)
        if (str_eq(name, str_of(a->tools[i]->name)))
            return a->tools[i];
    bool is_file = a->file_tool && str_eq(name, str_of(a->file_tool->name));
    return is_file ? a->file_tool : NULL;
}

static void tell_result(struct task *t, struct str name, struct str call_id, bool good,
                        struct str output)
{
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "call_id", call_id);
    js_put_field(&data, "name", name);
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
    if (!use->waits)
        list_push(&h->dead_tools, &use->node);
}

enum { CALL_HIDDEN = 1, CALL_STANDS = 2 };

/* [[seq of its tool_call, flags], …] of those under way, and their place, where a tool has one. */
static void note_calls(struct task *t)
{
    struct buf note = {0};
    const struct tool *placed = NULL;
    if (!task_goes_on(t) || t->left)
        return;
    buf_putc(&note, '[');
    list_each (it, &t->work->tools) {
        const struct tool_use *use = list_item(it, struct tool_use, node);
        buf_putf(&note, "%s[%" PRIu64 ",%d]", note.len > 1 ? "," : "", use->seq,
                 (use->is_hidden ? CALL_HIDDEN : 0) | (use->stands ? CALL_STANDS : 0));
        placed = use->tool && use->tool->place ? use->tool : placed;
    }
    if (placed)
        buf_putf(&note, ",\"%s\"", placed->place(placed));
    buf_putc(&note, ']');
    task_note(t, NOTE_CALLS, buf_str(&note));
    buf_done(&note);
}

void task_name_file(struct task *t, struct str data)
{
    struct js_doc doc = {0};
    struct buf id = {0};
    uint32_t node = js_parse(&doc, data.p, data.n, JS_OURS) ? js_get(&doc, 0, "file_id") : 0;
    if (node)
        js_value(&doc, node, &id);
    journal_put(&t->hub->journal, &(struct op){.kind = OP_FILE_USE,
                                               .owner = task_owner(t),
                                               .conversation_id = task_conversation_id(t),
                                               .task_id = task_id_of(t),
                                               .key = buf_str(&id)});
    buf_done(&id);
    js_done(&doc);
}

/* In the batch of the call's result. */
static void say_file(struct task *t, const char *call_id, struct str file)
{
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "call_id", str_of(call_id));
    buf_putc(&data, ',');
    buf_put(&data, file.p + 1, file.n - 1);
    task_name_file(t, buf_str(&data));
    task_event_hidden(t, EVENT_FILE, buf_str(&data));
    buf_done(&data);
}

/* It is over, told in the batch that forgets it. */
static void end_use(struct tool_use *use, bool good, struct str output)
{
    struct task *t = use->task;
    drop_use(t->hub, use);
    if (task_is_ending(t))
        return;
    note_calls(t);
    if (good && use->tool->gives_file)
        say_file(t, use->call_id, output);
    tell_result(t, str_of(use->name), str_of(use->call_id), good, output);
}

static void tool_on_done(void *user, bool good, struct str output)
{
    struct tool_use *use = user;
    if (use->task)
        end_use(use, good, output);
}

struct call_name {
    char text[32];
};

static struct tool_caller caller_of(const struct tool_use *use, struct call_name *name)
{
    const struct task *t = use->task;
    int n = snprintf(name->text, sizeof name->text, "%" PRIu64, use->seq);
    return (struct tool_caller){.owner = task_owner(t),
                                .conversation_id = task_conversation_id(t),
                                .task_id = task_id_of(t),
                                .is_program = true,
                                .call = {name->text, (size_t)n}};
}

/* attaches: to what an earlier gateway began. */
static void start_job(struct tool_use *use, bool attaches)
{
    struct buf why = {0};
    struct call_name name;
    if (!hub_is_trusted(use->hub)) { /* the task may be another home's: nothing begins any more */
        end_use(use, false, STR("the gateway has lost its hold on the store"));
        return;
    }
    struct tool_caller caller = caller_of(use, &name);
    char *arguments = use->arguments;
    use->arguments = NULL;
    use->job = (attaches ? use->tool->attach : use->tool->start)(
        use->tool, &caller, str_of(arguments), tool_on_done, use, &why);
    free(arguments);
    if (!use->job)
        end_use(use, false, buf_str(&why));
    buf_done(&why);
}

static bool is_stopping(const struct task *t)
{
    return staged_state(t)->cancel_requested_at || t->stopping != TASK_OK;
}

/* If the store gave it up, the task ends. */
static void on_call_committed(struct waiter *waiter, int status)
{
    struct tool_use *use = container_of(waiter, struct tool_use, waiter);
    struct task *t = use->task;
    use->waits = false;
    if (!t) {
        list_push(&use->hub->dead_tools, &use->node);
    } else if (status == 0 && is_stopping(t)) {
        end_use(use, false, STR("the task is being stopped"));
    } else if (status == 0) {
        start_job(use, false);
    }
}

static void start_when_committed(struct tool_use *use)
{
    if (tool_again(use->tool, str_of(use->arguments)) == TOOL_AGAIN) {
        start_job(use, false);
        return;
    }
    use->waits = true;
    use->waiter.done = on_call_committed;
    journal_wait(&use->hub->journal, &use->waiter);
}

bool task_is_allowed(void *arg, struct str key)
{
    const struct task *t = arg;
    return allowances_have(&t->hub->allowances, task_owner(t), task_conversation_id(t), key);
}

void task_allow(void *arg, struct str key)
{
    const struct task *t = arg;
    allowances_add(&t->hub->allowances, task_owner(t), task_conversation_id(t), key);
}

static void allow_topic(const struct tool_use *use)
{
    struct call_name name;
    struct tool_caller caller = caller_of(use, &name);
    approval_allow(use->tool, &caller, str_of(use->arguments), task_allow, use->task);
}

static void on_approval(void *arg, struct str answer)
{
    struct tool_use *use = arg;
    bool stops = is_stopping(use->task);
    enum approved approved = approval_read(answer);
    if (approved && !stops) {
        if (approved == APPROVED_CONVERSATION)
            allow_topic(use);
        if (use->tool->place)
            note_calls(use->task); /* it may have been asked about elsewhere */
        start_when_committed(use);
        return;
    }
    end_use(use, false,
            stops ? STR("the task is being stopped") : STR("the user did not approve the call"));
}

/* True when the user must approve the call first, or the task has failed by asking. */
static bool ask_first(struct tool_use *use)
{
    struct task *t = use->task;
    struct approval_question question;
    struct call_name name;
    struct tool_caller caller = caller_of(use, &name);
    struct str arguments = str_of(use->arguments);
    bool asks = approval_asks(use->tool, &caller, arguments, task_is_allowed, t, &question);
    if (asks && !task_ask_approval(t, &(struct approval){.question = &question,
                                                         .call_id = str_of(use->call_id),
                                                         .tool = str_of(use->tool->name),
                                                         .arguments = arguments,
                                                         .answered = on_approval,
                                                         .arg = use}))
        drop_use(t->hub, use);
    approval_question_done(&question);
    return asks;
}

static void call_at_once(struct task *t, const struct tool *tool, struct str call_id,
                         struct str arguments)
{
    struct buf output = {0};
    bool good = tool->call(arguments, t->hub->clock.wall_ms, &output);
    tell_result(t, str_of(tool->name), call_id, good, buf_str(&output));
    buf_done(&output);
}

static void use_tool(struct tool_use *use)
{
    if (use->tool->start) {
        if (!ask_first(use))
            start_when_committed(use);
        return;
    }
    struct task *t = use->task;
    drop_use(t->hub, use);
    note_calls(t);
    call_at_once(t, use->tool, str_of(use->call_id), str_of(use->arguments));
}

static struct tool_use *use_new(struct task *t, struct str name, struct str call_id,
                                struct str arguments, uint64_t seq)
{
    struct tool_use *use = xcalloc(sizeof *use);
    *use = (struct tool_use){.hub = t->hub,
                             .task = t,
                             .tool = task_find_tool(t->agent, name),
                             .name = xstrdup(name),
                             .call_id = xstrdup(call_id),
                             .arguments = xstrdup(arguments),
                             .seq = seq};
    list_push(&t->work->tools, &use->node);
    return use;
}

static void start_tool(struct task *t, const struct agent_line *line)
{
    struct tool_use *use =
        use_new(t, line->name, line->call_id, line->arguments, t->stream->next - 1);
    struct buf clean = {0};
    use->is_hidden = secrets_hide_json(t->hub->o.secrets, line->arguments, &clean);
    buf_done(&clean);
    use->stands = task_budget_holds(t);
    note_calls(t);
    if (!use->stands)
        use_tool(use);
}

void task_begin_tools(struct task *t)
{
    list_each (it, &t->work->tools) {
        struct tool_use *use = list_item(it, struct tool_use, node);
        if (!use->stands)
            continue;
        use->stands = false;
        note_calls(t);
        use_tool(use);
    }
}

void task_call_tool(struct task *t, const struct agent_line *line)
{
    const struct tool *tool = task_find_tool(t->agent, line->name);
    if (!tool || tool->says) {
        task_answer_error(t, line->call_id, ERR_NOT_FOUND, "the agent has no such tool");
        return;
    }
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "call_id", line->call_id);
    js_put_field(&data, "name", line->name);
    js_put_raw(&data, "arguments", line->arguments);
    buf_putc(&data, '}');
    task_event_hidden(t, EVENT_TOOL_CALL, buf_str(&data));
    buf_done(&data);
    if (tool->start || task_budget_holds(t))
        start_tool(t, line);
    else
        call_at_once(t, tool, line->call_id, line->arguments);
}

/* A call of the tool that gives files, whose arguments are the members. */
void task_call_file(struct task *t, const struct agent_line *line)
{
    struct agent_line call = *line;
    struct buf arguments = {0};
    if (!t->agent->file_tool) {
        task_answer_error(t, line->call_id, ERR_UNSUPPORTED, "the agent cannot give files");
        return;
    }
    buf_putc(&arguments, '{');
    js_put_field(&arguments, "path", line->path);
    if (line->name.p)
        js_put_field(&arguments, "name", line->name);
    if (line->media_type.p)
        js_put_field(&arguments, "media_type", line->media_type);
    buf_putc(&arguments, '}');
    call.name = str_of(t->agent->file_tool->name);
    call.arguments = buf_str(&arguments);
    task_call_tool(t, &call);
    buf_done(&arguments);
}

void task_stop_tools(struct task *t)
{
    list_each (it, &t->work->tools)
        drop_use(t->hub, list_item(it, struct tool_use, node));
}

void task_leave_tools(struct task *t)
{
    list_each (it, &t->work->tools) {
        struct tool_use *use = list_item(it, struct tool_use, node);
        use->leaves = true;
        drop_use(t->hub, use);
    }
}

/* --- after a restart -------------------------------------------------------------------------- */

static char *past_place(const struct js_doc *doc, uint32_t node)
{
    struct buf text = {0};
    buf_puts(&text, "");
    js_value(doc, node, &text);
    return buf_take(&text);
}

void task_past_calls(struct task *t, struct str note)
{
    struct js_doc doc = {0};
    struct task_past *p = t->work->past;
    bool good = js_parse(&doc, note.p, note.n, JS_OURS) && js_type(&doc, 0) == JS_ARRAY;
    for (uint32_t i = good ? js_first(&doc, 0) : 0; good && i < js_end(&doc, 0);
         i = js_next(&doc, i)) {
        int64_t seq = 0, flags = 0;
        if (js_type(&doc, i) == JS_STRING) {
            p->place = past_place(&doc, i);
            continue;
        }
        good = js_type(&doc, i) == JS_ARRAY && doc.nodes[i].kids == 2 &&
               js_int(&doc, i + 1, &seq) && js_int(&doc, i + 2, &flags) && seq > 0;
        if (!good)
            break;
        p->calls = xrealloc(p->calls, (p->n_calls + 1) * sizeof *p->calls);
        p->calls[p->n_calls++] = (struct past_call){(uint64_t)seq, (unsigned)flags};
    }
    js_done(&doc);
    if (!good)
        task_past_is_unreadable(t);
}

static struct str past_text(const struct js_doc *doc, const char *member, struct buf *to)
{
    uint32_t node = js_get(doc, 0, member);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, to);
    else if (node)
        js_copy(doc, node, to);
    return buf_str(to);
}

void task_past_call(struct task *t, const struct event_parts *event)
{
    const struct task_past *p = t->work->past;
    struct js_doc doc = {0};
    struct buf name = {0}, call_id = {0}, arguments = {0};
    size_t i = 0;
    while (i < p->n_calls && p->calls[i].seq != event->seq)
        i++;
    if (js_parse(&doc, event->data.p, event->data.n, JS_OURS)) {
        struct str tool = past_text(&doc, "name", &name);
        struct str id = past_text(&doc, "call_id", &call_id);
        tool_names_tell(&t->work->tool_names, id, tool); /* its result may leave the name out */
        if (i < p->n_calls) {
            struct tool_use *use =
                use_new(t, tool, id, past_text(&doc, "arguments", &arguments), event->seq);
            use->is_hidden = p->calls[i].flags & CALL_HIDDEN;
            use->stands = p->calls[i].flags & CALL_STANDS;
            use->is_elsewhere = tool_is_elsewhere(use->tool, p->place);
        }
    }
    js_done(&doc);
    buf_done(&name);
    buf_done(&call_id);
    buf_done(&arguments);
}

static bool may_ask(const struct tool_use *use)
{
    return use->tool && use->tool->start && !use->is_hidden;
}

bool task_awaits_approval(const struct task *t, struct str call_id)
{
    list_each (it, &t->work->tools) {
        const struct tool_use *use = list_item(it, const struct tool_use, node);
        if (may_ask(use) && use->arguments && str_eq(str_of(use->call_id), call_id))
            return true;
    }
    return false;
}

static void resume_use(struct tool_use *use)
{
    struct task *t = use->task;
    enum tool_again how = TOOL_NEVER;
    if (use->tool && use->tool->start && !use->is_hidden)
        how = tool_again(use->tool, str_of(use->arguments));
    if (how == TOOL_ATTACH && use->is_elsewhere)
        how = TOOL_NEVER;
    if (is_stopping(t)) {
        end_use(use, false, STR("the task is being stopped"));
    } else if (use->stands && use->tool && !use->is_hidden) {
        /* it never began: task_begin_tools */
    } else if (how != TOOL_NEVER) {
        start_job(use, how == TOOL_ATTACH);
    } else {
        task_on_unknown(t, str_of(use->name));
        end_use(use, false, STR(TOOL_UNKNOWN));
    }
}

/* A call whose approval is open goes on waiting for that. */
void task_resume_tools(struct task *t)
{
    list_each (it, &t->work->tools) {
        struct tool_use *use = list_item(it, struct tool_use, node);
        bool waits = may_ask(use) && task_await_approval(t, str_of(use->call_id), on_approval, use);
        if (!waits && use->arguments)
            resume_use(use);
    }
    if (!task_budget_holds(t))
        task_begin_tools(t);
}

/* --- the end of a turn ------------------------------------------------------------------------ */

void task_reap_tools(struct hub *h)
{
    struct list *node;
    while ((node = list_pop(&h->dead_tools)) != NULL) {
        struct tool_use *use = list_item(node, struct tool_use, node);
        bool leaves = use->leaves && use->tool->leave;
        if (use->job)
            (leaves ? use->tool->leave : use->tool->stop)(use->job);
        free(use->call_id);
        free(use->name);
        free(use->arguments);
        free(use);
    }
}
