#include "gateway/agents/react_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "core/secrets.h"
#include "gateway/agents/react_arguments.h"

/* Design
 *
 *   NEW ──begin──▶ OPEN ──the tool, or an answer of the core──▶ CLOSED
 *
 * A call for core becomes a line of PROTOCOL.md section 8, checked by its decoder: the model must
 * correct what that refuses.  The answer may come from inside of sending it.  A spawn that waits
 * stays open from its "child" to the message that reports the child's end. */

enum call_state { CALL_NEW, CALL_OPEN, CALL_CLOSED };

struct react_call {
    struct react_calls *calls;
    enum call_state state;
    char *id, *name;
    char *arguments;            /* compact JSON object */
    char *more, *function_more; /* members that go back unchanged; "" for none */
    const char *fault;          /* why it cannot be made; NULL: it can */
    const struct tool *tool;
    struct tool_job *job;
    char *
        awaits; /* the input_id, or the child's task_id, whose answer closes it; NULL: its own id */
    bool asking;       /* awaits the user's approval, then starts */
    bool job_asks;     /* awaits the user's answer to a question of its job */
    struct buf output; /* the result for the model */
};

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
    call->fault = react_arguments_read(&call->calls->doc, text, &compact);
    call->arguments = xstrdup(call->fault ? STR("{}") : buf_str(&compact));
    buf_done(&compact);
}

static const struct tool *react_calls_find_tool(const struct react_calls *c, const char *name)
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

static void close_call(struct react_call *call, bool good, struct str output)
{
    struct teller *t = call->calls->teller;
    if (call->state == CALL_CLOSED)
        return;
    struct buf clean = {0};
    call->state = CALL_CLOSED;
    call->calls->n_open--;
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
    close_call(call, good, output);
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

/* Lets core carry it out; false with a sentence in output when the arguments are wrong. */
static bool react_calls_say(struct react_call *call, struct buf *output)
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

/* A question about the call; its answer is taken by take_input. */
static void react_calls_ask(struct react_call *call, const struct tool_question *q)
{
    struct react_calls *c = call->calls;
    struct buf text = {0}, data = {0}, clean = {0};
    buf_putf(&text, "ask-%u", ++c->n_questions);
    free(call->awaits);
    call->awaits = buf_take(&text);
    buf_putc(&data, '{');
    js_put_field(&data, "input_id", str_of(call->awaits));
    js_put_field(&data, "kind", q->approval ? STR("approval") : STR("question"));
    js_put_field(&data, "prompt", hide(c, q->prompt, &clean));
    js_put_field(&data, "tool", str_of(call->name));
    js_put_raw(&data, "arguments", str_of(call->arguments));
    buf_putc(&data, '}');
    teller_say(c->teller, &(struct agent_line){.kind = LINE_EVENT,
                                               .event = EVENT_INPUT_REQUIRED,
                                               .data = buf_str(&data),
                                               .input_id = str_of(call->awaits),
                                               .approval = q->approval,
                                               .timeout_s = q->timeout_s});
    buf_done(&data);
    buf_done(&clean);
}

/* The approval that the tool requests. */
static void ask_approval(struct react_call *call, struct str question)
{
    call->asking = true;
    react_calls_ask(call,
                    &(struct tool_question){.prompt = question, .approval = true, .timeout_s = -1});
}

static bool on_job_ask(void *user, const struct tool_question *question)
{
    struct react_call *call = user;
    if (call->state != CALL_OPEN)
        return false;
    call->job_asks = true;
    react_calls_ask(call, question);
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

static const struct tool_talk job_talk = {.progress = on_job_progress, .ask = on_job_ask};

static bool start_job(struct react_call *call, struct buf *output)
{
    struct tool_caller caller = call->calls->caller;
    caller.talk = &job_talk;
    call->job =
        call->tool->start(call->tool, &caller, str_of(call->arguments), on_job_done, call, output);
    return call->job != NULL;
}

static bool open_job(struct react_call *call, struct buf *output)
{
    const struct tool *tool = call->tool;
    struct buf question = {0};
    bool asks =
        tool->asks && tool->asks(tool, &call->calls->caller, str_of(call->arguments), &question);
    if (asks)
        ask_approval(call, buf_str(&question));
    buf_done(&question);
    return asks || start_job(call, output);
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
        return react_calls_say(call, output);
    if (call->tool->start)
        return open_job(call, output);
    uv_gettimeofday(&now);
    *ret_good =
        call->tool->call(str_of(call->arguments), now.tv_sec * 1000 + now.tv_usec / 1000, output);
    return false;
}

void react_calls_begin(struct react_calls *c)
{
    struct react_call *call = c->list[c->at++];
    struct buf output = {0};
    bool good;
    put_head(call);
    js_put_raw(&c->teller->data, "arguments", str_of(call->arguments));
    teller_tell(c->teller, EVENT_TOOL_CALL, STR_NULL);
    call->state = CALL_OPEN;
    c->n_open++;
    if (!is_opened(call, &good, &output))
        close_call(call, good, buf_str(&output));
    buf_done(&output);
}

/* --- answers of the core ---------------------------------------------------------------------- */

static struct react_call *find_open(const struct react_calls *c, uint32_t node, bool by_id)
{
    for (size_t i = 0; node && js_type(&c->doc, node) == JS_STRING && i < c->n; i++) {
        struct react_call *call = c->list[i];
        const char *id = by_id ? call->id : call->awaits;
        if (call->state == CALL_OPEN && id && js_is(&c->doc, node, id))
            return call;
    }
    return NULL;
}

static void put_value(const struct react_calls *c, uint32_t object, const char *member,
                      struct buf *out)
{
    uint32_t node = js_get(&c->doc, object, member);
    if (node && js_type(&c->doc, node) == JS_STRING)
        js_value(&c->doc, node, out);
    else if (node)
        js_copy(&c->doc, node, out);
}

static bool wants_to_wait(const struct react_call *call)
{
    struct js_doc doc = {0};
    uint32_t node = 0;
    bool waits = js_parse(&doc, call->arguments, strlen(call->arguments), JS_AGENT);
    if (waits)
        node = js_get(&doc, 0, "wait");
    waits = waits && (!node || js_type(&doc, node) != JS_FALSE);
    js_done(&doc);
    return waits;
}

static void take_child(struct react_calls *c, struct react_call *call)
{
    struct buf text = {0};
    put_value(c, 0, "task_id", &text);
    if (wants_to_wait(call)) {
        free(call->awaits);
        call->awaits = buf_take(&text);
        return;
    }
    struct buf output = {0};
    buf_putf(&output, "started as task %s; a message will report its end", text.bytes);
    close_call(call, true, buf_str(&output));
    buf_done(&output);
    buf_done(&text);
}

/* The end of a child that a call waits for. */
static bool take_child_end(struct react_calls *c)
{
    uint32_t child = js_get(&c->doc, 0, "child");
    if (!child || js_type(&c->doc, child) != JS_OBJECT)
        return false;
    struct react_call *call = find_open(c, js_get(&c->doc, child, "task_id"), false);
    if (!call)
        return false;
    struct buf output = {0};
    uint32_t status = js_get(&c->doc, child, "status");
    bool good = status && js_is(&c->doc, status, "completed");
    if (!good) {
        buf_puts(&output, "the task ended as ");
        put_value(c, child, "status", &output);
        uint32_t error = js_get(&c->doc, child, "error");
        if (error && js_type(&c->doc, error) == JS_OBJECT) {
            buf_puts(&output, " (");
            put_value(c, error, "message", &output);
            buf_puts(&output, ")");
        }
        buf_puts(&output, "; its output was: ");
    }
    put_value(c, 0, "content", &output);
    close_call(call, good, buf_str(&output));
    buf_done(&output);
    return true;
}

static void take_ok(struct react_calls *c, struct react_call *call)
{
    struct buf output = {0};
    if (js_get(&c->doc, 0, "cancelled")) {
        buf_puts(&output, "tasks cancelled: ");
        put_value(c, 0, "cancelled", &output);
    } else {
        buf_puts(&output, "sent");
    }
    close_call(call, true, buf_str(&output));
    buf_done(&output);
}

static void take_approval(struct react_call *call, bool approved)
{
    struct buf output = {0};
    call->asking = false;
    if (!approved)
        buf_puts(&output, "the user did not approve the call");
    if (!approved || !start_job(call, &output))
        close_call(call, false, buf_str(&output));
    buf_done(&output);
}

/* The job may ask again, or be done, before this returns. */
static void take_job_answer(struct react_calls *c, struct react_call *call, uint32_t answer)
{
    struct buf json = {0};
    if (answer)
        js_copy(&c->doc, answer, &json);
    else
        buf_puts(&json, "null");
    call->job_asks = false;
    call->tool->answer(call->job, buf_str(&json));
    buf_done(&json);
}

static void take_input(struct react_calls *c, struct react_call *call)
{
    struct buf output = {0};
    uint32_t answer = js_get(&c->doc, 0, "answer");
    if (call->asking) {
        take_approval(call, answer && js_type(&c->doc, answer) == JS_TRUE);
        return;
    }
    if (call->job_asks) {
        take_job_answer(c, call, answer);
        return;
    }
    switch (answer ? js_type(&c->doc, answer) : JS_NULL) {
    case JS_TRUE: buf_puts(&output, "the user approves"); break;
    case JS_FALSE: buf_puts(&output, "the user did not approve the call"); break;
    case JS_NULL: buf_puts(&output, "the user did not answer in time"); break;
    default: put_value(c, 0, "answer", &output); break;
    }
    close_call(call, true, buf_str(&output));
    buf_done(&output);
}

static void take_error(struct react_calls *c, struct react_call *call)
{
    struct buf output = {0};
    put_value(c, 0, "message", &output);
    close_call(call, false, buf_str(&output));
    buf_done(&output);
}

static bool take_answer(struct react_calls *c)
{
    uint32_t type = js_get(&c->doc, 0, "type");
    if (!type || js_type(&c->doc, type) != JS_STRING)
        return false;
    if (js_is(&c->doc, type, "message"))
        return take_child_end(c);
    bool is_input = js_is(&c->doc, type, "input");
    struct react_call *call =
        find_open(c, js_get(&c->doc, 0, is_input ? "input_id" : "call_id"), !is_input);
    if (!call)
        return false;
    if (is_input)
        take_input(c, call);
    else if (js_is(&c->doc, type, "child"))
        take_child(c, call);
    else if (js_is(&c->doc, type, "ok"))
        take_ok(c, call);
    else if (js_is(&c->doc, type, "error"))
        take_error(c, call);
    return true;
}

bool react_calls_deliver(struct react_calls *c)
{
    size_t n_open = c->n_open;
    bool taken = take_answer(c);
    if (c->n_open < n_open)
        c->on_closed(c->user);
    return taken;
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

void react_calls_put_results(struct react_calls *c, struct talk *talk)
{
    for (size_t i = 0; i < c->n; i++) {
        talk_begin(talk, TALK_TOOL);
        js_put_field(&talk->json, "tool_call_id", str_of(c->list[i]->id));
        js_put_field(&talk->json, "content", buf_str(&c->list[i]->output));
        talk_end(talk, false);
    }
}

void react_calls_clear(struct react_calls *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct react_call *call = c->list[i];
        if (call->job)
            call->tool->stop(call->job);
        free(call->id);
        free(call->name);
        free(call->arguments);
        free(call->more);
        free(call->function_more);
        free(call->awaits);
        buf_done(&call->output);
        free(call);
    }
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
