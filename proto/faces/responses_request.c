#include <stdio.h>

#include "proto/faces/face_parts.h"
#include "proto/faces/responses.h"

/* Design. OpenAI's clients send the question as a string, or as a row of items, of which the last
 * message is the question. The items before it are context, unless the request continues a
 * conversation of the gateway. The row may contain items of earlier answers: an application appends
 * `response.output` to its input. */

struct reader {
    const struct js_doc *doc;
    struct responses_request *r;
    struct face_parts parts; /* of the question */
    char *why;               /* of 128 bytes */
};

static bool fail_reading(struct reader *in, const char *why)
{
    snprintf(in->why, 128, "%s", why);
    return false;
}

static uint32_t typed_member(const struct js_doc *d, uint32_t object, const char *key,
                             enum js_type type)
{
    uint32_t at = js_type(d, object) == JS_OBJECT ? js_get(d, object, key) : 0;
    return at && js_type(d, at) == type ? at : 0;
}

static bool is_there(const struct js_doc *d, const char *key)
{
    uint32_t at = js_get(d, 0, key);
    return at && js_type(d, at) != JS_NULL;
}

/* An optional member that is a string. */
static bool keep(struct reader *in, const char *key, struct buf *to)
{
    uint32_t at = typed_member(in->doc, 0, key, JS_STRING);
    if (at)
        js_value(in->doc, at, to);
    else if (is_there(in->doc, key))
        return false;
    return true;
}

/* --- input ------------------------------------------------------------------------------------ */

static bool is_text_part(const struct js_doc *d, uint32_t type)
{
    return js_is(d, type, "input_text") || js_is(d, type, "output_text") || js_is(d, type, "text");
}

/* An image or a file of the question; those of other messages are not told. */
static bool read_file(struct reader *in, uint32_t part, bool is_image, bool is_question)
{
    const struct js_doc *d = in->doc;
    uint32_t url = typed_member(d, part, is_image ? "image_url" : "file_url", JS_STRING);
    if (!is_image && !url)
        url = typed_member(d, part, "file_data", JS_STRING);
    const char *wrong = is_question ? face_parts_url(&in->parts, d, url,
                                                     typed_member(d, part, "filename", JS_STRING))
                                    : NULL;
    if (wrong)
        snprintf(in->why, 128, "\"%s\" %s", is_image ? "image_url" : "file_data", wrong);
    return !wrong;
}

/* The text of a message's content: a string, or parts that are joined by newlines. */
static bool read_content(struct reader *in, uint32_t message, bool is_question, struct buf *to)
{
    const struct js_doc *d = in->doc;
    uint32_t text = typed_member(d, message, "content", JS_STRING);
    uint32_t parts = typed_member(d, message, "content", JS_ARRAY);
    if (text)
        js_value(d, text, to);
    if (!text && !parts)
        return fail_reading(in, "\"content\" of a message must be a string or an array");
    size_t begin = to->len;
    for (uint32_t i = parts ? js_first(d, parts) : 0; parts && i < js_end(d, parts);
         i = js_next(d, i)) {
        uint32_t type = typed_member(d, i, "type", JS_STRING),
                 piece = typed_member(d, i, "text", JS_STRING);
        if (type && js_is(d, type, "refusal"))
            continue;
        bool is_image = type && js_is(d, type, "input_image");
        if (is_image || (type && js_is(d, type, "input_file"))) {
            if (!read_file(in, i, is_image, is_question))
                return false;
            continue;
        }
        if (!type || !is_text_part(d, type) || !piece)
            return fail_reading(
                in, "the content of a message must be input_text, input_image or input_file");
        if (to->len > begin)
            buf_putc(to, '\n');
        js_value(d, piece, to);
        if (is_question)
            face_parts_text(&in->parts, d, piece);
    }
    return true;
}

static void put_context(struct responses_request *r, struct str role, struct str content)
{
    buf_puts(&r->context, r->context.len ? ",{" : "[{");
    js_put_field(&r->context, "role", role);
    js_put_field(&r->context, "content", content);
    buf_putc(&r->context, '}');
}

static bool is_message(const struct js_doc *d, uint32_t item)
{
    uint32_t type = typed_member(d, item, "type", JS_STRING);
    return type ? js_is(d, type, "message") : typed_member(d, item, "role", JS_STRING) != 0;
}

/* Other items of an answer than messages tell the agent nothing new. */
static bool check_item(struct reader *in, uint32_t item)
{
    static const char *const of_answers[] = {"reasoning", "mcp_call", "mcp_approval_request",
                                             "mcp_approval_response"};
    uint32_t type = typed_member(in->doc, item, "type", JS_STRING);
    for (size_t i = 0; type && i < countof(of_answers); i++)
        if (js_is(in->doc, type, of_answers[i]))
            return true;
    return fail_reading(in, "\"input\" has an item of a type that this gateway does not take");
}

static bool read_input_message(struct reader *in, uint32_t item, bool is_last)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const struct js_doc *d = in->doc;
    uint32_t role = typed_member(d, item, "role", JS_STRING);
    size_t i = 0;
    while (role && i < countof(roles) && !js_is(d, role, roles[i]))
        i++;
    if (!role || i == countof(roles))
        return fail_reading(in, "\"role\" must be user, assistant, system or developer");
    if (is_last && i != 0)
        return fail_reading(in, "the last message of \"input\" must have the role \"user\"");
    if (is_last)
        return read_content(in, item, true, &in->r->message);
    struct buf content = {0};
    bool good = read_content(in, item, false, &content);
    if (good)
        put_context(in->r, str_of(roles[i]), buf_str(&content));
    buf_done(&content);
    return good;
}

static bool read_approval(struct reader *in, uint32_t item)
{
    const struct js_doc *d = in->doc;
    uint32_t id = typed_member(d, item, "approval_request_id", JS_STRING);
    struct buf text = {0};
    in->r->is_answer = true;
    in->r->approves = typed_member(d, item, "approve", JS_TRUE) != 0;
    if (!in->r->approves && !typed_member(d, item, "approve", JS_FALSE))
        return fail_reading(in, "\"approve\" must be true or false");
    if (id)
        js_value(d, id, &text);
    bool good = responses_read_approval_id(buf_str(&text), &in->r->input_id);
    buf_done(&text);
    return good || fail_reading(in, "\"approval_request_id\" must be the id of an "
                                    "mcp_approval_request");
}

static bool read_items(struct reader *in, uint32_t items)
{
    const struct js_doc *d = in->doc;
    uint32_t last = 0, end = 0;
    for (uint32_t i = js_first(d, items); i < js_end(d, items); i = js_next(d, i)) {
        end = i;
        if (is_message(d, i))
            last = i;
    }
    uint32_t type = end ? typed_member(d, end, "type", JS_STRING) : 0;
    if (type && js_is(d, type, "mcp_approval_response"))
        return read_approval(in, end);
    if (!last)
        return fail_reading(in, "\"input\" must end in a message of the user");
    for (uint32_t i = js_first(d, items); i < js_end(d, items); i = js_next(d, i))
        if (is_message(d, i) ? !read_input_message(in, i, i == last) : !check_item(in, i))
            return false;
    return true;
}

static bool read_input(struct reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t text = typed_member(d, 0, "input", JS_STRING),
             items = typed_member(d, 0, "input", JS_ARRAY);
    struct buf instructions = {0};
    bool good = keep(in, "instructions", &instructions);
    if (good && instructions.len)
        put_context(in->r, STR("system"), buf_str(&instructions));
    buf_done(&instructions);
    if (!good)
        return fail_reading(in, "\"instructions\" must be a string");
    if (text)
        js_value(d, text, &in->r->message);
    else if (!items)
        return fail_reading(in, "\"input\" must be a string or an array of items");
    else if (!read_items(in, items))
        return false;
    if (in->r->context.len)
        buf_putc(&in->r->context, ']');
    return in->r->is_answer || in->r->message.len > 0 || in->parts.has_file ||
           fail_reading(in, "the last message of \"input\" has no text");
}

/* --- the rest --------------------------------------------------------------------------------- */

/* A string, or an object with an id. */
static bool read_conversation(struct reader *in)
{
    uint32_t object = typed_member(in->doc, 0, "conversation", JS_OBJECT);
    uint32_t id = object ? typed_member(in->doc, object, "id", JS_STRING) : 0;
    if (id)
        js_value(in->doc, id, &in->r->conversation);
    else if (!keep(in, "conversation", &in->r->conversation))
        return fail_reading(in, "\"conversation\" must be an id, or an object with an \"id\"");
    if (!keep(in, "previous_response_id", &in->r->previous))
        return fail_reading(in, "\"previous_response_id\" must be a string");
    if (in->r->conversation.len && in->r->previous.len)
        return fail_reading(in, "\"conversation\" and \"previous_response_id\" exclude each other");
    if (in->r->is_answer && !in->r->previous.len)
        return fail_reading(in, "an approval needs the \"previous_response_id\" that asked for it");
    if (in->r->conversation.len || in->r->previous.len)
        buf_clear(&in->r->context); /* the gateway's own history is the context */
    return true;
}

static bool read_flag(struct reader *in, const char *key, bool *ret)
{
    *ret = typed_member(in->doc, 0, key, JS_TRUE) != 0;
    return *ret || typed_member(in->doc, 0, key, JS_FALSE) || !is_there(in->doc, key);
}

static bool read_rest(struct reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t tools = typed_member(d, 0, "tools", JS_ARRAY),
             metadata = typed_member(d, 0, "metadata", JS_OBJECT);
    if (tools && js_first(d, tools) < js_end(d, tools))
        return fail_reading(
            in, "\"tools\" are not accepted: the agents of this gateway have their own");
    if (!keep(in, "model", &in->r->agent))
        return fail_reading(in, "\"model\" must be the name of an agent");
    if (metadata)
        js_copy(d, metadata, &in->r->metadata);
    else if (is_there(d, "metadata"))
        return fail_reading(in, "\"metadata\" must be an object");
    if (!read_flag(in, "stream", &in->r->stream))
        return fail_reading(in, "\"stream\" must be true or false");
    if (!read_flag(in, "background", &in->r->background))
        return fail_reading(in, "\"background\" must be true or false");
    return true;
}

bool responses_read(struct js_doc *doc, struct str json, struct responses_request *ret,
                    char why[128])
{
    *ret = (struct responses_request){0};
    struct reader in = {.doc = doc, .r = ret, .why = why};
    if (!js_parse(doc, json.p, json.n, JS_CLIENT)) {
        snprintf(why, 128, "not JSON: %s", doc->error);
        return false;
    }
    if (js_type(doc, 0) != JS_OBJECT)
        return fail_reading(&in, "not a JSON object");
    bool good = read_input(&in) && read_conversation(&in) && read_rest(&in);
    face_parts_end(&in.parts, &ret->parts);
    face_parts_done(&in.parts);
    return good;
}

void responses_request_done(struct responses_request *r)
{
    buf_done(&r->message);
    buf_done(&r->parts);
    buf_done(&r->context);
    buf_done(&r->agent);
    buf_done(&r->conversation);
    buf_done(&r->previous);
    buf_done(&r->metadata);
    buf_done(&r->input_id);
}
