/* The faces: what a stranger posts, and what a journal may hold. Whatever comes, each message is
 * JSON, nothing follows the last one, and a replay makes the same messages. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/faces/a2a.h"
#include "proto/faces/acp_server.h"
#include "proto/faces/ag_ui.h"
#include "proto/faces/ai_sdk.h"
#include "proto/faces/durable.h"
#include "proto/faces/mcp.h"
#include "proto/faces/openai.h"
#include "proto/faces/responses.h"

static const struct face_ops *const faces[] = {&ai_sdk_ops,  &openai_ops,    &responses_ops,
                                               &ag_ui_ops,   &a2a_ops,       &mcp_ops,
                                               &durable_ops, &acp_server_ops};
static const struct face_http_ops *const others[] = {
    &openai_http_ops, &ag_ui_http_ops, &mcp_post_ops, &mcp_get_ops, &durable_http_ops};
static const struct face_http_ops *const bindings[] = {&a2a_rpc_ops, &a2a_rest_ops};
static const struct face_ws_ops *const sockets[] = {&ai_sdk_ws_ops, &responses_ws_ops,
                                                    &acp_server_ws_ops};
static struct js_doc doc, check;

/* Keeps what a stream says after an event. */
struct listener {
    const struct face_stream *stream;
    uint64_t after;
    struct buf *out;
    size_t n; /* that it has said in all */
};

static void keep(void *arg, const char *name, struct str json)
{
    struct listener *l = arg;
    (void)name;
    l->n++;
    ASSERT(json.n == 0 || js_parse(&check, json.p, json.n, JS_ANY_NUMBER));
    if (l->after && l->stream->place.seq <= l->after)
        return;
    buf_putstr(l->out, json);
    buf_putc(l->out, '\n');
}

/* Each line is an event: its first byte chooses the type, the rest is the data. */
static void tell(struct face_stream *s, struct str bytes, uint64_t after, struct buf *out)
{
    struct listener l = {.stream = s, .after = after, .out = out};
    const struct face_sink sink = {.put = keep, .arg = &l};
    for (uint64_t seq = 1; bytes.n > 1; seq++) {
        const char *newline = memchr(bytes.p + 1, '\n', bytes.n - 1);
        size_t n = newline ? (size_t)(newline - bytes.p) : bytes.n;
        enum event_type type = (enum event_type)((unsigned char)bytes.p[0] % N_EVENT_TYPES);
        bool was_over = s->is_over;
        size_t n_said = l.n;
        struct buf line = {0};
        if (js_parse(&doc, bytes.p + 1, n - 1, JS_AGENT) && js_type(&doc, 0) == JS_OBJECT) {
            js_copy(&doc, 0, &line);
            face_stream_event(
                s,
                &(struct face_event){.type = type, .seq = seq, .doc = &doc, .line = buf_str(&line)},
                &sink);
        }
        buf_done(&line);
        if (bytes.p[0] & 0x40)
            face_stream_idle(s, &sink);
        ASSERT(!was_over || l.n == n_said);
        n += newline ? 1 : 0;
        bytes.p += n;
        bytes.n -= n;
    }
}

/* A reader that comes back to AG-UI's stream gets all that follows its place, whatever is opened
 * again. */
static void come_back(const struct face_task *task, struct str bytes, uint64_t place)
{
    struct buf rest = {0}, told = {0};
    struct ag_ui_request all = {.history = STR("[]")}, some = all;
    struct face_task first = *task, later = *task;
    some.known.seq = place;
    first.request = &all;
    later.request = &some;
    struct face_stream *a = ag_ui_ops.make(&first), *b = ag_ui_ops.make(&later);
    tell(a, bytes, place, &rest);
    tell(b, bytes, 0, &told);
    ASSERT(told.len >= rest.len);
    ASSERT(rest.len == 0 || memcmp(told.bytes + told.len - rest.len, rest.bytes, rest.len) == 0);
    face_stream_free(a);
    face_stream_free(b);
    buf_done(&rest);
    buf_done(&told);
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
    struct face_peer peer = {.has_begun = body.n % 2, .elicits = body.n % 3};
    const struct face_input in = {
        .operation = operation,
        .peer = &peer,
        .conversation = STR("c"),
        .task = STR("Yw.01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        .query = body,
        .body = body,
        .agents = STR("[{\"name\":\"a\",\"default\":true}]"),
        .agent = STR("a"),
        .header = ops == &a2a_rpc_ops || ops == &a2a_rest_ops ? STR_NULL : body,
        .also = {(operation & 1) ? STR("2026-07-28") : STR_NULL, STR("tools/call"), STR("a")},
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
    for (size_t i = 0; i < countof(bindings); i++)
        exchange(bindings[i],
                 i == 0 ? A2A_RPC : A2A_CARD + data[0] % (A2A_PUSH_DELETE - A2A_CARD + 1), rest);
    const struct acp_request prompt = {.rpc_id = STR("7"), .elicits = data[0] & 0x20};
    const struct a2a_request asked = {
        .operation = (enum a2a_operation)(A2A_SEND + data[0] % (A2A_LIST - A2A_SEND))};
    for (size_t i = 0; i < countof(faces); i++) {
        const struct openai_options openai = {data[0] & 0x20, data[0] & 0x10};
        const struct responses_state state = {.way = data[0] & 0x20 ? RESPONSES_WHOLE
                                                                    : RESPONSES_EVENTS};
        struct buf first = {0}, again = {0};
        const struct face_task task = {
            .task_id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            .conversation_id = STR("c"),
            .agent = STR("a"),
            .request = faces[i] == &openai_ops       ? (const void *)&openai
                       : faces[i] == &responses_ops  ? (const void *)&state
                       : faces[i] == &a2a_ops        ? (const void *)&asked
                       : faces[i] == &acp_server_ops ? &prompt
                                                     : NULL,
            .retracted = data[0] & 0x08 ? STR("[[1,3],[5,9]]") : STR_NULL,
            .after_answer = data[0] & 0x80 ? STR("q") : STR_NULL};
        struct face_stream *a = face_stream_make(faces[i], &task);
        struct face_stream *b = face_stream_make(faces[i], &task);
        tell(a, rest, 0, &first);
        tell(b, rest, 0, &again);
        ASSERT(str_eq(buf_str(&first), buf_str(&again)));
        face_stream_free(a);
        face_stream_free(b);
        buf_done(&first);
        buf_done(&again);
    }
    const struct face_task task = {.task_id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                                   .conversation_id = STR("c"),
                                   .agent = STR("a")};
    come_back(&task, rest, 1 + data[0] % 8);
    return 0;
}
