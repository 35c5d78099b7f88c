/* The reader of each kind of field, and what it expects. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/parts.h"
#include "proto/request_fields.h"
#include "proto/rights.h"
#include "proto/ulid.h"
#include "proto/webhook.h"

bool request_fail(struct request_fault *fault, enum error code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault->code = code;
    vsnprintf(fault->message, sizeof fault->message, format, args);
    va_end(args);
    return false;
}

struct str request_keep_str(struct decoding *d, struct str value)
{
    size_t from = d->block.len;
    buf_putstr(&d->block, value);
    ASSERT(d->block.bytes == d->to->memory);
    return (struct str){d->block.bytes + from, d->block.len - from};
}

struct str request_keep(struct decoding *d, uint32_t node)
{
    size_t from = d->block.len;
    js_value(d->doc, node, &d->block);
    ASSERT(d->block.bytes == d->to->memory);
    return (struct str){d->block.bytes + from, d->block.len - from};
}

/* --- one reader per kind: false for a bad value ----------------------------------------------- */

static void *member_of(struct decoding *d, const struct field *f)
{
    return (char *)d->to + f->offset;
}

static bool is_string(struct decoding *d, uint32_t node)
{
    return js_type(d->doc, node) == JS_STRING;
}

static bool field_read_text(struct decoding *d, const struct field *f, uint32_t node)
{
    if (!is_string(d, node))
        return false;
    struct str value = request_keep(d, node);
    *(struct str *)member_of(d, f) = value;
    return value.n >= f->min && value.n <= f->max;
}

/* An array of parts: request.c has left room for its texts beside it. */
static bool request_read_message(struct decoding *d, const struct field *f, uint32_t node)
{
    if (is_string(d, node))
        return field_read_text(d, f, node);
    size_t from = d->block.len;
    if (!parts_read(d->doc, node, &d->block))
        return false;
    ASSERT(d->block.bytes == d->to->memory);
    struct str parts = {d->block.bytes + from, d->block.len - from};
    if (!parts_are_plain(d->doc, node))
        d->to->parts = parts;
    from = d->block.len;
    parts_put_text(d->doc, node, &d->block);
    ASSERT(d->block.bytes == d->to->memory);
    d->to->message = (struct str){d->block.bytes + from, d->block.len - from};
    return true;
}

static bool read_name(struct decoding *d, const struct field *f, uint32_t node)
{
    return field_read_text(d, f, node) && task_name_is_valid(*(struct str *)member_of(d, f));
}

static bool read_bool(struct decoding *d, const struct field *f, uint32_t node)
{
    enum js_type type = js_type(d->doc, node);
    *(bool *)member_of(d, f) = type == JS_TRUE;
    return type == JS_TRUE || type == JS_FALSE;
}

static bool read_integer(struct decoding *d, const struct field *f, uint32_t node)
{
    int64_t value;
    if (!js_int(d->doc, node, &value) || value < 0)
        return false;
    *(uint64_t *)member_of(d, f) = (uint64_t)value;
    return (uint64_t)value >= f->min && (uint64_t)value <= f->max;
}

static bool read_limit(struct decoding *d, const struct field *f, uint32_t node)
{
    int64_t value;
    if (!js_int(d->doc, node, &value) || value < (int64_t)f->min || value > (int64_t)f->max)
        return false;
    d->to->limit = (uint32_t)value;
    return true;
}

static bool read_conversation_id(struct decoding *d, const struct field *f, uint32_t node)
{
    if (!is_string(d, node))
        return false;
    struct str value = request_keep(d, node);
    *(struct str *)member_of(d, f) = value;
    return conversation_id_is_valid(value);
}

static bool read_ulid(struct decoding *d, const struct field *f, uint32_t node)
{
    if (!is_string(d, node))
        return false;
    struct str value = request_keep(d, node);
    *(struct str *)member_of(d, f) = value;
    return ulid_is_valid(value);
}

static bool read_metadata(struct decoding *d, const struct field *f, uint32_t node)
{
    if (js_type(d->doc, node) != JS_OBJECT)
        return false;
    size_t from = d->block.len;
    js_copy(d->doc, node, &d->block);
    ASSERT(d->block.bytes == d->to->memory);
    struct str *object = member_of(d, f);
    *object = (struct str){d->block.bytes + from, d->block.len - from};
    return object->n <= f->max;
}

static bool read_maybe(struct decoding *d, const struct field *f, uint32_t node)
{
    enum js_type type = js_type(d->doc, node);
    *(enum maybe *)member_of(d, f) = type == JS_TRUE ? MAYBE_YES : MAYBE_NO;
    return type == JS_TRUE || type == JS_FALSE;
}

static bool is_count(const struct js_doc *doc, uint32_t node)
{
    int64_t n;
    return js_type(doc, node) == JS_NUMBER && js_int(doc, node, &n) && n >= 1 &&
           n <= MAX_SAFE_INTEGER;
}

static bool read_budget(struct decoding *d, const struct field *f, uint32_t node)
{
    const struct js_doc *doc = d->doc;
    (void)f;
    if (js_type(doc, node) != JS_OBJECT)
        return false;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i + 1))
        if (!is_count(doc, i + 1) ||
            !(js_is(doc, i, "tokens") || js_is(doc, i, "tool_calls") || js_is(doc, i, "seconds")))
            return false;
    size_t from = d->block.len;
    js_copy(doc, node, &d->block);
    ASSERT(d->block.bytes == d->to->memory);
    d->to->budget = (struct str){d->block.bytes + from, d->block.len - from};
    return true;
}

static bool read_context(struct decoding *d, const struct field *f, uint32_t node)
{
    return request_read_context(d, node) && d->to->context.n <= f->max;
}

const char *const request_busy_words[BUSY_INTERRUPT + 1] = {
    [BUSY_PARALLEL] = "parallel",
    [BUSY_REJECT] = "reject",
    [BUSY_ENQUEUE] = "enqueue",
    [BUSY_INTERRUPT] = "interrupt",
};

static bool read_when_busy(struct decoding *d, const struct field *f, uint32_t node)
{
    (void)f;
    for (size_t i = 0; i < countof(request_busy_words); i++) {
        if (js_is(d->doc, node, request_busy_words[i])) {
            d->to->when_busy = (enum when_busy)i;
            return true;
        }
    }
    return false;
}

static bool read_status(struct decoding *d, const struct field *f, uint32_t node)
{
    (void)f;
    if (!is_string(d, node))
        return false;
    d->to->has_status = status_find(request_keep(d, node), &d->to->status);
    return d->to->has_status;
}

/* The client's description of itself is for people who read the wire; it is not kept. */
static bool read_client(struct decoding *d, const struct field *f, uint32_t node)
{
    (void)f;
    if (js_type(d->doc, node) != JS_OBJECT)
        return false;
    return true;
}

static bool read_keepalive(struct decoding *d, const struct field *f, uint32_t node)
{
    (void)f;
    d->to->keepalive_data = js_is(d->doc, node, "data");
    return d->to->keepalive_data;
}

static bool read_answer(struct decoding *d, const struct field *f, uint32_t node)
{
    (void)f;
    switch (js_type(d->doc, node)) {
    case JS_TRUE: d->to->answer = ANSWER_TRUE; return true;
    case JS_FALSE: d->to->answer = ANSWER_FALSE; return true;
    case JS_STRING:
        d->to->answer = ANSWER_TEXT;
        d->to->answer_text = request_keep(d, node);
        return true;
    case JS_NULL:
    case JS_NUMBER:
    case JS_ARRAY:
    case JS_OBJECT: return false;
    }
    UNREACHABLE();
}

/* The array of spans is at the front of the block, where request.c has left room. */
static bool read_task_ids(struct decoding *d, const struct field *f, uint32_t node)
{
    const struct js_doc *doc = d->doc;
    if (js_type(doc, node) != JS_ARRAY || doc->nodes[node].kids > f->max)
        return false;
    d->to->task_ids = (void *)d->to->memory;
    for (uint32_t i = js_first(doc, node); i < js_end(doc, node); i = js_next(doc, i)) {
        if (!is_string(d, i))
            return false;
        d->to->task_ids[d->to->n_task_ids++] = request_keep(d, i);
    }
    return true;
}

static bool read_webhook(struct decoding *d, const struct field *f, uint32_t node)
{
    uint32_t id = 0;
    size_t from = d->block.len;
    (void)f;
    if (!webhook_read(d->doc, node, &d->block, &id))
        return false;
    ASSERT(d->block.bytes == d->to->memory);
    d->to->webhook = (struct str){d->block.bytes + from, d->block.len - from};
    if (id)
        d->to->webhook_id = request_keep(d, id);
    return true;
}

static bool read_lines(struct decoding *d, const struct field *f, uint32_t node)
{
    if (js_type(d->doc, node) != JS_ARRAY)
        return false;
    for (uint32_t i = js_first(d->doc, node); i < js_end(d->doc, node); i = js_next(d->doc, i))
        if (js_type(d->doc, i) != JS_OBJECT)
            return false;
    size_t from = d->block.len;
    js_copy(d->doc, node, &d->block);
    ASSERT(d->block.bytes == d->to->memory);
    *(struct str *)member_of(d, f) = (struct str){d->block.bytes + from, d->block.len - from};
    return true;
}

static bool read_rights(struct decoding *d, const struct field *f, uint32_t node)
{
    (void)f;
    return rights_read_words(d->doc, node, &d->to->rights);
}

static const struct {
    bool (*read)(struct decoding *d, const struct field *f, uint32_t node);
    const char *expects; /* NULL: request_expect() builds it from min and max */
} kinds[] = {
    [KIND_TEXT] = {field_read_text, NULL},
    [KIND_MESSAGE] = {request_read_message, PARTS_EXPECTED},
    [KIND_NAME] = {read_name, NULL},
    [KIND_BOOL] = {read_bool, "must be true or false"},
    [KIND_MAYBE] = {read_maybe, "must be true or false"},
    [KIND_LINES] = {read_lines, "must be an array of objects"},
    [KIND_RIGHTS] = {read_rights, "must be an array of read, ask, answer or cancel"},
    [KIND_INTEGER] = {read_integer, NULL},
    [KIND_LIMIT] = {read_limit, NULL},
    [KIND_CONVERSATION_ID] = {read_conversation_id,
                              "must be a string of 1 to 128 letters, digits, '.', '_' and '-', "
                              "the first a letter or digit"},
    [KIND_ULID] = {read_ulid, "must be an id of 26 characters from the gateway"},
    [KIND_METADATA] = {read_metadata, NULL},
    [KIND_BUDGET] = {read_budget,
                     "must be an object with tokens, tool_calls or seconds, each 1 or more"},
    [KIND_CONTEXT] = {read_context, NULL},
    [KIND_WHEN_BUSY] = {read_when_busy, "must be one of parallel, reject, enqueue, interrupt"},
    [KIND_STATUS] = {read_status, "must be one of pending, running, completed, failed, cancelled"},
    [KIND_CLIENT] = {read_client, "must be an object"},
    [KIND_KEEPALIVE] = {read_keepalive, "must be \"data\" when given"},
    [KIND_ANSWER] = {read_answer, "must be true, false or a string"},
    [KIND_TASK_IDS] = {read_task_ids, NULL},
    [KIND_WEBHOOK] = {read_webhook,
                      "must be an object: \"url\" of http or https, maybe \"webhook_id\", "
                      "\"headers\" (8 at most) and \"form\" (holdfast or a2a)"},
};

static void expect_text(const struct field *f, char *text, size_t size)
{
    if (f->max < ANY_SIZE && f->min > 0)
        snprintf(text, size, "must be a string of %" PRIu64 " to %" PRIu64 " bytes", f->min,
                 f->max);
    else if (f->max < ANY_SIZE)
        snprintf(text, size, "must be a string of at most %" PRIu64 " bytes", f->max);
    else
        snprintf(text, size, "must be a string%s", f->min > 0 ? " of 1 byte or more" : "");
}

/* The field's expectation, as the end of a sentence. */
void request_expect(const struct field *f, char *text, size_t size)
{
    switch (f->kind) {
    case KIND_TEXT: expect_text(f, text, size); return;
    case KIND_NAME:
        snprintf(text, size,
                 "must be a string of %" PRIu64 " to %" PRIu64
                 " bytes, not one of parent, self, all, broadcast",
                 f->min, f->max);
        return;
    case KIND_INTEGER:
    case KIND_LIMIT:
        snprintf(text, size, "must be an integer from %" PRIu64 " to %" PRIu64, f->min, f->max);
        return;
    case KIND_METADATA:
        snprintf(text, size, "must be an object of at most %" PRIu64 " bytes", f->max);
        return;
    case KIND_CONTEXT:
        snprintf(text, size,
                 "must be an array of at most %" PRIu64
                 " bytes of messages: role (system, developer, user, assistant) and content, a "
                 "string",
                 f->max);
        return;
    case KIND_TASK_IDS:
        snprintf(text, size, "must be an array of at most %" PRIu64 " strings", f->max);
        return;
    case KIND_MESSAGE:
    case KIND_BOOL:
    case KIND_BUDGET:
    case KIND_CONVERSATION_ID:
    case KIND_ULID:
    case KIND_WHEN_BUSY:
    case KIND_STATUS:
    case KIND_CLIENT:
    case KIND_KEEPALIVE:
    case KIND_WEBHOOK:
    case KIND_MAYBE:
    case KIND_LINES:
    case KIND_RIGHTS:
    case KIND_ANSWER: snprintf(text, size, "%s", kinds[f->kind].expects); return;
    }
    UNREACHABLE();
}

bool request_read_kind(struct decoding *d, const struct field *f, uint32_t node)
{
    return kinds[f->kind].read(d, f, node);
}
