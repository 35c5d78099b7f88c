#include "proto/forms/acp.h"

#include <stdlib.h>

#define PROTOCOL_VERSION 1
#define KEEP_BYTES (256 * 1024) /* buffers that one long line has grown are not kept */

#define ACP_NEEDS_AUTHENTICATION -32000

/* --- writing ---------------------------------------------------------------------------------- */

/* Open for members of params; ended by "}}\n". */
static void acp_begin(struct acp *a, const char *method, enum acp_awaits awaits)
{
    a->awaits = awaits;
    buf_puts(&a->out, "{\"jsonrpc\":\"2.0\"");
    js_put_int(&a->out, "id", ++a->id);
    js_put_field(&a->out, "method", str_of(method));
    js_put_raw(&a->out, "params", STR("{"));
}

void acp_end(struct acp *a)
{
    buf_puts(&a->out, "}}\n");
}

void acp_put_id(struct acp *a, uint32_t id)
{
    buf_puts(&a->out, "{\"jsonrpc\":\"2.0\"");
    js_put_key(&a->out, "id");
    js_copy(&a->doc, id, &a->out);
}

void acp_refuse(struct acp *a, uint32_t id, int code, const char *why)
{
    acp_put_id(a, id);
    js_put_raw(&a->out, "error", STR("{"));
    js_put_int(&a->out, "code", code);
    js_put_field(&a->out, "message", str_of(why));
    acp_end(a);
}

static void acp_initialize(struct acp *a)
{
    acp_begin(a, "initialize", ACP_AWAITS_INITIALIZE);
    js_put_int(&a->out, "protocolVersion", PROTOCOL_VERSION);
    js_put_raw(&a->out, "clientCapabilities", STR("{\"fs\":{"));
    js_put_bool(&a->out, "readTextFile", a->o.files != NULL);
    js_put_bool(&a->out, "writeTextFile", a->o.files != NULL);
    buf_putc(&a->out, '}');
    js_put_bool(&a->out, "terminal", a->o.terminals != NULL);
    buf_putc(&a->out, '}');
    js_put_raw(&a->out, "clientInfo", STR("{"));
    js_put_field(&a->out, "name", STR("holdfast"));
    js_put_field(&a->out, "version", str_of(a->o.version));
    buf_putc(&a->out, '}');
    acp_end(a);
}

static void acp_put_place(struct acp *a)
{
    js_put_field(&a->out, "cwd", str_of(a->o.cwd));
    js_put_raw(&a->out, "mcpServers", STR("["));
    if (a->o.mcp_stdio)
        buf_puts(&a->out, a->o.mcp_stdio);
    if (a->o.mcp_http && a->can_mcp_http) {
        buf_puts(&a->out, a->o.mcp_stdio ? "," : "");
        buf_puts(&a->out, a->o.mcp_http);
    }
    buf_putc(&a->out, ']');
}

static void acp_open_session(struct acp *a)
{
    bool resumes = a->session.len && a->can_resume, loads = a->session.len && a->can_load;
    if (resumes)
        acp_begin(a, "session/resume", ACP_AWAITS_RESUME);
    else if (loads)
        acp_begin(a, "session/load", ACP_AWAITS_LOAD);
    else
        acp_begin(a, "session/new", ACP_AWAITS_NEW);
    if (resumes || loads)
        js_put_field(&a->out, "sessionId", buf_str(&a->session));
    else
        buf_clear(&a->session);
    acp_put_place(a);
    acp_end(a);
}

static void acp_send_prompt(struct acp *a)
{
    struct buf *text = a->resumed ? &a->input : &a->recap;
    acp_begin(a, "session/prompt", ACP_AWAITS_PROMPT);
    js_put_field(&a->out, "sessionId", buf_str(&a->session));
    js_put_raw(&a->out, "prompt", STR("[{\"type\":\"text\""));
    js_put_field(&a->out, "text", buf_str(text));
    buf_putc(&a->out, '}');
    acp_put_files(a);
    buf_putc(&a->out, ']');
    acp_end(a);
    a->resumed = true; /* from now on it knows */
}

/* --- the turn --------------------------------------------------------------------------------- */

static void acp_settle(struct acp *a, enum acp_turn turn)
{
    acp_cancel_permissions(a);
    acp_tell_held(a, 0);
    while (a->calls.n) { /* what never ended ends with the turn */
        struct str id = str_of(a->calls.list[0].id);
        say_called(&a->said, &a->calls, id, STR(""), turn == ACP_FAILED);
    }
    a->turn = turn;
}

static void acp_fail(struct acp *a, const char *what, struct str text)
{
    buf_clear(&a->failure);
    buf_puts(&a->failure, what);
    buf_putstr(&a->failure, text);
    a->broken = true;
    acp_settle(a, ACP_FAILED);
}

/* "METHOD: message (details)". */
static void acp_fail_by_error(struct acp *a, const char *what, uint32_t error)
{
    const struct js_doc *doc = &a->doc;
    buf_clear(&a->more);
    buf_putstr(&a->more, say_text(doc, js_get(doc, error, "message"), &a->text));
    uint32_t details = say_member(doc, js_get(doc, error, "data"), "details");
    struct str more = say_text(doc, details, &a->text);
    if (more.n) {
        buf_puts(&a->more, " (");
        buf_putstr(&a->more, more);
        buf_putc(&a->more, ')');
    }
    acp_fail(a, what, buf_str(&a->more));
}

static void acp_finish(struct acp *a, uint32_t result)
{
    const struct js_doc *doc = &a->doc;
    struct str reason = say_text(doc, say_member(doc, result, "stopReason"), &a->text);
    uint32_t usage = say_member(doc, result, "usage");
    a->awaits = ACP_AWAITS_NOTHING;
    if (str_eq(reason, STR("cancelled"))) {
        buf_clear(&a->failure);
        buf_puts(&a->failure,
                 a->cancelled ? "cancelled" : "it has cancelled its turn, which nobody asked for");
        acp_settle(a, ACP_FAILED);
        return;
    }
    acp_settle(a, ACP_DONE);
    buf_clear(&a->more);
    buf_putc(&a->more, '{');
    js_put_field(&a->more, "stop_reason", reason);
    if (usage) {
        js_put_key(&a->more, "usage");
        js_copy(doc, usage, &a->more);
    }
    buf_putc(&a->more, '}');
    say_result(&a->said, buf_str(&a->more));
    if (a->answer.len && a->whole)
        say_final_answer(&a->said, buf_str(&a->answer));
}

void acp_prompt(struct acp *a, struct str input, struct str recap, struct str files)
{
    ASSERT(a->turn != ACP_RUNNING && !a->broken);
    a->turn = ACP_RUNNING;
    a->cancelled = false;
    a->whole = true;
    buf_clear(&a->answer);
    buf_clear(&a->failure);
    buf_clear(&a->input);
    buf_clear(&a->recap);
    buf_putstr(&a->input, input);
    buf_putstr(&a->recap, recap);
    buf_clear(&a->files);
    a->waits_for_files = true;
    if (files.p)
        acp_take_files(a, files);
}

void acp_go_on(struct acp *a, struct str input, struct str recap, struct str files,
               struct str answer)
{
    bool waits = a->waits_for_files;
    a->turn = ACP_RUNNING;
    a->whole = true;
    buf_putstr(&a->input, input);
    buf_putstr(&a->recap, recap);
    acp_keep_answer(a, answer);
    a->waits_for_files = true;
    if (files.p && waits)
        acp_take_files(a, files);
    else if (!waits) {
        a->waits_for_files = false;
        buf_putstr(&a->files, files);
    }
}

void acp_take_files(struct acp *a, struct str files)
{
    if (a->turn != ACP_RUNNING || !a->waits_for_files)
        return;
    a->waits_for_files = false;
    buf_putstr(&a->files, files);
    if (a->awaits == ACP_AWAITS_NOTHING)
        acp_send_prompt(a);
}

bool acp_cancel(struct acp *a)
{
    a->cancelled = true;
    if (a->awaits != ACP_AWAITS_PROMPT) {
        a->broken = true;
        return false;
    }
    buf_puts(&a->out, "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{");
    js_put_field(&a->out, "sessionId", buf_str(&a->session));
    acp_end(a);
    acp_cancel_permissions(a);
    return true;
}

/* --- what comes back -------------------------------------------------------------------------- */

static bool acp_can(const struct js_doc *doc, uint32_t node)
{
    return node && js_type(doc, node) != JS_FALSE && js_type(doc, node) != JS_NULL;
}

static void acp_keep_methods(struct acp *a, uint32_t methods)
{
    const struct js_doc *doc = &a->doc;
    buf_clear(&a->methods);
    if (!methods || js_type(doc, methods) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, methods); i < js_end(doc, methods); i = js_next(doc, i)) {
        struct str id = say_text(doc, js_get(doc, i, "id"), &a->text);
        if (id.n == 0 || a->methods.len + id.n > SAY_NAME)
            continue;
        buf_puts(&a->methods, a->methods.len ? ", " : "");
        buf_putstr(&a->methods, id);
    }
}

static void on_initialized(struct acp *a, uint32_t result)
{
    const struct js_doc *doc = &a->doc;
    int64_t version = 0;
    uint32_t said = say_member(doc, result, "protocolVersion");
    uint32_t can = say_member(doc, result, "agentCapabilities");
    if (!said || !js_int(doc, said, &version) || version != PROTOCOL_VERSION) {
        acp_fail(a, "initialize: it does not speak version 1 of the protocol", STR(""));
        return;
    }
    uint32_t load = say_member(doc, can, "loadSession");
    a->can_load = load && js_type(doc, load) == JS_TRUE;
    a->can_resume =
        acp_can(doc, say_member(doc, say_member(doc, can, "sessionCapabilities"), "resume"));
    uint32_t http = say_member(doc, say_member(doc, can, "mcpCapabilities"), "http");
    a->can_mcp_http = http && js_type(doc, http) == JS_TRUE;
    uint32_t image = say_member(doc, say_member(doc, can, "promptCapabilities"), "image");
    a->can_image = image && js_type(doc, image) == JS_TRUE;
    acp_keep_methods(a, say_member(doc, result, "authMethods"));
    acp_open_session(a);
}

static void on_session(struct acp *a, uint32_t result)
{
    const struct js_doc *doc = &a->doc;
    a->resumed = a->awaits != ACP_AWAITS_NEW;
    if (a->awaits == ACP_AWAITS_NEW) {
        (void)say_text(doc, say_member(doc, result, "sessionId"), &a->session);
        if (a->session.len == 0) {
            acp_fail(a, "session/new: it names no session", STR(""));
            return;
        }
    }
    a->awaits = ACP_AWAITS_NOTHING;
    if (a->turn == ACP_RUNNING && !a->waits_for_files)
        acp_send_prompt(a);
}

static void acp_authenticate(struct acp *a)
{
    a->has_authenticated = true;
    acp_begin(a, "authenticate", ACP_AWAITS_AUTHENTICATE);
    js_put_field(&a->out, "methodId", str_of(a->o.auth_method));
    acp_end(a);
}

static void on_no_session(struct acp *a, uint32_t error)
{
    int64_t code = 0;
    uint32_t node = js_get(&a->doc, error, "code");
    bool asks = node && js_int(&a->doc, node, &code) && code == ACP_NEEDS_AUTHENTICATION;
    if (asks && a->o.auth_method && !a->has_authenticated) {
        acp_authenticate(a);
    } else if (asks && !a->o.auth_method) {
        acp_fail(a, "it wants to be authenticated: name one of its methods as auth_method: ",
                 buf_str(&a->methods));
    } else if (a->awaits == ACP_AWAITS_NEW) {
        acp_fail_by_error(a, "session/new: ", error);
    } else { /* it has forgotten the session */
        buf_clear(&a->session);
        acp_open_session(a);
    }
}

static void on_error(struct acp *a, uint32_t error)
{
    switch (a->awaits) {
    case ACP_AWAITS_NOTHING: return;
    case ACP_AWAITS_INITIALIZE: acp_fail_by_error(a, "initialize: ", error); return;
    case ACP_AWAITS_AUTHENTICATE: acp_fail_by_error(a, "authenticate: ", error); return;
    case ACP_AWAITS_NEW:
    case ACP_AWAITS_RESUME:
    case ACP_AWAITS_LOAD: on_no_session(a, error); return;
    case ACP_AWAITS_PROMPT: acp_fail_by_error(a, "session/prompt: ", error); return;
    }
}

static void on_result(struct acp *a, uint32_t result)
{
    switch (a->awaits) {
    case ACP_AWAITS_NOTHING: return;
    case ACP_AWAITS_INITIALIZE: on_initialized(a, result); return;
    case ACP_AWAITS_AUTHENTICATE: acp_open_session(a); return;
    case ACP_AWAITS_NEW:
    case ACP_AWAITS_RESUME:
    case ACP_AWAITS_LOAD: on_session(a, result); return;
    case ACP_AWAITS_PROMPT: acp_finish(a, result); return;
    }
}

/* --- what it asks ----------------------------------------------------------------------------- */

/* The lines from line (1: the first) on, at most limit. */
static struct str slice(const struct js_doc *doc, uint32_t params, struct str text)
{
    int64_t line = 1, limit = INT64_MAX;
    uint32_t at = js_get(doc, params, "line"), most = js_get(doc, params, "limit");
    if (at && !js_int(doc, at, &line))
        line = 1;
    if (most && !js_int(doc, most, &limit))
        limit = INT64_MAX;
    while (line-- > 1 && text.n) {
        const char *newline = memchr(text.p, '\n', text.n);
        size_t n = newline ? (size_t)(newline + 1 - text.p) : text.n;
        text = (struct str){text.p + n, text.n - n};
    }
    size_t n = 0;
    while (limit-- > 0 && n < text.n) {
        const char *newline = memchr(text.p + n, '\n', text.n - n);
        n = newline ? (size_t)(newline + 1 - text.p) : text.n;
    }
    return (struct str){text.p, n};
}

/* An earlier client has begun to write it: the same text is there, or nobody knows. */
static const char *acp_written(struct acp *a, const char *path, struct str content)
{
    struct buf there = {0};
    const char *why = a->o.files->read(a->o.files_arg, path, &there);
    a->is_unknown = why || !str_eq(buf_str(&there), content);
    buf_done(&there);
    return a->is_unknown ? ACP_UNKNOWN : NULL;
}

static const char *acp_write_file(struct acp *a, const char *path, struct str content)
{
    return a->again ? acp_written(a, path, content)
                    : a->o.files->write(a->o.files_arg, path, content);
}

static void acp_file(struct acp *a, uint32_t id, uint32_t params, bool writes)
{
    const struct js_doc *doc = &a->doc;
    uint32_t content = js_get(doc, params, "content");
    struct str path = say_text(doc, js_get(doc, params, "path"), &a->text);
    struct buf read = {0};
    const char *why;
    if (path.n == 0 || memchr(path.p, 0, path.n) ||
        (writes && (!content || js_type(doc, content) != JS_STRING))) {
        acp_refuse(a, id, RPC_BAD_PARAMS, "path and content must be texts");
        return;
    }
    if (writes)
        why = acp_write_file(a, path.p, say_text(doc, content, &a->more));
    else
        why = a->o.files->read(a->o.files_arg, path.p, &read);
    if (why) {
        acp_refuse(a, id, a->is_unknown ? RPC_FAILED : ACP_NOT_FOUND, why);
    } else {
        acp_put_id(a, id);
        js_put_raw(&a->out, "result", STR("{"));
        if (!writes)
            js_put_field(&a->out, "content", slice(doc, params, buf_str(&read)));
        acp_end(a);
    }
    buf_done(&read);
}

static bool has_effect(const struct js_doc *doc, uint32_t method)
{
    static const char *const methods[] = {"fs/write_text_file", "terminal/create", "terminal/kill",
                                          "terminal/release"};
    for (size_t i = 0; i < countof(methods); i++)
        if (js_is(doc, method, methods[i]))
            return true;
    return false;
}

static void on_request(struct acp *a, uint32_t id, uint32_t method)
{
    const struct js_doc *doc = &a->doc;
    uint32_t params = js_get(doc, 0, "params");
    bool is_object = params && js_type(doc, params) == JS_OBJECT;
    if (a->holds && has_effect(doc, method))
        a->effect_waits = true;
    else if (is_object && js_is(doc, method, "session/request_permission"))
        acp_permission(a, id, params);
    else if (is_object && a->o.files && js_is(doc, method, "fs/read_text_file"))
        acp_file(a, id, params, false);
    else if (is_object && a->o.files && js_is(doc, method, "fs/write_text_file"))
        acp_file(a, id, params, true);
    else if (!is_object || !a->o.terminals || !acp_terminal(a, id, params, method))
        acp_refuse(a, id, RPC_NO_METHOD, "Method not found");
}

static void on_notification(struct acp *a, uint32_t method)
{
    const struct js_doc *doc = &a->doc;
    uint32_t params = js_get(doc, 0, "params");
    if (a->awaits == ACP_AWAITS_PROMPT && js_is(doc, method, "session/update") && params &&
        js_type(doc, params) == JS_OBJECT &&
        str_eq(say_text(doc, js_get(doc, params, "sessionId"), &a->text), buf_str(&a->session)))
        acp_update(a, params);
}

/* An answer to what we have not asked, or no longer wait for, is none; so is one without an id,
 * which says that a line of ours was not understood. */
static void on_answer(struct acp *a, uint32_t id)
{
    int64_t number;
    uint32_t error = js_get(&a->doc, 0, "error"), result = js_get(&a->doc, 0, "result");
    if (!id || !js_int(&a->doc, id, &number) || number != a->id)
        return;
    if (error && js_type(&a->doc, error) != JS_NULL)
        on_error(a, error);
    else if (result)
        on_result(a, result);
}

void acp_take(struct acp *a, struct str line)
{
    struct js_doc *doc = &a->doc;
    if (a->broken || !js_parse(doc, line.p, line.n, JS_AGENT) || js_type(doc, 0) != JS_OBJECT)
        return;
    uint32_t id = js_get(doc, 0, "id"), method = js_get(doc, 0, "method");
    bool has_method = method && js_type(doc, method) == JS_STRING;
    if (has_method && id)
        on_request(a, id, method);
    else if (has_method)
        on_notification(a, method);
    else
        on_answer(a, id);
    if (a->text.cap > KEEP_BYTES)
        buf_done(&a->text);
    if (a->more.cap > KEEP_BYTES)
        buf_done(&a->more);
}

void acp_do(struct acp *a, struct str line, bool again)
{
    bool holds = a->holds;
    a->holds = a->effect_waits = a->is_unknown = false;
    a->again = again;
    acp_take(a, line);
    a->again = false;
    a->holds = holds;
}

void acp_lost(struct acp *a, struct str why)
{
    if (a->turn == ACP_RUNNING)
        acp_fail(a, "", why);
    a->broken = true;
}

void acp_open(struct acp *a, const struct acp_options *o, struct str session)
{
    *a = (struct acp){.o = *o};
    buf_putstr(&a->session, session);
    acp_initialize(a);
}

void acp_done(struct acp *a)
{
    struct buf *const all[] = {&a->input,   &a->recap,   &a->files,   &a->answer,
                               &a->failure, &a->session, &a->methods, &a->held,
                               &a->text,    &a->more,    &a->out,     &a->said};
    for (size_t i = 0; i < countof(all); i++)
        buf_done(all[i]);
    for (size_t i = 0; i < a->n_gifts; i++)
        gift_done(&a->gifts[i]);
    for (size_t i = 0; i < a->n_permissions; i++) {
        buf_done(&a->permissions[i].id);
        buf_done(&a->permissions[i].options);
    }
    acp_terminals_done(a);
    say_calls_done(&a->calls);
    js_done(&a->doc);
    js_done(&a->other);
}
