/* An agent's card: its description, its address, and the required token. */
#include "proto/faces/a2a.h"

static void put_agent_text(struct buf *out, const struct js_doc *doc, uint32_t agent,
                           const char *member)
{
    uint32_t at = js_get(doc, agent, member);
    if (at && js_type(doc, at) == JS_STRING)
        js_value(doc, at, out);
}

static uint32_t find_agent(const struct js_doc *doc, struct str name)
{
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        uint32_t is_default = js_get(doc, i, "default");
        struct buf value = {0};
        put_agent_text(&value, doc, i, "name");
        bool found = name.n ? str_eq(buf_str(&value), name) : js_type(doc, is_default) == JS_TRUE;
        buf_done(&value);
        if (found)
            return i;
    }
    return 0;
}

static void put_interface(struct buf *out, struct str url, const char *binding)
{
    buf_putc(out, '{');
    js_put_field(out, "url", url);
    js_put_field(out, "protocolBinding", str_of(binding));
    buf_puts(out, ",\"protocolVersion\":\"1.0\"}");
}

static void put_interfaces(struct buf *out, struct str base, struct str name)
{
    struct buf url = {0};
    buf_putstr(&url, base);
    buf_puts(&url, "/v1/a2a/");
    buf_putstr(&url, name);
    js_put_key(out, "supportedInterfaces");
    buf_putc(out, '[');
    put_interface(out, buf_str(&url), "JSONRPC");
    buf_putc(out, ',');
    put_interface(out, buf_str(&url), "HTTP+JSON");
    buf_putc(out, ']');
    buf_done(&url);
}

static void put_card(struct buf *out, const struct js_doc *doc, uint32_t agent, struct str base,
                     bool pushes)
{
    struct buf name = {0}, description = {0};
    put_agent_text(&name, doc, agent, "name");
    put_agent_text(&description, doc, agent, "description");
    buf_putc(out, '{');
    js_put_field(out, "name", buf_str(&name));
    js_put_field(out, "description", buf_str(&description));
    js_put_field(out, "version", STR("1.0"));
    put_interfaces(out, base, buf_str(&name));
    js_put_raw(out, "capabilities", STR("{\"streaming\":true"));
    js_put_bool(out, "pushNotifications", pushes);
    buf_puts(out, ",\"extendedAgentCard\":false}");
    js_put_raw(out, "securitySchemes",
               STR("{\"bearer\":{\"httpAuthSecurityScheme\":{\"scheme\":\"Bearer\"}}}"));
    js_put_raw(out, "securityRequirements", STR("[{\"schemes\":{\"bearer\":{\"list\":[]}}}]"));
    js_put_raw(out, "defaultInputModes", STR("[\"text/plain\"]"));
    js_put_raw(out, "defaultOutputModes", STR("[\"text/plain\"]"));
    js_put_key(out, "skills");
    buf_puts(out, "[{");
    js_put_field(out, "id", buf_str(&name));
    js_put_field(out, "name", buf_str(&name));
    js_put_field(out, "description", buf_str(&description));
    js_put_raw(out, "tags", STR("[]"));
    uint32_t examples = js_get(doc, agent, "examples");
    if (examples) {
        js_put_key(out, "examples");
        js_copy(doc, examples, out);
    }
    buf_puts(out, "}]}");
    buf_done(&name);
    buf_done(&description);
}

enum face_next a2a_card(struct face_exchange *x, const struct face_input *in)
{
    const struct a2a_request *r = x->state;
    bool good = js_parse(in->doc, in->agents.p, in->agents.n, JS_OURS);
    uint32_t agent = good && js_type(in->doc, 0) == JS_ARRAY ? find_agent(in->doc, r->agent) : 0;
    if (!agent)
        return a2a_fail(x, A2A_NO_METHOD, "there is no such agent");
    buf_clear(&x->reply);
    put_card(&x->reply, in->doc, agent, r->base, in->takes_webhooks);
    x->status = 200;
    return FACE_REPLY;
}
