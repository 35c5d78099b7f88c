/* HttpAgent of @ag-ui/client: POST runs, and GET serves clients that connect() to a thread. For a
 * thread that is unknown, foreign or malformed the GET's answer is the same 404. */
#include "proto/faces/ag_ui.h"

#include <stdio.h>

#include "proto/faces/face_parts.h"

#define SHOWN_MESSAGES 200 /* the most that a list returns */

/* member: where the message goes, `edit` or `reply_to` of that id; NULL: at the end. */
static enum face_next put_chat(struct face_exchange *x, const char *member, struct str id)
{
    const struct ag_ui_request *r = x->state;
    struct buf *body = exchange_ask(x, VERB_CHAT, r->thread_id, STR_NULL);
    face_put_message(body, r->message, r->parts);
    js_put_field(body, "agent", r->agent);
    js_put_field(body, "request_key", r->run_id);
    if (r->context.p)
        js_put_raw(body, "context", r->context);
    if (member)
        js_put_field(body, member, id);
    js_put_key(body, "metadata");
    buf_putc(body, '{');
    js_put_field(body, "run_id", r->run_id);
    if (r->message_id.n)
        js_put_field(body, "message_id", r->message_id);
    buf_putc(body, '}');
    exchange_ask_end(x);
    x->step = member != NULL;
    return FACE_FOLLOW;
}

static enum face_next follow_run(struct face_exchange *x, struct str thread_id, struct str task_id)
{
    exchange_ask(x, VERB_RESUME, thread_id, task_id);
    exchange_ask_end(x);
    return FACE_FOLLOW;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Two steps an answer: x->step is even for the client's answer, and odd for the second attempt to
 * decline. The stream continues where the first answer's run was left. */
static enum face_next give_answer(struct face_exchange *x, struct js_doc *doc)
{
    struct ag_ui_request *r = x->state;
    struct ag_ui_answer a;
    if (!ag_ui_answer(r, doc, (uint32_t)x->step / 2, &a))
        return follow_run(x, r->thread_id, str_of(r->task_id));
    if (x->step == 0) {
        memcpy(r->task_id, a.task_id, sizeof r->task_id);
        r->known = (struct face_place){.seq = a.seq};
    }
    struct buf *body = exchange_ask(x, VERB_RESPOND, r->thread_id, str_of(a.task_id));
    js_put_field(body, "input_id", buf_str(&a.input_id));
    js_put_raw(body, "answer", x->step % 2 ? STR("\"\"") : buf_str(&a.answer));
    exchange_ask_end(x);
    ag_ui_answer_done(&a);
    return FACE_ASK;
}

static bool is_cancelled(const struct face_exchange *x, struct js_doc *doc)
{
    struct ag_ui_answer a;
    bool cancelled = ag_ui_answer(x->state, doc, (uint32_t)x->step / 2, &a) && a.is_cancelled;
    ag_ui_answer_done(&a);
    return cancelled;
}

/* A cancelled answer declines: that is false to an approval, or "" to a question, and no fault when
 * it is too late for one. */
static enum face_next on_answered(struct face_exchange *x, enum error e, struct str line,
                                  struct js_doc *doc)
{
    bool late = e == ERR_CONFLICT || e == ERR_TASK_TERMINATED;
    bool again = e == ERR_BAD_REQUEST && x->step % 2 == 0;
    bool forgiven = (late || again) && is_cancelled(x, doc);
    if (e && !forgiven)
        return exchange_fail_line(x, e, line, doc);
    x->step += again ? 1 : 2 - x->step % 2;
    return give_answer(x, doc);
}

/* --- a run ------------------------------------------------------------------------------------ */

/* A lone message is the first one of a page, or an edit of the thread's first question, whose id is
 * in its task's metadata. That task is the oldest turn, and lists begin with the newest. */
static enum face_next seek_first(struct face_exchange *x, struct str before)
{
    const struct ag_ui_request *r = x->state;
    struct buf *body = exchange_ask(x, VERB_TASKS, r->thread_id, STR_NULL);
    js_put_bool(body, "turns", true);
    js_put_int(body, "limit", SHOWN_MESSAGES);
    if (before.n)
        js_put_field(body, "before", before);
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next on_turns_sought(struct face_exchange *x, enum error e, struct str line,
                                      struct js_doc *doc)
{
    const struct ag_ui_request *r = x->state;
    bool found = !e && exchange_task(doc, line);
    uint32_t oldest = found ? js_first(doc, js_get(doc, 0, "tasks")) : 0;
    uint32_t more = found ? js_get(doc, 0, "more") : 0;
    if (!oldest)
        return put_chat(x, NULL, STR_NULL);
    struct str id = js_raw(doc, js_get(doc, oldest, "task_id"));
    if (more && js_type(doc, more) == JS_TRUE)
        return seek_first(x, id);
    exchange_ask(x, VERB_TASK_GET, r->thread_id, id);
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next on_first(struct face_exchange *x, enum error e, struct str line,
                               struct js_doc *doc)
{
    const struct ag_ui_request *r = x->state;
    uint32_t task = e ? 0 : exchange_task(doc, line);
    uint32_t metadata = task ? js_get(doc, task, "metadata") : 0;
    bool is_object = metadata && js_type(doc, metadata) == JS_OBJECT;
    uint32_t at = is_object ? js_get(doc, metadata, "message_id") : 0;
    struct buf value = {0};
    if (at && js_type(doc, at) == JS_STRING)
        js_value(doc, at, &value);
    bool is_same = value.len > 0 && str_eq(buf_str(&value), r->message_id);
    buf_done(&value);
    return is_same ? put_chat(x, "edit", js_raw(doc, js_get(doc, task, "task_id")))
                   : put_chat(x, NULL, STR_NULL);
}

/* A page that changes a question, or asks it again, posts what stood before it: so the question
 * goes where the page has it, beside the one that it was before. */
static enum face_next place_question(struct face_exchange *x)
{
    const struct ag_ui_request *r = x->state;
    if (ag_ui_edits(r))
        return put_chat(x, "edit", r->message_id);
    if (r->follows.p)
        return put_chat(x, "reply_to", r->follows);
    if (r->is_lone && r->message_id.n)
        return seek_first(x, STR_NULL);
    return put_chat(x, NULL, STR_NULL);
}

static enum face_next begin_post(struct face_exchange *x, const struct face_input *in)
{
    struct ag_ui_request *r = x->state;
    char why[128];
    buf_putstr(&x->memory, in->agent);
    if (!ag_ui_read(in->doc, in->body, r, &x->memory, why))
        return exchange_fail(x, ERR_BAD_REQUEST, why);
    r->agent = (struct str){x->memory.bytes, in->agent.n};
    buf_putstr(&x->client_id, r->run_id);
    if (r->resume.p)
        return give_answer(x, in->doc);
    if (!conversation_id_is_valid(r->thread_id))
        return exchange_fail(x, ERR_BAD_REQUEST,
                             "\"threadId\" must be 1 to 128 of A-Z a-z 0-9 . _ -, the first a "
                             "letter or digit");
    return place_question(x);
}

/* An id that looks like one of ours, and is not one of this thread: the client's own. */
static enum face_next on_chat_refused(struct face_exchange *x, enum error e, struct str line,
                                      struct js_doc *doc)
{
    bool is_strange = e == ERR_NOT_FOUND && x->step == 1;
    return is_strange ? put_chat(x, NULL, STR_NULL) : exchange_fail_line(x, e, line, doc);
}

/* --- connect ---------------------------------------------------------------------------------- */

static enum face_next no_thread(struct face_exchange *x, enum error e, struct str line,
                                struct js_doc *doc)
{
    bool is_ours = e == ERR_OVERLOADED || e == ERR_INTERNAL || e == ERR_RATE_LIMITED;
    return is_ours ? exchange_fail_line(x, e, line, doc)
                   : exchange_fail(x, ERR_NOT_FOUND, "no such thread");
}

static enum face_next begin_connect(struct face_exchange *x, const struct face_input *in)
{
    struct ag_ui_request *r = x->state;
    if (in->header.n && !ag_ui_read_id(in->header, r))
        return exchange_fail(x, ERR_BAD_REQUEST, "\"Last-Event-ID\" is not an event's id");
    r->tells_history = true;
    struct buf *body = exchange_ask(x, VERB_TASKS, in->conversation, STR_NULL);
    js_put_bool(body, "turns", true);
    js_put_int(body, "limit", 1);
    exchange_ask_end(x);
    return FACE_ASK;
}

/* The client's place belongs to that turn, or to none. */
static bool settle_place(struct ag_ui_request *r, const struct js_doc *doc, uint32_t task)
{
    int64_t head = 0;
    uint32_t id = js_get(doc, task, "task_id"), at = js_get(doc, task, "head");
    if (!js_is(doc, id, r->task_id))
        r->known = (struct face_place){0};
    snprintf(r->task_id, sizeof r->task_id, "%.*s", (int)js_raw(doc, id).n, js_raw(doc, id).p);
    return !r->known.seq || (at && js_int(doc, at, &head) && r->known.seq <= (uint64_t)head);
}

static enum face_next on_turns(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    uint32_t task = exchange_task(doc, line);
    if (!task)
        return no_thread(x, ERR_NOT_FOUND, STR_NULL, doc);
    if (!settle_place(x->state, doc, task))
        return exchange_fail(x, ERR_OUT_OF_RANGE, "\"Last-Event-ID\" is beyond the last event");
    if (!exchange_task_lives(doc, task))
        ag_ui_read_record(doc, task, x->state, &x->memory);
    struct buf *body = exchange_ask(x, VERB_HISTORY, buf_str(&x->ask.conversation_id), STR_NULL);
    js_put_int(body, "limit", SHOWN_MESSAGES);
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next on_connect(struct face_exchange *x, enum error e, struct str line,
                                 struct js_doc *doc)
{
    struct ag_ui_request *r = x->state;
    if (e)
        return no_thread(x, e, line, doc);
    if (x->ask.verb == VERB_TASKS)
        return on_turns(x, line, doc);
    ag_ui_read_history(doc, line, r, &x->memory);
    return follow_run(x, buf_str(&x->ask.conversation_id), str_of(r->task_id));
}

/* --- the exchange ----------------------------------------------------------------------------- */

static enum face_next ag_ui_begin(struct face_exchange *x, const struct face_input *in)
{
    x->operation = in->operation;
    x->state = xcalloc(sizeof(struct ag_ui_request));
    return in->operation == AG_UI_CONNECT ? begin_connect(x, in) : begin_post(x, in);
}

static enum face_next ag_ui_replied(struct face_exchange *x, enum error e, struct str line,
                                    struct js_doc *doc)
{
    if (x->operation == AG_UI_CONNECT)
        return on_connect(x, e, line, doc);
    if (x->ask.verb == VERB_RESPOND)
        return on_answered(x, e, line, doc);
    if (x->ask.verb == VERB_TASKS)
        return on_turns_sought(x, e, line, doc);
    if (x->ask.verb == VERB_TASK_GET)
        return on_first(x, e, line, doc);
    return on_chat_refused(x, e, line, doc);
}

const struct face_http_ops ag_ui_http_ops = {
    .stream = &ag_ui_ops,
    .begin = ag_ui_begin,
    .replied = ag_ui_replied,
    .put_error = exchange_put_error,
    .reads = "last-event-id:",
    .put_id = ag_ui_put_id,
};
