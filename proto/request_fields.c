#include "proto/request_fields.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/parts.h"
#include "proto/schedule.h"
#include "proto/ulid.h"
#include "proto/webhook.h"

const char *const request_busy_words[BUSY_INTERRUPT + 1] = {
    [BUSY_PARALLEL] = "parallel",
    [BUSY_REJECT] = "reject",
    [BUSY_ENQUEUE] = "enqueue",
    [BUSY_INTERRUPT] = "interrupt",
};

#define AT(member) .offset = offsetof(struct request, member)
#define REQUIRED .required = true
#define OPTIONAL .required = false
#define ANY_SIZE UINT64_MAX /* bounded by the message's own limit */

/* Rows that several verbs share. */
#define CONVERSATION_ID "conversation_id", KIND_CONVERSATION_ID, REQUIRED, AT(conversation_id)
#define LIMIT "limit", KIND_LIMIT, OPTIONAL, .min = 1, .max = LIST_MAX, AT(limit)

static const struct request_field hello_fields[] = {
    {"token", KIND_TEXT, OPTIONAL, .max = ANY_SIZE, AT(token)},
    {"client", KIND_CLIENT, OPTIONAL},
    {"keepalive", KIND_KEEPALIVE, OPTIONAL},
};
static const struct request_field chat_fields[] = {
    {"message", KIND_MESSAGE, REQUIRED, .min = 1, .max = ANY_SIZE, AT(message)},
    {"conversation_id", KIND_CONVERSATION_ID, OPTIONAL, AT(conversation_id)},
    {"agent", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_NAME, AT(agent)},
    {"request_key", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_REQUEST_KEY, AT(request_key)},
    {"background", KIND_BOOL, OPTIONAL, AT(background)},
    {"name", KIND_NAME, OPTIONAL, .min = 1, .max = MAX_NAME, AT(name)},
    {"description", KIND_TEXT, OPTIONAL, .max = MAX_DESCRIPTION, AT(description)},
    {"notify_on_complete", KIND_BOOL, OPTIONAL, AT(notify_on_complete)},
    {"when_busy", KIND_WHEN_BUSY, OPTIONAL},
    {"metadata", KIND_METADATA, OPTIONAL, .max = MAX_METADATA, AT(metadata)},
    {"budget", KIND_BUDGET, OPTIONAL},
    {"context", KIND_CONTEXT, OPTIONAL, .max = MAX_CONTEXT},
    {"unlisted", KIND_BOOL, OPTIONAL, AT(unlisted)},
    {"webhook", KIND_WEBHOOK, OPTIONAL},
    {"reply_to", KIND_ULID, OPTIONAL, AT(reply_to)},
    {"edit", KIND_ULID, OPTIONAL, AT(edit)},
    {"regenerate", KIND_ULID, OPTIONAL, AT(regenerate)},
};
static const struct request_field branch_fields[] = {
    {CONVERSATION_ID},
    {"message_id", KIND_ULID, REQUIRED, AT(message_id)},
};
static const struct request_field resume_fields[] = {
    {"after", KIND_INTEGER, OPTIONAL, .max = MAX_SAFE_INTEGER, AT(after)},
    {"coalesce", KIND_BOOL, OPTIONAL, AT(coalesce)},
};
static const struct request_field cancel_fields[] = {{"tree", KIND_BOOL, OPTIONAL, AT(tree)}};
static const struct request_field send_fields[] = {
    {"content", KIND_TEXT, REQUIRED, .max = ANY_SIZE, AT(content)},
};
static const struct request_field respond_fields[] = {
    {"input_id", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_INPUT_ID, AT(input_id)},
    {"answer", KIND_ANSWER, REQUIRED},
};
static const struct request_field webhook_fields[] = {{"webhook", KIND_WEBHOOK, REQUIRED}};
static const struct request_field webhook_delete_fields[] = {
    {"webhook_id", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_WEBHOOK_ID, AT(webhook_id)},
};
static const struct request_field open_fields[] = {
    {CONVERSATION_ID},
    {LIMIT},
    {"follow", KIND_BOOL, OPTIONAL, AT(follow)},
};
static const struct request_field conversation_fields[] = {{CONVERSATION_ID}};
static const struct request_field tasks_fields[] = {
    {CONVERSATION_ID},
    {"status", KIND_STATUS, OPTIONAL},
    {"turns", KIND_BOOL, OPTIONAL, AT(turns)},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct request_field list_fields[] = {
    {CONVERSATION_ID},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct request_field history_fields[] = {
    {CONVERSATION_ID},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
    {"all", KIND_BOOL, OPTIONAL, AT(all)},
};
static const struct request_field conversations_fields[] = {
    {LIMIT},
    {"before", KIND_CONVERSATION_ID, OPTIONAL, AT(before)},
};
static const struct request_field title_fields[] = {
    {CONVERSATION_ID},
    {"title", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_TITLE, AT(title)},
};
#define TIMES                                                                                     \
    {"not_before", KIND_INTEGER, OPTIONAL, .min = 1, .max = MAX_SAFE_INTEGER, AT(not_before)},    \
        {"cron", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_CRON, AT(cron)},                       \
        {"time_zone", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_ZONE, AT(time_zone)},             \
        {"every_s", KIND_INTEGER, OPTIONAL, .min = MIN_EVERY_S, .max = MAX_EVERY_S, AT(every_s)}, \
        {"catch_up", KIND_MAYBE, OPTIONAL, AT(catch_up)},                                         \
    {                                                                                             \
        "paused", KIND_MAYBE, OPTIONAL, AT(paused)                                                \
    }
static const struct request_field schedule_fields[] = {
    {"chat", KIND_METADATA, REQUIRED, .max = MAX_SCHEDULED, AT(chat)},
    {"conversation_id", KIND_CONVERSATION_ID, OPTIONAL, AT(conversation_id)},
    TIMES,
};
#define SCHEDULE_ID "schedule_id", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_NAME, AT(schedule_id)
static const struct request_field reschedule_fields[] = {
    {SCHEDULE_ID},
    {"chat", KIND_METADATA, OPTIONAL, .max = MAX_SCHEDULED, AT(chat)},
    TIMES,
};
static const struct request_field unschedule_fields[] = {{SCHEDULE_ID}};
static const struct request_field schedules_fields[] = {
    {"conversation_id", KIND_CONVERSATION_ID, OPTIONAL, AT(conversation_id)},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct request_field ack_fields[] = {
    {CONVERSATION_ID},
    {"task_ids", KIND_TASK_IDS, REQUIRED, .max = MAX_ACK_IDS},
};

static const struct {
    const struct request_field *fields;
    size_t n;
} verbs[N_VERBS] = {
#define FIELDS(table) .fields = (table), .n = countof(table)
    [VERB_HELLO] = {FIELDS(hello_fields)},
    [VERB_CHAT] = {FIELDS(chat_fields)},
    [VERB_RESUME] = {FIELDS(resume_fields)},
    [VERB_CANCEL] = {FIELDS(cancel_fields)},
    [VERB_CANCEL_ALL] = {FIELDS(conversation_fields)},
    [VERB_SEND] = {FIELDS(send_fields)},
    [VERB_RESPOND] = {FIELDS(respond_fields)},
    [VERB_WEBHOOK] = {FIELDS(webhook_fields)},
    [VERB_WEBHOOK_DELETE] = {FIELDS(webhook_delete_fields)},
    [VERB_OPEN] = {FIELDS(open_fields)},
    [VERB_CLOSE] = {FIELDS(conversation_fields)},
    [VERB_TASKS] = {FIELDS(tasks_fields)},
    [VERB_HISTORY] = {FIELDS(history_fields)},
    [VERB_CONVERSATIONS] = {FIELDS(conversations_fields)},
    [VERB_TITLE] = {FIELDS(title_fields)},
    [VERB_DELETE] = {FIELDS(conversation_fields)},
    [VERB_RESULTS] = {FIELDS(list_fields)},
    [VERB_ACK] = {FIELDS(ack_fields)},
    [VERB_BRANCH] = {FIELDS(branch_fields)},
    [VERB_SCHEDULE] = {FIELDS(schedule_fields)},
    [VERB_SCHEDULES] = {FIELDS(schedules_fields)},
    [VERB_RESCHEDULE] = {FIELDS(reschedule_fields)},
    [VERB_UNSCHEDULE] = {FIELDS(unschedule_fields)},
#undef FIELDS
};

const struct request_field *request_fields_of(enum verb verb, size_t *ret_n)
{
    *ret_n = verbs[verb].n;
    return verbs[verb].fields;
}

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

static void *member_of(struct decoding *d, const struct request_field *f)
{
    return (char *)d->to + f->offset;
}

static bool is_string(struct decoding *d, uint32_t node)
{
    return js_type(d->doc, node) == JS_STRING;
}

static bool field_read_text(struct decoding *d, const struct request_field *f, uint32_t node)
{
    if (!is_string(d, node))
        return false;
    struct str value = request_keep(d, node);
    *(struct str *)member_of(d, f) = value;
    return value.n >= f->min && value.n <= f->max;
}

/* An array of parts: request.c has left room for its texts beside it. */
static bool request_read_message(struct decoding *d, const struct request_field *f, uint32_t node)
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

static bool read_name(struct decoding *d, const struct request_field *f, uint32_t node)
{
    return field_read_text(d, f, node) && task_name_is_valid(*(struct str *)member_of(d, f));
}

static bool read_bool(struct decoding *d, const struct request_field *f, uint32_t node)
{
    enum js_type type = js_type(d->doc, node);
    *(bool *)member_of(d, f) = type == JS_TRUE;
    return type == JS_TRUE || type == JS_FALSE;
}

static bool read_integer(struct decoding *d, const struct request_field *f, uint32_t node)
{
    int64_t value;
    if (!js_int(d->doc, node, &value) || value < 0)
        return false;
    *(uint64_t *)member_of(d, f) = (uint64_t)value;
    return (uint64_t)value >= f->min && (uint64_t)value <= f->max;
}

static bool read_limit(struct decoding *d, const struct request_field *f, uint32_t node)
{
    int64_t value;
    if (!js_int(d->doc, node, &value) || value < (int64_t)f->min || value > (int64_t)f->max)
        return false;
    d->to->limit = (uint32_t)value;
    return true;
}

static bool read_conversation_id(struct decoding *d, const struct request_field *f, uint32_t node)
{
    if (!is_string(d, node))
        return false;
    struct str value = request_keep(d, node);
    *(struct str *)member_of(d, f) = value;
    return conversation_id_is_valid(value);
}

static bool read_ulid(struct decoding *d, const struct request_field *f, uint32_t node)
{
    if (!is_string(d, node))
        return false;
    struct str value = request_keep(d, node);
    *(struct str *)member_of(d, f) = value;
    return ulid_is_valid(value);
}

static bool read_metadata(struct decoding *d, const struct request_field *f, uint32_t node)
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

static bool read_maybe(struct decoding *d, const struct request_field *f, uint32_t node)
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

static bool read_budget(struct decoding *d, const struct request_field *f, uint32_t node)
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

static bool read_context(struct decoding *d, const struct request_field *f, uint32_t node)
{
    return request_read_context(d, node) && d->to->context.n <= f->max;
}

static bool read_when_busy(struct decoding *d, const struct request_field *f, uint32_t node)
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

static bool read_status(struct decoding *d, const struct request_field *f, uint32_t node)
{
    (void)f;
    if (!is_string(d, node))
        return false;
    d->to->has_status = status_find(request_keep(d, node), &d->to->status);
    return d->to->has_status;
}

/* The client's description of itself is for people who read the wire; it is not kept. */
static bool read_client(struct decoding *d, const struct request_field *f, uint32_t node)
{
    (void)f;
    if (js_type(d->doc, node) != JS_OBJECT)
        return false;
    return true;
}

static bool read_keepalive(struct decoding *d, const struct request_field *f, uint32_t node)
{
    (void)f;
    d->to->keepalive_data = js_is(d->doc, node, "data");
    return d->to->keepalive_data;
}

static bool read_answer(struct decoding *d, const struct request_field *f, uint32_t node)
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
static bool read_task_ids(struct decoding *d, const struct request_field *f, uint32_t node)
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

static bool read_webhook(struct decoding *d, const struct request_field *f, uint32_t node)
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

static const struct {
    bool (*read)(struct decoding *d, const struct request_field *f, uint32_t node);
    const char *expects; /* NULL: expect() builds it from min and max */
} kinds[] = {
    [KIND_TEXT] = {field_read_text, NULL},
    [KIND_MESSAGE] = {request_read_message, PARTS_EXPECTED},
    [KIND_NAME] = {read_name, NULL},
    [KIND_BOOL] = {read_bool, "must be true or false"},
    [KIND_MAYBE] = {read_maybe, "must be true or false"},
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

static void expect_text(const struct request_field *f, char *text, size_t size)
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
static void expect(const struct request_field *f, char *text, size_t size)
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
    case KIND_ANSWER: snprintf(text, size, "%s", kinds[f->kind].expects); return;
    }
    UNREACHABLE();
}

static bool is_path_field(const struct decoding *d, const struct request_field *f)
{
    return d->from_path && strcmp(f->name, "conversation_id") == 0;
}

/* A regenerated answer has its question already. */
static bool is_excused(const struct decoding *d, const struct request_field *f)
{
    return d->to->verb == VERB_CHAT && strcmp(f->name, "message") == 0 &&
           js_get(d->doc, 0, "regenerate");
}

bool request_read_fields(struct decoding *d)
{
    for (size_t i = 0; i < verbs[d->to->verb].n; i++) {
        const struct request_field *f = &verbs[d->to->verb].fields[i];
        char expectation[240];
        bool given, right;
        if (is_path_field(d, f)) {
            given = d->path_conversation_id.p != NULL;
            right = given && conversation_id_is_valid(d->path_conversation_id);
            if (right)
                d->to->conversation_id = request_keep_str(d, d->path_conversation_id);
        } else {
            uint32_t node = js_get(d->doc, 0, f->name);
            given = node != 0;
            right = given && kinds[f->kind].read(d, f, node);
        }
        if (right || (!given && (!f->required || is_excused(d, f))))
            continue;
        expect(f, expectation, sizeof expectation);
        return request_fail(d->fault, ERR_BAD_REQUEST,
                            given ? "\"%s\" %s" : "\"%s\" is missing: it %s", f->name, expectation);
    }
    return true;
}
