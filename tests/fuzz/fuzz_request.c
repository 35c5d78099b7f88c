/* Any bytes as a client's line, and as a body of every verb.  A refusal is a sentence in valid
 * UTF-8 that fits; of a success every span lies in the request's own block. */
#include "proto/request.h"

#include <sanitizer/allocator_interface.h>

#include "proto/ulid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct js_doc doc;

static void check_fault(const struct request_fault *f)
{
    size_t n = strnlen(f->message, sizeof f->message);
    ASSERT(n > 0 && n < sizeof f->message - 1);
    ASSERT(utf8_valid((struct str){f->message, n}));
    ASSERT(f->code == ERR_BAD_REQUEST || f->code == ERR_NOT_FOUND || f->code == ERR_UNSUPPORTED);
    ASSERT(!f->malformed || f->code == ERR_BAD_REQUEST);
    ASSERT((f->code == ERR_NOT_FOUND) == (strcmp(f->message, "no such task") == 0));
    if (f->has_id) {
        ASSERT(f->id_len >= 1 && f->id_len <= MAX_REQUEST_ID);
        ASSERT(utf8_valid((struct str){f->id, f->id_len}));
    }
}

static void check_span(const struct request *r, struct str s, size_t min, size_t max)
{
    if (!s.p)
        return;
    size_t size = __sanitizer_get_allocated_size(r->memory);
    ASSERT(s.p >= r->memory && s.n <= size && (size_t)(s.p - r->memory) <= size - s.n);
    ASSERT(s.n >= min && s.n <= max);
    ASSERT(utf8_valid(s));
}

static void check_request(const struct request *r)
{
    check_span(r, r->id, 1, MAX_REQUEST_ID);
    check_span(r, r->task_id, TASK_ID_LEN, TASK_ID_LEN);
    check_span(r, r->conversation_id, 1, MAX_CONVERSATION_ID);
    check_span(r, r->token, 0, SIZE_MAX);
    check_span(r, r->message, 1, SIZE_MAX);
    check_span(r, r->agent, 1, MAX_NAME);
    check_span(r, r->request_key, 1, MAX_REQUEST_KEY);
    check_span(r, r->name, 1, MAX_NAME);
    check_span(r, r->description, 0, MAX_DESCRIPTION);
    check_span(r, r->metadata, 2, MAX_METADATA);
    check_span(r, r->context, 2, MAX_CONTEXT);
    check_span(r, r->content, 0, SIZE_MAX);
    check_span(r, r->input_id, 1, MAX_INPUT_ID);
    check_span(r, r->answer_text, 0, SIZE_MAX);
    check_span(r, r->title, 1, MAX_TITLE);
    check_span(r, r->before, 1, MAX_CONVERSATION_ID);
    ASSERT(r->n_task_ids <= MAX_ACK_IDS);
    for (size_t i = 0; i < r->n_task_ids; i++)
        check_span(r, r->task_ids[i], 0, SIZE_MAX);
    ASSERT(r->limit >= 1 && r->limit <= LIST_MAX);
    ASSERT(r->after <= MAX_SAFE_INTEGER);
    ASSERT(!r->conversation_id.p || conversation_id_is_valid(r->conversation_id));
    ASSERT(!r->task_id.p || ulid_is_valid(r->task_id));
    ASSERT(!(verb_flags(r->verb) & VERB_TASK) || (r->task_id.p && r->conversation_id.p));
}

/* Another node reads the same request. */
static void check_encoded(const struct request *r)
{
    struct request again;
    struct request_fault fault;
    struct buf line = {0};
    if (r->verb == VERB_HELLO)
        return;
    request_encode(r, &line);
    ASSERT(request_decode(&doc, buf_str(&line), false, &again, &fault));
    ASSERT(again.verb == r->verb && str_eq(again.message, r->message) &&
           str_eq(again.parts, r->parts) && str_eq(again.metadata, r->metadata) &&
           str_eq(again.webhook, r->webhook) && again.n_task_ids == r->n_task_ids);
    request_done(&again);
    buf_done(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str line = {(const char *)data, size};
    struct request request;
    struct request_fault fault;
    for (int strict = 0; strict < 2; strict++) {
        if (request_decode(&doc, line, strict, &request, &fault)) {
            check_request(&request);
            check_encoded(&request);
            request_done(&request);
        } else {
            check_fault(&fault);
        }
    }
    for (int verb = 0; verb < N_VERBS; verb++) {
        if (request_from_body(&doc, (enum verb)verb, STR("c-1"), STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                              line, &request, &fault)) {
            check_request(&request);
            request_done(&request);
        } else {
            check_fault(&fault);
        }
    }
    return 0;
}
