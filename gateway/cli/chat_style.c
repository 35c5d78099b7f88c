#include "gateway/cli/chat_style.h"

enum { STYLE_CODE = 1, STYLE_BOLD = 2, STYLE_DIM = 4 };

static unsigned style_wanted(const struct chat_style *s)
{
    bool is_code = s->in_fence || s->is_fence || s->open_ticks > 0 || s->ticks > 0;
    return (is_code ? STYLE_CODE : 0U) | (s->is_heading || s->is_strong ? STYLE_BOLD : 0U) |
           (s->is_quote ? STYLE_DIM : 0U);
}

static void style_show(struct chat_style *s, unsigned wanted, struct buf *out)
{
    if (wanted == s->shown)
        return;
    if (s->shown)
        buf_puts(out, "\033[0m");
    if (wanted & STYLE_CODE)
        buf_puts(out, "\033[36m");
    if (wanted & STYLE_BOLD)
        buf_puts(out, "\033[1m");
    if (wanted & STYLE_DIM)
        buf_puts(out, "\033[2m");
    s->shown = wanted;
}

/* Whether there are three at the start of a line, which begin or end a block. */
static bool is_fence(const struct chat_style *s)
{
    return s->only_ticks && s->ticks == 3 && s->indent < 4;
}

/* A run of ` is over: it opens code, or closes code that as many have opened. */
static void end_ticks(struct chat_style *s)
{
    if (s->open_ticks == 0)
        s->open_ticks = s->ticks;
    else if (s->open_ticks == s->ticks)
        s->open_ticks = 0;
    s->ticks = 0;
}

/* Updates the styles for this byte, which is not a newline. */
static void style_step(struct chat_style *s, char c)
{
    if (!s->in_line && c == ' ') {
        s->indent++;
        return;
    }
    if (!s->in_line) {
        bool is_text = !s->in_fence && s->indent < 4;
        s->in_line = s->only_ticks = true;
        s->is_heading = is_text && c == '#';
        s->is_quote = is_text && c == '>';
    }
    if (c == '`') {
        s->ticks++;
        s->stars = 0;
        if (is_fence(s)) {
            s->is_fence = true;
            s->in_fence = !s->in_fence;
        }
        return;
    }
    s->only_ticks = false;
    if (s->in_fence || s->is_fence)
        return;
    if (s->ticks > 0)
        end_ticks(s);
    s->stars = c == '*' && s->open_ticks == 0 ? s->stars + 1 : 0;
}

void chat_style_put(struct chat_style *s, struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n') {
            style_show(s, 0, out);
            *s = (struct chat_style){.in_fence = s->in_fence};
        } else {
            style_step(s, text.p[i]);
            style_show(s, style_wanted(s), out);
        }
        buf_putc(out, text.p[i]);
        if (s->stars == 2) {
            s->is_strong = !s->is_strong;
            s->stars = 0;
        }
    }
}
