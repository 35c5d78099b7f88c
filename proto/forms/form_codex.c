/* Design.  codex exec prints events of a thread, and in them items, whole: a message or thought is
 * told when it is completed; anything else that it does is a call, which begins with item.started
 * (or, for what is over at once, with item.completed) and ends with item.completed.
 *
 * An `error` may be got over ("Reconnecting… 1/5"); turn.failed is the end. */
#include "proto/forms/form.h"

static const struct {
    const char *type;
    const char *arguments; /* the item's member that says what is done; NULL: all of the item */
    const char *output;    /* and the member that says what came of it; NULL: nothing does */
} codex_tools[] = {
    {"command_execution", "command", "aggregated_output"},
    {"file_change", "changes", NULL},
    {"mcp_tool_call", "arguments", "result"},
    {"web_search", "query", NULL},
    {"collab_tool_call", NULL, NULL},
};

static bool codex_failed(const struct js_doc *doc, uint32_t item)
{
    int64_t code;
    uint32_t exit_code = js_get(doc, item, "exit_code");
    return say_is(doc, item, "status", "failed") || say_is(doc, item, "status", "declined") ||
           (exit_code && js_int(doc, exit_code, &code) && code != 0);
}

/* A text as it is, anything else as JSON; of a failure without one, its error. */
static void codex_put_output(const struct js_doc *doc, uint32_t item, const char *member,
                             struct buf *out)
{
    uint32_t output = member ? js_get(doc, item, member) : 0;
    if (!output || js_type(doc, output) == JS_NULL)
        output = say_member(doc, js_get(doc, item, "error"), "message");
    buf_clear(out);
    if (output && js_type(doc, output) == JS_STRING)
        js_value(doc, output, out);
    else if (output && js_type(doc, output) != JS_NULL)
        js_copy(doc, output, out);
}

static void codex_tool(struct form *f, uint32_t item, size_t tool, bool completed, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    const char *member = codex_tools[tool].arguments;
    struct str id = say_text(doc, js_get(doc, item, "id"), &f->text);
    if (!say_is_open(&f->calls, id)) {
        struct str name = say_text(doc, js_get(doc, item, "tool"), &f->other);
        say_call(out, &f->calls,
                 &(struct say_tool){id, name.n ? name : str_of(codex_tools[tool].type), doc,
                                    member ? js_get(doc, item, member) : item, member});
    }
    if (!completed)
        return;
    codex_put_output(doc, item, codex_tools[tool].output, &f->other);
    say_called(out, &f->calls, id, buf_str(&f->other), codex_failed(doc, item));
}

static void codex_plan(struct form *f, uint32_t item, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    uint32_t items = js_get(doc, item, "items"), next = 0;
    size_t done = 0, all = 0;
    say_custom(out, STR("todo_list"), doc, item);
    if (!items || js_type(doc, items) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, items); i < js_end(doc, items); i = js_next(doc, i)) {
        uint32_t completed = js_get(doc, i, "completed");
        bool is_done = completed && js_type(doc, completed) == JS_TRUE;
        done += is_done;
        all++;
        if (!is_done && !next)
            next = js_get(doc, i, "text");
    }
    say_progress(out, done, all, say_text(doc, next, &f->text));
}

static void codex_item(struct form *f, bool completed, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    uint32_t item = js_get(doc, 0, "item");
    if (!item || js_type(doc, item) != JS_OBJECT)
        return;
    for (size_t i = 0; i < countof(codex_tools); i++)
        if (say_is(doc, item, "type", codex_tools[i].type)) {
            codex_tool(f, item, i, completed, out);
            return;
        }
    if (say_is(doc, item, "type", "todo_list")) {
        codex_plan(f, item, out);
    } else if (!completed) {
        return;
    } else if (say_is(doc, item, "type", "agent_message")) {
        struct str text = say_text(doc, js_get(doc, item, "text"), &f->answer);
        if (text.n)
            say_token(out, text);
    } else if (say_is(doc, item, "type", "reasoning")) {
        say_thinking(out, say_text(doc, js_get(doc, item, "text"), &f->text));
    } else {
        say_custom(out, say_text(doc, js_get(doc, item, "type"), &f->text), doc, item);
    }
}

static void codex_completed(struct form *f, struct buf *out)
{
    uint32_t usage = js_get(&f->doc, 0, "usage");
    f->has_ended = true;
    buf_clear(&f->other);
    buf_puts(&f->other, "{\"usage\":");
    if (usage)
        js_copy(&f->doc, usage, &f->other);
    else
        buf_puts(&f->other, "null");
    buf_putc(&f->other, '}');
    say_result(out, buf_str(&f->other));
    if (f->answer.len)
        say_final_answer(out, buf_str(&f->answer));
}

static void codex_failure(const struct js_doc *doc, uint32_t message, struct buf *out)
{
    buf_clear(out);
    if (message && js_type(doc, message) == JS_STRING)
        js_value(doc, message, out);
    if (out->len == 0)
        buf_puts(out, "it failed, and does not say why");
}

void form_codex(struct form *f, struct buf *out)
{
    const struct js_doc *doc = &f->doc;
    if (say_is(doc, 0, "type", "thread.started")) {
        form_set_session(f, say_text(doc, js_get(doc, 0, "thread_id"), &f->text));
    } else if (say_is(doc, 0, "type", "item.started") || say_is(doc, 0, "type", "item.updated")) {
        codex_item(f, false, out);
    } else if (say_is(doc, 0, "type", "item.completed")) {
        codex_item(f, true, out);
    } else if (say_is(doc, 0, "type", "turn.completed")) {
        codex_completed(f, out);
    } else if (say_is(doc, 0, "type", "turn.failed")) {
        f->has_ended = true;
        codex_failure(doc, say_member(doc, js_get(doc, 0, "error"), "message"), &f->failure);
    } else if (!say_is(doc, 0, "type", "turn.started")) {
        if (say_is(doc, 0, "type", "error"))
            codex_failure(doc, js_get(doc, 0, "message"), &f->last_error);
        say_custom(out, say_text(doc, js_get(doc, 0, "type"), &f->text), doc, 0);
    }
}
