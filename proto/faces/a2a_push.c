/* Push notifications: a task's webhooks in the form of A2A. Its token and its authentication are
 * headers of the webhook. */
#include "proto/faces/a2a.h"

#define TOKEN_HEADER "X-A2A-Notification-Token"

/* --- a config of the client, as a webhook ----------------------------------------------------- */

static uint32_t push_member(const struct js_doc *doc, uint32_t object, const char *key,
                            enum js_type type)
{
    uint32_t at = js_get(doc, object, key);
    return at && js_type(doc, at) == type ? at : 0;
}

/* A member that is a string and not empty; ProtoJSON may leave out an empty one. */
static uint32_t filled(const struct js_doc *doc, uint32_t object, const char *key)
{
    uint32_t at = push_member(doc, object, key, JS_STRING);
    return at && js_raw(doc, at).n > 0 ? at : 0;
}

static void put_authorization(const struct js_doc *doc, uint32_t authentication, struct buf *out)
{
    uint32_t scheme = filled(doc, authentication, "scheme");
    uint32_t credentials = filled(doc, authentication, "credentials");
    struct buf value = {0};
    if (scheme)
        js_value(doc, scheme, &value);
    if (scheme && credentials)
        buf_putc(&value, ' ');
    if (credentials)
        js_value(doc, credentials, &value);
    if (value.len)
        js_put_field(out, "Authorization", buf_str(&value));
    buf_done(&value);
}

void a2a_put_webhook(const struct js_doc *doc, uint32_t config, struct buf *out)
{
    static const char *const names[][2] = {{"id", "webhook_id"}, {"url", "url"}};
    uint32_t token = filled(doc, config, "token");
    uint32_t authentication = push_member(doc, config, "authentication", JS_OBJECT);
    buf_putc(out, '{');
    for (size_t i = 0; i < countof(names); i++) {
        uint32_t at = filled(doc, config, names[i][0]);
        if (!at)
            continue;
        js_put_key(out, names[i][1]);
        js_copy(doc, at, out);
    }
    js_put_raw(out, "headers", STR("{"));
    if (token) {
        js_put_key(out, TOKEN_HEADER);
        js_copy(doc, token, out);
    }
    if (authentication)
        put_authorization(doc, authentication, out);
    buf_puts(out, "},\"form\":\"a2a\"}");
}

/* --- a webhook, as a config ------------------------------------------------------------------- */

static void put_authentication(const struct js_doc *doc, uint32_t header, struct buf *out)
{
    struct buf value = {0};
    js_value(doc, header, &value);
    const char *space = memchr(value.bytes, ' ', value.len);
    size_t n = space ? (size_t)(space - value.bytes) : value.len;
    js_put_raw(out, "authentication", STR("{"));
    js_put_field(out, "scheme", (struct str){value.bytes, n});
    if (space)
        js_put_field(out, "credentials", (struct str){space + 1, value.len - n - 1});
    buf_putc(out, '}');
    buf_done(&value);
}

static void put_config(const struct face_exchange *x, const struct js_doc *doc, uint32_t webhook,
                       struct buf *out)
{
    uint32_t id = filled(doc, webhook, "webhook_id"), url = filled(doc, webhook, "url");
    uint32_t headers = push_member(doc, webhook, "headers", JS_OBJECT);
    uint32_t token = headers ? filled(doc, headers, TOKEN_HEADER) : 0;
    uint32_t authorization = headers ? filled(doc, headers, "Authorization") : 0;
    buf_puts(out, "{\"taskId\":\"");
    exchange_put_id(out, buf_str(&x->ask.conversation_id), buf_str(&x->ask.task_id));
    buf_puts(out, "\",\"id\":");
    js_copy(doc, id, out);
    js_put_key(out, "url");
    js_copy(doc, url, out);
    if (token) {
        js_put_key(out, "token");
        js_copy(doc, token, out);
    }
    if (authorization)
        put_authentication(doc, authorization, out);
    buf_putc(out, '}');
}

/* --- requests --------------------------------------------------------------------------------- */

enum face_next a2a_push(struct face_exchange *x)
{
    const struct a2a_request *r = x->state;
    enum verb verb = r->operation == A2A_PUSH_GET || r->operation == A2A_PUSH_LIST ? VERB_WEBHOOKS
                     : r->operation == A2A_PUSH_DELETE ? VERB_WEBHOOK_DELETE
                                                       : VERB_WEBHOOK;
    struct buf conversation = {0};
    struct str task;
    bool good = exchange_read_id(r->task_id, &conversation, &task);
    if (good) {
        struct buf *body = exchange_ask(x, verb, buf_str(&conversation), task);
        if (verb == VERB_WEBHOOK)
            js_put_raw(body, "webhook", r->webhook);
        else if (verb == VERB_WEBHOOK_DELETE)
            js_put_field(body, "webhook_id", r->webhook_id.p ? r->webhook_id : STR("-"));
        exchange_ask_end(x);
    }
    buf_done(&conversation);
    return good ? FACE_ASK : a2a_fail(x, A2A_NOT_FOUND, "no such task");
}

static void put_configs(struct face_exchange *x, const struct js_doc *doc, uint32_t webhooks)
{
    js_put_raw(&x->reply, "configs", STR("["));
    for (uint32_t i = js_first(doc, webhooks); i < js_end(doc, webhooks); i = js_next(doc, i)) {
        if (i != js_first(doc, webhooks))
            buf_putc(&x->reply, ',');
        put_config(x, doc, i, &x->reply);
    }
    buf_putc(&x->reply, ']');
}

static uint32_t find_webhook(const struct js_doc *doc, uint32_t webhooks, struct str id)
{
    struct buf name = {0};
    uint32_t found = 0;
    for (uint32_t i = js_first(doc, webhooks); i < js_end(doc, webhooks); i = js_next(doc, i)) {
        buf_clear(&name);
        js_value(doc, js_get(doc, i, "webhook_id"), &name);
        if (str_eq(buf_str(&name), id))
            found = i;
    }
    buf_done(&name);
    return found;
}

enum face_next a2a_push_replied(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    const struct a2a_request *r = x->state;
    bool good = js_parse(doc, line.p, line.n, JS_OURS) && js_type(doc, 0) == JS_OBJECT;
    uint32_t one = good ? push_member(doc, 0, "webhook", JS_OBJECT) : 0;
    uint32_t all = good ? push_member(doc, 0, "webhooks", JS_ARRAY) : 0;
    if (all && r->operation == A2A_PUSH_GET)
        one = find_webhook(doc, all, r->webhook_id);
    if (!one && r->operation == A2A_PUSH_GET)
        return a2a_fail(x, A2A_NOT_FOUND, "the task has no such push notification config");
    buf_clear(&x->reply);
    a2a_begin_result(&x->reply, r);
    if (one) {
        put_config(x, doc, one, &x->reply);
    } else {
        buf_putc(&x->reply, '{');
        if (all)
            put_configs(x, doc, all);
        buf_putc(&x->reply, '}');
    }
    a2a_end_result(&x->reply, r);
    x->status = 200;
    return FACE_REPLY;
}

/* --- what is sent ----------------------------------------------------------------------------- */

bool a2a_put_push(struct js_doc *doc, struct str message, struct buf *out)
{
    bool good = js_parse(doc, message.p, message.n, JS_OURS) && js_type(doc, 0) == JS_OBJECT;
    uint32_t data = good ? push_member(doc, 0, "data", JS_OBJECT) : 0;
    uint32_t task = data ? push_member(doc, data, "task", JS_OBJECT) : 0;
    if (!task)
        return false;
    struct a2a_task told;
    struct buf memory = {0};
    a2a_task_read(doc, task, &memory, &told);
    buf_puts(out, "{\"task\":");
    a2a_put_task(out, &told);
    buf_putc(out, '}');
    buf_done(&memory);
    return true;
}
