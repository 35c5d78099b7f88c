#include "gateway/faces/face_http.h"

#include <stdlib.h>

#include "gateway/front/http_head.h"

struct face_http {
    struct face_exchange face;
    struct face_stream *stream; /* NULL until the events begin */
    struct js_doc doc;          /* scratch for replies and events */
    uint64_t n_said;            /* messages, including those that the client already has */
};

static void face_go_on(struct exchange *x, enum face_next next);

static const struct face_http_ops *ops_of(const struct exchange *x)
{
    return x->route->of_kind;
}

static void face_replied(void *arg, enum error e, struct str line)
{
    struct exchange *x = arg;
    struct face_http *own = x->own;
    x->call = NULL;
    face_go_on(x, own->face.ops->replied(&own->face, e, line, &own->doc));
}

/* A fault in the request's form reaches the face like a refusal by the hub. */
static void face_refuse(struct exchange *x, const struct request_fault *fault)
{
    struct face_http *own = x->own;
    struct buf line = {0};
    error_line(&line, fault->code, STR_NULL, fault->message, -1, -1);
    face_go_on(x, own->face.ops->replied(&own->face, fault->code, buf_str(&line), &own->doc));
    buf_done(&line);
}

static void face_ask(struct exchange *x, bool follows)
{
    struct face_http *own = x->own;
    struct face_ask *a = &own->face.ask;
    struct hub *h = x->front->hub;
    struct request req;
    struct request_fault fault;
    struct str conversation = a->conversation_id.len ? buf_str(&a->conversation_id) : STR_NULL;
    struct str task = a->task_id.len ? buf_str(&a->task_id) : STR_NULL;
    struct asker who = http_asker(x);
    if (!request_from_body(&h->doc, a->verb, conversation, task, buf_str(&a->body), &req, &fault))
        face_refuse(x, &fault);
    else if (follows)
        sse_follow(x, &req);
    else
        x->call = hub_request(h, &who, &req, face_replied, x);
}

static void face_go_on(struct exchange *x, enum face_next next)
{
    struct face_http *own = x->own;
    if (next != FACE_REPLY) {
        face_ask(x, next == FACE_FOLLOW);
        return;
    }
    buf_clear(&x->answer);
    buf_putstr(&x->answer, buf_str(&own->face.reply));
    http_api_ready(x, own->face.status);
}

void face_put_nonce(struct buf *out, const struct hub *h)
{
    unsigned char bytes[16];
    ASSERT(h->o.random(bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++)
        buf_putf(out, "%02x", bytes[i]);
}

static void face_begin(struct exchange *x)
{
    struct face_http *own = xcalloc(sizeof *own);
    const char *reads = ops_of(x)->reads;
    char *query = http_query(x->wsi), *key = http_head_value(x->wsi, "idempotency-key:");
    char *header = reads ? http_head_value(x->wsi, reads) : NULL, *base = http_base(x->wsi);
    struct buf agents = {0}, nonce = {0};
    char *also[FACE_ALSO] = {NULL};
    for (size_t i = 0; i < FACE_ALSO && ops_of(x)->also_reads[i]; i++)
        also[i] = http_head_value(x->wsi, ops_of(x)->also_reads[i]);
    face_put_nonce(&nonce, x->front->hub);
    session_put_agents(&agents, x->front->hub);
    x->own = own;
    own->face.ops = ops_of(x);
    const struct face_input in = {.operation = x->route->operation,
                                  .conversation = str_of(x->conversation_id),
                                  .task = str_of(x->task_id),
                                  .agent = str_of(x->agent),
                                  .query = str_of(query),
                                  .body = buf_str(&x->body),
                                  .idempotency_key = str_of(key),
                                  .header = str_of(header),
                                  .also = {str_of(also[0]), str_of(also[1]), str_of(also[2])},
                                  .base = str_of(base),
                                  .agents = buf_str(&agents),
                                  .takes_webhooks = x->front->hub->o.limits.task_webhooks > 0,
                                  .nonce = buf_str(&nonce),
                                  .doc = &own->doc,
                                  .now_ms = x->front->hub->clock.wall_ms};
    enum face_next next = own->face.ops->begin(&own->face, &in);
    free(query);
    free(key);
    free(header);
    free(base);
    for (size_t i = 0; i < FACE_ALSO; i++)
        free(also[i]);
    buf_done(&agents);
    buf_done(&nonce);
    buf_done(&x->body);
    face_go_on(x, next);
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

/* --- the stream ------------------------------------------------------------------------------- */

static void face_started(struct exchange *x, struct str reply)
{
    struct face_http *own = x->own;
    struct face_task task;
    exchange_task_read(&own->face, &own->doc, reply, &task);
    own->stream = face_stream_make(own->face.ops->stream, &task);
    x->is_whole = own->face.is_whole;
    x->patience_ms = own->face.patience_ms;
    if (!own->stream->is_over)
        return;
    face_put_error(x, &x->answer, ERR_OUT_OF_RANGE, "the events at this place are kept no longer");
    sse_done(x);
    http_api_ready(x, own->stream->status);
}

static void face_failed(struct exchange *x, enum error e, struct str reply)
{
    struct face_http *own = x->own;
    face_go_on(x, own->face.ops->replied(&own->face, e, reply, &own->doc));
}

struct telling {
    struct face_http *own;
    struct buf *out;
    bool in_message; /* its end is missing: that comes with its id */
    struct face_place at;
};

static void face_end_message(struct telling *telling, struct face_place at)
{
    const struct face_http *own = telling->own;
    if (!telling->in_message)
        return;
    telling->in_message = false;
    if (own->face.ops->put_id) {
        buf_puts(telling->out, "id: ");
        own->face.ops->put_id(telling->out, own->stream, at);
        buf_putc(telling->out, '\n');
    }
    buf_putc(telling->out, '\n');
}

static void face_put_message(void *arg, const char *name, struct str json)
{
    struct telling *telling = arg;
    face_end_message(telling, telling->at);
    if (telling->own->n_said++ < telling->own->face.after)
        return;
    if (name) {
        buf_puts(telling->out, "event: ");
        buf_puts(telling->out, name);
        buf_putc(telling->out, '\n');
    }
    buf_puts(telling->out, telling->own->face.ops->is_tight ? "data:" : "data: ");
    buf_putstr(telling->out, json);
    buf_putc(telling->out, '\n');
    telling->in_message = true;
    telling->at = telling->own->stream->place;
}

/* In a reply in one piece each message replaces the previous one. */
static void face_put_whole(void *arg, const char *name, struct str json)
{
    struct telling *telling = arg;
    (void)name;
    buf_clear(telling->out);
    buf_putstr(telling->out, json);
}

static struct face_sink face_sink(struct exchange *x, struct telling *telling)
{
    if (!x->is_whole)
        return (struct face_sink){.put = face_put_message, .arg = telling};
    telling->out = &x->answer;
    return (struct face_sink){.put = face_put_whole, .arg = telling};
}

static void face_end_if_over(struct exchange *x, struct buf *out)
{
    const struct face_http *own = x->own;
    const char *last = ops_of(x)->last;
    if (x->ended || !own->stream->is_over)
        return;
    x->ended = true;
    x->breaks = own->stream->breaks;
    x->status = own->stream->status ? own->stream->status : 200;
    if (!last || x->is_whole || x->breaks)
        return;
    buf_puts(out, "data: ");
    buf_puts(out, last);
    buf_puts(out, "\n\n");
}

static void face_line(struct exchange *x, struct buf *out, struct str line)
{
    struct face_http *own = x->own;
    struct telling telling = {.own = own, .out = out};
    const struct face_sink sink = face_sink(x, &telling);
    face_stream_line(own->stream, &own->doc, line, &sink);
    face_end_message(&telling, own->stream->place);
    face_end_if_over(x, out);
}

static void face_idle(struct exchange *x, struct buf *out)
{
    struct face_http *own = x->own;
    struct telling telling = {.own = own, .out = out};
    const struct face_sink sink = face_sink(x, &telling);
    if (!own->stream)
        return;
    face_stream_idle(own->stream, &sink);
    face_end_message(&telling, own->stream->place);
    face_end_if_over(x, out);
}

static void face_late(struct exchange *x, struct buf *out)
{
    struct face_http *own = x->own;
    struct telling telling = {.own = own, .out = out};
    const struct face_sink sink = face_sink(x, &telling);
    own->stream->ops->late(own->stream, &sink);
    face_end_if_over(x, out);
}

static struct str face_lines(const struct exchange *x)
{
    const struct face_http *own = x->own;
    bool is_streams = own && own->stream && own->stream->head.n;
    return !own ? STR_NULL : is_streams ? own->stream->head : buf_str(&own->face.head);
}

static const char *face_header(const struct exchange *x, const char **ret_value)
{
    const struct face_http *own = x->own;
    bool has_own = own && own->face.header_value.len > 0, follows = x->streams || x->is_whole;
    *ret_value = has_own ? own->face.header_value.bytes : follows ? ops_of(x)->header_value : NULL;
    return *ret_value ? ops_of(x)->header : NULL;
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
    .lines = face_lines,
    .late = face_late,
};
