#include "gateway/models/model_talk.h"

#include "gateway/models/model_parts.h"
#include "proto/parts.h"

enum model_role model_talk_role(const struct js_doc *doc, uint32_t message)
{
    static const char *const names[] = {"system", "user", "assistant", "tool"};
    uint32_t role = js_type(doc, message) == JS_OBJECT ? js_get(doc, message, "role") : 0;
    for (size_t i = 0; role && js_type(doc, role) == JS_STRING && i < countof(names); i++)
        if (js_is(doc, role, names[i]))
            return (enum model_role)i;
    return MODEL_USER;
}

static void put_parts_text(const struct js_doc *doc, uint32_t array, struct buf *out)
{
    for (uint32_t i = js_first(doc, array); i < js_end(doc, array); i = js_next(doc, i)) {
        uint32_t text = js_type(doc, i) == JS_OBJECT ? js_get(doc, i, "text") : 0;
        if (text && js_type(doc, text) == JS_STRING)
            js_value(doc, text, out);
    }
}

void model_talk_put_text(const struct js_doc *doc, uint32_t message, const char *name,
                         struct buf *out)
{
    uint32_t node = js_type(doc, message) == JS_OBJECT ? js_get(doc, message, name) : 0;
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, out);
    else if (node && js_type(doc, node) == JS_ARRAY)
        put_parts_text(doc, node, out);
}

uint32_t model_talk_calls(const struct js_doc *doc, uint32_t message)
{
    uint32_t calls = js_get(doc, message, "tool_calls");
    return calls && js_type(doc, calls) == JS_ARRAY ? calls : 0;
}

uint32_t model_talk_of_call(const struct js_doc *doc, uint32_t call, const char *name)
{
    uint32_t function = js_type(doc, call) == JS_OBJECT ? js_get(doc, call, "function") : 0;
    bool is_id = strcmp(name, "id") == 0;
    uint32_t from = is_id ? call : function;
    uint32_t node = function ? js_get(doc, from, name) : 0;
    return node && js_type(doc, node) == JS_STRING ? node : 0;
}

/* --- output ----------------------------------------------------------------------------------- */

/* The id of the next call among the items, and the place after it; 0 for none. */
static uint32_t next_id(const struct js_doc *doc, uint32_t items, uint32_t *at,
                        const struct model_output_form *form)
{
    while (*at < js_end(doc, items)) {
        uint32_t item = *at;
        uint32_t type = js_type(doc, item) == JS_OBJECT ? js_get(doc, item, "type") : 0;
        *at = js_next(doc, item);
        if (!type || js_type(doc, type) != JS_STRING || !js_is(doc, type, form->type))
            continue;
        uint32_t id = js_get(doc, item, form->id);
        return id && js_type(doc, id) == JS_STRING ? id : 0;
    }
    return 0;
}

static bool is_same_text(const struct js_doc *doc, uint32_t a, uint32_t b)
{
    struct buf text = {0};
    js_value(doc, a, &text);
    buf_putc(&text, '\0');
    bool same = js_is(doc, b, text.bytes);
    buf_done(&text);
    return same;
}

static bool has_calls_of(const struct js_doc *doc, uint32_t items, uint32_t message,
                         const struct model_output_form *form)
{
    uint32_t calls = model_talk_calls(doc, message), at = js_first(doc, items);
    for (uint32_t i = calls ? js_first(doc, calls) : 0; calls && i < js_end(doc, calls);
         i = js_next(doc, i)) {
        uint32_t id = next_id(doc, items, &at, form), said = model_talk_of_call(doc, i, "id");
        if (!id || !said || !is_same_text(doc, id, said))
            return false;
    }
    return next_id(doc, items, &at, form) == 0;
}

uint32_t model_talk_output(const struct js_doc *doc, uint32_t message,
                           const struct model_output_form *form)
{
    uint32_t output = js_get(doc, message, MODEL_OUTPUT);
    if (!output || js_type(doc, output) != JS_OBJECT)
        return 0;
    uint32_t api = js_get(doc, output, "api"), items = js_get(doc, output, "items");
    if (!api || js_type(doc, api) != JS_STRING || !js_is(doc, api, form->api) || !items ||
        js_type(doc, items) != JS_ARRAY)
        return 0;
    return has_calls_of(doc, items, message, form) ? items : 0;
}

void model_talk_put_output(struct buf *out, const char *api, struct str items)
{
    js_put_key(out, MODEL_OUTPUT);
    buf_putc(out, '{');
    js_put_field(out, "api", str_of(api));
    js_put_raw(out, "items", items);
    buf_putc(out, '}');
}

/* Images of results wait for the user's next message: a tool's has none there. */
static void put_plain_result(const struct js_doc *doc, uint32_t message, uint32_t parts,
                             struct buf *out, struct buf *images)
{
    struct buf text = {0};
    for (uint32_t i = js_first(doc, parts); i < js_end(doc, parts); i = js_next(doc, i)) {
        if (js_get(doc, i, "text")) {
            buf_puts(&text, text.len ? "\n" : "");
            js_value(doc, js_get(doc, i, "text"), &text);
        } else {
            buf_puts(images, images->len ? "," : "");
            model_part_put_chat(doc, i, images);
        }
    }
    buf_puts(out, "{\"role\":\"tool\",\"tool_call_id\":");
    js_copy(doc, js_get(doc, message, "tool_call_id"), out);
    js_put_field(out, "content", buf_str(&text));
    buf_putc(out, '}');
    buf_done(&text);
}

/* The content of a user's message, behind the images of results; parts is 0 for a text. */
static void put_plain_content(const struct js_doc *doc, uint32_t content, uint32_t parts,
                              struct buf *images, struct buf *out)
{
    buf_putc(out, '[');
    buf_putstr(out, buf_str(images));
    if (images->len && content)
        buf_putc(out, ',');
    if (parts)
        model_parts_put(doc, parts, model_part_put_chat, out);
    else if (content) {
        buf_puts(out, "{\"type\":\"text\",\"text\":");
        js_copy(doc, content, out);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    buf_clear(images);
}

static void put_plain_message(const struct js_doc *doc, uint32_t message, struct buf *images,
                              struct buf *out)
{
    enum model_role role = model_talk_role(doc, message);
    uint32_t parts = model_parts_of(doc, message);
    bool is_shown = role == MODEL_USER && images->len;
    if (role == MODEL_TOOL && parts) {
        put_plain_result(doc, message, parts, out, images);
        return;
    }
    buf_putc(out, '{');
    for (uint32_t i = js_first(doc, message); i < js_end(doc, message); i = js_next(doc, i + 1)) {
        if (js_is(doc, i, MODEL_OUTPUT))
            continue;
        if (out->bytes[out->len - 1] != '{')
            buf_putc(out, ',');
        js_copy(doc, i, out);
        buf_putc(out, ':');
        if (i + 1 == parts || (is_shown && js_is(doc, i, "content")))
            put_plain_content(doc, i + 1, parts, images, out);
        else
            js_copy(doc, i + 1, out);
    }
    buf_putc(out, '}');
}

/* A user's message of their own, where none follows. */
static void put_plain_images(struct buf *images, struct buf *out)
{
    if (!images->len)
        return;
    buf_puts(out, "{\"role\":\"user\",\"content\":[");
    buf_puts(out, "{\"type\":\"text\",\"text\":\"" MODEL_IMAGES "\"},");
    buf_putstr(out, buf_str(images));
    buf_puts(out, "]}");
    buf_clear(images);
}

static void put_plain_talk(const struct js_doc *doc, struct buf *out)
{
    struct buf images = {0};
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        bool is_object = js_type(doc, i) == JS_OBJECT;
        enum model_role role = model_talk_role(doc, i);
        if (i > js_first(doc, 0))
            buf_putc(out, ',');
        if (images.len && role != MODEL_TOOL && role != MODEL_USER) {
            put_plain_images(&images, out);
            buf_putc(out, ',');
        }
        if (is_object)
            put_plain_message(doc, i, &images, out);
        else
            js_copy(doc, i, out);
    }
    if (images.len)
        buf_putc(out, ',');
    put_plain_images(&images, out);
    buf_done(&images);
}

void model_talk_put_plain(struct buf *out, struct str messages)
{
    struct js_doc doc = {0};
    bool has_output =
        memmem(messages.p, messages.n, "\"" MODEL_OUTPUT "\":", sizeof MODEL_OUTPUT + 2) != NULL;
    if ((!has_output && !parts_have_file(messages)) ||
        !js_parse(&doc, messages.p, messages.n, JS_OURS) || js_type(&doc, 0) != JS_ARRAY) {
        buf_putstr(out, messages);
        js_done(&doc);
        return;
    }
    buf_putc(out, '[');
    put_plain_talk(&doc, out);
    buf_putc(out, ']');
    js_done(&doc);
}
