#include "gateway/agents/talk.h"

#include <stdlib.h>

static const char *const role_names[] = {"system", "user", "assistant", "tool"};

void talk_init(struct talk *t)
{
    *t = (struct talk){0};
    buf_putc(&t->json, '[');
}

void talk_done(struct talk *t)
{
    buf_done(&t->json);
    free(t->messages);
    *t = (struct talk){0};
}

static void add(struct talk *t, enum talk_role role)
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
    add(t, role);
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

static enum talk_role role_of(const struct js_doc *doc, uint32_t message)
{
    uint32_t node = js_type(doc, message) == JS_OBJECT ? js_get(doc, message, "role") : 0;
    for (size_t i = 0; node && js_type(doc, node) == JS_STRING && i < countof(role_names); i++)
        if (js_is(doc, node, role_names[i]))
            return (enum talk_role)i;
    return TALK_USER;
}

bool talk_put_history(struct talk *t, struct js_doc *doc, struct str history)
{
    if (history.n == 0)
        return true;
    if (!js_parse(doc, history.p, history.n, JS_AGENT) || js_type(doc, 0) != JS_ARRAY)
        return false;
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        add(t, role_of(doc, i));
        js_copy(doc, i, &t->json);
    }
    js_done(doc); /* it may be large, and what comes later is small */
    return true;
}

/* The first that may go, and the first behind all that goes with it: of a user's message everything
 * up to the next one, else an answer with the results of its calls.  What comes last stays. */
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

static void drop(struct talk *t, size_t from, size_t to)
{
    size_t at = t->messages[from].at, end = to < t->n ? t->messages[to].at : t->json.len;
    if (from == 0 && to < t->n)
        end++; /* the comma: what comes first has none */
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
    while (t->json.len + 1 > max_bytes && find_oldest(t, &from, &to)) {
        n += to - from;
        drop(t, from, to);
    }
    return n;
}

struct str talk_str(struct talk *t)
{
    buf_putc(&t->json, ']');
    t->json.len--;
    return (struct str){t->json.bytes, t->json.len + 1};
}
