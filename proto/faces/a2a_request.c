/* A request of A2A: the method of JSON-RPC or the route of REST, and its parameters. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/faces/a2a.h"
#include "proto/faces/face_parts.h"

struct a2a_reader {
    const struct js_doc *doc;
    struct a2a_request *r;
    struct buf *memory; /* has room for everything, so spans into it stay valid */
    char *why;          /* of 128 bytes */
};

static enum a2a_fault wrong(const struct a2a_reader *in, enum a2a_fault fault, const char *why)
{
    snprintf(in->why, 128, "%s", why);
    return fault;
}

static uint32_t a2a_get(const struct a2a_reader *in, uint32_t object, const char *key,
                        enum js_type type)
{
    const struct js_doc *d = in->doc;
    uint32_t at = js_type(d, object) == JS_OBJECT ? js_get(d, object, key) : 0;
    return at && js_type(d, at) == type ? at : 0;
}

/* A string member that is not empty; otherwise STR_NULL, as in ProtoJSON. */
static struct str text(const struct a2a_reader *in, uint32_t object, const char *key)
{
    uint32_t at = a2a_get(in, object, key, JS_STRING);
    size_t begin = in->memory->len;
    if (at)
        js_value(in->doc, at, in->memory);
    size_t n = in->memory->len - begin;
    return n ? (struct str){in->memory->bytes + begin, n} : STR_NULL;
}

static struct str json(const struct a2a_reader *in, uint32_t node)
{
    size_t begin = in->memory->len;
    js_copy(in->doc, node, in->memory);
    return (struct str){in->memory->bytes + begin, in->memory->len - begin};
}

/* --- a message -------------------------------------------------------------------------------- */

static enum a2a_fault read_file(const struct a2a_reader *in, uint32_t part,
                                struct face_parts *parts)
{
    uint32_t url = a2a_get(in, part, "url", JS_STRING), raw = a2a_get(in, part, "raw", JS_STRING);
    uint32_t name = a2a_get(in, part, "filename", JS_STRING);
    uint32_t type = a2a_get(in, part, "mediaType", JS_STRING);
    const char *what = url ? face_parts_url(parts, in->doc, url, name)
                           : face_parts_data(parts, in->doc, raw, type, name);
    char why[128];
    if (!what)
        return A2A_NONE;
    snprintf(why, sizeof why, "a part with \"%s\" %s", url ? "url" : "raw", what);
    return wrong(in, A2A_CONTENT_TYPE, why);
}

static enum a2a_fault read_part(const struct a2a_reader *in, uint32_t part, size_t begin,
                                struct face_parts *parts)
{
    if (a2a_get(in, part, "url", JS_STRING) || a2a_get(in, part, "raw", JS_STRING))
        return read_file(in, part, parts);
    uint32_t says = a2a_get(in, part, "text", JS_STRING);
    uint32_t data = a2a_get(in, part, "data", JS_OBJECT);
    uint32_t answer = data ? js_get(in->doc, data, "answer") : 0;
    if (says) {
        if (in->memory->len > begin)
            buf_putc(in->memory, '\n');
        js_value(in->doc, says, in->memory);
        face_parts_text(parts, in->doc, says);
    } else if (!answer) {
        return wrong(in, A2A_CONTENT_TYPE,
                     "a part must have \"text\", \"raw\", \"url\", or \"data\" with \"answer\"");
    }
    return A2A_NONE;
}

static enum a2a_fault read_parts(const struct a2a_reader *in, uint32_t message)
{
    const struct js_doc *d = in->doc;
    uint32_t parts = a2a_get(in, message, "parts", JS_ARRAY), answer = 0;
    struct face_parts all = {0};
    size_t begin = in->memory->len;
    enum a2a_fault fault = A2A_NONE;
    if (!parts)
        return wrong(in, A2A_PARAMS, "\"message.parts\" must be an array");
    for (uint32_t i = js_first(d, parts); !fault && i < js_end(d, parts); i = js_next(d, i)) {
        uint32_t data = a2a_get(in, i, "data", JS_OBJECT);
        answer = data ? js_get(d, data, "answer") : answer;
        fault = read_part(in, i, begin, &all);
    }
    in->r->text = (struct str){in->memory->bytes + begin, in->memory->len - begin};
    begin = in->memory->len;
    face_parts_end(&all, in->memory);
    if (all.has_file)
        in->r->parts = (struct str){in->memory->bytes + begin, in->memory->len - begin};
    face_parts_done(&all);
    if (answer)
        in->r->answer = json(in, answer);
    if (!fault && !in->r->text.n && !in->r->parts.n && !answer)
        return wrong(in, A2A_PARAMS, "the message has no text");
    return fault;
}

/* config: its node, 0 for none. */
static void read_push(const struct a2a_reader *in, uint32_t config)
{
    size_t begin = in->memory->len;
    if (!config && in->r->operation != A2A_PUSH_SET)
        return;
    a2a_put_webhook(in->doc, config, in->memory);
    in->r->webhook = (struct str){in->memory->bytes + begin, in->memory->len - begin};
}

static enum a2a_fault a2a_read_message(const struct a2a_reader *in, uint32_t params)
{
    struct a2a_request *r = in->r;
    uint32_t message = a2a_get(in, params, "message", JS_OBJECT);
    uint32_t options = a2a_get(in, params, "configuration", JS_OBJECT);
    if (!message)
        return wrong(in, A2A_PARAMS, "\"message\" must be an object");
    uint32_t role = a2a_get(in, message, "role", JS_STRING);
    if (!role || !js_is(in->doc, role, "ROLE_USER"))
        return wrong(in, A2A_PARAMS, "\"message.role\" must be ROLE_USER");
    r->message_id = text(in, message, "messageId");
    r->context_id = text(in, message, "contextId");
    r->task_id = text(in, message, "taskId");
    if (!r->message_id.p)
        return wrong(in, A2A_PARAMS, "\"message.messageId\" is missing");
    if (options)
        read_push(in, a2a_get(in, options, "taskPushNotificationConfig", JS_OBJECT));
    bool at_once = options && a2a_get(in, options, "returnImmediately", JS_TRUE);
    if (r->operation == A2A_SEND && at_once)
        r->operation = A2A_SEND_AT_ONCE;
    return read_parts(in, message);
}

/* --- parameters ------------------------------------------------------------------------------- */

static enum a2a_fault filter_state(const struct a2a_reader *in, struct str name)
{
    return a2a_state_read(name, &in->r->state)
               ? A2A_NONE
               : wrong(in, A2A_PARAMS, "\"status\" is no state that a task has here");
}

static enum a2a_fault filter_after(const struct a2a_reader *in, struct str time)
{
    return a2a_time_read(time, &in->r->after)
               ? A2A_NONE
               : wrong(in, A2A_PARAMS, "\"statusTimestampAfter\" must be a time of RFC 3339");
}

static enum a2a_fault set_page_size(const struct a2a_reader *in, int64_t size)
{
    in->r->page_size = size;
    return size >= 1 && size <= A2A_PAGE ? A2A_NONE
                                         : wrong(in, A2A_PARAMS, "\"pageSize\" must be 1 to 100");
}

static enum a2a_fault read_list(const struct a2a_reader *in, uint32_t params)
{
    struct a2a_request *r = in->r;
    int64_t size = r->page_size;
    uint32_t at = a2a_get(in, params, "pageSize", JS_NUMBER);
    if (at && !js_int(in->doc, at, &size))
        size = 0;
    r->context_id = text(in, params, "contextId");
    r->page_token = text(in, params, "pageToken");
    r->with_artifacts = a2a_get(in, params, "includeArtifacts", JS_TRUE) != 0;
    struct str state = text(in, params, "status"), after = text(in, params, "statusTimestampAfter");
    enum a2a_fault fault = set_page_size(in, size);
    if (!fault && state.p)
        fault = filter_state(in, state);
    if (!fault && after.p)
        fault = filter_after(in, after);
    return fault;
}

static enum a2a_fault read_params(const struct a2a_reader *in, uint32_t params)
{
    struct a2a_request *r = in->r;
    int64_t length = 1;
    uint32_t options = a2a_get(in, params, "configuration", JS_OBJECT);
    uint32_t at = a2a_get(in, options ? options : params, "historyLength", JS_NUMBER);
    r->without_history = at && js_int(in->doc, at, &length) && length <= 0;
    switch (r->operation) {
    case A2A_SEND:
    case A2A_STREAM: return a2a_read_message(in, params);
    case A2A_LIST: return read_list(in, params);
    case A2A_PUSH_SET: read_push(in, params); break;
    case A2A_PUSH_GET:
    case A2A_PUSH_DELETE: r->webhook_id = text(in, params, "id"); break;
    default: break;
    }
    if (!r->task_id.p)
        r->task_id = text(in, params, r->operation >= A2A_PUSH_SET ? "taskId" : "id");
    return A2A_NONE;
}

/* --- JSON-RPC --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum a2a_operation operation;
} methods[] = {
    {"SendMessage", A2A_SEND},
    {"SendStreamingMessage", A2A_STREAM},
    {"GetTask", A2A_GET},
    {"ListTasks", A2A_LIST},
    {"CancelTask", A2A_CANCEL},
    {"SubscribeToTask", A2A_SUBSCRIBE},
    {"CreateTaskPushNotificationConfig", A2A_PUSH_SET},
    {"GetTaskPushNotificationConfig", A2A_PUSH_GET},
    {"ListTaskPushNotificationConfigs", A2A_PUSH_LIST},
    {"DeleteTaskPushNotificationConfig", A2A_PUSH_DELETE},
    {"GetExtendedAgentCard", A2A_EXTENDED_CARD},
};

static enum a2a_fault read_method(const struct a2a_reader *in)
{
    uint32_t method = a2a_get(in, 0, "method", JS_STRING), params = js_get(in->doc, 0, "params");
    if (!method)
        return wrong(in, A2A_NO_REQUEST, "\"method\" must be a string");
    for (size_t i = 0; i < countof(methods); i++) {
        if (!js_is(in->doc, method, methods[i].name))
            continue;
        in->r->operation = methods[i].operation;
        if (params && js_type(in->doc, params) == JS_OBJECT)
            return read_params(in, params);
        return in->r->operation == A2A_EXTENDED_CARD
                   ? A2A_NONE
                   : wrong(in, A2A_PARAMS, "\"params\" must be an object");
    }
    return wrong(in, A2A_NO_METHOD, "there is no such method");
}

static enum a2a_fault read_envelope(const struct a2a_reader *in)
{
    const struct js_doc *d = in->doc;
    if (js_type(d, 0) != JS_OBJECT)
        return wrong(in, A2A_NO_REQUEST, "a request must be one JSON object");
    uint32_t id = js_get(d, 0, "id"), version = a2a_get(in, 0, "jsonrpc", JS_STRING);
    if (id && js_type(d, id) != JS_STRING && js_type(d, id) != JS_NUMBER &&
        js_type(d, id) != JS_NULL)
        return wrong(in, A2A_NO_REQUEST, "\"id\" must be a string, a number or null");
    if (id)
        in->r->rpc_id = json(in, id);
    if (!version || !js_is(d, version, "2.0"))
        return wrong(in, A2A_NO_REQUEST, "\"jsonrpc\" must be \"2.0\"");
    return read_method(in);
}

/* --- REST ------------------------------------------------------------------------------------- */

static struct str query_value(const struct a2a_reader *in, const struct face_input *input,
                              const char *name)
{
    size_t begin = in->memory->len;
    if (!exchange_query(input->query, name, in->memory) || in->memory->len == begin)
        return STR_NULL;
    return (struct str){in->memory->bytes + begin, in->memory->len - begin};
}

static enum a2a_fault read_query(const struct a2a_reader *in, const struct face_input *input)
{
    struct a2a_request *r = in->r;
    struct str length = query_value(in, input, "historyLength");
    r->without_history = str_eq(length, STR("0"));
    if (r->operation != A2A_LIST)
        return A2A_NONE;
    r->context_id = query_value(in, input, "contextId");
    r->page_token = query_value(in, input, "pageToken");
    r->with_artifacts = str_eq(query_value(in, input, "includeArtifacts"), STR("true"));
    struct str state = query_value(in, input, "status"), size = query_value(in, input, "pageSize");
    struct str after = query_value(in, input, "statusTimestampAfter");
    enum a2a_fault fault = A2A_NONE;
    if (size.p) {
        char digits[8] = "";
        snprintf(digits, sizeof digits, "%.*s", (int)size.n, size.p);
        char *end = digits;
        long n = size.n < sizeof digits ? strtol(digits, &end, 10) : 0;
        fault = set_page_size(in, *end ? 0 : n);
    }
    if (!fault && state.p)
        fault = filter_state(in, state);
    if (!fault && after.p)
        fault = filter_after(in, after);
    return fault;
}

static enum a2a_fault read_body(const struct a2a_reader *in, const struct face_input *input)
{
    struct a2a_request *r = in->r;
    if (r->operation != A2A_SEND && r->operation != A2A_STREAM && r->operation != A2A_PUSH_SET)
        return read_query(in, input);
    return js_type(in->doc, 0) == JS_OBJECT
               ? read_params(in, 0)
               : wrong(in, A2A_PARAMS, "the body must be a JSON object");
}

/* --- both ------------------------------------------------------------------------------------- */

static struct str copy(struct buf *memory, struct str s)
{
    size_t begin = memory->len;
    buf_putstr(memory, s);
    return s.p ? (struct str){memory->bytes + begin, s.n} : STR_NULL;
}

static bool speaks(struct str version)
{
    return !version.n || str_eq(version, STR("1.0")) || str_eq(version, STR("1"));
}

enum a2a_fault a2a_read(struct face_exchange *x, const struct face_input *in, char why[128])
{
    struct a2a_request *r = x->state = xcalloc(sizeof *r);
    struct a2a_reader reader = {.doc = in->doc, .r = r, .memory = &x->memory, .why = why};
    buf_reserve(&x->memory, 8 * in->body.n + in->query.n + in->agent.n + in->task.n + in->base.n +
                                in->conversation.n + 512);
    const char *begin = x->memory.bytes;
    r->is_rpc = in->operation == A2A_RPC;
    r->operation = (enum a2a_operation)in->operation;
    r->agent = copy(&x->memory, in->agent);
    r->base = copy(&x->memory, in->base);
    r->task_id = copy(&x->memory, in->task);
    r->webhook_id = copy(&x->memory, in->conversation);
    r->page_size = 50;
    if (r->operation == A2A_CARD)
        return A2A_NONE;
    bool has_body = r->is_rpc || r->operation == A2A_SEND || r->operation == A2A_STREAM ||
                    r->operation == A2A_PUSH_SET;
    if (has_body && !js_parse(in->doc, in->body.p, in->body.n, JS_CLIENT)) {
        snprintf(why, 128, "not JSON: %s", in->doc->error);
        return r->is_rpc ? A2A_PARSE : A2A_PARAMS;
    }
    enum a2a_fault fault = r->is_rpc ? read_envelope(&reader) : read_body(&reader, in);
    ASSERT(x->memory.bytes == begin);
    if (fault == A2A_NONE && !speaks(in->header))
        return wrong(&reader, A2A_VERSION, "this is A2A 1.0");
    return fault;
}
