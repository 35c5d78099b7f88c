/* OpenAI's Responses.  The history goes along, so the server need not keep anything; only an
 * answer to an approval refers to the response that asked (previous_response_id).
 *
 * Design.  Text comes in deltas; everything else is told from items that are done.  A server that
 * does not stream sends the response alone, whose items are told then.  Calls of the agent's own
 * tools (mcp_call, web_search_call …) bring their result with them; a function_call is answered
 * by a function_call_output, which only an agent that runs its functions itself sends. */
#include "proto/forms/remote.h"

#include "proto/str.h"

static void responses_put_options(const struct remote *r, struct buf *body)
{
    js_put_field(body, "model", buf_str(&r->model));
    js_put_bool(body, "stream", true);
}

static void responses_begin(struct remote *r)
{
    struct buf *body = remote_post(r, buf_str(&r->url));
    buf_putc(body, '{');
    responses_put_options(r, body);
    js_put_raw(body, "input", STR("["));
    remote_put_messages(buf_str(&r->history), buf_str(&r->input), remote_put_role_content, body);
    buf_puts(body, "]}");
}

static void responses_answered(struct remote *r)
{
    struct buf *body = remote_post(r, buf_str(&r->url));
    buf_putc(body, '{');
    responses_put_options(r, body);
    js_put_field(body, "previous_response_id", buf_str(&r->peer_id));
    js_put_raw(body, "input", STR("["));
    for (size_t i = 0; i < r->n_questions; i++) {
        buf_puts(body, i ? ",{" : "{");
        js_put_field(body, "type", STR("mcp_approval_response"));
        js_put_raw(body, "approval_request_id", buf_str(&r->questions[i].about));
        js_put_bool(body, "approve", str_eq(buf_str(&r->questions[i].answer), STR("true")));
        buf_putc(body, '}');
    }
    buf_puts(body, "]}");
    buf_clear(&r->answer);
}

/* --- items ------------------------------------------------------------------------------------ */

/* A message that came in no deltas. */
static void responses_message(struct remote *r, uint32_t item)
{
    const struct js_doc *doc = &r->doc;
    uint32_t content = js_get(doc, item, "content");
    if (!content || js_type(doc, content) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i)) {
        if (js_type(doc, i) != JS_OBJECT)
            continue;
        uint32_t text = js_get(doc, i, "text");
        remote_token(r, say_text(doc, text ? text : js_get(doc, i, "refusal"), &r->text));
    }
}

static void responses_approval(struct remote *r, uint32_t item)
{
    const struct js_doc *doc = &r->doc;
    struct buf about = {0}, name = {0}, prompt = {0};
    uint32_t id = js_get(doc, item, "id");
    if (!id || js_type(doc, id) != JS_STRING)
        return;
    js_copy(doc, id, &about);
    (void)say_text(doc, js_get(doc, item, "name"), &name);
    buf_puts(&prompt, "May the agent call ");
    buf_putstr(&prompt, name.len ? buf_str(&name) : STR("a tool"));
    struct str arguments = say_text(doc, js_get(doc, item, "arguments"), &r->text);
    buf_puts(&prompt, arguments.n ? ": " : "?");
    buf_putstr(&prompt, arguments);
    remote_ask_approval(r, buf_str(&prompt), buf_str(&name), 0, buf_str(&about));
    buf_done(&about);
    buf_done(&name);
    buf_done(&prompt);
}

/* Each kind of item says in a member of its own what it calls with. */
static uint32_t find_arguments(const struct js_doc *doc, uint32_t item)
{
    static const char *const members[] = {"arguments", "input", "action", "code", "queries"};
    for (size_t i = 0; i < countof(members); i++) {
        uint32_t at = js_get(doc, item, members[i]);
        if (at && js_type(doc, at) != JS_NULL)
            return at;
    }
    return 0;
}

static uint32_t find_output(const struct js_doc *doc, uint32_t item)
{
    static const char *const members[] = {"output", "error", "results", "outputs", "result"};
    for (size_t i = 0; i < countof(members); i++) {
        uint32_t at = js_get(doc, item, members[i]);
        if (at && js_type(doc, at) != JS_NULL)
            return at;
    }
    return 0;
}

static void responses_call(struct remote *r, uint32_t item, bool is_function)
{
    const struct js_doc *doc = &r->doc;
    struct buf id = {0}, name = {0};
    uint32_t call_id = js_get(doc, item, "call_id"), arguments = find_arguments(doc, item);
    (void)say_text(doc, call_id ? call_id : js_get(doc, item, "id"), &id);
    uint32_t named = js_get(doc, item, "name");
    (void)say_text(doc, named ? named : js_get(doc, item, "type"), &name);
    if (arguments && js_type(doc, arguments) == JS_STRING) {
        (void)say_text(doc, arguments, &r->text);
        remote_call(r, buf_str(&id), buf_str(&name), buf_str(&r->text));
    } else {
        remote_call_node(r, buf_str(&id), buf_str(&name), arguments);
    }
    if (!is_function) {
        uint32_t error = js_get(doc, item, "error");
        bool failed =
            say_is(doc, item, "status", "failed") || (error && js_type(doc, error) != JS_NULL);
        remote_called(r, buf_str(&id), remote_as_text(r, find_output(doc, item), &r->text), failed);
    }
    buf_done(&id);
    buf_done(&name);
}

static void responses_called(struct remote *r, uint32_t item)
{
    struct buf id = {0};
    (void)say_text(&r->doc, js_get(&r->doc, item, "call_id"), &id);
    remote_called(r, buf_str(&id), remote_as_text(r, js_get(&r->doc, item, "output"), &r->text),
                  false);
    buf_done(&id);
}

static bool responses_ends_with(struct str text, struct str with)
{
    return text.n >= with.n && memcmp(text.p + text.n - with.n, with.p, with.n) == 0;
}

/* Thoughts and messages are told from their deltas. */
static void responses_item(struct remote *r, uint32_t item, bool is_whole)
{
    const struct js_doc *doc = &r->doc;
    struct str type = say_text(doc, js_get(doc, item, "type"), &r->text);
    if (str_eq(type, STR("message"))) {
        if (is_whole)
            responses_message(r, item);
    } else if (str_eq(type, STR("mcp_approval_request"))) {
        responses_approval(r, item);
    } else if (str_eq(type, STR("function_call_output"))) {
        responses_called(r, item);
    } else if (responses_ends_with(type, STR("_call"))) {
        responses_call(r, item, str_eq(type, STR("function_call")));
    } else if (!str_eq(type, STR("reasoning"))) {
        say_custom(&r->said, type, doc, item);
    }
}

static void responses_items(struct remote *r, uint32_t response)
{
    const struct js_doc *doc = &r->doc;
    uint32_t output = js_get(doc, response, "output");
    if (!output || js_type(doc, output) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, output); i < js_end(doc, output); i = js_next(doc, i))
        if (js_type(doc, i) == JS_OBJECT)
            responses_item(r, i, true);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void responses_completed(struct remote *r, uint32_t response)
{
    remote_usage(r, js_get(&r->doc, response, "usage"));
    (void)!remote_set_id(&r->peer_id, &r->doc, js_get(&r->doc, response, "id"));
    if (r->n_questions)
        remote_wait(r);
    else if (r->answer.len == 0 && r->calls.n)
        remote_fail(r, STR("it waits for the result of a function, which only a client that has "
                           "functions can give"));
    else
        remote_finish(r);
}

static void responses_incomplete(struct remote *r, uint32_t response)
{
    struct buf why = {0};
    uint32_t details = js_get(&r->doc, response, "incomplete_details");
    bool has_details = details && js_type(&r->doc, details) == JS_OBJECT;
    struct str reason =
        say_text(&r->doc, has_details ? js_get(&r->doc, details, "reason") : 0, &r->text);
    buf_puts(&why, "the answer is incomplete");
    buf_puts(&why, reason.n ? ": " : "");
    buf_putstr(&why, reason);
    remote_fail(r, buf_str(&why));
    buf_done(&why);
}

/* The response says how it ended; false: it has not. */
static bool responses_status(struct remote *r, uint32_t response)
{
    const struct js_doc *doc = &r->doc;
    if (say_is(doc, response, "status", "completed"))
        responses_completed(r, response);
    else if (say_is(doc, response, "status", "incomplete"))
        responses_incomplete(r, response);
    else if (say_is(doc, response, "status", "cancelled"))
        remote_fail(r, STR("the agent has cancelled its response"));
    else if (say_is(doc, response, "status", "failed"))
        remote_complain(r, response);
    else
        return false;
    return true;
}

static const struct {
    const char *type;
    void (*say)(struct remote *r, struct str text);
} deltas[] = {
    {"response.output_text.delta", remote_token},
    {"response.refusal.delta", remote_token},
    {"response.reasoning_text.delta", remote_thinking},
    {"response.reasoning_summary_text.delta", remote_thinking},
};

static bool responses_delta(struct remote *r)
{
    for (size_t i = 0; i < countof(deltas); i++)
        if (say_is(&r->doc, 0, "type", deltas[i].type)) {
            deltas[i].say(r, say_text(&r->doc, js_get(&r->doc, 0, "delta"), &r->text));
            return true;
        }
    return false;
}

static void responses_take(struct remote *r, struct str event)
{
    const struct js_doc *doc = &r->doc;
    (void)event;
    if (js_type(doc, 0) != JS_OBJECT)
        return;
    uint32_t error = js_get(doc, 0, "error");
    uint32_t response = js_get(doc, 0, "response"), item = js_get(doc, 0, "item");
    if (responses_delta(r))
        return;
    if (say_is(doc, 0, "object", "response")) {
        responses_items(r, 0);
        if (r->state == REMOTE_WORKS && !responses_status(r, 0))
            remote_fail(r, STR("its response has not ended"));
    } else if (say_is(doc, 0, "type", "response.output_item.done")) {
        if (item && js_type(doc, item) == JS_OBJECT)
            responses_item(r, item, !r->has_said);
    } else if (say_is(doc, 0, "type", "error") || (error && js_type(doc, error) != JS_NULL)) {
        remote_complain(r, 0);
    } else if (response && js_type(doc, response) == JS_OBJECT) {
        (void)responses_status(r, response);
    }
}

const struct remote_form remote_responses = {
    .name = "responses",
    .begin = responses_begin,
    .take = responses_take,
    .answered = responses_answered,
};
