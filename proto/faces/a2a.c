#include "proto/faces/a2a.h"

#include <stdlib.h>

/* Design. A task's text is one artifact, "answer": the first piece creates it, later ones are
 * appended, and a final answer that differs from the streamed text replaces it (`append` false). So
 * at the end the artifact is the task's output. A file is an artifact of its own. Events that A2A
 * has no place for become metadata of a status.
 *
 * For a snapshot the stream first collects, up to the last existing event, and sends one task; from
 * then on it sends updates. It keeps the text only while it collects, and the snapshot that begins
 * a stream has 256 KiB of it at most: the rest follows.
 *
 * A question ends the streams that began with a message, as in the SDK's own server: the next
 * message answers it. */

struct a2a_stream {
    struct face_stream face;
    struct a2a_request request; /* only its operation, envelope and without_history */
    char *task_id, *conversation_id, *rpc_id, *base;
    struct a2a_task task;
    bool collects, begun; /* the task was put */
    bool waits;           /* for the user, and nothing followed */
    bool has_answer;
    bool has_no_beginning; /* retention has removed it: the text is that of the end */
    struct face_said said;
    struct buf message, history, text, files; /* what task points into */
    struct buf out, scratch, data;
};

/* --- messages --------------------------------------------------------------------------------- */

static struct buf *begin_message(struct a2a_stream *s)
{
    buf_clear(&s->out);
    a2a_begin_result(&s->out, &s->request);
    return &s->out;
}

static void end_message(struct a2a_stream *s, const struct face_sink *to)
{
    a2a_end_result(&s->out, &s->request);
    to->put(to->arg, NULL, buf_str(&s->out));
}

static bool is_bare(enum a2a_operation operation)
{
    return operation == A2A_GET || operation == A2A_CANCEL;
}

static void put_whole_task(struct a2a_stream *s, const struct face_sink *to)
{
    struct buf *out = begin_message(s);
    bool bare = is_bare(s->request.operation);
    s->task.message = buf_str(&s->message);
    s->task.history = buf_str(&s->history);
    s->task.text = s->has_answer && s->collects ? buf_str(&s->text) : STR_NULL;
    s->task.files = buf_str(&s->files);
    if (!bare)
        buf_puts(out, "{\"task\":");
    a2a_put_task(out, &s->task);
    if (!bare)
        buf_putc(out, '}');
    end_message(s, to);
    s->begun = true;
    s->collects = false;
    buf_done(&s->text);
    buf_done(&s->history);
    buf_done(&s->files);
}

static struct buf *begin_update(struct a2a_stream *s, const char *kind)
{
    struct buf *out = begin_message(s);
    buf_putf(out, "{\"%s\":{\"taskId\":\"", kind);
    exchange_put_id(out, s->task.conversation_id, s->task.task_id);
    buf_putc(out, '"');
    js_put_field(out, "contextId", s->task.conversation_id);
    return out;
}

static void end_update(struct a2a_stream *s, const struct face_sink *to)
{
    buf_puts(&s->out, "}}");
    end_message(s, to);
}

/* metadata is a JSON object, or STR_NULL. */
static void put_update(struct a2a_stream *s, struct str metadata, const struct face_sink *to)
{
    if (s->collects)
        return;
    struct buf *out = begin_update(s, "statusUpdate");
    s->task.message = buf_str(&s->message);
    a2a_put_status(out, &s->task);
    if (metadata.p)
        js_put_raw(out, "metadata", metadata);
    end_update(s, to);
}

/* Events that A2A has no place for; a snapshot leaves them out. */
static void put_other(struct a2a_stream *s, const struct face_event *e, const struct face_sink *to)
{
    if (s->collects)
        return;
    buf_clear(&s->data);
    buf_putc(&s->data, '{');
    js_put_field(&s->data, "event", str_of(event_name(e->type)));
    js_put_key(&s->data, "data");
    js_copy(e->doc, 0, &s->data);
    buf_putc(&s->data, '}');
    put_update(s, buf_str(&s->data), to);
}

/* --- events ----------------------------------------------------------------------------------- */

static void enter(struct a2a_stream *s, enum a2a_state state, const struct face_event *e)
{
    s->task.state = state;
    s->task.at = e->ts;
    buf_clear(&s->message);
}

static void put_piece(struct a2a_stream *s, struct str text, bool appends,
                      const struct face_sink *to)
{
    bool begins_stream =
        s->request.operation == A2A_SUBSCRIBE || s->request.operation == A2A_STREAM_ON;
    if (s->collects && begins_stream && s->has_answer && s->text.len + text.n > MAX_OUTPUT)
        put_whole_task(s, to);
    s->has_answer = true;
    if (s->collects) {
        buf_putstr(&s->text, text);
        return;
    }
    struct buf *out = begin_update(s, "artifactUpdate");
    a2a_put_artifact(out, text);
    js_put_bool(out, "append", appends);
    end_update(s, to);
}

static void on_token(struct a2a_stream *s, const struct face_event *e, const struct face_sink *to)
{
    struct str text = face_text(e, "text", &s->scratch);
    if (!text.n)
        return;
    face_said_add(&s->said, text);
    put_piece(s, text, s->has_answer, to);
}

static void a2a_file(struct a2a_stream *s, const struct face_event *e, const struct face_sink *to)
{
    struct str base = str_of(s->base);
    if (s->collects) {
        buf_puts(&s->files, s->files.len ? "," : "");
        a2a_put_file(&s->files, base, s->task.conversation_id, e);
        return;
    }
    struct buf *out = begin_update(s, "artifactUpdate");
    js_put_key(out, "artifact");
    a2a_put_file(out, base, s->task.conversation_id, e);
    js_put_bool(out, "append", false);
    js_put_bool(out, "lastChunk", true);
    end_update(s, to);
}

static void a2a_final_answer(struct a2a_stream *s, const struct face_event *e,
                             const struct face_sink *to)
{
    struct str output = face_text(e, "output", &s->scratch);
    if (!output.p || face_said_is(&s->said, output))
        return;
    s->said = (struct face_said){0};
    face_said_add(&s->said, output);
    buf_clear(&s->text);
    put_piece(s, output, false, to);
}

/* The bytes of so many characters. */
static size_t a2a_prefix(struct str text, uint64_t n)
{
    size_t at = 0;
    for (; at < text.n; at++)
        if ((text.p[at] & 0xC0) != 0x80 && n-- == 0)
            break;
    return at;
}

/* While it collects, the text is there, and the event says how much of it remains. Later it is not:
 * the artifact begins anew, and the final answer, which differs from it, makes it whole. */
static void a2a_resumed(struct a2a_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    uint64_t after;
    int64_t n = 0;
    put_other(s, e, to);
    if (!face_takes_back(&s->face, e, &after) || !s->has_answer)
        return;
    uint32_t keep = js_get(e->doc, 0, "keep");
    uint32_t text = keep && js_type(e->doc, keep) == JS_OBJECT ? js_get(e->doc, keep, "text") : 0;
    if (!text || !js_int(e->doc, text, &n))
        n = 0;
    s->text.len = a2a_prefix(buf_str(&s->text), (uint64_t)n);
    s->said = (struct face_said){0};
    face_said_add(&s->said, buf_str(&s->text));
    if (!s->collects)
        put_piece(s, STR(""), false, to);
}

static void a2a_created(struct a2a_stream *s, const struct face_event *e)
{
    struct str input = face_text(e, "input", &s->scratch);
    enter(s, A2A_SUBMITTED, e);
    buf_clear(&s->history);
    if (input.p && !s->request.without_history)
        a2a_put_message(&s->history, &s->task, e->seq, true, input, STR_NULL);
}

static void on_question(struct a2a_stream *s, const struct face_event *e,
                        const struct face_sink *to)
{
    enter(s, A2A_INPUT_REQUIRED, e);
    buf_clear(&s->data);
    js_copy(e->doc, 0, &s->data);
    a2a_put_message(&s->message, &s->task, e->seq, false, face_text(e, "prompt", &s->scratch),
                    buf_str(&s->data));
    put_update(s, STR_NULL, to);
    s->waits = true;
}

static void on_terminal(struct a2a_stream *s, enum a2a_state state, const struct face_event *e,
                        const struct face_sink *to)
{
    enter(s, state, e);
    if (state != A2A_COMPLETED)
        a2a_put_why(&s->message, &s->task, e->seq, e->doc, 0);
    buf_clear(&s->data);
    a2a_put_outcome(&s->data, e->doc, 0);
    s->task.metadata = s->data.len ? buf_str(&s->data) : STR_NULL;
    struct str output = face_text(e, "output", &s->scratch);
    if (s->has_no_beginning && output.n) {
        buf_clear(&s->text);
        put_piece(s, output, false, to);
    }
    if (s->collects)
        put_whole_task(s, to);
    else
        put_update(s, s->task.metadata, to);
    s->face.is_over = true;
}

static void a2a_say(struct a2a_stream *s, const struct face_event *e, const struct face_sink *to)
{
    switch (e->type) {
    case EVENT_TASK_CREATED: a2a_created(s, e); break;
    case EVENT_TASK_STARTED:
        enter(s, A2A_WORKING, e);
        put_update(s, STR_NULL, to);
        break;
    case EVENT_TOKEN: on_token(s, e, to); break;
    case EVENT_FINAL_ANSWER: a2a_final_answer(s, e, to); break;
    case EVENT_INPUT_REQUIRED: on_question(s, e, to); break;
    case EVENT_INPUT_RECEIVED:
        enter(s, A2A_WORKING, e);
        put_other(s, e, to);
        break;
    case EVENT_THINKING:
    case EVENT_TOOL_CALL:
    case EVENT_TOOL_RESULT:
    case EVENT_PROGRESS:
    case EVENT_CHILD:
    case EVENT_MESSAGE:
    case EVENT_CUSTOM: put_other(s, e, to); break;
    case EVENT_FILE: a2a_file(s, e, to); break;
    case EVENT_TASK_RESUMED: a2a_resumed(s, e, to); break;
    case EVENT_TASK_COMPLETED: on_terminal(s, A2A_COMPLETED, e, to); break;
    case EVENT_TASK_FAILED:
        on_terminal(s,
                    str_eq(face_text(e, "status", &s->scratch), STR("cancelled")) ? A2A_CANCELED
                                                                                  : A2A_FAILED,
                    e, to);
        break;
    case N_EVENT_TYPES: UNREACHABLE();
    }
}

/* --- the stream ------------------------------------------------------------------------------- */

static void a2a_event(struct face_stream *face, const struct face_event *e,
                      const struct face_sink *to)
{
    struct a2a_stream *s = container_of(face, struct a2a_stream, face);
    s->waits = false;
    if (!s->begun && !s->collects) { /* a new task is sent at once */
        if (e->type == EVENT_TASK_CREATED)
            a2a_created(s, e);
        put_whole_task(s, to);
        if (e->type == EVENT_TASK_CREATED)
            return;
    }
    a2a_say(s, e, to);
}

static void a2a_idle(struct face_stream *face, const struct face_sink *to)
{
    struct a2a_stream *s = container_of(face, struct a2a_stream, face);
    switch (s->request.operation) {
    case A2A_GET:
    case A2A_SEND_AT_ONCE:
        put_whole_task(s, to);
        face->is_over = true;
        break;
    case A2A_SEND:
        if (s->waits)
            put_whole_task(s, to);
        face->is_over = s->waits;
        break;
    case A2A_STREAM_ON:
    case A2A_SUBSCRIBE:
        if (s->collects)
            put_whole_task(s, to);
        face->is_over = s->waits && s->request.operation == A2A_STREAM_ON;
        break;
    case A2A_STREAM: face->is_over = s->waits; break;
    default: break; /* a cancel waits for the end */
    }
}

static struct face_stream *a2a_make(const struct face_task *task)
{
    static const struct a2a_request none = {.operation = A2A_STREAM};
    const struct a2a_request *r = task->request ? task->request : &none;
    struct a2a_stream *s = xcalloc(sizeof *s);
    s->face.ops = &a2a_ops;
    s->task_id = xstrdup(task->task_id);
    s->conversation_id = xstrdup(task->conversation_id);
    s->rpc_id = xstrdup(r->rpc_id);
    s->base = xstrdup(r->base.p ? r->base : STR(""));
    s->has_no_beginning = task->first > 1;
    s->request = (struct a2a_request){.operation = r->operation,
                                      .is_rpc = r->is_rpc,
                                      .rpc_id = str_of(s->rpc_id),
                                      .without_history = r->without_history};
    s->task = (struct a2a_task){.task_id = str_of(s->task_id),
                                .conversation_id = str_of(s->conversation_id),
                                .state = A2A_SUBMITTED,
                                .at = task->created_at};
    s->collects = r->operation != A2A_STREAM;
    return &s->face;
}

static void a2a_free(struct face_stream *face)
{
    struct a2a_stream *s = container_of(face, struct a2a_stream, face);
    struct buf *bufs[] = {&s->message, &s->history, &s->text, &s->files,
                          &s->out,     &s->scratch, &s->data};
    for (size_t i = 0; i < countof(bufs); i++)
        buf_done(bufs[i]);
    free(s->task_id);
    free(s->conversation_id);
    free(s->rpc_id);
    free(s->base);
    free(s);
}

const struct face_ops a2a_ops = {
    .name = "a2a",
    .make = a2a_make,
    .event = a2a_event,
    .idle = a2a_idle,
    .free = a2a_free,
};
