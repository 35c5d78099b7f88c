#include "gateway/cli/chat_show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gateway/cli/chat_edit.h"
#include "proto/js.h"
#include "proto/limits.h"
#include "proto/str.h"
#include "proto/utf8.h"

#define COLUMNS 80 /* when the terminal does not tell */
#define TAB 8
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
    buf_done(&show->footer);
}

/* --- the footer ------------------------------------------------------------------------------- */

/* In a line that goes on, the terminal itself keeps the place (DECSC): it alone knows how wide it
 * has drawn each character. */
#define SAVE_LINE "\033D\033[A\0337\r\n" /* a line below it exists then, even on the last row */
#define REMOVE "\r\033[J"
#define BACK "\0338"

size_t chat_show_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS;
}

static void lift(struct chat_show *show)
{
    if (!show->has_footer)
        return;
    show->has_footer = false;
    fputs(show->is_parted ? REMOVE BACK : REMOVE, stderr);
    if (!show->is_parted && show->in_thinking && show->has_colour)
        fputs(DIM, stderr);
}

void chat_show_settle(struct chat_show *show)
{
    bool is_open = show->in_thinking || (show->in_line && show->out_is_terminal);
    if (show->has_footer || show->footer.len == 0)
        return;
    if (is_open && show->column >= chat_show_columns()) {
        fputs("\r\n", stderr); /* a saved place at the margin would lose the character there */
        show->column = 0;
        show->is_filled = true;
    }
    show->is_parted = is_open && show->column > 0;
    fprintf(stderr, "%s%s%.*s", show->is_parted ? SAVE_LINE : "", show->has_colour ? PLAIN : "",
            (int)show->footer.len, show->footer.bytes);
    show->has_footer = true;
}

void chat_show_footer(struct chat_show *show, struct str drawing)
{
    if (drawing.n == 0)
        lift(show);
    buf_clear(&show->footer);
    buf_putstr(&show->footer, drawing);
    if (show->has_footer)
        fwrite(drawing.p, 1, drawing.n, stderr);
    else
        chat_show_settle(show);
}

/* Follows the text to the column where it ends. */
static void track(struct chat_show *show, struct str text)
{
    size_t columns = chat_show_columns();
    uint32_t code;
    for (size_t i = 0; i < text.n;) {
        i += utf8_step(text.p + i, text.n - i, &code);
        size_t n = code == '\t' ? TAB - show->column % TAB : chat_edit_columns(code);
        if (code == '\n')
            show->column = 0;
        else if (code == '\t')
            show->column = show->column + n < columns ? show->column + n : columns - 1;
        else
            show->column = show->column + n > columns ? n : show->column + n;
    }
}

/* Prepares the screen for text at its open line.  Returns the text without a newline that the
 * screen has already. */
static struct str make_way(struct chat_show *show, struct str text)
{
    lift(show);
    if (show->is_filled && text.n > 0 && text.p[0] == '\n')
        text = str_from(text, 1);
    show->is_filled = false;
    track(show, text);
    return text;
}

/* --- text ------------------------------------------------------------------------------------- */

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
        text = make_way(show, buf_str(&harmless));
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
    if (!show->in_thinking)
        return;
    struct str newline = make_way(show, STR("\n"));
    fprintf(stderr, "%s%.*s", show->has_colour ? PLAIN : "", (int)newline.n, newline.p);
    show->in_thinking = false;
}

void chat_show_end(struct chat_show *show)
{
    end_thinking(show);
    if (show->in_line)
        print(show, STR("\n"));
}

void chat_show_begin(struct chat_show *show)
{
    show->style = (struct chat_style){0};
    show->has_missed = false;
    buf_clear(&show->said);
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
        lift(show);
        fputs(show->has_colour ? DIM : "", stderr);
    }
    show->in_thinking = true;
    put_harmless(&harmless, text);
    text = make_way(show, buf_str(&harmless));
    fwrite(text.p, 1, text.n, stderr);
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

/* A line of its own on stderr. */
static void show_line(struct chat_show *show, const char *before, struct str text,
                      const char *after)
{
    struct buf harmless = {0};
    end_thinking(show);
    if (show->in_line && show->out_is_terminal)
        print(show, STR("\n"));
    lift(show);
    put_harmless(&harmless, text);
    fprintf(stderr, "%s%.*s%s\n", before, (int)harmless.len, harmless.len ? harmless.bytes : "",
            after);
    buf_done(&harmless);
}

void chat_show_aside(struct chat_show *show, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    ASSERT(vasprintf(&text, format, args) >= 0);
    va_end(args);
    show_line(show, show->has_colour ? DIM : "", str_of(text), show->has_colour ? PLAIN : "");
    free(text);
}

void chat_show_prompt(struct chat_show *show, const char *text)
{
    end_thinking(show);
    fprintf(stderr, "%s", text);
}

void chat_show_typed(struct chat_show *show, const char *prompt, struct str line)
{
    show_line(show, prompt, line, "");
}
