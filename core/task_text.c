/* Text of an agent, without the secrets of the configuration.
 *
 * A secret may be cut anywhere, so the end of a piece that may begin one waits for the next piece,
 * or for anything else that the agent says. */
#include <stdlib.h>

#include "core/secrets.h"
#include "core/task_parts.h"

struct held_text {
    struct buf thinking, token;
    bool noted; /* the notes have some of it */
};

static struct buf *held_of(struct task *t, enum event_type event)
{
    struct task_work *w = task_work(t);
    if (!w->held)
        w->held = xcalloc(sizeof *w->held);
    return event == EVENT_TOKEN ? &w->held->token : &w->held->thinking;
}

void task_free_text(struct task_work *w)
{
    if (!w->held)
        return;
    buf_done(&w->held->thinking);
    buf_done(&w->held->token);
    free(w->held);
    w->held = NULL;
}

static void text_say(struct task *t, enum event_type event, struct str data, struct str text)
{
    task_event(t, event, data);
    if (event == EVENT_TOKEN)
        said_token(&t->work->said, text);
}

/* Adds the members of an event's data besides its text. */
static void put_others(struct js_doc *doc, struct str data, struct buf *out)
{
    if (!data.n || !js_parse(doc, data.p, data.n, JS_OURS))
        return;
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i + 1)) {
        if (js_is(doc, i, "text"))
            continue;
        buf_putc(out, ',');
        js_copy(doc, i, out);
        buf_putc(out, ':');
        js_copy(doc, i + 1, out);
    }
}

/* data: the piece's own, for its other members; STR("") for none. */
static void say_hidden(struct task *t, enum event_type event, struct str data, struct str text)
{
    struct buf clean = {0}, out = {0};
    if (secrets_hide(t->hub->o.secrets, text, &clean))
        text = buf_str(&clean);
    buf_putc(&out, '{');
    js_put_field(&out, "text", text);
    put_others(&t->hub->doc, data, &out);
    buf_putc(&out, '}');
    text_say(t, event, buf_str(&out), text);
    buf_done(&out);
    buf_done(&clean);
}

static void say_held(struct task *t, enum event_type event)
{
    struct buf *held = held_of(t, event), text = *held;
    if (text.len == 0)
        return;
    *held = (struct buf){0};
    say_hidden(t, event, STR(""), buf_str(&text));
    buf_done(&text);
}

void task_say_held(struct task *t)
{
    if (!t->work || !t->work->held)
        return;
    say_held(t, EVENT_THINKING);
    say_held(t, EVENT_TOKEN);
}

void task_say_text(struct task *t, const struct agent_line *line)
{
    const struct secrets *s = t->hub->o.secrets;
    enum event_type other = line->event == EVENT_TOKEN ? EVENT_THINKING : EVENT_TOKEN;
    if (secrets_are_none(s)) {
        text_say(t, line->event, line->data, line->text);
        return;
    }
    say_held(t, other);
    struct buf *held = held_of(t, line->event), clean = {0};
    bool was_held = held->len > 0;
    buf_putstr(held, line->text);
    size_t tail = secrets_tail(s, buf_str(held));
    bool hides = was_held || tail || secrets_hide(s, buf_str(held), &clean);
    if (!hides) {
        text_say(t, line->event, line->data, line->text);
    } else if (held->len > tail) {
        struct str now = {held->bytes, held->len - tail};
        say_hidden(t, line->event, line->data, now);
    }
    buf_consume(held, held->len - tail);
    buf_done(&clean);
}

void task_note_held(struct task *t)
{
    struct held_text *held = t->work ? t->work->held : NULL;
    if (!held || !(held->noted || held->thinking.len || held->token.len))
        return;
    held->noted = held->thinking.len || held->token.len;
    task_note(t, NOTE_HELD_THINKING, buf_str(&held->thinking));
    task_note(t, NOTE_HELD_TOKEN, buf_str(&held->token));
}

void task_restore_held(struct task *t, uint64_t number, struct str bytes)
{
    struct buf *held = held_of(t, number == NOTE_HELD_TOKEN ? EVENT_TOKEN : EVENT_THINKING);
    buf_clear(held);
    buf_putstr(held, bytes);
    t->work->held->noted = true;
}

struct str task_held_token(const struct task *t)
{
    return t->work && t->work->held ? buf_str(&t->work->held->token) : STR("");
}

void task_drop_held(struct task *t)
{
    struct held_text *held = t->work->held;
    if (!held)
        return;
    buf_clear(&held->thinking);
    buf_clear(&held->token);
    task_note_held(t);
    task_free_text(t->work);
}

void task_event_hidden(struct task *t, enum event_type event, struct str data)
{
    struct buf clean = {0};
    bool hides = secrets_hide_json(t->hub->o.secrets, data, &clean);
    task_event(t, event, hides ? buf_str(&clean) : data);
    buf_done(&clean);
}

struct str task_hide(const struct hub *h, struct str text, struct buf *scratch)
{
    return text.p && secrets_hide(h->o.secrets, text, scratch) ? buf_str(scratch) : text;
}
