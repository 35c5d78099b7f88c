#include "gateway/cli/chat_edit.h"

#include <locale.h>
#include <stdlib.h>
#include <wchar.h>

#include "proto/utf8.h"

#define ESCAPE '\033'
#define NEWLINE "\u21b5" /* how one within the line is drawn */
#define JOINER 0x200d    /* ZERO WIDTH JOINER */
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

static uint32_t code_at(struct str line, size_t at)
{
    uint32_t code;
    utf8_step(line.p + at, line.n - at, &code);
    return code;
}

static size_t code_after(struct str line, size_t at)
{
    uint32_t code;
    return at + utf8_step(line.p + at, line.n - at, &code);
}

/* The C library's, for any locale of the user's. */
size_t chat_edit_columns(uint32_t code)
{
    static locale_t utf8;
    if (!utf8)
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8)
        return 1;
    locale_t before = uselocale(utf8);
    int columns = wcwidth((wchar_t)code);
    uselocale(before);
    return columns < 0 ? 1 : (size_t)columns;
}

static size_t columns_between(struct str line, size_t from, size_t to)
{
    size_t columns = 0;
    for (; from < to; from = code_after(line, from))
        columns += chat_edit_columns(code_at(line, from));
    return columns;
}

static bool is_regional(uint32_t code)
{
    return code >= 0x1f1e6 && code <= 0x1f1ff;
}

/* One character to a person: a letter with its accents, a flag, a family of emoji (the common cases
 * of Unicode's UAX #29). */
static size_t char_after(struct str line, size_t at)
{
    uint32_t first, last, next;
    if (at >= line.n)
        return at;
    first = last = code_at(line, at);
    for (at = code_after(line, at); at < line.n; at = code_after(line, at), last = next) {
        next = code_at(line, at);
        bool is_second = is_regional(first) && is_regional(next) && last == first;
        bool is_tone = next >= 0x1f3fb && next <= 0x1f3ff;
        bool is_mark = next >= 0x300 && chat_edit_columns(next) == 0;
        if (is_second)
            return code_after(line, at);
        if (last != JOINER && !is_tone && !is_mark)
            return at;
    }
    return at;
}

static size_t char_before(struct str line, size_t at)
{
    size_t before = 0;
    for (size_t next = 0; next < at; next = char_after(line, next))
        before = next;
    return before;
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

/* For Ctrl-Y. */
static void cut(struct chat_edit *e, size_t from, size_t to)
{
    if (from >= to)
        return;
    buf_clear(&e->cut);
    buf_put(&e->cut, e->line.bytes + from, to - from);
    erase(e, from, to);
}

static bool is_gap(char byte)
{
    return byte == ' ' || byte == '\n';
}

static size_t word_before(const struct chat_edit *e)
{
    size_t at = e->at;
    while (at > 0 && is_gap(e->line.bytes[at - 1]))
        at--;
    while (at > 0 && !is_gap(e->line.bytes[at - 1]))
        at--;
    return at;
}

static size_t word_after(const struct chat_edit *e)
{
    size_t at = e->at;
    while (at < e->line.len && is_gap(e->line.bytes[at]))
        at++;
    while (at < e->line.len && !is_gap(e->line.bytes[at]))
        at++;
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
    case CTRL('K'): cut(e, e->at, line.n); break;
    case CTRL('U'): cut(e, 0, e->at); break;
    case CTRL('W'): cut(e, word_before(e), e->at); break;
    case CTRL('Y'): chat_edit_insert(e, buf_str(&e->cut)); break;
    case '\r':
    case '\n': return EDIT_LINE;
    default:
        if ((unsigned char)key >= ' ')
            chat_edit_insert(e, (struct str){&key, 1});
    }
    return EDIT_MORE;
}

static void to_word_before(struct chat_edit *e)
{
    e->at = word_before(e);
}

static void to_word_after(struct chat_edit *e)
{
    e->at = word_after(e);
}

static void cut_word_before(struct chat_edit *e)
{
    cut(e, word_before(e), e->at);
}

static void cut_word_after(struct chat_edit *e)
{
    cut(e, e->at, word_after(e));
}

static void break_line(struct chat_edit *e)
{
    chat_edit_insert(e, STR("\n"));
}

/* With Alt, or with Ctrl and an arrow.  False for other keys. */
static bool press_word(struct chat_edit *e, struct str sequence)
{
    static const struct {
        const char *bytes;
        void (*press)(struct chat_edit *e);
    } keys[] = {{"b", to_word_before},     {"[1;5D", to_word_before}, {"[1;3D", to_word_before},
                {"f", to_word_after},      {"[1;5C", to_word_after},  {"[1;3C", to_word_after},
                {"\x7f", cut_word_before}, {"\b", cut_word_before},   {"d", cut_word_after},
                {"[3;5~", cut_word_after}, {"\n", break_line},        {"\r", break_line}};
    for (size_t i = 0; i < countof(keys); i++)
        if (str_eq(sequence, str_of(keys[i].bytes))) {
            keys[i].press(e);
            return true;
        }
    return false;
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
    if (e->in_paste || press_word(e, sequence))
        return EDIT_MORE;
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

bool chat_edit_is_between(const struct chat_edit *e)
{
    return e->key.len == 0 && !e->in_paste;
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
    for (size_t before = columns_between(line, 0, e->at), next; before > room; from = next) {
        next = char_after(line, from);
        before -= columns_between(line, from, next);
    }
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
    buf_done(&e->cut);
}
