/* WebSocketChatTransport of the AI SDK (ai >= 7.0.135): requests by requestId, chunks with a
 * sequence from 0 for each request. Its client ignores frames of requests that it does not know. */
#include "proto/faces/ai_sdk.h"

static void begin_frame(struct buf *out, const char *type, struct str id)
{
    buf_putc(out, '{');
    js_put_field(out, "type", str_of(type));
    js_put_field(out, "requestId", id);
}

static void ai_sdk_read_frame(struct js_doc *doc, struct str text, struct face_frame *ret)
{
    struct ai_sdk_request r;
    bool good = ai_sdk_read(doc, text, true, &r, ret->why);
    ret->kind = !good ? FRAME_BAD : r.kind == AI_SDK_ABORT ? FRAME_CANCEL : FRAME_REQUEST;
    ret->memory = r.memory; /* the spans stay valid */
    ret->id = r.request_id;
    ret->authorization = r.authorization;
    ret->chat_id = r.chat_id;
}

static void ai_sdk_put_begun(struct buf *out, struct str id, const struct face_exchange *x)
{
    if (x->operation != AI_SDK_RESUME_FRAME)
        return;
    begin_frame(out, "start", id);
    buf_putc(out, '}');
}

static void ai_sdk_put_message(struct buf *out, struct str id, uint64_t n, struct str json)
{
    begin_frame(out, "chunk", id);
    js_put_int(out, "sequence", (int64_t)n);
    js_put_raw(out, "chunk", json);
    buf_putc(out, '}');
}

static void ai_sdk_put_end(struct buf *out, struct str id)
{
    begin_frame(out, "end", id);
    buf_putc(out, '}');
}

static void ai_sdk_put_failed(struct buf *out, struct str id, enum error e, const char *why)
{
    (void)e;
    begin_frame(out, "error", id);
    js_put_field(out, "errorText", str_of(why));
    buf_putc(out, '}');
}

static void ai_sdk_put_reply(struct buf *out, struct str id, const struct face_exchange *x)
{
    if (x->status == 204) {
        begin_frame(out, "no-active", id);
    } else {
        begin_frame(out, "error", id);
        js_put_field(out, "errorText", buf_str(&x->reply));
    }
    buf_putc(out, '}');
}

const struct face_ws_ops ai_sdk_ws_ops = {
    .http = &ai_sdk_http_ops,
    .operation = AI_SDK_FRAME,
    .one_at_a_time = true,
    .read = ai_sdk_read_frame,
    .put_begun = ai_sdk_put_begun,
    .put_message = ai_sdk_put_message,
    .put_end = ai_sdk_put_end,
    .put_reply = ai_sdk_put_reply,
    .put_failed = ai_sdk_put_failed,
};
