#include "gateway/processes/terminal_text.h"

#include "proto/js_scan.h"

#define ESCAPE 0x1b
#define BELL 0x07
#define BACKSPACE 0x08
#define DELETE 0x7f

static bool is_between(unsigned char c, unsigned char from, unsigned char to)
{
    return c >= from && c <= to;
}

/* ECMA-48: a string runs to ST (ESC \) or, as xterm has it, to BEL. */
static size_t string_length(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == BELL)
            return i + 1;
        if (text.p[i] == ESCAPE)
            return i + 1 < text.n && text.p[i + 1] == '\\' ? i + 2 : i;
        if (text.p[i] == '\n') /* it was none: output of a program, not of a terminal's driver */
            return i;
    }
    return text.n;
}

/* The length of the sequence that the text begins with, ESC included. */
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

/* How many bytes at the end begin a character that is not whole; 0 to 3. */
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

static void put_control(char c, struct buf *out)
{
    if (c == '\n' || c == '\t')
        buf_putc(out, c);
    else if (c != BELL && c != BACKSPACE && c != DELETE)
        buf_puts(out, "\xef\xbf\xbd");
}

/* How many bytes stand for themselves, as far as that is quick to see. */
static size_t plain_run(struct str text)
{
    size_t n = clean_run(text.p, text.n);
    const char *delete = n ? memchr(text.p, DELETE, n) : NULL;
    return delete ? (size_t)(delete - text.p) : n;
}

void terminal_text(struct str bytes, bool cut, bool ended, struct buf *out)
{
    size_t at = 0;
    if (!ended)
        bytes.n -= unfinished(bytes);
    while (cut && at < 3 && at < bytes.n && ((unsigned char)bytes.p[at] & 0xc0) == 0x80)
        at++;
    while (at < bytes.n) {
        struct str rest = {bytes.p + at, bytes.n - at};
        unsigned char c = (unsigned char)rest.p[0];
        size_t plain = plain_run(rest);
        if (plain) {
            buf_put(out, rest.p, plain);
            at += plain;
        } else if (c == ESCAPE) {
            at += escape_length(rest);
        } else if (c == '\r') {
            at += rest.n > 1 && rest.p[1] == '\n' ? 2 : 1;
            buf_putc(out, '\n');
        } else if (c < 0x20 || c == DELETE) {
            put_control(rest.p[0], out);
            at++;
        } else {
            uint32_t point;
            size_t n = utf8_step(rest.p, rest.n, &point);
            if (point == UTF8_BROKEN)
                buf_puts(out, "\xef\xbf\xbd");
            else
                buf_put(out, rest.p, n);
            at += n;
        }
    }
}
