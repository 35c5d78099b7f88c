/* The faces: what a stranger posts, and what a journal may hold. Whatever comes, each message is
 * JSON, nothing follows the last one, and a replay makes the same messages. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/faces/ag_ui.h"
#include "proto/faces/ai_sdk.h"
#include "proto/faces/openai.h"
#include "proto/faces/responses.h"

static const struct face_ops *const faces[] = {&ai_sdk_ops, &openai_ops, &responses_ops,
                                               &ag_ui_ops};
static const struct face_http_ops *const others[] = {&openai_http_ops, &ag_ui_http_ops};
static const struct face_ws_ops *const sockets[] = {&ai_sdk_ws_ops, &responses_ws_ops};
static struct js_doc doc, check;

static void keep(void *arg, const char *name, struct str json)
{
    (void)name;
    ASSERT(js_parse(&check, json.p, json.n, JS_ANY_NUMBER));
    buf_putstr(arg, json);
    buf_putc(arg, '\n');
}

/* Each line is an event: its first byte chooses the type, the rest is the data. */
static void tell(struct face_stream *s, struct str bytes, struct buf *out)
{
    const struct face_sink sink = {.put = keep, .arg = out};
    while (bytes.n > 1) {
        const char *newline = memchr(bytes.p + 1, '\n', bytes.n - 1);
        size_t n = newline ? (size_t)(newline - bytes.p) : bytes.n;
        enum event_type type = (enum event_type)((unsigned char)bytes.p[0] % N_EVENT_TYPES);
        bool was_over = s->is_over;
        size_t len = out->len;
        if (js_parse(&doc, bytes.p + 1, n - 1, JS_AGENT) && js_type(&doc, 0) == JS_OBJECT)
            face_stream_event(s, &(struct face_event){.type = type, .doc = &doc}, &sink);
        if (bytes.p[0] & 0x40)
            face_stream_idle(s, &sink);
        ASSERT(!was_over || out->len == len);
        n += newline ? 1 : 0;
        bytes.p += n;
        bytes.n -= n;
    }
}

static void read_frame(const struct face_ws_ops *ops, struct str text)
{
    struct face_frame frame = {0};
    struct buf out = {0};
    ops->read(&doc, text, &frame);
    ops->put_failed(&out, frame.id, ERR_BAD_REQUEST, frame.why);
    ASSERT(out.len == 0 || js_parse(&check, out.bytes, out.len, JS_ANY_NUMBER));
    buf_done(&out);
    buf_done(&frame.memory);
}

static void exchange(const struct face_http_ops *ops, int operation, struct str body)
{
    struct face_exchange x = {.ops = ops};
    const struct face_input in = {.operation = operation,
                                  .conversation = STR("c"),
                                  .task = STR("t"),
                                  .query = body,
                                  .body = body,
                                  .agents = STR("[{\"name\":\"a\"}]"),
                                  .agent = STR("a"),
                                  .header = body,
                                  .doc = &doc};
    const struct buf *made = ops->begin(&x, &in) == FACE_REPLY ? &x.reply : &x.ask.body;
    ASSERT(made->len == 0 || js_parse(&check, made->bytes, made->len, JS_ANY_NUMBER));
    exchange_done(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    struct str rest = {(const char *)data + 1, n - 1};
    for (size_t i = 0; i < countof(sockets); i++) {
        read_frame(sockets[i], rest);
        exchange(sockets[i]->http, data[0] % 6, rest);
    }
    for (size_t i = 0; i < countof(others); i++)
        exchange(others[i], data[0] % 4, rest);
    for (size_t i = 0; i < countof(faces); i++) {
        const struct openai_options openai = {data[0] & 0x20, data[0] & 0x10};
        const struct responses_state state = {.way = data[0] & 0x20 ? RESPONSES_WHOLE
                                                                    : RESPONSES_EVENTS};
        struct buf first = {0}, again = {0};
        const struct face_task task = {.task_id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                                       .conversation_id = STR("c"),
                                       .agent = STR("a"),
                                       .request = faces[i] == &openai_ops ? (const void *)&openai
                                                  : faces[i] == &responses_ops ? &state
                                                                               : NULL,
                                       .after_answer = data[0] & 0x80 ? STR("q") : STR_NULL};
        struct face_stream *a = faces[i]->make(&task), *b = faces[i]->make(&task);
        tell(a, rest, &first);
        tell(b, rest, &again);
        ASSERT(str_eq(buf_str(&first), buf_str(&again)));
        face_stream_free(a);
        face_stream_free(b);
        buf_done(&first);
        buf_done(&again);
    }
    return 0;
}
