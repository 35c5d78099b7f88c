/* The Responses API over HTTP. An id is looked up by owner, conversation and task, like any other;
 * a malformed id is looked up too, with empty parts, so that it gets the same answer as an unknown
 * one. A request's steps are the requests of our own that it consists of. */
#include <stdlib.h>

#include "proto/faces/face_parts.h"
#include "proto/faces/openai.h"
#include "proto/faces/responses.h"
#include "proto/str.h"

enum step {
    STEP_PREVIOUS, /* does the response exist that the request continues? text: the chat's body */
    STEP_CHAT,     /* start */
    STEP_ANSWER,   /* answer a question; then the response continues */
    STEP_RETRIEVE, /* if the task has ended or waits, send its events as a whole; otherwise */
    STEP_RECORD,   /* its record becomes the answer */
    STEP_FOLLOW,   /* its events become the stream, or the answer */
    STEP_CANCEL,   /* ask the task to stop, then STEP_RECORD */
    STEP_OWN,      /* delete: does the task exist? */
    STEP_ALONE,    /* is it the only one in its conversation? */
    STEP_DELETE,
};

static struct responses_state *state_of(const struct face_exchange *x)
{
    return x->state;
}

/* text may lie in the previous state. */
static void set_state(struct face_exchange *x, enum responses_way way, bool is_record,
                      struct str text)
{
    struct responses_state *state = xcalloc(sizeof *state + text.n + 1);
    *state = (struct responses_state){.way = way, .is_record = is_record};
    if (text.n)
        memcpy(state->text, text.p, text.n);
    free(x->state);
    x->state = state;
    x->is_whole = way == RESPONSES_WHOLE;
}

/* --- what is asked ---------------------------------------------------------------------------- */

static enum face_next ask_of_task(struct face_exchange *x, enum step step, enum verb verb)
{
    struct buf conversation = {0}, task = {0};
    buf_putstr(&conversation, buf_str(&x->ask.conversation_id));
    buf_putstr(&task, buf_str(&x->ask.task_id));
    x->step = (int)step;
    exchange_ask(x, verb, buf_str(&conversation), buf_str(&task));
    exchange_ask_end(x);
    buf_done(&conversation);
    buf_done(&task);
    return step == STEP_FOLLOW ? FACE_FOLLOW : FACE_ASK;
}

static enum face_next ask_by_id(struct face_exchange *x, struct str id, enum step step,
                                enum verb verb)
{
    struct buf conversation = {0}, task = {0};
    if (!responses_read_id(id, &conversation, &task)) {
        buf_clear(&conversation);
        buf_clear(&task);
    }
    exchange_ask(x, verb, buf_str(&conversation), buf_str(&task));
    buf_done(&conversation);
    buf_done(&task);
    return ask_of_task(x, step, verb);
}

/* --- create ----------------------------------------------------------------------------------- */

static void put_chat(struct buf *body, const struct responses_request *r, struct str key)
{
    face_put_message(body, buf_str(&r->message), buf_str(&r->parts));
    if (r->agent.len)
        js_put_field(body, "agent", buf_str(&r->agent));
    if (r->metadata.len)
        js_put_raw(body, "metadata", buf_str(&r->metadata));
    if (r->context.len)
        js_put_raw(body, "context", buf_str(&r->context));
    if (!r->conversation.len && !r->previous.len)
        js_put_bool(body, "unlisted", true);
    if (key.p)
        js_put_field(body, "request_key", key);
}

static enum face_next ask_chat(struct face_exchange *x, struct str conversation_id, struct str body)
{
    struct buf *to = exchange_ask(x, VERB_CHAT, conversation_id, STR_NULL);
    buf_putstr(to, body);
    exchange_ask_end(x);
    x->step = STEP_CHAT;
    return state_of(x)->way == RESPONSES_AT_ONCE ? FACE_ASK : FACE_FOLLOW;
}

static enum face_next ask_to_answer(struct face_exchange *x, const struct responses_request *r)
{
    struct buf conversation = {0}, task = {0};
    if (!responses_read_id(buf_str(&r->previous), &conversation, &task))
        buf_clear(&conversation);
    struct buf *body = exchange_ask(x, VERB_RESPOND, buf_str(&conversation), buf_str(&task));
    js_put_field(body, "input_id", buf_str(&r->input_id));
    js_put_bool(body, "answer", r->approves);
    exchange_ask_end(x);
    buf_done(&conversation);
    buf_done(&task);
    x->step = STEP_ANSWER;
    return FACE_ASK;
}

static enum face_next on_answered(struct face_exchange *x)
{
    if (state_of(x)->way == RESPONSES_AT_ONCE)
        return ask_of_task(x, STEP_RECORD, VERB_TASK_GET);
    return ask_of_task(x, STEP_FOLLOW, VERB_RESUME);
}

static enum face_next create(struct face_exchange *x, const struct face_input *in)
{
    struct responses_request r;
    char why[128];
    struct buf body = {0};
    enum face_next next;
    if (!responses_read(in->doc, in->body, &r, why)) {
        responses_request_done(&r);
        return exchange_fail(x, ERR_BAD_REQUEST, why);
    }
    put_chat(&body, &r, in->idempotency_key);
    set_state(x,
              r.stream || in->operation == RESPONSES_FRAME ? RESPONSES_EVENTS
              : r.background                               ? RESPONSES_AT_ONCE
                                                           : RESPONSES_WHOLE,
              false, buf_str(&body));
    if (r.is_answer)
        next = ask_to_answer(x, &r);
    else if (r.previous.len)
        next = ask_by_id(x, buf_str(&r.previous), STEP_PREVIOUS, VERB_TASK_GET);
    else
        next = ask_chat(x, buf_str(&r.conversation), buf_str(&body));
    buf_done(&body);
    responses_request_done(&r);
    return next;
}

static bool is_turn(const struct js_doc *doc, uint32_t task)
{
    uint32_t type = js_get(doc, task, "type");
    return type && (js_is(doc, type, "chat") || js_is(doc, type, "notice"));
}

/* Under the answer that it names, which need not be the newest one. */
static enum face_next go_on_with(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    struct buf conversation = {0}, body = {0};
    uint32_t task = exchange_task(doc, line);
    buf_putstr(&conversation, buf_str(&x->ask.conversation_id));
    buf_puts(&body, state_of(x)->text);
    if (task && is_turn(doc, task))
        js_put_field(&body, "reply_to", buf_str(&x->ask.task_id));
    enum face_next next = ask_chat(x, buf_str(&conversation), buf_str(&body));
    buf_done(&conversation);
    buf_done(&body);
    return next;
}

/* --- retrieve --------------------------------------------------------------------------------- */

/* Only digits; anything else than an event's number is an error. */
static bool read_starting_after(struct face_exchange *x, struct str query)
{
    struct buf value = {0};
    bool good = true;
    if (exchange_query(query, "starting_after", &value)) {
        uint64_t n = 0;
        good = value.len > 0 && value.len < 16;
        for (size_t i = 0; good && i < value.len; i++) {
            good = is_digit(value.bytes[i]);
            n = 10 * n + (uint64_t)(value.bytes[i] - '0');
        }
        x->after = n + 1;
    }
    buf_done(&value);
    return good;
}

static bool query_has(struct str query, const char *name, struct str value)
{
    struct buf given = {0};
    bool has = exchange_query(query, name, &given) && str_eq(buf_str(&given), value);
    buf_done(&given);
    return has;
}

static enum face_next stream_again(struct face_exchange *x, struct str id, struct str query)
{
    if (!read_starting_after(x, query))
        return exchange_fail(x, ERR_BAD_REQUEST,
                             "\"starting_after\" must be the sequence_number of an event");
    return ask_by_id(x, id, STEP_FOLLOW, VERB_RESUME);
}

static enum face_next go_on_by_address(struct face_exchange *x, struct str query)
{
    struct buf id = {0};
    (void)exchange_query(query, "response_id", &id);
    enum face_next next = stream_again(x, buf_str(&id), query);
    buf_done(&id);
    return next;
}

static enum face_next reply_task(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    uint32_t task = exchange_task(doc, line);
    ASSERT(task);
    buf_clear(&x->reply);
    responses_put_task(&x->reply, doc, task);
    x->status = 200;
    return FACE_REPLY;
}

/* The record has less than the events, but still exists when they are removed. */
static enum face_next reply_kept_record(struct face_exchange *x)
{
    buf_clear(&x->reply);
    buf_puts(&x->reply, state_of(x)->text);
    x->status = 200;
    return FACE_REPLY;
}

static enum face_next on_retrieved(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    struct buf record = {0};
    uint32_t task = exchange_task(doc, line);
    ASSERT(task);
    if (exchange_task_lives(doc, task) && !js_get(doc, task, "waiting_for"))
        return reply_task(x, line, doc);
    responses_put_task(&record, doc, task);
    set_state(x, RESPONSES_WHOLE, true, buf_str(&record));
    buf_done(&record);
    return ask_of_task(x, STEP_FOLLOW, VERB_RESUME);
}

/* --- delete ----------------------------------------------------------------------------------- */

/* Whether a list of tasks has this one and its descendants, and nothing else. */
static bool is_alone(struct js_doc *doc, struct str line, struct str task_id)
{
    uint32_t tasks = js_parse(doc, line.p, line.n, JS_OURS) ? js_get(doc, 0, "tasks") : 0;
    uint32_t more = tasks ? js_get(doc, 0, "more") : 0;
    if (!tasks || (more && js_type(doc, more) == JS_TRUE))
        return false;
    for (uint32_t i = js_first(doc, tasks); i < js_end(doc, tasks); i = js_next(doc, i)) {
        uint32_t id = js_get(doc, i, "task_id"), type = js_get(doc, i, "type");
        if (!(id && str_eq(js_raw(doc, id), task_id)) && !(type && js_is(doc, type, "child")))
            return false;
    }
    return true;
}

static enum face_next ask_of_conversation(struct face_exchange *x, enum step step, enum verb verb)
{
    struct buf conversation = {0}, task = {0};
    buf_putstr(&conversation, buf_str(&x->ask.conversation_id));
    buf_putstr(&task, buf_str(&x->ask.task_id));
    struct buf *body = exchange_ask(x, verb, buf_str(&conversation), STR_NULL);
    if (verb == VERB_TASKS)
        js_put_int(body, "limit", LIST_MAX);
    exchange_ask_end(x);
    x->step = (int)step;
    if (!x->state)
        set_state(x, RESPONSES_AT_ONCE, false, buf_str(&task));
    buf_done(&conversation);
    buf_done(&task);
    return FACE_ASK;
}

/* A single task cannot be removed, but a conversation can. */
static enum face_next on_list(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    if (is_alone(doc, line, str_of(state_of(x)->text)))
        return ask_of_conversation(x, STEP_DELETE, VERB_DELETE);
    return exchange_fail(x, ERR_CONFLICT,
                         "this response is part of a conversation, which can only be deleted as a "
                         "whole: DELETE /v1/conversations/{id}");
}

static enum face_next reply_deleted(struct face_exchange *x)
{
    struct buf id = {0};
    responses_put_id(&id, buf_str(&x->ask.conversation_id), str_of(state_of(x)->text));
    buf_clear(&x->reply);
    buf_putc(&x->reply, '{');
    js_put_field(&x->reply, "id", buf_str(&id));
    js_put_field(&x->reply, "object", STR("response"));
    js_put_bool(&x->reply, "deleted", true);
    buf_putc(&x->reply, '}');
    buf_done(&id);
    x->status = 200;
    return FACE_REPLY;
}

/* --- the exchange ----------------------------------------------------------------------------- */

static enum face_next responses_begin(struct face_exchange *x, const struct face_input *in)
{
    x->operation = in->operation;
    switch ((enum responses_operation)in->operation) {
    case RESPONSES_CREATE:
    case RESPONSES_FRAME: return create(x, in);
    case RESPONSES_GET:
        if (query_has(in->query, "stream", STR("true")))
            return stream_again(x, in->conversation, in->query);
        return ask_by_id(x, in->conversation, STEP_RETRIEVE, VERB_TASK_GET);
    case RESPONSES_CANCEL: return ask_by_id(x, in->conversation, STEP_CANCEL, VERB_CANCEL);
    case RESPONSES_DELETE: return ask_by_id(x, in->conversation, STEP_OWN, VERB_TASK_GET);
    case RESPONSES_ADDRESS: return go_on_by_address(x, in->query);
    }
    UNREACHABLE();
}

static enum face_next responses_replied(struct face_exchange *x, enum error e, struct str line,
                                        struct js_doc *doc)
{
    if (e && x->state && state_of(x)->is_record)
        return reply_kept_record(x);
    if (e)
        return exchange_fail_line(x, e, line, doc);
    switch ((enum step)x->step) {
    case STEP_PREVIOUS: return go_on_with(x, line, doc);
    case STEP_ANSWER: return on_answered(x);
    case STEP_CHAT:
    case STEP_RECORD: return reply_task(x, line, doc);
    case STEP_RETRIEVE: return on_retrieved(x, line, doc);
    case STEP_CANCEL: return ask_of_task(x, STEP_RECORD, VERB_TASK_GET);
    case STEP_OWN: return ask_of_conversation(x, STEP_ALONE, VERB_TASKS);
    case STEP_ALONE: return on_list(x, line, doc);
    case STEP_DELETE: return reply_deleted(x);
    case STEP_FOLLOW: break;
    }
    UNREACHABLE();
}

const struct face_http_ops responses_http_ops = {
    .stream = &responses_ops,
    .begin = responses_begin,
    .replied = responses_replied,
    .put_error = openai_put_gateway_error,
};
