/* A2A, over JSON-RPC: version 1.0, or 0.3 when the server does not know the method of 1.0. The
 * server keeps the conversation: its context's id is the session.
 *
 * Design.
 *   - The text of a task's artifacts is the answer.  `parts` has each artifact's text as far as it
 *     was told, since after a cut the task comes as a snapshot: only what is more than that is
 *     told.
 *   - What an agent says with a status while it works is a thought: many say the same again in an
 *     artifact.  When there is neither an artifact nor a last message, it was the answer.
 *   - A server that knows only 0.3, or does not stream, refuses the first request and gets another.
 *   - A cut, or an end without a last state, leads to SubscribeToTask; when that is refused,
 *     since the task has ended or the server cannot, to GetTask. */
#include "proto/forms/remote.h"

#include "proto/str.h"

#define UNKNOWN_METHOD (-32601)
#define UNSUPPORTED (-32004)

enum { A2A_STREAMS, A2A_SUBSCRIBES, A2A_GETS };

enum { SEND, SEND_PLAIN, SUBSCRIBE, GET, CANCEL };

static const char *const methods[][2] = {
    [SEND] = {"SendStreamingMessage", "message/stream"},
    [SEND_PLAIN] = {"SendMessage", "message/send"},
    [SUBSCRIBE] = {"SubscribeToTask", "tasks/resubscribe"},
    [GET] = {"GetTask", "tasks/get"},
    [CANCEL] = {"CancelTask", "tasks/cancel"},
};

/* {"jsonrpc":"2.0","id":…,"method":…,"params":{ */
static struct buf *a2a_open(struct remote *r, int method)
{
    struct buf *body = remote_post(r, buf_str(&r->url));
    buf_puts(body, "{\"jsonrpc\":\"2.0\"");
    js_put_int(body, "id", r->posted);
    js_put_field(body, "method", str_of(methods[method][r->is_old]));
    js_put_raw(body, "params", STR("{"));
    return body;
}

static void a2a_send(struct remote *r, struct str text)
{
    struct buf *body = a2a_open(r, r->is_plain ? SEND_PLAIN : SEND), id = {0};
    r->step = A2A_STREAMS;
    buf_putstr(&id, buf_str(&r->task_id));
    buf_putf(&id, "-%u", r->posted);
    js_put_raw(body, "message", STR("{"));
    if (r->is_old)
        js_put_field(body, "kind", STR("message"));
    js_put_field(body, "messageId", buf_str(&id));
    js_put_field(body, "role", r->is_old ? STR("user") : STR("ROLE_USER"));
    js_put_raw(body, "parts", STR("[{"));
    if (r->is_old)
        js_put_field(body, "kind", STR("text"));
    js_put_field(body, "text", text);
    buf_puts(body, "}]");
    if (r->session.len)
        js_put_field(body, "contextId", buf_str(&r->session));
    if (r->peer_id.len)
        js_put_field(body, "taskId", buf_str(&r->peer_id));
    buf_puts(body, "}}}");
    buf_done(&id);
}

static void a2a_about_task(struct remote *r, int method, int step)
{
    struct buf *body = a2a_open(r, method);
    r->step = step;
    r->request.may_repeat = true;
    js_put_field(body, "id", buf_str(&r->peer_id));
    buf_puts(body, "}}");
}

static void a2a_begin(struct remote *r)
{
    a2a_send(r, r->session.len ? buf_str(&r->input) : buf_str(&r->recap));
}

/* One task asks one question at a time. */
static void a2a_answered(struct remote *r)
{
    struct str json = buf_str(&r->questions[0].answer);
    struct buf text = {0};
    bool good = js_parse(&r->other, json.p, json.n, JS_OURS);
    ASSERT(good);
    if (js_type(&r->other, 0) == JS_STRING)
        js_value(&r->other, 0, &text);
    else
        buf_puts(&text, "There is no answer."); /* it has expired */
    a2a_send(r, buf_str(&text));
    buf_done(&text);
}

/* --- parts ------------------------------------------------------------------------------------ */

static void put_texts(const struct js_doc *doc, uint32_t parts, struct buf *out)
{
    if (!parts || js_type(doc, parts) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, parts); i < js_end(doc, parts); i = js_next(doc, i)) {
        uint32_t text = js_type(doc, i) == JS_OBJECT ? js_get(doc, i, "text") : 0;
        if (text && js_type(doc, text) == JS_STRING)
            js_value(doc, text, out);
    }
}

static struct str a2a_texts(struct remote *r, uint32_t message)
{
    buf_clear(&r->text);
    if (message && js_type(&r->doc, message) == JS_OBJECT)
        put_texts(&r->doc, js_get(&r->doc, message, "parts"), &r->text);
    return buf_str(&r->text);
}

/* Those that are no text. */
static void tell_other_parts(struct remote *r, uint32_t parts)
{
    const struct js_doc *doc = &r->doc;
    if (!parts || js_type(doc, parts) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, parts); i < js_end(doc, parts); i = js_next(doc, i))
        if (js_type(doc, i) == JS_OBJECT && !js_get(doc, i, "text"))
            say_custom(&r->said, STR("artifact"), doc, i);
}

/* --- artifacts -------------------------------------------------------------------------------- */

/* The answer is all of them, as they are now. */
static void join_answer(struct remote *r)
{
    buf_clear(&r->answer);
    r->answer_cut = false;
    for (size_t i = 0; i < r->parts.n; i++) {
        struct str text = buf_str(&r->parts.list[i].text);
        if (r->answer.len + text.n > MAX_OUTPUT)
            r->answer_cut = true;
        else
            buf_putstr(&r->answer, text);
    }
}

/* The artifact's whole text so far.  What was told of it is not told again. */
static void artifact_is(struct remote *r, struct remote_part *part, struct str text)
{
    struct str told = buf_str(&part->text);
    if (str_begins(text, told)) {
        struct str more = str_from(text, told.n);
        remote_token(r, more);
        buf_putstr(&part->text, more);
        return;
    }
    if (str_begins(told, text)) /* an older view of it */
        return;
    remote_token(r, text); /* it was replaced */
    buf_clear(&part->text);
    buf_putstr(&part->text, text);
}

/* number: which one it is, for artifacts that have no id. */
static void a2a_artifact(struct remote *r, uint32_t artifact, bool appends, size_t number)
{
    const struct js_doc *doc = &r->doc;
    uint32_t parts = js_get(doc, artifact, "parts");
    if (say_text(doc, js_get(doc, artifact, "artifactId"), &r->more).n == 0)
        buf_putf(&r->more, "#%zu", number);
    struct remote_part *part = remote_part(&r->parts, buf_str(&r->more));
    struct str text = a2a_texts(r, artifact);
    if (!part || part->text.len + text.n > SSE_MAX_EVENT) {
        remote_fail(r, STR("its artifacts are too many, or too long"));
        return;
    }
    if (appends) {
        remote_token(r, text);
        buf_putstr(&part->text, text);
    } else {
        artifact_is(r, part, text);
    }
    tell_other_parts(r, parts);
    join_answer(r);
}

static bool is_true(const struct js_doc *doc, uint32_t object, const char *key)
{
    uint32_t node = js_get(doc, object, key);
    return node && js_type(doc, node) == JS_TRUE;
}

/* --- states ----------------------------------------------------------------------------------- */

enum a2a_state { A2A_GOES_ON, A2A_ASKS, A2A_COMPLETED, A2A_FAILED, A2A_CANCELED };

static const struct {
    const char *name, *old;
    enum a2a_state state;
} states[] = {
    {"TASK_STATE_INPUT_REQUIRED", "input-required", A2A_ASKS},
    {"TASK_STATE_AUTH_REQUIRED", "auth-required", A2A_ASKS},
    {"TASK_STATE_COMPLETED", "completed", A2A_COMPLETED},
    {"TASK_STATE_FAILED", "failed", A2A_FAILED},
    {"TASK_STATE_REJECTED", "rejected", A2A_FAILED},
    {"TASK_STATE_CANCELED", "canceled", A2A_CANCELED},
};

static enum a2a_state a2a_state_of(const struct js_doc *doc, uint32_t status)
{
    for (size_t i = 0; i < countof(states); i++)
        if (say_is(doc, status, "state", states[i].name) ||
            say_is(doc, status, "state", states[i].old))
            return states[i].state;
    return A2A_GOES_ON;
}

static void a2a_complete(struct remote *r, uint32_t message)
{
    struct str text = a2a_texts(r, message);
    if (r->answer.len == 0 && !r->answer_cut)
        remote_token(r, text.n ? text : buf_str(&r->pending));
    else if (text.n && !str_eq(text, buf_str(&r->answer)))
        remote_thinking(r, text);
    remote_finish(r);
}

static void a2a_works(struct remote *r, uint32_t message)
{
    struct str text = a2a_texts(r, message);
    if (text.n == 0 || str_eq(text, buf_str(&r->pending)))
        return;
    remote_thinking(r, text);
    buf_clear(&r->pending);
    if (text.n <= MAX_OUTPUT)
        buf_putstr(&r->pending, text);
}

static void a2a_fails(struct remote *r, uint32_t message)
{
    struct buf why = {0};
    struct str text = a2a_texts(r, message);
    buf_puts(&why, "the agent said: ");
    buf_put(&why, text.p, utf8_cut(text, 1000));
    remote_fail(r, text.n ? buf_str(&why) : STR("the agent's task has failed"));
    buf_done(&why);
}

/* The reply to an answer may begin with the task as it was before: its question is kept. */
static bool is_asked_already(struct remote *r, uint32_t status)
{
    buf_clear(&r->more);
    js_copy(&r->doc, status, &r->more);
    if (str_eq(buf_str(&r->more), buf_str(&r->kept)))
        return true;
    buf_clear(&r->kept);
    buf_putstr(&r->kept, buf_str(&r->more));
    return false;
}

static void a2a_ask(struct remote *r, uint32_t status, uint32_t message)
{
    if (is_asked_already(r, status))
        return;
    remote_ask_text(r, a2a_texts(r, message), STR(""));
    remote_wait(r);
}

static void a2a_status(struct remote *r, uint32_t status)
{
    uint32_t message = js_get(&r->doc, status, "message");
    switch (a2a_state_of(&r->doc, status)) {
    case A2A_GOES_ON: a2a_works(r, message); return;
    case A2A_ASKS: a2a_ask(r, status, message); return;
    case A2A_COMPLETED: a2a_complete(r, message); return;
    case A2A_FAILED: a2a_fails(r, message); return;
    case A2A_CANCELED: remote_fail(r, STR("the agent has canceled its task")); return;
    }
    UNREACHABLE();
}

/* --- replies ---------------------------------------------------------------------------------- */

static void a2a_context(struct remote *r, uint32_t object)
{
    uint32_t id = js_get(&r->doc, object, "contextId");
    if (id && js_type(&r->doc, id) == JS_STRING)
        remote_set_session(r, say_text(&r->doc, id, &r->text));
}

static void a2a_task(struct remote *r, uint32_t task)
{
    const struct js_doc *doc = &r->doc;
    uint32_t artifacts = js_get(doc, task, "artifacts"), status = js_get(doc, task, "status");
    size_t n = 0;
    (void)!remote_set_id(&r->peer_id, doc, js_get(doc, task, "id"));
    a2a_context(r, task);
    if (artifacts && js_type(doc, artifacts) == JS_ARRAY)
        for (uint32_t i = js_first(doc, artifacts); i < js_end(doc, artifacts); i = js_next(doc, i))
            if (js_type(doc, i) == JS_OBJECT)
                a2a_artifact(r, i, false, n++);
    if (status && js_type(doc, status) == JS_OBJECT && r->state == REMOTE_WORKS)
        a2a_status(r, status);
}

/* A message instead of a task is all that comes. */
static void a2a_message(struct remote *r, uint32_t message)
{
    a2a_context(r, message);
    remote_token(r, a2a_texts(r, message));
    tell_other_parts(r, js_get(&r->doc, message, "parts"));
    remote_finish(r);
}

static uint32_t find_object(const struct js_doc *doc, uint32_t object, const char *key)
{
    uint32_t node = js_get(doc, object, key);
    return node && js_type(doc, node) == JS_OBJECT ? node : 0;
}

/* In 1.0 a member says what the result is, in 0.3 its kind.  Some send an artifact beside its
 * task. */
static void a2a_result(struct remote *r, uint32_t result)
{
    const struct js_doc *doc = &r->doc;
    r->goes_on = false;
    uint32_t task = find_object(doc, result, "task");
    uint32_t message = find_object(doc, result, "message");
    uint32_t update = find_object(doc, result, "statusUpdate");
    uint32_t more = find_object(doc, result, "artifactUpdate");
    uint32_t holder = more ? more : result;
    uint32_t artifact = find_object(doc, holder, "artifact");
    (void)!remote_set_id(&r->peer_id, doc, js_get(doc, holder, "taskId"));
    if (artifact) {
        bool appends = is_true(doc, holder, "append") || is_true(doc, artifact, "append");
        r->n_items += !js_get(doc, artifact, "artifactId") && !(appends && r->n_items);
        a2a_artifact(r, artifact, appends, r->n_items ? r->n_items - 1 : 0);
    }
    if (r->state != REMOTE_WORKS)
        return;
    if (task) {
        a2a_task(r, task);
    } else if (message) {
        a2a_message(r, message);
    } else if (say_is(doc, result, "kind", "message")) {
        a2a_message(r, result);
    } else if (update || find_object(doc, result, "status")) {
        if (update)
            (void)!remote_set_id(&r->peer_id, doc, js_get(doc, update, "taskId"));
        a2a_task(r, update ? update : result);
    }
}

/* The first request was refused for what this server cannot.  True: it is sent in another way. */
static bool send_otherwise(struct remote *r, int64_t code)
{
    bool *way = code == UNKNOWN_METHOD ? &r->is_old : code == UNSUPPORTED ? &r->is_plain : NULL;
    if (r->step != A2A_STREAMS || r->peer_id.len || !way || *way)
        return false;
    *way = true;
    a2a_begin(r);
    return true;
}

static void a2a_error(struct remote *r, uint32_t error)
{
    int64_t code;
    uint32_t node = js_get(&r->doc, error, "code");
    if (!node || !js_int(&r->doc, node, &code))
        code = 0;
    if (r->step == A2A_SUBSCRIBES)
        a2a_about_task(r, GET, A2A_GETS);
    else if (r->goes_on)
        remote_begin_anew(r);
    else if (!send_otherwise(r, code))
        remote_complain(r, error);
}

static void a2a_take(struct remote *r, struct str event)
{
    const struct js_doc *doc = &r->doc;
    if (js_type(doc, 0) != JS_OBJECT)
        return;
    uint32_t error = find_object(doc, 0, "error"), result = find_object(doc, 0, "result");
    if (error)
        a2a_error(r, error);
    else if (result)
        a2a_result(r, result);
    else if (str_eq(event, STR("error")))
        remote_complain(r, 0);
    else
        remote_fail(r, STR("its reply has neither a result nor an error"));
}

static bool a2a_end(struct remote *r, struct str why)
{
    (void)why;
    if (r->peer_id.len == 0)
        return false;
    a2a_about_task(r, SUBSCRIBE, A2A_SUBSCRIBES);
    r->request.again = true;
    return true;
}

/* All that the task is by now; then its stream, if it still works. */
static void a2a_again(struct remote *r)
{
    a2a_about_task(r, GET, A2A_GETS);
}

static bool a2a_cancel(struct remote *r)
{
    if (r->peer_id.len == 0)
        return false;
    a2a_about_task(r, CANCEL, A2A_GETS);
    return true;
}

const struct remote_form remote_a2a = {
    .name = "a2a",
    .header = "A2A-Version: 1.0",
    .keeps_session = true,
    .begin = a2a_begin,
    .take = a2a_take,
    .end = a2a_end,
    .answered = a2a_answered,
    .cancel = a2a_cancel,
    .again = a2a_again,
    .takes_errors = true,
};
