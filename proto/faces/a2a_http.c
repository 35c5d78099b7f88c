/* Design. A request about a task first asks for its record, which shows whether it has ended, and
 * whether it waits for an answer. Replies come from the events: a client that wants one body gets
 * the stream's last message. When retention has removed all events, the record is the reply. */
#include <strings.h>

#include "proto/faces/a2a.h"
#include "proto/faces/face_parts.h"

static enum face_next follow(struct face_exchange *x, enum a2a_operation operation)
{
    struct a2a_request *r = x->state;
    r->operation = operation;
    x->is_whole =
        operation != A2A_STREAM && operation != A2A_STREAM_ON && operation != A2A_SUBSCRIBE;
    return FACE_FOLLOW;
}

static enum face_next follow_task(struct face_exchange *x, enum a2a_operation operation)
{
    exchange_ask(x, VERB_RESUME, buf_str(&x->ask.conversation_id), buf_str(&x->ask.task_id));
    exchange_ask_end(x);
    return follow(x, operation);
}

/* --- a message -------------------------------------------------------------------------------- */

/* The same message again starts nothing twice. */
static enum face_next start_task(struct face_exchange *x)
{
    const struct a2a_request *r = x->state;
    const struct str fields[] = {r->agent, r->context_id, r->message_id, r->text, r->parts};
    struct buf key = {0};
    if (!r->text.n && !r->parts.n)
        return a2a_fail(x, A2A_PARAMS, "the message has no text");
    exchange_put_key(&key, "a2a", fields, r->parts.n ? 5 : 4);
    struct buf *body = exchange_ask(x, VERB_CHAT, r->context_id, STR_NULL);
    face_put_message(body, r->text, r->parts);
    js_put_field(body, "agent", r->agent);
    js_put_field(body, "request_key", buf_str(&key));
    if (r->webhook.p)
        js_put_raw(body, "webhook", r->webhook);
    exchange_ask_end(x);
    buf_done(&key);
    return follow(x, r->operation);
}

static enum face_next put_task_answer(struct face_exchange *x, struct str input_id,
                                      struct str answer)
{
    struct buf own = {0}; /* the id may be in the buffer that is replaced */
    buf_putstr(&own, input_id);
    struct buf *body =
        exchange_ask(x, VERB_RESPOND, buf_str(&x->ask.conversation_id), buf_str(&x->ask.task_id));
    js_put_field(body, "input_id", buf_str(&own));
    js_put_raw(body, "answer", answer);
    exchange_ask_end(x);
    buf_clear(&x->client_id);
    buf_putstr(&x->client_id, buf_str(&own));
    buf_done(&own);
    return FACE_ASK;
}

static enum face_next answer_question(struct face_exchange *x, struct str input_id)
{
    const struct a2a_request *r = x->state;
    struct buf text = {0};
    js_put_str(&text, r->text);
    enum face_next next = put_task_answer(x, input_id, r->answer.p ? r->answer : buf_str(&text));
    buf_done(&text);
    return next;
}

/* Whether an approval accepts the text as an answer: only plain words, because anything but true is
 * no approval. */
static bool is_verdict(struct str text, struct str *ret)
{
    static const struct {
        const char *word;
        bool approves;
    } words[] = {{"yes", true},   {"true", true},   {"approve", true}, {"approved", true},
                 {"no", false},   {"false", false}, {"reject", false}, {"rejected", false},
                 {"deny", false}, {"denied", false}};
    for (size_t i = 0; i < countof(words); i++) {
        if (text.n != strlen(words[i].word) || strncasecmp(text.p, words[i].word, text.n) != 0)
            continue;
        *ret = words[i].approves ? STR("true") : STR("false");
        return true;
    }
    return false;
}

static enum face_next on_refused_answer(struct face_exchange *x, enum error e, struct str line,
                                        struct js_doc *doc)
{
    struct a2a_request *r = x->state;
    struct str verdict;
    if (e != ERR_BAD_REQUEST || r->answer.p || !is_verdict(r->text, &verdict))
        return a2a_fail_line(x, e, line, doc);
    r->answer = verdict;
    return put_task_answer(x, buf_str(&x->client_id), verdict);
}

static enum face_next tell_task(struct face_exchange *x)
{
    const struct a2a_request *r = x->state;
    struct buf *body =
        exchange_ask(x, VERB_SEND, buf_str(&x->ask.conversation_id), buf_str(&x->ask.task_id));
    js_put_field(body, "content", r->text);
    exchange_ask_end(x);
    return FACE_ASK;
}

/* --- a task ----------------------------------------------------------------------------------- */

static void put_record(struct face_exchange *x, const struct a2a_task *task)
{
    const struct a2a_request *r = x->state;
    buf_clear(&x->reply);
    a2a_begin_result(&x->reply, r);
    a2a_put_task(&x->reply, task);
    a2a_end_result(&x->reply, r);
}

static enum face_next reply_record(struct face_exchange *x)
{
    x->status = 200;
    return FACE_REPLY;
}

static enum face_next on_ended(struct face_exchange *x, const struct a2a_task *task)
{
    const struct a2a_request *r = x->state;
    switch (r->operation) {
    case A2A_GET: break;
    case A2A_CANCEL:
        if (task->state == A2A_CANCELED)
            break;
        return a2a_fail(x, A2A_NOT_CANCELABLE, "the task has ended");
    default: return a2a_fail(x, A2A_UNSUPPORTED, "the task has ended");
    }
    put_record(x, task); /* in case no event is kept */
    return follow_task(x, r->operation);
}

static enum face_next on_message(struct face_exchange *x, const struct js_doc *doc, uint32_t task)
{
    const struct a2a_request *r = x->state;
    uint32_t input_id = js_get(doc, task, "waiting_for");
    if (r->context_id.p && !str_eq(r->context_id, buf_str(&x->ask.conversation_id)))
        return a2a_fail(x, A2A_PARAMS, "\"contextId\" is not that of the task");
    if (input_id && js_type(doc, input_id) == JS_STRING) {
        struct buf id = {0};
        js_value(doc, input_id, &id);
        enum face_next next = answer_question(x, buf_str(&id));
        buf_done(&id);
        return next;
    }
    if (r->answer.p && !r->text.n)
        return a2a_fail(x, A2A_UNSUPPORTED, "the task waits for no answer");
    return tell_task(x);
}

static enum face_next a2a_on_record(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    const struct a2a_request *r = x->state;
    struct a2a_task task;
    struct buf memory = {0};
    uint32_t at = exchange_task(doc, line);
    if (!at)
        return a2a_fail(x, A2A_INTERNAL, "the reply cannot be read");
    a2a_task_read(doc, at, &memory, &task);
    enum face_next next;
    if (!exchange_task_lives(doc, at)) {
        next = on_ended(x, &task);
    } else if (r->operation == A2A_CANCEL) {
        exchange_ask(x, VERB_CANCEL, buf_str(&x->ask.conversation_id), buf_str(&x->ask.task_id));
        exchange_ask_end(x);
        next = FACE_ASK;
    } else if (r->operation == A2A_GET || r->operation == A2A_SUBSCRIBE) {
        next = follow_task(x, r->operation);
    } else {
        next = on_message(x, doc, at);
    }
    buf_done(&memory);
    return next;
}

static enum face_next look_up(struct face_exchange *x)
{
    const struct a2a_request *r = x->state;
    struct buf conversation = {0};
    struct str task;
    enum face_next next = FACE_ASK;
    if (exchange_read_id(r->task_id, &conversation, &task)) {
        exchange_ask(x, VERB_TASK_GET, buf_str(&conversation), task);
        exchange_ask_end(x);
    } else {
        next = a2a_fail(x, A2A_NOT_FOUND, "no such task");
    }
    buf_done(&conversation);
    return next;
}

/* --- the exchange ----------------------------------------------------------------------------- */

static enum face_next a2a_begin(struct face_exchange *x, const struct face_input *in)
{
    char why[128];
    enum a2a_fault fault = a2a_read(x, in, why);
    const struct a2a_request *r = x->state;
    if (fault)
        return a2a_fail(x, fault, why);
    switch (r->operation) {
    case A2A_CARD: return a2a_card(x, in);
    case A2A_LIST: return a2a_list(x);
    case A2A_EXTENDED_CARD:
        return a2a_fail(x, A2A_UNSUPPORTED, "there is no extended card: the card has it all");
    case A2A_PUSH_SET:
    case A2A_PUSH_GET:
    case A2A_PUSH_LIST:
    case A2A_PUSH_DELETE: return a2a_push(x);
    case A2A_SEND:
    case A2A_SEND_AT_ONCE:
    case A2A_STREAM:
        if (!r->task_id.p)
            return start_task(x);
        return r->webhook.p ? a2a_push(x) : look_up(x);
    default: return look_up(x);
    }
}

static enum face_next a2a_replied(struct face_exchange *x, enum error e, struct str line,
                                  struct js_doc *doc)
{
    const struct a2a_request *r = x->state;
    if (r->operation == A2A_LIST)
        return a2a_list_replied(x, e, line, doc);
    bool pushes = x->ask.verb == VERB_WEBHOOK || x->ask.verb == VERB_WEBHOOKS ||
                  x->ask.verb == VERB_WEBHOOK_DELETE;
    if (e && x->ask.verb == VERB_RESUME && x->reply.len)
        return reply_record(x);
    if (e && x->ask.verb == VERB_RESPOND)
        return on_refused_answer(x, e, line, doc);
    if (e == ERR_UNSUPPORTED && r->webhook.p)
        return a2a_fail(x, A2A_NO_PUSH, "push notifications are not supported");
    if (e)
        return a2a_fail_line(x, e, line, doc);
    if (pushes)
        return r->operation >= A2A_PUSH_SET ? a2a_push_replied(x, line, doc) : look_up(x);
    if (x->ask.verb == VERB_TASK_GET)
        return a2a_on_record(x, line, doc);
    return follow_task(x, r->operation == A2A_STREAM ? A2A_STREAM_ON : r->operation);
}

#define A2A_OPS(put_error_)                                             \
    {                                                                   \
        .stream = &a2a_ops, .begin = a2a_begin, .replied = a2a_replied, \
        .reads = "a2a-version:", .put_error = (put_error_)              \
    }

const struct face_http_ops a2a_rpc_ops = A2A_OPS(a2a_put_rpc_error);
const struct face_http_ops a2a_rest_ops = A2A_OPS(a2a_put_rest_error);
