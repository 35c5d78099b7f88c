#include "proto/faces/ai_sdk.h"

#include <stdio.h>

#include "proto/faces/face_parts.h"

/* Design. The SDK's client keeps the chat itself and posts all of its messages. The last one says
 * what is wanted; for the rest, the gateway's own history is the truth. Spans are collected as
 * offsets into one buffer, because it moves while it grows. */

struct reader {
    const struct js_doc *doc;
    struct ai_sdk_request *r;
    bool is_frame;
    char *why; /* of 128 bytes */
};

static bool fail(struct reader *in, const char *why)
{
    snprintf(in->why, 128, "%s", why);
    return false;
}

static uint32_t get(const struct js_doc *d, uint32_t object, const char *key, enum js_type type)
{
    uint32_t at = js_type(d, object) == JS_OBJECT ? js_get(d, object, key) : 0;
    return at && js_type(d, at) == type ? at : 0;
}

/* Copies a string member into memory and returns its span as an offset, fixed up at the end. n is 0
 * when there is none. */
static bool keep(struct reader *in, uint32_t object, const char *key, struct str *ret)
{
    uint32_t at = get(in->doc, object, key, JS_STRING);
    if (!at)
        return false;
    size_t begin = in->r->memory.len;
    js_value(in->doc, at, &in->r->memory);
    *ret = (struct str){(const char *)begin, in->r->memory.len - begin};
    return ret->n > 0;
}

/* --- the last message ------------------------------------------------------------------------- */

static bool read_file(struct reader *in, uint32_t part, struct face_parts *parts)
{
    const struct js_doc *d = in->doc;
    const char *wrong = face_parts_url(parts, d, get(d, part, "url", JS_STRING),
                                       get(d, part, "filename", JS_STRING));
    if (wrong)
        snprintf(in->why, 128, "\"url\" of a file %s", wrong);
    return !wrong;
}

static bool read_parts(struct reader *in, uint32_t message, struct face_parts *ret)
{
    const struct js_doc *d = in->doc;
    struct buf *memory = &in->r->memory;
    size_t begin = memory->len;
    uint32_t parts = get(d, message, "parts", JS_ARRAY);
    for (uint32_t i = parts ? js_first(d, parts) : 0; parts && i < js_end(d, parts);
         i = js_next(d, i)) {
        uint32_t type = get(d, i, "type", JS_STRING), text = get(d, i, "text", JS_STRING);
        if (type && js_is(d, type, "file") && !read_file(in, i, ret))
            return false;
        if (!type || !js_is(d, type, "text") || !text)
            continue;
        if (memory->len > begin)
            buf_putc(memory, '\n');
        js_value(d, text, memory);
        face_parts_text(ret, d, text);
    }
    in->r->text = (struct str){(const char *)begin, memory->len - begin};
    begin = memory->len;
    face_parts_end(ret, memory);
    in->r->parts = (struct str){(const char *)begin, memory->len - begin};
    return in->r->text.n > 0 || ret->has_file || fail(in, "the last message has no text");
}

static bool read_text(struct reader *in, uint32_t message)
{
    struct face_parts parts = {0};
    bool good = read_parts(in, message, &parts);
    face_parts_done(&parts);
    return good;
}

static void put_key(struct reader *in, struct str message_id)
{
    struct buf *memory = &in->r->memory;
    struct str fields[] = {in->r->chat_id, message_id, in->r->text, in->r->parts};
    for (size_t i = 0; i < countof(fields); i++)
        fields[i].p = memory->bytes + (size_t)fields[i].p;
    struct buf key = {0};
    exchange_put_key(&key, "ai", fields, in->r->parts.n ? 4 : 3);
    size_t begin = memory->len;
    buf_putstr(memory, buf_str(&key));
    buf_done(&key);
    in->r->request_key = (struct str){(const char *)begin, memory->len - begin};
}

static bool read_question(struct reader *in, uint32_t message)
{
    struct str message_id;
    in->r->kind = AI_SDK_SEND;
    if (!read_text(in, message))
        return false;
    if (keep(in, message, "id", &message_id))
        put_key(in, message_id);
    return true;
}

/* An approval with its answer, or a part `data-answer` with input_id and answer. */
static bool read_answer_part(struct reader *in, uint32_t part)
{
    const struct js_doc *d = in->doc;
    struct buf *memory = &in->r->memory;
    uint32_t state = get(d, part, "state", JS_STRING), type = get(d, part, "type", JS_STRING);
    uint32_t from = 0, answer = 0;
    if (state && js_is(d, state, "approval-responded")) {
        from = get(d, part, "approval", JS_OBJECT);
        answer = from ? js_get(d, from, "approved") : 0;
        if (!answer || (js_type(d, answer) != JS_TRUE && js_type(d, answer) != JS_FALSE) ||
            !keep(in, from, "id", &in->r->input_id))
            return false;
    } else if (type && js_is(d, type, "data-answer")) {
        from = get(d, part, "data", JS_OBJECT);
        answer = from ? js_get(d, from, "answer") : 0;
        if (!answer || !keep(in, from, "input_id", &in->r->input_id))
            return false;
    } else {
        return false;
    }
    size_t begin = memory->len;
    js_copy(d, answer, memory);
    in->r->answer = (struct str){(const char *)begin, memory->len - begin};
    return true;
}

static bool read_answer(struct reader *in, uint32_t message)
{
    const struct js_doc *d = in->doc;
    bool found = false;
    in->r->kind = AI_SDK_ANSWER;
    uint32_t parts = get(d, message, "parts", JS_ARRAY);
    for (uint32_t i = parts ? js_first(d, parts) : 0; parts && i < js_end(d, parts);
         i = js_next(d, i))
        found = read_answer_part(in, i) || found; /* the last one is the newest */
    if (!found)
        return fail(in, "the last message is the assistant's, and answers no question");
    return keep(in, message, "id", &in->r->task_id) || fail(in, "the last message has no id");
}

/* `regenerate()`: the client has taken the answer out of its messages, and names it, unless it is
 * the newest. */
static bool read_regenerate(struct reader *in)
{
    in->r->kind = AI_SDK_SEND;
    in->r->regenerates = true;
    (void)keep(in, 0, "messageId", &in->r->task_id);
    return true;
}

static bool read_messages(struct reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t last = 0, messages = get(d, 0, "messages", JS_ARRAY);
    for (uint32_t i = messages ? js_first(d, messages) : 0; messages && i < js_end(d, messages);
         i = js_next(d, i))
        last = i;
    uint32_t trigger = get(d, 0, "trigger", JS_STRING);
    if (trigger && js_is(d, trigger, "regenerate-message"))
        return read_regenerate(in);
    if (!last || js_type(d, last) != JS_OBJECT)
        return fail(in, "\"messages\" must be an array that ends in a message");
    uint32_t role = get(d, last, "role", JS_STRING);
    if (role && js_is(d, role, "user"))
        return read_question(in, last);
    if (role && js_is(d, role, "assistant"))
        return read_answer(in, last);
    return fail(in, "the last message must have the role \"user\" or \"assistant\"");
}

/* --- the envelope ----------------------------------------------------------------------------- */

static bool read_kind(struct reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t type = get(d, 0, "type", JS_STRING);
    if (!in->is_frame || (type && js_is(d, type, "send")))
        return read_messages(in);
    in->r->kind = AI_SDK_RESUME;
    if (type && js_is(d, type, "resume"))
        return true;
    return fail(in, "\"type\" must be \"send\", \"resume\" or \"abort\"");
}

static bool read_envelope(struct reader *in)
{
    const struct js_doc *d = in->doc;
    uint32_t type = get(d, 0, "type", JS_STRING);
    if (in->is_frame && !keep(in, 0, "requestId", &in->r->request_id))
        return fail(in, "\"requestId\" must be a string");
    if (in->r->request_id.n > 128) {
        in->r->request_id = STR_NULL;
        return fail(in, "\"requestId\" is longer than 128 bytes");
    }
    if (in->is_frame && type && js_is(d, type, "abort")) {
        in->r->kind = AI_SDK_ABORT;
        return true;
    }
    if (!keep(in, 0, "id", &in->r->chat_id))
        return fail(in, "\"id\" must be the chat's id");
    uint32_t body = in->is_frame ? get(d, 0, "body", JS_OBJECT) : 0;
    uint32_t headers = in->is_frame ? get(d, 0, "headers", JS_OBJECT) : 0;
    if (body || !in->is_frame)
        keep(in, body, "model", &in->r->agent);
    if (headers)
        keep(in, headers, "authorization", &in->r->authorization);
    return read_kind(in);
}

static void fix(struct ai_sdk_request *r)
{
    struct str *spans[] = {&r->request_id, &r->chat_id, &r->text,          &r->request_key,
                           &r->agent,      &r->parts,   &r->authorization, &r->task_id,
                           &r->input_id,   &r->answer};
    for (size_t i = 0; i < countof(spans); i++)
        *spans[i] = spans[i]->n ? (struct str){r->memory.bytes + (size_t)spans[i]->p, spans[i]->n}
                                : STR_NULL;
}

bool ai_sdk_read(struct js_doc *doc, struct str json, bool is_frame, struct ai_sdk_request *ret,
                 char why[128])
{
    *ret = (struct ai_sdk_request){0};
    struct reader in = {.doc = doc, .r = ret, .is_frame = is_frame, .why = why};
    if (!js_parse(doc, json.p, json.n, JS_CLIENT)) {
        snprintf(why, 128, "not JSON: %s", doc->error);
        return false;
    }
    if (js_type(doc, 0) != JS_OBJECT)
        return fail(&in, "not a JSON object");
    bool good = read_envelope(&in);
    fix(ret);
    return good;
}

void ai_sdk_request_done(struct ai_sdk_request *r)
{
    buf_done(&r->memory);
}
