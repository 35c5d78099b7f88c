#include "gateway/agents/talk.h"

#include <stdlib.h>

#include "proto/parts.h"

static const char *const role_names[] = {"system", "user", "assistant", "tool"};

void talk_init(struct talk *t)
{
    *t = (struct talk){0};
    buf_putc(&t->json, '[');
}

void talk_done(struct talk *t)
{
    buf_done(&t->json);
    buf_done(&t->spaced);
    free(t->messages);
    *t = (struct talk){0};
}

static void talk_add(struct talk *t, enum talk_role role)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 16;
        t->messages = xrealloc(t->messages, t->cap * sizeof *t->messages);
    }
    t->messages[t->n++] = (struct talk_message){.at = t->json.len, .role = role};
    if (t->n > 1)
        buf_putc(&t->json, ',');
}

void talk_begin(struct talk *t, enum talk_role role)
{
    talk_add(t, role);
    buf_putc(&t->json, '{');
    js_put_field(&t->json, "role", str_of(role_names[role]));
}

void talk_end(struct talk *t, bool pinned)
{
    buf_putc(&t->json, '}');
    t->messages[t->n - 1].pinned = pinned;
}

void talk_put(struct talk *t, enum talk_role role, struct str content, bool pinned)
{
    talk_begin(t, role);
    js_put_field(&t->json, "content", content);
    talk_end(t, pinned);
}

void talk_put_parts(struct talk *t, enum talk_role role, struct str parts, bool pinned)
{
    talk_begin(t, role);
    js_put_raw(&t->json, "content", parts);
    talk_end(t, pinned);
}

void talk_put_raw(struct talk *t, enum talk_role role, struct str message)
{
    talk_add(t, role);
    buf_putstr(&t->json, message);
    t->messages[t->n - 1].pinned = false;
}

static struct str talk_message(const struct talk *t, size_t i)
{
    size_t at = t->messages[i].at + (i > 0); /* past the comma */
    size_t end = i + 1 < t->n ? t->messages[i + 1].at : t->json.len;
    return (struct str){t->json.bytes + at, end - at};
}

struct str talk_newest(const struct talk *t)
{
    ASSERT(t->n > 0);
    return talk_message(t, t->n - 1);
}

void talk_append(struct talk *to, const struct talk *from)
{
    for (size_t i = 0; i < from->n; i++)
        talk_put_raw(to, from->messages[i].role, talk_message(from, i));
}

static void put_past(struct talk *t, const struct js_doc *doc, uint32_t message)
{
    bool is_object = js_type(doc, message) == JS_OBJECT;
    uint32_t role = is_object ? js_get(doc, message, "role") : 0;
    uint32_t content = is_object ? js_get(doc, message, "content") : 0;
    bool is_answer = role && js_type(doc, role) == JS_STRING && js_is(doc, role, "assistant");
    uint32_t parts = is_object && !is_answer ? js_get(doc, message, "parts") : 0;
    struct buf text = {0};
    if (is_answer && (t->n == 0 || t->messages[t->n - 1].role == TALK_SYSTEM))
        return; /* its question is gone */
    if (parts && js_type(doc, parts) == JS_ARRAY && parts_have_file(js_raw(doc, parts))) {
        talk_put_parts(t, TALK_USER, js_raw(doc, parts), false);
        return;
    }
    if (content && js_type(doc, content) == JS_STRING)
        js_value(doc, content, &text);
    talk_put(t, is_answer ? TALK_ASSISTANT : TALK_USER, buf_str(&text), false);
    buf_done(&text);
}

static bool parse_past(struct js_doc *doc, struct str messages)
{
    return js_parse(doc, messages.p, messages.n, JS_AGENT) && js_type(doc, 0) == JS_ARRAY;
}

static bool is_instruction(const struct js_doc *doc, uint32_t message)
{
    uint32_t role = js_type(doc, message) == JS_OBJECT ? js_get(doc, message, "role") : 0;
    return role && js_type(doc, role) == JS_STRING && js_is(doc, role, "system");
}

/* The agent's own instructions, then those of the client. */
static void put_instructions(struct talk *t, const struct js_doc *doc, struct str system)
{
    struct buf text = {0};
    buf_putstr(&text, system);
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        uint32_t content = is_instruction(doc, i) ? js_get(doc, i, "content") : 0;
        if (!content || js_type(doc, content) != JS_STRING)
            continue;
        if (text.len)
            buf_puts(&text, "\n\n");
        js_value(doc, content, &text);
    }
    if (text.len)
        talk_put(t, TALK_SYSTEM, buf_str(&text), true);
    buf_done(&text);
}

bool talk_put_context(struct talk *t, struct js_doc *doc, struct str system, struct str context)
{
    if (!parse_past(doc, context))
        return false;
    put_instructions(t, doc, system);
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i))
        if (!is_instruction(doc, i))
            put_past(t, doc, i);
    js_done(doc); /* it may be large, and what comes later is small */
    return true;
}

bool talk_put_history(struct talk *t, struct js_doc *doc, struct str history)
{
    if (history.n == 0)
        return true;
    if (!parse_past(doc, history))
        return false;
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i))
        put_past(t, doc, i);
    js_done(doc); /* it may be large, and later ones are small */
    return true;
}

/* The first message that may go, and the first after everything that goes with it: for a user's
 * message everything up to the next one, for an answer the results of its calls.  The last message
 * stays. */
static bool find_oldest(const struct talk *t, size_t *ret_from, size_t *ret_to)
{
    size_t from = 0;
    while (from < t->n && t->messages[from].pinned)
        from++;
    if (from == t->n)
        return false;
    size_t to = from + 1;
    bool is_question = t->messages[from].role == TALK_USER;
    while (to < t->n && !t->messages[to].pinned &&
           (t->messages[to].role == TALK_TOOL ||
            (is_question && t->messages[to].role == TALK_ASSISTANT)))
        to++;
    *ret_from = from;
    *ret_to = to;
    return to < t->n;
}

static void talk_drop(struct talk *t, size_t from, size_t to)
{
    size_t at = t->messages[from].at, end = to < t->n ? t->messages[to].at : t->json.len;
    if (from == 0 && to < t->n)
        end++; /* the comma: the first message has none */
    size_t gone = end - at;
    memmove(t->json.bytes + at, t->json.bytes + end, t->json.len - end);
    t->json.len -= gone;
    for (size_t i = to; i < t->n; i++) {
        t->messages[from + i - to] = t->messages[i];
        t->messages[from + i - to].at -= from == 0 && i == to ? gone - 1 : gone;
    }
    t->n -= to - from;
}

size_t talk_shorten(struct talk *t, size_t max_bytes)
{
    size_t n = 0, from, to;
    while (talk_size(t) + 1 > max_bytes && find_oldest(t, &from, &to)) {
        n += to - from;
        talk_drop(t, from, to);
    }
    return n;
}

/* --- turns ------------------------------------------------------------------------------------ */

#define NO_ANSWER "{\"role\":\"assistant\",\"content\":\"[This message got no answer.]\"},"
#define NO_QUESTION "{\"role\":\"user\",\"content\":\"[The question is no longer known.]\"},"

/* The text before message i that makes the roles alternate; "" for none. */
static struct str between(const struct talk *t, size_t i)
{
    if (i == 0 || t->messages[i].role != t->messages[i - 1].role)
        return STR("");
    switch (t->messages[i].role) {
    case TALK_USER: return STR(NO_ANSWER);
    case TALK_ASSISTANT: return STR(NO_QUESTION);
    case TALK_SYSTEM:
    case TALK_TOOL: break;
    }
    return STR("");
}

size_t talk_size(const struct talk *t)
{
    size_t n = t->json.len;
    for (size_t i = 1; i < t->n; i++)
        n += between(t, i).n;
    return n;
}

/* Fills t->spaced. */
static void put_spaced(struct talk *t)
{
    size_t at = 0;
    buf_clear(&t->spaced);
    for (size_t i = 1; i < t->n; i++) {
        size_t begin = t->messages[i].at + 1; /* past the comma */
        struct str word = between(t, i);
        if (word.n == 0)
            continue;
        buf_put(&t->spaced, t->json.bytes + at, begin - at);
        buf_putstr(&t->spaced, word);
        at = begin;
    }
    buf_put(&t->spaced, t->json.bytes + at, t->json.len - at);
}

struct str talk_str(struct talk *t)
{
    struct buf *all = &t->json;
    if (talk_size(t) > t->json.len) {
        put_spaced(t);
        all = &t->spaced;
    }
    buf_putc(all, ']');
    all->len--;
    return (struct str){all->bytes, all->len + 1};
}
