/* The frames that a client of ACP sends: requests, notifications, and answers to questions. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/faces/acp_server.h"
#include "proto/faces/face_parts.h"

#define TOKEN_MEMBER "holdfast/token" /* of `_meta`: a browser's WebSocket has no header for it */

struct acp_reader {
    const struct js_doc *doc;
    struct acp_request *r;
    struct buf *memory; /* has room for everything, so spans into it stay valid */
    char *why;          /* of 128 bytes */
};

static int acp_wrong(const struct acp_reader *in, int code, const char *why)
{
    snprintf(in->why, 128, "%s", why);
    return code;
}

static uint32_t acp_get(const struct acp_reader *in, uint32_t object, const char *key,
                        enum js_type type)
{
    const struct js_doc *d = in->doc;
    bool is_object = object != UINT32_MAX && js_type(d, object) == JS_OBJECT;
    uint32_t at = is_object ? js_get(d, object, key) : 0;
    return at && js_type(d, at) == type ? at : 0;
}

/* A member that is an object; UINT32_MAX, which has no members, when there is none. */
static uint32_t acp_object(const struct acp_reader *in, uint32_t object, const char *key)
{
    uint32_t at = acp_get(in, object, key, JS_OBJECT);
    return at ? at : UINT32_MAX;
}

static struct str acp_text(const struct acp_reader *in, uint32_t object, const char *key)
{
    uint32_t at = acp_get(in, object, key, JS_STRING);
    size_t begin = in->memory->len;
    if (!at)
        return STR_NULL;
    js_value(in->doc, at, in->memory);
    return (struct str){in->memory->bytes + begin, in->memory->len - begin};
}

static struct str acp_json(const struct acp_reader *in, uint32_t node)
{
    size_t begin = in->memory->len;
    js_copy(in->doc, node, in->memory);
    return (struct str){in->memory->bytes + begin, in->memory->len - begin};
}

/* --- methods ---------------------------------------------------------------------------------- */

static int acp_read_initialize(const struct acp_reader *in, uint32_t params)
{
    int64_t version = -1;
    uint32_t at = acp_get(in, params, "protocolVersion", JS_NUMBER);
    uint32_t elicitation =
        acp_object(in, acp_object(in, params, "clientCapabilities"), "elicitation");
    in->r->elicits = acp_get(in, elicitation, "form", JS_OBJECT) != 0;
    if (!at || !js_int(in->doc, at, &version) || version < 0)
        return acp_wrong(in, ACP_PARAMS, "\"protocolVersion\" must be an integer");
    return 0;
}

/* Where a session is: its folder and its servers are the agent's own affair here. */
static int read_place(const struct acp_reader *in, uint32_t params)
{
    uint32_t servers = acp_get(in, params, "mcpServers", JS_ARRAY);
    if (!acp_get(in, params, "cwd", JS_STRING))
        return acp_wrong(in, ACP_PARAMS, "\"cwd\" must be a string");
    if (!servers)
        return acp_wrong(in, ACP_PARAMS, "\"mcpServers\" must be an array");
    if (js_first(in->doc, servers) < js_end(in->doc, servers))
        return acp_wrong(in, ACP_PARAMS,
                         "\"mcpServers\" must be empty: the gateway's agents have their own");
    return 0;
}

static int read_session(const struct acp_reader *in, uint32_t params)
{
    in->r->session = acp_text(in, params, "sessionId");
    return in->r->session.p ? 0 : acp_wrong(in, ACP_PARAMS, "\"sessionId\" must be a string");
}

static int read_load(const struct acp_reader *in, uint32_t params)
{
    int code = read_session(in, params);
    return code ? code : read_place(in, params);
}

static int read_resume(const struct acp_reader *in, uint32_t params)
{
    uint32_t servers = acp_get(in, params, "mcpServers", JS_ARRAY);
    int code = read_session(in, params);
    return code ? code : servers ? read_place(in, params) : 0;
}

static int acp_read_list(const struct acp_reader *in, uint32_t params)
{
    in->r->cursor = acp_text(in, params, "cursor");
    in->r->cwd = acp_text(in, params, "cwd");
    return 0;
}

/* An image, a sound, or a resource with bytes; of a resource with text, the text. */
static int read_file(const struct acp_reader *in, uint32_t block, uint32_t type,
                     struct face_parts *parts)
{
    const struct js_doc *d = in->doc;
    uint32_t resource = js_is(d, type, "resource") ? acp_get(in, block, "resource", JS_OBJECT) : 0;
    uint32_t at = resource ? resource : block;
    uint32_t text = resource ? acp_get(in, at, "text", JS_STRING) : 0;
    char why[128];
    if (text) {
        js_value(d, text, in->memory);
        face_parts_text(parts, d, text);
        return 0;
    }
    const char *wrong =
        face_parts_data(parts, d, acp_get(in, at, resource ? "blob" : "data", JS_STRING),
                        acp_get(in, at, "mimeType", JS_STRING), 0);
    if (!wrong)
        return 0;
    snprintf(why, sizeof why, "a block of \"prompt\" %s", wrong);
    return acp_wrong(in, ACP_PARAMS, why);
}

/* A link is told as text, unless it names a file of the gateway. */
static void read_link(const struct acp_reader *in, uint32_t name, uint32_t uri,
                      struct face_parts *parts)
{
    struct buf text = {0};
    if (!face_parts_url(parts, in->doc, uri, name))
        return;
    buf_putc(&text, '[');
    js_value(in->doc, name, &text);
    buf_puts(&text, "](");
    js_value(in->doc, uri, &text);
    buf_putc(&text, ')');
    buf_putstr(in->memory, buf_str(&text));
    face_parts_say(parts, buf_str(&text));
    buf_done(&text);
}

static bool block_is_file(const struct js_doc *d, uint32_t type)
{
    return js_is(d, type, "image") || js_is(d, type, "audio") || js_is(d, type, "resource");
}

static int read_block(const struct acp_reader *in, uint32_t block, struct face_parts *parts)
{
    uint32_t type = acp_get(in, block, "type", JS_STRING);
    uint32_t text = acp_get(in, block, "text", JS_STRING);
    uint32_t name = acp_get(in, block, "name", JS_STRING);
    uint32_t uri = acp_get(in, block, "uri", JS_STRING);
    bool is_text = type && js_is(in->doc, type, "text");
    bool is_link = type && js_is(in->doc, type, "resource_link");
    if ((is_text && !text) || (is_link && (!name || !uri)))
        return acp_wrong(in, ACP_PARAMS, "a block of \"prompt\" lacks its text, or name and uri");
    if (type && block_is_file(in->doc, type))
        return read_file(in, block, type, parts);
    if (!is_text && !is_link)
        return acp_wrong(in, ACP_PARAMS,
                         "a block of \"prompt\" must be text, image, audio, resource or "
                         "resource_link");
    if (is_link) {
        read_link(in, name, uri, parts);
        return 0;
    }
    js_value(in->doc, text, in->memory);
    face_parts_text(parts, in->doc, text);
    return 0;
}

static int read_prompt(const struct acp_reader *in, uint32_t params)
{
    const struct js_doc *d = in->doc;
    int code = read_session(in, params);
    uint32_t blocks = acp_get(in, params, "prompt", JS_ARRAY);
    if (code)
        return code;
    if (!blocks)
        return acp_wrong(in, ACP_PARAMS, "\"prompt\" must be an array of blocks");
    struct face_parts parts = {0};
    size_t begin = in->memory->len;
    for (uint32_t i = js_first(d, blocks); !code && i < js_end(d, blocks); i = js_next(d, i)) {
        if (in->memory->len > begin)
            buf_putc(in->memory, '\n');
        code = read_block(in, i, &parts);
    }
    in->r->text = (struct str){in->memory->bytes + begin, in->memory->len - begin};
    begin = in->memory->len;
    face_parts_end(&parts, in->memory);
    if (parts.has_file)
        in->r->parts = (struct str){in->memory->bytes + begin, in->memory->len - begin};
    face_parts_done(&parts);
    if (!code && !in->r->text.n)
        return acp_wrong(in, ACP_PARAMS, "\"prompt\" has no text");
    return code;
}

static const struct {
    const char *name;
    enum acp_operation operation;
    bool notifies;
    int (*read)(const struct acp_reader *in, uint32_t params);
} methods[] = {
    {"initialize", ACP_INITIALIZE, false, acp_read_initialize},
    {"session/new", ACP_NEW, false, read_place},
    {"session/load", ACP_LOAD, false, read_load},
    {"session/resume", ACP_RESUME, false, read_resume},
    {"session/list", ACP_LIST, false, acp_read_list},
    {"session/close", ACP_CLOSE, false, read_session},
    {"session/delete", ACP_DELETE, false, read_session},
    {"session/prompt", ACP_PROMPT, false, read_prompt},
    {"session/cancel", ACP_CANCEL, true, read_session},
};

static int acp_read_method(const struct acp_reader *in, uint32_t method)
{
    uint32_t params = acp_object(in, 0, "params");
    bool notifies = !in->r->rpc_id.p;
    in->r->token = acp_text(in, acp_object(in, params, "_meta"), TOKEN_MEMBER);
    for (size_t i = 0; i < countof(methods); i++)
        if (js_is(in->doc, method, methods[i].name) && methods[i].notifies == notifies) {
            in->r->operation = methods[i].operation;
            return methods[i].read(in, params);
        }
    return notifies ? 0 : acp_wrong(in, ACP_NO_METHOD, "there is no such method");
}

/* --- answers ---------------------------------------------------------------------------------- */

static void read_outcome(const struct acp_reader *in, uint32_t result, bool has_options)
{
    uint32_t outcome = acp_object(in, result, "outcome");
    uint32_t is = acp_get(in, outcome, "outcome", JS_STRING);
    uint32_t option = acp_get(in, outcome, "optionId", JS_STRING);
    if (!is || !option || !js_is(in->doc, is, "selected"))
        return; /* the cancel that caused this ends the question */
    if (has_options)
        in->r->answer = acp_json(in, option);
    else
        in->r->answer = js_is(in->doc, option, "allow") ? STR("true") : STR("false");
}

static void read_form(const struct acp_reader *in, uint32_t result)
{
    uint32_t action = acp_get(in, result, "action", JS_STRING);
    uint32_t says = acp_get(in, acp_object(in, result, "content"), "answer", JS_STRING);
    bool accepts = action && js_is(in->doc, action, "accept");
    if (action)
        in->r->answer = accepts && says ? acp_json(in, says) : STR("\"\"");
}

/* The id of a question: the task's, `/`, a for an approval, o for one with options of its own, q
 * for a question, `/`, the question's.  Any other id is ignored, as are errors. */
static void acp_read_answer(const struct acp_reader *in, uint32_t result)
{
    struct acp_request *r = in->r;
    struct str id = acp_text(in, 0, "id");
    const char *slash = id.p ? memchr(id.p, '/', id.n) : NULL;
    size_t n = slash ? (size_t)(slash - id.p) : 0;
    if (!slash || result == UINT32_MAX || id.n < n + 4 || slash[2] != '/')
        return;
    r->task_id = (struct str){id.p, n};
    r->input_id = (struct str){slash + 3, id.n - n - 3};
    if (slash[1] == 'q')
        read_form(in, result);
    else if (slash[1] == 'a' || slash[1] == 'o')
        read_outcome(in, result, slash[1] == 'o');
    if (r->answer.p)
        r->operation = ACP_ANSWER;
}

/* --- a frame ---------------------------------------------------------------------------------- */

static bool acp_is_id(const struct js_doc *d, uint32_t node)
{
    enum js_type type = js_type(d, node);
    return type == JS_STRING || type == JS_NUMBER || type == JS_NULL;
}

static int acp_read_message(const struct acp_reader *in)
{
    const struct js_doc *d = in->doc;
    if (js_type(d, 0) != JS_OBJECT)
        return acp_wrong(in, ACP_NO_REQUEST, "a frame must be one JSON object");
    uint32_t id = js_get(d, 0, "id"), version = acp_get(in, 0, "jsonrpc", JS_STRING);
    uint32_t method = acp_get(in, 0, "method", JS_STRING);
    if (!version || !js_is(d, version, "2.0") || (id && !acp_is_id(d, id)))
        return acp_wrong(in, ACP_NO_REQUEST, "this is no message of JSON-RPC 2.0");
    if (method) {
        in->r->rpc_id = id ? acp_json(in, id) : STR_NULL;
        return acp_read_method(in, method);
    }
    if (!js_get(d, 0, "result") && !js_get(d, 0, "error"))
        return acp_wrong(in, ACP_NO_REQUEST, "\"method\" must be a string");
    acp_read_answer(in, acp_object(in, 0, "result"));
    return 0;
}

int acp_server_read(struct js_doc *doc, struct str frame, struct face_exchange *x, char why[128])
{
    struct acp_request r = {0};
    const struct acp_reader reader = {.doc = doc, .r = &r, .memory = &x->memory, .why = why};
    int code = 0;
    buf_reserve(&x->memory, 8 * frame.n + 64);
    const char *begin = x->memory.bytes;
    if (js_parse(doc, frame.p, frame.n, JS_CLIENT)) {
        code = acp_read_message(&reader);
    } else {
        snprintf(why, 128, "not JSON: %s", doc->error);
        code = ACP_PARSE;
    }
    ASSERT(x->memory.bytes == begin);
    if (!r.rpc_id.p && r.operation != ACP_CANCEL && r.operation != ACP_ANSWER)
        r.operation = ACP_NOTHING;
    struct acp_request *state =
        xcalloc(sizeof r + (acp_server_loads(&r) ? ACP_TURNS * sizeof r.turns[0] : 0));
    *state = r;
    x->state = state;
    return code;
}
