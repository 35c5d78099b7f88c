#include "gateway/agents/react_budget.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const budget_members[] = {"tokens", "tool_calls", "seconds"};
static const char *const budget_words[] = {"tokens", "tool calls", "seconds"};

static int64_t *limit_of(struct budget_limits *l, size_t i)
{
    int64_t *const limits[] = {&l->tokens, &l->tool_calls, &l->seconds};
    return limits[i];
}

void react_budget_init(struct react_budget *b, const struct budget_limits *agent,
                       struct str metadata, uint64_t now_ms)
{
    struct js_doc doc = {0};
    *b = (struct react_budget){.limits = *agent, .began_ms = now_ms};
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
static int64_t used_of(const struct react_budget *b, uint64_t now_ms, size_t i, int64_t *ret_limit)
{
    const int64_t used[] = {b->tokens, b->tool_calls, (int64_t)((now_ms - b->began_ms) / 1000)};
    struct budget_limits limits = b->limits;
    *ret_limit = *limit_of(&limits, i);
    return used[i];
}

static bool is_met(const struct react_budget *b, uint64_t now_ms, size_t i)
{
    int64_t limit, used = used_of(b, now_ms, i, &limit);
    return limit && used >= limit;
}

/* Calls are counted before a call alone: a turn without one may be the answer. */
bool react_budget_is_spent(const struct react_budget *b, uint64_t now_ms, bool before_call)
{
    for (size_t i = 0; i < countof(budget_members); i++)
        if (is_met(b, now_ms, i) && (before_call || i != 1))
            return true;
    return false;
}

void react_budget_put(const struct react_budget *b, uint64_t now_ms, struct buf *out)
{
    size_t begin = out->len;
    for (size_t i = 0; i < countof(budget_members); i++) {
        int64_t limit, used = used_of(b, now_ms, i, &limit);
        if (is_met(b, now_ms, i))
            buf_putf(out, "%s%" PRId64 " of %" PRId64 " %s", out->len > begin ? ", " : "", used,
                     limit, budget_words[i]);
    }
}

static void put_id(const struct react_budget *b, char ret[32])
{
    snprintf(ret, 32, "budget-%u", b->n_asked);
}

/* {"tool_calls":{"used":4,"limit":4}} */
static void put_counts(const struct react_budget *b, uint64_t now_ms, struct buf *out)
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

void react_budget_ask(struct react_budget *b, uint64_t now_ms, struct teller *teller)
{
    struct buf data = {0}, prompt = {0};
    char id[32];
    b->n_asked++;
    put_id(b, id);
    buf_puts(&prompt, "The budget is used up: ");
    react_budget_put(b, now_ms, &prompt);
    buf_puts(&prompt, ". Go on with as much again?");
    buf_putc(&data, '{');
    js_put_field(&data, "input_id", str_of(id));
    js_put_field(&data, "kind", STR("budget"));
    js_put_field(&data, "prompt", buf_str(&prompt));
    js_put_field(&data, "tool", STR("budget"));
    js_put_raw(&data, "arguments", STR("{"));
    put_counts(b, now_ms, &data);
    buf_puts(&data, "}}");
    teller_say(teller, &(struct agent_line){.kind = LINE_EVENT,
                                            .event = EVENT_INPUT_REQUIRED,
                                            .data = buf_str(&data),
                                            .input_id = str_of(id),
                                            .approval = true,
                                            .timeout_s = -1});
    buf_done(&data);
    buf_done(&prompt);
}

bool react_budget_is_answer(const struct react_budget *b, const struct js_doc *doc, bool *ret_yes)
{
    uint32_t type = js_get(doc, 0, "type"), id = js_get(doc, 0, "input_id");
    uint32_t answer = js_get(doc, 0, "answer");
    char own[32];
    put_id(b, own);
    *ret_yes = answer && js_type(doc, answer) == JS_TRUE;
    return type && js_type(doc, type) == JS_STRING && js_is(doc, type, "input") && id &&
           js_type(doc, id) == JS_STRING && js_is(doc, id, own);
}

void react_budget_grant(struct react_budget *b, uint64_t now_ms)
{
    b->tokens = b->tool_calls = 0;
    b->began_ms = now_ms;
}
