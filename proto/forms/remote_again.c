#include "proto/forms/remote_again.h"

#include <stddef.h>
#include <stdlib.h>

#include "proto/str.h"

/* --- notes ------------------------------------------------------------------------------------ */

/* The texts of a turn; those that are for answers alone are noted only while these are awaited. */
static const struct {
    const char *name;
    size_t at;
    bool for_answers;
} again_texts[] = {
#define TEXT(member, for_answers)                             \
    {                                                         \
#member, offsetof(struct remote, member), for_answers \
    }
    TEXT(session, false), TEXT(peer_id, false), TEXT(last_id, false), TEXT(answer, true),
    TEXT(result, true),   TEXT(kept, true),     TEXT(pending, true),  TEXT(peer_state, true),
#undef TEXT
};

static const struct {
    const char *name;
    size_t at;
} again_flags[] = {
#define FLAG(member)                             \
    {                                            \
#member, offsetof(struct remote, member) \
    }
    FLAG(answer_cut), FLAG(has_said), FLAG(has_usage),   FLAG(is_old),
    FLAG(is_plain),   FLAG(kept_cut), FLAG(kept_is_all),
#undef FLAG
};

#define AT(r, type, offset) ((type *)(void *)((char *)(r) + (offset)))
#define AT_CONST(r, type, offset) ((const type *)(const void *)((const char *)(r) + (offset)))

bool remote_is_notable(const struct remote *r)
{
    bool goes_on = r->state == REMOTE_WORKS && r->form->again && r->peer_id.len;
    return r->state == REMOTE_ASKS || (goes_on && !r->request.wanted);
}

static void put_parts_note(const struct remote *r, struct buf *out)
{
    js_put_raw(out, "parts", STR("["));
    for (size_t i = 0; i < r->parts.n; i++) {
        const struct remote_part *part = &r->parts.list[i];
        buf_puts(out, i ? ",[" : "[");
        js_put_str(out, str_of(part->id));
        buf_putc(out, ',');
        js_put_str(out, str_of(part->name ? part->name : ""));
        buf_putc(out, ',');
        js_put_str(out, buf_str(&part->text));
        buf_putc(out, ']');
    }
    buf_putc(out, ']');
}

static void put_questions_note(const struct remote *r, struct buf *out)
{
    js_put_raw(out, "questions", STR("["));
    for (size_t i = 0; i < r->n_questions; i++) {
        buf_putf(out, "%s[%u,", i ? "," : "", r->questions[i].number);
        js_put_str(out, buf_str(&r->questions[i].about));
        buf_putc(out, ']');
    }
    buf_putc(out, ']');
}

void remote_put_note(const struct remote *r, struct buf *out)
{
    bool waits = r->state == REMOTE_ASKS;
    buf_putc(out, '{');
    js_put_int(out, "step", r->step);
    js_put_int(out, "posted", r->posted);
    js_put_int(out, "n_items", r->n_items);
    js_put_int(out, "tokens_in", r->tokens_in);
    js_put_int(out, "tokens_out", r->tokens_out);
    for (size_t i = 0; i < countof(again_texts); i++) {
        const struct buf *text = AT_CONST(r, struct buf, again_texts[i].at);
        if (text->len && (waits || !again_texts[i].for_answers))
            js_put_field(out, again_texts[i].name, buf_str(text));
    }
    for (size_t i = 0; i < countof(again_flags); i++)
        if (*AT_CONST(r, bool, again_flags[i].at))
            js_put_bool(out, again_flags[i].name, true);
    if (waits || r->form->by_place)
        put_parts_note(r, out);
    if (waits)
        put_questions_note(r, out);
    buf_putc(out, '}');
}

/* --- the past --------------------------------------------------------------------------------- */

static bool small_number(const struct js_doc *doc, uint32_t node, unsigned *ret)
{
    int64_t n;
    if (!node || !js_int(doc, node, &n) || n < 0 || n > INT32_MAX)
        return false;
    *ret = (unsigned)n;
    return true;
}

bool remote_past_note(struct remote_past *p, struct str note)
{
    struct js_doc *doc = &p->doc;
    if (!js_parse(doc, note.p, note.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return false;
    uint32_t list = js_get(doc, 0, "questions");
    for (size_t i = 0; i < p->n_questions; i++)
        buf_done(&p->questions[i].answer);
    p->n_questions = 0;
    p->waits = list != 0;
    if (list && js_type(doc, list) != JS_ARRAY)
        return false;
    for (uint32_t i = list ? js_first(doc, list) : 0; list && i < js_end(doc, list);
         i = js_next(doc, i)) {
        struct remote_past_question q = {0};
        if (p->n_questions == REMOTE_QUESTIONS || js_type(doc, i) != JS_ARRAY ||
            doc->nodes[i].kids != 2 || !small_number(doc, i + 1, &q.number) ||
            js_type(doc, i + 2) != JS_STRING)
            return false;
        p->questions[p->n_questions++] = q;
    }
    buf_clear(&p->note);
    buf_putstr(&p->note, note);
    return true;
}

/* ask-NUMBER in the event's member; 0: it is another question, or none. */
static unsigned past_number(struct remote_past *p)
{
    struct str id = say_text(&p->doc, js_get(&p->doc, 0, "input_id"), &p->text);
    return str_begins(id, STR("ask-")) ? (unsigned)strtoul(p->text.bytes + 4, NULL, 10) : 0;
}

static void past_asked(struct remote_past *p)
{
    unsigned n = past_number(p);
    p->asked = n > p->asked ? n : p->asked;
    if (n && p->n_open < REMOTE_QUESTIONS)
        p->open[p->n_open++] = n;
}

static void past_answered(struct remote_past *p)
{
    unsigned n = past_number(p);
    uint32_t answer = js_get(&p->doc, 0, "answer");
    for (size_t i = 0; i < p->n_open; i++)
        if (p->open[i] == n)
            p->open[i--] = p->open[--p->n_open];
    for (size_t i = 0; answer && i < p->n_questions; i++) {
        struct buf *to = &p->questions[i].answer;
        if (p->questions[i].number == n && to->len == 0)
            js_copy(&p->doc, answer, to);
    }
}

/* Calls that are open: a result names its tool, which only the call said. */
static void past_call(struct remote_past *p, bool begins)
{
    struct buf out = {0}, id = {0};
    (void)say_text(&p->doc, js_get(&p->doc, 0, "call_id"), &id);
    struct str name = say_text(&p->doc, js_get(&p->doc, 0, "name"), &p->text);
    if (begins)
        say_call(&out, &p->calls, &(struct say_tool){.id = buf_str(&id), .name = name});
    else
        say_called(&out, &p->calls, buf_str(&id), STR(""), false);
    buf_done(&out);
    buf_done(&id);
}

static bool past_awaits(const struct remote_past *p)
{
    for (size_t i = 0; i < p->n_questions; i++)
        if (p->questions[i].answer.len == 0)
            return true;
    return false;
}

bool remote_past_event(struct remote_past *p, enum remote_kind kind,
                       const struct event_parts *event)
{
    bool stays = p->note.len && (p->waits ? past_awaits(p) : remote_form_of(kind)->by_place);
    bool counts = event->event == EVENT_INPUT_REQUIRED || event->event == EVENT_INPUT_RECEIVED ||
                  event->event == EVENT_TOOL_CALL || event->event == EVENT_TOOL_RESULT;
    if (!counts || !js_parse(&p->doc, event->data.p, event->data.n, JS_OURS) ||
        js_type(&p->doc, 0) != JS_OBJECT)
        return stays;
    if (event->event == EVENT_INPUT_REQUIRED)
        past_asked(p);
    else if (event->event == EVENT_INPUT_RECEIVED)
        past_answered(p);
    else
        past_call(p, event->event == EVENT_TOOL_CALL);
    return stays;
}

size_t remote_past_moot(const struct remote_past *p, unsigned ret[REMOTE_QUESTIONS])
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_open; i++) {
        bool is_awaited = false;
        for (size_t j = 0; j < p->n_questions; j++)
            is_awaited |= p->questions[j].number == p->open[i];
        if (!is_awaited)
            ret[n++] = p->open[i];
    }
    return n;
}

void remote_past_done(struct remote_past *p)
{
    buf_done(&p->note);
    buf_done(&p->text);
    for (size_t i = 0; i < p->n_questions; i++)
        buf_done(&p->questions[i].answer);
    p->n_questions = 0;
    say_calls_done(&p->calls);
    js_done(&p->doc);
}

/* --- going on --------------------------------------------------------------------------------- */

static void again_numbers(struct remote *r, const struct js_doc *doc)
{
    unsigned step = 0;
    if (small_number(doc, js_get(doc, 0, "step"), &step))
        r->step = (int)step;
    (void)!small_number(doc, js_get(doc, 0, "posted"), &r->posted);
    (void)!small_number(doc, js_get(doc, 0, "n_items"), &r->n_items);
    uint32_t in = js_get(doc, 0, "tokens_in"), out = js_get(doc, 0, "tokens_out");
    if (in && out && !(js_int(doc, in, &r->tokens_in) && js_int(doc, out, &r->tokens_out)))
        r->tokens_in = r->tokens_out = 0;
}

static void again_parts(struct remote *r, const struct js_doc *doc)
{
    uint32_t list = js_get(doc, 0, "parts");
    struct buf id = {0}, name = {0};
    for (uint32_t i = list && js_type(doc, list) == JS_ARRAY ? js_first(doc, list) : 0;
         i > 0 && i < js_end(doc, list); i = js_next(doc, i)) {
        if (js_type(doc, i) != JS_ARRAY || doc->nodes[i].kids != 3)
            continue;
        uint32_t at_name = js_next(doc, i + 1);
        struct remote_part *part = remote_part(&r->parts, say_text(doc, i + 1, &id));
        if (part && say_text(doc, at_name, &name).n) {
            free(part->name);
            part->name = xstrdup(buf_str(&name));
        }
        if (part)
            (void)say_text(doc, js_next(doc, at_name), &part->text);
    }
    buf_done(&id);
    buf_done(&name);
}

/* The numbers are the past's. */
static void again_questions(struct remote *r, const struct js_doc *doc, const struct remote_past *p)
{
    uint32_t at = p->n_questions ? js_first(doc, js_get(doc, 0, "questions")) : 0;
    for (size_t i = 0; i < p->n_questions; i++, at = js_next(doc, at)) {
        struct remote_question *q = &r->questions[r->n_questions++];
        *q = (struct remote_question){.number = p->questions[i].number};
        (void)say_text(doc, at + 2, &q->about);
        buf_putstr(&q->answer, buf_str(&p->questions[i].answer));
    }
}

static void again_from_note(struct remote *r, const struct remote_past *p)
{
    struct js_doc doc = {0};
    bool good = js_parse(&doc, p->note.bytes, p->note.len, JS_OURS);
    ASSERT(good); /* remote_past_note has read it */
    again_numbers(r, &doc);
    for (size_t i = 0; i < countof(again_texts); i++) {
        uint32_t node = js_get(&doc, 0, again_texts[i].name);
        if (node)
            (void)say_text(&doc, node, AT(r, struct buf, again_texts[i].at));
    }
    for (size_t i = 0; i < countof(again_flags); i++) {
        uint32_t node = js_get(&doc, 0, again_flags[i].name);
        *AT(r, bool, again_flags[i].at) = node && js_type(&doc, node) == JS_TRUE;
    }
    again_parts(r, &doc);
    again_questions(r, &doc, p);
    js_done(&doc);
}

void remote_begin_again(struct remote *r, enum remote_kind kind, const struct remote_turn *turn,
                        struct remote_past *p)
{
    remote_open(r, kind, turn);
    r->asked = p->asked;
    r->calls = p->calls;
    p->calls.n = 0;
    if (p->note.len)
        again_from_note(r, p);
    if (p->note.len && p->waits) {
        remote_wait(r);
    } else if (p->note.len && r->form->again && r->peer_id.len) {
        r->goes_on = true;
        r->form->again(r);
        r->request.again = false;
    } else {
        r->form->begin(r);
    }
    r->request.may_repeat = r->request.wanted; /* after_restart says so */
}
