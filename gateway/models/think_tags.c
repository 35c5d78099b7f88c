#include "gateway/models/think_tags.h"

#include <stdio.h>

void think_tags_init(struct think_tags *t, const char *name)
{
    *t = (struct think_tags){.at_line_start = true};
    if (!name || !*name)
        return;
    snprintf(t->open, sizeof t->open, "<%s>", name);
    snprintf(t->close, sizeof t->close, "</%s>", name);
}

void think_tags_done(struct think_tags *t)
{
    buf_done(&t->swallowed);
    *t = (struct think_tags){0};
}

static bool is_space(char c)
{
    return (unsigned char)c <= ' ';
}

/* --- quotes in the answer --------------------------------------------------------------------- */

static void end_ticks(struct think_tags *t)
{
    if (t->ticks >= 3 && t->at_line_start)
        t->in_fence = !t->in_fence;
    else if (t->ticks && !t->in_fence)
        t->in_code = !t->in_code;
    t->at_line_start &= t->ticks == 0;
    t->ticks = 0;
}

static void note(struct think_tags *t, char c)
{
    t->before = c;
    if (c == '`') {
        t->ticks++;
        return;
    }
    end_ticks(t);
    if (c == '\n') {
        t->in_code = false;
        t->at_line_start = true;
    } else if (!is_space(c)) {
        t->at_line_start = false;
        t->answered = true;
    }
}

static bool is_quoted(struct think_tags *t)
{
    end_ticks(t);
    return t->in_fence || t->in_code || t->before == '"' || t->before == '\'';
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* A byte that belongs to no tag. */
static void put(struct think_tags *t, char c, struct buf *out)
{
    if (t->inside) {
        buf_putc(out, c);
        if (t->answered && t->swallowed.len < THINK_SWALLOWED)
            buf_putc(&t->swallowed, c);
        return;
    }
    if (t->saw_tag && !t->answered && is_space(c))
        return;
    note(t, c);
    buf_putc(out, c);
}

/* The possible tag was none. */
static void put_matched(struct think_tags *t, struct buf *out)
{
    const char *tag = t->closing ? t->close : t->open;
    size_t n = t->matched;
    t->matched = 0;
    for (size_t i = 0; i < n; i++)
        put(t, tag[i], out);
}

static void take_tag(struct think_tags *t, struct buf *out)
{
    if (t->closing && !t->inside && t->saw_tag) {
        put_matched(t, out); /* nothing is open that it could close */
        return;
    }
    t->matched = 0;
    if (t->closing && !t->inside) {
        t->unsaid = true;
        t->answered = false;
    }
    t->inside = !t->closing;
    t->saw_tag = true;
    buf_clear(&t->swallowed);
}

static void take(struct think_tags *t, char c, struct buf *out)
{
    if (t->matched == 1)
        t->closing = t->inside || c == '/';
    if (t->matched && (t->closing ? t->close : t->open)[t->matched] != c)
        put_matched(t, out);
    if (t->matched == 0 && (c != t->open[0] || !c || (!t->inside && is_quoted(t)))) {
        put(t, c, out);
        return;
    }
    t->matched++;
    if ((t->closing ? t->close : t->open)[t->matched] == '\0')
        take_tag(t, out);
}

/* --- runs ------------------------------------------------------------------------------------- */

enum think_run think_tags_next(struct think_tags *t, struct str *in, struct buf *out)
{
    if (t->unsaid) {
        t->unsaid = false;
        return THINK_UNSAID;
    }
    bool inside = t->inside;
    while (in->n && t->inside == inside && !t->unsaid) {
        take(t, in->p[0], out);
        *in = (struct str){in->p + 1, in->n - 1};
        if (t->inside != inside && out->len == 0)
            inside = t->inside;
    }
    if (out->len)
        return inside ? THINK_THOUGHT : THINK_ANSWER;
    return t->unsaid ? think_tags_next(t, in, out) : THINK_MORE;
}

enum think_run think_tags_end(struct think_tags *t, struct buf *out)
{
    put_matched(t, out);
    if (!t->inside || !t->answered)
        return out->len == 0 ? THINK_MORE : t->inside ? THINK_THOUGHT : THINK_ANSWER;
    t->inside = false;
    buf_clear(out);
    buf_puts(out, t->open);
    buf_putstr(out, buf_str(&t->swallowed));
    buf_clear(&t->swallowed);
    return THINK_ANSWER;
}
