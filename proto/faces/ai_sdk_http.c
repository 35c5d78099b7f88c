/* DefaultChatTransport of the AI SDK: POST asks or answers, GET replays the last turn while it is
 * live. For a chat that is idle, unknown, foreign or malformed the answer is always 204, so that
 * `useChat({resume: true})` works on a new chat and learns nothing about another owner's. */
#include "proto/faces/ai_sdk.h"
#include "proto/faces/face_parts.h"

static enum face_next nothing_active(struct face_exchange *x)
{
    buf_clear(&x->reply);
    x->status = 204;
    return FACE_REPLY;
}

static enum face_next ask_for_turns(struct face_exchange *x, struct str chat_id)
{
    struct buf *body = exchange_ask(x, VERB_TASKS, chat_id, STR_NULL);
    js_put_bool(body, "turns", true);
    js_put_int(body, "limit", 1);
    exchange_ask_end(x);
    return FACE_ASK;
}

void ai_sdk_put_chat(struct face_exchange *x, const struct ai_sdk_request *r)
{
    struct buf *body = exchange_ask(x, VERB_CHAT, r->chat_id, STR_NULL);
    if (r->regenerates)
        js_put_field(body, "regenerate", r->task_id);
    else
        face_put_message(body, r->text, r->parts);
    if (r->agent.p)
        js_put_field(body, "agent", r->agent);
    if (r->request_key.p)
        js_put_field(body, "request_key", r->request_key);
    exchange_ask_end(x);
}

void ai_sdk_put_answer(struct face_exchange *x, const struct ai_sdk_request *r)
{
    struct buf *body = exchange_ask(x, VERB_RESPOND, r->chat_id, r->task_id);
    js_put_field(body, "input_id", r->input_id);
    js_put_raw(body, "answer", r->answer);
    exchange_ask_end(x);
    buf_clear(&x->after_answer);
    buf_putstr(&x->after_answer, r->input_id);
}

static enum face_next follow_turn(struct face_exchange *x, struct str chat_id, struct str task_id)
{
    js_put_bool(exchange_ask(x, VERB_RESUME, chat_id, task_id), "coalesce", true);
    exchange_ask_end(x);
    return FACE_FOLLOW;
}

static void keep_agent(struct face_exchange *x, const struct ai_sdk_request *r)
{
    buf_clear(&x->memory);
    buf_putstr(&x->memory, r->agent);
}

/* The newest turn of the chat gets another answer. */
static enum face_next regenerate_newest(struct face_exchange *x, struct str line,
                                        struct js_doc *doc)
{
    uint32_t task = exchange_task(doc, line), id = task ? js_get(doc, task, "task_id") : 0;
    if (!id)
        return exchange_fail(x, ERR_NOT_FOUND, "there is no answer to regenerate");
    struct buf chat = {0};
    buf_putstr(&chat, buf_str(&x->ask.conversation_id));
    struct ai_sdk_request r = {.chat_id = buf_str(&chat),
                               .regenerates = true,
                               .task_id = js_raw(doc, id),
                               .agent = x->memory.len ? buf_str(&x->memory) : STR_NULL};
    ai_sdk_put_chat(x, &r);
    buf_done(&chat);
    return FACE_FOLLOW;
}

static enum face_next ai_sdk_begin(struct face_exchange *x, const struct face_input *in)
{
    struct ai_sdk_request r;
    char why[128];
    enum face_next next = FACE_FOLLOW;
    x->operation = in->operation;
    if (in->operation == AI_SDK_GET_STREAM)
        return ask_for_turns(x, in->conversation);
    if (!ai_sdk_read(in->doc, in->body, in->operation == AI_SDK_FRAME, &r, why)) {
        next = exchange_fail(x, ERR_BAD_REQUEST, why);
    } else if (r.kind == AI_SDK_RESUME) {
        x->operation = AI_SDK_RESUME_FRAME;
        next = ask_for_turns(x, r.chat_id);
    } else if (r.regenerates && !r.task_id.p) {
        keep_agent(x, &r);
        x->operation = AI_SDK_REGENERATE;
        next = ask_for_turns(x, r.chat_id);
    } else if (r.kind == AI_SDK_SEND) {
        ai_sdk_put_chat(x, &r);
    } else {
        ai_sdk_put_answer(x, &r);
        next = FACE_ASK;
    }
    ai_sdk_request_done(&r);
    return next;
}

static enum face_next on_turns(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    uint32_t task = exchange_task(doc, line);
    uint32_t id = task && exchange_task_lives(doc, task) ? js_get(doc, task, "task_id") : 0;
    if (!id)
        return nothing_active(x);
    struct buf chat = {0};
    buf_putstr(&chat, buf_str(&x->ask.conversation_id));
    enum face_next next = follow_turn(x, buf_str(&chat), js_raw(doc, id));
    buf_done(&chat);
    return next;
}

static enum face_next ai_sdk_replied(struct face_exchange *x, enum error e, struct str line,
                                     struct js_doc *doc)
{
    if (x->operation == AI_SDK_GET_STREAM || x->operation == AI_SDK_RESUME_FRAME)
        return e || x->ask.verb != VERB_TASKS ? nothing_active(x) : on_turns(x, line, doc);
    if (e)
        return exchange_fail_line(x, e, line, doc);
    if (x->operation == AI_SDK_REGENERATE)
        return regenerate_newest(x, line, doc);
    return follow_turn(x, buf_str(&x->ask.conversation_id), buf_str(&x->ask.task_id));
}

const struct face_http_ops ai_sdk_http_ops = {
    .stream = &ai_sdk_ops,
    .begin = ai_sdk_begin,
    .replied = ai_sdk_replied,
    .put_error = exchange_put_error,
    .header = "x-vercel-ai-ui-message-stream:",
    .header_value = "v1",
};
