#include "proto/faces/acp_server.h"

#include <stdlib.h>

#include "proto/str.h"

/* Design. The ids of messages and calls begin with the task's and follow from its events alone, so
 * a load gives them again. A text that is taken up after something else is another message, named
 * after its first event.
 *
 * A question is asked when nothing follows it: in a replay most have been answered. One that was
 * asked, and was then answered by somebody else or ended with the task, is taken back by
 * `$/cancel_request`. A client that takes no forms is told a question as text, and its turn ends:
 * the next prompt is the answer.
 *
 * ACP cannot take text back, but a client that follows a task after a restart hears all of it anew:
 * what the restart withdrew is left out. */

#define MOST_QUESTIONS 8 /* that are told at a time; further ones are for other clients */

struct acp_question {
    char *input_id;
    struct buf json; /* the request that asks it, or the update that tells it */
    char kind;       /* in the request's id; 0: it is told as text, and ends the turn */
    bool asked;
};

enum acp_run { RUN_NONE, RUN_TEXT, RUN_THINKING };

struct acp_stream {
    struct face_stream face;
    const struct acp_request *request; /* the exchange outlives the stream */
    bool is_load, is_last, is_notice, has_replied;
    bool is_resume; /* it begins with the reply: what came before is not told */
    char *task_id, *conversation_id;
    struct str skip_to; /* only what comes after the answer to this question is told */
    enum acp_run run;
    uint64_t message;           /* seq of the run's first event */
    struct face_said all, last; /* the text of the turn, and of its last message */
    struct acp_question questions[MOST_QUESTIONS]; /* in the order of their events */
    size_t n_questions;
    struct buf out, scratch;
};

/* --- messages --------------------------------------------------------------------------------- */

static struct buf *begin_notification(struct acp_stream *s, const char *method)
{
    buf_clear(&s->out);
    buf_puts(&s->out, "{\"jsonrpc\":\"2.0\"");
    js_put_field(&s->out, "method", str_of(method));
    js_put_raw(&s->out, "params", STR("{"));
    js_put_field(&s->out, "sessionId", str_of(s->conversation_id));
    return &s->out;
}

static struct buf *begin_update(struct acp_stream *s, const char *kind)
{
    struct buf *out = begin_notification(s, "session/update");
    js_put_raw(out, "update", STR("{"));
    js_put_field(out, "sessionUpdate", str_of(kind));
    return out;
}

static void end_update(struct acp_stream *s, const struct face_sink *to)
{
    buf_puts(&s->out, "}}}");
    to->put(to->arg, NULL, buf_str(&s->out));
}

static void end_notification(struct acp_stream *s, const struct face_sink *to)
{
    buf_puts(&s->out, "}}");
    to->put(to->arg, NULL, buf_str(&s->out));
}

static void acp_put_chunk(struct acp_stream *s, const char *kind, uint64_t message, struct str text)
{
    struct buf *out = begin_update(s, kind);
    js_put_raw(out, "content", STR("{\"type\":\"text\""));
    js_put_field(out, "text", text);
    buf_putc(out, '}');
    js_put_key(out, "messageId");
    buf_putf(out, "\"%s-%llu\"", s->task_id, (unsigned long long)message);
}

static void put_call_id(struct acp_stream *s, struct str id)
{
    struct buf whole = {0};
    buf_puts(&whole, s->task_id);
    buf_putc(&whole, '-');
    buf_putstr(&whole, id);
    js_put_field(&s->out, "toolCallId", buf_str(&whole));
    buf_done(&whole);
}

/* --- text and tools --------------------------------------------------------------------------- */

static void acp_on_text(struct acp_stream *s, enum acp_run run, const struct face_event *e,
                        const struct face_sink *to)
{
    struct str text = face_text(e, "text", &s->scratch);
    if (!text.n)
        return;
    if (s->run != run)
        s->message = e->seq;
    if (s->run != run && run == RUN_TEXT)
        s->last = (struct face_said){0};
    s->run = run;
    if (run == RUN_TEXT)
        face_said_add_to(&s->all, &s->last, text);
    acp_put_chunk(s, run == RUN_TEXT ? "agent_message_chunk" : "agent_thought_chunk", s->message,
                  text);
    end_update(s, to);
}

/* An answer that is neither all of the streamed text nor its last message is one more message:
 * nothing can be taken back. */
static void acp_final_answer(struct acp_stream *s, const struct face_event *e,
                             const struct face_sink *to)
{
    struct str output = face_text(e, "output", &s->scratch);
    if (!output.n || face_said_is(&s->all, output) || face_said_is_cut(&s->all, output) ||
        face_said_is(&s->last, output))
        return;
    s->run = RUN_NONE;
    s->all = s->last = (struct face_said){0};
    face_said_add_to(&s->all, &s->last, output);
    acp_put_chunk(s, "agent_message_chunk", e->seq, output);
    end_update(s, to);
}

static void acp_tool_call(struct acp_stream *s, const struct face_event *e,
                          const struct face_sink *to)
{
    s->run = RUN_NONE;
    struct buf *out = begin_update(s, "tool_call");
    put_call_id(s, face_text(e, "call_id", &s->scratch));
    face_copy(out, "title", e, "name", STR("\"\""));
    js_put_field(out, "status", STR("in_progress"));
    face_copy(out, "rawInput", e, "arguments", STR("null"));
    end_update(s, to);
}

static void acp_tool_result(struct acp_stream *s, const struct face_event *e,
                            const struct face_sink *to)
{
    s->run = RUN_NONE;
    struct buf *out = begin_update(s, "tool_call_update");
    put_call_id(s, face_text(e, "call_id", &s->scratch));
    js_put_field(out, "status", face_is_true(e, "is_error") ? STR("failed") : STR("completed"));
    js_put_raw(out, "content", STR("[{\"type\":\"content\""));
    js_put_raw(out, "content", STR("{\"type\":\"text\""));
    face_copy(out, "text", e, "output", STR("\"\""));
    buf_puts(out, "}}]");
    end_update(s, to);
}

/* --- what else an agent says ------------------------------------------------------------------ */

static void acp_put_other(struct acp_stream *s, const struct face_event *e,
                          const struct face_sink *to)
{
    struct buf *out = begin_notification(s, "_holdfast/event");
    js_put_field(out, "taskId", str_of(s->task_id));
    js_put_field(out, "event", str_of(event_name(e->type)));
    js_put_key(out, "data");
    js_copy(e->doc, 0, out);
    end_notification(s, to);
}

static void acp_put_file(struct acp_stream *s, const struct face_event *e,
                         const struct face_sink *to)
{
    s->run = RUN_NONE;
    struct buf *out = begin_update(s, "agent_message_chunk");
    js_put_raw(out, "content", STR("{\"type\":\"resource_link\""));
    face_put_file_url(out, "uri", STR(""), str_of(s->conversation_id), e);
    face_copy(out, "name", e, "name", STR("\"\""));
    face_copy(out, "mimeType", e, "media_type", STR("null"));
    face_copy(out, "size", e, "size", STR("null"));
    buf_putc(out, '}');
    end_update(s, to);
}

/* An agent of kind `acp` has those of its updates in such events that have no place of our own. */
static void on_custom(struct acp_stream *s, const struct face_event *e, const struct face_sink *to)
{
    uint32_t payload = js_get(e->doc, 0, "payload");
    bool is_object = payload && js_type(e->doc, payload) == JS_OBJECT;
    uint32_t kind = is_object ? js_get(e->doc, payload, "sessionUpdate") : 0;
    struct str type = face_text(e, "event_type", &s->scratch);
    if (!kind || js_type(e->doc, kind) != JS_STRING || !str_eq(js_raw(e->doc, kind), type)) {
        acp_put_other(s, e, to);
        return;
    }
    struct buf *out = begin_notification(s, "session/update");
    js_put_key(out, "update");
    js_copy(e->doc, payload, out);
    end_notification(s, to);
}

static void acp_created(struct acp_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    struct str input = face_text(e, "input", &s->scratch);
    if (!s->is_load || s->is_notice || !input.n)
        return;
    acp_put_chunk(s, "user_message_chunk", e->seq, input);
    end_update(s, to);
}

/* --- questions -------------------------------------------------------------------------------- */

static void put_question_id(struct buf *out, const struct acp_stream *s, char kind,
                            struct str input_id)
{
    struct buf id = {0};
    exchange_put_id(&id, str_of(s->conversation_id), str_of(s->task_id));
    buf_putf(&id, "/%c/", kind);
    buf_putstr(&id, input_id);
    js_put_str(out, buf_str(&id));
    buf_done(&id);
}

static void begin_question(struct acp_stream *s, const char *method, char kind, struct str input_id)
{
    buf_clear(&s->out);
    buf_puts(&s->out, "{\"jsonrpc\":\"2.0\"");
    js_put_key(&s->out, "id");
    put_question_id(&s->out, s, kind, input_id);
    js_put_field(&s->out, "method", str_of(method));
    js_put_raw(&s->out, "params", STR("{"));
    js_put_field(&s->out, "sessionId", str_of(s->conversation_id));
}

/* ACP has four kinds of options, which say how one is shown. */
static struct str kind_of_option(const struct js_doc *doc, uint32_t option)
{
    static const char *const kinds[] = {"allow_once", "allow_always", "reject_once",
                                        "reject_always"};
    uint32_t kind = js_type(doc, option) == JS_OBJECT ? js_get(doc, option, "kind") : 0;
    for (size_t i = 0; kind && i < countof(kinds); i++)
        if (js_type(doc, kind) == JS_STRING && js_is(doc, kind, kinds[i]))
            return str_of(kinds[i]);
    return STR("allow_once");
}

static void put_option(struct buf *out, const struct js_doc *doc, uint32_t option)
{
    bool is_object = js_type(doc, option) == JS_OBJECT;
    uint32_t id = is_object ? js_get(doc, option, "id") : option;
    uint32_t name = is_object ? js_get(doc, option, "name") : option;
    buf_puts(out, "{\"optionId\":");
    js_copy(doc, id ? id : option, out);
    js_put_key(out, "name");
    js_copy(doc, name ? name : id, out);
    js_put_field(out, "kind", kind_of_option(doc, option));
    buf_putc(out, '}');
}

static void acp_put_options(struct buf *out, const struct js_doc *doc, uint32_t options)
{
    js_put_raw(out, "options", STR("["));
    for (uint32_t i = options ? js_first(doc, options) : 0; options && i < js_end(doc, options);
         i = js_next(doc, i)) {
        if (i != js_first(doc, options))
            buf_putc(out, ',');
        put_option(out, doc, i);
    }
    if (!options)
        buf_puts(out, "{\"optionId\":\"allow\",\"name\":\"Allow\",\"kind\":\"allow_once\"},"
                      "{\"optionId\":\"reject\",\"name\":\"Reject\",\"kind\":\"reject_once\"}");
    buf_putc(out, ']');
}

/* The node of its options; 0 when it has none. */
static uint32_t options_of(const struct face_event *e)
{
    uint32_t at = js_get(e->doc, 0, "options");
    bool is_array = at && js_type(e->doc, at) == JS_ARRAY;
    return is_array && js_first(e->doc, at) < js_end(e->doc, at) ? at : 0;
}

static void put_permission(struct acp_stream *s, const struct face_event *e, char kind,
                           struct str input_id)
{
    struct buf tool = {0};
    begin_question(s, "session/request_permission", kind, input_id);
    js_put_raw(&s->out, "toolCall", STR("{"));
    put_call_id(s, input_id);
    face_copy(&s->out, "title", e, face_has(e, "prompt") ? "prompt" : "tool", STR("\"\""));
    js_put_field(&s->out, "status", STR("pending"));
    if (face_text(e, "tool", &tool).n)
        face_copy(&s->out, "name", e, "tool", STR("\"\""));
    face_copy(&s->out, "rawInput", e, "arguments", STR("null"));
    buf_putc(&s->out, '}');
    acp_put_options(&s->out, e->doc, options_of(e));
    buf_puts(&s->out, "}}");
    buf_done(&tool);
}

static void put_form(struct acp_stream *s, const struct face_event *e, struct str input_id)
{
    begin_question(s, "elicitation/create", 'q', input_id);
    js_put_field(&s->out, "mode", STR("form"));
    face_copy(&s->out, "message", e, "prompt", STR("\"\""));
    js_put_raw(&s->out, "requestedSchema",
               STR("{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"string\"}},"
                   "\"required\":[\"answer\"]}"));
    buf_puts(&s->out, "}}");
}

static char kind_of_question(struct acp_stream *s, const struct face_event *e)
{
    if (str_eq(face_text(e, "kind", &s->scratch), STR("question")))
        return s->request && s->request->elicits ? 'q' : 0;
    return options_of(e) ? 'o' : 'a'; /* an approval, or a budget, which is answered like one */
}

static void acp_note_question(struct acp_stream *s, const struct face_event *e)
{
    struct buf id = {0};
    struct str input_id = face_text(e, "input_id", &id);
    char kind = kind_of_question(s, e);
    s->run = RUN_NONE;
    if (s->n_questions < MOST_QUESTIONS && input_id.n) {
        struct acp_question *q = &s->questions[s->n_questions++];
        *q = (struct acp_question){.input_id = xstrdup(input_id), .kind = kind};
        if (kind == 0) {
            acp_put_chunk(s, "agent_message_chunk", e->seq, face_text(e, "prompt", &s->scratch));
            buf_puts(&s->out, "}}}");
        } else if (kind == 'q') {
            put_form(s, e, input_id);
        } else {
            put_permission(s, e, kind, input_id);
        }
        buf_putstr(&q->json, buf_str(&s->out));
    }
    buf_done(&id);
}

static void drop_question(struct acp_stream *s, size_t at)
{
    struct acp_question *q = &s->questions[at];
    buf_done(&q->json);
    free(q->input_id);
    s->n_questions--;
    memmove(q, q + 1, (s->n_questions - at) * sizeof *q);
}

/* Takes a question back that the client may still show. */
static void close_question(struct acp_stream *s, size_t at, const struct face_sink *to)
{
    const struct acp_question *q = &s->questions[at];
    if (q->asked && q->kind) {
        buf_clear(&s->out);
        buf_puts(&s->out, "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{"
                          "\"requestId\":");
        put_question_id(&s->out, s, q->kind, str_of(q->input_id));
        end_notification(s, to);
    }
    drop_question(s, at);
}

static void acp_on_answer(struct acp_stream *s, const struct face_event *e,
                          const struct face_sink *to)
{
    struct str id = face_text(e, "input_id", &s->scratch);
    for (size_t i = 0; i < s->n_questions; i++)
        if (str_eq(str_of(s->questions[i].input_id), id)) {
            close_question(s, i, to);
            return;
        }
}

/* --- the end ---------------------------------------------------------------------------------- */

static void put_reply(struct acp_stream *s, const char *stop_reason, const struct face_event *e,
                      const struct face_sink *to)
{
    uint32_t result = e ? js_get(e->doc, 0, "result") : 0;
    buf_clear(&s->out);
    acp_server_begin_result(&s->out, s->request ? s->request->rpc_id : STR("0"));
    if (stop_reason)
        js_put_field(&s->out, "stopReason", str_of(stop_reason));
    if (result && js_type(e->doc, result) == JS_OBJECT) {
        js_put_raw(&s->out, "_meta", STR("{"));
        js_put_key(&s->out, "holdfast/result");
        js_copy(e->doc, result, &s->out);
        buf_putc(&s->out, '}');
    }
    acp_server_end_result(&s->out);
    to->put(to->arg, NULL, buf_str(&s->out));
    s->has_replied = true;
}

/* An agent of kind `acp` has said why its turn ended. */
static const char *stop_reason_of(const struct face_event *e)
{
    static const char *const reasons[] = {"max_tokens", "max_turn_requests", "refusal"};
    uint32_t result = js_get(e->doc, 0, "result");
    bool is_object = result && js_type(e->doc, result) == JS_OBJECT;
    uint32_t reason = is_object ? js_get(e->doc, result, "stop_reason") : 0;
    for (size_t i = 0; reason && i < countof(reasons); i++)
        if (js_type(e->doc, reason) == JS_STRING && js_is(e->doc, reason, reasons[i]))
            return reasons[i];
    return "end_turn";
}

static void put_failure(struct acp_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    uint32_t error = js_get(e->doc, 0, "error");
    bool is_object = error && js_type(e->doc, error) == JS_OBJECT;
    uint32_t why = is_object ? js_get(e->doc, error, "message") : 0;
    struct buf data = {0};
    buf_clear(&s->scratch);
    if (why && js_type(e->doc, why) == JS_STRING)
        js_value(e->doc, why, &s->scratch);
    if (is_object)
        js_copy(e->doc, error, &data);
    buf_clear(&s->out);
    acp_server_put_error(&s->out, s->request ? s->request->rpc_id : STR("0"), ACP_INTERNAL,
                         s->scratch.len ? buf_str(&s->scratch) : STR("the task failed"),
                         data.len ? buf_str(&data) : STR_NULL);
    buf_done(&data);
    to->put(to->arg, NULL, buf_str(&s->out));
}

/* The reply of the prompt that began this turn had a connection of its own. */
static void put_turn_ended(struct acp_stream *s, const char *stop_reason,
                           const struct face_event *e, const struct face_sink *to)
{
    struct buf *out = begin_notification(s, "_holdfast/turn_ended");
    js_put_field(out, "taskId", str_of(s->task_id));
    if (stop_reason)
        js_put_field(out, "stopReason", str_of(stop_reason));
    else
        face_copy(out, "error", e, "error", STR("{}"));
    end_notification(s, to);
}

static void acp_on_end(struct acp_stream *s, const struct face_event *e, const struct face_sink *to)
{
    bool failed = e->type == EVENT_TASK_FAILED;
    bool cancelled = failed && str_eq(face_text(e, "status", &s->scratch), STR("cancelled"));
    const char *reason = cancelled ? "cancelled" : failed ? NULL : stop_reason_of(e);
    while (s->n_questions)
        close_question(s, 0, to);
    if (s->is_load)
        put_turn_ended(s, reason, e, to);
    else if (reason)
        put_reply(s, reason, e, to);
    else
        put_failure(s, e, to);
    s->face.is_over = true;
}

/* --- the stream ------------------------------------------------------------------------------- */

static void acp_say(struct acp_stream *s, const struct face_event *e, const struct face_sink *to)
{
    switch (e->type) {
    case EVENT_TASK_CREATED: acp_created(s, e, to); break;
    case EVENT_TASK_STARTED: break;
    case EVENT_TASK_RESUMED: s->run = RUN_NONE; break; /* a client that follows it came later */
    case EVENT_TOKEN: acp_on_text(s, RUN_TEXT, e, to); break;
    case EVENT_THINKING: acp_on_text(s, RUN_THINKING, e, to); break;
    case EVENT_TOOL_CALL: acp_tool_call(s, e, to); break;
    case EVENT_TOOL_RESULT: acp_tool_result(s, e, to); break;
    case EVENT_INPUT_REQUIRED: acp_note_question(s, e); break;
    case EVENT_INPUT_RECEIVED: acp_on_answer(s, e, to); break;
    case EVENT_FINAL_ANSWER: acp_final_answer(s, e, to); break;
    case EVENT_CUSTOM: on_custom(s, e, to); break;
    case EVENT_FILE: acp_put_file(s, e, to); break;
    case EVENT_PROGRESS:
    case EVENT_CHILD:
    case EVENT_MESSAGE: acp_put_other(s, e, to); break;
    case EVENT_TASK_COMPLETED:
    case EVENT_TASK_FAILED: acp_on_end(s, e, to); break;
    case N_EVENT_TYPES: UNREACHABLE();
    }
}

static void acp_drop(void *arg, const char *name, struct str json)
{
    (void)arg, (void)name, (void)json;
}

/* For events that the client already has, the stream only updates its state. */
static const struct face_sink acp_nowhere = {.put = acp_drop};

static void acp_event(struct face_stream *face, const struct face_event *e,
                      const struct face_sink *to)
{
    struct acp_stream *s = container_of(face, struct acp_stream, face);
    if (s->skip_to.p) {
        bool is_answer = e->type == EVENT_INPUT_RECEIVED &&
                         str_eq(face_text(e, "input_id", &s->scratch), s->skip_to);
        if (is_answer || event_is_terminal(e->type)) {
            str_free(&s->skip_to);
            s->run = RUN_NONE;
        } else {
            to = &acp_nowhere;
        }
    }
    if (s->is_resume && !s->has_replied)
        to = &acp_nowhere;
    acp_say(s, e, to);
}

static void acp_ask(struct acp_stream *s, struct acp_question *q, const struct face_sink *to)
{
    q->asked = true;
    to->put(to->arg, NULL, buf_str(&q->json));
    if (q->kind)
        return;
    if (!s->is_load)
        put_reply(s, "end_turn", NULL, to);
    s->face.is_over = true;
}

static void acp_idle(struct face_stream *face, const struct face_sink *to)
{
    struct acp_stream *s = container_of(face, struct acp_stream, face);
    if (s->skip_to.p)
        return;
    if (s->is_load && !s->is_last) {
        face->is_over = true; /* what it says further is told to those who follow it */
        return;
    }
    if (s->is_load && !s->has_replied)
        put_reply(s, NULL, NULL, to);
    for (size_t i = 0; i < s->n_questions && !face->is_over; i++)
        if (!s->questions[i].asked)
            acp_ask(s, &s->questions[i], to);
}

bool acp_server_has_replied(const struct face_stream *face)
{
    return container_of(face, const struct acp_stream, face)->has_replied;
}

static struct face_stream *acp_make(const struct face_task *task)
{
    const struct acp_request *r = task->request;
    struct acp_stream *s = xcalloc(sizeof *s);
    s->face.ops = &acp_server_ops;
    s->request = r;
    s->is_load = r && acp_server_loads(r);
    s->is_resume = r && r->operation == ACP_RESUME;
    s->is_last = s->is_load && r->at + 1 == ACP_TURNS;
    s->is_notice = s->is_load && r->turns[r->at].is_notice;
    s->task_id = xstrdup(task->task_id);
    s->conversation_id = xstrdup(task->conversation_id);
    s->skip_to = str_own(task->after_answer);
    return &s->face;
}

static void acp_free(struct face_stream *face)
{
    struct acp_stream *s = container_of(face, struct acp_stream, face);
    while (s->n_questions)
        drop_question(s, s->n_questions - 1);
    buf_done(&s->out);
    buf_done(&s->scratch);
    str_free(&s->skip_to);
    free(s->task_id);
    free(s->conversation_id);
    free(s);
}

const struct face_ops acp_server_ops = {
    .name = "acp",
    .make = acp_make,
    .event = acp_event,
    .idle = acp_idle,
    .free = acp_free,
};
