/* Design. A call's stream has progress and one answer: the result, or the questions that are open
 * when nothing follows them. The state that the client brings back is the place before the first of
 * these, so what was asked and is still open is asked again. A task that waits is read in the same
 * way, since its record does not have the question; and a subscription tells each state of its
 * task, in full, when no further event is there. */
#include <stdlib.h>

#include "proto/faces/mcp.h"
#include "proto/str.h"

struct mcp_question {
    uint64_t seq; /* of its event */
    struct buf key, form;
};

struct mcp_modern {
    struct face_stream face;
    const struct mcp_request *r;
    char *task_id, *conversation_id;
    int64_t created_at, changed_at;
    bool is_acknowledged, is_told; /* a subscription's first message; the present state */
    struct mcp_question *questions;
    size_t n_questions;
    uint64_t files;   /* seq of the first file, 0: none */
    struct buf links; /* to files, content items of the result */
    struct buf out, scratch;
};

static void put_own_key(struct buf *out, const struct mcp_modern *s)
{
    exchange_put_id(out, str_of(s->conversation_id), str_of(s->task_id));
}

/* --- questions -------------------------------------------------------------------------------- */

static void modern_drop(struct mcp_modern *s, size_t i)
{
    buf_done(&s->questions[i].key);
    buf_done(&s->questions[i].form);
    for (s->n_questions--; i < s->n_questions; i++)
        s->questions[i] = s->questions[i + 1];
}

static void modern_ask(struct mcp_modern *s, const struct face_event *e)
{
    bool approves = face_asks_yes_or_no(e);
    s->questions = xrealloc(s->questions, (s->n_questions + 1) * sizeof *s->questions);
    struct mcp_question *q = &s->questions[s->n_questions++];
    *q = (struct mcp_question){.seq = e->seq};
    buf_puts(&q->key, approves ? "a/" : "q/");
    buf_putstr(&q->key, face_text(e, "input_id", &s->scratch));
    mcp_put_form(&q->form, e, approves);
    buf_putc(&q->form, '}');
}

static void modern_answered(struct mcp_modern *s, const struct face_event *e)
{
    struct str id = face_text(e, "input_id", &s->scratch);
    for (size_t i = 0; i < s->n_questions; i++)
        if (str_eq(str_from(buf_str(&s->questions[i].key), 2), id)) {
            modern_drop(s, i);
            return;
        }
}

static void put_questions(struct buf *out, const struct mcp_modern *s)
{
    js_put_raw(out, "inputRequests", STR("{"));
    for (size_t i = 0; i < s->n_questions; i++) {
        if (i)
            buf_putc(out, ',');
        js_put_str(out, buf_str(&s->questions[i].key));
        buf_puts(out, ":{\"method\":\"elicitation/create\"");
        js_put_raw(out, "params", buf_str(&s->questions[i].form));
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

/* --- messages --------------------------------------------------------------------------------- */

static struct buf *modern_begin(struct mcp_modern *s, const char *type)
{
    buf_clear(&s->out);
    mcp_begin_result(&s->out, s->r->call.rpc_id);
    buf_putc(&s->out, '{');
    js_put_field(&s->out, "resultType", str_of(type));
    return &s->out;
}

static void modern_end(struct mcp_modern *s, const struct face_sink *to)
{
    buf_putc(&s->out, '}');
    mcp_end_result(&s->out);
    s->face.is_over = true;
    to->put(to->arg, NULL, buf_str(&s->out));
}

static void ask_client(struct mcp_modern *s, const struct face_sink *to)
{
    struct buf *out = modern_begin(s, "input_required");
    put_questions(out, s);
    js_put_key(out, "requestState");
    buf_putc(out, '"');
    put_own_key(out, s);
    buf_putf(out, "_%llu", (unsigned long long)s->questions[0].seq - 1);
    if (s->files)
        buf_putf(out, "_%llu", (unsigned long long)s->files);
    buf_putc(out, '"');
    modern_end(s, to);
}

/* Why it failed, where its end says so. */
static void put_why(struct buf *out, const struct face_event *end)
{
    uint32_t error = end ? js_get(end->doc, 0, "error") : 0;
    uint32_t why =
        error && js_type(end->doc, error) == JS_OBJECT ? js_get(end->doc, error, "message") : 0;
    if (!why || js_type(end->doc, why) != JS_STRING)
        return;
    js_put_key(out, "statusMessage");
    js_copy(end->doc, why, out);
}

/* The members of a task in full; end: its terminal event, or NULL. */
static void put_task_state(struct mcp_modern *s, const struct face_event *end)
{
    struct buf *out = &s->out;
    bool is_cancelled = end && str_eq(face_text(end, "status", &s->scratch), STR("cancelled"));
    js_put_key(out, "taskId");
    buf_putc(out, '"');
    put_own_key(out, s);
    buf_putc(out, '"');
    js_put_field(out, "status",
                 is_cancelled     ? STR("cancelled")
                 : end            ? STR("completed")
                 : s->n_questions ? STR("input_required")
                                  : STR("working"));
    put_why(out, end);
    js_put_raw(out, "ttlMs", STR("null"));
    face_put_time(out, "createdAt", s->created_at);
    face_put_time(out, "lastUpdatedAt", s->changed_at ? s->changed_at : s->created_at);
    js_put_int(out, "pollIntervalMs", 1000);
    if (s->n_questions && !end)
        put_questions(out, s);
    if (end && !is_cancelled) {
        js_put_raw(out, "result", STR("{"));
        mcp_put_outcome(out, end->doc, 0, end->type == EVENT_TASK_FAILED, buf_str(&s->links));
        buf_putc(out, '}');
    }
}

static void put_subscription(struct buf *out, const struct mcp_modern *s)
{
    js_put_raw(out, "_meta", STR("{\"" MCP_META "subscriptionId\":"));
    buf_putstr(out, s->r->call.rpc_id);
    buf_putc(out, '}');
}

static void notify(struct mcp_modern *s, const struct face_event *end, const struct face_sink *to)
{
    struct buf *out = &s->out;
    buf_clear(out);
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":{");
    put_subscription(out, s);
    put_task_state(s, end);
    buf_puts(out, "}}");
    s->is_told = true;
    to->put(to->arg, NULL, buf_str(out));
}

static void acknowledge(struct mcp_modern *s, const struct face_sink *to)
{
    struct buf *out = &s->out;
    buf_clear(out);
    mcp_put_acknowledged(out, s->r);
    s->is_acknowledged = true;
    to->put(to->arg, NULL, buf_str(out));
}

static void modern_finish(struct mcp_modern *s, const struct face_event *e,
                          const struct face_sink *to)
{
    if (s->r->operation == MCP_LISTEN)
        notify(s, e, to);
    struct buf *out = modern_begin(s, "complete");
    if (s->r->operation == MCP_LISTEN)
        put_subscription(out, s);
    else if (s->r->operation == MCP_TASK_GET)
        put_task_state(s, e);
    else
        mcp_put_outcome(out, e->doc, 0, e->type == EVENT_TASK_FAILED, buf_str(&s->links));
    modern_end(s, to);
}

/* --- the stream ------------------------------------------------------------------------------- */

static void modern_progress(struct mcp_modern *s, const struct face_event *e, const char *member,
                            const struct face_sink *to)
{
    struct str message = face_text(e, member, &s->scratch);
    if (s->r->operation != MCP_CALL || !s->r->call.token.p || !message.n)
        return;
    mcp_put_progress(&s->out, s->r->call.token, e, message);
    to->put(to->arg, NULL, buf_str(&s->out));
}

static void modern_changed(struct mcp_modern *s, const struct face_event *e)
{
    s->changed_at = e->ts;
    s->is_told = false;
}

static void modern_file(struct mcp_modern *s, const struct face_event *e)
{
    if (!s->files)
        s->files = e->seq;
    mcp_put_link(&s->links, s->r->call.base, str_of(s->conversation_id), e);
}

static void modern_event(struct face_stream *face, const struct face_event *e,
                         const struct face_sink *to)
{
    struct mcp_modern *s = container_of(face, struct mcp_modern, face);
    if (s->r->operation == MCP_LISTEN && !s->is_acknowledged)
        acknowledge(s, to);
    if (e->type == EVENT_FILE)
        modern_file(s, e);
    if (e->seq <= s->r->after)
        return;
    switch (e->type) {
    case EVENT_TASK_STARTED: modern_changed(s, e); break;
    case EVENT_TOKEN: modern_progress(s, e, "text", to); break;
    case EVENT_PROGRESS: modern_progress(s, e, "note", to); break;
    case EVENT_INPUT_REQUIRED:
        modern_ask(s, e);
        modern_changed(s, e);
        break;
    case EVENT_INPUT_RECEIVED:
        modern_answered(s, e);
        modern_changed(s, e);
        break;
    case EVENT_TASK_COMPLETED:
    case EVENT_TASK_FAILED:
        modern_changed(s, e);
        modern_finish(s, e, to);
        break;
    default: break; /* MCP has no place for it */
    }
}

static void modern_idle(struct face_stream *face, const struct face_sink *to)
{
    struct mcp_modern *s = container_of(face, struct mcp_modern, face);
    if (s->r->operation == MCP_CALL) {
        if (s->n_questions && s->r->call.elicits)
            ask_client(s, to);
        return;
    }
    if (s->r->operation == MCP_TASK_GET) {
        modern_begin(s, "complete");
        put_task_state(s, NULL);
        modern_end(s, to);
        return;
    }
    if (!s->is_acknowledged)
        acknowledge(s, to);
    if (!s->is_told)
        notify(s, NULL, to);
}

struct face_stream *mcp_modern_make(const struct face_task *task)
{
    struct mcp_modern *s = xcalloc(sizeof *s);
    s->face.ops = &mcp_modern_stream_ops;
    s->r = task->request; /* the exchange outlives the stream */
    s->face.place.seq = s->r->after;
    s->task_id = xstrdup(task->task_id);
    s->conversation_id = xstrdup(task->conversation_id);
    s->created_at = task->created_at;
    return &s->face;
}

static void modern_free(struct face_stream *face)
{
    struct mcp_modern *s = container_of(face, struct mcp_modern, face);
    while (s->n_questions)
        modern_drop(s, s->n_questions - 1);
    free(s->questions);
    buf_done(&s->links);
    buf_done(&s->out);
    buf_done(&s->scratch);
    free(s->task_id);
    free(s->conversation_id);
    free(s);
}

const struct face_ops mcp_modern_stream_ops = {
    .name = "mcp",
    .make = mcp_modern_make,
    .event = modern_event,
    .idle = modern_idle,
    .free = modern_free,
};
