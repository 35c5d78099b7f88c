/* A request of the Responses API: messages in the form of model.h become its input items. */
#include "gateway/models/model_parts.h"
#include "gateway/models/model_responses.h"
#include "gateway/models/model_talk.h"

static const struct model_output_form responses_form = {"responses", "function_call", "call_id"};

static void begin_item(struct buf *out)
{
    buf_puts(out, out->len && out->bytes[out->len - 1] == '[' ? "{" : ",{");
}

static void responses_put_message(struct buf *out, const char *role, struct str text)
{
    begin_item(out);
    js_put_field(out, "role", str_of(role));
    js_put_field(out, "content", text);
    buf_putc(out, '}');
}

static void put_node(struct buf *out, const char *key, const struct js_doc *doc, uint32_t node)
{
    js_put_key(out, key);
    if (node)
        js_copy(doc, node, out);
    else
        buf_puts(out, "\"\"");
}

static void put_calls(const struct js_doc *doc, uint32_t calls, struct buf *out)
{
    for (uint32_t i = js_first(doc, calls); i < js_end(doc, calls); i = js_next(doc, i)) {
        begin_item(out);
        js_put_field(out, "type", STR("function_call"));
        put_node(out, "call_id", doc, model_talk_of_call(doc, i, "id"));
        put_node(out, "name", doc, model_talk_of_call(doc, i, "name"));
        put_node(out, "arguments", doc, model_talk_of_call(doc, i, "arguments"));
        buf_putc(out, '}');
    }
}

/* Its items as they came, or its text and calls. */
static void responses_put_assistant(const struct js_doc *doc, uint32_t message, struct buf *out)
{
    uint32_t items = model_talk_output(doc, message, &responses_form);
    uint32_t calls = model_talk_calls(doc, message);
    struct buf text = {0};
    if (items) {
        struct str raw = js_raw(doc, items);
        if (out->bytes[out->len - 1] != '[')
            buf_putc(out, ',');
        buf_put(out, raw.p + 1, raw.n - 2);
        return;
    }
    model_talk_put_text(doc, message, "content", &text);
    if (text.len)
        responses_put_message(out, "assistant", buf_str(&text));
    if (calls)
        put_calls(doc, calls, out);
    buf_done(&text);
}

static void responses_put_result(const struct js_doc *doc, uint32_t message, struct buf *out)
{
    uint32_t parts = model_parts_of(doc, message);
    struct buf text = {0};
    begin_item(out);
    js_put_field(out, "type", STR("function_call_output"));
    put_node(out, "call_id", doc, js_get(doc, message, "tool_call_id"));
    if (parts) {
        js_put_raw(out, "output", STR("["));
        model_parts_put(doc, parts, model_part_put_responses, out);
        buf_putc(out, ']');
    } else {
        model_talk_put_text(doc, message, "content", &text);
        js_put_field(out, "output", buf_str(&text));
    }
    buf_putc(out, '}');
    buf_done(&text);
}

static void responses_put_user(const struct js_doc *doc, uint32_t message, struct buf *out)
{
    uint32_t parts = model_parts_of(doc, message);
    struct buf text = {0};
    if (parts) {
        begin_item(out);
        buf_puts(out, "\"role\":\"user\",\"content\":[");
        model_parts_put(doc, parts, model_part_put_responses, out);
        buf_puts(out, "]}");
        return;
    }
    model_talk_put_text(doc, message, "content", &text);
    responses_put_message(out, "user", buf_str(&text));
    buf_done(&text);
}

static void responses_put_input(const struct js_doc *doc, struct buf *out, struct buf *system)
{
    buf_putc(out, '[');
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        switch (model_talk_role(doc, i)) {
        case MODEL_SYSTEM: model_talk_put_text(doc, i, "content", system); break;
        case MODEL_ASSISTANT: responses_put_assistant(doc, i, out); break;
        case MODEL_TOOL: responses_put_result(doc, i, out); break;
        case MODEL_USER: responses_put_user(doc, i, out); break;
        }
    }
    buf_putc(out, ']');
}

/* {"type":"function","name":…} for {"type":"function","function":{"name":…}} */
static void responses_put_tools(struct str tools, struct buf *out)
{
    struct js_doc doc = {0};
    bool good = js_parse(&doc, tools.p, tools.n, JS_OURS) && js_type(&doc, 0) == JS_ARRAY;
    buf_putc(out, '[');
    for (uint32_t i = good ? js_first(&doc, 0) : 0; good && i < js_end(&doc, 0);
         i = js_next(&doc, i)) {
        struct str function = js_raw(&doc, js_get(&doc, i, "function"));
        begin_item(out);
        js_put_field(out, "type", STR("function"));
        js_put_raw(out, "strict", STR("false"));
        buf_putc(out, ',');
        buf_put(out, function.p + 1, function.n - 1); /* its members, and the bracket */
    }
    buf_putc(out, ']');
    js_done(&doc);
}

static void responses_put_options(const struct stream_settings *s, struct buf *out)
{
    js_put_bool(out, "stream", true);
    js_put_bool(out, "store", false);
    if (s->max_tokens)
        js_put_int(out, "max_output_tokens", s->max_tokens);
    if (!s->effort)
        return;
    js_put_raw(out, "reasoning", STR("{"));
    js_put_field(out, "effort", str_of(s->effort));
    js_put_field(out, "summary", STR("auto"));
    buf_putc(out, '}');
}

bool responses_put_request(const struct stream_settings *s, const struct model_request *request,
                           struct buf *out)
{
    struct js_doc doc = {0};
    struct buf system = {0}, input = {0};
    bool good = js_parse(&doc, request->messages.p, request->messages.n, JS_OURS) &&
                js_type(&doc, 0) == JS_ARRAY;
    if (good) {
        responses_put_input(&doc, &input, &system);
        buf_putc(out, '{');
        js_put_field(out, "model", str_of(s->model));
        if (system.len)
            js_put_field(out, "instructions", buf_str(&system));
        js_put_raw(out, "input", buf_str(&input));
        if (request->tools.n > 2) {
            js_put_key(out, "tools");
            responses_put_tools(request->tools, out);
        }
        responses_put_options(s, out);
    }
    js_done(&doc);
    buf_done(&system);
    buf_done(&input);
    return good;
}
