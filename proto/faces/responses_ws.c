/* The Responses API over a WebSocket: frames `response.create`, whose events come as frames; with
 * `stream_id` many at a time. An address with `response_id` and `starting_after` continues a
 * response: the query that a client's reconnect may bring. */
#include <stdio.h>

#include "proto/faces/responses.h"
#include "proto/str.h"

#define MAX_STREAM_ID 128 /* bytes */

static void fail_frame(struct face_frame *frame, const char *why)
{
    frame->kind = FRAME_BAD;
    snprintf(frame->why, sizeof frame->why, "%s", why);
}

static void responses_read_frame(struct js_doc *doc, struct str text, struct face_frame *ret)
{
    ret->kind = FRAME_REQUEST;
    if (!js_parse(doc, text.p, text.n, JS_CLIENT) || js_type(doc, 0) != JS_OBJECT) {
        fail_frame(ret, "a frame must be a JSON object");
        return;
    }
    uint32_t type = js_get(doc, 0, "type"), id = js_get(doc, 0, "stream_id");
    if (id && js_type(doc, id) == JS_STRING && js_raw(doc, id).n <= MAX_STREAM_ID) {
        js_value(doc, id, &ret->memory);
        ret->id = buf_str(&ret->memory);
    } else if (id) {
        fail_frame(ret, "\"stream_id\" must be a string of at most 128 bytes");
    }
    if (!type || js_type(doc, type) != JS_STRING || !js_is(doc, type, "response.create"))
        fail_frame(ret, "\"type\" must be \"response.create\"");
}

/* Appends an object, with one more member when the frame has named a stream. */
static void put_routed(struct buf *out, struct str id, struct str json)
{
    if (id.n == 0) {
        buf_putstr(out, json);
        return;
    }
    buf_putc(out, '{');
    js_put_field(out, "stream_id", id);
    buf_putc(out, ',');
    buf_putstr(out, str_from(json, 1));
}

static void responses_put_message(struct buf *out, struct str id, uint64_t n, struct str json)
{
    (void)n; /* the message already has its number */
    put_routed(out, id, json);
}

/* error: the body of an answer, `{"error":{…}}`. */
static void put_error_frame(struct buf *out, struct str id, int status, struct str error)
{
    struct buf json = {0};
    buf_putc(&json, '{');
    js_put_field(&json, "type", STR("error"));
    js_put_int(&json, "status", status);
    buf_putc(&json, ',');
    buf_putstr(&json, str_from(error, 1));
    put_routed(out, id, buf_str(&json));
    buf_done(&json);
}

static void responses_put_reply(struct buf *out, struct str id, const struct face_exchange *x)
{
    put_error_frame(out, id, x->status, buf_str(&x->reply));
}

static void responses_put_failed(struct buf *out, struct str id, enum error e, const char *why)
{
    struct buf error = {0};
    responses_http_ops.put_error(&error, e, why);
    put_error_frame(out, id, error_status(e), buf_str(&error));
    buf_done(&error);
}

/* The last event ends the stream. */
static void responses_put_end(struct buf *out, struct str id)
{
    (void)out;
    (void)id;
}

const struct face_ws_ops responses_ws_ops = {
    .http = &responses_http_ops,
    .operation = RESPONSES_FRAME,
    .query_name = "response_id",
    .query_operation = RESPONSES_ADDRESS,
    .one_at_a_time = true,
    .read = responses_read_frame,
    .put_message = responses_put_message,
    .put_end = responses_put_end,
    .put_reply = responses_put_reply,
    .put_failed = responses_put_failed,
};
