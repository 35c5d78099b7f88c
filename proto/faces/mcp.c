#include "proto/faces/mcp.h"

#include <stdlib.h>

#include "proto/base64url.h"

/* Design. The messages of a call's stream follow from each event alone, so a client that comes back
 * gets those after its last event, and no earlier state is kept. Progress counts by the events'
 * numbers, which only grow; its message is the piece of text, or the note. The result has the
 * task's output from its end, and links to its files: so the id of an event also names the first
 * one of these. A question is asked when nothing follows it: in a replay most have been answered.
 *
 * The first message is empty: a client that has received an event with an id comes back after a
 * cut. */

struct mcp_stream {
    struct face_stream face;
    struct mcp_call call;
    enum mcp_operation operation;
    char *task_id, *conversation_id;
    int64_t created_at;
    uint64_t after; /* the client has what comes up to this event */
    bool begun, asks;
    struct buf links;    /* to files, content items of the result */
    struct buf question; /* the request that asks it; empty: none is open */
    struct buf out, scratch;
};

/* --- messages --------------------------------------------------------------------------------- */

static void mcp_begin(struct mcp_stream *s, const char *method)
{
    buf_clear(&s->out);
    buf_puts(&s->out, "{\"jsonrpc\":\"2.0\"");
    js_put_field(&s->out, "method", str_of(method));
}

static void put_own_id(struct buf *out, const struct mcp_stream *s)
{
    exchange_put_id(out, str_of(s->conversation_id), str_of(s->task_id));
}

static void put_related(struct buf *out, const struct mcp_stream *s)
{
    if (!s->call.is_task)
        return;
    js_put_raw(out, "_meta", STR("{\"" MCP_RELATED_TASK "\":{\"taskId\":\""));
    put_own_id(out, s);
    buf_puts(out, "\"}}");
}

void mcp_put_progress(struct buf *out, struct str token, const struct face_event *e,
                      struct str message)
{
    buf_clear(out);
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{");
    js_put_raw(out, "progressToken", token);
    js_put_int(out, "progress", (int64_t)e->seq);
    js_put_field(out, "message", message);
    buf_puts(out, "}}");
}

static void put_progress(struct mcp_stream *s, const struct face_event *e, struct str message,
                         const struct face_sink *to)
{
    if (!s->call.token.p || !message.n)
        return;
    mcp_put_progress(&s->out, s->call.token, e, message);
    to->put(to->arg, NULL, buf_str(&s->out));
}

/* --- questions -------------------------------------------------------------------------------- */

void mcp_put_form(struct buf *out, const struct face_event *e, bool approves)
{
    buf_puts(out, "{\"mode\":\"form\"");
    face_copy(out, "message", e, "prompt", STR("\"\""));
    js_put_raw(out, "requestedSchema",
               approves
                   ? STR("{\"type\":\"object\",\"properties\":{\"approve\":{\"type\":\"boolean\"}},"
                         "\"required\":[\"approve\"]}")
                   : STR("{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"string\"}},"
                         "\"required\":[\"answer\"]}"));
}

static void note_question(struct mcp_stream *s, const struct face_event *e)
{
    bool approves = face_asks_yes_or_no(e);
    struct buf id = {0};
    if (!s->call.elicits)
        return;
    put_own_id(&id, s);
    buf_puts(&id, approves ? "/a/" : "/q/");
    buf_putstr(&id, face_text(e, "input_id", &s->scratch));
    mcp_begin(s, "elicitation/create");
    js_put_field(&s->out, "id", buf_str(&id));
    js_put_key(&s->out, "params");
    mcp_put_form(&s->out, e, approves);
    put_related(&s->out, s);
    buf_puts(&s->out, "}}");
    buf_clear(&s->question);
    buf_putstr(&s->question, buf_str(&s->out));
    s->asks = true;
    buf_done(&id);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void mcp_put_content(struct buf *out, bool *first, struct str text)
{
    buf_puts(out, *first ? "{\"type\":\"text\"" : ",{\"type\":\"text\"");
    js_put_field(out, "text", text);
    buf_putc(out, '}');
    *first = false;
}

void mcp_put_link(struct buf *links, struct str base, struct str conversation_id,
                  const struct face_event *e)
{
    if (links->len > MAX_OUTPUT)
        return;
    buf_puts(links, links->len ? ",{" : "{");
    js_put_field(links, "type", STR("resource_link"));
    face_put_file_url(links, "uri", base, conversation_id, e);
    face_copy(links, "name", e, "name", STR("\"\""));
    face_copy(links, "mimeType", e, "media_type", STR("\"\""));
    face_copy(links, "size", e, "size", STR("0"));
    buf_putc(links, '}');
}

/* A failure is the tool's: its text so far, and why it ended. */
void mcp_put_outcome(struct buf *out, const struct js_doc *doc, uint32_t object, bool failed,
                     struct str links)
{
    bool first = true;
    struct buf text = {0};
    uint32_t output = js_get(doc, object, "output"), result = js_get(doc, object, "result");
    uint32_t error = js_get(doc, object, "error");
    uint32_t why = error && js_type(doc, error) == JS_OBJECT ? js_get(doc, error, "message") : 0;
    if (output && js_type(doc, output) == JS_STRING)
        js_value(doc, output, &text);
    js_put_raw(out, "content", STR("["));
    if (text.len || !failed)
        mcp_put_content(out, &first, buf_str(&text));
    if (failed) {
        bool has_why = why && js_type(doc, why) == JS_STRING;
        buf_clear(&text);
        if (has_why)
            js_value(doc, why, &text);
        mcp_put_content(out, &first, has_why ? buf_str(&text) : STR("the task failed"));
    }
    if (links.n) {
        buf_putc(out, ',');
        buf_putstr(out, links);
    }
    buf_putc(out, ']');
    if (!failed && result && js_type(doc, result) == JS_OBJECT) {
        js_put_key(out, "structuredContent");
        js_copy(doc, result, out);
    }
    js_put_bool(out, "isError", failed);
    buf_done(&text);
}

static void put_result(struct mcp_stream *s, const struct face_event *e, const struct face_sink *to)
{
    struct buf *out = &s->out;
    buf_clear(out);
    mcp_begin_result(out, s->call.rpc_id);
    buf_putc(out, '{');
    mcp_put_outcome(out, e->doc, 0, e->type == EVENT_TASK_FAILED, buf_str(&s->links));
    put_related(out, s);
    buf_putc(out, '}');
    mcp_end_result(out);
    to->put(to->arg, NULL, buf_str(out));
}

/* The answer to a cancel is the task that it has ended. */
static void put_ended_task(struct mcp_stream *s, const struct face_event *e,
                           const struct face_sink *to)
{
    bool failed = e->type == EVENT_TASK_FAILED;
    bool cancelled = str_eq(face_text(e, "status", &s->scratch), STR("cancelled"));
    struct buf *out = &s->out;
    buf_clear(out);
    mcp_begin_result(out, s->call.rpc_id);
    buf_puts(out, "{\"taskId\":\"");
    put_own_id(out, s);
    buf_putc(out, '"');
    js_put_field(out, "status",
                 cancelled ? STR("cancelled")
                 : failed  ? STR("failed")
                           : STR("completed"));
    js_put_raw(out, "ttl", STR("null"));
    face_put_time(out, "createdAt", s->created_at);
    face_put_time(out, "lastUpdatedAt", e->ts);
    buf_putc(out, '}');
    mcp_end_result(out);
    to->put(to->arg, NULL, buf_str(out));
}

/* --- the stream ------------------------------------------------------------------------------- */

static void prime(struct mcp_stream *s, const struct face_sink *to)
{
    if (!s->begun && s->operation != MCP_TASK_CANCEL)
        to->put(to->arg, NULL, STR(""));
    s->begun = true;
}

static void note_file(struct mcp_stream *s, const struct face_event *e)
{
    if (!s->call.files)
        s->call.files = e->seq;
    mcp_put_link(&s->links, s->call.base, str_of(s->conversation_id), e);
}

static void mcp_event(struct face_stream *face, const struct face_event *e,
                      const struct face_sink *to)
{
    struct mcp_stream *s = container_of(face, struct mcp_stream, face);
    prime(s, to);
    if (e->type == EVENT_FILE)
        note_file(s, e);
    if (e->seq <= s->after)
        return;
    switch (e->type) {
    case EVENT_TOKEN: put_progress(s, e, face_text(e, "text", &s->scratch), to); break;
    case EVENT_PROGRESS: put_progress(s, e, face_text(e, "note", &s->scratch), to); break;
    case EVENT_INPUT_REQUIRED: note_question(s, e); break;
    case EVENT_INPUT_RECEIVED: s->asks = false; break;
    case EVENT_TASK_COMPLETED:
    case EVENT_TASK_FAILED:
        if (s->operation == MCP_TASK_CANCEL)
            put_ended_task(s, e, to);
        else
            put_result(s, e, to);
        face->is_over = true;
        break;
    default: break; /* MCP has no place for it */
    }
}

static void mcp_idle(struct face_stream *face, const struct face_sink *to)
{
    struct mcp_stream *s = container_of(face, struct mcp_stream, face);
    if (!s->asks || s->operation == MCP_TASK_CANCEL)
        return;
    to->put(to->arg, NULL, buf_str(&s->question));
    s->asks = false;
}

static struct face_stream *mcp_make(const struct face_task *task)
{
    static const struct mcp_request none = {.operation = MCP_CALL, .call.rpc_id = {"1", 1}};
    const struct mcp_request *r = task->request ? task->request : &none;
    if (r->is_modern)
        return mcp_modern_make(task);
    struct mcp_stream *s = xcalloc(sizeof *s);
    s->face.ops = &mcp_ops;
    s->face.place.seq = s->after = r->after;
    s->operation = r->operation;
    s->call = r->call; /* the exchange outlives the stream */
    s->task_id = xstrdup(task->task_id);
    s->conversation_id = xstrdup(task->conversation_id);
    s->created_at = task->created_at;
    s->begun = r->after > 0;
    return &s->face;
}

static void mcp_free(struct face_stream *face)
{
    struct mcp_stream *s = container_of(face, struct mcp_stream, face);
    buf_done(&s->question);
    buf_done(&s->links);
    buf_done(&s->out);
    buf_done(&s->scratch);
    free(s->task_id);
    free(s->conversation_id);
    free(s);
}

void mcp_put_event_id(struct buf *out, const struct face_stream *face, struct face_place at)
{
    const struct mcp_stream *s = container_of(face, const struct mcp_stream, face);
    struct buf call = {0};
    buf_putc(&call, '[');
    buf_putstr(&call, s->call.rpc_id);
    buf_putc(&call, ',');
    buf_putstr(&call, s->call.token.p ? s->call.token : STR("null"));
    buf_putf(&call, ",%d", (s->call.elicits ? 1 : 0) | (s->call.is_task ? 2 : 0));
    if (s->call.files)
        buf_putf(&call, ",%llu", (unsigned long long)s->call.files);
    buf_putc(&call, ']');
    put_own_id(out, s);
    buf_putf(out, "_%llu_", (unsigned long long)at.seq);
    base64url_put(out, call.bytes, call.len);
    buf_done(&call);
}

const struct face_ops mcp_ops = {
    .name = "mcp",
    .make = mcp_make,
    .event = mcp_event,
    .idle = mcp_idle,
    .free = mcp_free,
};
