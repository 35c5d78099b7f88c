#include "proto/faces/ai_sdk.h"

#include <stdlib.h>

/* Design. One message, its parts in the order of the events. A run of text is a part, and so is a
 * run of thoughts; any other event closes the run. Each run of text begins a step of its own,
 * because `reset-step` is the only way to take text back: a final answer that is not what was
 * streamed replaces the last run. An approval ends the stream (`finish`), as the SDK's own do: its
 * client answers with the next request, whose stream continues after the answer. */

enum run { RUN_NONE, RUN_TEXT, RUN_THINKING };

struct ai_sdk_stream {
    struct face_stream face;
    char *task_id, *conversation_id;
    struct str skip_to; /* the answer that ends the skipping; NULL: skip nothing */
    enum run run;
    uint32_t n_runs; /* ids of parts */
    bool begun, in_step;
    bool step_has_text;         /* the current step is one run of text and nothing else */
    bool waits;                 /* an approval was requested, and nothing followed it */
    struct face_said all, last; /* the text of the whole message, and of the last run */
    struct face_said before;    /* the text before the current step */
    struct buf chunk, scratch, json;
};

/* --- chunks ----------------------------------------------------------------------------------- */

static struct buf *chunk(struct ai_sdk_stream *s, const char *type)
{
    buf_clear(&s->chunk);
    buf_putc(&s->chunk, '{');
    js_put_field(&s->chunk, "type", str_of(type));
    return &s->chunk;
}

static void put(struct ai_sdk_stream *s, const struct face_sink *to)
{
    buf_putc(&s->chunk, '}');
    to->put(to->arg, NULL, buf_str(&s->chunk));
}

static void put_bare(struct ai_sdk_stream *s, const char *type, const struct face_sink *to)
{
    chunk(s, type);
    put(s, to);
}

static void put_run_id(struct ai_sdk_stream *s, struct buf *out)
{
    js_put_key(out, "id");
    buf_putf(out, "\"%s-%u\"", s->run == RUN_TEXT ? "text" : "reasoning", s->n_runs);
}

static void end_run(struct ai_sdk_stream *s, const struct face_sink *to)
{
    if (s->run == RUN_NONE)
        return;
    put_run_id(s, chunk(s, s->run == RUN_TEXT ? "text-end" : "reasoning-end"));
    put(s, to);
    s->run = RUN_NONE;
}

static void end_step(struct ai_sdk_stream *s, const struct face_sink *to)
{
    end_run(s, to);
    if (s->in_step)
        put_bare(s, "finish-step", to);
    s->in_step = s->step_has_text = false;
}

/* of_text: the step will hold one run of text and nothing else. */
static void begin_step(struct ai_sdk_stream *s, bool of_text, const struct face_sink *to)
{
    if (s->in_step && s->step_has_text == of_text)
        return;
    end_step(s, to);
    put_bare(s, "start-step", to);
    s->in_step = true;
    s->step_has_text = of_text;
    s->before = s->all;
}

static void ai_sdk_begin_run(struct ai_sdk_stream *s, enum run run, const struct face_sink *to)
{
    if (s->run == run)
        return;
    end_run(s, to);
    begin_step(s, run == RUN_TEXT, to);
    s->run = run;
    s->n_runs++;
    s->last = (struct face_said){0};
    put_run_id(s, chunk(s, run == RUN_TEXT ? "text-start" : "reasoning-start"));
    put(s, to);
}

/* --- events ----------------------------------------------------------------------------------- */

/* json: the same text, as a string of JSON. */
static void put_text(struct ai_sdk_stream *s, enum run run, struct str text, struct str json,
                     const struct face_sink *to)
{
    ai_sdk_begin_run(s, run, to);
    if (run == RUN_TEXT)
        face_said_add_to(&s->all, &s->last, text);
    struct buf *out = chunk(s, run == RUN_TEXT ? "text-delta" : "reasoning-delta");
    put_run_id(s, out);
    js_put_raw(out, "delta", json);
    put(s, to);
}

static void on_text(struct ai_sdk_stream *s, enum run run, const struct face_event *e,
                    const struct face_sink *to)
{
    struct str json, text = face_text_and_json(e, "text", &s->scratch, &s->json, &json);
    if (text.n)
        put_text(s, run, text, json, to);
}

/* Streamed text stays when it equals the answer, as a whole or in its last run. */
static void ai_sdk_final_answer(struct ai_sdk_stream *s, const struct face_event *e,
                                const struct face_sink *to)
{
    struct str output = face_text(e, "output", &s->scratch);
    if (!output.p || face_said_is(&s->all, output) || face_said_is_cut(&s->all, output) ||
        (s->all.n && face_said_is(&s->last, output)))
        return;
    if (s->in_step && s->step_has_text) {
        put_bare(s, "reset-step", to);
        s->run = RUN_NONE;
    }
    s->all = (struct face_said){0};
    if (output.n)
        put_text(s, RUN_TEXT, output, face_json(e, "output", &s->json), to);
}

/* Only a reader for whom the summary does not name the withdrawal has the step; a step with tools
 * stays, since they have happened. */
static void ai_sdk_resumed(struct ai_sdk_stream *s, const struct face_event *e,
                           const struct face_sink *to)
{
    uint64_t after;
    if (!face_takes_back(&s->face, e, &after)) {
        end_run(s, to);
        return;
    }
    if (!s->in_step || !s->step_has_text)
        return;
    put_bare(s, "reset-step", to);
    s->run = RUN_NONE;
    s->all = s->before;
}

static void put_tool(struct ai_sdk_stream *s, const struct face_event *e, const char *id_member,
                     const char *name_member, const struct face_sink *to)
{
    end_run(s, to);
    begin_step(s, false, to);
    struct buf *out = chunk(s, "tool-input-available");
    face_copy(out, "toolCallId", e, id_member, STR("\"\""));
    face_copy(out, "toolName", e, name_member, STR("\"\""));
    face_copy(out, "input", e, "arguments", STR("{}"));
    js_put_bool(out, "dynamic", true);
    js_put_bool(out, "providerExecuted", true);
    put(s, to);
}

static void ai_sdk_tool_result(struct ai_sdk_stream *s, const struct face_event *e,
                               const struct face_sink *to)
{
    bool bad = face_is_true(e, "is_error");
    end_run(s, to);
    struct buf *out = chunk(s, bad ? "tool-output-error" : "tool-output-available");
    face_copy(out, "toolCallId", e, "call_id", STR("\"\""));
    face_copy(out, bad ? "errorText" : "output", e, "output", STR("\"\""));
    js_put_bool(out, "dynamic", true);
    js_put_bool(out, "providerExecuted", true);
    put(s, to);
}

/* Events without a chunk in the SDK become data parts of the application; a part with an id is
 * replaced. */
static void put_data(struct ai_sdk_stream *s, const char *type, const char *id,
                     const struct face_event *e, const struct face_sink *to)
{
    end_run(s, to);
    begin_step(s, false, to);
    struct buf *out = chunk(s, type);
    if (id)
        js_put_field(out, "id", str_of(id));
    js_put_key(out, "data");
    js_copy(e->doc, 0, out);
    put(s, to);
}

static void ai_sdk_file(struct ai_sdk_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    end_run(s, to);
    begin_step(s, false, to);
    struct buf *out = chunk(s, "file");
    face_put_file_url(out, "url", STR(""), str_of(s->conversation_id), e);
    face_copy(out, "mediaType", e, "media_type", STR("\"application/octet-stream\""));
    put(s, to);
}

static void ai_sdk_input_required(struct ai_sdk_stream *s, const struct face_event *e,
                                  const struct face_sink *to)
{
    if (!face_asks_yes_or_no(e)) {
        put_data(s, "data-question", NULL, e, to);
        return;
    }
    bool has_call = face_has(e, "call_id");
    if (!has_call)
        put_tool(s, e, "input_id", "tool",
                 to); /* the agent asks without a tool call that was shown */
    end_run(s, to);
    struct buf *out = chunk(s, "tool-approval-request");
    face_copy(out, "approvalId", e, "input_id", STR("\"\""));
    face_copy(out, "toolCallId", e, has_call ? "call_id" : "input_id", STR("\"\""));
    face_copy(out, "reason", e, "prompt", STR("\"\""));
    put(s, to);
    s->waits = true;
}

static bool is_boolean(const struct face_event *e, const char *member, bool *ret)
{
    uint32_t at = js_get(e->doc, 0, member);
    *ret = at && js_type(e->doc, at) == JS_TRUE;
    return *ret || (at && js_type(e->doc, at) == JS_FALSE);
}

static void on_input_received(struct ai_sdk_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    bool approved;
    if (!is_boolean(e, "answer", &approved)) {
        put_data(s, "data-answer", NULL, e, to);
        return;
    }
    struct buf *out = chunk(s, "tool-approval-response");
    face_copy(out, "approvalId", e, "input_id", STR("\"\""));
    js_put_bool(out, "approved", approved);
    put(s, to);
    if (approved)
        return;
    face_copy(chunk(s, "tool-output-denied"), "toolCallId", e, "input_id", STR("\"\""));
    put(s, to);
}

static void on_completed(struct ai_sdk_stream *s, const struct face_event *e,
                         const struct face_sink *to)
{
    end_step(s, to);
    struct buf *out = chunk(s, "finish");
    js_put_field(out, "finishReason", STR("stop"));
    js_put_key(out, "messageMetadata");
    buf_putc(out, '{');
    face_copy(out, "result", e, "result", STR("null"));
    buf_putc(out, '}');
    put(s, to);
    s->face.is_over = true;
}

static void on_failed(struct ai_sdk_stream *s, const struct face_event *e,
                      const struct face_sink *to)
{
    end_step(s, to);
    if (str_eq(face_text(e, "status", &s->scratch), STR("cancelled"))) {
        js_put_field(chunk(s, "abort"), "reason", STR("cancelled"));
        put(s, to);
    } else {
        uint32_t error = js_get(e->doc, 0, "error");
        uint32_t message = error ? js_get(e->doc, error, "message") : 0;
        struct buf *out = chunk(s, "error");
        js_put_key(out, "errorText");
        if (message)
            js_copy(e->doc, message, out);
        else
            buf_puts(out, "\"the task failed\"");
        put(s, to);
    }
    s->face.is_over = true;
}

static void say(struct ai_sdk_stream *s, const struct face_event *e, const struct face_sink *to)
{
    switch (e->type) {
    case EVENT_TASK_CREATED:
    case EVENT_TASK_STARTED: break;
    case EVENT_TASK_RESUMED: ai_sdk_resumed(s, e, to); break;
    case EVENT_THINKING: on_text(s, RUN_THINKING, e, to); break;
    case EVENT_TOKEN: on_text(s, RUN_TEXT, e, to); break;
    case EVENT_TOOL_CALL: put_tool(s, e, "call_id", "name", to); break;
    case EVENT_TOOL_RESULT: ai_sdk_tool_result(s, e, to); break;
    case EVENT_PROGRESS: put_data(s, "data-progress", "progress", e, to); break;
    case EVENT_CHILD: put_data(s, "data-child", NULL, e, to); break;
    case EVENT_MESSAGE: put_data(s, "data-message", NULL, e, to); break;
    case EVENT_INPUT_REQUIRED: ai_sdk_input_required(s, e, to); break;
    case EVENT_INPUT_RECEIVED: on_input_received(s, e, to); break;
    case EVENT_FILE: ai_sdk_file(s, e, to); break;
    case EVENT_CUSTOM: put_data(s, "data-custom", NULL, e, to); break;
    case EVENT_FINAL_ANSWER: ai_sdk_final_answer(s, e, to); break;
    case EVENT_TASK_COMPLETED: on_completed(s, e, to); break;
    case EVENT_TASK_FAILED: on_failed(s, e, to); break;
    case N_EVENT_TYPES: UNREACHABLE();
    }
}

/* --- the stream ------------------------------------------------------------------------------- */

static void begin(struct ai_sdk_stream *s, const struct face_sink *to)
{
    struct buf *out = chunk(s, "start");
    js_put_field(out, "messageId", str_of(s->task_id));
    put(s, to);
    s->begun = true;
}

static void drop(void *arg, const char *name, struct str json)
{
    (void)arg, (void)name, (void)json;
}

/* For events that the client already has, the stream only updates its state. */
static const struct face_sink nowhere = {.put = drop};

static bool is_the_answer(struct ai_sdk_stream *s, const struct face_event *e)
{
    return e->type == EVENT_INPUT_RECEIVED &&
           str_eq(face_text(e, "input_id", &s->scratch), s->skip_to);
}

static void ai_sdk_event(struct face_stream *face, const struct face_event *e,
                         const struct face_sink *to)
{
    struct ai_sdk_stream *s = container_of(face, struct ai_sdk_stream, face);
    s->waits = false;
    if (!s->begun)
        begin(s, to);
    if (!s->skip_to.p) {
        say(s, e, to);
        return;
    }
    bool through = is_the_answer(s, e) || event_is_terminal(e->type);
    if (through) {
        end_step(s, &nowhere);
        str_free(&s->skip_to);
    }
    say(s, e, through ? to : &nowhere);
}

static void ai_sdk_idle(struct face_stream *face, const struct face_sink *to)
{
    struct ai_sdk_stream *s = container_of(face, struct ai_sdk_stream, face);
    if (!s->waits || s->skip_to.p)
        return;
    end_step(s, to);
    js_put_field(chunk(s, "finish"), "finishReason", STR("tool-calls"));
    put(s, to);
    face->is_over = true;
}

static struct face_stream *ai_sdk_make(const struct face_task *task)
{
    struct ai_sdk_stream *s = xcalloc(sizeof *s);
    s->face.ops = &ai_sdk_ops;
    s->task_id = xstrdup(task->task_id);
    s->conversation_id = xstrdup(task->conversation_id);
    s->skip_to = str_own(task->after_answer);
    return &s->face;
}

static void ai_sdk_free(struct face_stream *face)
{
    struct ai_sdk_stream *s = container_of(face, struct ai_sdk_stream, face);
    buf_done(&s->chunk);
    buf_done(&s->scratch);
    buf_done(&s->json);
    str_free(&s->skip_to);
    free(s->task_id);
    free(s->conversation_id);
    free(s);
}

const struct face_ops ai_sdk_ops = {
    .name = "ai_sdk",
    .make = ai_sdk_make,
    .event = ai_sdk_event,
    .idle = ai_sdk_idle,
    .free = ai_sdk_free,
};
