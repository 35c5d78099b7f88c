/* Design. A session is a conversation, and a call in it is a chat. The gateway keeps no state of
 * sessions: any valid conversation id is one, a DELETE is refused, and a client without one has a
 * conversation for each call. A plain call's task is named after the request's id, so that the
 * notification which cancels it finds it among the live tasks of the session. */
#include <stdio.h>

#include "proto/faces/mcp.h"

#define MCP_TTL_MS 60000
#define ELICITING "mcp-e-" /* prefix of a session's id when its client accepts questions */

/* --- replies ---------------------------------------------------------------------------------- */

void mcp_begin_result(struct buf *out, struct str rpc_id)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    buf_putstr(out, rpc_id);
    buf_puts(out, ",\"result\":");
}

void mcp_end_result(struct buf *out)
{
    buf_putc(out, '}');
}

struct buf *mcp_begin_reply(struct face_exchange *x)
{
    const struct mcp_request *r = x->state;
    buf_clear(&x->reply);
    mcp_begin_result(&x->reply, r->call.rpc_id);
    buf_putc(&x->reply, '{');
    if (r->is_modern)
        js_put_field(&x->reply, "resultType", STR("complete"));
    return &x->reply;
}

enum face_next mcp_end_reply(struct face_exchange *x)
{
    buf_putc(&x->reply, '}');
    mcp_end_result(&x->reply);
    x->status = 200;
    return FACE_REPLY;
}

static enum face_next accepted(struct face_exchange *x)
{
    buf_clear(&x->reply);
    x->status = 202;
    return FACE_REPLY;
}

static void put_fault(struct buf *out, struct str rpc_id, int code, const char *message,
                      struct str data)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    buf_putstr(out, rpc_id.n ? rpc_id : STR("null"));
    js_put_raw(out, "error", STR("{"));
    js_put_int(out, "code", code);
    js_put_field(out, "message", str_of(message));
    if (data.p)
        js_put_raw(out, "data", data);
    buf_puts(out, "}}");
}

enum face_next mcp_fail_with(struct face_exchange *x, int code, int status, const char *message,
                             struct str data)
{
    const struct mcp_request *r = x->state;
    buf_clear(&x->reply);
    put_fault(&x->reply, r ? r->call.rpc_id : STR_NULL, code, message, data);
    x->status = status;
    return FACE_REPLY;
}

enum face_next mcp_fail(struct face_exchange *x, int code, int status, const char *message)
{
    return mcp_fail_with(x, code, status, message, STR_NULL);
}

static int code_of(enum error e)
{
    static const int codes[] = {[ERR_BAD_REQUEST] = -32602,
                                [ERR_NOT_FOUND] = -32602,
                                [ERR_CONFLICT] = -32600,
                                [ERR_TASK_TERMINATED] = -32602,
                                [ERR_INTERNAL] = -32603};
    return (size_t)e < countof(codes) && codes[e] ? codes[e] : -32000;
}

/* A request's error comes with a status of 200; HTTP's status only concerns the transport. */
enum face_next mcp_fail_line(struct face_exchange *x, enum error e, struct str line,
                             struct js_doc *doc)
{
    struct buf message = {0};
    exchange_put_why(&message, line, doc);
    int code = code_of(e);
    enum face_next next = mcp_fail(x, code, code == -32000 ? error_status(e) : 200, message.bytes);
    buf_done(&message);
    return next;
}

/* --- the server ------------------------------------------------------------------------------- */

static bool speaks_version(struct str version)
{
    return str_eq(version, STR("2025-11-25")) || str_eq(version, STR("2025-06-18")) ||
           str_eq(version, STR("2025-03-26"));
}

static enum face_next initialize(struct face_exchange *x, const struct face_input *in)
{
    const struct mcp_request *r = x->state;
    struct buf *out = mcp_begin_reply(x);
    js_put_field(out, "protocolVersion",
                 speaks_version(r->version) ? r->version : STR("2025-11-25"));
    js_put_raw(out, "capabilities",
               STR("{\"tools\":{},\"tasks\":{\"list\":{},\"cancel\":{},\"requests\":{\"tools\":"
                   "{\"call\":{}}}}}"));
    js_put_raw(out, "serverInfo", STR("{\"name\":\"holdfast\",\"version\":\"1.0\"}"));
    buf_puts(&x->header_value, r->call.elicits ? ELICITING : "mcp-");
    buf_putstr(&x->header_value, in->nonce);
    return mcp_end_reply(x);
}

static void put_tool(struct buf *out, const struct js_doc *doc, uint32_t agent, bool is_modern)
{
    uint32_t about = js_get(doc, agent, "description");
    bool is_described = about && js_type(doc, about) == JS_STRING && js_raw(doc, about).n > 0;
    buf_putc(out, '{');
    js_put_key(out, "name");
    js_copy(doc, js_get(doc, agent, "name"), out);
    js_put_key(out, "description");
    if (is_described)
        js_copy(doc, about, out);
    else
        js_put_str(out, STR("Asks this agent."));
    js_put_raw(out, "inputSchema",
               STR("{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\","
                   "\"description\":\"what is asked\"}},\"required\":[\"message\"]}"));
    if (!is_modern)
        js_put_raw(out, "execution", STR("{\"taskSupport\":\"optional\"}"));
    buf_putc(out, '}');
}

enum face_next mcp_put_tools(struct face_exchange *x, const struct face_input *in)
{
    const struct js_doc *doc = in->doc;
    const struct mcp_request *r = x->state;
    struct buf *out = mcp_begin_reply(x);
    bool good = js_parse(in->doc, in->agents.p, in->agents.n, JS_OURS);
    js_put_raw(out, "tools", STR("["));
    for (uint32_t i = good ? js_first(doc, 0) : 0; good && i < js_end(doc, 0);
         i = js_next(doc, i)) {
        if (i != js_first(doc, 0))
            buf_putc(out, ',');
        put_tool(out, doc, i, r->is_modern);
    }
    buf_putc(out, ']');
    if (r->is_modern) { /* a reload may change the agents */
        js_put_int(out, "ttlMs", MCP_TTL_MS);
        js_put_field(out, "cacheScope", STR("private"));
    }
    return mcp_end_reply(x);
}

/* --- a call ----------------------------------------------------------------------------------- */

static void put_name(struct buf *out, struct str rpc_id)
{
    if (rpc_id.n <= 64) {
        buf_puts(out, "mcp ");
        buf_putstr(out, rpc_id);
    } else {
        exchange_put_key(out, "mcp ", &rpc_id, 1);
    }
}

/* The same request again, in one session, is the same task. */
enum face_next mcp_call_tool(struct face_exchange *x)
{
    const struct mcp_request *r = x->state;
    const struct str fields[] = {r->session, r->call.rpc_id, r->tool, r->message};
    struct buf *body = exchange_ask(x, VERB_CHAT, r->session, STR_NULL);
    struct buf text = {0};
    js_put_field(body, "message", r->message);
    js_put_field(body, "agent", r->tool);
    if (r->operation == MCP_CALL) {
        put_name(&text, r->call.rpc_id);
        js_put_field(body, "name", buf_str(&text));
    }
    buf_clear(&text);
    exchange_put_key(&text, "mcp", fields, countof(fields));
    if (r->session.p)
        js_put_field(body, "request_key", buf_str(&text));
    exchange_ask_end(x);
    buf_done(&text);
    return r->operation == MCP_CALL ? FACE_FOLLOW : FACE_ASK;
}

/* --- tasks ------------------------------------------------------------------------------------ */

static struct str mcp_status(const struct js_doc *doc, uint32_t task)
{
    uint32_t asks = js_get(doc, task, "waiting_for");
    if (!exchange_task_lives(doc, task))
        return js_raw(doc, js_get(doc, task, "status")); /* they have the same names */
    return asks && js_type(doc, asks) == JS_STRING ? STR("input_required") : STR("working");
}

static int64_t mcp_time(const struct js_doc *doc, uint32_t task, const char *member)
{
    int64_t ms = 0;
    uint32_t at = js_get(doc, task, member);
    return at && js_type(doc, at) == JS_NUMBER && js_int(doc, at, &ms) ? ms : 0;
}

void mcp_put_task(struct buf *out, const struct js_doc *doc, uint32_t task, bool is_modern)
{
    int64_t created = mcp_time(doc, task, "created_at"),
            ended = mcp_time(doc, task, "completed_at");
    int64_t started = mcp_time(doc, task, "started_at");
    uint32_t error = js_get(doc, task, "error");
    uint32_t why = error && js_type(doc, error) == JS_OBJECT ? js_get(doc, error, "message") : 0;
    js_put_key(out, "taskId");
    buf_putc(out, '"');
    exchange_put_id(out, js_raw(doc, js_get(doc, task, "conversation_id")),
                    js_raw(doc, js_get(doc, task, "task_id")));
    buf_putc(out, '"');
    bool is_outcome = is_modern && !exchange_task_lives(doc, task) &&
                      !js_is(doc, js_get(doc, task, "status"), "cancelled");
    js_put_field(out, "status", is_outcome ? STR("completed") : mcp_status(doc, task));
    if (why && js_type(doc, why) == JS_STRING) {
        js_put_key(out, "statusMessage");
        js_copy(doc, why, out);
    }
    /* As long as the gateway's retention. */
    js_put_raw(out, is_modern ? "ttlMs" : "ttl", STR("null"));
    face_put_time(out, "createdAt", created);
    face_put_time(out, "lastUpdatedAt", ended ? ended : started ? started : created);
    js_put_int(out, is_modern ? "pollIntervalMs" : "pollInterval", 1000);
}

static enum face_next mcp_reply_task(struct face_exchange *x, const struct js_doc *doc,
                                     uint32_t task)
{
    const struct mcp_request *r = x->state;
    struct buf *out = mcp_begin_reply(x);
    bool is_new = r->operation == MCP_CALL_TASK;
    if (is_new)
        js_put_raw(out, "task", STR("{"));
    mcp_put_task(out, doc, task, false);
    if (is_new)
        buf_putc(out, '}');
    return mcp_end_reply(x);
}

enum face_next mcp_about_task(struct face_exchange *x, enum verb verb)
{
    const struct mcp_request *r = x->state;
    struct buf conversation = {0};
    struct str task;
    bool good = exchange_read_id(r->task_id, &conversation, &task);
    if (good)
        exchange_ask(x, verb, buf_str(&conversation), task);
    buf_done(&conversation);
    if (!good)
        return mcp_fail(x, -32602, 200, "no such task");
    exchange_ask_end(x);
    return FACE_ASK;
}

enum face_next mcp_follow(struct face_exchange *x, uint64_t after)
{
    if (mcp_about_task(x, VERB_RESUME) == FACE_REPLY)
        return FACE_REPLY;
    buf_clear(&x->ask.body);
    buf_putc(&x->ask.body, '{');
    if (after)
        js_put_int(&x->ask.body, "after", (int64_t)after);
    exchange_ask_end(x);
    return FACE_FOLLOW;
}

enum face_next mcp_follow_call(struct face_exchange *x)
{
    const struct mcp_request *r = x->state;
    bool has_files = r->call.files && r->call.files <= r->after;
    return mcp_follow(x, has_files ? r->call.files - 1 : r->after);
}

static enum face_next on_task(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    const struct mcp_request *r = x->state;
    uint32_t task = exchange_task(doc, line);
    if (!task)
        return mcp_fail(x, -32603, 200, "the reply cannot be read");
    if (r->operation != MCP_TASK_CANCEL)
        return mcp_reply_task(x, doc, task);
    if (!exchange_task_lives(doc, task))
        return mcp_fail(x, -32602, 200, "the task has ended");
    return mcp_about_task(x, VERB_CANCEL);
}

/* --- lists of a session ----------------------------------------------------------------------- */

static enum face_next ask_session(struct face_exchange *x, int limit, struct str before)
{
    const struct mcp_request *r = x->state;
    struct buf *body = exchange_ask(x, VERB_TASKS, r->session, STR_NULL);
    js_put_int(body, "limit", limit);
    if (before.n)
        js_put_field(body, "before", before);
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next list_tasks(struct face_exchange *x)
{
    const struct mcp_request *r = x->state;
    if (r->session.p)
        return ask_session(x, 50, r->task_id);
    js_put_raw(mcp_begin_reply(x), "tasks", STR("[]"));
    return mcp_end_reply(x);
}

static enum face_next mcp_on_list(struct face_exchange *x, struct js_doc *doc)
{
    uint32_t tasks = js_get(doc, 0, "tasks"), more = js_get(doc, 0, "more");
    uint32_t oldest = js_first(doc, tasks) < js_end(doc, tasks) ? js_first(doc, tasks) : 0;
    struct buf *out = mcp_begin_reply(x);
    js_put_raw(out, "tasks", STR("["));
    for (uint32_t i = js_first(doc, tasks); i < js_end(doc, tasks); i = js_next(doc, i)) {
        buf_puts(out, i == oldest ? "{" : ",{");
        mcp_put_task(out, doc, i, false);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    if (oldest && more && js_type(doc, more) == JS_TRUE)
        js_put_field(out, "nextCursor", js_raw(doc, js_get(doc, oldest, "task_id")));
    return mcp_end_reply(x);
}

static uint32_t mcp_find_call(const struct js_doc *doc, struct str rpc_id)
{
    uint32_t tasks = js_get(doc, 0, "tasks"), found = 0;
    struct buf name = {0}, value = {0};
    put_name(&name, rpc_id);
    for (uint32_t i = js_first(doc, tasks); i < js_end(doc, tasks); i = js_next(doc, i)) {
        uint32_t at = js_get(doc, i, "name");
        buf_clear(&value);
        if (at && js_type(doc, at) == JS_STRING && exchange_task_lives(doc, i))
            js_value(doc, at, &value);
        if (value.len && str_eq(buf_str(&value), buf_str(&name)))
            found = i;
    }
    buf_done(&name);
    buf_done(&value);
    return found;
}

static enum face_next on_session(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    const struct mcp_request *r = x->state;
    if (!js_parse(doc, line.p, line.n, JS_OURS))
        return mcp_fail(x, -32603, 200, "the reply cannot be read");
    if (r->operation == MCP_TASK_LIST)
        return mcp_on_list(x, doc);
    uint32_t task = mcp_find_call(doc, r->request_id);
    if (!task)
        return accepted(x); /* it has ended */
    exchange_ask(x, VERB_CANCEL, r->session, js_raw(doc, js_get(doc, task, "task_id")));
    exchange_ask_end(x);
    return FACE_ASK;
}

/* --- the exchange ----------------------------------------------------------------------------- */

static enum face_next answer_question(struct face_exchange *x)
{
    const struct mcp_request *r = x->state;
    if (mcp_about_task(x, VERB_RESPOND) == FACE_REPLY)
        return accepted(x);
    buf_clear(&x->ask.body);
    buf_putc(&x->ask.body, '{');
    js_put_field(&x->ask.body, "input_id", r->input_id);
    js_put_raw(&x->ask.body, "answer", r->answer);
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next begin_post(struct face_exchange *x, const struct face_input *in)
{
    struct mcp_request *r;
    char why[128];
    int code = mcp_read(x, in, why);
    r = x->state;
    if (r->is_modern)
        return mcp_modern_begin(x, in, code, why);
    if (code)
        return mcp_fail(x, code, code == -32601 || code == -32602 ? 200 : 400, why);
    if (r->operation != MCP_INITIALIZE)
        r->call.elicits = r->session.n > strlen(ELICITING) &&
                          memcmp(r->session.p, ELICITING, strlen(ELICITING)) == 0;
    r->call.is_task = r->operation == MCP_TASK_RESULT;
    x->is_whole = r->operation == MCP_TASK_CANCEL;
    switch (r->operation) {
    case MCP_INITIALIZE: return initialize(x, in);
    case MCP_PING: mcp_begin_reply(x); return mcp_end_reply(x);
    case MCP_TOOLS: return mcp_put_tools(x, in);
    case MCP_CALL:
    case MCP_CALL_TASK: return mcp_call_tool(x);
    case MCP_TASK_GET:
    case MCP_TASK_CANCEL: return mcp_about_task(x, VERB_TASK_GET);
    case MCP_TASK_RESULT: return mcp_follow(x, 0);
    case MCP_TASK_LIST: return list_tasks(x);
    case MCP_ANSWER: return answer_question(x);
    case MCP_CANCELLED:
        return r->session.p && r->request_id.p ? ask_session(x, 200, STR_NULL) : accepted(x);
    default: return accepted(x);
    }
}

static enum face_next mcp_begin(struct face_exchange *x, const struct face_input *in)
{
    if (in->operation == MCP_POST)
        return begin_post(x, in);
    if (in->operation == MCP_RESUME && in->header.n) {
        if (!mcp_read_event_id(x, in->header, in->base))
            return mcp_fail(x, -32602, 400, "\"Last-Event-ID\" is no id of an event");
        enum face_next next = mcp_follow_call(x);
        return next == FACE_REPLY ? mcp_fail(x, -32602, 404, "no such task") : next;
    }
    return mcp_fail(x, -32600, 405, "no stream but that of a call, and no session to end");
}

static enum face_next mcp_replied(struct face_exchange *x, enum error e, struct str line,
                                  struct js_doc *doc)
{
    const struct mcp_request *r = x->state;
    bool refused = e == ERR_RATE_LIMITED || e == ERR_OVERLOADED || e == ERR_INTERNAL;
    if (r->operation == MCP_RESUME)
        return mcp_fail(x, -32602, refused ? error_status(e) : 404, "no such task");
    if (r->operation == MCP_ANSWER || (r->operation == MCP_CANCELLED && x->ask.verb == VERB_CANCEL))
        return refused ? mcp_fail_line(x, e, line, doc) : accepted(x);
    if (e)
        return mcp_fail_line(x, e, line, doc);
    switch (x->ask.verb) {
    case VERB_TASKS: return on_session(x, line, doc);
    case VERB_CANCEL: return mcp_follow(x, 0);
    default: return on_task(x, line, doc);
    }
}

static void mcp_put_error(struct buf *out, enum error e, const char *message)
{
    put_fault(out, STR_NULL, code_of(e), message, STR_NULL);
}

#define MCP_OPS(reads_, ...)                                                               \
    {                                                                                      \
        .stream = &mcp_ops, .begin = mcp_begin, .replied = mcp_replied, .reads = (reads_), \
        .also_reads = __VA_ARGS__, .put_error = mcp_put_error, .put_id = mcp_put_event_id, \
        .header = "mcp-session-id:"                                                        \
    }

const struct face_http_ops mcp_post_ops =
    MCP_OPS("mcp-session-id:", {"mcp-protocol-version:", "mcp-method:", "mcp-name:"});
const struct face_http_ops mcp_get_ops = MCP_OPS("last-event-id:", {NULL});
