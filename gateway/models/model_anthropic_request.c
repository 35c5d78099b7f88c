/* A request of the Messages API: messages in the form of model.h become its content blocks.
 *
 * Users and assistants take turns here, and results of tools are the user's: messages of one role
 * become one.  No text may be empty. */
#include "gateway/models/model_anthropic.h"
#include "gateway/models/model_parts.h"
#include "gateway/models/model_talk.h"
#include "proto/str.h"

#define NO_TEXT "[This message is empty.]"

static const struct model_output_form anthropic_form = {"anthropic", "tool_use", "id"};

struct messages {
    const struct js_doc *doc;
    struct buf out, system;
    const char *role; /* of the message that is open; NULL: none is */
};

static void open_message(struct messages *m, const char *role)
{
    if (m->role == role) {
        buf_putc(&m->out, ',');
        return;
    }
    if (m->role)
        buf_puts(&m->out, "]},");
    buf_putc(&m->out, '{');
    js_put_field(&m->out, "role", str_of(role));
    js_put_raw(&m->out, "content", STR("["));
    m->role = role;
}

static void close_message(struct messages *m)
{
    if (m->role)
        buf_puts(&m->out, "]}");
    m->role = NULL;
}

static void put_text_block(struct messages *m, struct str text)
{
    buf_putc(&m->out, '{');
    js_put_field(&m->out, "type", STR("text"));
    js_put_field(&m->out, "text", str_is_blank(text) ? STR(NO_TEXT) : text);
    buf_putc(&m->out, '}');
}

static const char user[] = "user", assistant[] = "assistant";

static void put_user(struct messages *m, uint32_t message)
{
    uint32_t parts = model_parts_of(m->doc, message);
    struct buf text = {0};
    open_message(m, user);
    if (parts) {
        model_parts_put(m->doc, parts, model_part_put_anthropic, &m->out);
        return;
    }
    model_talk_put_text(m->doc, message, "content", &text);
    put_text_block(m, buf_str(&text));
    buf_done(&text);
}

/* Its arguments are an object, which the calls have checked. */
static void put_call(struct messages *m, uint32_t call)
{
    uint32_t arguments = model_talk_of_call(m->doc, call, "arguments");
    struct buf input = {0};
    buf_putc(&m->out, '{');
    js_put_field(&m->out, "type", STR("tool_use"));
    static const char *const names[] = {"id", "name"};
    for (size_t i = 0; i < countof(names); i++) {
        uint32_t node = model_talk_of_call(m->doc, call, names[i]);
        js_put_key(&m->out, names[i]);
        if (node)
            js_copy(m->doc, node, &m->out);
        else
            buf_puts(&m->out, "\"\"");
    }
    if (arguments)
        js_value(m->doc, arguments, &input);
    js_put_raw(&m->out, "input", input.len ? buf_str(&input) : STR("{}"));
    buf_putc(&m->out, '}');
    buf_done(&input);
}

/* Its blocks as they came, or its text and calls. */
static void anthropic_put_assistant(struct messages *m, uint32_t message)
{
    uint32_t items = model_talk_output(m->doc, message, &anthropic_form);
    uint32_t calls = model_talk_calls(m->doc, message);
    struct buf text = {0};
    model_talk_put_text(m->doc, message, "content", &text);
    open_message(m, assistant);
    if (items) {
        struct str raw = js_raw(m->doc, items);
        buf_put(&m->out, raw.p + 1, raw.n - 2);
    } else if (!calls || !str_is_blank(buf_str(&text))) {
        put_text_block(m, buf_str(&text));
    }
    for (uint32_t i = calls && !items ? js_first(m->doc, calls) : 0;
         calls && !items && i < js_end(m->doc, calls); i = js_next(m->doc, i)) {
        if (m->out.bytes[m->out.len - 1] != '[')
            buf_putc(&m->out, ',');
        put_call(m, i);
    }
    buf_done(&text);
}

static void anthropic_put_result(struct messages *m, uint32_t message)
{
    uint32_t id = js_get(m->doc, message, "tool_call_id");
    uint32_t parts = model_parts_of(m->doc, message);
    struct buf text = {0};
    model_talk_put_text(m->doc, message, "content", &text);
    open_message(m, user);
    buf_putc(&m->out, '{');
    js_put_field(&m->out, "type", STR("tool_result"));
    js_put_key(&m->out, "tool_use_id");
    if (id)
        js_copy(m->doc, id, &m->out);
    else
        buf_puts(&m->out, "\"\"");
    if (parts) {
        js_put_raw(&m->out, "content", STR("["));
        model_parts_put(m->doc, parts, model_part_put_anthropic, &m->out);
        buf_putc(&m->out, ']');
    } else if (!str_is_blank(buf_str(&text))) {
        js_put_field(&m->out, "content", buf_str(&text));
    }
    buf_putc(&m->out, '}');
    buf_done(&text);
}

static void anthropic_put_messages(struct messages *m)
{
    for (uint32_t i = js_first(m->doc, 0); i < js_end(m->doc, 0); i = js_next(m->doc, i)) {
        switch (model_talk_role(m->doc, i)) {
        case MODEL_SYSTEM: model_talk_put_text(m->doc, i, "content", &m->system); break;
        case MODEL_USER: put_user(m, i); break;
        case MODEL_ASSISTANT: anthropic_put_assistant(m, i); break;
        case MODEL_TOOL: anthropic_put_result(m, i); break;
        }
    }
    close_message(m);
}

/* {"name":…,"description":…,"input_schema":…} for {"type":"function","function":{…}} */
static void anthropic_put_tools(struct str tools, struct buf *out)
{
    struct js_doc doc = {0};
    bool good = js_parse(&doc, tools.p, tools.n, JS_OURS) && js_type(&doc, 0) == JS_ARRAY;
    buf_putc(out, '[');
    for (uint32_t i = good ? js_first(&doc, 0) : 0; good && i < js_end(&doc, 0);
         i = js_next(&doc, i)) {
        static const char *const from[] = {"name", "description", "parameters"};
        static const char *const to[] = {"name", "description", "input_schema"};
        uint32_t function = js_get(&doc, i, "function");
        buf_puts(out, i > js_first(&doc, 0) ? ",{" : "{");
        for (size_t k = 0; function && k < countof(from); k++) {
            uint32_t node = js_get(&doc, function, from[k]);
            if (!node)
                continue;
            js_put_key(out, to[k]);
            js_copy(&doc, node, out);
        }
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    js_done(&doc);
}

/* A budget of thoughts is part of the answer's tokens. */
static void put_thinking(const struct stream_settings *s, struct buf *out)
{
    uint32_t max = s->max_tokens ? s->max_tokens : ANTHROPIC_MAX_TOKENS + s->thinking_tokens;
    js_put_int(out, "max_tokens", max);
    js_put_bool(out, "stream", true);
    if (s->thinking_tokens) {
        js_put_raw(out, "thinking", STR("{\"type\":\"enabled\""));
        js_put_int(out, "budget_tokens", s->thinking_tokens);
        buf_putc(out, '}');
    } else if (s->effort) {
        js_put_raw(out, "thinking", STR("{\"type\":\"adaptive\"}"));
        js_put_raw(out, "output_config", STR("{"));
        js_put_field(out, "effort", str_of(s->effort));
        buf_putc(out, '}');
    }
}

bool anthropic_put_request(const struct stream_settings *s, const struct model_request *request,
                           struct buf *out)
{
    struct js_doc doc = {0};
    struct messages m = {.doc = &doc};
    bool good = js_parse(&doc, request->messages.p, request->messages.n, JS_OURS) &&
                js_type(&doc, 0) == JS_ARRAY;
    if (good) {
        buf_putc(&m.out, '[');
        anthropic_put_messages(&m);
        buf_putc(&m.out, ']');
        buf_putc(out, '{');
        js_put_field(out, "model", str_of(s->model));
        if (!str_is_blank(buf_str(&m.system)))
            js_put_field(out, "system", buf_str(&m.system));
        js_put_raw(out, "messages", buf_str(&m.out));
        if (request->tools.n > 2) {
            js_put_key(out, "tools");
            anthropic_put_tools(request->tools, out);
        }
        put_thinking(s, out);
    }
    js_done(&doc);
    buf_done(&m.out);
    buf_done(&m.system);
    return good;
}
