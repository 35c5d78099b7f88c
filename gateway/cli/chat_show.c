#include "gateway/cli/chat_show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/js.h"
#include "proto/limits.h"

#define DIM "\033[2m"
#define PLAIN "\033[0m"

void chat_show_init(struct chat_show *show)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    *show = (struct chat_show){.out_is_terminal = isatty(STDOUT_FILENO),
                               .err_is_terminal = isatty(STDERR_FILENO)};
    show->has_colour =
        show->err_is_terminal && !(no_colour && *no_colour) && !(term && strcmp(term, "dumb") == 0);
}

void chat_show_done(struct chat_show *show)
{
    buf_done(&show->said);
}

/* C0 except newline and tab, DEL, and C1, which in UTF-8 is c2 80 to c2 9f. */
static void put_harmless(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        unsigned char next = i + 1 < text.n ? (unsigned char)text.p[i + 1] : 0;
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
            buf_putc(out, '?');
            i++;
        } else {
            buf_putc(out, (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? '?' : (char)c);
        }
    }
}

static void write_out(struct chat_show *show, struct str text, struct chat_style *style)
{
    struct buf harmless = {0}, styled = {0};
    if (text.n == 0)
        return;
    show->in_line = text.p[text.n - 1] != '\n';
    if (show->out_is_terminal) {
        put_harmless(&harmless, text);
        text = buf_str(&harmless);
    }
    if (style && show->out_is_terminal && show->has_colour) {
        chat_style_put(style, text, &styled);
        text = buf_str(&styled);
    }
    fwrite(text.p, 1, text.n, stdout);
    if (fflush(stdout) != 0)
        show->has_failed = true;
    buf_done(&harmless);
    buf_done(&styled);
}

/* Prints a piece of an answer, which is Markdown. */
static void print(struct chat_show *show, struct str text)
{
    write_out(show, text, &show->style);
}

static void end_thinking(struct chat_show *show)
{
    if (show->in_thinking)
        fputs(show->has_colour ? PLAIN "\n" : "\n", stderr);
    show->in_thinking = false;
}

void chat_show_end(struct chat_show *show)
{
    end_thinking(show);
    if (show->in_line)
        print(show, STR("\n"));
}

void chat_show_token(struct chat_show *show, struct str text)
{
    end_thinking(show);
    if (show->said.len + text.n <= 2 * MAX_OUTPUT)
        buf_putstr(&show->said, text);
    print(show, text);
}

void chat_show_thinking(struct chat_show *show, struct str text)
{
    struct buf harmless = {0};
    if (!show->err_is_terminal || text.n == 0)
        return;
    if (!show->in_thinking) {
        if (show->in_line && show->out_is_terminal)
            print(show, STR("\n"));
        fputs(show->has_colour ? DIM : "", stderr);
    }
    show->in_thinking = true;
    put_harmless(&harmless, text);
    fwrite(harmless.bytes, 1, harmless.len, stderr);
    buf_done(&harmless);
}

static struct str trimmed(struct str s)
{
    while (s.n && strchr(" \n\t\r", s.p[s.n - 1]))
        s.n--;
    while (s.n && strchr(" \n\t\r", s.p[0])) {
        s.p++;
        s.n--;
    }
    return s;
}

static bool ends_with(struct str whole, struct str end)
{
    return whole.n >= end.n && memcmp(whole.p + whole.n - end.n, end.p, end.n) == 0;
}

/* A client that joined in the middle has shown only the end of it. */
void chat_show_answer(struct chat_show *show, struct str output)
{
    struct str said = trimmed(buf_str(&show->said)), all = trimmed(output);
    if (all.n == 0 || ends_with(said, all) || (said.n && show->has_missed && ends_with(all, said)))
        return;
    chat_show_end(show);
    print(show, output);
}

/* The beginning of the answer may have been shown elsewhere: then nobody knows where to cut. */
void chat_show_withdraw(struct chat_show *show, size_t keep)
{
    size_t n = utf8_chars(buf_str(&show->said), keep);
    if (show->has_missed || n == show->said.len)
        return;
    chat_show_end(show);
    show->said.len = n;
}

void chat_show_row(struct chat_show *show, struct str line)
{
    write_out(show, line, NULL);
    write_out(show, STR("\n"), NULL);
}

void chat_show_aside(struct chat_show *show, const char *format, ...)
{
    char text[2048];
    struct buf harmless = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end_thinking(show);
    if (show->in_line && show->out_is_terminal)
        print(show, STR("\n"));
    put_harmless(&harmless, str_of(text));
    fprintf(stderr, "%s%s%s\n", show->has_colour ? DIM : "", harmless.bytes ? harmless.bytes : "",
            show->has_colour ? PLAIN : "");
    buf_done(&harmless);
}

void chat_show_prompt(struct chat_show *show, const char *text)
{
    end_thinking(show);
    show->style = (struct chat_style){0};
    fprintf(stderr, "%s", text);
}
