#include "gateway/faces/face_http.h"

#include <stdlib.h>

#include "gateway/front/http_head.h"

struct face_http {
    struct face_exchange face;
    struct face_stream *stream; /* NULL until the events come */
    struct js_doc doc;          /* scratch: of replies and events */
    uint64_t n_said;            /* messages, those included that the client has already */
};

static void go_on(struct exchange *x, enum face_next next);

static const struct face_http_ops *ops_of(const struct exchange *x)
{
    return x->route->of_kind;
}

static void on_reply(void *arg, enum error e, struct str line)
{
    struct exchange *x = arg;
    struct face_http *own = x->own;
    x->call = NULL;
    go_on(x, own->face.ops->replied(&own->face, e, line, &own->doc));
}

/* A fault that the reader of requests finds comes to the face like a refusal of the hub's. */
static void refuse(struct exchange *x, const struct request_fault *fault)
{
    struct face_http *own = x->own;
    struct buf line = {0};
    error_line(&line, fault->code, STR_NULL, fault->message, -1, -1);
    go_on(x, own->face.ops->replied(&own->face, fault->code, buf_str(&line), &own->doc));
    buf_done(&line);
}

static void ask(struct exchange *x, bool follows)
{
    struct face_http *own = x->own;
    struct face_ask *a = &own->face.ask;
    struct hub *h = x->front->hub;
    struct request req;
    struct request_fault fault;
    struct str conversation = a->conversation_id.len ? buf_str(&a->conversation_id) : STR_NULL;
    struct str task = a->task_id.len ? buf_str(&a->task_id) : STR_NULL;
    if (!request_from_body(&h->doc, a->verb, conversation, task, buf_str(&a->body), &req, &fault))
        refuse(x, &fault);
    else if (follows)
        sse_follow(x, &req);
    else
        x->call = hub_request(h, &(struct asker){x->owner, x->quota, NULL}, &req, on_reply, x);
}

static void go_on(struct exchange *x, enum face_next next)
{
    struct face_http *own = x->own;
    if (next != FACE_REPLY) {
        ask(x, next == FACE_FOLLOW);
        return;
    }
    buf_clear(&x->answer);
    buf_putstr(&x->answer, buf_str(&own->face.reply));
    http_api_ready(x, own->face.status);
}

static void face_begin(struct exchange *x)
{
    struct face_http *own = xcalloc(sizeof *own);
    char *query = http_api_query(x), *key = http_head_value(x->wsi, "idempotency-key:");
    x->own = own;
    own->face.ops = ops_of(x);
    const struct face_input in = {.operation = x->route->operation,
                                  .conversation = str_of(x->conversation_id),
                                  .task = str_of(x->task_id),
                                  .query = str_of(query),
                                  .body = buf_str(&x->body),
                                  .idempotency_key = str_of(key),
                                  .doc = &own->doc,
                                  .now_ms = x->front->hub->clock.wall_ms};
    enum face_next next = own->face.ops->begin(&own->face, &in);
    free(query);
    free(key);
    buf_done(&x->body);
    go_on(x, next);
}

static void face_put_error(const struct exchange *x, struct buf *out, enum error e,
                           const char *message)
{
    ops_of(x)->put_error(out, e, message);
}

static void face_closed(struct exchange *x)
{
    struct face_http *own = x->own;
    face_stream_free(own->stream);
    exchange_done(&own->face);
    js_done(&own->doc);
    free(own);
    x->own = NULL;
}

/* --- the stream -------------------------------------------------------------------------------- */

static struct str text_of(const struct js_doc *doc, uint32_t object, const char *member)
{
    uint32_t at = js_get(doc, object, member);
    return at && js_type(doc, at) == JS_STRING ? js_raw(doc, at) : STR_NULL; /* ids and names */
}

static void face_started(struct exchange *x, struct str reply)
{
    struct face_http *own = x->own;
    uint32_t task = exchange_task(&own->doc, reply), created;
    struct face_task t = {0};
    ASSERT(task);
    t.task_id = text_of(&own->doc, task, "task_id");
    t.conversation_id = text_of(&own->doc, task, "conversation_id");
    t.agent = text_of(&own->doc, task, "agent");
    created = js_get(&own->doc, task, "created_at");
    if (!created || !js_int(&own->doc, created, &t.created_at))
        t.created_at = 0;
    if (own->face.after_answer.len)
        t.after_answer = buf_str(&own->face.after_answer);
    if (own->face.client_id.len)
        t.client_id = buf_str(&own->face.client_id);
    own->stream = own->face.ops->stream->make(&t);
}

static void face_failed(struct exchange *x, enum error e, struct str reply)
{
    struct face_http *own = x->own;
    go_on(x, own->face.ops->replied(&own->face, e, reply, &own->doc));
}

struct telling {
    struct face_http *own;
    struct buf *out;
};

static void put_message(void *arg, const char *name, struct str json)
{
    struct telling *telling = arg;
    if (telling->own->n_said++ < telling->own->face.after)
        return;
    if (name) {
        buf_puts(telling->out, "event: ");
        buf_puts(telling->out, name);
        buf_putc(telling->out, '\n');
    }
    buf_puts(telling->out, "data: ");
    buf_putstr(telling->out, json);
    buf_puts(telling->out, "\n\n");
}

static void face_line(struct exchange *x, struct buf *out, struct str line)
{
    struct face_http *own = x->own;
    struct event_parts parts;
    if (!event_line_split(line, &parts) ||
        !js_parse(&own->doc, parts.data.p, parts.data.n, JS_OURS))
        return;
    const struct face_sink sink = {.put = put_message, .arg = &(struct telling){own, out}};
    const struct face_event event = {
        .type = parts.event, .seq = parts.seq, .ts = parts.ts, .doc = &own->doc};
    face_stream_event(own->stream, &event, &sink);
    x->ended = own->stream->is_over;
}

static void face_idle(struct exchange *x, struct buf *out)
{
    struct face_http *own = x->own;
    const struct face_sink sink = {.put = put_message, .arg = &(struct telling){own, out}};
    if (!own->stream)
        return;
    face_stream_idle(own->stream, &sink);
    x->ended = own->stream->is_over;
}

static const char *face_header(const struct exchange *x, const char **ret_value)
{
    *ret_value = ops_of(x)->header_value;
    return ops_of(x)->header;
}

const struct exchange_kind face_http_kind = {
    .begin = face_begin,
    .put_error = face_put_error,
    .closed = face_closed,
    .started = face_started,
    .failed = face_failed,
    .line = face_line,
    .idle = face_idle,
    .header = face_header,
};
