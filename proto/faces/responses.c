#include "proto/faces/responses.h"

#include <stdlib.h>

#include "proto/faces/responses_stream.h"
#include "proto/str.h"

/* Design. The output is a row of items: a run of text is a message, a run of thoughts a reasoning
 * item, a tool call with its result an `mcp_call` (the type for tools that the server runs; for a
 * `function_call` the client would think that it must run it). A file is a message without text
 * that cites it. Anything else closes the run. A final answer that differs from the streamed text
 * ends the open message as incomplete, and begins a new one.
 *
 * Memory. The `done` of an item has all of its text, so a message ends and a new one begins when
 * its text would exceed MAX_OUTPUT. The last event repeats the finished items: the newest of them,
 * up to MOST_OUTPUT. Calls without a result are remembered up to MOST_CALLS and MAX_OUTPUT; beyond
 * that, the oldest ends as incomplete. */

/* --- events ----------------------------------------------------------------------------------- */

struct buf *responses_begin_event(struct responses_stream *s, const char *type)
{
    s->type = type;
    buf_clear(&s->out);
    buf_puts(&s->out, "{\"type\":\"");
    buf_puts(&s->out, type);
    buf_puts(&s->out, "\",\"sequence_number\":");
    buf_put_u64(&s->out, s->n_events++);
    return &s->out;
}

void responses_put_event(struct responses_stream *s, const struct face_sink *to)
{
    if (s->is_whole)
        return;
    buf_putc(&s->out, '}');
    to->put(to->arg, s->type, buf_str(&s->out));
}

static const char *id_prefix(enum item_kind kind)
{
    return kind == ITEM_MESSAGE ? "msg" : "rs";
}

/* An event about a part of the open run. */
static struct buf *begin_part_event(struct responses_stream *s, const char *type)
{
    struct buf *out = responses_begin_event(s, type);
    buf_putstr(out, buf_str(&s->route));
    return out;
}

static void put_run_text(struct buf *out, struct str text)
{
    buf_puts(out, ",\"text\":\"");
    buf_putstr(out, text);
    buf_putc(out, '"');
}

static void put_part(struct responses_stream *s, struct buf *out, struct str text)
{
    buf_puts(out, "{\"type\":");
    buf_puts(out, s->run == ITEM_MESSAGE ? "\"output_text\"" : "\"reasoning_text\"");
    put_run_text(out, text);
    buf_puts(out, s->run == ITEM_MESSAGE ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

/* The open run as an item; without its part when it begins. */
static void put_run_item(struct responses_stream *s, struct buf *out, const char *status,
                         bool has_part)
{
    buf_putf(out, "{\"id\":\"%s_%s_%u\"", id_prefix(s->run), s->task_id, s->index);
    buf_puts(out, s->run == ITEM_MESSAGE ? ",\"type\":\"message\",\"role\":\"assistant\""
                                         : ",\"type\":\"reasoning\",\"summary\":[]");
    js_put_field(out, "status", str_of(status));
    js_put_key(out, "content");
    buf_putc(out, '[');
    if (has_part)
        put_part(s, out, buf_str(&s->text));
    buf_puts(out, "]}");
}

/* --- runs of text and of thoughts ------------------------------------------------------------- */

/* seq: of the event that begins it; 0: a restart cannot withdraw it. */
static void begin_run(struct responses_stream *s, enum item_kind kind, uint64_t seq,
                      const struct face_sink *to)
{
    responses_output_begin(&s->output, seq, &s->all);
    s->run = kind;
    s->index = s->n_items++;
    buf_clear(&s->text);
    s->text_bytes = 0;
    buf_clear(&s->route);
    buf_putf(&s->route, ",\"item_id\":\"%s_%s_%u\",\"output_index\":%u,\"content_index\":0",
             id_prefix(kind), s->task_id, s->index, s->index);
    struct buf *out = responses_begin_event(s, "response.output_item.added");
    js_put_int(out, "output_index", s->index);
    js_put_key(out, "item");
    put_run_item(s, out, "in_progress", false);
    responses_put_event(s, to);
    out = begin_part_event(s, "response.content_part.added");
    js_put_key(out, "part");
    put_part(s, out, STR(""));
    responses_put_event(s, to);
}

/* is_taken_back: a later item replaces it. */
static void end_run_as(struct responses_stream *s, const char *status, bool is_taken_back,
                       const struct face_sink *to)
{
    if (s->run == ITEM_NONE)
        return;
    bool is_text = s->run == ITEM_MESSAGE;
    struct buf *out =
        begin_part_event(s, is_text ? "response.output_text.done" : "response.reasoning_text.done");
    put_run_text(out, buf_str(&s->text));
    if (is_text)
        js_put_raw(out, "logprobs", STR("[]"));
    responses_put_event(s, to);
    out = begin_part_event(s, "response.content_part.done");
    js_put_key(out, "part");
    put_part(s, out, buf_str(&s->text));
    responses_put_event(s, to);
    out = responses_begin_event(s, "response.output_item.done");
    js_put_int(out, "output_index", s->index);
    js_put_key(out, "item");
    size_t begin = out->len;
    put_run_item(s, out, status, true);
    if (!is_taken_back)
        responses_output_add(&s->output, str_from(buf_str(out), begin),
                             responses_output_begun(&s->output));
    responses_put_event(s, to);
    s->run = ITEM_NONE;
}

void responses_end_run(struct responses_stream *s, const struct face_sink *to)
{
    end_run_as(s, "completed", false, to);
}

/* json: the same text, as a string of JSON. */
static void put_text(struct responses_stream *s, enum item_kind kind, struct str text,
                     struct str json, uint64_t seq, const struct face_sink *to)
{
    bool is_full = s->text_bytes > 0 && s->text_bytes + text.n > MAX_OUTPUT;
    if (s->run != kind) {
        responses_end_run(s, to);
        if (kind == ITEM_MESSAGE)
            s->last = (struct face_said){0};
        begin_run(s, kind, seq, to);
    } else if (is_full) { /* more of the same run, in a separate item */
        responses_end_run(s, to);
        begin_run(s, kind, seq, to);
    }
    if (kind == ITEM_MESSAGE)
        face_said_add_to(&s->all, &s->last, text);
    s->text_bytes += text.n;
    buf_put(&s->text, json.p + 1, json.n - 2);
    struct buf *out = begin_part_event(s, kind == ITEM_MESSAGE ? "response.output_text.delta"
                                                               : "response.reasoning_text.delta");
    buf_puts(out, ",\"delta\":");
    buf_putstr(out, json);
    buf_puts(out, kind == ITEM_MESSAGE ? ",\"logprobs\":[]" : "");
    responses_put_event(s, to);
}

static void on_text(struct responses_stream *s, enum item_kind kind, const struct face_event *e,
                    const struct face_sink *to)
{
    struct str json, text = face_text_and_json(e, "text", &s->scratch, &s->json, &json);
    if (text.n)
        put_text(s, kind, text, json, e->seq, to);
}

/* Streamed text stays when it equals the answer, as a whole or in its last run. */
static void on_final_answer(struct responses_stream *s, const struct face_event *e,
                            const struct face_sink *to)
{
    struct str output = face_text(e, "output", &s->scratch);
    if (!output.p || face_said_is(&s->all, output) || face_said_is_cut(&s->all, output) ||
        (s->all.n && face_said_is(&s->last, output)))
        return;
    if (s->run == ITEM_MESSAGE)
        end_run_as(s, "incomplete", true, to);
    s->all = (struct face_said){0};
    if (output.n)
        put_text(s, ITEM_MESSAGE, output, face_json(e, "output", &s->json), 0, to);
}

/* Numbers that a client has stay: so withdrawn text is told as it was, its open item ends as
 * incomplete, and the final output has none of it. A run never lies across the border, since each
 * settled point ends it. */
static void responses_resumed(struct responses_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    uint64_t after;
    if (!face_takes_back(&s->face, e, &after))
        return;
    if (s->run != ITEM_NONE)
        end_run_as(s, "incomplete", responses_output_begun(&s->output) > after, to);
    responses_output_withdraw(&s->output, after, &s->all);
    s->last = (struct face_said){0};
}

/* --- the response ----------------------------------------------------------------------------- */

static struct response response_of(const struct responses_stream *s, const char *status)
{
    return (struct response){.conversation_id = str_of(s->conversation_id),
                             .task_id = str_of(s->task_id),
                             .agent = str_of(s->agent),
                             .metadata = str_of(s->metadata),
                             .created_ms = s->created_ms,
                             .status = status};
}

static void put_whole(struct responses_stream *s, const struct response *r,
                      const struct face_sink *to)
{
    buf_clear(&s->out);
    responses_put(&s->out, r);
    to->put(to->arg, NULL, buf_str(&s->out));
}

static void put_response(struct responses_stream *s, const char *type, const struct response *r,
                         const struct face_sink *to)
{
    if (s->is_whole) {
        put_whole(s, r, to);
        return;
    }
    struct buf *out = responses_begin_event(s, type);
    js_put_key(out, "response");
    responses_put(out, r);
    responses_put_event(s, to);
}

static void put_state(struct responses_stream *s, const char *type, const char *status,
                      const struct face_sink *to)
{
    const struct response r = response_of(s, status);
    put_response(s, type, &r, to);
}

static void finish(struct responses_stream *s, const char *type, struct response *r,
                   const struct face_event *e, const struct face_sink *to)
{
    bool is_whole = strcmp(r->status, "completed") == 0;
    end_run_as(s, is_whole ? "completed" : "incomplete", false, to);
    responses_end_calls(s, to);
    r->output = responses_output_text(&s->output);
    r->output_is_cut = s->output.is_cut;
    r->completed_ms = e->ts;
    put_response(s, type, r, to);
    s->face.is_over = true;
}

static void on_task_completed(struct responses_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    struct buf usage = {0};
    struct response r = response_of(s, "completed");
    responses_put_usage(&usage, e->doc, js_get(e->doc, 0, "result"));
    r.usage = buf_str(&usage);
    finish(s, "response.completed", &r, e, to);
    buf_done(&usage);
}

/* The helpers of OpenAI's clients know no event for a cancel: it ends as incomplete, and the
 * response's status tells what it was. */
static void on_task_failed(struct responses_stream *s, const struct face_event *e,
                           const struct face_sink *to)
{
    bool cancelled = str_eq(face_text(e, "status", &s->scratch), STR("cancelled"));
    struct response r = response_of(s, cancelled ? "cancelled" : "failed");
    uint32_t error = js_get(e->doc, 0, "error");
    uint32_t message =
        error && js_type(e->doc, error) == JS_OBJECT ? js_get(e->doc, error, "message") : 0;
    struct buf why = {0};
    if (message && js_type(e->doc, message) == JS_STRING)
        js_value(e->doc, message, &why);
    else
        buf_puts(&why, "the task failed");
    if (!cancelled)
        r.error = buf_str(&why);
    finish(s, cancelled ? "response.incomplete" : "response.failed", &r, e, to);
    buf_done(&why);
}

/* Retention has removed the beginning, so later numbers would differ from the earlier ones. */
static void put_gone(struct responses_stream *s, const struct face_sink *to)
{
    static const char why[] = "the beginning of this response is no longer kept";
    struct buf *out = responses_begin_event(s, "error");
    js_put_field(out, "code", STR("gone"));
    js_put_field(out, "message", str_of(why));
    js_put_raw(out, "param", STR("null"));
    responses_put_event(s, to);
    s->face.is_over = true;
    if (!s->is_whole)
        return;
    buf_clear(out);
    if (s->record)
        buf_puts(out, s->record);
    else
        responses_http_ops.put_error(out, ERR_NOT_FOUND, why);
    s->face.status = s->record ? 200 : error_status(ERR_NOT_FOUND);
    to->put(to->arg, NULL, buf_str(out));
}

static void tell_event(struct responses_stream *s, const struct face_event *e,
                       const struct face_sink *to)
{
    switch (e->type) {
    case EVENT_TASK_STARTED: put_state(s, "response.in_progress", "in_progress", to); break;
    case EVENT_THINKING: on_text(s, ITEM_REASONING, e, to); break;
    case EVENT_TOKEN: on_text(s, ITEM_MESSAGE, e, to); break;
    case EVENT_TOOL_CALL: responses_tool_call(s, e, to); break;
    case EVENT_TOOL_RESULT: responses_tool_result(s, e, to); break;
    case EVENT_INPUT_REQUIRED: responses_input_required(s, e, to); break;
    case EVENT_FINAL_ANSWER: on_final_answer(s, e, to); break;
    case EVENT_TASK_COMPLETED: on_task_completed(s, e, to); break;
    case EVENT_TASK_FAILED: on_task_failed(s, e, to); break;
    case EVENT_TASK_CREATED: /* OpenAI has no event for these */
    case EVENT_PROGRESS:
    case EVENT_CHILD:
    case EVENT_INPUT_RECEIVED:
    case EVENT_CUSTOM: break;
    case EVENT_FILE: responses_file(s, e, to); break;
    case EVENT_MESSAGE: responses_end_run(s, to); break; /* a restart may withdraw what follows */
    case EVENT_TASK_RESUMED: responses_resumed(s, e, to); break;
    case N_EVENT_TYPES: UNREACHABLE();
    }
}

/* --- the stream ------------------------------------------------------------------------------- */

static void responses_event(struct face_stream *face, const struct face_event *e,
                            const struct face_sink *to)
{
    struct responses_stream *s = container_of(face, struct responses_stream, face);
    s->waits = false;
    if (!s->begun && e->seq > 1) {
        put_gone(s, to);
        return;
    }
    if (!s->begun) {
        put_state(s, "response.created", "queued", to);
        put_state(s, "response.queued", "queued", to);
    }
    s->begun = true;
    tell_event(s, e, to);
}

/* One object, although the task is live: at an approval it is the client's turn, and a retrieved
 * response is sent in its current state. */
static void responses_idle(struct face_stream *face, const struct face_sink *to)
{
    struct responses_stream *s = container_of(face, struct responses_stream, face);
    if (!s->is_whole || (!s->waits && !s->record))
        return;
    struct response r = response_of(s, "in_progress");
    end_run_as(s, "in_progress", false, to);
    r.output = responses_output_text(&s->output);
    r.output_is_cut = s->output.is_cut;
    put_whole(s, &r, to);
    face->is_over = true;
}

static struct face_stream *responses_make(const struct face_task *task)
{
    struct responses_stream *s = xcalloc(sizeof *s);
    const struct responses_state *state = task->request;
    s->is_whole = state && state->way == RESPONSES_WHOLE;
    s->record = state && state->is_record ? state->text : NULL;
    s->face.ops = &responses_ops;
    s->conversation_id = xstrdup(task->conversation_id);
    s->task_id = xstrdup(task->task_id);
    s->agent = xstrdup(task->agent);
    s->metadata = task->metadata.p ? xstrdup(task->metadata) : NULL;
    s->created_ms = task->created_at;
    return &s->face;
}

static void responses_free(struct face_stream *face)
{
    struct responses_stream *s = container_of(face, struct responses_stream, face);
    responses_free_calls(s);
    buf_done(&s->text);
    buf_done(&s->json);
    buf_done(&s->route);
    responses_output_done(&s->output);
    buf_done(&s->out);
    buf_done(&s->scratch);
    free(s->conversation_id);
    free(s->task_id);
    free(s->agent);
    free(s->metadata);
    free(s);
}

const struct face_ops responses_ops = {
    .name = "responses",
    .tells_withdrawn = true,
    .make = responses_make,
    .event = responses_event,
    .idle = responses_idle,
    .free = responses_free,
};
