#include "gateway/processes/terminal_text.h"

#include <stdlib.h>

#include "proto/js_scan.h"

/* Design
 *
 * Text is appended as it comes.  When the cursor moves back in a line (a carriage return without a
 * newline, a backspace, a cursor sequence), the line moves from the text into cells, one for each
 * character, where it is overwritten; the newline moves it back.  So a line costs its length,
 * however often it is overwritten. */

#define ESCAPE 0x1b
#define BELL 0x07
#define BACKSPACE 0x08
#define DELETE 0x7f
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static bool is_between(unsigned char c, unsigned char from, unsigned char to)
{
    return c >= from && c <= to;
}

/* ECMA-48: a string runs to ST (ESC \) or, in xterm, to BEL. */
static size_t string_length(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == BELL)
            return i + 1;
        if (text.p[i] == ESCAPE)
            return i + 1 < text.n && text.p[i + 1] == '\\' ? i + 2 : i;
        if (text.p[i] == '\n') /* not a string: output of a program, not of a terminal's driver */
            return i;
    }
    return text.n;
}

struct screen {
    struct buf *out;
    size_t line; /* where the line begins in out */
    bool edited; /* the line is in cells */
    uint32_t *cells;
    size_t n, cap, at; /* at: the cursor */
};

/* --- the line --------------------------------------------------------------------------------- */

static void put_cell(struct screen *s, uint32_t point)
{
    if (s->at == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 256;
        s->cells = xrealloc(s->cells, s->cap * sizeof *s->cells);
    }
    s->cells[s->at++] = point;
    if (s->at > s->n)
        s->n = s->at;
}

static void put_run(struct screen *s, struct str text)
{
    if (!s->edited) {
        buf_putstr(s->out, text);
        return;
    }
    for (size_t i = 0; i < text.n;) {
        uint32_t point;
        i += utf8_step(text.p + i, text.n - i, &point);
        put_cell(s, point);
    }
}

static void edit(struct screen *s)
{
    if (s->edited)
        return;
    s->edited = true;
    s->at = s->n = 0;
    put_run(s, (struct str){s->out->bytes ? s->out->bytes + s->line : "", s->out->len - s->line});
    s->out->len = s->line;
}

static void end_line(struct screen *s)
{
    for (size_t i = 0; s->edited && i < s->n; i++) {
        char bytes[4];
        buf_put(s->out, bytes, utf8_encode(s->cells[i], bytes));
    }
    s->edited = false;
}

static void go_to(struct screen *s, size_t column)
{
    edit(s);
    s->at = column < s->n ? column : s->n;
}

static void go_back(struct screen *s, size_t columns)
{
    edit(s);
    s->at -= columns < s->at ? columns : s->at;
}

/* Removes everything from that column on. */
static void cut_line(struct screen *s, size_t column)
{
    go_to(s, column);
    s->n = s->at;
}

/* --- sequences -------------------------------------------------------------------------------- */

/* The length of the sequence at the text's beginning, ESC included. */
static size_t escape_length(struct str text)
{
    size_t i = 1;
    if (text.n < 2)
        return text.n;
    unsigned char kind = (unsigned char)text.p[i++];
    if (kind == '[') {
        while (i < text.n && is_between((unsigned char)text.p[i], 0x20, 0x3f))
            i++;
        return i < text.n && is_between((unsigned char)text.p[i], 0x40, 0x7e) ? i + 1 : i;
    }
    if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_')
        return i + string_length((struct str){text.p + i, text.n - i});
    if (!is_between(kind, 0x20, 0x2f))
        return is_between(kind, 0x30, 0x7e) ? i : 1;
    while (i < text.n && is_between((unsigned char)text.p[i], 0x20, 0x2f))
        i++;
    return i < text.n ? i + 1 : i;
}

/* Sequences that overwrite a line: the cursor's columns, and those that erase to its end or all of
 * it (then the cursor goes to its beginning, where programs send it anyway).  All others change
 * nothing. */
static void obey(struct screen *s, struct str sequence)
{
    size_t n = 0, i = 2;
    if (sequence.n < 3 || sequence.p[1] != '[')
        return;
    for (;
         i < sequence.n && is_between((unsigned char)sequence.p[i], '0', '9') && n < SIZE_MAX / 100;
         i++)
        n = 10 * n + (size_t)(sequence.p[i] - '0');
    if (i + 1 != sequence.n)
        return;
    switch (sequence.p[i]) {
    case 'C':
        if (s->edited) /* otherwise it is at the end */
            go_to(s, s->at + (n ? n : 1));
        break;
    case 'D': go_back(s, n ? n : 1); break;
    case 'G': go_to(s, n ? n - 1 : 0); break;
    case 'K':
        if (n == 0 && s->edited)
            cut_line(s, s->at);
        else if (n == 2)
            cut_line(s, 0);
        break;
    }
}

/* --- characters ------------------------------------------------------------------------------- */

/* How many bytes at the end begin an incomplete character; 0 to 3. */
static size_t unfinished(struct str text)
{
    for (size_t back = 1; back <= 3 && back <= text.n; back++) {
        unsigned char c = (unsigned char)text.p[text.n - back];
        if (c < 0x80)
            return 0;
        if (c >= 0xc0) {
            size_t wants = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
            return wants > back ? back : 0;
        }
    }
    return 0;
}

static void put_control(struct screen *s, char c)
{
    switch (c) {
    case '\n':
        end_line(s);
        buf_putc(s->out, c);
        s->line = s->out->len;
        break;
    case '\r': go_to(s, 0); break;
    case BACKSPACE: go_back(s, 1); break;
    case '\t': put_run(s, STR("\t")); break;
    case BELL:
    case DELETE: break;
    default: put_run(s, STR(REPLACEMENT)); break;
    }
}

/* How many bytes need no processing, as far as a quick check can tell. */
static size_t plain_run(struct str text)
{
    size_t n = clean_run(text.p, text.n);
    const char *delete = n ? memchr(text.p, DELETE, n) : NULL;
    return delete ? (size_t)(delete - text.p) : n;
}

/* Carriage returns before a newline: many programs end lines like this. */
static size_t line_end(struct str text)
{
    size_t n = 0;
    while (n < text.n && text.p[n] == '\r')
        n++;
    return n < text.n && text.p[n] == '\n' ? n : 0;
}

/* Handles the text's beginning; returns how many bytes it took. */
static size_t put_next(struct screen *s, struct str text)
{
    unsigned char c = (unsigned char)text.p[0];
    size_t n = plain_run(text);
    if (n) {
        put_run(s, (struct str){text.p, n});
    } else if (c == ESCAPE) {
        n = escape_length(text);
        obey(s, (struct str){text.p, n});
    } else if (c < 0x20 || c == DELETE) {
        n = c == '\r' ? line_end(text) : 0;
        if (n == 0) {
            put_control(s, text.p[0]);
            n = 1;
        }
    } else {
        uint32_t point;
        n = utf8_step(text.p, text.n, &point);
        put_run(s, point == UTF8_BROKEN ? STR(REPLACEMENT) : (struct str){text.p, n});
    }
    return n;
}

void terminal_text(struct str bytes, bool cut, bool ended, struct buf *out)
{
    struct screen screen = {.out = out, .line = out->len};
    size_t at = 0;
    if (!ended)
        bytes.n -= unfinished(bytes);
    while (cut && at < 3 && at < bytes.n && ((unsigned char)bytes.p[at] & 0xc0) == 0x80)
        at++;
    while (at < bytes.n)
        at += put_next(&screen, (struct str){bytes.p + at, bytes.n - at});
    end_line(&screen);
    free(screen.cells);
}
