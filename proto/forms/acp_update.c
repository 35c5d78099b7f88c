/* The updates of an ACP agent in its turn: pieces of text, calls of tools, plans. */
#include "proto/forms/acp.h"

/* --- texts ------------------------------------------------------------------------------------ */

void acp_keep_answer(struct acp *a, struct str text)
{
    if (a->answer.len + text.n > MAX_OUTPUT)
        a->whole = false;
    else
        buf_putstr(&a->answer, text);
}

/* call: an id, or "".  Whether the block has bytes. */
static bool acp_give(struct acp *a, uint32_t block, struct str call)
{
    struct gift gift;
    if (!block || !gift_read(&a->doc, block, &gift))
        return false;
    if (a->n_gifts == ACP_GIFTS) {
        gift_done(&gift);
        return true;
    }
    buf_putstr(&gift.call, call);
    a->gifts[a->n_gifts++] = gift;
    return true;
}

/* content is one block.  False: it is no text, and has no bytes. */
static bool acp_chunk(struct acp *a, uint32_t update, bool thinks)
{
    const struct js_doc *doc = &a->doc;
    uint32_t content = js_get(doc, update, "content");
    if (!thinks && acp_give(a, content, STR("")))
        return true;
    uint32_t node = say_member(doc, content, "text");
    if (!node || js_type(doc, node) != JS_STRING || !say_is(doc, content, "type", "text"))
        return false;
    struct str text = say_text(doc, node, &a->text);
    if (thinks) {
        say_thinking(&a->said, text);
    } else {
        say_token(&a->said, text);
        acp_keep_answer(a, text);
    }
    return true;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* The text of one wrapped block of a call's content. */
static void put_block(const struct js_doc *doc, uint32_t block, struct buf *out)
{
    uint32_t content = js_get(doc, block, "content");
    uint32_t resource = say_member(doc, content, "resource");
    uint32_t type = say_member(doc, resource ? resource : content, "mimeType");
    uint32_t text = say_member(doc, content, "text"), path = js_get(doc, block, "path");
    size_t before = out->len;
    if (before)
        buf_putc(out, '\n');
    if (text && js_type(doc, text) == JS_STRING) {
        js_value(doc, text, out);
    } else if (path && js_type(doc, path) == JS_STRING) {
        buf_puts(out, "[changed ");
        js_value(doc, path, out);
        buf_putc(out, ']');
    } else if (type && js_type(doc, type) == JS_STRING) {
        buf_puts(out, "[file: ");
        js_value(doc, type, out);
        buf_putc(out, ']');
    } else if (before) {
        out->len = before;
    }
}

/* The text of its content; without one, its raw output. */
static struct str acp_output(struct acp *a, uint32_t update)
{
    const struct js_doc *doc = &a->doc;
    uint32_t content = js_get(doc, update, "content"), raw = js_get(doc, update, "rawOutput");
    struct buf *out = &a->more;
    buf_clear(out);
    if (content && js_type(doc, content) == JS_ARRAY)
        for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i))
            put_block(doc, i, out);
    if (out->len == 0 && raw && js_type(doc, raw) == JS_STRING)
        js_value(doc, raw, out);
    else if (out->len == 0 && raw && js_type(doc, raw) != JS_NULL)
        js_copy(doc, raw, out);
    return buf_str(out);
}

/* A call is told once, and agents may say only later what it calls with: one that is pending, and
 * has no input yet, is held back until the next thing is said. */
static bool is_early(const struct js_doc *doc, uint32_t update)
{
    static const char *const members[] = {"rawInput", "content"};
    for (size_t i = 0; i < countof(members); i++) {
        uint32_t node = js_get(doc, update, members[i]);
        if (node && js_type(doc, node) != JS_NULL && doc->nodes[node].kids > 0)
            return false;
    }
    return say_is(doc, update, "status", "pending");
}

static void acp_tell_call(struct acp *a, struct str id, struct str name, const struct js_doc *doc,
                          uint32_t input)
{
    say_call(&a->said, &a->calls, &(struct say_tool){id, name, doc, input, "value"});
    buf_clear(&a->answer);
    a->whole = true;
}

/* more counts when it is of the same call. */
void acp_tell_held(struct acp *a, uint32_t more)
{
    const struct js_doc *held = &a->other, *doc = &a->doc;
    struct buf id = {0}, name = {0}, json = a->held;
    if (json.len == 0)
        return;
    a->held = (struct buf){0};
    bool good = js_parse(&a->other, json.bytes, json.len, JS_OURS);
    ASSERT(good);
    (void)say_text(held, js_get(held, 0, "toolCallId"), &id);
    if (!str_eq(say_text(doc, say_member(doc, more, "toolCallId"), &a->text), buf_str(&id)))
        more = 0;
    uint32_t title = js_get(held, 0, "title"), new_title = say_member(doc, more, "title");
    uint32_t input = js_get(held, 0, "rawInput"), new_input = say_member(doc, more, "rawInput");
    if (new_title)
        (void)say_text(doc, new_title, &name);
    else
        (void)say_text(held, title ? title : js_get(held, 0, "kind"), &name);
    acp_tell_call(a, buf_str(&id), buf_str(&name), new_input ? doc : held,
                  new_input ? new_input : input);
    buf_done(&id);
    buf_done(&name);
    buf_done(&json);
}

/* The first that is heard of a call, whichever update says it. */
static void acp_begin_call(struct acp *a, uint32_t update)
{
    const struct js_doc *doc = &a->doc;
    uint32_t title = js_get(doc, update, "title");
    struct str id = say_text(doc, js_get(doc, update, "toolCallId"), &a->text);
    if (id.n == 0 || say_is_open(&a->calls, id))
        return;
    if (is_early(doc, update)) {
        js_copy(doc, update, &a->held);
        return;
    }
    struct str name = say_text(doc, title ? title : js_get(doc, update, "kind"), &a->more);
    acp_tell_call(a, id, name, doc, js_get(doc, update, "rawInput"));
}

static void give_content(struct acp *a, uint32_t update, struct str id)
{
    const struct js_doc *doc = &a->doc;
    uint32_t content = js_get(doc, update, "content");
    if (!content || js_type(doc, content) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i))
        if (js_type(doc, i) == JS_OBJECT)
            (void)acp_give(a, js_get(doc, i, "content"), id);
}

static void acp_call(struct acp *a, uint32_t update, bool is_first)
{
    const struct js_doc *doc = &a->doc;
    bool failed = say_is(doc, update, "status", "failed");
    bool ended = failed || say_is(doc, update, "status", "completed");
    struct str id = say_text(doc, js_get(doc, update, "toolCallId"), &a->text);
    if (is_first || (ended && !say_is_open(&a->calls, id)))
        acp_begin_call(a, update);
    id = say_text(doc, js_get(doc, update, "toolCallId"), &a->text);
    struct str output = acp_output(a, update);
    if (id.n && ended) {
        give_content(a, update, id);
        say_called(&a->said, &a->calls, id, output, failed);
        return;
    }
    if (output.n)
        say_keep_output(&a->calls, id, output);
    if (!is_first)
        say_custom(&a->said, STR("tool_call_update"), doc, update);
}

/* --- plans, and the rest ---------------------------------------------------------------------- */

static void acp_plan(struct acp *a, uint32_t update)
{
    const struct js_doc *doc = &a->doc;
    uint32_t entries = js_get(doc, update, "entries"), now = 0;
    size_t done = 0, all = 0;
    say_custom(&a->said, STR("plan"), doc, update);
    if (!entries || js_type(doc, entries) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, entries); i < js_end(doc, entries); i = js_next(doc, i)) {
        bool is_done = say_is(doc, i, "status", "completed");
        all++;
        done += is_done;
        if (!now && !is_done)
            now = js_get(doc, i, "content");
    }
    say_progress(&a->said, done, all, say_text(doc, now, &a->text));
}

void acp_update(struct acp *a, uint32_t params)
{
    const struct js_doc *doc = &a->doc;
    uint32_t update = js_get(doc, params, "update");
    if (!update || js_type(doc, update) != JS_OBJECT)
        return;
    bool thinks = say_is(doc, update, "sessionUpdate", "agent_thought_chunk");
    acp_tell_held(a, update);
    if (thinks || say_is(doc, update, "sessionUpdate", "agent_message_chunk")) {
        if (acp_chunk(a, update, thinks))
            return;
    } else if (say_is(doc, update, "sessionUpdate", "user_message_chunk")) {
        return;
    } else if (say_is(doc, update, "sessionUpdate", "tool_call")) {
        acp_call(a, update, true);
        return;
    } else if (say_is(doc, update, "sessionUpdate", "tool_call_update")) {
        acp_call(a, update, false);
        return;
    } else if (say_is(doc, update, "sessionUpdate", "plan")) {
        acp_plan(a, update);
        return;
    }
    say_custom(&a->said, say_text(doc, js_get(doc, update, "sessionUpdate"), &a->text), doc,
               update);
}
