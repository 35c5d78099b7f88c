#include "gateway/agents/react_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "core/secrets.h"
#include "gateway/agents/react_arguments.h"
#include "gateway/agents/react_call.h"
#include "gateway/agents/react_files.h"
#include "gateway/base/fault.h"

/* A call for core becomes a line of PROTOCOL.md section 8, checked by its decoder: the model must
 * correct what that refuses.  The answer may come from inside of sending it.  A spawn that waits
 * stays open from its "child" to the message that reports the child's end. */

/* --- the model's calls ------------------------------------------------------------------------ */

static bool id_is_taken(const struct react_calls *c, const char *id)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->list[i]->id, id) == 0)
            return true;
    return false;
}

static char *own_text(struct str text)
{
    return xstrdup(text.p ? (struct str){text.p, utf8_cut(text, MAX_NAME)} : STR(""));
}

static char *make_id(struct react_calls *c, struct str asked)
{
    char *id = own_text(asked);
    while (!*id || id_is_taken(c, id)) {
        struct buf text = {0};
        buf_putf(&text, "call-%u", ++c->n_ids);
        free(id);
        id = buf_take(&text);
    }
    return id;
}

static void read_arguments(struct react_call *call, struct str text)
{
    struct buf compact = {0};
    const char *fault = react_arguments_read(&call->calls->doc, text, &compact);
    call->fault = fault ? xstrdup(str_of(fault)) : NULL;
    call->arguments = xstrdup(call->fault ? STR("{}") : buf_str(&compact));
    buf_done(&compact);
}

const struct tool *react_calls_find_tool(const struct react_calls *c, const char *name)
{
    for (size_t i = 0; i < c->n_tools; i++)
        if (strcmp(c->tools[i]->name, name) == 0)
            return c->tools[i];
    return NULL;
}

static void read_name(struct react_call *call, struct str name)
{
    call->name = own_text(name);
    call->tool = react_calls_find_tool(call->calls, call->name);
    if (call->tool)
        return;
    char *plain = own_text(react_plain_name(name));
    call->tool = react_calls_find_tool(call->calls, plain);
    free(call->tool ? call->name : plain);
    if (call->tool)
        call->name = plain;
}

void react_calls_add(struct react_calls *c, const struct model_call *asked)
{
    struct react_call *call = xcalloc(sizeof *call);
    call->calls = c;
    call->number = ++c->n_numbers;
    call->id = make_id(c, asked->id);
    read_name(call, asked->name);
    read_arguments(call, asked->arguments);
    call->more = xstrdup(asked->more.n ? asked->more : STR(""));
    call->function_more = xstrdup(asked->function_more.n ? asked->function_more : STR(""));
    c->list = xrealloc(c->list, (c->n + 1) * sizeof(struct react_call *));
    c->list[c->n++] = call;
}

/* --- closing ---------------------------------------------------------------------------------- */

static void put_head(struct react_call *call)
{
    struct teller *t = call->calls->teller;
    teller_begin(t);
    js_put_field(&t->data, "call_id", str_of(call->id));
    js_put_field(&t->data, "name", str_of(call->name));
}

/* The text without the secrets of the configuration. */
static struct str hide(const struct react_calls *c, struct str text, struct buf *clean)
{
    return secrets_hide(c->secrets, text, clean) ? buf_str(clean) : text;
}

void react_call_close(struct react_call *call, bool good, struct str output)
{
    struct teller *t = call->calls->teller;
    if (call->state == CALL_CLOSED)
        return;
    struct buf clean = {0};
    call->state = CALL_CLOSED;
    call->calls->n_open--;
    if (call->job_asks)
        t->events.on_moot(t->task, str_of(call->awaits));
    output = hide(call->calls, output, &clean);
    put_head(call);
    struct str told = event_put_output(&t->data, output);
    js_put_bool(&t->data, "is_error", !good);
    buf_puts(&call->output, good ? "" : "error: ");
    buf_putstr(&call->output, told);
    teller_tell(t, EVENT_TOOL_RESULT, STR_NULL);
    buf_done(&clean);
}

static void on_job_done(void *user, bool good, struct str output)
{
    struct react_call *call = user;
    react_call_close(call, good, output);
    FAULT_DIE(TOOL_DONE);
    call->calls->on_closed(call->calls->user);
}

/* --- making ----------------------------------------------------------------------------------- */

/* {"call":"spawn","call_id":"…",…} or {"event":"input_required","data":{"input_id":"…",…}}, with
 * the arguments as further members. */
static void react_calls_put_line(struct react_call *call, struct buf *line)
{
    struct str members = {call->arguments + 1, strlen(call->arguments) - 1};
    bool asks = strcmp(call->tool->says, "input_required") == 0;
    buf_putc(line, '{');
    js_put_field(line, asks ? "event" : "call", str_of(call->tool->says));
    if (asks) {
        js_put_raw(line, "data", STR("{"));
        js_put_field(line, "input_id", str_of(call->awaits));
        js_put_field(line, "call_id", str_of(call->id));
        js_put_field(line, "tool", str_of(call->name));
        if (!js_get(&call->calls->doc, 0, "kind"))
            js_put_field(line, "kind", STR("question"));
    } else {
        js_put_field(line, "call_id", str_of(call->id));
    }
    buf_putc(line, members.n > 1 ? ',' : '}');
    if (members.n > 1)
        buf_putstr(line, members);
    if (asks)
        buf_putc(line, '}');
}

bool react_call_say(struct react_call *call, struct buf *output)
{
    struct react_calls *c = call->calls;
    struct agent_line line;
    struct buf text = {0};
    if (!js_parse(&c->doc, call->arguments, strlen(call->arguments), JS_AGENT))
        return false; /* it was read before */
    if (strcmp(call->tool->says, "input_required") == 0) {
        buf_putf(&text, "ask-%u", ++c->n_questions);
        call->awaits = buf_take(&text);
    }
    react_calls_put_line(call, &text);
    bool good = agent_line_decode(&c->decoder, buf_str(&text), &line);
    if (good && !call->awaits && (line.kind == LINE_EVENT || line.kind == LINE_RESULT)) {
        snprintf(line.error, sizeof line.error, "%s has no argument \"event\"", call->name);
        good = false;
    }
    if (!good)
        buf_puts(output, line.error);
    else
        teller_say(c->teller, &line);
    buf_done(&text);
    return good;
}

/* A question about the call; its answer is taken by take_input.  approval: with its options; NULL:
 * it has none. */
static void react_calls_ask(struct react_call *call, const struct tool_question *q,
                            const struct approval_question *approval)
{
    struct react_calls *c = call->calls;
    struct buf text = {0}, data = {0}, clean = {0};
    buf_putf(&text, "ask-%u", ++c->n_questions);
    free(call->awaits);
    call->awaits = buf_take(&text);
    buf_putc(&data, '{');
    js_put_field(&data, "input_id", str_of(call->awaits));
    js_put_field(&data, "call_id", str_of(call->id));
    if (call->job_asks)
        js_put_field(&data, "by", STR("tool"));
    js_put_field(&data, "kind", q->approval ? STR("approval") : STR("question"));
    js_put_field(&data, "prompt", hide(c, q->prompt, &clean));
    js_put_field(&data, "tool", str_of(call->name));
    js_put_raw(&data, "arguments", str_of(call->arguments));
    if (approval)
        approval_put_options(approval, &data);
    buf_putc(&data, '}');
    teller_say(c->teller,
               &(struct agent_line){.kind = LINE_EVENT,
                                    .event = EVENT_INPUT_REQUIRED,
                                    .option_ids = approval ? approval_ids(approval) : STR_NULL,
                                    .data = buf_str(&data),
                                    .input_id = str_of(call->awaits),
                                    .approval = q->approval,
                                    .timeout_s = q->timeout_s});
    buf_done(&data);
    buf_done(&clean);
}

/* The approval that the tool requests. */
static void ask_approval(struct react_call *call, const struct approval_question *question)
{
    call->asking = true;
    react_calls_ask(call,
                    &(struct tool_question){
                        .prompt = buf_str(&question->prompt), .approval = true, .timeout_s = -1},
                    question);
}

static bool on_job_ask(void *user, const struct tool_question *question)
{
    struct react_call *call = user;
    if (call->state != CALL_OPEN)
        return false;
    call->job_asks = true;
    react_calls_ask(call, question, NULL);
    return true;
}

static void on_job_progress(void *user, double progress, struct str note)
{
    struct react_call *call = user;
    struct teller *t = call->calls->teller;
    struct buf clean = {0};
    if (call->state != CALL_OPEN)
        return;
    teller_begin(t);
    js_put_key(&t->data, "progress");
    buf_putf(&t->data, "%.4g", progress);
    js_put_field(&t->data, "note", hide(call->calls, note, &clean));
    buf_putc(&t->data, '}');
    teller_say(t, &(struct agent_line){.kind = LINE_EVENT,
                                       .event = EVENT_PROGRESS,
                                       .data = buf_str(&t->data),
                                       .progress = progress,
                                       .timeout_s = -1});
    buf_done(&clean);
}

static void on_job_file(void *user, struct str file)
{
    struct react_call *call = user;
    struct teller *t = call->calls->teller;
    struct js_doc doc = {0};
    if (call->state != CALL_OPEN)
        return;
    teller_begin(t);
    js_put_field(&t->data, "call_id", str_of(call->id));
    buf_putc(&t->data, ',');
    buf_put(&t->data, file.p + 1, file.n - 2);
    if (js_parse(&doc, file.p, file.n, JS_OURS))
        react_files_put_image(&doc, &call->images);
    js_done(&doc);
    teller_tell(t, EVENT_FILE, STR_NULL);
}

static const struct tool_talk job_talk = {
    .progress = on_job_progress, .file = on_job_file, .ask = on_job_ask};

struct call_name {
    char text[16];
    struct trace_context trace;
};

static struct tool_caller caller_of(const struct react_call *call, struct call_name *name)
{
    struct tool_caller caller = call->calls->caller;
    int n = snprintf(name->text, sizeof name->text, "%u", call->number);
    caller.call = (struct str){name->text, (size_t)n};
    caller.talk = &job_talk;
    if (caller.trace && call->calls->has_spans) {
        name->trace = *caller.trace;
        trace_child_id(caller.trace, str_of(call->id), name->trace.span_id);
        caller.trace = &name->trace;
    }
    return caller;
}

static bool start_now(struct react_call *call, struct buf *output)
{
    struct call_name name;
    struct tool_caller caller = caller_of(call, &name);
    FAULT_DIE(TOOL_BEFORE);
    call->job =
        call->tool->start(call->tool, &caller, str_of(call->arguments), on_job_done, call, output);
    FAULT_DIE(TOOL_AFTER);
    return call->job != NULL;
}

bool react_call_start(struct react_call *call, struct buf *output)
{
    struct react_calls *c = call->calls;
    if (tool_again(call->tool, str_of(call->arguments)) == TOOL_AGAIN)
        return start_now(call, output);
    call->ticket = ++c->n_tickets;
    c->teller->events.when_committed(c->teller->task);
    return true;
}

void react_calls_proceed(struct react_calls *c)
{
    c->n_committed++;
    for (size_t i = 0; i < c->n; i++) {
        struct react_call *call = c->list[i];
        struct buf output = {0};
        if (call->ticket != c->n_committed || call->state != CALL_OPEN)
            continue;
        if (!start_now(call, &output)) {
            react_call_close(call, false, buf_str(&output));
            c->on_closed(c->user);
        }
        buf_done(&output);
        return;
    }
}

/* By what the tool says of itself: again, found again, or nobody knows. */
static bool start_again(struct react_call *call, struct buf *output)
{
    struct teller *t = call->calls->teller;
    struct call_name name;
    struct tool_caller caller = caller_of(call, &name);
    switch (tool_again(call->tool, str_of(call->arguments))) {
    case TOOL_AGAIN: return start_now(call, output);
    case TOOL_ATTACH:
        if (call->is_elsewhere)
            break;
        call->job = call->tool->attach(call->tool, &caller, str_of(call->arguments), on_job_done,
                                       call, output);
        return call->job != NULL;
    case TOOL_NEVER: break;
    }
    t->events.on_unknown(t->task, str_of(call->tool->name));
    buf_puts(output, TOOL_UNKNOWN);
    return false;
}

static bool open_job(struct react_call *call, struct buf *output)
{
    const struct teller *t = call->calls->teller;
    struct approval_question question;
    bool asks = approval_asks(call->tool, &call->calls->caller, str_of(call->arguments),
                              t->events.is_allowed, t->task, &question);
    if (asks)
        ask_approval(call, &question);
    approval_question_done(&question);
    return asks || react_call_start(call, output);
}

/* False when it is done: output has a sentence, and ret_good says whether it is a success. */
static bool is_opened(struct react_call *call, bool *ret_good, struct buf *output)
{
    uv_timeval64_t now = {0};
    *ret_good = false;
    if (!call->tool) {
        buf_putf(output, "there is no tool \"%s\"", call->name);
        return false;
    }
    if (call->fault) {
        buf_puts(output, call->fault);
        return false;
    }
    if (call->tool->says)
        return react_call_say(call, output);
    if (call->tool->start)
        return open_job(call, output);
    uv_gettimeofday(&now);
    *ret_good =
        call->tool->call(str_of(call->arguments), now.tv_sec * 1000 + now.tv_usec / 1000, output);
    return false;
}

static void call_begin(struct react_call *call)
{
    struct react_calls *c = call->calls;
    struct buf output = {0};
    bool good;
    put_head(call);
    js_put_raw(&c->teller->data, "arguments", str_of(call->arguments));
    teller_tell(c->teller, EVENT_TOOL_CALL, STR_NULL);
    call->state = CALL_OPEN;
    c->n_open++;
    if (!is_opened(call, &good, &output))
        react_call_close(call, good, buf_str(&output));
    buf_done(&output);
}

/* Its question was answered, and nothing more is known: true when it is closed by that. */
static bool take_up_answer(struct react_call *call)
{
    struct js_doc doc = {0};
    bool parsed = js_parse(&doc, call->answer, strlen(call->answer), JS_OURS);
    uint32_t answer = parsed ? js_get(&doc, 0, "answer") : 0;
    bool approved = react_call_approved(&doc, answer) != APPROVED_NOT;
    bool was_asked = call->tool && call->tool->says;
    if (was_asked)
        react_call_take_input(call, &doc, answer);
    else if (!approved)
        react_call_close(call, false, STR("the user did not approve the call"));
    js_done(&doc);
    return was_asked || !approved;
}

/* Calls of core are in the batch of their tool_call, so one that has left no trace had none. */
void react_call_take_up(struct react_call *call)
{
    struct buf output = {0};
    bool good = false, starts = call->tool && !call->fault && call->tool->start;
    call->state = CALL_OPEN;
    call->calls->n_open++;
    if (call->is_moot && !call->answer)
        call->calls->teller->events.on_moot(call->calls->teller->task, str_of(call->awaits));
    if (call->answer && !call->is_moot && take_up_answer(call))
        return;
    if (!(starts ? start_again(call, &output) : is_opened(call, &good, &output)))
        react_call_close(call, good, buf_str(&output));
    buf_done(&output);
}

bool react_calls_next_is_new(const struct react_calls *c)
{
    return c->at < c->n && c->list[c->at]->state == CALL_NEW;
}

void react_calls_begin(struct react_calls *c)
{
    struct react_call *call = c->list[c->at++];
    if (call->state == CALL_NEW)
        call_begin(call);
    else if (call->state == CALL_TOLD)
        react_call_take_up(call);
}

/* --- results for the model -------------------------------------------------------------------- */

static void put_members(struct buf *out, const char *members)
{
    if (*members)
        buf_putc(out, ',');
    buf_puts(out, members);
}

void react_calls_put(const struct react_calls *c, struct buf *out)
{
    js_put_raw(out, "tool_calls", STR("["));
    for (size_t i = 0; i < c->n; i++) {
        const struct react_call *call = c->list[i];
        buf_puts(out, i ? ",{" : "{");
        js_put_field(out, "id", str_of(call->id));
        js_put_field(out, "type", STR("function"));
        js_put_raw(out, "function", STR("{"));
        js_put_field(out, "name", str_of(call->name));
        js_put_field(out, "arguments", str_of(call->arguments));
        put_members(out, call->function_more);
        buf_putc(out, '}');
        put_members(out, call->more);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

/* A text, or an array of it and its images. */
static void put_result_output(const struct react_call *call, struct buf *out)
{
    if (!call->images.len) {
        js_put_field(out, "content", buf_str(&call->output));
        return;
    }
    js_put_raw(out, "content", STR("[{\"type\":\"text\""));
    js_put_field(out, "text", buf_str(&call->output));
    buf_putc(out, '}');
    buf_putstr(out, buf_str(&call->images));
    buf_putc(out, ']');
}

void react_calls_put_results(struct react_calls *c, struct talk *talk)
{
    for (size_t i = 0; i < c->n; i++) {
        talk_begin(talk, TALK_TOOL);
        js_put_field(&talk->json, "tool_call_id", str_of(c->list[i]->id));
        put_result_output(c->list[i], &talk->json);
        talk_end(talk, false);
    }
}

void react_call_free(struct react_call *call)
{
    if (call->job)
        call->tool->stop(call->job);
    free(call->id);
    free(call->name);
    free(call->arguments);
    free(call->more);
    free(call->function_more);
    free(call->fault);
    free(call->awaits);
    free(call->answer);
    buf_done(&call->output);
    buf_done(&call->images);
    free(call);
}

/* One that is begun again, or begins only when its tool_call is committed, loses nothing. */
bool react_calls_are_bound(const struct react_calls *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct react_call *call = c->list[i];
        if ((call->job || call->ticket > c->n_committed) && call->state == CALL_OPEN &&
            tool_again(call->tool, str_of(call->arguments)) != TOOL_AGAIN)
            return true;
    }
    return false;
}

void react_calls_leave(struct react_calls *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct react_call *call = c->list[i];
        if (call->job)
            (call->tool->leave ? call->tool->leave : call->tool->stop)(call->job);
        call->job = NULL;
    }
}

void react_calls_clear(struct react_calls *c)
{
    for (size_t i = 0; i < c->n; i++)
        react_call_free(c->list[i]);
    free(c->list);
    c->list = NULL;
    c->n = c->at = c->n_open = 0;
}

void react_calls_done(struct react_calls *c)
{
    react_calls_clear(c);
    agent_line_done(&c->decoder);
    js_done(&c->doc);
}
