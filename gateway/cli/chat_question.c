#include "gateway/cli/chat_question.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "proto/str.h"
#include "proto/utf8.h"

/* --- what is shown ---------------------------------------------------------------------------- */

/* Unicode's Bidi_Control (UAX #9): what turns the direction of a text around. */
static bool is_turn(uint32_t code)
{
    return code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

static void put_plainly(struct str text, struct buf *out)
{
    uint32_t code;
    for (size_t i = 0, n; i < text.n; i += n) {
        n = utf8_step(text.p + i, text.n - i, &code);
        if (is_turn(code))
            buf_putf(out, "\\u%04x", code);
        else
            buf_put(out, text.p + i, n);
    }
}

/* A member's string as it is; nothing for anything else. */
static struct buf string_member(const struct js_doc *doc, uint32_t object, const char *key)
{
    struct buf value = {0};
    uint32_t node = js_get(doc, object, key);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, &value);
    return value;
}

/* The same without what turns it around. */
static struct buf plain_member(const struct js_doc *doc, uint32_t object, const char *key)
{
    struct buf value = string_member(doc, object, key), plain = {0};
    put_plainly(buf_str(&value), &plain);
    buf_done(&value);
    return plain;
}

/* Puts what is to be approved, unless the prompt has it: a lone command, or all arguments. */
static void put_action(const struct js_doc *doc, uint32_t data, struct str prompt, struct buf *out)
{
    uint32_t given = js_get(doc, data, "arguments");
    struct buf action = {0}, raw = {0};
    if (given && js_type(doc, given) == JS_OBJECT && doc->nodes[given].kids == 2) /* one member */
        action = plain_member(doc, given, "command");
    if (given && action.len == 0) {
        js_copy(doc, given, &raw);
        put_plainly(buf_str(&raw), &action);
    }
    if (action.len > 0 && !memmem(prompt.p, prompt.n, action.bytes, action.len)) {
        buf_puts(out, "\n  ");
        buf_putstr(out, buf_str(&action));
    }
    buf_done(&action);
    buf_done(&raw);
}

/* --- choices ---------------------------------------------------------------------------------- */

/* A choice is a text, or an object with an id and perhaps a name. */
static void add_choice(struct chat_question *its, const struct js_doc *doc, uint32_t node)
{
    struct buf id = {0}, name = {0};
    if (its->n_choices == CHAT_CHOICES)
        return;
    if (js_type(doc, node) == JS_STRING) {
        js_value(doc, node, &id);
    } else if (js_type(doc, node) == JS_OBJECT) {
        id = string_member(doc, node, "id");
        name = plain_member(doc, node, "name");
    }
    if (id.len > 0) {
        if (name.len == 0)
            put_plainly(buf_str(&id), &name);
        its->choices[its->n_choices].id = xstrdup(buf_str(&id));
        its->choices[its->n_choices++].name = xstrdup(buf_str(&name));
    }
    buf_done(&id);
    buf_done(&name);
}

static void add_choices(struct chat_question *its, const struct js_doc *doc, uint32_t data,
                        struct buf *text)
{
    uint32_t options = js_get(doc, data, "options");
    if (!options || js_type(doc, options) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, options); i < js_end(doc, options); i = js_next(doc, i))
        add_choice(its, doc, i);
    for (size_t i = 0; i < its->n_choices; i++)
        buf_putf(text, "\n  %zu) %s", i + 1, its->choices[i].name);
}

/* --- the row of questions --------------------------------------------------------------------- */

/* The oldest with an answer on its way, or without; n for none. */
static size_t oldest(const struct chat_questions *q, bool is_sent)
{
    size_t at = 0;
    while (at < q->n && q->all[at].is_sent != is_sent)
        at++;
    return at;
}

static char *copy_of(const struct buf *text)
{
    return xstrdup(text->len ? buf_str(text) : STR(""));
}

bool chat_question_add(struct chat_questions *q, const struct js_doc *doc, uint32_t data)
{
    struct chat_question its = {0};
    struct buf id = string_member(doc, data, "input_id"), text = {0};
    struct buf prompt = plain_member(doc, data, "prompt"), tool = plain_member(doc, data, "tool");
    uint32_t kind = js_get(doc, data, "kind");
    bool has_budget = kind && js_is(doc, kind, "budget");
    its.is_approval = has_budget || (kind && js_is(doc, kind, "approval"));
    its.id = copy_of(&id);
    buf_putstr(&text, buf_str(&tool));
    buf_puts(&text, tool.len ? ": " : "");
    buf_putstr(&text, buf_str(&prompt));
    if (its.is_approval && !has_budget)
        put_action(doc, data, buf_str(&prompt), &text);
    if (!has_budget)
        add_choices(&its, doc, data, &text);
    its.text = copy_of(&text);
    buf_done(&id);
    buf_done(&text);
    buf_done(&prompt);
    buf_done(&tool);
    q->all = xrealloc(q->all, (q->n + 1) * sizeof *q->all);
    q->all[q->n++] = its;
    return oldest(q, false) == q->n - 1;
}

static void drop(struct chat_question *its)
{
    free(its->id);
    free(its->text);
    for (size_t i = 0; i < its->n_choices; i++) {
        free(its->choices[i].id);
        free(its->choices[i].name);
    }
}

static void drop_at(struct chat_questions *q, size_t at)
{
    drop(&q->all[at]);
    memmove(&q->all[at], &q->all[at + 1], (q->n - at - 1) * sizeof *q->all);
    q->n--;
}

bool chat_question_close(struct chat_questions *q, struct str id)
{
    size_t at = 0;
    while (at < q->n && !str_eq(str_of(q->all[at].id), id))
        at++;
    bool is_asked = at == oldest(q, false);
    if (at == q->n)
        return false;
    drop_at(q, at);
    return is_asked;
}

const struct chat_question *chat_question_asked(const struct chat_questions *q)
{
    size_t at = oldest(q, false);
    return at < q->n ? &q->all[at] : NULL;
}

void chat_question_sent(struct chat_questions *q)
{
    size_t at = oldest(q, false);
    ASSERT(at < q->n);
    q->all[at].is_sent = true;
}

bool chat_question_refused(struct chat_questions *q, bool again)
{
    size_t at = oldest(q, true);
    if (at == q->n)
        return false;
    q->all[at].is_sent = false;
    if (!again)
        drop_at(q, at);
    return true;
}

void chat_question_clear(struct chat_questions *q)
{
    for (size_t i = 0; i < q->n; i++)
        drop(&q->all[i]);
    free(q->all);
    *q = (struct chat_questions){0};
}

/* --- the answer ------------------------------------------------------------------------------- */

static bool is_number(const char *word, size_t number)
{
    char *end;
    return *word >= '1' && *word <= '9' && strtoul(word, &end, 10) == number && !*end;
}

/* The id of the choice that was typed, by its number or its name; NULL for none. */
static const char *chosen(const struct chat_question *its, const char *word)
{
    for (size_t i = 0; i < its->n_choices; i++)
        if (is_number(word, i + 1) || strcasecmp(word, its->choices[i].name) == 0)
            return its->choices[i].id;
    return NULL;
}

void chat_question_put_answer(const struct chat_question *its, struct str typed,
                              struct buf *request)
{
    char *word = xstrdup(str_trim(typed.p ? typed : STR("")));
    const char *id = chosen(its, word);
    if (id)
        js_put_field(request, "answer", str_of(id));
    else if (its->is_approval)
        js_put_bool(request, "answer", *word == 'y' || *word == 'Y');
    else
        js_put_field(request, "answer", typed);
    free(word);
}

void chat_question_prompt(const struct chat_question *its, char ret[CHAT_QUESTION_PROMPT])
{
    if (its->is_approval && its->n_choices > 0)
        snprintf(ret, CHAT_QUESTION_PROMPT, "[y/N, 1-%zu] ", its->n_choices);
    else
        snprintf(ret, CHAT_QUESTION_PROMPT, "%s", its->is_approval ? "[y/N] " : "? ");
}
