#include "core/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/str.h"

static const char *const budget_members[] = {"tokens", "tool_calls", "seconds"};
static const char *const budget_words[] = {"tokens", "tool calls", "seconds"};

static int64_t *limit_of(struct budget_limits *l, size_t i)
{
    int64_t *const limits[] = {&l->tokens, &l->tool_calls, &l->seconds};
    return limits[i];
}

void budget_init(struct budget *b, const struct budget_limits *agent, struct str metadata,
                 msec_t now_ms)
{
    struct js_doc doc = {0};
    *b = (struct budget){.limits = *agent, .began_ms = now_ms};
    uint32_t own = 0;
    if (metadata.n && js_parse(&doc, metadata.p, metadata.n, JS_OURS) &&
        js_type(&doc, 0) == JS_OBJECT)
        own = js_get(&doc, 0, METADATA_BUDGET);
    for (size_t i = 0; own && js_type(&doc, own) == JS_OBJECT && i < countof(budget_members); i++) {
        uint32_t node = js_get(&doc, own, budget_members[i]);
        int64_t n;
        if (node && js_type(&doc, node) == JS_NUMBER && js_int(&doc, node, &n) && n > 0)
            *limit_of(&b->limits, i) = n;
    }
    js_done(&doc);
}

/* The use of limit i; and the limit. */
static int64_t used_of(const struct budget *b, msec_t now_ms, size_t i, int64_t *ret_limit)
{
    const int64_t used[] = {b->tokens, b->tool_calls, (int64_t)((now_ms - b->began_ms) / 1000)};
    struct budget_limits limits = b->limits;
    *ret_limit = *limit_of(&limits, i);
    return used[i];
}

static bool is_met(const struct budget *b, msec_t now_ms, size_t i)
{
    int64_t limit, used = used_of(b, now_ms, i, &limit);
    return limit && used >= limit;
}

bool budget_is_none(const struct budget *b)
{
    return !b->limits.tokens && !b->limits.tool_calls && !b->limits.seconds;
}

bool budget_is_spent(const struct budget *b, msec_t now_ms, bool before_call)
{
    for (size_t i = 0; i < countof(budget_members); i++)
        if (is_met(b, now_ms, i) && (before_call || i != 1))
            return true;
    return false;
}

void budget_put(const struct budget *b, msec_t now_ms, struct buf *out)
{
    size_t begin = out->len;
    for (size_t i = 0; i < countof(budget_members); i++) {
        int64_t limit, used = used_of(b, now_ms, i, &limit);
        if (is_met(b, now_ms, i))
            buf_putf(out, "%s%" PRId64 " of %" PRId64 " %s", out->len > begin ? ", " : "", used,
                     limit, budget_words[i]);
    }
}

void budget_put_id(const struct budget *b, char ret[BUDGET_ID])
{
    snprintf(ret, BUDGET_ID, "budget-%u", b->n_asked);
}

/* {"tool_calls":{"used":4,"limit":4}} */
static void put_counts(const struct budget *b, msec_t now_ms, struct buf *out)
{
    for (size_t i = 0; i < countof(budget_members); i++) {
        int64_t limit, used = used_of(b, now_ms, i, &limit);
        if (!limit)
            continue;
        js_put_raw(out, budget_members[i], STR("{"));
        js_put_int(out, "used", used);
        js_put_int(out, "limit", limit);
        buf_putc(out, '}');
    }
}

void budget_put_question(const struct budget *b, msec_t now_ms, struct buf *out)
{
    struct buf prompt = {0};
    char id[BUDGET_ID];
    budget_put_id(b, id);
    buf_puts(&prompt, "The budget is used up: ");
    budget_put(b, now_ms, &prompt);
    buf_puts(&prompt, ". Go on with as much again?");
    buf_putc(out, '{');
    js_put_field(out, "input_id", str_of(id));
    js_put_field(out, "kind", STR("budget"));
    js_put_field(out, "prompt", buf_str(&prompt));
    js_put_field(out, "tool", STR("budget"));
    js_put_raw(out, "arguments", STR("{"));
    put_counts(b, now_ms, out);
    buf_puts(out, "}}");
    buf_done(&prompt);
}

bool budget_is_answer(const struct budget *b, const struct js_doc *data, bool *ret_yes)
{
    uint32_t id = js_get(data, 0, "input_id"), answer = js_get(data, 0, "answer");
    char own[BUDGET_ID];
    budget_put_id(b, own);
    *ret_yes = answer && js_type(data, answer) == JS_TRUE;
    return id && js_type(data, id) == JS_STRING && js_is(data, id, own);
}

void budget_grant(struct budget *b, msec_t now_ms)
{
    b->tokens = b->tool_calls = 0;
    b->began_ms = now_ms;
}

/* --- a run that goes on over a restart -------------------------------------------------------- */

static bool is_question(const struct js_doc *doc)
{
    uint32_t kind = js_get(doc, 0, "kind");
    return kind && js_type(doc, kind) == JS_STRING && js_is(doc, kind, "budget");
}

static unsigned budget_number(const struct js_doc *doc)
{
    uint32_t id = js_get(doc, 0, "input_id");
    struct buf text = {0};
    unsigned n = 0;
    if (id && js_type(doc, id) == JS_STRING)
        js_value(doc, id, &text);
    if (str_begins(buf_str(&text), STR("budget-")))
        n = (unsigned)strtoul(text.bytes + strlen("budget-"), NULL, 10);
    buf_done(&text);
    return n;
}

static void recall_received(struct budget_past *p, const struct event_parts *event,
                            const struct js_doc *doc, int64_t tokens)
{
    bool yes = false;
    if (!p->asks || !budget_is_answer(&p->used, doc, &yes))
        return;
    p->asks = false;
    p->refused = !yes;
    if (!yes)
        return;
    p->used.tool_calls -= p->calls_asked;
    p->used.tokens = tokens;
    p->since = event->ts;
}

void budget_recall(struct budget_past *p, const struct event_parts *event, const struct js_doc *doc,
                   int64_t tokens)
{
    if (event->event == EVENT_TASK_STARTED)
        p->since = event->ts;
    p->used.tool_calls += event->event == EVENT_TOOL_CALL;
    if (event->event == EVENT_INPUT_RECEIVED)
        recall_received(p, event, doc, tokens);
    if (event->event != EVENT_INPUT_REQUIRED || !is_question(doc))
        return;
    p->used.n_asked = budget_number(doc);
    p->calls_asked = p->used.tool_calls;
    p->asks = true;
}

void budget_resume(struct budget *b, const struct budget_past *p, int64_t tokens, int64_t wall_ms,
                   msec_t now_ms)
{
    int64_t used_ms = p->since ? wall_ms - p->since : 0;
    b->n_asked = p->used.n_asked;
    b->tool_calls = p->used.tool_calls;
    b->tokens = tokens - p->used.tokens;
    b->began_ms = now_ms - (used_ms > 0 ? used_ms : 0);
}
