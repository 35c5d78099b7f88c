#include "gateway/agent_react.h"

#include "gateway/stepper.h"

#include <stdio.h>
#include <stdlib.h>

/* Design
 *
 *            the model starts           on_done              calls tools
 *   READY ───────────────────▶ STREAMING ───────▶ STREAMED ───────────────▶ CALLING ──┐
 *     ▲                                              │ │ calls none, the inbox is     │ one call
 *     ├───────────── calls none, a message waits ────┘ │ empty: final_answer          │ a step
 *     └────────────────────────────────────────────────┼──────────── all are made ────┘
 *                                                      ▼
 *                  cancel, a fault ─────────────▶    ENDED  on_end
 *
 * - Everything but the model's pieces happens in on_step, in a turn of the loop of its own: a cancel
 *   is seen between any two of them, and nothing of the model is freed inside its callbacks.
 * - messages is the conversation as the model gets it, but for its closing bracket.  A call that the
 *   model made badly stands in it repaired: not every model takes back what it said.
 */

#define RUN_MAGIC 0x72656163u

enum react_state { REACT_READY, REACT_STREAMING, REACT_STREAMED, REACT_CALLING, REACT_ENDED };

struct tool_call {
    char *id, *name;
    char *arguments;   /* compact JSON object */
    const char *fault; /* why it cannot be made; NULL: it can */
};

struct run {
    unsigned magic;
    enum react_state state;
    const struct react_settings *settings;
    struct run_events events;
    void *task;
    struct stepper stepper;
    struct model_turn *turn; /* NULL between turns */
    unsigned n_turns;        /* since the user's last message */
    bool paused;
    bool cancelled;

    struct buf messages;
    struct buf inbox; /* messages for it, one a line */
    struct buf text;  /* what the turn has said */
    struct tool_call *calls;
    size_t n_calls, at_call;
    size_t turn_bytes;
    char *fault; /* why the turn failed; NULL: it did not */
    struct model_usage usage;
    bool has_usage;

    struct buf data; /* scratch: the event that is being made */
    struct js_doc doc;
};

static struct run *run_of(void *arg)
{
    struct run *r = arg;
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

static void set_state(struct run *r, enum react_state state)
{
    r->state = state;
    stepper_start(&r->stepper);
}

/* The structured result: what the models' servers have counted. */
static void tell_usage(struct run *r)
{
    struct model_usage u = r->usage;
    struct buf data = {0};
    buf_puts(&data, "{\"usage\":{");
    js_put_int(&data, "prompt_tokens", u.prompt_tokens);
    js_put_int(&data, "completion_tokens", u.completion_tokens);
    js_put_int(&data, "total_tokens", u.prompt_tokens + u.completion_tokens);
    buf_puts(&data, "}}");
    struct agent_line line = {.kind = LINE_RESULT, .data = buf_str(&data), .timeout_s = -1};
    (void)r->events.on_event(r->task, &line); /* nothing is said behind it */
    buf_done(&data);
}

static void end(struct run *r, enum run_end how, struct str text)
{
    r->state = REACT_ENDED;
    stepper_stop(&r->stepper);
    if (r->has_usage)
        tell_usage(r);
    r->events.on_end(r->task, how, text);
}

/* ------------------------------------------------------------------ events */

static void event_begin(struct run *r)
{
    buf_clear(&r->data);
    buf_putc(&r->data, '{');
}

static void event_emit(struct run *r, enum event_type event, struct str text)
{
    buf_putc(&r->data, '}');
    struct agent_line line = {.kind = LINE_EVENT,
                              .event = event,
                              .data = buf_str(&r->data),
                              .text = text,
                              .timeout_s = -1};
    r->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (r->events.on_event(r->task, &line))
        r->paused = false;
}

/* As much of a text as an output may have and a line can carry, escapes and all. */
static struct str put_output(struct buf *data, struct str text)
{
    size_t before = data->len;
    for (size_t max = MAX_OUTPUT;; max = max / 4 * 3) {
        struct str cut = {text.p, utf8_cut(text, max)};
        js_put_field(data, "output", cut);
        if (data->len <= MAX_EVENT_LINE - 4096)
            return cut;
        data->len = before;
    }
}

#define PIECE_BYTES 65536 /* of one event's text: a model may hand in any */

static void emit_piece(struct run *r, enum event_type event, struct str text)
{
    while (text.n) {
        size_t n = utf8_cut(text, PIECE_BYTES);
        struct str piece = {text.p, n ? n : text.n};
        event_begin(r);
        js_put_field(&r->data, "text", piece);
        event_emit(r, event, piece);
        text = (struct str){text.p + piece.n, text.n - piece.n};
    }
}

static void emit_final_answer(struct run *r)
{
    event_begin(r);
    struct str said = put_output(&r->data, buf_str(&r->text));
    event_emit(r, EVENT_FINAL_ANSWER, said);
}

/* ------------------------------------------------------------------ what the model says */

static void turn_clear(struct run *r)
{
    for (size_t i = 0; i < r->n_calls; i++) {
        free(r->calls[i].id);
        free(r->calls[i].name);
        free(r->calls[i].arguments);
    }
    free(r->calls);
    free(r->fault);
    r->calls = NULL;
    r->fault = NULL;
    r->n_calls = r->at_call = r->turn_bytes = 0;
    buf_done(&r->text);
}

static void turn_over(struct run *r, struct str fault)
{
    if (fault.p && !r->fault) {
        struct buf text = {0};
        buf_puts(&text, "model: ");
        buf_putstr(&text, fault);
        r->fault = buf_take(&text);
    }
    set_state(r, REACT_STREAMED);
}

static bool has_room(struct run *r, size_t bytes)
{
    r->turn_bytes += bytes;
    if (r->turn_bytes <= REACT_TURN_BYTES)
        return true;
    turn_over(r, STR("a turn passes 4 MiB"));
    return false;
}

static bool on_piece(void *user, enum model_piece kind, struct str text)
{
    struct run *r = run_of(user);
    if (r->state != REACT_STREAMING || r->cancelled)
        return false;
    if (kind == PIECE_THINKING) {
        emit_piece(r, EVENT_THINKING, text);
        return !r->paused;
    }
    if (!has_room(r, text.n))
        return false;
    buf_putstr(&r->text, text);
    emit_piece(r, EVENT_TOKEN, text);
    return !r->paused;
}

/* The arguments as a compact object; "{}" and a fault when they are none. */
static void read_arguments(struct run *r, struct str text, struct tool_call *call)
{
    if (text.n == 0)
        text = STR("{}");
    buf_clear(&r->data);
    if (!js_parse(&r->doc, text.p, text.n, JS_AGENT))
        call->fault = "the arguments are not JSON";
    else if (js_type(&r->doc, 0) != JS_OBJECT)
        call->fault = "the arguments are not a JSON object";
    else
        js_copy(&r->doc, 0, &r->data);
    if (r->data.len > MAX_OUTPUT)
        call->fault = "the arguments pass 256 KiB";
    call->arguments = xstrdup(call->fault ? STR("{}") : buf_str(&r->data));
}

static char *own_name(struct str name)
{
    return xstrdup(name.p ? (struct str){name.p, utf8_cut(name, MAX_NAME)} : STR(""));
}

static void on_tool_call(void *user, const struct model_call *asked)
{
    struct run *r = run_of(user);
    if (r->state != REACT_STREAMING || !has_room(r, asked->arguments.n))
        return;
    if (r->n_calls == REACT_CALLS) {
        turn_over(r, STR("a turn calls more than 64 tools"));
        return;
    }
    r->calls = xrealloc(r->calls, (r->n_calls + 1) * sizeof *r->calls);
    struct tool_call *call = &r->calls[r->n_calls++];
    *call = (struct tool_call){.id = own_name(asked->id), .name = own_name(asked->name)};
    read_arguments(r, asked->arguments, call);
}

static void on_usage(void *user, const struct model_usage *usage)
{
    struct run *r = run_of(user);
    r->has_usage = true;
    r->usage.prompt_tokens += usage->prompt_tokens;
    r->usage.completion_tokens += usage->completion_tokens;
}

static void on_done(void *user, struct str error)
{
    struct run *r = run_of(user);
    if (r->state == REACT_STREAMING)
        turn_over(r, error);
}

static const struct model_events model_events = {on_piece, on_tool_call, on_usage, on_done};

/* ------------------------------------------------------------------ what the model is given */

static void message_begin(struct run *r, const char *role)
{
    buf_puts(&r->messages, r->messages.len > 1 ? ",{" : "{");
    js_put_field(&r->messages, "role", str_of(role));
}

static void put_message(struct run *r, const char *role, struct str content)
{
    message_begin(r, role);
    js_put_field(&r->messages, "content", content);
    buf_putc(&r->messages, '}');
}

/* What the turn said and called. */
static void put_turn(struct run *r)
{
    struct buf *m = &r->messages;
    message_begin(r, "assistant");
    js_put_field(m, "content", r->text.len || !r->n_calls ? buf_str(&r->text) : STR_NULL);
    if (r->n_calls)
        js_put_raw(m, "tool_calls", STR("["));
    for (size_t i = 0; i < r->n_calls; i++) {
        const struct tool_call *call = &r->calls[i];
        buf_puts(m, i ? ",{" : "{");
        js_put_field(m, "id", str_of(call->id));
        js_put_field(m, "type", STR("function"));
        js_put_raw(m, "function", STR("{"));
        js_put_field(m, "name", str_of(call->name));
        js_put_field(m, "arguments", str_of(call->arguments));
        buf_puts(m, "}}");
    }
    buf_puts(m, r->n_calls ? "]}" : "}");
}

static void put_tools(const struct react_settings *s, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < s->n_tools; i++) {
        const struct tool *tool = s->tools[i];
        buf_puts(out, i ? ",{" : "{");
        js_put_field(out, "type", STR("function"));
        js_put_raw(out, "function", STR("{"));
        js_put_field(out, "name", str_of(tool->name));
        js_put_field(out, "description", str_of(tool->description));
        js_put_raw(out, "parameters", str_of(tool->parameters));
        buf_puts(out, "}}");
    }
    buf_putc(out, ']');
}

/* The oldest message of the inbox becomes the user's next. */
static void take_message(struct run *r)
{
    const char *newline = memchr(r->inbox.bytes, '\n', r->inbox.len);
    size_t n = (size_t)(newline - r->inbox.bytes);
    buf_putc(&r->messages, ',');
    buf_put(&r->messages, r->inbox.bytes, n);
    buf_consume(&r->inbox, n + 1);
    r->n_turns = 0;
}

/* ------------------------------------------------------------------ steps */

static unsigned max_turns(const struct run *r)
{
    return r->settings->max_turns ? r->settings->max_turns : REACT_MAX_TURNS;
}

static void begin_turn(struct run *r)
{
    if (r->inbox.len)
        take_message(r);
    if (r->n_turns == max_turns(r)) {
        char why[64];
        snprintf(why, sizeof why, "no answer within %u turns of the model", max_turns(r));
        end(r, RUN_FAILED, str_of(why));
        return;
    }
    if (r->messages.len > REACT_TALK_BYTES) {
        end(r, RUN_FAILED, STR("the conversation with the model passes 16 MiB"));
        return;
    }
    r->n_turns++;
    turn_clear(r);
    r->state = REACT_STREAMING;

    const struct model *model = r->settings->model;
    char error[256] = "";
    struct buf tools = {0};
    put_tools(r->settings, &tools);
    buf_putc(&r->messages, ']');
    struct model_request request = {buf_str(&r->messages), buf_str(&tools)};
    r->turn = model->ops->start(model->settings, &request, &model_events, r, error);
    r->messages.len--;
    buf_done(&tools);
    if (!r->turn)
        turn_over(r, str_of(error));
}

static void finish_turn(struct run *r)
{
    r->settings->model->ops->free(r->turn);
    r->turn = NULL;
    if (r->fault) {
        end(r, RUN_FAILED, str_of(r->fault));
        return;
    }
    put_turn(r);
    if (r->n_calls) {
        set_state(r, REACT_CALLING);
    } else if (r->inbox.len) {
        set_state(r, REACT_READY);
    } else {
        emit_final_answer(r);
        end(r, RUN_DONE, STR_NULL);
    }
}

static const struct tool *find_tool(const struct react_settings *s, const char *name)
{
    for (size_t i = 0; i < s->n_tools; i++)
        if (strcmp(s->tools[i]->name, name) == 0)
            return s->tools[i];
    return NULL;
}

static bool carry_out(struct run *r, const struct tool_call *call, struct buf *output)
{
    const struct tool *tool = find_tool(r->settings, call->name);
    uv_timeval64_t now = {0};
    if (!tool) {
        buf_putf(output, "there is no tool \"%s\"", call->name);
        return false;
    }
    if (call->fault) {
        buf_puts(output, call->fault);
        return false;
    }
    uv_gettimeofday(&now);
    return tool->call(str_of(call->arguments), now.tv_sec * 1000 + now.tv_usec / 1000, output);
}

static void call_begin(struct run *r, const struct tool_call *call)
{
    event_begin(r);
    js_put_field(&r->data, "call_id", str_of(call->id));
    js_put_field(&r->data, "name", str_of(call->name));
}

static void make_call(struct run *r)
{
    const struct tool_call *call = &r->calls[r->at_call++];
    struct buf output = {0};
    call_begin(r, call);
    js_put_raw(&r->data, "arguments", str_of(call->arguments));
    event_emit(r, EVENT_TOOL_CALL, STR_NULL);

    bool good = carry_out(r, call, &output);
    call_begin(r, call);
    struct str told = put_output(&r->data, buf_str(&output));
    js_put_bool(&r->data, "is_error", !good);
    event_emit(r, EVENT_TOOL_RESULT, STR_NULL);

    message_begin(r, "tool");
    js_put_field(&r->messages, "tool_call_id", str_of(call->id));
    buf_clear(&r->data);
    buf_puts(&r->data, good ? "" : "error: ");
    buf_putstr(&r->data, told);
    js_put_field(&r->messages, "content", buf_str(&r->data));
    buf_putc(&r->messages, '}');
    buf_done(&output);
    set_state(r, r->at_call < r->n_calls ? REACT_CALLING : REACT_READY);
}

static void on_step(void *arg)
{
    struct run *r = run_of(arg);
    stepper_stop(&r->stepper);
    if (r->state == REACT_ENDED)
        return;
    if (r->cancelled) {
        end(r, RUN_FAILED, STR("cancelled"));
        return;
    }
    if (r->paused)
        return;
    switch (r->state) {
    case REACT_READY: begin_turn(r); break;
    case REACT_STREAMED: finish_turn(r); break;
    case REACT_CALLING: make_call(r); break;
    case REACT_STREAMING:
    case REACT_ENDED: break;
    }
}

/* ------------------------------------------------------------------ the port */

static void react_cancel(struct run *run)
{
    struct run *r = run_of(run);
    if (r->state == REACT_ENDED)
        return;
    r->cancelled = true;
    stepper_start(&r->stepper);
}

static void react_unpause(struct run *run)
{
    struct run *r = run_of(run);
    if (r->state == REACT_ENDED)
        return;
    r->paused = false;
    stepper_start(&r->stepper);
    if (r->state == REACT_STREAMING)
        r->settings->model->ops->unpause(r->turn);
}

/* Who says it, when that is not the user: a task that this one started, or its parent. */
static void put_sender(struct run *r, struct buf *out)
{
    const struct js_doc *doc = &r->doc;
    uint32_t from = js_get(doc, 0, "from"), child = js_get(doc, 0, "child");
    if (!from || js_type(doc, from) != JS_STRING || js_is(doc, from, "user"))
        return;
    buf_puts(out, "[from ");
    js_value(doc, from, out);
    const char *const members[] = {"name", "task_id", "status"};
    for (size_t i = 0; child && js_type(doc, child) == JS_OBJECT && i < countof(members); i++) {
        uint32_t member = js_get(doc, child, members[i]);
        if (member && js_type(doc, member) == JS_STRING) {
            buf_putf(out, ", %s ", members[i]);
            js_value(doc, member, out);
        }
    }
    buf_puts(out, "]\n");
}

static bool react_is_deaf(struct run *run)
{
    const struct run *r = run_of(run);
    return r->state == REACT_ENDED || r->cancelled;
}

static bool react_deliver(struct run *run, struct str line)
{
    struct run *r = run_of(run);
    if (r->state == REACT_ENDED || r->cancelled || r->inbox.len + line.n > REACT_INBOX)
        return false;
    if (!js_parse(&r->doc, line.p, line.n, JS_AGENT) || js_type(&r->doc, 0) != JS_OBJECT)
        return true;
    uint32_t type = js_get(&r->doc, 0, "type"), content = js_get(&r->doc, 0, "content");
    if (!type || !js_is(&r->doc, type, "message") || !content ||
        js_type(&r->doc, content) != JS_STRING)
        return true; /* answers to calls that it does not make */
    struct buf text = {0};
    put_sender(r, &text);
    js_value(&r->doc, content, &text);
    buf_putc(&r->inbox, '{');
    js_put_field(&r->inbox, "role", STR("user"));
    js_put_field(&r->inbox, "content", buf_str(&text));
    buf_puts(&r->inbox, "}\n");
    buf_done(&text);
    return true;
}

static void on_closed(void *arg)
{
    struct run *r = run_of(arg);
    r->magic = 0;
    free(r);
}

static void react_free(struct run *run)
{
    if (!run)
        return;
    struct run *r = run_of(run);
    if (r->turn)
        r->settings->model->ops->free(r->turn);
    r->turn = NULL;
    turn_clear(r);
    buf_done(&r->messages);
    buf_done(&r->inbox);
    buf_done(&r->data);
    js_done(&r->doc);
    stepper_close(&r->stepper, on_closed);
}

static bool put_history(struct run *r, struct str history)
{
    if (history.n == 0)
        return true;
    if (!js_parse(&r->doc, history.p, history.n, JS_AGENT) || js_type(&r->doc, 0) != JS_ARRAY)
        return false;
    for (uint32_t i = js_first(&r->doc, 0); i < js_end(&r->doc, 0); i = js_next(&r->doc, i)) {
        if (r->messages.len > 1)
            buf_putc(&r->messages, ',');
        js_copy(&r->doc, i, &r->messages);
    }
    js_done(&r->doc); /* it may be large, and what comes later is small */
    return true;
}

static struct run *react_start(void *settings, const struct run_spec *spec,
                               const struct run_events *events, void *task, char *ret_error)
{
    struct run *r = xcalloc(sizeof *r);
    r->magic = RUN_MAGIC;
    r->settings = settings;
    r->events = *events;
    r->task = task;
    buf_putc(&r->messages, '[');
    if (r->settings->system)
        put_message(r, "system", str_of(r->settings->system));
    if (!put_history(r, spec->history)) {
        snprintf(ret_error, 256, "the history is no JSON array");
        js_done(&r->doc);
        buf_done(&r->messages);
        free(r);
        return NULL;
    }
    put_message(r, "user", spec->input);
    stepper_init(&r->stepper, r->settings->loop, 0, on_step, r);
    set_state(r, REACT_READY);
    return r;
}

const struct agent_ops agent_react_ops = {
    .kind = "react",
    .start = react_start,
    .cancel = react_cancel,
    .kill = react_cancel,
    .deliver = react_deliver,
    .is_deaf = react_is_deaf,
    .unpause = react_unpause,
    .free = react_free,
};
