/* The AI SDK's UI message stream: what useChat's server sends.  The history goes along as UI
 * messages.
 *
 * Design.  An approval ends the reply (finish), and its answer is a further request whose last
 * message is the assistant's so far: text, and calls with what came of them. kept has these parts
 * as JSON, except for calls that are open or waiting, which stand in `parts` under their id: text
 * is the part without its state. */
#include "proto/forms/remote.h"

#include <stdio.h>

#include "proto/str.h"

static void ai_put_message(struct buf *out, size_t number, struct str role, struct str content)
{
    char id[32];
    snprintf(id, sizeof id, "m%zu", number);
    js_put_field(out, "id", str_of(id));
    js_put_field(out, "role", role);
    js_put_raw(out, "parts", STR("[{\"type\":\"text\""));
    js_put_field(out, "text", content);
    buf_puts(out, "}]");
}

static struct buf *ai_open_body(struct remote *r)
{
    struct buf *body = remote_post(r, buf_str(&r->url));
    buf_putc(body, '{');
    js_put_field(body, "id", buf_str(&r->conversation_id));
    js_put_field(body, "trigger", STR("submit-message"));
    js_put_raw(body, "messages", STR("["));
    remote_put_messages(buf_str(&r->history), buf_str(&r->input), ai_put_message, body);
    return body;
}

static void ai_begin(struct remote *r)
{
    buf_puts(ai_open_body(r), "]}");
}

/* --- what goes back --------------------------------------------------------------------------- */

static void ai_keep(struct remote *r, struct str part)
{
    if (r->kept.len + part.n > REMOTE_KEPT) {
        r->kept_cut = true;
        return;
    }
    if (r->kept.len)
        buf_putc(&r->kept, ',');
    buf_putstr(&r->kept, part);
}

static void ai_keep_text(struct remote *r)
{
    struct buf part = {0};
    if (r->pending.len == 0)
        return;
    buf_puts(&part, "{\"type\":\"text\"");
    js_put_field(&part, "text", buf_str(&r->pending));
    buf_putc(&part, '}');
    ai_keep(r, buf_str(&part));
    buf_done(&part);
    buf_clear(&r->pending);
}

static void ai_keep_call(struct remote *r, struct str id, struct str name, uint32_t input)
{
    struct remote_part *part = remote_part(&r->parts, id);
    uint32_t dynamic = js_get(&r->doc, 0, "dynamic");
    bool is_dynamic = dynamic && js_type(&r->doc, dynamic) == JS_TRUE;
    struct buf type = {0};
    ai_keep_text(r);
    if (!part) {
        r->kept_cut = true;
        return;
    }
    buf_puts(&type, is_dynamic ? "dynamic-tool" : "tool-");
    if (!is_dynamic)
        buf_putstr(&type, name);
    buf_clear(&part->text);
    buf_putc(&part->text, '{');
    js_put_field(&part->text, "type", buf_str(&type));
    if (is_dynamic)
        js_put_field(&part->text, "toolName", name);
    js_put_field(&part->text, "toolCallId", id);
    js_put_key(&part->text, "input");
    if (input)
        js_copy(&r->doc, input, &part->text);
    else
        buf_puts(&part->text, "{}");
    buf_done(&type);
}

/* The call is over; output: a node of doc, 0: error. */
static void ai_keep_result(struct remote *r, struct str id, uint32_t output, struct str error)
{
    struct remote_part *part = remote_part(&r->parts, id);
    if (!part)
        return;
    if (part->text.len) {
        js_put_field(&part->text, "state", output ? STR("output-available") : STR("output-error"));
        if (output) {
            js_put_key(&part->text, "output");
            js_copy(&r->doc, output, &part->text);
        } else {
            js_put_field(&part->text, "errorText", error);
        }
        buf_putc(&part->text, '}');
        ai_keep(r, buf_str(&part->text));
    }
    remote_part_drop(&r->parts, part);
}

/* The question's about is [approvalId, toolCallId, signature]; not all servers sign. */
static void ai_put_approved(struct remote *r, const struct remote_question *q)
{
    bool good = js_parse(&r->other, q->about.bytes, q->about.len, JS_OURS);
    ASSERT(good);
    struct remote_part *part = remote_part(&r->parts, say_text(&r->other, 2, &r->text));
    if (!part || part->text.len == 0)
        return;
    js_put_field(&part->text, "state", STR("approval-responded"));
    js_put_raw(&part->text, "approval", STR("{"));
    js_put_key(&part->text, "id");
    js_copy(&r->other, 1, &part->text);
    js_put_bool(&part->text, "approved", str_eq(buf_str(&q->answer), STR("true")));
    if (js_end(&r->other, 0) > 3) {
        js_put_key(&part->text, "signature");
        js_copy(&r->other, 3, &part->text);
    }
    buf_puts(&part->text, "}}");
    ai_keep(r, buf_str(&part->text));
    remote_part_drop(&r->parts, part);
}

static void ai_answered(struct remote *r)
{
    ai_keep_text(r);
    for (size_t i = 0; i < r->n_questions; i++)
        ai_put_approved(r, &r->questions[i]);
    if (r->kept_cut) {
        remote_fail(r, STR("the turn is too long for its answer to be sent back"));
        return;
    }
    struct buf *body = ai_open_body(r);
    buf_puts(body, ",{");
    js_put_field(body, "id", r->peer_id.len ? buf_str(&r->peer_id) : STR("answer"));
    js_put_field(body, "role", STR("assistant"));
    js_put_raw(body, "parts", STR("["));
    buf_putstr(body, buf_str(&r->kept));
    buf_puts(body, "]}]}");
}

/* --- chunks ----------------------------------------------------------------------------------- */

static void ai_start(struct remote *r)
{
    (void)!remote_set_id(&r->peer_id, &r->doc, js_get(&r->doc, 0, "messageId"));
}

static void ai_text(struct remote *r)
{
    struct str text = say_text(&r->doc, js_get(&r->doc, 0, "delta"), &r->text);
    remote_token(r, text);
    if (r->pending.len + text.n > REMOTE_KEPT)
        r->kept_cut = true;
    else
        buf_putstr(&r->pending, text);
}

static void ai_text_end(struct remote *r)
{
    ai_keep_text(r);
}

static void ai_reasoning(struct remote *r)
{
    remote_thinking(r, say_text(&r->doc, js_get(&r->doc, 0, "delta"), &r->text));
}

static void ai_step(struct remote *r)
{
    ai_keep_text(r);
    ai_keep(r, STR("{\"type\":\"step-start\"}"));
}

static void ai_input(struct remote *r)
{
    struct buf id = {0}, name = {0};
    uint32_t input = js_get(&r->doc, 0, "input");
    (void)say_text(&r->doc, js_get(&r->doc, 0, "toolCallId"), &id);
    (void)say_text(&r->doc, js_get(&r->doc, 0, "toolName"), &name);
    remote_call_node(r, buf_str(&id), buf_str(&name), input);
    ai_keep_call(r, buf_str(&id), buf_str(&name), input);
    buf_done(&id);
    buf_done(&name);
}

static void ai_result(struct remote *r, uint32_t output, struct str error)
{
    struct buf id = {0};
    (void)say_text(&r->doc, js_get(&r->doc, 0, "toolCallId"), &id);
    remote_called(r, buf_str(&id), output ? remote_as_text(r, output, &r->more) : error, !output);
    ai_keep_result(r, buf_str(&id), output, error);
    buf_done(&id);
}

static void ai_output(struct remote *r)
{
    uint32_t preliminary = js_get(&r->doc, 0, "preliminary");
    if (preliminary && js_type(&r->doc, preliminary) == JS_TRUE)
        say_custom(&r->said, STR("tool-output-available"), &r->doc, 0);
    else
        ai_result(r, js_get(&r->doc, 0, "output"), STR(""));
}

static void ai_output_error(struct remote *r)
{
    ai_result(r, 0, say_text(&r->doc, js_get(&r->doc, 0, "errorText"), &r->text));
}

static void ai_input_error(struct remote *r)
{
    ai_input(r);
    ai_output_error(r);
}

static void ai_denied(struct remote *r)
{
    ai_result(r, 0, STR("denied"));
}

static void ai_approval(struct remote *r)
{
    const struct js_doc *doc = &r->doc;
    uint32_t approval = js_get(doc, 0, "approvalId"), call = js_get(doc, 0, "toolCallId");
    struct buf about = {0}, prompt = {0}, tool = {0};
    uint32_t automatic = js_get(doc, 0, "isAutomatic"), signature = js_get(doc, 0, "signature");
    if (!approval || !call || js_type(doc, approval) != JS_STRING ||
        js_type(doc, call) != JS_STRING || (automatic && js_type(doc, automatic) == JS_TRUE))
        return;
    buf_putc(&about, '[');
    js_copy(doc, approval, &about);
    buf_putc(&about, ',');
    js_copy(doc, call, &about);
    if (signature && js_type(doc, signature) == JS_STRING) {
        buf_putc(&about, ',');
        js_copy(doc, signature, &about);
    }
    buf_putc(&about, ']');
    struct str id = say_text(doc, call, &r->text);
    buf_putstr(&tool, say_name(&r->calls, id));
    struct remote_part *part = remote_part(&r->parts, id);
    buf_puts(&prompt, "May the agent call ");
    buf_putstr(&prompt, tool.len ? buf_str(&tool) : STR("a tool"));
    buf_putc(&prompt, '?');
    uint32_t arguments = 0;
    if (part && part->text.len) { /* its input stands in the part */
        buf_clear(&r->more);
        buf_putstr(&r->more, buf_str(&part->text));
        buf_putc(&r->more, '}');
        if (js_parse(&r->doc, r->more.bytes, r->more.len, JS_OURS))
            arguments = js_get(&r->doc, 0, "input");
    }
    remote_ask_approval(r, buf_str(&prompt), buf_str(&tool), arguments, buf_str(&about));
    buf_done(&about);
    buf_done(&prompt);
    buf_done(&tool);
}

/* Servers choose the member's name. */
static void ai_usage(struct remote *r)
{
    static const char *const members[] = {"totalUsage", "usage"};
    uint32_t metadata = js_get(&r->doc, 0, "messageMetadata"), usage = 0;
    for (size_t i = 0; i < countof(members) && !usage; i++)
        if (metadata && js_type(&r->doc, metadata) == JS_OBJECT)
            usage = js_get(&r->doc, metadata, members[i]);
    remote_usage(r, usage);
}

static const struct {
    const char *reason, *why;
} bad_ends[] = {
    {"length", "the answer reached the model's limit (finishReason \"length\")"},
    {"content-filter", "the answer was filtered (finishReason \"content-filter\")"},
    {"error", "the agent's model failed (finishReason \"error\")"},
    {"interrupted", "the agent was interrupted (finishReason \"interrupted\")"},
};

static void ai_finish(struct remote *r)
{
    ai_usage(r);
    if (r->n_questions) {
        remote_wait(r);
        return;
    }
    for (size_t i = 0; i < countof(bad_ends); i++)
        if (say_is(&r->doc, 0, "finishReason", bad_ends[i].reason)) {
            remote_fail(r, str_of(bad_ends[i].why));
            return;
        }
    if (say_is(&r->doc, 0, "finishReason", "tool-calls") && r->calls.n)
        remote_fail(r, STR("it waits for the result of a tool, which only a client that has tools "
                           "can give"));
    else
        remote_finish(r);
}

static void ai_error(struct remote *r)
{
    remote_complain(r, 0);
}

static void ai_abort(struct remote *r)
{
    remote_fail(r, STR("the agent has aborted its turn"));
}

static void ai_ignore(struct remote *r)
{
    (void)r;
}

static const struct remote_event_row chunks[] = {
    {"start", ai_start},
    {"text-delta", ai_text},
    {"text-end", ai_text_end},
    {"reasoning-delta", ai_reasoning},
    {"start-step", ai_step},
    {"tool-input-available", ai_input},
    {"tool-input-error", ai_input_error},
    {"tool-output-available", ai_output},
    {"tool-output-error", ai_output_error},
    {"tool-output-denied", ai_denied},
    {"tool-approval-request", ai_approval},
    {"finish", ai_finish},
    {"error", ai_error},
    {"abort", ai_abort},
    {"finish-step", ai_ignore},
    {"text-start", ai_ignore},
    {"reasoning-start", ai_ignore},
    {"reasoning-end", ai_ignore},
    {"tool-input-start", ai_ignore},
    {"tool-input-delta", ai_ignore},
};

static void ai_other(struct remote *r)
{
    struct str type = say_text(&r->doc, js_get(&r->doc, 0, "type"), &r->text);
    say_custom(&r->said, type, &r->doc, 0);
}

static void ai_take(struct remote *r, struct str event)
{
    (void)event;
    remote_take_row(r, chunks, countof(chunks), ai_other);
}

const struct remote_form remote_ai_sdk = {
    .name = "ai-sdk",
    .begin = ai_begin,
    .take = ai_take,
    .answered = ai_answered,
};
