/* The lines of an agent: events, its result, and calls, each answered with one line. */
#include "core/task_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/secrets.h"

#define EVENT_OVERHEAD 192 /* of a line, besides its data */

/* About how many bytes an event of this line adds to its task. */
static size_t payload(const struct agent_line *line)
{
    return line->data.n + line->arguments.n + line->name.n + line->description.n + EVENT_OVERHEAD;
}

/* A lower bound for the longest event data that results from this line: for a call, its own and its
 * answer's, or what the child or the receiver gets.  Texts grow when they are quoted. */
static size_t longest_data(const struct agent_line *line)
{
    size_t n = line->data.n + line->arguments.n;
    if (line->kind == LINE_EVENT)
        return n;
    const struct str texts[] = {line->call_id,     line->name,    line->agent,
                                line->input,       line->task_id, line->content,
                                line->description, line->path,    line->media_type};
    for (size_t i = 0; i < countof(texts); i++)
        n += texts[i].p ? js_str_size(texts[i]) : 0;
    return n + EVENT_FRAME;
}

bool task_line_is_too_long(struct task *t, const char *what, size_t data_bytes)
{
    char why[128];
    if (data_bytes + EVENT_OVERHEAD <= MAX_EVENT_LINE)
        return false;
    snprintf(why, sizeof why, "limit: %s: the event's line exceeds 1 MiB", what);
    task_stop(t, TASK_LIMIT, why);
    return true;
}

static bool is_too_long(struct task *t, const struct agent_line *line)
{
    const char *what = line->kind == LINE_EVENT ? event_name(line->event) : "call";
    return task_line_is_too_long(t, what, longest_data(line));
}

/* One more event would exceed a limit: it is not taken, and the task fails. */
static bool is_too_much(struct task *t, const struct agent_line *line)
{
    struct hub *h = t->hub;
    if (t->bytes + payload(line) > h->o.limits.task_bytes) {
        h->stats.limit_hits[LIMIT_TASK_BYTES]++;
        task_stop(t, TASK_LIMIT, "limit: the task's events exceed limits.task_bytes");
        return true;
    }
    if (t->stream->next > h->o.limits.task_events) {
        h->stats.limit_hits[LIMIT_TASK_EVENTS]++;
        task_stop(t, TASK_LIMIT, "limit: the task has more events than limits.task_events");
        return true;
    }
    return false;
}

/* Adds the name of its call to a result's data; false when no call is known, and the task fails. */
static bool name_result(struct task *t, struct agent_line *line, struct buf *data)
{
    struct str name = tool_names_of(task_work(t)->tool_names, line->call_id);
    if (!name.p) {
        task_stop(
            t, TASK_AGENT_ERROR,
            "agent_error: tool_result: \"name\" is missing, and no tool_call had its call_id");
        return false;
    }
    buf_puts(data, "{");
    js_put_field(data, "name", name);
    buf_putc(data, ',');
    buf_put(data, line->data.p + 1, line->data.n - 1);
    line->data = buf_str(data);
    return true;
}

static void task_take_event(struct task *t, const struct agent_line *line)
{
    if (line->event == EVENT_INPUT_REQUIRED) {
        task_ask(t, line);
        return;
    }
    if (line->event == EVENT_TOKEN || line->event == EVENT_THINKING) {
        task_say_text(t, line);
        return;
    }
    if (line->event == EVENT_TOOL_CALL && line->tool.p)
        tool_names_tell(&t->work->tool_names, line->call_id, line->tool);
    if (line->event == EVENT_FILE)
        task_name_file(t, line->data);
    task_event_hidden(t, line->event, line->data);
    if (line->event == EVENT_FINAL_ANSWER) {
        struct buf clean = {0};
        said_final(&t->work->said, task_hide(t->hub, line->text, &clean));
        buf_done(&clean);
    }
    if (line->event == EVENT_PROGRESS && line->progress != t->work->staged.progress) {
        t->work->staged.progress = line->progress;
        task_stage(t);
    }
}

static void take_result(struct task *t, struct str result)
{
    struct buf clean = {0};
    free(t->work->result);
    if (secrets_hide_json(t->hub->o.secrets, result, &clean))
        result = buf_str(&clean);
    t->work->result = xstrdup(result);
    if (task_goes_on(t))
        task_note(t, NOTE_RESULT, result);
    buf_done(&clean);
}

/* The conversation's, unless the owner has given it one; a child speaks for itself alone. */
static void take_title(struct task *t, struct str title)
{
    struct buf clean = {0};
    title = task_hide(t->hub, title, &clean);
    title.n = utf8_cut(title, MAX_TITLE);
    if (title.n > 0 && task_type(t) != TYPE_CHILD) {
        t->conversation->refs++;
        journal_put(&t->hub->journal, &(struct op){.kind = OP_CONVERSATION,
                                                   .force = true,
                                                   .softly = true,
                                                   .done = conversation_op_done,
                                                   .ref = t->conversation,
                                                   .owner = task_owner(t),
                                                   .conversation_id = task_conversation_id(t),
                                                   .title = title,
                                                   .flags_set = CONVERSATION_TITLED,
                                                   .at = t->hub->clock.wall_ms});
    }
    buf_done(&clean);
}

void task_begin_answer(struct buf *out, const char *type, struct str call_id)
{
    buf_putc(out, '{');
    js_put_field(out, "type", str_of(type));
    js_put_field(out, "call_id", call_id);
}

void task_end_answer(struct task *t, struct buf *line)
{
    buf_putc(line, '}');
    task_answer(t, buf_str(line));
    buf_done(line);
}

void task_answer_error(struct task *t, struct str call_id, enum error e, const char *message)
{
    struct buf line = {0};
    task_begin_answer(&line, "error", call_id);
    js_put_field(&line, "code", str_of(error_code(e)));
    js_put_field(&line, "message", str_of(message));
    task_end_answer(t, &line);
}

static void task_take_line(struct task *t, const struct agent_line *line)
{
    if (line->kind == LINE_EMPTY || is_too_long(t, line) || is_too_much(t, line))
        return;
    task_budget_count(t, line);
    if (line->kind != LINE_EVENT || (line->event != EVENT_TOKEN && line->event != EVENT_THINKING))
        task_say_held(t);
    switch (line->kind) {
    case LINE_EMPTY: break;
    case LINE_EVENT: task_take_event(t, line); break;
    case LINE_RESULT: take_result(t, line->data); break;
    case LINE_TITLE: take_title(t, line->text); break;
    case LINE_TOOL: task_call_tool(t, line); break;
    case LINE_SPAWN: task_spawn(t, line); break;
    case LINE_SEND: task_send_to_relative(t, line); break;
    case LINE_CANCEL: task_cancel_child(t, line); break;
    case LINE_FILE: task_call_file(t, line); break;
    }
}

static void take_line(struct task *t, const struct agent_line *line)
{
    if (!line->nameless) {
        task_take_line(t, line);
        return;
    }
    struct agent_line named = *line;
    struct buf data = {0};
    if (name_result(t, &named, &data))
        task_take_line(t, &named);
    buf_done(&data);
}

/* A mark must not pass a line whose outcome is not staged, so no line may follow it. */
static bool wants_more(struct task *t)
{
    if (!task_run_of(t))
        return true;
    if (t->agent->outlives && t->work->n_lookups > 0) {
        t->work->waits_for_lookup = true;
        return false;
    }
    if (!journal_is_full(&t->hub->journal))
        return !task_budget_holds(t) || t->agent->ops->shares;
    if (!t->paused) {
        t->paused = true;
        list_push(&t->hub->paused, &t->in_wait);
    }
    return false;
}

/* After a malformed line, nothing that the agent says counts. */
static bool is_broken(const struct task *t)
{
    return t->stopping == TASK_AGENT_ERROR || t->stopping == TASK_LIMIT;
}

bool task_on_event(void *task, const struct agent_line *line)
{
    struct task *t = task;
    if (task_run_of(t) && !task_is_ending(t) && !is_broken(t))
        take_line(t, line);
    return wants_more(t);
}

bool task_on_line(void *task, struct str text)
{
    struct task *t = task;
    if (!task_run_of(t) || task_is_ending(t) || is_broken(t))
        return true;
    struct agent_line line;
    if (!agent_line_decode(&t->hub->decoder, text, &line)) {
        char why[320];
        enum task_error e = line.over_limit ? TASK_LIMIT : TASK_AGENT_ERROR;
        snprintf(why, sizeof why, "%s: %s", task_error_code(e), line.error);
        task_stop(t, e, why);
        return true;
    }
    return task_on_event(t, &line);
}
