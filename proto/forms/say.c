#include "proto/forms/say.h"

#include <stdlib.h>

#define DEEPEST (MAX_JSON_DEPTH - 8) /* what a line puts around it still fits */

/* --- reading ---------------------------------------------------------------------------------- */

uint32_t say_member(const struct js_doc *doc, uint32_t object, const char *key)
{
    return object ? js_get(doc, object, key) : 0;
}

bool say_is(const struct js_doc *doc, uint32_t object, const char *key, const char *value)
{
    uint32_t node = js_get(doc, object, key);
    return node && js_is(doc, node, value);
}

struct str say_text(const struct js_doc *doc, uint32_t node, struct buf *scratch)
{
    buf_clear(scratch);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, scratch);
    return buf_str(scratch);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void say_begin(struct buf *out, const char *event)
{
    buf_puts(out, "{\"event\":\"");
    buf_puts(out, event);
    buf_puts(out, "\",\"data\":{");
}

static void say_end(struct buf *out)
{
    buf_puts(out, "}}\n");
}

static void put_cut(struct buf *out, const char *key, struct str text, size_t bytes)
{
    js_put_field(out, key, js_fit(text, bytes));
}

static void say_pieces(struct buf *out, const char *event, struct str text)
{
    while (text.n) {
        size_t n = utf8_cut(text, SAY_TEXT);
        struct str piece = {text.p, n ? n : text.n};
        say_begin(out, event);
        js_put_field(out, "text", piece);
        say_end(out);
        text = (struct str){text.p + piece.n, text.n - piece.n};
    }
}

void say_token(struct buf *out, struct str text)
{
    say_pieces(out, "token", text);
}

void say_thinking(struct buf *out, struct str text)
{
    say_pieces(out, "thinking", text);
}

/* How many arrays and objects lie in each other. */
static int depth_of(const struct js_doc *doc, uint32_t node)
{
    uint32_t ends[MAX_JSON_DEPTH + MAX_JSON_WRAP];
    int depth = 0, most = 0;
    for (uint32_t i = node; i < js_end(doc, node); i++) {
        while (depth > 0 && i >= ends[depth - 1])
            depth--;
        if (js_type(doc, i) < JS_ARRAY)
            continue;
        ends[depth++] = js_end(doc, i);
        most = depth > most ? depth : most;
    }
    return most;
}

/* Any node as a value; what cannot stand in a line is {"left_out":BYTES}. */
static void say_put_value(struct buf *out, const char *key, const struct js_doc *doc, uint32_t node)
{
    struct buf json = {0};
    if (depth_of(doc, node) <= DEEPEST)
        js_copy(doc, node, &json);
    if (json.len == 0 || json.len > SAY_BYTES) {
        buf_clear(&json);
        buf_putf(&json, "{\"left_out\":%u}", doc->nodes[node].len);
    }
    js_put_raw(out, key, buf_str(&json));
    buf_done(&json);
}

static void call_forget(struct say_calls *calls, size_t at)
{
    free(calls->list[at].id);
    free(calls->list[at].name);
    free(calls->list[at].output);
    calls->n--;
    memmove(&calls->list[at], &calls->list[at + 1], (calls->n - at) * sizeof calls->list[0]);
}

static size_t call_find(const struct say_calls *calls, struct str id)
{
    size_t at = 0;
    while (at < calls->n && !str_eq(str_of(calls->list[at].id), id))
        at++;
    return at;
}

bool say_is_open(const struct say_calls *calls, struct str id)
{
    return call_find(calls, id) < calls->n;
}

struct str say_name(const struct say_calls *calls, struct str id)
{
    size_t at = call_find(calls, id);
    return at < calls->n ? str_of(calls->list[at].name) : STR("");
}

void say_keep_output(struct say_calls *calls, struct str id, struct str output)
{
    size_t at = call_find(calls, id);
    if (at == calls->n)
        return;
    free(calls->list[at].output);
    calls->list[at].output = xstrdup(js_fit(output, SAY_TEXT));
}

void say_calls_add(struct say_calls *calls, struct str id, struct str name)
{
    if (calls->n == SAY_CALLS)
        call_forget(calls, 0);
    calls->list[calls->n].id = xstrdup(id);
    calls->list[calls->n].output = NULL;
    calls->list[calls->n++].name = xstrdup(name);
}

void say_call(struct buf *out, struct say_calls *calls, const struct say_tool *tool)
{
    say_calls_add(calls, tool->id, tool->name);
    say_begin(out, "tool_call");
    put_cut(out, "call_id", tool->id, SAY_NAME);
    put_cut(out, "name", tool->name.n ? tool->name : STR("tool"), SAY_NAME);
    if (!tool->arguments || js_type(tool->doc, tool->arguments) == JS_NULL) {
        js_put_raw(out, "arguments", STR("{}"));
    } else if (js_type(tool->doc, tool->arguments) == JS_OBJECT) {
        say_put_value(out, "arguments", tool->doc, tool->arguments);
    } else {
        js_put_raw(out, "arguments", STR("{"));
        say_put_value(out, tool->member, tool->doc, tool->arguments);
        buf_putc(out, '}');
    }
    say_end(out);
}

void say_called(struct buf *out, struct say_calls *calls, struct str id, struct str output,
                bool is_error)
{
    struct buf cut = {0};
    size_t at = call_find(calls, id);
    const char *name = at < calls->n ? calls->list[at].name : "";
    if (output.n == 0 && at < calls->n && calls->list[at].output)
        output = str_of(calls->list[at].output);
    struct str shown = js_fit(output, SAY_BYTES);
    if (shown.n < output.n) {
        buf_putstr(&cut, shown);
        buf_putf(&cut, "\n[%zu bytes left out]", output.n - shown.n);
        shown = buf_str(&cut);
    }
    say_begin(out, "tool_result");
    put_cut(out, "call_id", id, SAY_NAME);
    put_cut(out, "name", *name ? str_of(name) : STR("tool"), SAY_NAME);
    js_put_field(out, "output", shown);
    js_put_bool(out, "is_error", is_error);
    say_end(out);
    buf_done(&cut);
    if (at < calls->n)
        call_forget(calls, at);
}

void say_approval(struct buf *out, const struct say_approval *asked)
{
    say_begin(out, "input_required");
    js_put_field(out, "input_id", asked->input_id);
    js_put_field(out, "kind", STR("approval"));
    put_cut(out, "prompt", asked->prompt, SAY_TEXT);
    if (asked->tool.n)
        put_cut(out, "tool", asked->tool, SAY_NAME);
    if (asked->arguments && js_type(asked->doc, asked->arguments) == JS_OBJECT)
        say_put_value(out, "arguments", asked->doc, asked->arguments);
    if (asked->options.n)
        js_put_raw(out, "options", asked->options);
    say_end(out);
}

void say_question(struct buf *out, struct str input_id, struct str prompt)
{
    say_begin(out, "input_required");
    js_put_field(out, "input_id", input_id);
    js_put_field(out, "kind", STR("question"));
    put_cut(out, "prompt", prompt, SAY_TEXT);
    say_end(out);
}

void say_progress(struct buf *out, size_t done, size_t all, struct str note)
{
    say_begin(out, "progress");
    js_put_key(out, "progress");
    buf_putf(out, "%.4g", all ? (double)done / (double)all : 0.0);
    if (note.n)
        put_cut(out, "note", note, SAY_TEXT);
    say_end(out);
}

void say_custom(struct buf *out, struct str event_type, const struct js_doc *doc, uint32_t payload)
{
    say_begin(out, "custom");
    put_cut(out, "event_type", event_type.n ? event_type : STR("unknown"), SAY_NAME);
    say_put_value(out, "payload", doc, payload);
    say_end(out);
}

void say_final_answer(struct buf *out, struct str text)
{
    if (text.n > MAX_OUTPUT)
        return;
    say_begin(out, "final_answer");
    js_put_field(out, "output", text);
    say_end(out);
}

void say_result(struct buf *out, struct str object)
{
    if (object.n > MAX_OUTPUT)
        return;
    buf_puts(out, "{\"event\":\"result\",\"data\":");
    buf_putstr(out, object);
    buf_puts(out, "}\n");
}

void say_calls_put(const struct say_calls *calls, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < calls->n; i++) {
        buf_puts(out, i > 0 ? ",[" : "[");
        js_put_str(out, str_of(calls->list[i].id));
        buf_putc(out, ',');
        js_put_str(out, str_of(calls->list[i].name));
        buf_putc(out, ']');
    }
    buf_putc(out, ']');
}

/* ["id","name"] */
static bool call_take(struct say_calls *calls, const struct js_doc *doc, uint32_t pair)
{
    struct buf id = {0}, name = {0};
    uint32_t first = pair + 1, second = js_type(doc, pair) == JS_ARRAY ? js_next(doc, first) : 0;
    bool good = doc->nodes[pair].kids == 2 && second && js_type(doc, first) == JS_STRING &&
                js_type(doc, second) == JS_STRING;
    if (good)
        say_calls_add(calls, say_text(doc, first, &id), say_text(doc, second, &name));
    buf_done(&id);
    buf_done(&name);
    return good;
}

bool say_calls_take(struct say_calls *calls, const struct js_doc *doc, uint32_t list)
{
    bool good = js_type(doc, list) == JS_ARRAY;
    for (uint32_t i = js_first(doc, list); good && i < js_end(doc, list); i = js_next(doc, i))
        good = calls->n < SAY_CALLS && call_take(calls, doc, i);
    return good;
}

void say_calls_done(struct say_calls *calls)
{
    while (calls->n)
        call_forget(calls, calls->n - 1);
}
