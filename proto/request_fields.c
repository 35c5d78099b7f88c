#include "proto/request_fields.h"

#include "proto/quote.h"
#include "proto/rights.h"
#include "proto/schedule.h"
#include "proto/webhook.h"

#define AT(member) .offset = offsetof(struct request, member)
#define REQUIRED .required = true
#define OPTIONAL .required = false

/* Rows that several verbs share. */
#define CONVERSATION_ID "conversation_id", KIND_CONVERSATION_ID, REQUIRED, AT(conversation_id)
#define LIMIT "limit", KIND_LIMIT, OPTIONAL, .min = 1, .max = LIST_MAX, AT(limit)

#define ROLLUP "rollup_ms", KIND_INTEGER, OPTIONAL, .min = 1, .max = MAX_ROLLUP_MS, AT(rollup_ms)

static const struct field hello_fields[] = {
    {"token", KIND_TEXT, OPTIONAL, .max = ANY_SIZE, AT(token)},
    {"client", KIND_CLIENT, OPTIONAL},
    {"keepalive", KIND_KEEPALIVE, OPTIONAL},
    {"strict", KIND_BOOL, OPTIONAL, AT(strict)},
    {"handover", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_NAME, AT(handover)},
};
static const struct field chat_fields[] = {
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
    {"begin", KIND_BOOL, OPTIONAL, AT(begin)},
    {ROLLUP},
};
static const struct field branch_fields[] = {
    {CONVERSATION_ID},
    {"message_id", KIND_ULID, REQUIRED, AT(message_id)},
};
static const struct field resume_fields[] = {
    {"after", KIND_INTEGER, OPTIONAL, .max = MAX_SAFE_INTEGER, AT(after)},
    {"coalesce", KIND_BOOL, OPTIONAL, AT(coalesce)},
    {ROLLUP},
    {"epoch", KIND_INTEGER, OPTIONAL, .max = MAX_SAFE_INTEGER, AT(epoch)},
};
static const struct field cancel_fields[] = {{"tree", KIND_BOOL, OPTIONAL, AT(tree)}};
static const struct field send_fields[] = {
    {"content", KIND_TEXT, REQUIRED, .max = ANY_SIZE, AT(content)},
};
static const struct field respond_fields[] = {
    {"input_id", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_INPUT_ID, AT(input_id)},
    {"answer", KIND_ANSWER, REQUIRED},
};
static const struct field webhook_fields[] = {{"webhook", KIND_WEBHOOK, REQUIRED}};
static const struct field webhook_delete_fields[] = {
    {"webhook_id", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_WEBHOOK_ID, AT(webhook_id)},
};
static const struct field open_fields[] = {
    {CONVERSATION_ID},
    {LIMIT},
    {"follow", KIND_BOOL, OPTIONAL, AT(follow)},
    {ROLLUP},
};
static const struct field watch_fields[] = {
    {"events", KIND_MAYBE, OPTIONAL, AT(events)},
    {"cursor", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_WATCH_CURSOR, AT(cursor)},
    {ROLLUP},
};
static const struct field conversation_fields[] = {{CONVERSATION_ID}};
static const struct field tasks_fields[] = {
    {CONVERSATION_ID},
    {"status", KIND_STATUS, OPTIONAL},
    {"turns", KIND_BOOL, OPTIONAL, AT(turns)},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct field list_fields[] = {
    {CONVERSATION_ID},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct field history_fields[] = {
    {CONVERSATION_ID},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
    {"all", KIND_BOOL, OPTIONAL, AT(all)},
};
static const struct field conversations_fields[] = {
    {"pinned", KIND_MAYBE, OPTIONAL, AT(pinned)},
    {"archived", KIND_MAYBE, OPTIONAL, AT(archived)},
    {LIMIT},
    {"before", KIND_CONVERSATION_ID, OPTIONAL, AT(before)},
};
static const struct field title_fields[] = {
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
static const struct field schedule_fields[] = {
    {"chat", KIND_METADATA, REQUIRED, .max = MAX_SCHEDULED, AT(chat)},
    {"conversation_id", KIND_CONVERSATION_ID, OPTIONAL, AT(conversation_id)},
    TIMES,
};
#define SCHEDULE_ID "schedule_id", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_NAME, AT(schedule_id)
static const struct field reschedule_fields[] = {
    {SCHEDULE_ID},
    {"chat", KIND_METADATA, OPTIONAL, .max = MAX_SCHEDULED, AT(chat)},
    TIMES,
};
static const struct field unschedule_fields[] = {{SCHEDULE_ID}};
static const struct field schedules_fields[] = {
    {"conversation_id", KIND_CONVERSATION_ID, OPTIONAL, AT(conversation_id)},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct field share_fields[] = {
    {CONVERSATION_ID},
    {"task_id", KIND_ULID, OPTIONAL, AT(task_id)},
    {"rights", KIND_RIGHTS, OPTIONAL},
    {"actor", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_ACTOR, AT(member)},
    {"expires_at", KIND_INTEGER, OPTIONAL, .min = 1, .max = MAX_SAFE_INTEGER, AT(expires_at)},
};
static const struct field shares_fields[] = {
    {"conversation_id", KIND_CONVERSATION_ID, OPTIONAL, AT(conversation_id)},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct field unshare_fields[] = {
    {"share_id", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_NAME, AT(share_id)},
};
static const struct field pin_fields[] = {
    {CONVERSATION_ID},
    {"pinned", KIND_MAYBE, REQUIRED, AT(pinned)},
};
static const struct field archive_fields[] = {
    {CONVERSATION_ID},
    {"archived", KIND_MAYBE, REQUIRED, AT(archived)},
};
static const struct field search_fields[] = {
    {"query", KIND_TEXT, REQUIRED, .min = 1, .max = MAX_SEARCH, AT(query)},
    {LIMIT},
    {"before", KIND_ULID, OPTIONAL, AT(before)},
};
static const struct field fork_fields[] = {
    {CONVERSATION_ID},
    {"message_id", KIND_ULID, OPTIONAL, AT(message_id)},
    {"to", KIND_CONVERSATION_ID, OPTIONAL, AT(to)},
    {"title", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_TITLE, AT(title)},
};
static const struct field export_fields[] = {
    {CONVERSATION_ID},
    {"from", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_NAME, AT(from)},
};
static const struct field import_fields[] = {
    {"conversation_id", KIND_CONVERSATION_ID, OPTIONAL, AT(conversation_id)},
    {"title", KIND_TEXT, OPTIONAL, .min = 1, .max = MAX_TITLE, AT(title)},
    {"lines", KIND_LINES, REQUIRED, AT(lines)},
};
static const struct field ack_fields[] = {
    {CONVERSATION_ID},
    {"task_ids", KIND_TASK_IDS, REQUIRED, .max = MAX_ACK_IDS},
};

static const struct {
    const struct field *fields;
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
    [VERB_WATCH] = {FIELDS(watch_fields)},
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
    [VERB_SHARE] = {FIELDS(share_fields)},
    [VERB_SHARES] = {FIELDS(shares_fields)},
    [VERB_UNSHARE] = {FIELDS(unshare_fields)},
    [VERB_PIN] = {FIELDS(pin_fields)},
    [VERB_ARCHIVE] = {FIELDS(archive_fields)},
    [VERB_SEARCH] = {FIELDS(search_fields)},
    [VERB_FORK] = {FIELDS(fork_fields)},
    [VERB_EXPORT] = {FIELDS(export_fields)},
    [VERB_IMPORT] = {FIELDS(import_fields)},
#undef FIELDS
};

static bool is_path_field(const struct decoding *d, const struct field *f)
{
    return d->from_path && strcmp(f->name, "conversation_id") == 0;
}

/* A regenerated answer has its question already. */
static bool is_excused(const struct decoding *d, const struct field *f)
{
    return d->to->verb == VERB_CHAT && strcmp(f->name, "message") == 0 &&
           js_get(d->doc, 0, "regenerate");
}

bool request_read_fields(struct decoding *d)
{
    for (size_t i = 0; i < verbs[d->to->verb].n; i++) {
        const struct field *f = &verbs[d->to->verb].fields[i];
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
            right = given && request_read_kind(d, f, node);
        }
        if (right || (!given && (!f->required || is_excused(d, f))))
            continue;
        request_expect(f, expectation, sizeof expectation);
        return request_fail(d->fault, ERR_BAD_REQUEST,
                            given ? "\"%s\" %s" : "\"%s\" is missing: it %s", f->name, expectation);
    }
    return true;
}

const struct field *request_fields_of(enum verb verb, size_t *ret_n)
{
    *ret_n = verbs[verb].n;
    return verbs[verb].fields;
}

static bool verb_has(enum verb verb, const struct js_doc *doc, uint32_t key)
{
    static const char *const all[] = {"type", "id"}, *const ids[] = {"task_id", "conversation_id"};
    for (size_t i = 0; i < countof(all); i++)
        if (js_is(doc, key, all[i]))
            return true;
    for (size_t i = 0; (verb_flags(verb) & VERB_TASK) && i < countof(ids); i++)
        if (js_is(doc, key, ids[i]))
            return true;
    for (size_t i = 0; i < verbs[verb].n; i++)
        if (js_is(doc, key, verbs[verb].fields[i].name))
            return true;
    return false;
}

bool request_knows_members(const struct js_doc *doc, enum verb verb, struct request_fault *fault)
{
    for (uint32_t key = js_first(doc, 0); key < js_end(doc, 0); key = js_next(doc, key + 1)) {
        if (verb_has(verb, doc, key))
            continue;
        char name[QUOTE_SIZE];
        struct str raw = js_raw(doc, key);
        quote_raw(raw.p, raw.p + raw.n, name);
        return request_fail(fault, ERR_BAD_REQUEST, "\"%s\" is unknown here", name);
    }
    return true;
}
