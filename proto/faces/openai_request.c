#include "proto/faces/openai.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/faces/face_parts.h"

/* Design. The client keeps the conversation: the last message of the user is the question, and all
 * others are the context. Among the many other members only those are examined that would lead to a
 * different answer than the client expects if they were ignored. */

struct openai_reader {
    const struct js_doc *doc;
    struct openai_request *r;
    struct openai_fault *fault;
    uint32_t question;       /* the user's last message */
    struct face_parts parts; /* of it */
};

static bool openai_fault_at(struct openai_fault *fault, const char *code, const char *param,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
static bool openai_fault_at(struct openai_fault *fault, const char *code, const char *param,
                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->message, sizeof fault->message, format, args);
    va_end(args);
    snprintf(fault->param, sizeof fault->param, "%s", param);
    fault->code = code;
    fault->status = 400;
    return false;
}

static bool is_of(const struct js_doc *d, uint32_t node, enum js_type type)
{
    return node && js_type(d, node) == type;
}

/* 0: absent or null. */
static uint32_t openai_member(const struct js_doc *d, uint32_t object, const char *key)
{
    uint32_t at = js_get(d, object, key);
    return is_of(d, at, JS_NULL) ? 0 : at;
}

/* --- messages --------------------------------------------------------------------------------- */

/* An image or a file of the question; those of other messages are not told. */
static bool read_file(struct openai_reader *in, uint32_t part, uint32_t type, const char *where,
                      bool is_question)
{
    const struct js_doc *d = in->doc;
    bool is_image = js_is(d, type, "image_url");
    uint32_t file = openai_member(d, part, is_image ? "image_url" : "file");
    uint32_t url = 0, name = 0;
    if (is_of(d, file, JS_OBJECT)) {
        url = openai_member(d, file, is_image ? "url" : "file_data");
        name = is_image ? 0 : openai_member(d, file, "filename");
    }
    const char *wrong = is_question
                            ? face_parts_url(&in->parts, d, is_of(d, url, JS_STRING) ? url : 0,
                                             is_of(d, name, JS_STRING) ? name : 0)
                            : NULL;
    return !wrong || openai_fault_at(in->fault, "unsupported_content", where, "%s of %s %s",
                                     is_image ? "the url" : "file_data", where, wrong);
}

static bool read_part(struct openai_reader *in, uint32_t part, const char *where, bool is_question,
                      struct buf *text)
{
    const struct js_doc *d = in->doc;
    bool is_object = js_type(d, part) == JS_OBJECT;
    uint32_t type = is_object ? openai_member(d, part, "type") : 0;
    uint32_t said = is_object ? openai_member(d, part, "text") : 0;
    if (is_of(d, type, JS_STRING) && (js_is(d, type, "image_url") || js_is(d, type, "file")))
        return read_file(in, part, type, where, is_question);
    if (!is_of(d, type, JS_STRING) || !js_is(d, type, "text"))
        return openai_fault_at(in->fault, "unsupported_content", where,
                               "only parts of type text, image_url and file are accepted");
    if (!is_of(d, said, JS_STRING))
        return openai_fault_at(in->fault, "invalid_type", where, "a part of type text has no text");
    if (text->len)
        buf_putc(text, '\n');
    js_value(d, said, text);
    if (is_question)
        face_parts_text(&in->parts, d, said);
    return true;
}

static bool read_content(struct openai_reader *in, uint32_t message, size_t n, struct buf *text)
{
    const struct js_doc *d = in->doc;
    char where[64];
    snprintf(where, sizeof where, "messages[%zu].content", n);
    uint32_t content = openai_member(d, message, "content");
    if (is_of(d, content, JS_STRING)) {
        js_value(d, content, text);
        return true;
    }
    if (!is_of(d, content, JS_ARRAY))
        return openai_fault_at(in->fault, "invalid_type", where,
                               "%s must be a string or an array of parts", where);
    for (uint32_t i = js_first(d, content); i < js_end(d, content); i = js_next(d, i))
        if (!read_part(in, i, where, message == in->question, text))
            return false;
    return true;
}

static const char *role_of(const struct js_doc *d, uint32_t message)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    uint32_t role = js_type(d, message) == JS_OBJECT ? openai_member(d, message, "role") : 0;
    for (size_t i = 0; i < countof(roles); i++)
        if (is_of(d, role, JS_STRING) && js_is(d, role, roles[i]))
            return roles[i];
    return NULL;
}

static bool has_calls(const struct js_doc *d, uint32_t message)
{
    return is_of(d, openai_member(d, message, "tool_calls"), JS_ARRAY) ||
           openai_member(d, message, "function_call");
}

static bool openai_put_context(struct openai_reader *in, uint32_t message, size_t n,
                               const char *role)
{
    struct buf *out = &in->r->context, text = {0};
    bool good = read_content(in, message, n, &text);
    if (out->len > 1)
        buf_putc(out, ',');
    buf_putc(out, '{');
    js_put_field(out, "role", str_of(role));
    js_put_field(out, "content", text.len ? buf_str(&text) : STR(""));
    buf_putc(out, '}');
    buf_done(&text);
    return good;
}

static bool read_message(struct openai_reader *in, uint32_t message, size_t n)
{
    char where[64];
    snprintf(where, sizeof where, "messages[%zu]", n);
    const char *role = role_of(in->doc, message);
    if (!role)
        return openai_fault_at(in->fault, "invalid_value", where,
                               "the role of %s must be system, developer, user or assistant",
                               where);
    if (has_calls(in->doc, message))
        return openai_fault_at(
            in->fault, "unsupported_content", where,
            "%s calls tools: the agent runs its own, and accepts none from the client", where);
    if (message != in->question)
        return openai_put_context(in, message, n, role);
    if (!read_content(in, message, n, &in->r->message))
        return false;
    return in->r->message.len > 0 || in->parts.has_file ||
           openai_fault_at(in->fault, "invalid_value", where, "%s, the question, has no text",
                           where);
}

/* After the question only instructions may follow. */
static bool find_question(struct openai_reader *in, uint32_t messages)
{
    const struct js_doc *d = in->doc;
    const char *last = NULL;
    for (uint32_t i = js_first(d, messages); i < js_end(d, messages); i = js_next(d, i)) {
        const char *role = role_of(d, i);
        if (role && strcmp(role, "user") == 0)
            in->question = i;
        if (!role || strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0)
            last = role ? role : "tool";
    }
    if (in->question && last && strcmp(last, "user") == 0)
        return true;
    return openai_fault_at(
        in->fault, "invalid_value", "messages",
        "the last message must be the user's: an answer is not continued, and the client "
        "runs no tools");
}

static bool openai_messages(struct openai_reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t messages = openai_member(d, 0, "messages");
    size_t n = 0;
    if (!is_of(d, messages, JS_ARRAY) || js_first(d, messages) == js_end(d, messages))
        return openai_fault_at(in->fault, "missing_required_parameter", "messages",
                               "messages must be an array of at least one message");
    if (!find_question(in, messages))
        return false;
    buf_putc(&in->r->context, '[');
    for (uint32_t i = js_first(d, messages); i < js_end(d, messages); i = js_next(d, i))
        if (!read_message(in, i, n++))
            return false;
    buf_putc(&in->r->context, ']');
    return in->r->context.len <= MAX_CONTEXT ||
           openai_fault_at(in->fault, "context_length_exceeded", "messages",
                           "the messages before the last one have more than %d bytes", MAX_CONTEXT);
}

/* --- the other members ------------------------------------------------------------------------ */

static bool asks_for_json(const struct js_doc *d)
{
    uint32_t format = openai_member(d, 0, "response_format");
    uint32_t type = is_of(d, format, JS_OBJECT) ? openai_member(d, format, "type") : 0;
    return format && !(is_of(d, type, JS_STRING) && js_is(d, type, "text"));
}

static bool asks_for_audio(const struct js_doc *d)
{
    uint32_t modalities = openai_member(d, 0, "modalities");
    for (uint32_t i = is_of(d, modalities, JS_ARRAY) ? js_first(d, modalities) : 0;
         i && i < js_end(d, modalities); i = js_next(d, i))
        if (js_type(d, i) != JS_STRING || !js_is(d, i, "text"))
            return true;
    return openai_member(d, 0, "audio");
}

static bool has_tools(const struct js_doc *d, const char *key)
{
    uint32_t tools = openai_member(d, 0, key), choice = openai_member(d, 0, "tool_choice");
    bool is_none = is_of(d, choice, JS_STRING) && js_is(d, choice, "none");
    return is_of(d, tools, JS_ARRAY) && js_first(d, tools) < js_end(d, tools) && !is_none;
}

static bool refuse_what_is_not_done(struct openai_reader *in)
{
    const struct js_doc *d = in->doc;
    static const char unsupported[] = "unsupported_parameter";
    uint32_t n = openai_member(d, 0, "n");
    int64_t choices = 1;
    for (size_t i = 0; i < 2; i++) {
        const char *key = i ? "functions" : "tools";
        if (has_tools(d, key))
            return openai_fault_at(
                in->fault, unsupported, key,
                "%s that the client runs are not accepted: the agent has its own tools", key);
    }
    if (n && (!js_int(d, n, &choices) || choices != 1))
        return openai_fault_at(in->fault, unsupported, "n", "n must be 1: there is one answer");
    if (asks_for_audio(d))
        return openai_fault_at(in->fault, unsupported, "modalities", "answers are only text");
    if (asks_for_json(d))
        return openai_fault_at(
            in->fault, unsupported, "response_format",
            "response_format must be text: agents choose the form of their answers");
    if (is_of(d, openai_member(d, 0, "logprobs"), JS_TRUE))
        return openai_fault_at(in->fault, unsupported, "logprobs", "logprobs are not available");
    return true;
}

static bool read_flag(struct openai_reader *in, uint32_t object, const char *key, bool *ret)
{
    uint32_t at = openai_member(in->doc, object, key);
    *ret = is_of(in->doc, at, JS_TRUE);
    return !at || *ret || js_type(in->doc, at) == JS_FALSE ||
           openai_fault_at(in->fault, "invalid_type", key, "%s must be true or false", key);
}

static bool read_openai_name(struct openai_reader *in, const char *key, struct buf *ret)
{
    uint32_t at = openai_member(in->doc, 0, key);
    if (is_of(in->doc, at, JS_STRING))
        js_value(in->doc, at, ret);
    return !at || ret->len > 0 ||
           openai_fault_at(in->fault, "invalid_type", key, "%s must be a string", key);
}

static bool read_rest(struct openai_reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t options = openai_member(d, 0, "stream_options"),
             metadata = openai_member(d, 0, "metadata");
    if (is_of(d, metadata, JS_OBJECT))
        js_copy(d, metadata, &in->r->metadata);
    return read_openai_name(in, "model", &in->r->agent) &&
           read_openai_name(in, "conversation", &in->r->conversation) &&
           read_flag(in, 0, "stream", &in->r->stream) &&
           (!is_of(d, options, JS_OBJECT) ||
            read_flag(in, options, "include_usage", &in->r->wants_usage));
}

bool openai_read(struct js_doc *doc, struct str json, struct openai_request *ret,
                 struct openai_fault *fault)
{
    *ret = (struct openai_request){0};
    *fault = (struct openai_fault){0};
    struct openai_reader in = {.doc = doc, .r = ret, .fault = fault};
    if (!js_parse(doc, json.p, json.n, JS_CLIENT))
        return openai_fault_at(fault, "invalid_json", "", "the body is not JSON: %s", doc->error);
    if (js_type(doc, 0) != JS_OBJECT)
        return openai_fault_at(fault, "invalid_json", "", "the body is not a JSON object");
    bool good = refuse_what_is_not_done(&in) && read_rest(&in) && openai_messages(&in);
    face_parts_end(&in.parts, &ret->parts);
    face_parts_done(&in.parts);
    return good;
}

void openai_request_done(struct openai_request *r)
{
    buf_done(&r->message);
    buf_done(&r->parts);
    buf_done(&r->context);
    buf_done(&r->agent);
    buf_done(&r->conversation);
    buf_done(&r->metadata);
}
