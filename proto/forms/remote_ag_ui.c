/* AG-UI: a run is a POST of RunAgentInput.  The history goes along as messages.
 *
 * Design.  A run that ends in an interrupt asks; the answers go with the next run's `resume`,
 * whose messages are those of before, and what the assistant has said since: kept, as JSON,
 * unless the agent itself has sent a snapshot of its messages.  Arguments of a call come in
 * pieces: `parts` has them until the call is told.  A message of another role than the assistant's
 * is no answer: peer_id is the one that is being passed over. */
#include "proto/forms/remote.h"

#include <stdio.h>

#include "proto/str.h"

static void ag_put_message(struct buf *out, size_t number, struct str role, struct str content)
{
    char id[32];
    snprintf(id, sizeof id, "m%zu", number);
    js_put_field(out, "id", str_of(id));
    remote_put_role_content(out, number, role, content);
}

static struct buf *ag_open_body(struct remote *r)
{
    struct buf run = {0};
    bool is_first = r->posted == 0;
    struct buf *body = remote_post(r, buf_str(&r->url));
    buf_putstr(&run, buf_str(&r->task_id));
    if (!is_first)
        buf_putf(&run, "-%u", r->posted);
    buf_putc(body, '{');
    js_put_field(body, "threadId", buf_str(&r->conversation_id));
    js_put_field(body, "runId", buf_str(&run));
    js_put_raw(body, "state", r->peer_state.len ? buf_str(&r->peer_state) : STR("{}"));
    js_put_raw(body, "tools", STR("[]"));
    js_put_raw(body, "context", STR("[]"));
    js_put_raw(body, "forwardedProps", STR("{}"));
    js_put_raw(body, "messages", STR("["));
    buf_done(&run);
    return body;
}

static void ag_begin(struct remote *r)
{
    struct buf *body = ag_open_body(r);
    remote_put_messages(buf_str(&r->history), buf_str(&r->input), ag_put_message, body);
    buf_puts(body, "]}");
}

/* --- what goes back --------------------------------------------------------------------------- */

static void ag_keep(struct remote *r, struct str message)
{
    if (r->kept.len + message.n > REMOTE_KEPT) {
        r->kept_cut = true;
        return;
    }
    if (r->kept.len)
        buf_putc(&r->kept, ',');
    buf_putstr(&r->kept, message);
}

static void ag_begin_message(struct buf *out, struct remote *r, struct str role)
{
    buf_putf(out, "{\"id\":\"a%u\"", ++r->n_items);
    js_put_field(out, "role", role);
}

static void ag_keep_text(struct remote *r)
{
    struct buf message = {0};
    if (r->pending.len == 0)
        return;
    ag_begin_message(&message, r, STR("assistant"));
    js_put_field(&message, "content", buf_str(&r->pending));
    buf_putc(&message, '}');
    ag_keep(r, buf_str(&message));
    buf_clear(&r->pending);
    buf_done(&message);
}

static void ag_keep_call(struct remote *r, struct str id, struct str name, struct str arguments)
{
    struct buf message = {0};
    ag_keep_text(r);
    ag_begin_message(&message, r, STR("assistant"));
    js_put_raw(&message, "toolCalls", STR("[{"));
    js_put_field(&message, "id", id);
    js_put_field(&message, "type", STR("function"));
    js_put_raw(&message, "function", STR("{"));
    js_put_field(&message, "name", name);
    js_put_field(&message, "arguments", arguments);
    buf_puts(&message, "}}]}");
    ag_keep(r, buf_str(&message));
    buf_done(&message);
}

static void ag_keep_result(struct remote *r, struct str id, struct str output)
{
    struct buf message = {0};
    ag_begin_message(&message, r, STR("tool"));
    js_put_field(&message, "toolCallId", id);
    js_put_field(&message, "content", output);
    buf_putc(&message, '}');
    ag_keep(r, buf_str(&message));
    buf_done(&message);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The name of the first property of that type, or of any when type is NULL; 0: there is none. */
static uint32_t find_property(const struct js_doc *doc, uint32_t schema, const char *type)
{
    uint32_t properties = say_member(doc, schema, "properties");
    if (!properties || js_type(doc, properties) != JS_OBJECT)
        return 0;
    for (uint32_t i = js_first(doc, properties); i < js_end(doc, properties);
         i = js_next(doc, i + 1))
        if (js_type(doc, i + 1) == JS_OBJECT && say_is(doc, i + 1, "type", type))
            return i;
    return 0;
}

static uint32_t find_schema(const struct js_doc *doc, uint32_t interrupt)
{
    uint32_t schema = js_get(doc, interrupt, "responseSchema");
    return schema && js_type(doc, schema) == JS_OBJECT ? schema : 0;
}

/* The answer as the interrupt's schema wants it: itself, or the property of an object. */
static void ag_put_payload(struct remote *r, const struct remote_question *q, struct buf *out)
{
    const struct js_doc *doc = &r->other;
    bool is_text = q->answer.bytes[0] == '"';
    uint32_t schema = find_schema(doc, 0);
    uint32_t property = find_property(doc, schema, is_text ? "string" : "boolean");
    js_put_key(out, "payload");
    if (property) {
        buf_putc(out, '{');
        js_copy(doc, property, out);
        buf_putc(out, ':');
        buf_putstr(out, buf_str(&q->answer));
        buf_putc(out, '}');
    } else if (!is_text && !schema) {
        buf_putf(out, "{\"approved\":%s}", q->answer.bytes);
    } else {
        buf_putstr(out, buf_str(&q->answer));
    }
}

static void ag_put_resume(struct remote *r, const struct remote_question *q, struct buf *out)
{
    bool good = js_parse(&r->other, q->about.bytes, q->about.len, JS_OURS);
    bool expired = str_eq(buf_str(&q->answer), STR("null"));
    ASSERT(good);
    buf_putc(out, '{');
    js_put_field(out, "interruptId", say_text(&r->other, js_get(&r->other, 0, "id"), &r->text));
    js_put_field(out, "status", expired ? STR("cancelled") : STR("resolved"));
    if (!expired)
        ag_put_payload(r, q, out);
    buf_putc(out, '}');
}

static void ag_answered(struct remote *r)
{
    ag_keep_text(r);
    if (r->kept_cut) {
        remote_fail(r, STR("the turn is too long for its answer to be sent back"));
        return;
    }
    struct buf *body = ag_open_body(r);
    if (!r->kept_is_all) {
        remote_put_messages(buf_str(&r->history), buf_str(&r->input), ag_put_message, body);
        buf_puts(body, r->kept.len ? "," : "");
    }
    buf_putstr(body, buf_str(&r->kept));
    buf_puts(body, "],\"resume\":[");
    for (size_t i = 0; i < r->n_questions; i++) {
        buf_puts(body, i ? "," : "");
        ag_put_resume(r, &r->questions[i], body);
    }
    buf_puts(body, "]}");
}

/* --- questions -------------------------------------------------------------------------------- */

static bool ag_is_approval(const struct js_doc *doc, uint32_t interrupt)
{
    static const char *const reasons[] = {"approval", "confirmation", "tool_approval", "tool_call"};
    uint32_t schema = find_schema(doc, interrupt);
    if (schema)
        return say_is(doc, schema, "type", "boolean") ||
               (find_property(doc, schema, "boolean") && !find_property(doc, schema, "string"));
    for (size_t i = 0; i < countof(reasons); i++)
        if (say_is(doc, interrupt, "reason", reasons[i]))
            return true;
    return false;
}

static uint32_t ag_arguments(const struct js_doc *doc, uint32_t interrupt)
{
    uint32_t metadata = js_get(doc, interrupt, "metadata");
    if (!metadata || js_type(doc, metadata) != JS_OBJECT)
        return 0;
    uint32_t arguments = js_get(doc, metadata, "arguments");
    return arguments ? arguments : metadata;
}

static void ag_ask(struct remote *r, uint32_t interrupt)
{
    const struct js_doc *doc = &r->doc;
    struct buf about = {0}, prompt = {0}, tool = {0};
    js_copy(doc, interrupt, &about);
    if (about.len > REMOTE_KEPT) {
        remote_fail(r, STR("it asks a question that is too long"));
    } else {
        uint32_t message = js_get(doc, interrupt, "message");
        (void)say_text(doc, message ? message : js_get(doc, interrupt, "reason"), &prompt);
        struct str call = say_text(doc, js_get(doc, interrupt, "toolCallId"), &r->text);
        buf_putstr(&tool, say_name(&r->calls, call));
        if (ag_is_approval(doc, interrupt))
            remote_ask_approval(r, buf_str(&prompt), buf_str(&tool), ag_arguments(doc, interrupt),
                                buf_str(&about));
        else
            remote_ask_text(r, buf_str(&prompt), buf_str(&about));
    }
    buf_done(&about);
    buf_done(&prompt);
    buf_done(&tool);
}

static void ag_interrupted(struct remote *r, uint32_t outcome)
{
    const struct js_doc *doc = &r->doc;
    uint32_t list = js_get(doc, outcome, "interrupts");
    if (list && js_type(doc, list) == JS_ARRAY)
        for (uint32_t i = js_first(doc, list); i < js_end(doc, list); i = js_next(doc, i))
            if (js_type(doc, i) == JS_OBJECT)
                ag_ask(r, i);
    remote_wait(r);
}

/* --- calls ------------------------------------------------------------------------------------ */

static struct remote_part *ag_part(struct remote *r)
{
    return remote_part(&r->parts, say_text(&r->doc, js_get(&r->doc, 0, "toolCallId"), &r->text));
}

static void ag_tell_call(struct remote *r, struct remote_part *part)
{
    struct str id = str_of(part->id), name = part->name ? str_of(part->name) : STR("tool");
    remote_call(r, id, name, buf_str(&part->text));
    ag_keep_call(r, id, name, buf_str(&part->text));
    remote_part_drop(&r->parts, part);
}

static void ag_call_start(struct remote *r)
{
    struct remote_part *part = ag_part(r);
    uint32_t name = js_get(&r->doc, 0, "toolCallName");
    if (part && !part->name && name)
        part->name = xstrdup(say_text(&r->doc, name, &r->text));
}

static void ag_call_args(struct remote *r)
{
    struct remote_part *part = ag_part(r);
    struct str delta = say_text(&r->doc, js_get(&r->doc, 0, "delta"), &r->text);
    if (part && part->text.len + delta.n <= SAY_BYTES)
        buf_putstr(&part->text, delta);
}

static void ag_call_end(struct remote *r)
{
    struct remote_part *part = ag_part(r);
    if (part)
        ag_tell_call(r, part);
}

/* One without an id goes on with the call before it. */
static void ag_call_chunk(struct remote *r)
{
    struct str id = say_text(&r->doc, js_get(&r->doc, 0, "toolCallId"), &r->text);
    struct remote_part *part = r->parts.n ? &r->parts.list[r->parts.n - 1] : NULL;
    if (id.n && (!part || !str_eq(id, str_of(part->id)))) {
        if (part)
            ag_tell_call(r, part);
        ag_call_start(r);
        part = r->parts.n ? &r->parts.list[r->parts.n - 1] : NULL;
    }
    struct str delta = say_text(&r->doc, js_get(&r->doc, 0, "delta"), &r->text);
    if (part && part->text.len + delta.n <= SAY_BYTES)
        buf_putstr(&part->text, delta);
}

static void ag_tell_calls(struct remote *r)
{
    while (r->parts.n)
        ag_tell_call(r, &r->parts.list[0]);
}

static void ag_result(struct remote *r)
{
    const struct js_doc *doc = &r->doc;
    struct buf id = {0};
    uint32_t metadata = js_get(doc, 0, "metadata");
    bool has_metadata = metadata && js_type(doc, metadata) == JS_OBJECT;
    uint32_t failed = has_metadata ? js_get(doc, metadata, "is_error") : 0;
    ag_tell_calls(r);
    (void)say_text(doc, js_get(doc, 0, "toolCallId"), &id);
    struct str output = remote_as_text(r, js_get(doc, 0, "content"), &r->text);
    remote_called(r, buf_str(&id), output, failed && js_type(doc, failed) == JS_TRUE);
    ag_keep_result(r, buf_str(&id), output);
    buf_done(&id);
}

/* --- texts ------------------------------------------------------------------------------------ */

static bool is_passed_over(const struct remote *r)
{
    uint32_t id = js_get(&r->doc, 0, "messageId");
    return r->peer_id.len && id && js_is(&r->doc, id, r->peer_id.bytes);
}

static void ag_text(struct remote *r)
{
    uint32_t role = js_get(&r->doc, 0, "role");
    if (is_passed_over(r) || (role && !js_is(&r->doc, role, "assistant")))
        return;
    ag_tell_calls(r);
    struct str text = say_text(&r->doc, js_get(&r->doc, 0, "delta"), &r->text);
    remote_token(r, text);
    if (r->pending.len + text.n > REMOTE_KEPT)
        r->kept_cut = true;
    else
        buf_putstr(&r->pending, text);
}

static void ag_text_start(struct remote *r)
{
    uint32_t role = js_get(&r->doc, 0, "role");
    if (role && !js_is(&r->doc, role, "assistant"))
        (void)!remote_set_id(&r->peer_id, &r->doc, js_get(&r->doc, 0, "messageId"));
}

static void ag_text_end(struct remote *r)
{
    if (is_passed_over(r))
        buf_clear(&r->peer_id);
    else
        ag_keep_text(r);
}

static void ag_reasoning(struct remote *r)
{
    remote_thinking(r, say_text(&r->doc, js_get(&r->doc, 0, "delta"), &r->text));
}

/* --- states ----------------------------------------------------------------------------------- */

static void ag_custom(struct remote *r)
{
    uint32_t name = js_get(&r->doc, 0, "name"), value = js_get(&r->doc, 0, "value");
    say_custom(&r->said, say_text(&r->doc, name, &r->text), &r->doc, value);
}

static void ag_other(struct remote *r)
{
    say_custom(&r->said, say_text(&r->doc, js_get(&r->doc, 0, "type"), &r->text), &r->doc, 0);
}

static void ag_state(struct remote *r)
{
    uint32_t snapshot = js_get(&r->doc, 0, "snapshot");
    buf_clear(&r->peer_state);
    if (snapshot && r->doc.nodes[snapshot].len <= REMOTE_KEPT)
        js_copy(&r->doc, snapshot, &r->peer_state);
    ag_other(r);
}

/* The state is not patched here, and an old one must not go back as if it were the newest. */
static void ag_state_delta(struct remote *r)
{
    buf_clear(&r->peer_state);
    ag_other(r);
}

static bool ag_is_from(const struct js_doc *doc, uint32_t message, const char *role)
{
    return js_type(doc, message) == JS_OBJECT && say_is(doc, message, "role", role);
}

/* The agent's own view of the thread: it goes back instead of ours, and its last message is the
 * answer, which may be another one than was streamed. */
static void ag_messages(struct remote *r)
{
    const struct js_doc *doc = &r->doc;
    uint32_t list = js_get(doc, 0, "messages"), last = 0;
    if (!list || js_type(doc, list) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, list); i < js_end(doc, list); i = js_next(doc, i))
        last = i;
    buf_clear(&r->pending);
    buf_clear(&r->text);
    js_copy(doc, list, &r->text);
    r->kept_is_all = true;
    r->kept_cut = r->text.len > REMOTE_KEPT;
    buf_clear(&r->kept);
    if (!r->kept_cut)
        buf_put(&r->kept, r->text.bytes + 1, r->text.len - 2);
    uint32_t content =
        last && ag_is_from(doc, last, "assistant") ? js_get(doc, last, "content") : 0;
    if (!content || js_type(doc, content) != JS_STRING)
        return;
    struct str text = say_text(doc, content, &r->text);
    buf_clear(&r->answer);
    r->answer_cut = text.n > MAX_OUTPUT;
    if (!r->answer_cut)
        buf_putstr(&r->answer, text);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void ag_usage(struct remote *r)
{
    uint32_t usage = js_get(&r->doc, 0, "usage");
    if (!usage || js_type(&r->doc, usage) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(&r->doc, usage); i < js_end(&r->doc, usage); i = js_next(&r->doc, i))
        remote_usage(r, i);
}

static void ag_finished(struct remote *r)
{
    const struct js_doc *doc = &r->doc;
    uint32_t outcome = js_get(doc, 0, "outcome"), result = js_get(doc, 0, "result");
    bool has_outcome = outcome && js_type(doc, outcome) == JS_OBJECT;
    ag_tell_calls(r);
    ag_usage(r);
    if (has_outcome && say_is(doc, outcome, "type", "interrupt")) {
        ag_interrupted(r, outcome);
        return;
    }
    if (has_outcome && say_is(doc, outcome, "type", "cancelled")) {
        remote_fail(r, STR("the agent has cancelled its run"));
        return;
    }
    if (result && js_type(doc, result) != JS_NULL && doc->nodes[result].len <= SAY_TEXT) {
        buf_clear(&r->result);
        js_copy(doc, result, &r->result);
    }
    remote_finish(r);
}

static void ag_error(struct remote *r)
{
    remote_complain(r, 0);
}

static void ag_nothing(struct remote *r)
{
    (void)r;
}

static const struct remote_event_row events[] = {
    {"TEXT_MESSAGE_CONTENT", ag_text},
    {"TEXT_MESSAGE_CHUNK", ag_text},
    {"TEXT_MESSAGE_START", ag_text_start},
    {"TEXT_MESSAGE_END", ag_text_end},
    {"REASONING_MESSAGE_CONTENT", ag_reasoning},
    {"REASONING_MESSAGE_CHUNK", ag_reasoning},
    {"THINKING_TEXT_MESSAGE_CONTENT", ag_reasoning},
    {"TOOL_CALL_START", ag_call_start},
    {"TOOL_CALL_ARGS", ag_call_args},
    {"TOOL_CALL_END", ag_call_end},
    {"TOOL_CALL_CHUNK", ag_call_chunk},
    {"TOOL_CALL_RESULT", ag_result},
    {"STATE_SNAPSHOT", ag_state},
    {"STATE_DELTA", ag_state_delta},
    {"MESSAGES_SNAPSHOT", ag_messages},
    {"CUSTOM", ag_custom},
    {"RUN_FINISHED", ag_finished},
    {"RUN_ERROR", ag_error},
    {"RUN_STARTED", ag_nothing},
    {"RAW", ag_nothing}, /* the same again, as the agent's framework has it */
    {"REASONING_START", ag_nothing},
    {"REASONING_END", ag_nothing},
    {"REASONING_MESSAGE_START", ag_nothing},
    {"REASONING_MESSAGE_END", ag_nothing},
    {"REASONING_ENCRYPTED_VALUE", ag_nothing},
    {"THINKING_START", ag_nothing},
    {"THINKING_END", ag_nothing},
    {"THINKING_TEXT_MESSAGE_START", ag_nothing},
    {"THINKING_TEXT_MESSAGE_END", ag_nothing},
};

static void ag_take(struct remote *r, struct str event)
{
    (void)event;
    remote_take_row(r, events, countof(events), ag_other);
}

const struct remote_form remote_ag_ui = {
    .name = "ag-ui",
    .begin = ag_begin,
    .take = ag_take,
    .answered = ag_answered,
};
