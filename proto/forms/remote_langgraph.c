/* A LangGraph server: a thread for each conversation, a run for each turn.  url is the server's;
 * model names the assistant, or its graph.
 *
 * Design.
 *
 *   no session ─▶ POST threads ─▶ POST threads/T/runs/stream ─▶ metadata, messages, updates, end
 *   session    ───────────────────▲         │ cut                  │ interrupt: asked, and
 *                                 │         ▼                      ▼ answered by another run
 *                                 │   GET …/runs/R/stream ─▶ end ─▶ GET …/runs/R/join: the rest
 *
 *   - messages (stream mode messages-tuple) has the pieces of text, updates what each node has
 *     added to the state: calls, results and the answer are told from there, because they are whole
 *     there.
 *   - Runs are resumable, and go on when the connection is cut.  The stream goes on behind the last
 *     event's id; a server that gives none begins with what is new.  So after a cut the answer is
 *     what the run itself has left in the state (join).
 *   - A run ends with its stream; an error says so before. */
#include "proto/forms/remote.h"

#include "proto/forms/form.h"
#include "proto/str.h"

enum { LG_STREAMS, LG_THREAD, LG_JOINS };

static void put_base(const struct remote *r, struct buf *out)
{
    struct str url = buf_str(&r->url);
    while (url.n && url.p[url.n - 1] == '/')
        url.n--;
    buf_putstr(out, url);
    buf_puts(out, "/threads");
}

/* …/threads/T/runs/R and what follows. */
static void put_run_url(const struct remote *r, const char *rest, struct buf *out)
{
    put_base(r, out);
    buf_putc(out, '/');
    buf_putstr(out, buf_str(&r->session));
    buf_puts(out, "/runs/");
    buf_putstr(out, buf_str(&r->peer_id));
    buf_puts(out, rest);
}

static void lg_make_thread(struct remote *r)
{
    struct buf url = {0};
    put_base(r, &url);
    struct buf *body = remote_post(r, buf_str(&url));
    r->step = LG_THREAD;
    r->request.may_repeat = true; /* one thread more */
    buf_puts(body, "{\"metadata\":{");
    js_put_field(body, "conversation_id", buf_str(&r->conversation_id));
    buf_puts(body, "}}");
    buf_done(&url);
}

static struct buf *lg_open_run(struct remote *r)
{
    struct buf url = {0};
    put_base(r, &url);
    buf_putc(&url, '/');
    buf_putstr(&url, buf_str(&r->session));
    buf_puts(&url, "/runs/stream");
    struct buf *body = remote_post(r, buf_str(&url));
    r->step = LG_STREAMS;
    buf_clear(&r->peer_id);
    buf_clear(&r->last_id);
    buf_putc(body, '{');
    js_put_field(body, "assistant_id", buf_str(&r->model));
    js_put_raw(body, "stream_mode", STR("[\"messages-tuple\",\"updates\",\"custom\"]"));
    js_put_bool(body, "stream_resumable", true);
    js_put_field(body, "on_disconnect", STR("continue"));
    js_put_field(body, "multitask_strategy", STR("enqueue"));
    buf_done(&url);
    return body;
}

/* A thread that is new to the server gets the history, too. */
static void lg_run(struct remote *r, bool is_new)
{
    struct buf *body = lg_open_run(r);
    js_put_raw(body, "input", STR("{\"messages\":["));
    if (is_new) {
        remote_put_messages(buf_str(&r->history), buf_str(&r->input), remote_put_role_content,
                            body);
    } else {
        buf_putc(body, '{');
        remote_put_role_content(body, 1, STR("user"), buf_str(&r->input));
        buf_putc(body, '}');
    }
    buf_puts(body, "]}}");
}

static void lg_begin(struct remote *r)
{
    if (r->session.len)
        lg_run(r, false);
    else
        lg_make_thread(r);
}

static bool lg_refused(struct remote *r, int status)
{
    if (status == 404 && r->goes_on) {
        remote_begin_anew(r);
        return true;
    }
    bool lost = status == 404 && r->session.len && r->step == LG_STREAMS && r->posted == 1;
    if (!lost)
        return false;
    buf_clear(&r->session); /* the server does not know the thread any more */
    lg_make_thread(r);
    return true;
}

/* --- messages --------------------------------------------------------------------------------- */

static bool lg_is_of(const struct js_doc *doc, uint32_t message, const char *type,
                     const char *chunk)
{
    return say_is(doc, message, "type", type) || say_is(doc, message, "type", chunk);
}

/* The text of a message's content: a string, or parts of which some are thoughts. */
static void lg_put_content(const struct js_doc *doc, uint32_t content, bool thinks, struct buf *out)
{
    if (!content)
        return;
    if (js_type(doc, content) == JS_STRING && !thinks)
        js_value(doc, content, out);
    if (js_type(doc, content) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i)) {
        if (js_type(doc, i) != JS_OBJECT)
            continue;
        uint32_t text = js_get(doc, i, "text");
        if (thinks)
            text = js_get(doc, i, "reasoning");
        if (thinks && !text)
            text = js_get(doc, i, "thinking");
        if (text && js_type(doc, text) == JS_STRING)
            js_value(doc, text, out);
    }
}

static struct str lg_content(struct remote *r, uint32_t message, bool thinks)
{
    buf_clear(&r->text);
    lg_put_content(&r->doc, js_get(&r->doc, message, "content"), thinks, &r->text);
    return buf_str(&r->text);
}

/* [message, metadata] */
static void lg_piece(struct remote *r)
{
    const struct js_doc *doc = &r->doc;
    if (js_type(doc, 0) != JS_ARRAY || js_first(doc, 0) >= js_end(doc, 0) ||
        js_type(doc, 1) != JS_OBJECT || !lg_is_of(doc, 1, "ai", "AIMessageChunk"))
        return;
    struct str thought = lg_content(r, 1, true);
    if (thought.n)
        remote_thinking(r, thought);
    remote_token(r, lg_content(r, 1, false));
}

/* --- updates ---------------------------------------------------------------------------------- */

static bool lg_calls(struct remote *r, uint32_t message)
{
    const struct js_doc *doc = &r->doc;
    uint32_t calls = js_get(doc, message, "tool_calls");
    struct buf id = {0}, name = {0};
    bool any = false;
    if (!calls || js_type(doc, calls) != JS_ARRAY)
        return false;
    for (uint32_t i = js_first(doc, calls); i < js_end(doc, calls); i = js_next(doc, i)) {
        if (js_type(doc, i) != JS_OBJECT)
            continue;
        any = true;
        (void)say_text(doc, js_get(doc, i, "id"), &id);
        (void)say_text(doc, js_get(doc, i, "name"), &name);
        remote_call_node(r, buf_str(&id), buf_str(&name), js_get(doc, i, "args"));
    }
    buf_done(&id);
    buf_done(&name);
    return any;
}

static void lg_result(struct remote *r, uint32_t message)
{
    const struct js_doc *doc = &r->doc;
    struct buf id = {0};
    (void)say_text(doc, js_get(doc, message, "tool_call_id"), &id);
    remote_called(r, buf_str(&id), remote_as_text(r, js_get(doc, message, "content"), &r->text),
                  say_is(doc, message, "status", "error"));
    buf_done(&id);
}

static void set_answer(struct remote *r, struct str text)
{
    if (text.n == 0)
        return;
    buf_clear(&r->answer);
    r->answer_cut = text.n > MAX_OUTPUT;
    if (!r->answer_cut)
        buf_putstr(&r->answer, text);
}

/* A node may hand on messages of others, such as those of an agent that it supervises: each counts
 * once, by its id.  Beyond so many, all do. */
static bool is_told(struct remote *r, uint32_t message)
{
    struct str id = say_text(&r->doc, js_get(&r->doc, message, "id"), &r->text);
    size_t before = r->parts.n;
    return id.n && remote_part(&r->parts, id) && r->parts.n == before;
}

static void lg_message(struct remote *r, uint32_t message)
{
    if (is_told(r, message))
        return;
    if (lg_is_of(&r->doc, message, "tool", "ToolMessage")) {
        lg_result(r, message);
    } else if (lg_is_of(&r->doc, message, "ai", "AIMessageChunk")) {
        remote_usage(r, js_get(&r->doc, message, "usage_metadata"));
        if (!lg_calls(r, message))
            set_answer(r, lg_content(r, message, false));
    }
}

/* A node has added that to the state: messages are told, the rest is handed on. */
static void lg_update(struct remote *r, uint32_t node, uint32_t update)
{
    const struct js_doc *doc = &r->doc;
    uint32_t list = js_type(doc, update) == JS_OBJECT ? js_get(doc, update, "messages") : 0;
    if (js_type(doc, update) == JS_NULL)
        return;
    if (!list) {
        say_custom(&r->said, say_text(doc, node, &r->text), doc, update);
        return;
    }
    if (js_type(doc, list) == JS_OBJECT)
        lg_message(r, list);
    if (js_type(doc, list) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, list); i < js_end(doc, list); i = js_next(doc, i))
        if (js_type(doc, i) == JS_OBJECT)
            lg_message(r, i);
}

/* --- interrupts ------------------------------------------------------------------------------- */

/* LangChain's middleware asks whether tools may run, and takes a decision for each. */
static uint32_t find_requests(const struct js_doc *doc, uint32_t value, size_t *ret_n)
{
    uint32_t requests =
        js_type(doc, value) == JS_OBJECT ? js_get(doc, value, "action_requests") : 0;
    *ret_n = 0;
    if (!requests || js_type(doc, requests) != JS_ARRAY)
        return 0;
    for (uint32_t i = js_first(doc, requests); i < js_end(doc, requests); i = js_next(doc, i))
        if (js_type(doc, i) != JS_OBJECT || ++*ret_n > 1000)
            return 0;
    return *ret_n ? js_first(doc, requests) : 0;
}

/* about: {"id":…,"decisions":N}, 0 for a value that is the answer itself. */
static void put_about(const struct js_doc *doc, uint32_t interrupt, size_t decisions,
                      struct buf *out)
{
    uint32_t id = js_get(doc, interrupt, "id");
    buf_putc(out, '{');
    js_put_int(out, "decisions", (int64_t)decisions);
    if (id && js_type(doc, id) == JS_STRING) {
        js_put_key(out, "id");
        js_copy(doc, id, out);
    }
    buf_putc(out, '}');
}

/* A text, or the member of an object that asks; else all of it, as JSON. */
static void put_prompt(struct remote *r, uint32_t value, struct buf *out)
{
    static const char *const members[] = {"question", "prompt", "message", "description", "query"};
    const struct js_doc *doc = &r->doc;
    for (size_t i = 0; js_type(doc, value) == JS_OBJECT && i < countof(members); i++) {
        uint32_t at = js_get(doc, value, members[i]);
        if (at && js_type(doc, at) == JS_STRING) {
            value = at;
            break;
        }
    }
    (void)remote_as_text(r, value, out);
}

static void lg_ask(struct remote *r, uint32_t interrupt)
{
    const struct js_doc *doc = &r->doc;
    struct buf about = {0}, prompt = {0}, tool = {0};
    size_t n;
    uint32_t value = js_get(doc, interrupt, "value");
    uint32_t request = value ? find_requests(doc, value, &n) : 0;
    put_about(doc, interrupt, request ? n : 0, &about);
    if (request) {
        put_prompt(r, request, &prompt);
        (void)say_text(doc, js_get(doc, request, "name"), &tool);
        uint32_t arguments = js_get(doc, request, "args");
        remote_ask_approval(r, buf_str(&prompt), buf_str(&tool), n == 1 ? arguments : value,
                            buf_str(&about));
    } else {
        if (value)
            put_prompt(r, value, &prompt);
        remote_ask_text(r, buf_str(&prompt), buf_str(&about));
    }
    buf_done(&about);
    buf_done(&prompt);
    buf_done(&tool);
}

static void lg_interrupts(struct remote *r, uint32_t list)
{
    const struct js_doc *doc = &r->doc;
    if (js_type(doc, list) != JS_ARRAY || r->n_questions)
        return;
    for (uint32_t i = js_first(doc, list); i < js_end(doc, list); i = js_next(doc, i))
        if (js_type(doc, i) == JS_OBJECT)
            lg_ask(r, i);
}

static void put_resumption(struct remote *r, const struct remote_question *q, struct buf *out)
{
    int64_t n = 0;
    uint32_t decisions = js_get(&r->other, 0, "decisions");
    bool allows = str_eq(buf_str(&q->answer), STR("true"));
    if (!decisions || !js_int(&r->other, decisions, &n) || n == 0) {
        buf_putstr(out, buf_str(&q->answer));
        return;
    }
    buf_puts(out, "{\"decisions\":[");
    for (int64_t i = 0; i < n; i++) {
        buf_puts(out, i ? "," : "");
        buf_puts(out, allows ? "{\"type\":\"approve\"}" : "{\"type\":\"reject\"}");
    }
    buf_puts(out, "]}");
}

/* Several are told apart by their ids; one alone may have none. */
static void lg_answered(struct remote *r)
{
    struct buf *body = lg_open_run(r);
    bool by_id = r->n_questions > 1;
    js_put_raw(body, "command", STR("{\"resume\":"));
    buf_puts(body, by_id ? "{" : "");
    for (size_t i = 0; i < r->n_questions; i++) {
        const struct remote_question *q = &r->questions[i];
        bool good = js_parse(&r->other, q->about.bytes, q->about.len, JS_OURS);
        ASSERT(good);
        buf_puts(body, i ? "," : "");
        if (by_id) {
            js_put_str(body, say_text(&r->other, js_get(&r->other, 0, "id"), &r->text));
            buf_putc(body, ':');
        }
        put_resumption(r, q, body);
    }
    buf_puts(body, by_id ? "}}}" : "}}");
}

/* --- replies ---------------------------------------------------------------------------------- */

static void lg_take_thread(struct remote *r)
{
    struct buf id = {0};
    uint32_t node = js_type(&r->doc, 0) == JS_OBJECT ? js_get(&r->doc, 0, "thread_id") : 0;
    struct str text = say_text(&r->doc, node, &id);
    if (form_is_session(text)) {
        remote_set_session(r, text);
        lg_run(r, true);
    } else {
        remote_fail(r, STR("its reply has no thread_id"));
    }
    buf_done(&id);
}

static void lg_take_updates(struct remote *r)
{
    const struct js_doc *doc = &r->doc;
    if (js_type(doc, 0) != JS_OBJECT)
        return;
    for (uint32_t key = js_first(doc, 0); key < js_end(doc, 0); key = js_next(doc, key + 1)) {
        uint32_t value = key + 1;
        if (js_is(doc, key, "__interrupt__"))
            lg_interrupts(r, value);
        else if (js_type(doc, value) != JS_ARRAY)
            lg_update(r, key, value);
        else /* a node that ran more than once */
            for (uint32_t i = js_first(doc, value); i < js_end(doc, value); i = js_next(doc, i))
                lg_update(r, key, i);
    }
}

/* The last answer in the state that the run has left. */
static void lg_take_state(struct remote *r)
{
    const struct js_doc *doc = &r->doc;
    if (js_type(doc, 0) != JS_OBJECT)
        return;
    uint32_t error = js_get(doc, 0, "__error__"), asked = js_get(doc, 0, "__interrupt__");
    uint32_t list = js_get(doc, 0, "messages"), last = 0;
    if (error) {
        remote_complain(r, error);
        return;
    }
    if (asked)
        lg_interrupts(r, asked);
    if (list && js_type(doc, list) == JS_ARRAY)
        for (uint32_t i = js_first(doc, list); i < js_end(doc, list); i = js_next(doc, i))
            last = js_type(doc, i) == JS_OBJECT ? i : 0;
    if (last && lg_is_of(doc, last, "ai", "AIMessageChunk"))
        set_answer(r, lg_content(r, last, false));
}

/* Events of subgraphs are named messages|NODE and so on. */
static bool is_event(struct str event, struct str name)
{
    return str_begins(event, name) && (event.n == name.n || event.p[name.n] == '|');
}

static void lg_take_event(struct remote *r, struct str event)
{
    const struct js_doc *doc = &r->doc;
    if (is_event(event, STR("messages"))) {
        lg_piece(r);
    } else if (is_event(event, STR("updates"))) {
        lg_take_updates(r);
    } else if (str_eq(event, STR("metadata"))) {
        uint32_t id = js_type(doc, 0) == JS_OBJECT ? js_get(doc, 0, "run_id") : 0;
        if (id && form_is_session(say_text(doc, id, &r->text)))
            (void)!remote_set_id(&r->peer_id, doc, id);
    } else if (is_event(event, STR("error"))) {
        remote_complain(r, 0);
    } else {
        struct str type = is_event(event, STR("custom")) ? STR("custom") : event;
        say_custom(&r->said, type, doc, 0);
    }
}

static void lg_take(struct remote *r, struct str event)
{
    r->goes_on = false;
    if (r->step == LG_THREAD)
        lg_take_thread(r);
    else if (r->step == LG_JOINS)
        lg_take_state(r);
    else
        lg_take_event(r, event);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void lg_join(struct remote *r)
{
    struct buf url = {0};
    put_run_url(r, "/join", &url);
    remote_get(r, buf_str(&url));
    r->step = LG_JOINS;
    buf_done(&url);
}

static void lg_rejoin(struct remote *r)
{
    struct buf url = {0};
    put_run_url(r, "/stream", &url);
    remote_get(r, buf_str(&url));
    buf_putstr(&r->request.last_id, buf_str(&r->last_id));
    r->request.again = r->rejoined = true;
    buf_done(&url);
}

static bool lg_end(struct remote *r, struct str why)
{
    if (r->peer_id.len == 0 || r->step == LG_THREAD)
        return false;
    if (why.p && r->step == LG_JOINS) {
        lg_join(r);
        r->request.again = true;
    } else if (why.p) {
        lg_rejoin(r);
    } else if (r->n_questions) {
        remote_wait(r);
    } else if (r->rejoined && r->step == LG_STREAMS) {
        lg_join(r);
    } else {
        remote_finish(r);
    }
    return true;
}

static void lg_again(struct remote *r)
{
    if (r->step == LG_JOINS)
        lg_join(r);
    else
        lg_rejoin(r);
}

static bool lg_cancel(struct remote *r)
{
    struct buf url = {0};
    if (r->peer_id.len == 0)
        return false;
    put_run_url(r, "/cancel", &url);
    buf_puts(remote_post(r, buf_str(&url)), "{}");
    r->step = LG_JOINS;
    buf_done(&url);
    return true;
}

const struct remote_form remote_langgraph = {
    .name = "langgraph",
    .keeps_session = true,
    .begin = lg_begin,
    .take = lg_take,
    .end = lg_end,
    .answered = lg_answered,
    .cancel = lg_cancel,
    .refused = lg_refused,
    .again = lg_again,
    .by_place = true,
};
