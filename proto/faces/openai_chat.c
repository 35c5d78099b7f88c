#include "proto/faces/openai.h"

#include <stdlib.h>

/* Design. A chunk can add but never take back. So a final answer that continues the streamed text
 * adds its rest, one that the text ends with adds nothing, and any other becomes a paragraph of its
 * own after the text. As a whole the answer is only the final one.
 *
 * Memory. A final answer has at most MAX_OUTPUT bytes, so a stream keeps no more of its text than
 * the end with which that is compared, and a fingerprint of the beginning. */

struct openai_stream {
    struct face_stream face;
    struct openai_options options;
    char *task_id, *conversation_id, *agent;
    int64_t created_s;
    bool begun;
    struct buf text;       /* the answer so far; of a stream its end */
    struct face_said said; /* all of it */
    struct buf thoughts;   /* for a whole completion */
    struct buf chunk, scratch;
};

/* --- chunks ----------------------------------------------------------------------------------- */

static void put_where(struct openai_stream *s)
{
    js_put_raw(&s->chunk, "holdfast", STR("{"));
    js_put_field(&s->chunk, "conversation_id", str_of(s->conversation_id));
    js_put_field(&s->chunk, "task_id", str_of(s->task_id));
    buf_putc(&s->chunk, '}');
}

static void begin_object(struct openai_stream *s, const char *object)
{
    struct buf *out = &s->chunk;
    buf_clear(out);
    buf_putf(out, "{\"id\":\"chatcmpl-%s\"", s->task_id);
    js_put_field(out, "object", str_of(object));
    js_put_int(out, "created", s->created_s);
    js_put_field(out, "model", str_of(s->agent));
}

static void put_chunk(struct openai_stream *s, const struct face_sink *to)
{
    buf_putc(&s->chunk, '}');
    to->put(to->arg, NULL, buf_str(&s->chunk));
}

/* With a text as key of the delta; NULL: nothing new. */
static void begin_chunk(struct openai_stream *s, const char *key, struct str text,
                        const char *finish_reason)
{
    struct buf *out = &s->chunk;
    begin_object(s, "chat.completion.chunk");
    js_put_raw(out, "choices", STR("[{\"index\":0,\"delta\":{"));
    if (!s->begun)
        js_put_field(out, "role", STR("assistant"));
    if (key)
        js_put_field(out, key, text);
    buf_puts(out, "}");
    if (finish_reason)
        js_put_field(out, "finish_reason", str_of(finish_reason));
    else
        js_put_raw(out, "finish_reason", STR("null"));
    buf_puts(out, "}]");
    s->begun = true;
}

static void say_delta(struct openai_stream *s, const char *key, struct str text,
                      const struct face_sink *to)
{
    if (s->options.is_whole || !text.n)
        return;
    begin_chunk(s, key, text, NULL);
    put_chunk(s, to);
}

/* --- events ----------------------------------------------------------------------------------- */

static void on_created(struct openai_stream *s, const struct face_sink *to)
{
    if (s->options.is_whole)
        return;
    begin_chunk(s, "content", STR(""), NULL);
    put_where(s);
    put_chunk(s, to);
}

static void note_text(struct openai_stream *s, struct str text)
{
    face_said_add(&s->said, text);
    buf_putstr(&s->text, text);
    if (!s->options.is_whole && s->text.len > 2 * MAX_OUTPUT)
        buf_consume(&s->text, s->text.len - MAX_OUTPUT);
}

static void chat_token(struct openai_stream *s, const struct face_event *e,
                       const struct face_sink *to)
{
    struct str text = face_text(e, "text", &s->scratch);
    note_text(s, text);
    say_delta(s, "content", text, to);
}

static void on_thinking(struct openai_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    struct str text = face_text(e, "text", &s->scratch);
    if (s->options.is_whole)
        buf_putstr(&s->thoughts, text);
    say_delta(s, "reasoning_content", text, to);
}

static bool begins_with(struct str text, struct str with)
{
    return text.n >= with.n && (with.n == 0 || memcmp(text.p, with.p, with.n) == 0);
}

static bool ends_with(struct str text, struct str with)
{
    return text.n >= with.n &&
           (with.n == 0 || memcmp(text.p + text.n - with.n, with.p, with.n) == 0);
}

static void chat_final_answer(struct openai_stream *s, const struct face_event *e,
                              const struct face_sink *to)
{
    struct str output = face_text(e, "output", &s->scratch), text = buf_str(&s->text);
    if (!output.p || face_said_is_cut(&s->said, output))
        return;
    if (s->options.is_whole) {
        buf_clear(&s->text);
        s->said = (struct face_said){0};
        note_text(s, output);
        return;
    }
    if (ends_with(text, output))
        return;
    if (begins_with(output, text)) {
        output = (struct str){output.p + text.n, output.n - text.n};
    } else {
        say_delta(s, "content", STR("\n\n"), to);
        note_text(s, STR("\n\n"));
    }
    say_delta(s, "content", output, to);
    note_text(s, output);
}

/* A chunk that means nothing new to clients that know only chunks. */
static void put_event(struct openai_stream *s, const struct face_event *e,
                      const struct face_sink *to)
{
    if (s->options.is_whole)
        return;
    begin_chunk(s, NULL, STR_NULL, NULL);
    js_put_raw(&s->chunk, "holdfast", STR("{"));
    js_put_field(&s->chunk, "event", str_of(event_name(e->type)));
    js_put_key(&s->chunk, "data");
    js_copy(e->doc, 0, &s->chunk);
    buf_putc(&s->chunk, '}');
    put_chunk(s, to);
}

/* The usage that the model's server counted, if it did. */
static bool put_usage(struct openai_stream *s, const struct face_event *e)
{
    const struct js_doc *d = e->doc;
    uint32_t result = js_get(d, 0, "result");
    uint32_t usage = result && js_type(d, result) == JS_OBJECT ? js_get(d, result, "usage") : 0;
    if (!usage || js_type(d, usage) != JS_OBJECT)
        return false;
    js_put_key(&s->chunk, "usage");
    js_copy(d, usage, &s->chunk);
    return true;
}

static void put_whole(struct openai_stream *s, const struct face_event *e,
                      const struct face_sink *to)
{
    struct buf *out = &s->chunk;
    begin_object(s, "chat.completion");
    js_put_raw(out, "choices", STR("[{\"index\":0,\"message\":{\"role\":\"assistant\""));
    js_put_field(out, "content", s->text.len ? buf_str(&s->text) : STR(""));
    js_put_raw(out, "refusal", STR("null"));
    if (s->thoughts.len)
        js_put_field(out, "reasoning_content", buf_str(&s->thoughts));
    buf_puts(out, "},\"logprobs\":null,\"finish_reason\":\"stop\"}]");
    (void)put_usage(s, e);
    put_where(s);
    put_chunk(s, to);
}

static void chat_completed(struct openai_stream *s, const struct face_event *e,
                           const struct face_sink *to)
{
    s->face.is_over = true;
    if (s->options.is_whole) {
        put_whole(s, e, to);
        return;
    }
    begin_chunk(s, NULL, STR_NULL, "stop");
    put_chunk(s, to);
    begin_object(s, "chat.completion.chunk");
    js_put_raw(&s->chunk, "choices", STR("[]"));
    if (s->options.wants_usage && put_usage(s, e))
        put_chunk(s, to);
}

/* The HTTP status for a failed task. */
static int failure_status(struct str code)
{
    static const struct {
        const char *code;
        int status;
    } table[] = {{"context_too_long", 400}, {"cancelled", 409},        {"timeout", 504},
                 {"overloaded", 503},       {"model_overloaded", 503}, {"model_busy", 429}};
    for (size_t i = 0; i < countof(table); i++)
        if (str_eq(code, str_of(table[i].code)))
            return table[i].status;
    return 500;
}

static struct str text_of(const struct js_doc *d, uint32_t object, const char *key, struct buf *out)
{
    uint32_t at = object ? js_get(d, object, key) : 0;
    if (at && js_type(d, at) == JS_STRING)
        js_value(d, at, out);
    return buf_str(out);
}

/* The code is the reason why a model failed, if one is known. */
static void chat_failed(struct openai_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    const struct js_doc *d = e->doc;
    uint32_t at = js_get(d, 0, "error"), error = at && js_type(d, at) == JS_OBJECT ? at : 0;
    struct buf message = {0}, reason = {0};
    struct str why = text_of(d, error, "message", &message);
    struct str code = text_of(d, error, "reason", &reason);
    if (!code.n)
        code = text_of(d, error, "code", &reason);
    s->face.is_over = s->face.breaks = true;
    s->face.status = failure_status(code);
    if (str_eq(code, STR("context_too_long")))
        code = STR("context_length_exceeded"); /* the code that tools look for */
    buf_clear(&s->chunk);
    openai_put_error(&s->chunk, s->face.status, why.n ? why : STR("the task failed"), STR(""),
                     code.n ? code : STR("agent_error"));
    to->put(to->arg, NULL, buf_str(&s->chunk));
    buf_done(&message);
    buf_done(&reason);
}

/* Nothing can be taken back: the client asks again, with its key, and gets what remains. */
static void chat_resumed(struct openai_stream *s, const struct face_event *e)
{
    uint64_t after;
    bool takes_back = face_takes_back(&s->face, e, &after) && s->text.len > 0;
    if (takes_back && !s->options.is_whole)
        s->face.is_over = s->face.breaks = true;
}

/* --- the stream ------------------------------------------------------------------------------- */

static void openai_event(struct face_stream *face, const struct face_event *e,
                         const struct face_sink *to)
{
    struct openai_stream *s = container_of(face, struct openai_stream, face);
    switch (e->type) {
    case EVENT_TASK_CREATED: on_created(s, to); break;
    case EVENT_TASK_STARTED: break;
    case EVENT_TASK_RESUMED: chat_resumed(s, e); break;
    case EVENT_THINKING: on_thinking(s, e, to); break;
    case EVENT_TOKEN: chat_token(s, e, to); break;
    case EVENT_TOOL_CALL:
    case EVENT_TOOL_RESULT:
    case EVENT_PROGRESS:
    case EVENT_CHILD:
    case EVENT_MESSAGE:
    case EVENT_INPUT_REQUIRED:
    case EVENT_INPUT_RECEIVED:
    case EVENT_FILE:
    case EVENT_CUSTOM: put_event(s, e, to); break;
    case EVENT_FINAL_ANSWER: chat_final_answer(s, e, to); break;
    case EVENT_TASK_COMPLETED: chat_completed(s, e, to); break;
    case EVENT_TASK_FAILED: chat_failed(s, e, to); break;
    case N_EVENT_TYPES: UNREACHABLE();
    }
}

static struct face_stream *openai_make(const struct face_task *task)
{
    struct openai_stream *s = xcalloc(sizeof *s);
    s->face.ops = &openai_ops;
    s->task_id = xstrdup(task->task_id);
    s->conversation_id = xstrdup(task->conversation_id);
    s->agent = xstrdup(task->agent);
    s->created_s = task->created_at / 1000;
    if (task->request)
        s->options = *(const struct openai_options *)task->request;
    return &s->face;
}

static void openai_free(struct face_stream *face)
{
    struct openai_stream *s = container_of(face, struct openai_stream, face);
    buf_done(&s->text);
    buf_done(&s->thoughts);
    buf_done(&s->chunk);
    buf_done(&s->scratch);
    free(s->task_id);
    free(s->conversation_id);
    free(s->agent);
    free(s);
}

const struct face_ops openai_ops = {
    .name = "openai",
    .make = openai_make,
    .event = openai_event,
    .free = openai_free,
};
