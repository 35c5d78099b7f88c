#include "proto/request.h"

#include <stdlib.h>

#include "proto/quote.h"
#include "proto/request_fields.h"
#include "proto/ulid.h"

/* Design.  The order of the checks is part of the wire:
 *   1. the text: JSON, an object, no key twice, a type that is a string (else it is malformed);
 *   2. the id, so that every later fault can be answered with it;
 *   3. the type: a known one;
 *   4. the fields of the verb, in the order of its table, then members that it does not have, when
 *      the client is strict, then integers in unknown fields;
 *   5. for a VERB_TASK the two ids, last: not_found then means that everything else was right, and
 *      says nothing about the task, whatever was wrong with the ids (promise 5).
 *
 * One block holds everything.  Values are never longer than their text, so the line's length is
 * enough room for all; ack's array of spans stands before them. */

static const struct {
    const char *name;
    unsigned flags;
} verbs[N_VERBS] = {
#define X(verb, wire, bits) [verb] = {wire, bits},
    VERB_TABLE(X)
#undef X
};

unsigned verb_flags(enum verb v)
{
    ASSERT((unsigned)v < N_VERBS);
    return verbs[v].flags;
}

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

const char *verb_name(enum verb v)
{
    ASSERT((unsigned)v < N_VERBS);
    return verbs[v].name;
}

bool conversation_id_is_valid(struct str id)
{
    if (id.n < 1 || id.n > MAX_CONVERSATION_ID || !is_alphanumeric(id.p[0]))
        return false;
    for (size_t i = 1; i < id.n; i++)
        if (!is_alphanumeric(id.p[i]) && id.p[i] != '.' && id.p[i] != '_' && id.p[i] != '-')
            return false;
    return true;
}

bool task_name_is_valid(struct str name)
{
    static const char *const reserved[] = {"parent", "self", "all", "broadcast"};
    for (size_t i = 0; i < countof(reserved); i++)
        if (str_eq(name, str_of(reserved[i])))
            return false;
    return name.n >= 1 && name.n <= MAX_NAME;
}

/* The value of the root's member "id", when it may be echoed. */
static bool read_id(const struct js_doc *doc, uint32_t node, struct request_fault *fault)
{
    char bytes[MAX_REQUEST_ID * 6 + 1]; /* an escape takes at most 6 bytes a byte */
    struct buf value = {bytes, 0, sizeof bytes};
    if (js_type(doc, node) != JS_STRING || js_raw(doc, node).n >= sizeof bytes)
        return false;
    js_value(doc, node, &value);
    if (value.len < 1 || value.len > MAX_REQUEST_ID)
        return false;
    memcpy(fault->id, value.bytes, value.len);
    fault->id[value.len] = 0;
    fault->id_len = value.len;
    fault->has_id = true;
    return true;
}

/* For an object with a duplicate key somewhere: reads its id, if that key is not repeated. */
static void read_only_id(const struct js_doc *doc, struct request_fault *fault)
{
    uint32_t found = 0;
    if (js_type(doc, 0) != JS_OBJECT)
        return;
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i + 1)) {
        if (!js_is(doc, i, "id"))
            continue;
        if (found)
            return;
        found = i + 1;
    }
    if (found)
        (void)read_id(doc, found, fault);
}

static bool parse(struct js_doc *doc, struct str line, struct request_fault *fault)
{
    *fault = (struct request_fault){0};
    if (js_parse(doc, line.p, line.n, JS_ANY_NUMBER)) {
        if (js_type(doc, 0) == JS_OBJECT)
            return true;
        fault->malformed = true;
        return request_fail(fault, ERR_BAD_REQUEST, "not a JSON object");
    }
    if (doc->error == js_out_of_memory)
        return request_fail(fault, ERR_OVERLOADED, "out of memory");
    fault->malformed = true;
    if (doc->error == js_duplicate_key) {
        char key[QUOTE_SIZE];
        quote_raw(doc->text + doc->error_at, line.p + line.n, key);
        read_only_id(doc, fault);
        return request_fail(fault, ERR_BAD_REQUEST, "duplicate key \"%s\" at byte %zu", key,
                            doc->error_at);
    }
    return request_fail(fault, ERR_BAD_REQUEST, "not JSON: %s at byte %zu", doc->error,
                        doc->error_at);
}

static bool find_verb(const struct js_doc *doc, struct request_fault *fault, enum verb *ret)
{
    uint32_t type = js_get(doc, 0, "type"), id = js_get(doc, 0, "id");
    bool id_is_bad = id && !read_id(doc, id, fault);
    if (!type || js_type(doc, type) != JS_STRING) {
        fault->malformed = true;
        return request_fail(fault, ERR_BAD_REQUEST,
                            type ? "\"type\" must be a string" : "\"type\" is missing");
    }
    if (id_is_bad)
        return request_fail(fault, ERR_BAD_REQUEST, "\"id\" must be a string of 1 to %d bytes",
                            MAX_REQUEST_ID);
    for (size_t i = 0; i < N_VERBS; i++) {
        if (js_is(doc, type, verbs[i].name)) {
            *ret = (enum verb)i;
            return true;
        }
    }
    char name[QUOTE_SIZE];
    struct str raw = js_raw(doc, type);
    quote_raw(raw.p, raw.p + raw.n, name);
    return request_fail(fault, ERR_UNSUPPORTED, "unknown type \"%s\"", name);
}

/* Members that hold a task's ids, or that HTTP takes from the path: their faults are not
 * reported. */
static bool is_ignored(const struct decoding *d, uint32_t key)
{
    bool ids = d->from_path || (verb_flags(d->to->verb) & VERB_TASK);
    return (ids && (js_is(d->doc, key, "task_id") || js_is(d->doc, key, "conversation_id"))) ||
           (d->from_path && (js_is(d->doc, key, "type") || js_is(d->doc, key, "id")));
}

/* Rejects integers that JavaScript would round, in members of any name and at any depth. */
static bool check_integers(struct decoding *d)
{
    const struct js_doc *doc = d->doc;
    for (uint32_t key = js_first(doc, 0); key < js_end(doc, 0); key = js_next(doc, key + 1)) {
        for (uint32_t i = key + 1; i < js_end(doc, key + 1); i++) {
            if (!js_is_unsafe_integer(doc, i) || is_ignored(d, key))
                continue;
            char name[QUOTE_SIZE];
            struct str raw = js_raw(doc, key);
            quote_raw(raw.p, raw.p + raw.n, name);
            return request_fail(d->fault, ERR_BAD_REQUEST,
                                "\"%s\" has an integer beyond %lld, the largest safe one", name,
                                MAX_SAFE_INTEGER);
        }
    }
    return true;
}

/* A chat has one place in its conversation, and a regenerated one its message already. */
static bool check_place(struct decoding *d)
{
    const struct request *r = d->to;
    const struct {
        const char *name;
        struct str id;
    } places[] = {{"reply_to", r->reply_to}, {"edit", r->edit}, {"regenerate", r->regenerate}};
    const char *given = NULL;
    for (size_t i = 0; i < countof(places); i++) {
        if (!places[i].id.p)
            continue;
        if (given)
            return request_fail(d->fault, ERR_BAD_REQUEST,
                                "\"%s\" cannot be given together with \"%s\"", places[i].name,
                                given);
        given = places[i].name;
    }
    if (!given)
        return true;
    if (r->regenerate.p && r->message.p)
        return request_fail(d->fault, ERR_BAD_REQUEST,
                            "\"message\" cannot be given together with \"regenerate\"");
    if (r->background)
        return request_fail(d->fault, ERR_BAD_REQUEST,
                            "\"background\" cannot be given together with \"%s\"", given);
    return r->conversation_id.p ||
           request_fail(d->fault, ERR_BAD_REQUEST,
                        "\"conversation_id\" is missing: \"%s\" needs it", given);
}

static struct str read_task_id(struct decoding *d, const char *name, struct str from_path)
{
    if (d->from_path)
        return from_path.p ? request_keep_str(d, from_path) : STR_NULL;
    uint32_t node = js_get(d->doc, 0, name);
    if (!node || js_type(d->doc, node) != JS_STRING)
        return STR_NULL;
    return request_keep(d, node);
}

/* The two ids of a VERB_TASK: any fault of either gets the same answer. */
static bool read_task_ids(struct decoding *d)
{
    if (!(verb_flags(d->to->verb) & VERB_TASK))
        return true;
    d->to->conversation_id = read_task_id(d, "conversation_id", d->path_conversation_id);
    d->to->task_id = read_task_id(d, "task_id", d->path_task_id);
    if (conversation_id_is_valid(d->to->conversation_id) && ulid_is_valid(d->to->task_id))
        return true;
    return request_fail(d->fault, ERR_NOT_FOUND, NO_SUCH_TASK);
}

static bool check_members(struct decoding *d)
{
    struct request *r = d->to;
    r->strict = r->strict || d->strict;
    return !r->strict || request_knows_members(d->doc, r->verb, d->fault);
}

/* Bytes for ack's spans at the front of the block. */
static size_t spans_size(const struct js_doc *doc, enum verb verb)
{
    uint32_t ids = verb == VERB_ACK ? js_get(doc, 0, "task_ids") : 0;
    if (!ids || js_type(doc, ids) != JS_ARRAY || doc->nodes[ids].kids > MAX_ACK_IDS)
        return 0;
    return doc->nodes[ids].kids * sizeof(struct str);
}

/* Texts of a message in parts stand in the block twice. */
static size_t parts_size(const struct js_doc *doc, enum verb verb, size_t text_len)
{
    uint32_t message = verb == VERB_CHAT ? js_get(doc, 0, "message") : 0;
    return message && js_type(doc, message) == JS_ARRAY ? text_len : 0;
}

static bool decode(struct decoding *d, size_t text_len)
{
    struct request *r = d->to;
    size_t front = spans_size(d->doc, r->verb);
    size_t size = front + text_len + parts_size(d->doc, r->verb, text_len) +
                  d->path_conversation_id.n + d->path_task_id.n + 1;
    r->limit = LIST_DEFAULT;
    r->memory = try_alloc(size);
    if (!r->memory)
        return request_fail(d->fault, ERR_OVERLOADED, "out of memory");
    d->block = (struct buf){r->memory, front, size};
    if (d->fault->has_id)
        r->id = request_keep_str(d, (struct str){d->fault->id, d->fault->id_len});
    if (request_read_fields(d) && check_place(d) && check_members(d) && check_integers(d) &&
        read_task_ids(d))
        return true;
    request_done(r);
    return false;
}

bool request_decode(struct js_doc *doc, struct str line, bool strict, struct request *ret,
                    struct request_fault *fault)
{
    struct request request = {0};
    struct decoding d = {.doc = doc, .to = &request, .fault = fault, .strict = strict};
    if (!parse(doc, line, fault) || !find_verb(doc, fault, &request.verb) || !decode(&d, line.n))
        return false;
    *ret = request;
    return true;
}

/* NOLINTNEXTLINE(readability-function-size): five of the seven are HTTP's input, two are results */
bool request_from_body(struct js_doc *doc, enum verb verb, struct str conversation_id,
                       struct str task_id, struct str body, struct request *ret,
                       struct request_fault *fault)
{
    struct request request = {.verb = verb};
    struct decoding d = {
        .doc = doc,
        .to = &request,
        .fault = fault,
        .from_path = true,
        .path_conversation_id = conversation_id,
        .path_task_id = task_id,
    };
    ASSERT((unsigned)verb < N_VERBS);
    struct str text = body.n > 0 ? body : STR("{}");
    if (!parse(doc, text, fault))
        return false;
    fault->has_id = false; /* HTTP echoes none */
    if (!decode(&d, text.n))
        return false;
    *ret = request;
    return true;
}

void request_done(struct request *r)
{
    free(r->memory);
    *r = (struct request){0};
}
