/* The messages that a client of MCP posts, and the ids of events that it brings back. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/base64url.h"
#include "proto/faces/mcp.h"
#include "proto/str.h"

struct mcp_reader {
    const struct js_doc *doc;
    struct mcp_request *r;
    struct buf *memory; /* has room for everything, so spans into it stay valid */
    char *why;          /* of 128 bytes */
};

enum { MCP_PARSE = -32700, MCP_NO_REQUEST = -32600, MCP_NO_METHOD = -32601, MCP_PARAMS = -32602 };

static int mcp_wrong(const struct mcp_reader *in, int code, const char *why)
{
    snprintf(in->why, 128, "%s", why);
    return code;
}

static uint32_t mcp_get(const struct mcp_reader *in, uint32_t object, const char *key,
                        enum js_type type)
{
    const struct js_doc *d = in->doc;
    bool is_object = object != UINT32_MAX && js_type(d, object) == JS_OBJECT;
    uint32_t at = is_object ? js_get(d, object, key) : 0;
    return at && js_type(d, at) == type ? at : 0;
}

/* A member that is an object; UINT32_MAX, which has no members, when there is none. */
static uint32_t mcp_object(const struct mcp_reader *in, uint32_t object, const char *key)
{
    uint32_t at = mcp_get(in, object, key, JS_OBJECT);
    return at ? at : UINT32_MAX;
}

static struct str mcp_text(const struct mcp_reader *in, uint32_t object, const char *key)
{
    uint32_t at = mcp_get(in, object, key, JS_STRING);
    size_t begin = in->memory->len;
    if (!at)
        return STR_NULL;
    js_value(in->doc, at, in->memory);
    return (struct str){in->memory->bytes + begin, in->memory->len - begin};
}

static struct str mcp_json(const struct mcp_reader *in, uint32_t node)
{
    size_t begin = in->memory->len;
    js_copy(in->doc, node, in->memory);
    return (struct str){in->memory->bytes + begin, in->memory->len - begin};
}

static bool is_id(const struct js_doc *d, uint32_t node)
{
    return js_type(d, node) == JS_STRING || js_type(d, node) == JS_NUMBER;
}

/* --- methods ---------------------------------------------------------------------------------- */

static int read_initialize(const struct mcp_reader *in, uint32_t params)
{
    in->r->version = mcp_text(in, params, "protocolVersion");
    uint32_t capabilities = mcp_object(in, params, "capabilities");
    in->r->call.elicits = mcp_get(in, capabilities, "elicitation", JS_OBJECT) != 0;
    return in->r->version.p ? 0 : mcp_wrong(in, MCP_PARAMS, "\"protocolVersion\" must be a string");
}

static int mcp_read_call(const struct mcp_reader *in, uint32_t params)
{
    struct mcp_request *r = in->r;
    uint32_t responses = r->is_modern ? mcp_get(in, params, "inputResponses", JS_OBJECT) : 0;
    r->tool = r->name = mcp_text(in, params, "name");
    r->message = mcp_text(in, mcp_object(in, params, "arguments"), "message");
    if (r->is_modern)
        r->state = mcp_text(in, params, "requestState");
    if (responses)
        r->responses = mcp_json(in, responses);
    if (r->is_modern ? r->takes_tasks && !r->state.p : mcp_get(in, params, "task", JS_OBJECT) != 0)
        r->operation = MCP_CALL_TASK;
    if (!r->tool.n)
        return mcp_wrong(in, MCP_PARAMS, "\"name\" must be the name of a tool");
    return r->message.n ? 0 : mcp_wrong(in, MCP_PARAMS, "\"arguments.message\" must be a text");
}

static int read_cancelled(const struct mcp_reader *in, uint32_t params)
{
    uint32_t id = params == UINT32_MAX ? 0 : js_get(in->doc, params, "requestId");
    if (id && is_id(in->doc, id))
        in->r->request_id = mcp_json(in, id);
    return 0;
}

static int read_task(const struct mcp_reader *in, uint32_t params)
{
    uint32_t responses = mcp_get(in, params, "inputResponses", JS_OBJECT);
    in->r->task_id = in->r->name = mcp_text(in, params, "taskId");
    if (responses)
        in->r->responses = mcp_json(in, responses);
    return 0;
}

/* One task of those that the client would hear about: the answer says which. */
static int read_listen(const struct mcp_reader *in, uint32_t params)
{
    const struct js_doc *d = in->doc;
    uint32_t wanted = mcp_object(in, params, "notifications");
    uint32_t ids = mcp_get(in, wanted, "taskIds", JS_ARRAY), at = ids ? js_first(d, ids) : 0;
    if (wanted == UINT32_MAX)
        return mcp_wrong(in, MCP_PARAMS, "\"notifications\" must be an object");
    if (at && at < js_end(d, ids) && js_type(d, at) == JS_STRING) {
        size_t begin = in->memory->len;
        js_value(d, at, in->memory);
        in->r->task_id = (struct str){in->memory->bytes + begin, in->memory->len - begin};
    }
    return 0;
}

static int mcp_read_list(const struct mcp_reader *in, uint32_t params)
{
    in->r->task_id = mcp_text(in, params, "cursor");
    return 0;
}

enum { LEGACY = 1, MODERN = 2, BOTH = LEGACY | MODERN };

static const struct {
    const char *name;
    int eras;
    enum mcp_operation operation;
    int (*read)(const struct mcp_reader *in, uint32_t params);
} methods[] = {
    {"initialize", LEGACY, MCP_INITIALIZE, read_initialize},
    {"ping", LEGACY, MCP_PING, NULL},
    {"server/discover", MODERN, MCP_DISCOVER, NULL},
    {"subscriptions/listen", MODERN, MCP_LISTEN, read_listen},
    {"tools/list", BOTH, MCP_TOOLS, NULL},
    {"tools/call", BOTH, MCP_CALL, mcp_read_call},
    {"tasks/get", BOTH, MCP_TASK_GET, read_task},
    {"tasks/update", MODERN, MCP_TASK_UPDATE, read_task},
    {"tasks/result", LEGACY, MCP_TASK_RESULT, read_task},
    {"tasks/cancel", BOTH, MCP_TASK_CANCEL, read_task},
    {"tasks/list", LEGACY, MCP_TASK_LIST, mcp_read_list},
    {"notifications/cancelled", LEGACY, MCP_CANCELLED, read_cancelled},
};

/* The client, as a modern request describes it. */
static void read_client(const struct mcp_reader *in, uint32_t meta)
{
    struct mcp_request *r = in->r;
    uint32_t can = mcp_object(in, meta, MCP_META "clientCapabilities");
    r->version = mcp_text(in, meta, MCP_META "protocolVersion");
    r->is_modern = r->is_modern || r->version.p;
    if (!r->is_modern)
        return;
    r->session = mcp_text(in, meta, MCP_CONVERSATION);
    r->has_capabilities = can != UINT32_MAX;
    r->call.elicits = mcp_get(in, can, "elicitation", JS_OBJECT) != 0;
    r->takes_tasks = mcp_get(in, mcp_object(in, can, "extensions"), MCP_TASKS, JS_OBJECT) != 0;
}

static int read_method(const struct mcp_reader *in, uint32_t method, bool has_id)
{
    uint32_t params = mcp_object(in, 0, "params"), meta = mcp_object(in, params, "_meta");
    uint32_t token = meta == UINT32_MAX ? 0 : js_get(in->doc, meta, "progressToken");
    if (token && is_id(in->doc, token))
        in->r->call.token = mcp_json(in, token);
    read_client(in, meta);
    in->r->method = mcp_text(in, 0, "method");
    for (size_t i = 0; i < countof(methods); i++) {
        bool notifies = methods[i].operation == MCP_CANCELLED;
        bool is_known = methods[i].eras & (in->r->is_modern ? MODERN : LEGACY);
        if (!is_known || !js_is(in->doc, method, methods[i].name) || notifies == has_id)
            continue;
        in->r->operation = methods[i].operation;
        return methods[i].read ? methods[i].read(in, params) : 0;
    }
    in->r->operation = MCP_NOTIFICATION;
    return has_id ? mcp_wrong(in, MCP_NO_METHOD, "there is no such method") : 0;
}

/* --- answers to our questions ----------------------------------------------------------------- */

static struct str answer_of(const struct mcp_reader *in, bool approves, uint32_t result)
{
    uint32_t action = mcp_get(in, result, "action", JS_STRING);
    uint32_t content = mcp_object(in, result, "content");
    uint32_t yes = mcp_get(in, content, "approve", JS_TRUE);
    uint32_t says = mcp_get(in, content, "answer", JS_STRING);
    bool accepts = action && js_is(in->doc, action, "accept");
    if (approves)
        return accepts && yes ? STR("true") : STR("false");
    return accepts && says ? mcp_json(in, says) : STR("\"\"");
}

/* The id of a question: the task's, `/`, a for an approval or q, `/`, the question's. Any other id
 * is not ours; it is ignored, as are errors. */
static void mcp_read_answer(const struct mcp_reader *in, uint32_t result)
{
    struct mcp_request *r = in->r;
    struct str id = mcp_text(in, 0, "id");
    const char *slash = id.p ? memchr(id.p, '/', id.n) : NULL;
    size_t n = slash ? (size_t)(slash - id.p) : 0;
    r->operation = MCP_NOTIFICATION;
    if (!slash || result == UINT32_MAX || id.n < n + 4 || slash[2] != '/')
        return;
    r->task_id = (struct str){id.p, n};
    r->input_id = (struct str){slash + 3, id.n - n - 3};
    r->answer = answer_of(in, slash[1] == 'a', result);
    r->operation = MCP_ANSWER;
}

/* The keys of a modern request's responses are "a/" or "q/", and the question's id. */
bool mcp_response(const struct mcp_request *r, struct js_doc *doc, uint32_t n, struct buf *memory,
                  struct str *ret_input_id, struct str *ret_answer)
{
    const struct mcp_reader in = {.doc = doc, .memory = memory};
    if (!r->responses.p || !js_parse(doc, r->responses.p, r->responses.n, JS_OURS))
        return false;
    uint32_t at = js_first(doc, 0); /* keys and values in turn */
    for (uint32_t i = 0; i < 2 * n && at < js_end(doc, 0); i++)
        at = js_next(doc, at);
    if (at >= js_end(doc, 0))
        return false;
    buf_clear(memory);
    buf_reserve(memory, 3 * r->responses.n + 8);
    js_value(doc, at, memory);
    struct str key = buf_str(memory);
    uint32_t value = js_next(doc, at);
    bool is_ours = key.n > 2 && (key.p[0] == 'a' || key.p[0] == 'q') && key.p[1] == '/' &&
                   js_type(doc, value) == JS_OBJECT;
    *ret_input_id = is_ours ? str_from(key, 2) : STR("");
    *ret_answer = is_ours ? answer_of(&in, key.p[0] == 'a', value) : STR("null");
    return true;
}

/* --- a message -------------------------------------------------------------------------------- */

static int mcp_read_message(const struct mcp_reader *in)
{
    const struct js_doc *d = in->doc;
    if (js_type(d, 0) != JS_OBJECT)
        return mcp_wrong(in, MCP_NO_REQUEST, "a message must be one JSON object");
    uint32_t id = js_get(d, 0, "id"), version = mcp_get(in, 0, "jsonrpc", JS_STRING);
    uint32_t method = mcp_get(in, 0, "method", JS_STRING);
    if (id && is_id(d, id))
        in->r->call.rpc_id = mcp_json(in, id);
    if (!version || !js_is(d, version, "2.0") || (id && !is_id(d, id) && method))
        return mcp_wrong(in, MCP_NO_REQUEST, "this is no message of JSON-RPC 2.0");
    if (method)
        return read_method(in, method, id != 0);
    if (!js_get(d, 0, "result") && !js_get(d, 0, "error"))
        return mcp_wrong(in, MCP_NO_REQUEST, "\"method\" must be a string");
    mcp_read_answer(in, mcp_object(in, 0, "result"));
    return 0;
}

int mcp_read(struct face_exchange *x, const struct face_input *in, char why[128])
{
    struct mcp_request *r = x->state = xcalloc(sizeof *r);
    struct mcp_reader reader = {.doc = in->doc, .r = r, .memory = &x->memory, .why = why};
    buf_reserve(&x->memory, 3 * in->body.n + in->header.n + in->base.n + 64);
    r->is_modern = in->also[0].n && str_eq(in->also[0], STR(MCP_MODERN));
    const char *begin = x->memory.bytes;
    buf_putstr(&x->memory, in->header);
    if (in->header.n)
        r->session = (struct str){begin, in->header.n};
    r->call.base = (struct str){begin + x->memory.len, in->base.n};
    buf_putstr(&x->memory, in->base);
    if (!js_parse(in->doc, in->body.p, in->body.n, JS_CLIENT)) {
        snprintf(why, 128, "not JSON: %s", in->doc->error);
        return MCP_PARSE;
    }
    int code = mcp_read_message(&reader);
    ASSERT(x->memory.bytes == begin);
    return code;
}

/* --- ids of events ---------------------------------------------------------------------------- */

/* Takes the text before a separator; rest becomes the text after it. */
static bool take_until(struct str *rest, char separator, struct str *ret)
{
    const char *at = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    if (!at)
        return false;
    *ret = (struct str){rest->p, (size_t)(at - rest->p)};
    *rest = (struct str){at + 1, rest->n - ret->n - 1};
    return true;
}

static bool read_seq(struct str digits, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < digits.n; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9' || digits.n > 15)
            return false;
        *ret = *ret * 10 + (uint64_t)(digits.p[i] - '0');
    }
    return digits.n > 0;
}

bool mcp_read_state(struct mcp_request *r)
{
    struct str rest = r->state;
    struct str seq;
    if (!take_until(&rest, '_', &r->task_id))
        return false;
    if (!take_until(&rest, '_', &seq))
        return read_seq(rest, &r->after);
    return read_seq(seq, &r->after) && read_seq(rest, &r->call.files);
}

/* [id of the request, progress token or null, 1: elicits | 2: is_task, the first file's event?] */
static bool read_own_call(struct face_exchange *x, struct str json)
{
    struct mcp_request *r = x->state;
    struct js_doc doc = {0};
    int64_t flags = 0, files = 0;
    bool good = js_parse(&doc, json.p, json.n, JS_CLIENT) && js_type(&doc, 0) == JS_ARRAY &&
                (doc.n_nodes == 4 || doc.n_nodes == 5) && is_id(&doc, 1) &&
                js_type(&doc, 3) == JS_NUMBER && js_int(&doc, 3, &flags);
    if (good && doc.n_nodes == 5)
        good = js_type(&doc, 4) == JS_NUMBER && js_int(&doc, 4, &files) && files > 0;
    if (good) {
        const struct mcp_reader in = {.doc = &doc, .r = r, .memory = &x->memory};
        r->call.rpc_id = mcp_json(&in, 1);
        r->call.token = is_id(&doc, 2) ? mcp_json(&in, 2) : STR_NULL;
        r->call.elicits = flags & 1;
        r->call.is_task = flags & 2;
        r->call.files = (uint64_t)files;
    }
    js_done(&doc);
    return good;
}

/* TASK_SEQ_CALL, where CALL is base64url of that. */
bool mcp_read_event_id(struct face_exchange *x, struct str id, struct str base)
{
    struct mcp_request *r = x->state = xcalloc(sizeof *r);
    struct str rest, conversation, task, seq;
    buf_reserve(&x->memory, 3 * id.n + base.n + 64);
    const char *begin = x->memory.bytes;
    buf_putstr(&x->memory, id);
    r->call.base = (struct str){begin + id.n, base.n};
    buf_putstr(&x->memory, base);
    rest = (struct str){begin, id.n};
    r->operation = MCP_RESUME;
    if (!take_until(&rest, '.', &conversation) || !take_until(&rest, '_', &task) ||
        !take_until(&rest, '_', &seq) || !read_seq(seq, &r->after))
        return false;
    r->task_id = (struct str){begin, conversation.n + 1 + task.n};
    size_t at = x->memory.len;
    bool good = base64url_read(rest, &x->memory) &&
                read_own_call(x, (struct str){begin + at, x->memory.len - at});
    ASSERT(x->memory.bytes == begin);
    return good;
}
