/* Design. The revision 2026-07-28 has no session: each call has a conversation of its own. Tasks,
 * and calls that asked, are found by their ids, which carry conversation and task. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/base64url.h"
#include "proto/faces/mcp.h"
#include "proto/str.h"

enum { HEADER_MISMATCH = -32020, NO_CAPABILITY = -32021, NO_VERSION = -32022 };

/* --- headers ---------------------------------------------------------------------------------- */

#define CODED_BEGIN "=?base64?"
#define CODED_END "?="

/* A name that is no plain header's value comes in RFC 4648's other alphabet, with padding. */
static void put_decoded_header(struct buf *out, struct str value)
{
    size_t begin = strlen(CODED_BEGIN), end = strlen(CODED_END);
    struct buf coded = {0};
    bool is_coded = value.n >= begin + end && str_begins_nocase(value, STR(CODED_BEGIN)) &&
                    memcmp(value.p + value.n - end, CODED_END, end) == 0;
    for (size_t i = begin; is_coded && i < value.n - end; i++)
        if (value.p[i] != '=')
            buf_putc(&coded, value.p[i] == '+' ? '-' : value.p[i] == '/' ? '_' : value.p[i]);
    if (!is_coded || !base64url_read(buf_str(&coded), out))
        buf_putstr(out, value);
    buf_done(&coded);
}

static bool header_is(struct str header, struct str value)
{
    struct buf text = {0};
    put_decoded_header(&text, header);
    bool is = header.p && value.p && str_eq(buf_str(&text), value);
    buf_done(&text);
    return is;
}

/* The header that does not repeat the body, or NULL. */
static const char *find_mismatch(const struct mcp_request *r, const struct face_input *in)
{
    if (!header_is(in->also[0], r->version))
        return "MCP-Protocol-Version must be the request's own version";
    if (!header_is(in->also[1], r->method))
        return "Mcp-Method must be the request's method";
    if (r->name.p && !header_is(in->also[2], r->name))
        return "Mcp-Name must be the name of the tool, or the task's id";
    return NULL;
}

/* --- the server ------------------------------------------------------------------------------- */

static enum face_next modern_refuse_version(struct face_exchange *x)
{
    const struct mcp_request *r = x->state;
    struct buf data = {0};
    buf_puts(&data, "{\"supported\":[\"" MCP_MODERN "\"]");
    js_put_field(&data, "requested", r->version);
    buf_putc(&data, '}');
    enum face_next next =
        mcp_fail_with(x, NO_VERSION, 400, "this version is not served", buf_str(&data));
    buf_done(&data);
    return next;
}

static enum face_next discover(struct face_exchange *x)
{
    struct buf *out = mcp_begin_reply(x);
    js_put_raw(out, "supportedVersions", STR("[\"" MCP_MODERN "\"]"));
    js_put_raw(out, "capabilities", STR("{\"tools\":{},\"extensions\":{\"" MCP_TASKS "\":{}}}"));
    js_put_int(out, "ttlMs", 0);
    js_put_field(out, "cacheScope", STR("private"));
    js_put_raw(out, "_meta",
               STR("{\"" MCP_META "serverInfo\":{\"name\":\"holdfast\",\"version\":\"1.0\"}}"));
    return mcp_end_reply(x);
}

static enum face_next needs_tasks(struct face_exchange *x)
{
    return mcp_fail_with(x, NO_CAPABILITY, 400, "the client must declare " MCP_TASKS,
                         STR("{\"requiredCapabilities\":{\"extensions\":{\"" MCP_TASKS "\":{}}}}"));
}

/* --- answers ---------------------------------------------------------------------------------- */

/* One step a response. */
static enum face_next give_responses(struct face_exchange *x, struct js_doc *doc)
{
    const struct mcp_request *r = x->state;
    struct buf memory = {0};
    struct str input_id, answer;
    enum face_next next = FACE_ASK;
    bool more;
    do
        more = mcp_response(r, doc, (uint32_t)x->step++, &memory, &input_id, &answer);
    while (more && !input_id.n);
    if (more)
        next = mcp_about_task(x, VERB_RESPOND);
    if (more && next == FACE_ASK) {
        buf_clear(&x->ask.body);
        buf_putc(&x->ask.body, '{');
        js_put_field(&x->ask.body, "input_id", input_id);
        js_put_raw(&x->ask.body, "answer", answer);
        exchange_ask_end(x);
    }
    buf_done(&memory);
    if (more)
        return next;
    return r->operation == MCP_CALL ? mcp_follow_call(x) : mcp_about_task(x, VERB_TASK_GET);
}

/* --- calls and tasks -------------------------------------------------------------------------- */

static enum face_next call_again(struct face_exchange *x, struct js_doc *doc)
{
    if (!mcp_read_state(x->state))
        return mcp_fail(x, -32602, 200, "\"requestState\" is not this server's");
    return give_responses(x, doc);
}

void mcp_put_acknowledged(struct buf *out, const struct mcp_request *r)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                  "\"params\":{\"_meta\":{\"" MCP_META "subscriptionId\":");
    buf_putstr(out, r->call.rpc_id);
    buf_puts(out, "},\"notifications\":{");
    if (r->task_id.p) {
        js_put_raw(out, "taskIds", STR("["));
        js_put_str(out, r->task_id);
        buf_putc(out, ']');
    }
    buf_puts(out, "}}}");
}

/* Nothing of what was asked for can be told: the subscription ends as it begins. */
static enum face_next end_subscription(struct face_exchange *x)
{
    struct mcp_request *r = x->state;
    struct buf text = {0};
    r->task_id = STR_NULL;
    buf_puts(&text, "data: ");
    mcp_put_acknowledged(&text, r);
    struct buf *out = mcp_begin_reply(x);
    js_put_raw(out, "_meta", STR("{\"" MCP_META "subscriptionId\":"));
    buf_putstr(out, r->call.rpc_id);
    buf_putc(out, '}');
    mcp_end_reply(x);
    buf_puts(&text, "\n\ndata: ");
    buf_putstr(&text, buf_str(out));
    buf_puts(&text, "\n\n");
    buf_done(&x->reply);
    x->reply = text;
    buf_puts(&x->head, "content-type: text/event-stream\n");
    return FACE_REPLY;
}

static enum face_next listen_to(struct face_exchange *x)
{
    const struct mcp_request *r = x->state;
    if (r->task_id.p && !r->takes_tasks)
        return needs_tasks(x);
    if (!r->task_id.p || mcp_follow(x, 0) == FACE_REPLY)
        return end_subscription(x);
    return FACE_FOLLOW;
}

static enum face_next modern_task(struct face_exchange *x, struct js_doc *doc)
{
    const struct mcp_request *r = x->state;
    if (!r->takes_tasks)
        return needs_tasks(x);
    switch (r->operation) {
    case MCP_TASK_UPDATE: return give_responses(x, doc);
    case MCP_TASK_CANCEL: return mcp_about_task(x, VERB_CANCEL);
    default: return mcp_about_task(x, VERB_TASK_GET);
    }
}

/* --- replies of the hub ----------------------------------------------------------------------- */

static enum face_next modern_on_task(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    const struct mcp_request *r = x->state;
    uint32_t task = exchange_task(doc, line);
    if (!task)
        return mcp_fail(x, -32603, 200, "the reply cannot be read");
    uint32_t waits = js_get(doc, task, "waiting_for"), status = js_get(doc, task, "status");
    if (r->operation == MCP_TASK_UPDATE) {
        mcp_begin_reply(x);
        return mcp_end_reply(x);
    }
    bool lives = exchange_task_lives(doc, task), cancelled = js_is(doc, status, "cancelled");
    bool asks = lives && waits && js_type(doc, waits) == JS_STRING;
    struct buf *out = mcp_begin_reply(x);
    if (r->operation == MCP_CALL_TASK) {
        buf_clear(out);
        mcp_begin_result(out, r->call.rpc_id);
        buf_puts(out, "{\"resultType\":\"task\"");
    }
    mcp_put_task(out, doc, task, true);
    if (!lives && !cancelled) {
        js_put_raw(out, "result", STR("{"));
        mcp_put_outcome(out, doc, task, js_is(doc, status, "failed"), STR_NULL);
        buf_putc(out, '}');
    }
    enum face_next next = mcp_end_reply(x);
    if (r->operation != MCP_TASK_GET || !(asks || (!lives && !cancelled)))
        return next;
    x->is_whole = true; /* the record has neither the question nor the files */
    return mcp_follow(x, 0);
}

static enum face_next modern_replied(struct face_exchange *x, enum error e, struct str line,
                                     struct js_doc *doc)
{
    const struct mcp_request *r = x->state;
    if (e && r->operation == MCP_TASK_GET && x->ask.verb == VERB_RESUME) {
        x->status = 200; /* no event is kept: the record is the reply */
        return FACE_REPLY;
    }
    bool is_ours = e == ERR_RATE_LIMITED || e == ERR_OVERLOADED || e == ERR_INTERNAL;
    if (e && is_ours)
        return mcp_fail_line(x, e, line, doc);
    if (x->ask.verb == VERB_RESPOND) /* too late, or no such question: the rest tells */
        return give_responses(x, doc);
    if (e && r->operation == MCP_LISTEN)
        return end_subscription(x);
    bool has_ended = e && e != ERR_NOT_FOUND && e != ERR_BAD_REQUEST;
    if (r->operation == MCP_TASK_CANCEL && (!e || has_ended)) {
        mcp_begin_reply(x);
        return mcp_end_reply(x);
    }
    return e ? mcp_fail_line(x, e, line, doc) : modern_on_task(x, line, doc);
}

/* --- the exchange ----------------------------------------------------------------------------- */

enum face_next mcp_modern_begin(struct face_exchange *x, const struct face_input *in, int code,
                                const char *why)
{
    const struct mcp_request *r = x->state;
    x->ops = &mcp_modern_ops;
    if (!r->version.p)
        return mcp_fail(x, code && code != -32601 ? code : -32602, 400,
                        code && code != -32601 ? why
                                               : "\"_meta\" must have " MCP_META "protocolVersion");
    const char *mismatch = find_mismatch(r, in);
    if (mismatch)
        return mcp_fail(x, HEADER_MISMATCH, 400, mismatch);
    if (!str_eq(r->version, STR(MCP_MODERN)))
        return modern_refuse_version(x);
    if (!r->has_capabilities)
        return mcp_fail(x, -32602, 400, "\"_meta\" must have " MCP_META "clientCapabilities");
    if (code)
        return mcp_fail(x, code, code == -32601 ? 404 : code == -32602 ? 200 : 400, why);
    switch (r->operation) {
    case MCP_DISCOVER: return discover(x);
    case MCP_TOOLS: return mcp_put_tools(x, in);
    case MCP_CALL: return r->state.p ? call_again(x, in->doc) : mcp_call_tool(x);
    case MCP_CALL_TASK: return mcp_call_tool(x);
    case MCP_LISTEN: return listen_to(x);
    case MCP_TASK_GET:
    case MCP_TASK_UPDATE:
    case MCP_TASK_CANCEL: return modern_task(x, in->doc);
    default:
        x->status = 202; /* a notification */
        return FACE_REPLY;
    }
}

const struct face_http_ops mcp_modern_ops = {
    .stream = &mcp_modern_stream_ops,
    .replied = modern_replied,
};
