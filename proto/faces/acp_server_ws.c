/* Design. A prompt is a chat that a busy conversation refuses: so a cancel that comes right after
 * it finds it.  When it is refused because the turn waits for the user, and the client takes no
 * forms, the prompt is the answer, and its stream continues behind it.
 *
 * A load first collects the ids of the conversation's turns, page by page from the newest, and then
 * follows one after the other.  A session that is unknown, foreign, empty or malformed has none. */
#include <stdio.h>

#include "proto/faces/acp_server.h"
#include "proto/faces/face_parts.h"
#include "proto/ulid.h"

#define PAGE 200 /* the most that a list returns */

static const char acp_nowhere[] = "Resource not found";
enum { STEP_CHAT, STEP_TURN, STEP_ANSWER, STEP_FOLLOW };

/* --- replies ---------------------------------------------------------------------------------- */

void acp_server_begin_result(struct buf *out, struct str rpc_id)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    buf_putstr(out, rpc_id);
    buf_puts(out, ",\"result\":{");
}

void acp_server_end_result(struct buf *out)
{
    buf_puts(out, "}}");
}

void acp_server_put_error(struct buf *out, struct str rpc_id, int code, struct str message,
                          struct str data)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    buf_putstr(out, rpc_id.n ? rpc_id : STR("null"));
    js_put_raw(out, "error", STR("{"));
    js_put_int(out, "code", code);
    js_put_field(out, "message", message);
    if (data.p)
        js_put_raw(out, "data", data);
    buf_puts(out, "}}");
}

static enum face_next acp_silent(struct face_exchange *x)
{
    buf_clear(&x->reply);
    return FACE_REPLY;
}

static enum face_next acp_fail(struct face_exchange *x, int code, const char *message)
{
    const struct acp_request *r = x->state;
    buf_clear(&x->reply);
    acp_server_put_error(&x->reply, r->rpc_id, code, str_of(message), STR_NULL);
    return FACE_REPLY;
}

static enum face_next acp_done(struct face_exchange *x)
{
    const struct acp_request *r = x->state;
    buf_clear(&x->reply);
    acp_server_begin_result(&x->reply, r->rpc_id);
    acp_server_end_result(&x->reply);
    return FACE_REPLY;
}

/* The same for each session that another may not know of. */
static enum face_next no_session(struct face_exchange *x)
{
    const struct acp_request *r = x->state;
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "sessionId", r->session);
    buf_putc(&data, '}');
    buf_clear(&x->reply);
    acp_server_put_error(&x->reply, r->rpc_id, ACP_RESOURCE, str_of(acp_nowhere), buf_str(&data));
    buf_done(&data);
    return FACE_REPLY;
}

static int acp_code_of(enum error e)
{
    static const int codes[] = {
        [ERR_BAD_REQUEST] = ACP_PARAMS,           [ERR_NOT_FOUND] = ACP_RESOURCE,
        [ERR_CONFLICT] = ACP_NO_REQUEST,          [ERR_TASK_TERMINATED] = ACP_NO_REQUEST,
        [ERR_UNAUTHORIZED] = ACP_UNAUTHENTICATED,
    };
    return (size_t)e < countof(codes) && codes[e] ? codes[e] : ACP_INTERNAL;
}

static enum face_next acp_fail_line(struct face_exchange *x, enum error e, struct str line,
                                    struct js_doc *doc)
{
    struct buf message = {0};
    exchange_put_why(&message, line, doc);
    enum face_next next = acp_fail(x, acp_code_of(e), message.bytes);
    buf_done(&message);
    return next;
}

/* --- initialize, session/new ------------------------------------------------------------------ */

static enum face_next acp_initialize(struct face_exchange *x, struct face_peer *peer)
{
    const struct acp_request *r = x->state;
    if (peer->has_begun)
        return acp_fail(x, ACP_NO_REQUEST, "the connection is initialized");
    *peer = (struct face_peer){.has_begun = true, .elicits = r->elicits};
    buf_clear(&x->reply);
    acp_server_begin_result(&x->reply, r->rpc_id);
    js_put_int(&x->reply, "protocolVersion", 1);
    js_put_raw(&x->reply, "agentCapabilities",
               STR("{\"loadSession\":true,\"promptCapabilities\":{\"image\":true,\"audio\":true,"
                   "\"embeddedContext\":true},\"mcpCapabilities\":{\"http\":false,\"sse\":false},"
                   "\"sessionCapabilities\":{\"list\":{},\"resume\":{},\"close\":{},"
                   "\"delete\":{}}}"));
    js_put_raw(&x->reply, "authMethods", STR("[]"));
    js_put_raw(&x->reply, "agentInfo", STR("{\"name\":\"holdfast\",\"version\":\"1.0\"}"));
    acp_server_end_result(&x->reply);
    return FACE_REPLY;
}

/* Nothing is kept of a session before its first prompt. */
static enum face_next new_session(struct face_exchange *x, struct str nonce)
{
    const struct acp_request *r = x->state;
    struct buf id = {0};
    buf_puts(&id, "acp-");
    buf_putstr(&id, nonce);
    buf_clear(&x->reply);
    acp_server_begin_result(&x->reply, r->rpc_id);
    js_put_field(&x->reply, "sessionId", buf_str(&id));
    acp_server_end_result(&x->reply);
    buf_done(&id);
    return FACE_REPLY;
}

/* --- session/prompt --------------------------------------------------------------------------- */

static enum face_next ask_turns(struct face_exchange *x, int limit, struct str before)
{
    const struct acp_request *r = x->state;
    struct buf *body = exchange_ask(x, VERB_TASKS, r->session, STR_NULL);
    js_put_bool(body, "turns", true);
    js_put_int(body, "limit", limit);
    if (before.n)
        js_put_field(body, "before", before);
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next acp_follow_task(struct face_exchange *x, struct str task_id)
{
    const struct acp_request *r = x->state;
    exchange_ask(x, VERB_RESUME, r->session, task_id);
    exchange_ask_end(x);
    return FACE_FOLLOW;
}

static enum face_next acp_prompt(struct face_exchange *x, struct str agent)
{
    const struct acp_request *r = x->state;
    if (!conversation_id_is_valid(r->session))
        return no_session(x);
    struct buf *body = exchange_ask(x, VERB_CHAT, r->session, STR_NULL);
    face_put_message(body, r->text, r->parts);
    if (agent.n)
        js_put_field(body, "agent", agent);
    js_put_field(body, "when_busy", STR("reject"));
    exchange_ask_end(x);
    return FACE_FOLLOW;
}

static enum face_next answer_by_prompt(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    const struct acp_request *r = x->state;
    uint32_t task = exchange_task(doc, line);
    uint32_t asks = task && exchange_task_lives(doc, task) ? js_get(doc, task, "waiting_for") : 0;
    if (!asks || js_type(doc, asks) != JS_STRING || r->elicits)
        return acp_fail(x, ACP_NO_REQUEST, "a turn of this session is in progress");
    buf_clear(&x->after_answer);
    js_value(doc, asks, &x->after_answer);
    struct buf *body =
        exchange_ask(x, VERB_RESPOND, r->session, js_raw(doc, js_get(doc, task, "task_id")));
    js_put_field(body, "input_id", buf_str(&x->after_answer));
    js_put_field(body, "answer", r->text);
    exchange_ask_end(x);
    x->step = STEP_ANSWER;
    return FACE_ASK;
}

static enum face_next on_prompt(struct face_exchange *x, enum error e, struct str line,
                                struct js_doc *doc)
{
    if (x->step == STEP_CHAT && e == ERR_CONFLICT) {
        x->step = STEP_TURN;
        return ask_turns(x, 1, STR_NULL);
    }
    if (e)
        return acp_fail_line(x, e, line, doc);
    if (x->step == STEP_TURN)
        return answer_by_prompt(x, line, doc);
    x->step = STEP_FOLLOW;
    struct buf task_id = {0};
    buf_putstr(&task_id, buf_str(&x->ask.task_id));
    enum face_next next = acp_follow_task(x, buf_str(&task_id));
    buf_done(&task_id);
    return next;
}

/* --- session/load, session/resume ------------------------------------------------------------- */

static enum face_next tell_turn(struct face_exchange *x)
{
    const struct acp_request *r = x->state;
    return acp_follow_task(x, str_of(r->turns[r->at].task_id));
}

static void keep_turn(struct acp_turn *turn, const struct js_doc *doc, uint32_t task)
{
    uint32_t id = js_get(doc, task, "task_id"), type = js_get(doc, task, "type");
    snprintf(turn->task_id, sizeof turn->task_id, "%.*s", (int)js_raw(doc, id).n,
             js_raw(doc, id).p);
    turn->is_notice = type && js_is(doc, type, "notice");
}

/* A page holds older turns than those before it: they fill the array from its end. */
static enum face_next on_page(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    struct acp_request *r = x->state;
    bool good = js_parse(doc, line.p, line.n, JS_OURS) && js_type(doc, 0) == JS_OBJECT;
    uint32_t tasks = good ? js_get(doc, 0, "tasks") : 0, more = good ? js_get(doc, 0, "more") : 0;
    uint32_t n = 0;
    for (uint32_t i = tasks ? js_first(doc, tasks) : 0; tasks && i < js_end(doc, tasks);
         i = js_next(doc, i))
        n++;
    uint32_t skipped = n > r->first ? n - r->first : 0, to = r->first - (n - skipped);
    r->first = to;
    for (uint32_t i = n ? js_first(doc, tasks) : 0; n && i < js_end(doc, tasks);
         i = js_next(doc, i))
        if (skipped)
            skipped--;
        else
            keep_turn(&r->turns[to++], doc, i);
    bool wants_all = r->operation == ACP_LOAD;
    if (wants_all && n && r->first && more && js_type(doc, more) == JS_TRUE)
        return ask_turns(x, PAGE, str_of(r->turns[r->first].task_id));
    r->at = r->first;
    return r->at < ACP_TURNS ? tell_turn(x) : no_session(x);
}

static enum face_next acp_load(struct face_exchange *x)
{
    struct acp_request *r = x->state;
    r->first = ACP_TURNS;
    return conversation_id_is_valid(r->session)
               ? ask_turns(x, r->operation == ACP_LOAD ? PAGE : 1, STR_NULL)
               : no_session(x);
}

/* A turn that was removed meanwhile is passed over. */
static enum face_next next_turn(struct face_exchange *x, bool has_replied)
{
    struct acp_request *r = x->state;
    if (++r->at < ACP_TURNS)
        return tell_turn(x);
    return has_replied ? acp_silent(x) : acp_done(x);
}

static bool acp_is_ours(enum error e)
{
    return e == ERR_OVERLOADED || e == ERR_INTERNAL || e == ERR_RATE_LIMITED;
}

static enum face_next on_load(struct face_exchange *x, enum error e, struct str line,
                              struct js_doc *doc)
{
    if (acp_is_ours(e))
        return acp_fail_line(x, e, line, doc);
    if (x->ask.verb == VERB_TASKS)
        return e ? no_session(x) : on_page(x, line, doc);
    return next_turn(x, false);
}

/* --- session/list, session/close, session/delete ---------------------------------------------- */

static enum face_next acp_list(struct face_exchange *x)
{
    const struct acp_request *r = x->state;
    struct buf *body = exchange_ask(x, VERB_CONVERSATIONS, STR_NULL, STR_NULL);
    if (r->cursor.p)
        js_put_field(body, "before", r->cursor);
    exchange_ask_end(x);
    return FACE_ASK;
}

/* A conversation has no folder: it is in whichever the client asks for. */
static void acp_put_session(struct buf *out, const struct js_doc *doc, uint32_t node,
                            struct str cwd)
{
    uint32_t id = js_get(doc, node, "conversation_id"), title = js_get(doc, node, "title");
    uint32_t updated = js_get(doc, node, "updated_at");
    int64_t ms = 0;
    js_put_raw(out, "sessionId", STR("\""));
    buf_putstr(out, js_raw(doc, id));
    buf_putc(out, '"');
    js_put_field(out, "cwd", cwd.p ? cwd : STR("/"));
    if (title && js_type(doc, title) == JS_STRING) {
        js_put_key(out, "title");
        js_copy(doc, title, out);
    }
    if (updated && js_int(doc, updated, &ms))
        face_put_time(out, "updatedAt", ms);
}

static enum face_next acp_on_list(struct face_exchange *x, enum error e, struct str line,
                                  struct js_doc *doc)
{
    const struct acp_request *r = x->state;
    if (e || !js_parse(doc, line.p, line.n, JS_OURS))
        return acp_fail_line(x, e, line, doc);
    uint32_t list = js_get(doc, 0, "conversations"), more = js_get(doc, 0, "more"), last = 0;
    buf_clear(&x->reply);
    acp_server_begin_result(&x->reply, r->rpc_id);
    js_put_raw(&x->reply, "sessions", STR("["));
    for (uint32_t i = list ? js_first(doc, list) : 0; list && i < js_end(doc, list);
         i = js_next(doc, i)) {
        buf_puts(&x->reply, last ? ",{" : "{");
        acp_put_session(&x->reply, doc, i, r->cwd);
        buf_putc(&x->reply, '}');
        last = i;
    }
    buf_putc(&x->reply, ']');
    if (last && more && js_type(doc, more) == JS_TRUE)
        js_put_field(&x->reply, "nextCursor", js_raw(doc, js_get(doc, last, "conversation_id")));
    acp_server_end_result(&x->reply);
    return FACE_REPLY;
}

/* A session that is not there, or another's, is as good as closed or deleted. */
static enum face_next acp_end_session(struct face_exchange *x, enum verb verb)
{
    const struct acp_request *r = x->state;
    if (!conversation_id_is_valid(r->session))
        return acp_done(x);
    exchange_ask(x, verb, r->session, STR_NULL);
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next on_session_end(struct face_exchange *x, enum error e, struct str line,
                                     struct js_doc *doc)
{
    return acp_is_ours(e) ? acp_fail_line(x, e, line, doc) : acp_done(x);
}

/* --- answers, session/cancel ------------------------------------------------------------------ */

static enum face_next acp_answer(struct face_exchange *x)
{
    const struct acp_request *r = x->state;
    struct buf conversation = {0};
    struct str task;
    bool good = exchange_read_id(r->task_id, &conversation, &task);
    if (good) {
        struct buf *body = exchange_ask(x, VERB_RESPOND, buf_str(&conversation), task);
        js_put_field(body, "input_id", r->input_id);
        js_put_raw(body, "answer", r->answer);
        exchange_ask_end(x);
    }
    buf_done(&conversation);
    return good ? FACE_ASK : acp_silent(x);
}

static enum face_next acp_cancel(struct face_exchange *x)
{
    const struct acp_request *r = x->state;
    if (!r->session.p || !conversation_id_is_valid(r->session))
        return acp_silent(x);
    exchange_ask(x, VERB_CANCEL_ALL, r->session, STR_NULL);
    exchange_ask_end(x);
    return FACE_ASK;
}

/* --- the exchange ----------------------------------------------------------------------------- */

static enum face_next acp_server_begin(struct face_exchange *x, const struct face_input *in)
{
    char why[128];
    int code = acp_server_read(in->doc, in->body, x, why);
    struct acp_request *r = x->state;
    if (code && r->operation == ACP_CANCEL)
        return acp_silent(x);
    if (code)
        return acp_fail(x, code, why);
    if (r->operation == ACP_INITIALIZE)
        return acp_initialize(x, in->peer);
    if (!in->peer->has_begun && r->rpc_id.p)
        return acp_fail(x, ACP_NO_REQUEST, "the connection must be initialized first");
    r->elicits = in->peer->elicits;
    ASSERT(r->rpc_id.p || r->operation == ACP_CANCEL || r->operation == ACP_ANSWER ||
           r->operation == ACP_NOTHING); /* acp_server_read: all others have a reply */
    switch (r->operation) {
    case ACP_NEW: return new_session(x, in->nonce);
    case ACP_LOAD:
    case ACP_RESUME: return acp_load(x);
    case ACP_LIST: return acp_list(x);
    case ACP_CLOSE: return acp_end_session(x, VERB_CANCEL_ALL);
    case ACP_DELETE: return acp_end_session(x, VERB_DELETE);
    case ACP_PROMPT: return acp_prompt(x, in->agent);
    case ACP_CANCEL: return acp_cancel(x);
    case ACP_ANSWER: return acp_answer(x);
    default: return acp_silent(x);
    }
}

static enum face_next acp_server_replied(struct face_exchange *x, enum error e, struct str line,
                                         struct js_doc *doc)
{
    const struct acp_request *r = x->state;
    switch (r->operation) {
    case ACP_LOAD:
    case ACP_RESUME: return on_load(x, e, line, doc);
    case ACP_LIST: return acp_on_list(x, e, line, doc);
    case ACP_CLOSE:
    case ACP_DELETE: return on_session_end(x, e, line, doc);
    case ACP_PROMPT: return on_prompt(x, e, line, doc);
    default: return acp_silent(x); /* JSON-RPC answers neither a notification nor an answer */
    }
}

static enum face_next acp_server_ended(struct face_exchange *x, const struct face_stream *s)
{
    const struct acp_request *r = x->state;
    if (acp_server_loads(r))
        return next_turn(x, acp_server_has_replied(s));
    return s->is_over ? acp_silent(x)
                      : acp_fail(x, ACP_INTERNAL, "the stream broke off: load the session");
}

static void acp_server_fault(struct buf *out, enum error e, const char *message)
{
    acp_server_put_error(out, STR_NULL, acp_code_of(e), str_of(message), STR_NULL);
}

const struct face_http_ops acp_server_http_ops = {
    .stream = &acp_server_ops,
    .begin = acp_server_begin,
    .replied = acp_server_replied,
    .ended = acp_server_ended,
    .put_error = acp_server_fault,
};

/* --- frames ----------------------------------------------------------------------------------- */

static void acp_read_frame(struct js_doc *doc, struct str text, struct face_frame *ret)
{
    struct face_exchange x = {.ops = &acp_server_http_ops};
    char why[128];
    (void)acp_server_read(doc, text, &x, why); /* the exchange says what is wrong */
    const struct acp_request *r = x.state;
    ret->kind = FRAME_REQUEST;
    ret->id = r->rpc_id.p ? r->rpc_id : STR("");
    ret->authorization = r->token;
    ret->memory = x.memory; /* the spans stay valid */
    x.memory = (struct buf){0};
    exchange_done(&x);
}

static void acp_put_message(struct buf *out, struct str id, uint64_t n, struct str json)
{
    (void)id; /* an update names its session, the last message the request */
    (void)n;
    buf_putstr(out, json);
}

/* The last message of the stream was the reply. */
static void acp_put_end(struct buf *out, struct str id)
{
    (void)out;
    (void)id;
}

static void acp_put_reply(struct buf *out, struct str id, const struct face_exchange *x)
{
    (void)id;
    buf_putstr(out, buf_str(&x->reply));
}

static void acp_put_failed(struct buf *out, struct str id, enum error e, const char *why)
{
    acp_server_put_error(out, id, acp_code_of(e), str_of(why), STR_NULL);
}

const struct face_ws_ops acp_server_ws_ops = {
    .http = &acp_server_http_ops,
    .read = acp_read_frame,
    .put_message = acp_put_message,
    .put_end = acp_put_end,
    .put_reply = acp_put_reply,
    .put_failed = acp_put_failed,
};
