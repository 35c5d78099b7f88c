#include "proto/faces/ag_ui.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proto/faces/ag_ui_calls.h"
#include "proto/faces/ag_ui_parts.h"
#include "proto/str.h"

/* Design. Each run of text is a message, and so is each run of thoughts; tool calls belong to the
 * text before them, or to a message of their own. At most one of these is open at a time. A stream
 * that continues from a place repeats nothing that the client has, and reopens what is open there:
 * AG-UI's client appends to the message with that id.
 *
 * A question ends the run when nothing follows it (outcome interrupt). The interrupt's id says from
 * where the run that answers it continues, so that text in between is not lost. */

enum open { OPEN_NOTHING, OPEN_TEXT, OPEN_SPAN, OPEN_THOUGHT, OPEN_CALL };

struct ag_ui_question {
    char *input_id;
    char *rest; /* its interrupt, up to the id */
};

struct ag_ui_stream {
    struct face_stream face;
    char *thread_id, *task_id, *run_id;
    const struct ag_ui_request *request; /* NULL: everything is sent, nothing earlier is known */
    struct face_place known;             /* events up to here are not sent */
    struct str tells;                    /* the messages that it begins with, or STR_NULL */
    bool begun;
    bool ends;                      /* the last message is sent, even to a client that has it */
    const struct face_event *event; /* the current one */
    uint32_t n;                     /* its messages so far */
    enum open open;
    uint32_t n_ids, open_id;    /* ids of messages */
    uint32_t calls_id;          /* the message that calls belong to; 0: the next one has its own */
    struct face_said all, last; /* the text of the whole run, and of the last message */
    struct ag_ui_calls calls;   /* of the run, while a snapshot is possible */
    struct ag_ui_question *questions;
    uint32_t n_questions;
    struct buf message, first, text;
};

/* --- messages --------------------------------------------------------------------------------- */

static struct buf *begin_message(struct buf *out, const char *type)
{
    buf_clear(out);
    buf_putc(out, '{');
    js_put_field(out, "type", str_of(type));
    return out;
}

static void put_message_id(struct ag_ui_stream *s, struct buf *out, const char *key, uint32_t id)
{
    js_put_key(out, key);
    buf_putf(out, "\"%s-%u\"", s->task_id, id);
}

static struct buf *message_of(struct ag_ui_stream *s, struct buf *out, const char *type)
{
    put_message_id(s, begin_message(out, type), "messageId", s->open_id);
    return out;
}

static void put_call_start(struct ag_ui_stream *s, struct buf *out)
{
    begin_message(out, "TOOL_CALL_START");
    ag_ui_put_call_id(out, "toolCallId", s->task_id, s->event);
    face_copy(out, "toolCallName", s->event, "name", STR("\"\""));
    put_message_id(s, out, "parentMessageId", s->calls_id);
}

static void put_run_ids(struct ag_ui_stream *s, struct buf *out)
{
    js_put_field(out, "threadId", str_of(s->thread_id));
    js_put_field(out, "runId", str_of(s->run_id));
}

static void put_first(struct ag_ui_stream *s, const struct face_sink *to)
{
    buf_putc(&s->first, '}');
    to->put(to->arg, NULL, buf_str(&s->first));
}

/* Reopens what is open at the place where this stream begins. */
static void open_again(struct ag_ui_stream *s, const struct face_sink *to)
{
    if (s->open == OPEN_TEXT) {
        js_put_field(message_of(s, &s->first, "TEXT_MESSAGE_START"), "role", STR("assistant"));
        put_first(s, to);
    } else if (s->open == OPEN_CALL) {
        put_call_start(s, &s->first);
        put_first(s, to);
    }
    if (s->open != OPEN_SPAN && s->open != OPEN_THOUGHT)
        return;
    message_of(s, &s->first, "REASONING_START");
    put_first(s, to);
    if (s->open == OPEN_SPAN)
        return;
    js_put_field(message_of(s, &s->first, "REASONING_MESSAGE_START"), "role", STR("reasoning"));
    put_first(s, to);
}

static void begin_run(struct ag_ui_stream *s, const struct face_sink *to)
{
    s->begun = true;
    if (s->known.seq > s->face.place.seq)
        s->face.place = s->known;
    put_run_ids(s, begin_message(&s->first, "RUN_STARTED"));
    js_put_field(&s->first, "protocolVersion", STR("1.0"));
    put_first(s, to);
    if (s->tells.p && !s->known.seq) {
        js_put_raw(begin_message(&s->first, "MESSAGES_SNAPSHOT"), "messages", s->tells);
        put_first(s, to);
    }
    open_again(s, to);
}

static bool is_known(const struct ag_ui_stream *s)
{
    const struct face_place *known = &s->known;
    if (!known->seq || s->event->seq > known->seq)
        return false;
    return s->event->seq < known->seq || known->n == 0 || s->n <= known->n;
}

static void put_event(struct ag_ui_stream *s, const struct face_sink *to)
{
    buf_putc(&s->message, '}');
    if (s->event) {
        s->n++;
        if (is_known(s) && !s->ends)
            return;
    }
    if (!s->begun)
        begin_run(s, to);
    if (s->event)
        s->face.place = (struct face_place){.seq = s->event->seq, .n = s->n};
    to->put(to->arg, NULL, buf_str(&s->message));
}

/* --- what is open ----------------------------------------------------------------------------- */

static void close_open(struct ag_ui_stream *s, const struct face_sink *to)
{
    if (s->open == OPEN_TEXT) {
        message_of(s, &s->message, "TEXT_MESSAGE_END");
        put_event(s, to);
    }
    if (s->open == OPEN_THOUGHT) {
        message_of(s, &s->message, "REASONING_MESSAGE_END");
        put_event(s, to);
        s->open = OPEN_SPAN;
    }
    if (s->open == OPEN_SPAN) {
        message_of(s, &s->message, "REASONING_END");
        put_event(s, to);
    }
    s->open = OPEN_NOTHING;
}

static void open_text(struct ag_ui_stream *s, const struct face_sink *to)
{
    if (s->open == OPEN_TEXT)
        return;
    close_open(s, to);
    s->open_id = s->calls_id = ++s->n_ids;
    s->last = (struct face_said){0};
    js_put_field(message_of(s, &s->message, "TEXT_MESSAGE_START"), "role", STR("assistant"));
    put_event(s, to);
    s->open = OPEN_TEXT;
}

static void open_thought(struct ag_ui_stream *s, const struct face_sink *to)
{
    if (s->open == OPEN_THOUGHT)
        return;
    close_open(s, to);
    s->open_id = ++s->n_ids;
    s->calls_id = 0;
    message_of(s, &s->message, "REASONING_START");
    put_event(s, to);
    s->open = OPEN_SPAN;
    js_put_field(message_of(s, &s->message, "REASONING_MESSAGE_START"), "role", STR("reasoning"));
    put_event(s, to);
    s->open = OPEN_THOUGHT;
}

/* --- events ----------------------------------------------------------------------------------- */

static void say_text(struct ag_ui_stream *s, struct str text, const struct face_sink *to)
{
    open_text(s, to);
    face_said_add_to(&s->all, &s->last, text);
    js_put_field(message_of(s, &s->message, "TEXT_MESSAGE_CONTENT"), "delta", text);
    put_event(s, to);
}

static void on_token(struct ag_ui_stream *s, const struct face_event *e, const struct face_sink *to)
{
    struct str text = face_text(e, "text", &s->text);
    if (text.n)
        say_text(s, text, to);
}

static void on_thinking(struct ag_ui_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    struct str text = face_text(e, "text", &s->text);
    if (!text.n)
        return;
    open_thought(s, to);
    js_put_field(message_of(s, &s->message, "REASONING_MESSAGE_CONTENT"), "delta", text);
    put_event(s, to);
}

static bool can_restate(const struct ag_ui_stream *s)
{
    return s->request && s->request->history.p;
}

/* One message can only be taken back by all of a thread's messages together. */
static void put_snapshot(struct ag_ui_stream *s, struct str output, const struct face_sink *to)
{
    struct str history = s->request->history, calls = ag_ui_calls_messages(&s->calls);
    struct buf *out = begin_message(&s->message, "MESSAGES_SNAPSHOT");
    s->open_id = ++s->n_ids;
    s->calls_id = 0;
    js_put_key(out, "messages");
    buf_put(out, history.p, history.n - 1);
    buf_putstr(out, str_from(calls, history.n == 2 && calls.n ? 1 : 0));
    buf_puts(out, history.n > 2 || calls.n ? ",{" : "{");
    put_message_id(s, out, "id", s->open_id);
    js_put_field(out, "role", STR("assistant"));
    js_put_field(out, "content", output);
    buf_puts(out, "}]");
    put_event(s, to);
}

/* Streamed text stays when it equals the answer, as a whole or in its last message. */
static void on_final_answer(struct ag_ui_stream *s, const struct face_event *e,
                            const struct face_sink *to)
{
    struct str output = face_text(e, "output", &s->text);
    if (!output.p || face_said_is(&s->all, output) || face_said_is_cut(&s->all, output) ||
        (s->all.n && face_said_is(&s->last, output)))
        return;
    bool takes_back = s->all.n > 0 && can_restate(s);
    close_open(s, to);
    s->all = (struct face_said){0};
    if (!takes_back) {
        say_text(s, output, to);
        return;
    }
    put_snapshot(s, output, to);
    face_said_add(&s->all, output);
    s->last = s->all;
}

static void on_tool_call(struct ag_ui_stream *s, const struct face_event *e,
                         const struct face_sink *to)
{
    close_open(s, to);
    if (!s->calls_id)
        s->calls_id = ++s->n_ids;
    if (can_restate(s))
        ag_ui_calls_add(&s->calls, s->task_id, s->calls_id, e);
    put_call_start(s, &s->message);
    put_event(s, to);
    s->open = OPEN_CALL;
    ag_ui_put_call_id(begin_message(&s->message, "TOOL_CALL_ARGS"), "toolCallId", s->task_id, e);
    ag_ui_put_as_text(&s->message, "delta", e, "arguments", "{}");
    put_event(s, to);
    ag_ui_put_call_id(begin_message(&s->message, "TOOL_CALL_END"), "toolCallId", s->task_id, e);
    put_event(s, to);
    s->open = OPEN_NOTHING;
}

static void on_tool_result(struct ag_ui_stream *s, const struct face_event *e,
                           const struct face_sink *to)
{
    close_open(s, to);
    s->calls_id = 0;
    struct buf *out = begin_message(&s->message, "TOOL_CALL_RESULT");
    put_message_id(s, out, "messageId", ++s->n_ids);
    if (can_restate(s))
        ag_ui_calls_add_result(&s->calls, s->task_id, s->n_ids, e);
    ag_ui_put_call_id(out, "toolCallId", s->task_id, e);
    ag_ui_put_as_text(out, "content", e, "output", "");
    js_put_field(out, "role", STR("tool"));
    if (face_is_true(e, "is_error"))
        js_put_raw(out, "metadata", STR("{\"is_error\":true}"));
    put_event(s, to);
}

static void on_progress(struct ag_ui_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    struct buf *out = begin_message(&s->message, "ACTIVITY_SNAPSHOT");
    js_put_key(out, "messageId");
    buf_putf(out, "\"%s-progress\"", s->task_id);
    js_put_field(out, "activityType", STR("progress"));
    js_put_key(out, "content");
    js_copy(e->doc, 0, out);
    put_event(s, to);
}

static void put_custom(struct ag_ui_stream *s, const char *name, const struct face_event *e,
                       const struct face_sink *to)
{
    struct buf *out = begin_message(&s->message, "CUSTOM");
    js_put_field(out, "name", str_of(name));
    js_put_key(out, "value");
    js_copy(e->doc, 0, out);
    put_event(s, to);
}

static void on_custom(struct ag_ui_stream *s, const struct face_event *e,
                      const struct face_sink *to)
{
    struct str name = face_text(e, "event_type", &s->text);
    struct buf *out = begin_message(&s->message, "CUSTOM");
    js_put_field(out, "name", name.p ? name : STR("custom"));
    face_copy(out, "value", e, "payload", STR("null"));
    put_event(s, to);
}

/* --- questions -------------------------------------------------------------------------------- */

static void on_input_required(struct ag_ui_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    struct buf rest = {0};
    buf_puts(&rest, "{");
    struct ag_ui_question q = {.input_id = xstrdup(face_text(e, "input_id", &s->text))};
    ag_ui_put_question(&rest, s->task_id, e);
    buf_putc(&rest, 0);
    q.rest = buf_take(&rest);
    if (!q.input_id)
        q.input_id = xstrdup(STR(""));
    s->questions = xrealloc(s->questions, (s->n_questions + 1) * sizeof q);
    s->questions[s->n_questions++] = q;
    put_custom(s, "holdfast.input_required", e, to);
}

static void drop_question(struct ag_ui_stream *s, uint32_t i)
{
    free(s->questions[i].input_id);
    free(s->questions[i].rest);
    s->questions[i] = s->questions[--s->n_questions];
}

static void on_input_received(struct ag_ui_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    struct str id = face_text(e, "input_id", &s->text);
    for (uint32_t i = 0; i < s->n_questions; i++)
        if (str_eq(id, str_of(s->questions[i].input_id))) {
            drop_question(s, i);
            break;
        }
    put_custom(s, "holdfast.input_received", e, to);
}

static void put_interrupts(struct ag_ui_stream *s, struct buf *out)
{
    js_put_key(out, "outcome");
    buf_puts(out, "{\"type\":\"interrupt\",\"interrupts\":[");
    for (uint32_t i = 0; i < s->n_questions; i++) {
        struct buf id = {0};
        buf_putf(&id, "%s.%" PRIu64 ".%s", s->task_id, s->face.place.seq, s->questions[i].input_id);
        buf_puts(out, i ? "," : "");
        buf_puts(out, s->questions[i].rest);
        js_put_field(out, "id", buf_str(&id));
        buf_putc(out, '}');
        buf_done(&id);
    }
    buf_puts(out, "]}");
}

/* --- the end ---------------------------------------------------------------------------------- */

static void on_task_completed(struct ag_ui_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    put_run_ids(s, begin_message(&s->message, "RUN_FINISHED"));
    if (face_has(e, "result"))
        face_copy(&s->message, "result", e, "result", STR("null"));
    ag_ui_put_usage(&s->message, e);
    js_put_raw(&s->message, "outcome", STR("{\"type\":\"success\"}"));
    put_event(s, to);
}

static void on_task_failed(struct ag_ui_stream *s, const struct face_event *e,
                           const struct face_sink *to)
{
    bool cancelled = str_eq(face_text(e, "status", &s->text), STR("cancelled"));
    if (cancelled && !(s->request && s->request->is_before_1_0)) {
        put_run_ids(s, begin_message(&s->message, "RUN_FINISHED"));
        js_put_raw(&s->message, "outcome", STR("{\"type\":\"cancelled\"}"));
    } else {
        begin_message(&s->message, "RUN_ERROR");
        ag_ui_put_error_member(&s->message, "message", e, "the task failed");
        ag_ui_put_error_member(&s->message, "code", e, "internal");
    }
    put_event(s, to);
}

static void on_task_end(struct ag_ui_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    close_open(s, to);
    s->ends = true;
    if (e->type == EVENT_TASK_COMPLETED)
        on_task_completed(s, e, to);
    else
        on_task_failed(s, e, to);
    s->face.is_over = true;
}

/* --- the stream ------------------------------------------------------------------------------- */

static void tell_event(struct ag_ui_stream *s, const struct face_event *e,
                       const struct face_sink *to)
{
    switch (e->type) {
    case EVENT_TASK_CREATED:
    case EVENT_TASK_STARTED: break;
    case EVENT_TASK_RESUMED: close_open(s, to); break;
    case EVENT_THINKING: on_thinking(s, e, to); break;
    case EVENT_TOKEN: on_token(s, e, to); break;
    case EVENT_TOOL_CALL: on_tool_call(s, e, to); break;
    case EVENT_TOOL_RESULT: on_tool_result(s, e, to); break;
    case EVENT_PROGRESS: on_progress(s, e, to); break;
    case EVENT_CHILD: put_custom(s, "holdfast.child", e, to); break;
    case EVENT_FILE: put_custom(s, "holdfast.file", e, to); break;
    case EVENT_MESSAGE: put_custom(s, "holdfast.message", e, to); break;
    case EVENT_INPUT_REQUIRED: on_input_required(s, e, to); break;
    case EVENT_INPUT_RECEIVED: on_input_received(s, e, to); break;
    case EVENT_CUSTOM: on_custom(s, e, to); break;
    case EVENT_FINAL_ANSWER: on_final_answer(s, e, to); break;
    case EVENT_TASK_COMPLETED:
    case EVENT_TASK_FAILED: on_task_end(s, e, to); break;
    case N_EVENT_TYPES: UNREACHABLE();
    }
}

static void forget_known(struct ag_ui_stream *s)
{
    s->known = (struct face_place){0};
    if (s->request)
        s->tells = s->request->history;
}

/* No event of an ended run is left: its record says how it ended, and the thread has its
 * messages. */
static void tell_record(struct ag_ui_stream *s, const struct face_sink *to)
{
    struct js_doc doc = {0};
    struct face_event e = {.type = EVENT_TASK_FAILED, .doc = &doc};
    bool good = js_parse(&doc, s->request->record.p, s->request->record.n, JS_OURS);
    ASSERT(good);
    if (js_is(&doc, js_get(&doc, 0, "status"), "completed"))
        e.type = EVENT_TASK_COMPLETED;
    s->known = (struct face_place){0};
    s->tells = s->request->thread;
    on_task_end(s, &e, to);
    js_done(&doc);
}

static void ag_ui_event(struct face_stream *face, const struct face_event *e,
                        const struct face_sink *to)
{
    struct ag_ui_stream *s = container_of(face, struct ag_ui_stream, face);
    s->event = e;
    s->n = 0;
    if (e->seq > s->known.seq + 1 && !s->face.place.seq)
        forget_known(s); /* what follows the client's place is gone */
    if (!s->begun && !s->known.seq)
        begin_run(s, to);
    tell_event(s, e, to);
    s->event = NULL;
}

static void ag_ui_idle(struct face_stream *face, const struct face_sink *to)
{
    struct ag_ui_stream *s = container_of(face, struct ag_ui_stream, face);
    if (s->request && s->request->record.p && !face->place.seq) {
        tell_record(s, to);
        return;
    }
    if (!s->begun)
        begin_run(s, to);
    s->known = (struct face_place){0}; /* later events are new, whatever the client says */
    if (s->n_questions == 0)
        return;
    close_open(s, to);
    put_run_ids(s, begin_message(&s->message, "RUN_FINISHED"));
    put_interrupts(s, &s->message);
    put_event(s, to);
    face->is_over = true;
}

/* The run's id: the one in this request, or that of the request which started the task. */
static char *name_run(const struct face_task *task)
{
    struct js_doc doc = {0};
    struct buf id = {0};
    uint32_t at = 0;
    if (!task->client_id.p && task->metadata.p &&
        js_parse(&doc, task->metadata.p, task->metadata.n, JS_OURS))
        at = js_get(&doc, 0, "run_id");
    if (at && js_type(&doc, at) == JS_STRING)
        js_value(&doc, at, &id);
    else
        buf_putstr(&id, task->client_id.p ? task->client_id : task->task_id);
    buf_putc(&id, 0);
    js_done(&doc);
    return buf_take(&id);
}

void ag_ui_put_id(struct buf *out, const struct face_stream *face, struct face_place at)
{
    const struct ag_ui_stream *s = container_of(face, const struct ag_ui_stream, face);
    buf_putf(out, "%s.%" PRIu64, s->task_id, at.seq);
    if (at.n)
        buf_putf(out, ".%u", at.n);
}

static struct face_stream *ag_ui_make(const struct face_task *task)
{
    struct ag_ui_stream *s = xcalloc(sizeof *s);
    s->face.ops = &ag_ui_ops;
    s->task_id = xstrdup(task->task_id);
    s->thread_id = xstrdup(task->conversation_id);
    s->run_id = name_run(task);
    s->request = task->request;
    if (s->request)
        s->known = s->request->known;
    if (s->request && s->request->tells_history)
        s->tells = s->request->history;
    if (face_is_withdrawn(task->retracted, s->known.seq))
        forget_known(s); /* the client has text that is none now: it gets all messages anew */
    return &s->face;
}

static void ag_ui_free(struct face_stream *face)
{
    struct ag_ui_stream *s = container_of(face, struct ag_ui_stream, face);
    while (s->n_questions)
        drop_question(s, s->n_questions - 1);
    free(s->questions);
    ag_ui_calls_done(&s->calls);
    buf_done(&s->message);
    buf_done(&s->first);
    buf_done(&s->text);
    free(s->thread_id);
    free(s->task_id);
    free(s->run_id);
    free(s);
}

const struct face_ops ag_ui_ops = {
    .name = "ag_ui",
    .make = ag_ui_make,
    .event = ag_ui_event,
    .idle = ag_ui_idle,
    .free = ag_ui_free,
};
