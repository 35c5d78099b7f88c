#include "gateway/models/model_rules.h"

#include "gateway/models/arithmetic.h"
#include "proto/js.h"

#define QUOTE_CHARS 200 /* of a quoted message */
#define NAME_CHARS 40
#define SAID_BEFORE 5 /* messages that are repeated */

static const char stand_in[] =
    "I am Holdfast's built-in stand-in: a few rules and no language model.";
static const char what_i_can[] =
    "Things to try:\n\n"
    "- `what is 12*(3+4)?` and `what time is it?` call real tools\n"
    "- `count to 20`, or `count to 20 slowly`, or `repeat 200 words`\n"
    "- `my name is Ada`, later `what is my name?` or `what did I say before?`\n"
    "- `think about the sea` shows thinking, `fail` shows a failure\n\n"
    "For real answers, the operator configures a model.";

struct rules_talk {
    struct js_doc doc, tools;
    uint32_t last_user;      /* nodes; 0: none */
    uint32_t last_assistant; /* that called tools or answered */
    uint32_t unanswered;     /* the first result of a tool without an answer */
    bool ends_with_user;
    unsigned n_results; /* of tools, in the whole conversation */
    struct buf said;    /* the user's last message */
    struct rules_plan *plan;
};

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_role(const struct rules_talk *t, uint32_t message, const char *role)
{
    if (js_type(&t->doc, message) != JS_OBJECT)
        return false;
    uint32_t node = js_get(&t->doc, message, "role");
    return node && js_is(&t->doc, node, role);
}

static void content_of(const struct rules_talk *t, uint32_t message, struct buf *ret)
{
    bool has_members = js_type(&t->doc, message) == JS_OBJECT;
    uint32_t node = has_members ? js_get(&t->doc, message, "content") : 0;
    buf_clear(ret);
    if (node && js_type(&t->doc, node) == JS_STRING)
        js_value(&t->doc, node, ret);
    buf_putc(ret, 0); /* for the searches */
    ret->len--;
}

static void look(struct rules_talk *t)
{
    const struct js_doc *d = &t->doc;
    for (uint32_t i = js_first(d, 0); i < js_end(d, 0); i = js_next(d, i)) {
        t->ends_with_user = is_role(t, i, "user");
        if (t->ends_with_user)
            t->last_user = i;
        if (is_role(t, i, "assistant")) {
            t->last_assistant = i;
            t->unanswered = 0;
        }
        if (is_role(t, i, "tool")) {
            t->n_results++;
            t->unanswered = t->unanswered ? t->unanswered : i;
        }
    }
    content_of(t, t->last_user, &t->said);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* The text after the phrase, which must appear as whole words; NULL when it does not. */
static const char *after(const struct buf *text, const char *phrase)
{
    size_t n = strlen(phrase);
    for (const char *p = text->bytes; (p = strcasestr(p, phrase)); p++)
        if ((p == text->bytes || !is_letter(p[-1])) && !is_letter(p[n]))
            return p + n;
    return NULL;
}

static bool says_one_of(const struct buf *text, const char *const *phrases)
{
    for (; *phrases; phrases++)
        if (after(text, *phrases))
            return true;
    return false;
}
#define SAYS(text, ...) says_one_of((text), (const char *const[]){__VA_ARGS__, NULL})

static bool has_tool(struct rules_talk *t, const char *name)
{
    const struct js_doc *d = &t->tools;
    for (uint32_t i = js_first(d, 0); i < js_end(d, 0); i = js_next(d, i)) {
        uint32_t function = js_type(d, i) == JS_OBJECT ? js_get(d, i, "function") : 0;
        if (!function || js_type(d, function) != JS_OBJECT)
            continue;
        uint32_t node = js_get(d, function, "name");
        if (node && js_is(d, node, name))
            return true;
    }
    return false;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void rules_say(struct rules_talk *t, const char *text)
{
    buf_puts(&t->plan->answer, text);
}

/* On one line, and cut when it is long. */
static void quote(struct buf *out, struct str text)
{
    size_t n = utf8_chars(text, QUOTE_CHARS);
    for (size_t i = 0; i < n; i++)
        buf_putc(out, (unsigned char)text.p[i] < 0x20 ? ' ' : text.p[i]);
    if (n < text.n)
        buf_puts(out, " \xe2\x80\xa6"); /* an ellipsis */
}

static bool is_call_of(const struct rules_talk *t, uint32_t call, uint32_t result)
{
    const struct js_doc *d = &t->doc;
    uint32_t id = js_get(d, call, "id"), of = js_get(d, result, "tool_call_id");
    return id && of && str_eq(js_raw(d, id), js_raw(d, of));
}

/* The call's function object; 0 when there is none. */
static uint32_t find_call(const struct rules_talk *t, uint32_t result)
{
    const struct js_doc *d = &t->doc;
    uint32_t calls = t->last_assistant ? js_get(d, t->last_assistant, "tool_calls") : 0;
    if (!calls || js_type(d, calls) != JS_ARRAY)
        return 0;
    for (uint32_t i = js_first(d, calls); i < js_end(d, calls); i = js_next(d, i)) {
        if (js_type(d, i) != JS_OBJECT || !is_call_of(t, i, result))
            continue;
        uint32_t function = js_get(d, i, "function");
        return function && js_type(d, function) == JS_OBJECT ? function : 0;
    }
    return 0;
}

/* The expression of a call of the calculator. */
static void put_expression(const struct rules_talk *t, uint32_t function, struct buf *out)
{
    struct buf arguments = {0};
    struct js_doc doc = {0};
    uint32_t node = js_get(&t->doc, function, "arguments");
    if (node && js_type(&t->doc, node) == JS_STRING)
        js_value(&t->doc, node, &arguments);
    if (js_parse(&doc, arguments.bytes ? arguments.bytes : "", arguments.len, JS_AGENT) &&
        js_type(&doc, 0) == JS_OBJECT) {
        uint32_t expression = js_get(&doc, 0, "expression");
        if (expression && js_type(&doc, expression) == JS_STRING)
            js_value(&doc, expression, out);
    }
    js_done(&doc);
    buf_done(&arguments);
}

/* --- tools ------------------------------------------------------------------------------------ */

static struct rules_call *add_call(struct rules_talk *t, const char *tool)
{
    if (!has_tool(t, tool)) {
        rules_say(t, "I would ask the tool `");
        rules_say(t, tool);
        rules_say(t, "`, but this agent has none of that name. ");
        return NULL;
    }
    struct rules_call *call = &t->plan->calls[t->plan->n_calls++];
    *call = (struct rules_call){.name = tool};
    return call;
}

static bool rule_arithmetic(struct rules_talk *t)
{
    struct buf expression = {0};
    bool found = arithmetic_find(buf_str(&t->said), &expression);
    struct rules_call *call = found ? add_call(t, "calculator") : NULL;
    if (call) {
        buf_puts(&t->plan->thinking, "That is arithmetic: I ask the calculator for ");
        quote(&t->plan->thinking, buf_str(&expression));
        buf_puts(&t->plan->thinking, ". ");
        buf_putc(&call->arguments, '{');
        js_put_field(&call->arguments, "expression", buf_str(&expression));
        buf_putc(&call->arguments, '}');
    }
    buf_done(&expression);
    return found;
}

static bool rule_clock(struct rules_talk *t)
{
    const struct buf *said = &t->said;
    bool date = SAYS(said, "what day", "which day", "the date", "what date", "today's date",
                     "date today", "date");
    bool time = SAYS(said, "what time", "the time", "time is it", "time now", "current time",
                     "unix time", "clock", "what's the time");
    if (!date && !time)
        return false;
    struct rules_call *call = add_call(t, "clock");
    if (call) {
        buf_puts(&t->plan->thinking, "I look at the clock. ");
        const char *format = after(said, "unix time") ? "unix" : date && !time ? "date" : "iso";
        buf_putc(&call->arguments, '{');
        js_put_field(&call->arguments, "format", str_of(format));
        buf_putc(&call->arguments, '}');
    }
    return true;
}

static bool rule_tools(struct rules_talk *t)
{
    bool arithmetic = rule_arithmetic(t);
    return rule_clock(t) || arithmetic;
}

static void answer_result(struct rules_talk *t, uint32_t result)
{
    struct buf output = {0}, expression = {0};
    struct buf *answer = &t->plan->answer;
    uint32_t function = find_call(t, result);
    uint32_t name = function ? js_get(&t->doc, function, "name") : 0;
    content_of(t, result, &output);
    if (answer->len)
        buf_puts(answer, "\n\n");
    bool refused = strncmp(output.bytes, "error: ", 7) == 0;
    struct str told = buf_str(&output);
    if (refused)
        told = (struct str){told.p + 7, told.n - 7};
    if (name && js_is(&t->doc, name, "calculator")) {
        put_expression(t, function, &expression);
        buf_putc(answer, '`');
        quote(answer, buf_str(&expression));
        buf_puts(answer, refused ? "` has no value: " : "` is **");
    } else {
        buf_puts(answer, refused ? "The tool could not: " : "The clock (UTC) says **");
    }
    quote(answer, told);
    buf_puts(answer, refused ? "." : "**.");
    buf_done(&expression);
    buf_done(&output);
}

static void answer_results(struct rules_talk *t)
{
    const struct js_doc *d = &t->doc;
    for (uint32_t i = t->unanswered; i && i < js_end(d, 0); i = js_next(d, i))
        if (is_role(t, i, "tool"))
            answer_result(t, i);
}

/* --- counting --------------------------------------------------------------------------------- */

/* A number after a phrase; capped, so that it never overflows.  False when there is none. */
static bool number_after(const struct buf *text, const char *phrase, uint32_t *ret)
{
    const char *p = after(text, phrase);
    if (!p)
        return false;
    p += strspn(p, " ");
    size_t n = strspn(p, "0123456789,");
    *ret = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i] != ',' && *ret <= RULES_MAX_WORDS)
            *ret = *ret * 10 + (uint32_t)(p[i] - '0');
    return n > 0 && p[0] != ',';
}

static bool too_many(struct rules_talk *t, uint32_t n)
{
    if (n > 0 && n <= RULES_MAX_WORDS)
        return false;
    rules_say(t, "I do that from 1 to 100,000 times, but not ");
    rules_say(t, n ? "more." : "less.");
    return true;
}

static bool rule_count(struct rules_talk *t)
{
    uint32_t n;
    if (!number_after(&t->said, "count to", &n) && !number_after(&t->said, "count up to", &n))
        return false;
    if (too_many(t, n))
        return true;
    for (uint32_t i = 1; i <= n; i++) {
        buf_put_u64(&t->plan->answer, i);
        if (i < n)
            buf_putc(&t->plan->answer, ' ');
    }
    return true;
}

static bool rule_repeat(struct rules_talk *t)
{
    static const char *const words[] = {"kelp", "rock",  "tide", "foam",  "gull", "salt",
                                        "reef", "shell", "wave", "stone", "deep", "holdfast"};
    uint32_t n;
    if (!number_after(&t->said, "repeat", &n) || !SAYS(&t->said, "word", "words"))
        return false;
    if (too_many(t, n))
        return true;
    for (uint32_t i = 0; i < n; i++) {
        rules_say(t, words[i % countof(words)]);
        if (i + 1 < n)
            buf_putc(&t->plan->answer, ' ');
    }
    return true;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* A name given in a message: up to the end of the clause. */
static bool find_name(const struct buf *text, struct str *ret)
{
    const char *p = after(text, "my name is");
    if (!p)
        p = after(text, "call me");
    if (!p)
        return false;
    p += strspn(p, " ");
    size_t n = strcspn(p, ".,;:!?\"()\n\r\t");
    const char *more = strstr(p, " and ");
    if (more && more < p + n)
        n = (size_t)(more - p);
    n = utf8_chars((struct str){p, n}, NAME_CHARS);
    while (n && p[n - 1] == ' ')
        n--;
    *ret = (struct str){p, n};
    return n > 0;
}

/* Appends the name that was given last; false when there was none. */
static bool remember_name(struct rules_talk *t, struct buf *out)
{
    struct buf text = {0}, best = {0};
    const struct js_doc *d = &t->doc;
    for (uint32_t i = js_first(d, 0); i < js_end(d, 0); i = js_next(d, i)) {
        struct str name;
        if (!is_role(t, i, "user"))
            continue;
        content_of(t, i, &text);
        if (!find_name(&text, &name))
            continue;
        buf_clear(&best);
        buf_putstr(&best, name);
    }
    bool found = best.len > 0;
    buf_putstr(out, buf_str(&best));
    buf_done(&text);
    buf_done(&best);
    return found;
}

static bool rule_name(struct rules_talk *t)
{
    struct buf name = {0};
    struct str told;
    bool asked = SAYS(&t->said, "what is my name", "what's my name", "whats my name", "my name?",
                      "who am i", "remember my name", "know my name");
    bool tells = !asked && find_name(&t->said, &told);
    if (!asked && !tells)
        return false;
    if (!remember_name(t, &name)) {
        rules_say(
            t,
            "You have not told me in this conversation. Say `my name is \xe2\x80\xa6`, and ask again.");
    } else {
        rules_say(t, tells ? "Nice to meet you, **" : "Your name is **");
        buf_putstr(&t->plan->answer, buf_str(&name));
        rules_say(t, tells ? "**. Ask me later what your name is: the conversation remembers."
                           : "**: you said so earlier in this conversation.");
    }
    buf_done(&name);
    return true;
}

static bool rule_before(struct rules_talk *t)
{
    if (!SAYS(&t->said, "did i say", "have i said", "did i ask", "did i tell you", "did i write"))
        return false;
    const struct js_doc *d = &t->doc;
    size_t n = 0, at = 0;
    for (uint32_t i = js_first(d, 0); i < t->last_user; i = js_next(d, i))
        n += is_role(t, i, "user");
    if (!n) {
        rules_say(t, "Nothing: this is your first message in this conversation.");
        return true;
    }
    buf_putf(&t->plan->answer, "Before this you said %zu thing%s:\n", n, n == 1 ? "" : "s");
    struct buf text = {0};
    for (uint32_t i = js_first(d, 0); i < t->last_user; i = js_next(d, i)) {
        if (!is_role(t, i, "user") || at++ + SAID_BEFORE < n)
            continue;
        content_of(t, i, &text);
        rules_say(t, "\n> ");
        quote(&t->plan->answer, buf_str(&text));
        rules_say(t, "\n");
    }
    buf_done(&text);
    return true;
}

/* --- the rest --------------------------------------------------------------------------------- */

static bool rule_fail(struct rules_talk *t)
{
    if (!SAYS(&t->said, "fail"))
        return false;
    rules_say(t, "This is what a failure looks like: I begin to answer, and then ");
    t->plan->error = "the built-in model was asked to fail";
    return true;
}

static bool rule_greeting(struct rules_talk *t)
{
    if (!SAYS(&t->said, "hello", "hi", "hey", "good morning", "good evening", "hallo", "moin"))
        return false;
    struct buf name = {0};
    bool known = remember_name(t, &name);
    rules_say(t, known ? "Hello, **" : "Hello");
    buf_putstr(&t->plan->answer, buf_str(&name));
    rules_say(t, known ? "**! " : "! ");
    rules_say(t, stand_in);
    rules_say(t, "\n\n");
    rules_say(t, what_i_can);
    buf_done(&name);
    return true;
}

static bool rule_else(struct rules_talk *t)
{
    rules_say(t, stand_in);
    rules_say(t, " You wrote:\n\n> ");
    quote(&t->plan->answer, buf_str(&t->said));
    rules_say(t, "\n\n");
    rules_say(t, what_i_can);
    return true;
}

static void think(struct rules_talk *t)
{
    static const char *const steps[] = {
        "Does it ask for a failure, a count, or words? ",
        "Does it tell or ask a name, or what was said before? ",
        "Is there arithmetic in it, or a question about the time? ",
        "Is it a greeting? ",
        "The first rule that fits will answer; none of this is a language model. ",
    };
    size_t chars = 0;
    for (size_t at = 0; at < t->said.len; chars++)
        at += utf8_chars((struct str){t->said.bytes + at, t->said.len - at}, 1);
    buf_putf(&t->plan->thinking, "The message has %zu characters. I go through my rules. ", chars);
    for (size_t i = 0; i < countof(steps); i++)
        buf_puts(&t->plan->thinking, steps[i]);
}

static void answer_user(struct rules_talk *t)
{
    static bool (*const rules[])(struct rules_talk *) = {
        rule_fail,   rule_count, rule_repeat,   rule_name,
        rule_before, rule_tools, rule_greeting, rule_else,
    };
    if (t->plan->answer.len)
        rules_say(t, "\n\n");
    if (SAYS(&t->said, "think"))
        think(t);
    for (size_t i = 0; i < countof(rules); i++)
        if (rules[i](t))
            return;
}

bool rules_answer(const struct model_request *request, struct rules_plan *ret)
{
    struct rules_talk t = {.plan = ret};
    *ret = (struct rules_plan){0};
    bool good = js_parse(&t.doc, request->messages.p, request->messages.n, JS_AGENT) &&
                js_type(&t.doc, 0) == JS_ARRAY &&
                js_parse(&t.tools, request->tools.p, request->tools.n, JS_AGENT) &&
                js_type(&t.tools, 0) == JS_ARRAY;
    if (good) {
        look(&t);
        ret->first_call = t.n_results + 1;
        ret->slow = SAYS(&t.said, "slow", "slowly");
        answer_results(&t);
        if (t.ends_with_user || !t.unanswered)
            answer_user(&t);
    }
    buf_done(&t.said);
    js_done(&t.doc);
    js_done(&t.tools);
    return good;
}

void rules_plan_done(struct rules_plan *plan)
{
    buf_done(&plan->thinking);
    buf_done(&plan->answer);
    for (size_t i = 0; i < plan->n_calls; i++)
        buf_done(&plan->calls[i].arguments);
    *plan = (struct rules_plan){0};
}
