#include "gateway/cli/chat_edit.h"

#include <stdlib.h>

#include "proto/utf8.h"

#define ESCAPE '\033'
#define NEWLINE "\u21b5" /* how one within the line is drawn */
#define CTRL(letter) ((letter)&0x1f)

/* --- characters ------------------------------------------------------------------------------- */

static bool is_inside(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static size_t bytes_of(unsigned char first)
{
    return first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

static size_t char_before(struct str line, size_t at)
{
    if (at > 0)
        at--;
    while (at > 0 && is_inside(line.p[at]))
        at--;
    return at;
}

static size_t char_after(struct str line, size_t at)
{
    uint32_t code;
    return at < line.n ? at + utf8_step(line.p + at, line.n - at, &code) : at;
}

static uint32_t code_at(struct str line, size_t at)
{
    uint32_t code;
    utf8_step(line.p + at, line.n - at, &code);
    return code;
}

/* East Asian ones and emoji take two. */
size_t chat_edit_columns(uint32_t code)
{
    static const struct {
        uint32_t from, to;
        size_t columns;
    } odd[] = {{0x300, 0x36f, 0},   {0x200b, 0x200f, 0},   {0x1100, 0x115f, 2},
               {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},
               {0xfe00, 0xfe0f, 0}, {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},
               {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < countof(odd); i++)
        if (code >= odd[i].from && code <= odd[i].to)
            return odd[i].columns;
    return 1;
}

static size_t columns_between(struct str line, size_t from, size_t to)
{
    size_t columns = 0;
    for (; from < to; from = char_after(line, from))
        columns += chat_edit_columns(code_at(line, from));
    return columns;
}

/* --- the line --------------------------------------------------------------------------------- */

void chat_edit_insert(struct chat_edit *e, struct str text)
{
    size_t after = e->line.len - e->at;
    buf_putstr(&e->line, text);
    memmove(e->line.bytes + e->at + text.n, e->line.bytes + e->at, after);
    memcpy(e->line.bytes + e->at, text.p, text.n);
    e->at += text.n;
}

static void erase(struct chat_edit *e, size_t from, size_t to)
{
    if (from >= to)
        return;
    memmove(e->line.bytes + from, e->line.bytes + to, e->line.len - to);
    e->line.len -= to - from;
    e->at = from;
}

static size_t word_before(const struct chat_edit *e)
{
    size_t at = e->at;
    while (at > 0 && e->line.bytes[at - 1] == ' ')
        at--;
    while (at > 0 && e->line.bytes[at - 1] != ' ')
        at--;
    return at;
}

static void show_past(struct chat_edit *e, size_t which)
{
    if (e->shown == e->n_past) {
        buf_clear(&e->unsent);
        buf_putstr(&e->unsent, buf_str(&e->line));
    }
    buf_clear(&e->line);
    buf_putstr(&e->line, which == e->n_past ? buf_str(&e->unsent) : str_of(e->past[which]));
    e->at = e->line.len;
    e->shown = which;
}

/* --- keys ------------------------------------------------------------------------------------- */

static enum chat_edit_result press(struct chat_edit *e, char key)
{
    struct str line = buf_str(&e->line);
    switch (key) {
    case CTRL('A'): e->at = 0; break;
    case CTRL('E'): e->at = line.n; break;
    case CTRL('B'): e->at = char_before(line, e->at); break;
    case CTRL('F'): e->at = char_after(line, e->at); break;
    case CTRL('P'):
        if (e->shown > 0)
            show_past(e, e->shown - 1);
        break;
    case CTRL('N'):
        if (e->shown < e->n_past)
            show_past(e, e->shown + 1);
        break;
    case CTRL('H'):
    case 0x7f: erase(e, char_before(line, e->at), e->at); break;
    case CTRL('D'):
        if (line.n == 0)
            return EDIT_END;
        erase(e, e->at, char_after(line, e->at));
        break;
    case CTRL('K'): e->line.len = e->at; break;
    case CTRL('U'): erase(e, 0, e->at); break;
    case CTRL('W'): erase(e, word_before(e), e->at); break;
    case '\r':
    case '\n': return EDIT_LINE;
    default:
        if ((unsigned char)key >= ' ')
            chat_edit_insert(e, (struct str){&key, 1});
    }
    return EDIT_MORE;
}

/* A terminal's codes for a key, in both of its modes: ESC [ A, ESC O A, ESC [ 3 ~. */
static enum chat_edit_result press_sequence(struct chat_edit *e)
{
    static const struct {
        const char *bytes;
        char key;
    } keys[] = {{"[A", CTRL('P')},  {"[B", CTRL('N')},  {"[C", CTRL('F')},  {"[D", CTRL('B')},
                {"[H", CTRL('A')},  {"[F", CTRL('E')},  {"OA", CTRL('P')},  {"OB", CTRL('N')},
                {"OC", CTRL('F')},  {"OD", CTRL('B')},  {"OH", CTRL('A')},  {"OF", CTRL('E')},
                {"[1~", CTRL('A')}, {"[7~", CTRL('A')}, {"[4~", CTRL('E')}, {"[8~", CTRL('E')}};
    struct str sequence = {e->key.bytes + 1, e->key.len - 1};
    e->in_paste =
        str_eq(sequence, STR("[200~")) || (e->in_paste && !str_eq(sequence, STR("[201~")));
    if (str_eq(sequence, STR("[3~")) && e->line.len > 0)
        return press(e, CTRL('D'));
    for (size_t i = 0; i < countof(keys); i++)
        if (str_eq(sequence, str_of(keys[i].bytes)))
            return press(e, keys[i].key);
    return EDIT_MORE;
}

static bool is_whole(struct str key)
{
    char last = key.p[key.n - 1];
    if (key.p[0] != ESCAPE)
        return key.n == bytes_of((unsigned char)key.p[0]);
    if (key.n == 1 || (key.n == 2 && (last == '[' || last == 'O')))
        return false;
    return key.p[1] != '[' || (last >= 0x40 && last <= 0x7e) || key.n > 16;
}

enum chat_edit_result chat_edit_take(struct chat_edit *e, char byte)
{
    bool is_begun = e->key.len > 0;
    if (!is_begun && e->in_paste && byte != ESCAPE && (unsigned char)byte < ' ') {
        if (strchr("\r\n\t", byte) && byte)
            chat_edit_insert(e, byte == '\t' ? STR(" ") : STR("\n"));
        return EDIT_MORE;
    }
    if (!is_begun && byte != ESCAPE && (unsigned char)byte < 0xc2)
        return is_inside(byte) || (unsigned char)byte >= 0x80 ? EDIT_MORE : press(e, byte);
    if (is_begun && e->key.bytes[0] != ESCAPE && !is_inside(byte)) {
        buf_clear(&e->key); /* not UTF-8: the begun character is dropped */
        return chat_edit_take(e, byte);
    }
    buf_putc(&e->key, byte);
    struct str key = buf_str(&e->key);
    enum chat_edit_result result = EDIT_MORE;
    if (!is_whole(key))
        return result;
    if (key.p[0] == ESCAPE)
        result = press_sequence(e);
    else if (code_at(key, 0) >= 0xa0 && code_at(key, 0) != UTF8_BROKEN)
        chat_edit_insert(e, key);
    buf_clear(&e->key);
    return result;
}

void chat_edit_keep(struct chat_edit *e, struct str line)
{
    if (e->n_past == CHAT_EDIT_PAST) {
        free(e->past[0]);
        memmove(e->past, e->past + 1, --e->n_past * sizeof *e->past);
    }
    e->past[e->n_past++] = xstrdup(line);
    e->shown = e->n_past;
}

void chat_edit_clear(struct chat_edit *e)
{
    buf_clear(&e->line);
    buf_clear(&e->key);
    e->at = 0;
    e->shown = e->n_past;
}

bool chat_edit_next(struct chat_edit *e)
{
    struct str line = buf_str(&e->line);
    bool is_again = e->n_past > 0 && str_eq(line, str_of(e->past[e->n_past - 1]));
    bool is_kept = line.n > 0 && !is_again;
    if (is_kept)
        chat_edit_keep(e, line);
    chat_edit_clear(e);
    return is_kept;
}

/* --- the screen ------------------------------------------------------------------------------- */

void chat_edit_draw(const struct chat_edit *e, const char *prompt, size_t columns, struct buf *out)
{
    struct str line = buf_str(&e->line);
    size_t taken = columns_between(str_of(prompt), 0, strlen(prompt)), from = 0, to, room;
    room = columns > taken + 8 ? columns - taken - 1 : 8;
    while (columns_between(line, from, e->at) > room)
        from = char_after(line, from);
    for (to = from; to < line.n; to = char_after(line, to))
        if (columns_between(line, from, char_after(line, to)) > room)
            break;
    taken += columns_between(line, from, e->at);
    buf_putf(out, "\r%s", prompt);
    for (; from < to; from++)
        if (line.p[from] == '\n')
            buf_puts(out, NEWLINE);
        else
            buf_putc(out, line.p[from]);
    buf_puts(out, "\033[K\r");
    if (taken > 0)
        buf_putf(out, "\033[%zuC", taken);
}

void chat_edit_done(struct chat_edit *e)
{
    for (size_t i = 0; i < e->n_past; i++)
        free(e->past[i]);
    buf_done(&e->line);
    buf_done(&e->key);
    buf_done(&e->unsent);
}
