#include "gateway/agents/react_input.h"

void react_input_put_tools(const struct react_settings *s, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < s->n_tools; i++) {
        const struct tool *tool = s->tools[i];
        buf_puts(out, i ? ",{" : "{");
        js_put_field(out, "type", STR("function"));
        js_put_raw(out, "function", STR("{"));
        js_put_field(out, "name", str_of(tool->name));
        js_put_field(out, "description", str_of(tool->description));
        js_put_raw(out, "parameters", str_of(tool->parameters));
        buf_puts(out, "}}");
    }
    buf_putc(out, ']');
}

bool react_input_put_past(const struct react_settings *s, const struct run_spec *spec,
                          struct talk *talk, struct js_doc *doc)
{
    struct str system = str_of(s->system);
    if (spec->is_context)
        return talk_put_context(talk, doc, system, spec->history);
    if (system.p)
        talk_put(talk, TALK_SYSTEM, system, true);
    return talk_put_history(talk, doc, spec->history);
}

/* The sender, when it is not the user: a task that this one started, or its parent. */
static void put_sender(const struct js_doc *doc, struct buf *out)
{
    uint32_t from = js_get(doc, 0, "from"), child = js_get(doc, 0, "child");
    if (!from || js_type(doc, from) != JS_STRING || js_is(doc, from, "user"))
        return;
    buf_puts(out, "[from ");
    js_value(doc, from, out);
    const char *const members[] = {"name", "task_id", "status"};
    for (size_t i = 0; child && js_type(doc, child) == JS_OBJECT && i < countof(members); i++) {
        uint32_t member = js_get(doc, child, members[i]);
        if (member && js_type(doc, member) == JS_STRING) {
            buf_putf(out, ", %s ", members[i]);
            js_value(doc, member, out);
        }
    }
    buf_puts(out, "]\n");
}

void react_input_put_message(const struct js_doc *line, struct buf *out)
{
    uint32_t content = js_get(line, 0, "content");
    put_sender(line, out);
    if (content && js_type(line, content) == JS_STRING)
        js_value(line, content, out);
}
