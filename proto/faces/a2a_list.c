/* Design. Tasks are listed by conversation (PROTOCOL.md section 5), and A2A lists them with or
 * without one. So a page is filled conversation by conversation, newest change first, and in each
 * newest task first. The place where the next page begins is its token: the conversation, and the
 * last task of it that was looked at. A page with artifacts also asks for each task's record. */
#include "proto/base64url.h"
#include "proto/faces/a2a.h"

#define MOST_ASKS 64 /* of one page: what is left is the next one's */

static enum face_next list_go_on(struct face_exchange *x);

static enum face_next list_ask_tasks(struct face_exchange *x, struct str conversation_id)
{
    const struct a2a_request *r = x->state;
    struct buf *body = exchange_ask(x, VERB_TASKS, conversation_id, STR_NULL);
    js_put_int(body, "limit", A2A_PAGE);
    if (r->last[0])
        js_put_field(body, "before", str_of(r->last));
    exchange_ask_end(x);
    return FACE_ASK;
}

static enum face_next list_ask_conversation(struct face_exchange *x, struct str before)
{
    struct buf own = {0}; /* before may be the ask's, which is replaced */
    buf_putstr(&own, before);
    struct buf *body = exchange_ask(x, VERB_CONVERSATIONS, STR_NULL, STR_NULL);
    js_put_int(body, "limit", 1);
    if (own.len)
        js_put_field(body, "before", buf_str(&own));
    exchange_ask_end(x);
    buf_done(&own);
    return FACE_ASK;
}

static void put_token(struct face_exchange *x)
{
    const struct a2a_request *r = x->state;
    struct buf place = {0};
    buf_putstr(&place, buf_str(&x->ask.conversation_id));
    buf_putc(&place, '\n');
    buf_puts(&place, r->has_more ? r->last : "");
    base64url_put(&x->reply, place.bytes, place.len);
    buf_done(&place);
}

/* Nobody counts tasks here: the total is what is known of it. */
static enum face_next end_page(struct face_exchange *x, bool is_last)
{
    const struct a2a_request *r = x->state;
    buf_puts(&x->reply, "],\"nextPageToken\":\"");
    if (!is_last)
        put_token(x);
    buf_putc(&x->reply, '"');
    js_put_int(&x->reply, "pageSize", r->page_size);
    js_put_int(&x->reply, "totalSize", (int64_t)r->n + (is_last ? 0 : 1));
    buf_putc(&x->reply, '}');
    a2a_end_result(&x->reply, r);
    x->status = 200;
    return FACE_REPLY;
}

static bool list_wants(const struct a2a_request *r, const struct js_doc *doc, uint32_t node,
                       const struct a2a_task *task)
{
    uint32_t agent = js_get(doc, node, "agent");
    return agent && str_eq(js_raw(doc, agent), r->agent) &&
           (r->state == A2A_UNSPECIFIED || r->state == task->state) && task->at > r->after;
}

static void put_listed(struct face_exchange *x, const struct a2a_task *task)
{
    struct a2a_request *r = x->state;
    if (r->n++)
        buf_putc(&x->reply, ',');
    a2a_put_task(&x->reply, task);
}

/* A task of the conversation: put, or noted where its record is asked for. */
static void look_at(struct face_exchange *x, const struct js_doc *doc, uint32_t node)
{
    struct a2a_request *r = x->state;
    struct buf memory = {0};
    struct a2a_task task;
    a2a_task_read(doc, node, &memory, &task);
    if (task.task_id.n == TASK_ID_LEN)
        memcpy(r->last, task.task_id.p, TASK_ID_LEN);
    if (task.task_id.n != TASK_ID_LEN || !list_wants(r, doc, node, &task)) {
        buf_done(&memory);
        return;
    }
    if (r->with_artifacts)
        memcpy(r->ids[r->n_ids++], task.task_id.p, TASK_ID_LEN);
    else
        put_listed(x, &task);
    buf_done(&memory);
}

static enum face_next list_on_tasks(struct face_exchange *x, struct js_doc *doc)
{
    struct a2a_request *r = x->state;
    uint32_t nodes[A2A_PAGE], n = 0;
    uint32_t tasks = js_get(doc, 0, "tasks"), more = js_get(doc, 0, "more");
    for (uint32_t i = js_first(doc, tasks); n < A2A_PAGE && i < js_end(doc, tasks);
         i = js_next(doc, i))
        nodes[n++] = i;
    r->has_more = more && js_type(doc, more) == JS_TRUE;
    r->n_ids = r->at_id = 0;
    while (n > 0 && r->n + r->n_ids < r->page_size)
        look_at(x, doc, nodes[--n]);
    r->has_more = r->has_more || n > 0;
    return list_go_on(x);
}

static enum face_next list_on_conversation(struct face_exchange *x, struct js_doc *doc)
{
    struct a2a_request *r = x->state;
    uint32_t list = js_get(doc, 0, "conversations");
    if (js_first(doc, list) == js_end(doc, list))
        return end_page(x, true);
    r->last[0] = 0;
    return list_ask_tasks(x, js_raw(doc, js_get(doc, js_first(doc, list), "conversation_id")));
}

static enum face_next list_on_record(struct face_exchange *x, struct js_doc *doc)
{
    struct buf memory = {0};
    struct a2a_task task;
    a2a_task_read(doc, js_get(doc, 0, "task"), &memory, &task);
    put_listed(x, &task);
    buf_done(&memory);
    return list_go_on(x);
}

static enum face_next list_go_on(struct face_exchange *x)
{
    struct a2a_request *r = x->state;
    struct str conversation = buf_str(&x->ask.conversation_id);
    if (r->at_id < r->n_ids) {
        struct str id = {r->ids[r->at_id++], TASK_ID_LEN};
        exchange_ask(x, VERB_TASK_GET, conversation, id);
        exchange_ask_end(x);
        return FACE_ASK;
    }
    bool was_all = !r->has_more && r->context_id.p;
    if (was_all || r->n == r->page_size || ++r->n_asks == MOST_ASKS)
        return end_page(x, was_all);
    return r->has_more ? list_ask_tasks(x, conversation) : list_ask_conversation(x, conversation);
}

/* "" is the beginning. */
static bool read_token(struct a2a_request *r, struct buf *ret_conversation)
{
    if (!base64url_read(r->page_token, ret_conversation))
        return false;
    struct str place = buf_str(ret_conversation);
    const char *newline = memchr(place.p, '\n', place.n);
    size_t n = newline ? (size_t)(newline - place.p) : 0;
    size_t n_id = newline ? place.n - n - 1 : 0;
    if (!newline || (n_id != 0 && n_id != TASK_ID_LEN))
        return false;
    memcpy(r->last, newline + 1, n_id);
    ret_conversation->len = n;
    return true;
}

enum face_next a2a_list(struct face_exchange *x)
{
    struct a2a_request *r = x->state;
    struct buf conversation = {0};
    if (r->page_token.p && !read_token(r, &conversation)) {
        buf_done(&conversation);
        return a2a_fail(x, A2A_PARAMS, "\"pageToken\" is none that was given");
    }
    buf_clear(&x->reply);
    a2a_begin_result(&x->reply, r);
    buf_puts(&x->reply, "{\"tasks\":[");
    enum face_next next;
    if (r->context_id.p)
        next = list_ask_tasks(x, r->context_id);
    else if (r->last[0])
        next = list_ask_tasks(x, buf_str(&conversation));
    else
        next = list_ask_conversation(x, buf_str(&conversation));
    buf_done(&conversation);
    return next;
}

enum face_next a2a_list_replied(struct face_exchange *x, enum error e, struct str line,
                                struct js_doc *doc)
{
    if (e == ERR_NOT_FOUND && x->ask.verb == VERB_TASK_GET)
        return list_go_on(x); /* it was deleted meanwhile */
    if (e)
        return a2a_fail_line(x, e, line, doc);
    if (!js_parse(doc, line.p, line.n, JS_OURS))
        return a2a_fail(x, A2A_INTERNAL, "the reply cannot be read");
    switch (x->ask.verb) {
    case VERB_TASKS: return list_on_tasks(x, doc);
    case VERB_CONVERSATIONS: return list_on_conversation(x, doc);
    default: return list_on_record(x, doc);
    }
}
