/* Design.  Claude Code prints its own lines around those of Anthropic's Messages:
 *
 *   system/init        its session
 *   stream_event       pieces of a message: text, thoughts (calls come in pieces too, unread)
 *   assistant          a message, or one block of it, whole: text that has come in pieces is passed
 *                      over, calls of tools are told
 *   user               results of tools
 *   result             the end: the answer, or why there is none
 *
 * Lines of its helpers have parent_tool_use_id: only their calls and results are told, since what
 * they say comes back as the result of the call that started them. */
#include "proto/forms/form.h"

static bool is_helpers(const struct js_doc *doc)
{
    uint32_t parent = js_get(doc, 0, "parent_tool_use_id");
    return parent && js_type(doc, parent) == JS_STRING;
}

/* -1: it does not say. */
static int64_t claude_count(const struct js_doc *doc, uint32_t usage, const char *name)
{
    uint32_t node = usage ? say_member(doc, usage, name) : 0;
    int64_t n;
    if (!node || js_type(doc, node) != JS_NUMBER || !js_int(doc, node, &n) || n < 0)
        return -1;
    return n < INT32_MAX ? n : INT32_MAX;
}

/* Tokens from the cache count, too. */
static void claude_count_in(struct form *f, uint32_t usage)
{
    static const char *const more[] = {"cache_creation_input_tokens", "cache_read_input_tokens"};
    int64_t n = claude_count(&f->doc, usage, "input_tokens"), other;
    if (n < 0)
        return;
    for (size_t i = 0; i < countof(more); i++)
        n += (other = claude_count(&f->doc, usage, more[i])) > 0 ? other : 0;
    f->message_in = n;
}

static void claude_count_out(struct form *f, uint32_t usage)
{
    int64_t n = claude_count(&f->doc, usage, "output_tokens");
    if (n >= 0)
        f->message_out = n;
}

/* A message is over: the task's result, for now, is what was used. */
static void claude_say_usage(struct form *f, struct buf *out)
{
    f->tokens_in += f->message_in;
    f->tokens_out += f->message_out;
    f->message_in = f->message_out = 0;
    if (f->tokens_in + f->tokens_out == 0)
        return;
    buf_clear(&f->other);
    buf_puts(&f->other, "{\"usage\":{");
    js_put_int(&f->other, "input_tokens", f->tokens_in);
    js_put_int(&f->other, "output_tokens", f->tokens_out);
    buf_puts(&f->other, "}}");
    say_result(out, buf_str(&f->other));
}

static void claude_piece(struct form *f, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    uint32_t event = js_get(doc, 0, "event"), delta = say_member(doc, event, "delta");
    if (!event || is_helpers(doc))
        return;
    if (say_is(doc, event, "type", "message_start")) {
        f->streams = true;
        claude_count_in(f, say_member(doc, js_get(doc, event, "message"), "usage"));
    }
    if (say_is(doc, event, "type", "message_delta")) {
        claude_count_in(f, js_get(doc, event, "usage"));
        claude_count_out(f, js_get(doc, event, "usage"));
    }
    if (say_is(doc, event, "type", "message_stop")) {
        f->streams = false;
        claude_say_usage(f, out);
    }
    if (!delta || !say_is(doc, event, "type", "content_block_delta"))
        return;
    if (say_is(doc, delta, "type", "text_delta"))
        say_token(out, say_text(doc, js_get(doc, delta, "text"), &f->text));
    if (say_is(doc, delta, "type", "thinking_delta"))
        say_thinking(out, say_text(doc, js_get(doc, delta, "thinking"), &f->text));
}

static bool claude_is_told(const struct form *f)
{
    uint32_t error = js_get(&f->doc, 0, "error");
    return f->streams || is_helpers(&f->doc) || (error && js_type(&f->doc, error) != JS_NULL);
}

/* Claude Code prints a failure as if the model had said it, too: the result tells it. */
static void claude_block(struct form *f, uint32_t block, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    if (say_is(doc, block, "type", "tool_use")) {
        struct str id = say_text(doc, js_get(doc, block, "id"), &f->text);
        struct str name = say_text(doc, js_get(doc, block, "name"), &f->other);
        say_call(out, &f->calls,
                 &(struct say_tool){id, name, doc, js_get(doc, block, "input"), "value"});
    } else if (claude_is_told(f)) {
        return;
    } else if (say_is(doc, block, "type", "text")) {
        say_token(out, say_text(doc, js_get(doc, block, "text"), &f->text));
    } else if (say_is(doc, block, "type", "thinking")) {
        say_thinking(out, say_text(doc, js_get(doc, block, "thinking"), &f->text));
    }
}

/* A string, or blocks of which those with text count, joined by newlines. */
static void put_content(const struct js_doc *doc, uint32_t content, struct buf *out)
{
    if (!content)
        return;
    if (js_type(doc, content) == JS_STRING)
        js_value(doc, content, out);
    if (js_type(doc, content) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i)) {
        uint32_t text = js_get(doc, i, "text"), type = js_get(doc, i, "type");
        if (out->len)
            buf_putc(out, '\n');
        if (text && js_type(doc, text) == JS_STRING) {
            js_value(doc, text, out);
        } else if (type && js_type(doc, type) == JS_STRING) {
            buf_putc(out, '[');
            js_value(doc, type, out);
            buf_putc(out, ']');
        }
    }
}

static void claude_result_of_tool(struct form *f, uint32_t block, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    uint32_t is_error = js_get(doc, block, "is_error");
    if (!say_is(doc, block, "type", "tool_result"))
        return;
    struct str id = say_text(doc, js_get(doc, block, "tool_use_id"), &f->text);
    buf_clear(&f->other);
    put_content(doc, js_get(doc, block, "content"), &f->other);
    say_called(out, &f->calls, id, buf_str(&f->other),
               is_error && js_type(doc, is_error) == JS_TRUE);
}

static void claude_message(struct form *f, struct buf *out,
                           void (*take)(struct form *f, uint32_t block, struct buf *out))
{
    const struct js_doc *doc = &f->doc;
    uint32_t content = say_member(doc, js_get(doc, 0, "message"), "content");
    if (!content || js_type(doc, content) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i))
        take(f, i, out);
}

static void claude_put_failure(struct form *f)
{
    const struct js_doc *doc = &f->doc;
    uint32_t result = js_get(doc, 0, "result"), errors = js_get(doc, 0, "errors");
    if (result && js_type(doc, result) == JS_STRING)
        js_value(doc, result, &f->failure);
    if (errors && js_type(doc, errors) != JS_ARRAY)
        errors = 0;
    for (uint32_t i = errors + 1; errors && i < js_end(doc, errors); i = js_next(doc, i)) {
        if (js_type(doc, i) != JS_STRING)
            continue;
        if (f->failure.len)
            buf_puts(&f->failure, "; ");
        js_value(doc, i, &f->failure);
    }
    if (f->failure.len == 0)
        buf_putstr(&f->failure, say_text(doc, js_get(doc, 0, "subtype"), &f->text));
    if (f->failure.len == 0)
        buf_puts(&f->failure, "it failed, and does not say why");
}

/* These members of the line are the task's result. */
static const char *const claude_counts[] = {"usage",       "total_cost_usd",     "num_turns",
                                            "duration_ms", "permission_denials", "stop_reason"};

static void claude_result(struct form *f, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    uint32_t is_error = js_get(doc, 0, "is_error"), result = js_get(doc, 0, "result");
    bool failed =
        (is_error && js_type(doc, is_error) == JS_TRUE) || !say_is(doc, 0, "subtype", "success");
    f->has_ended = true;
    buf_clear(&f->failure);
    if (failed)
        claude_put_failure(f);
    buf_clear(&f->other);
    buf_putc(&f->other, '{');
    for (size_t i = 0; i < countof(claude_counts); i++) {
        uint32_t node = js_get(doc, 0, claude_counts[i]);
        if (!node)
            continue;
        js_put_key(&f->other, claude_counts[i]);
        js_copy(doc, node, &f->other);
    }
    buf_putc(&f->other, '}');
    say_result(out, buf_str(&f->other));
    if (!failed && result && js_type(doc, result) == JS_STRING)
        say_final_answer(out, say_text(doc, result, &f->text));
}

/* Noise of each turn. */
static bool is_small_talk(const struct js_doc *doc)
{
    return say_is(doc, 0, "subtype", "init") || say_is(doc, 0, "subtype", "status") ||
           say_is(doc, 0, "subtype", "thinking_tokens");
}

void form_claude(struct form *f, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    bool is_system = say_is(doc, 0, "type", "system");
    if (is_system && say_is(doc, 0, "subtype", "init"))
        form_set_session(f, say_text(doc, js_get(doc, 0, "session_id"), &f->text));
    if (is_system && is_small_talk(doc))
        return;
    if (say_is(doc, 0, "type", "stream_event"))
        claude_piece(f, out);
    else if (say_is(doc, 0, "type", "assistant"))
        claude_message(f, out, claude_block);
    else if (say_is(doc, 0, "type", "user"))
        claude_message(f, out, claude_result_of_tool);
    else if (say_is(doc, 0, "type", "result"))
        claude_result(f, out);
    else
        say_custom(out, say_text(doc, js_get(doc, 0, is_system ? "subtype" : "type"), &f->text),
                   doc, 0);
}
