#include "proto/mcp/mcp_message.h"

#include "proto/forms/say.h"
#include "proto/str.h"

#define CAPABILITIES "{\"elicitation\":{\"form\":{},\"url\":{}}"
#define TASKS "\"extensions\":{\"" MCP_META "tasks\":{}}"

/* Newest first. */
static const char *const legacy_versions[] = {MCP_LEGACY_VERSION, "2025-06-18", "2025-03-26",
                                              "2024-11-05"};

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_type(const struct js_doc *doc, uint32_t node, enum js_type type)
{
    return node && js_type(doc, node) == type;
}

static void read_error(const struct js_doc *doc, uint32_t error, struct mcp_message *m)
{
    uint32_t code = js_get(doc, error, "code"), text = js_get(doc, error, "message");
    m->kind = MCP_ERROR;
    if (!code || !js_int(doc, code, &m->code))
        m->code = 0;
    m->text = is_type(doc, text, JS_STRING) ? text : 0;
    m->data = js_get(doc, error, "data");
}

void mcp_message_read(const struct js_doc *doc, uint32_t node, struct mcp_message *ret)
{
    *ret = (struct mcp_message){0};
    if (js_type(doc, node) != JS_OBJECT)
        return;
    uint32_t id = js_get(doc, node, "id"), method = js_get(doc, node, "method"),
             error = js_get(doc, node, "error"), result = js_get(doc, node, "result"),
             params = js_get(doc, node, "params");
    if (is_type(doc, method, JS_STRING)) {
        bool asks = id && js_type(doc, id) != JS_NULL;
        ret->kind = asks ? MCP_REQUEST : MCP_NOTIFICATION;
        ret->own_id = asks ? id : 0;
        ret->method = method;
        ret->params = is_type(doc, params, JS_OBJECT) ? params : 0;
        return;
    }
    if (!id || !js_int(doc, id, &ret->id) || ret->id < 0) /* a text is no id of ours */
        ret->id = 0;
    if (is_type(doc, error, JS_OBJECT)) {
        read_error(doc, error, ret);
    } else if (is_type(doc, result, JS_OBJECT)) {
        ret->kind = MCP_RESULT;
        ret->result = result;
    }
}

bool mcp_list_has(const struct js_doc *doc, uint32_t list, const char *text)
{
    if (!is_type(doc, list, JS_ARRAY))
        return false;
    for (uint32_t i = js_first(doc, list); i < js_end(doc, list); i = js_next(doc, i))
        if (js_type(doc, i) == JS_STRING && js_is(doc, i, text))
            return true;
    return false;
}

bool mcp_is_legacy_version(const struct js_doc *doc, uint32_t node)
{
    for (size_t i = 0; is_type(doc, node, JS_STRING) && i < countof(legacy_versions); i++)
        if (js_is(doc, node, legacy_versions[i]))
            return true;
    return false;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_client(struct buf *out, const char *key, const char *version)
{
    js_put_raw(out, key, STR("{"));
    js_put_field(out, "name", STR("holdfast"));
    js_put_field(out, "version", str_of(version));
    buf_putc(out, '}');
}

static void put_meta(struct buf *out, const struct mcp_request_form *f)
{
    if (f->era == MCP_LEGACY && !f->wants_progress && !f->trace)
        return;
    js_put_raw(out, "_meta", STR("{"));
    if (f->wants_progress)
        js_put_int(out, "progressToken", f->id);
    if (f->trace)
        trace_put_members(out, f->trace);
    if (f->era == MCP_MODERN) {
        js_put_field(out, MCP_META "protocolVersion", STR(MCP_MODERN_VERSION));
        js_put_raw(out, MCP_META "clientCapabilities", STR(CAPABILITIES "," TASKS "}"));
        put_client(out, MCP_META "clientInfo", f->version);
    }
    buf_putc(out, '}');
}

static void put_members(struct buf *out, struct str members)
{
    if (members.n && out->bytes[out->len - 1] != '{')
        buf_putc(out, ',');
    buf_putstr(out, members);
}

static void begin_call(struct buf *out, const char *method)
{
    js_put_field(out, "method", str_of(method));
    js_put_raw(out, "params", STR("{"));
}

void mcp_put_request(struct buf *out, const struct mcp_request_form *form)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\"");
    js_put_int(out, "id", form->id);
    begin_call(out, form->method);
    put_members(out, form->params);
    put_meta(out, form);
    buf_puts(out, "}}");
}

void mcp_put_initialize(struct buf *out, int64_t id, const char *version)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\"");
    js_put_int(out, "id", id);
    begin_call(out, "initialize");
    js_put_field(out, "protocolVersion", STR(MCP_LEGACY_VERSION));
    js_put_raw(out, "capabilities", STR(CAPABILITIES "}"));
    put_client(out, "clientInfo", version);
    buf_puts(out, "}}");
}

void mcp_put_notification(struct buf *out, const char *method, struct str params)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\"");
    js_put_field(out, "method", str_of(method));
    if (params.n) {
        js_put_raw(out, "params", STR("{"));
        buf_putstr(out, params);
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

void mcp_put_answer(struct buf *out, struct str own_id, struct str result)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\"");
    js_put_raw(out, "id", own_id);
    js_put_raw(out, "result", result);
    buf_putc(out, '}');
}

void mcp_put_refusal(struct buf *out, struct str own_id, int code, const char *why)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\"");
    js_put_raw(out, "id", own_id);
    js_put_raw(out, "error", STR("{"));
    js_put_int(out, "code", code);
    js_put_field(out, "message", str_of(why));
    buf_puts(out, "}}");
}

/* --- headers ---------------------------------------------------------------------------------- */

static bool is_plain_value(struct str value)
{
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < ' ' || (unsigned char)value.p[i] > '~')
            return false;
    return value.n && !is_blank(value.p[0]) && !is_blank(value.p[value.n - 1]) &&
           !str_begins(value, STR("=?base64?"));
}

static void put_base64(struct buf *out, struct str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t left = bytes.n - i;
        uint32_t three = (uint32_t)(unsigned char)bytes.p[i] << 16;
        if (left > 1)
            three |= (uint32_t)(unsigned char)bytes.p[i + 1] << 8;
        if (left > 2)
            three |= (unsigned char)bytes.p[i + 2];
        buf_putc(out, digits[three >> 18]);
        buf_putc(out, digits[three >> 12 & 63]);
        buf_putc(out, left > 1 ? digits[three >> 6 & 63] : '=');
        buf_putc(out, left > 2 ? digits[three & 63] : '=');
    }
}

void mcp_put_header_value(struct buf *out, struct str value)
{
    if (is_plain_value(value)) {
        buf_putstr(out, value);
        return;
    }
    buf_puts(out, "=?base64?");
    put_base64(out, value);
    buf_puts(out, "?=");
}
