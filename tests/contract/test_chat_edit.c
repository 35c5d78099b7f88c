/* The line at the prompt of holdfast chat, and the light styles of an answer. */
#include "gateway/cli/chat_edit.h"
#include "gateway/cli/chat_style.h"
#include "tests/support/t.h"

#define UP "\033[A"
#define DOWN "\033OB"
#define LEFT "\033[D"
#define HOME "\033[1~"
#define DELETE "\033[3~"

/* --- the line --------------------------------------------------------------------------------- */

static struct chat_edit edit;

/* Types the keys, and says whether the last one ended the line. */
static enum chat_edit_result type(const char *keys)
{
    enum chat_edit_result result = EDIT_MORE;
    for (; *keys; keys++)
        result = chat_edit_take(&edit, *keys);
    return result;
}

static void assert_line(const char *wanted)
{
    assert_true(str_eq(buf_str(&edit.line), str_of(wanted)));
}

static int teardown(void **state)
{
    (void)state;
    chat_edit_done(&edit);
    edit = (struct chat_edit){0};
    return 0;
}

static void test_chat_edit_keys(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *line;
    } rows[] = {
        {"abc" LEFT "x", "abxc"},
        {"abc\x02\x02\x7f", "bc"},
        {"abc" HOME DELETE "\x04", "c"},
        {"one two  \x17", "one "},
        {"one two" LEFT LEFT "\x0b", "one t"},
        {"one two" LEFT LEFT "\x15", "wo"},
        {"a\xc3\xa9\xe4\xb8\x96" LEFT "\x08", "a\xe4\xb8\x96"},
        {"\xf0\x9f\x98\x80" LEFT "x", "x\xf0\x9f\x98\x80"},
        {"a\x80\xc3(\xc2\x9b"
         "1mb",
         "a(1mb"}, /* no UTF-8, and a C1 control */
        {"ab\033[31;1Rc\t\001\006d", "adbc"},
        {"a\033[200~b\r\tc\n\001\x04\033[31;1R\033[201~\001\006d", "adb\n c\n"}, /* pasted */
        {UP DOWN LEFT DELETE "a", "a"},
        {"one two\x1b"
         "bx\x1b"
         "f!",
         "one xtwo!"},
        {"one two\033[1;5D\033[1;3D\033[3;5~", " two"},
        {"one two three\x1b\x7f\x1b"
         "b\x1b"
         "d",
         "one  "},
        {"a\x1b\n"
         "b\x1b\r"
         "c",
         "a\nb\nc"},
        {"one two\x17\x01\x19 ", "two one "}, /* cut, and put back elsewhere */
        {"\x05\x15"
         "ab\x02\x0b\x01\x19",
         "ba"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        assert_int_equal(type(rows[i].keys), EDIT_MORE);
        assert_line(rows[i].line);
        type("\x05\x15");
    }
    assert_int_equal(type("x\r"), EDIT_LINE);
    chat_edit_next(&edit);
    assert_int_equal(type("\x04"), EDIT_END);
}

static void test_chat_edit_moves_and_deletes_what_a_person_takes_for_one_character(void **state)
{
    (void)state;
    static const char *const characters[] = {
        "e\u0301",                    /* an accent of its own */
        "\U0001f469\u200d\U0001f4bb", /* a woman at a computer */
        "\U0001f44d\U0001f3fd",       /* a thumb of a tone */
        "\u2764\ufe0f",               /* a heart, as a picture */
        "\U0001f1e9\U0001f1ea",       /* a flag */
    };
    for (size_t i = 0; i < countof(characters); i++) {
        char keys[64];
        snprintf(keys, sizeof keys, "a%sb\x02\x7f", characters[i]);
        type(keys);
        assert_line("ab");
        snprintf(keys, sizeof keys, "\x05\x15%sb\x02\x02x", characters[i]);
        type(keys);
        snprintf(keys, sizeof keys, "x%sb", characters[i]);
        assert_line(keys);
        type("\x06\x02\x04\x05\x15");
    }
    type("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7\x7f"); /* two flags */
    assert_line("\U0001f1e9\U0001f1ea");
}

/* Each draw looks at the line once: 200 of them would take a minute otherwise. */
static void test_chat_edit_draws_a_very_long_line(void **state)
{
    (void)state;
    struct buf out = {0};
    char piece[1025];
    memset(piece, 'x', 1024);
    piece[1024] = 0;
    unsigned n = t_often(200, 50);
    for (unsigned i = 0; i < n; i++) {
        type(piece);
        buf_clear(&out);
        chat_edit_draw(&edit, "> ", 40, &out);
    }
    assert_int_equal(edit.line.len, n * 1024);
    assert_true(out.len < 100);
    buf_done(&out);
}

static void enter(const char *line)
{
    type(line);
    chat_edit_next(&edit);
}

static void test_chat_edit_lines_before(void **state)
{
    (void)state;
    enter("one");
    enter("two");
    enter("two"); /* once */
    enter("");
    type("new" UP);
    assert_line("two");
    type(UP);
    assert_line("one");
    type(UP);
    assert_line("one");
    type("!" DOWN);
    assert_line("two");
    type(DOWN DOWN);
    assert_line("new");
    type("\x15");
    for (int i = 0; i <= CHAT_EDIT_PAST; i++) {
        char line[16];
        snprintf(line, sizeof line, "%d", i);
        enter(line);
    }
    for (int i = 0; i <= CHAT_EDIT_PAST + 3; i++)
        type(UP);
    assert_line("1"); /* "one", "two" and "0" have made room */
}

static void assert_drawn(size_t columns, const char *wanted)
{
    struct buf out = {0};
    chat_edit_draw(&edit, "> ", columns, &out);
    assert_string_equal(out.bytes, wanted);
    buf_done(&out);
}

static void test_chat_edit_draws_what_fits(void **state)
{
    (void)state;
    assert_drawn(80, "\r> \033[K\r\033[2C");
    type("a\xe4\xb8\x96" LEFT);
    assert_drawn(80, "\r> a\xe4\xb8\x96\033[K\r\033[3C");
    type("\x05");
    assert_drawn(80, "\r> a\xe4\xb8\x96\033[K\r\033[5C"); /* two columns wide */
    type("\x15"
         "0123456789abcdef");
    assert_drawn(13, "\r> 6789abcdef\033[K\r\033[12C");
    type("\x15\033[200~a\nb\033[201~" LEFT);
    assert_drawn(80, "\r> a\u21b5b\033[K\r\033[4C");
    type("\x05\x15\u2705"); /* an emoji of the oldest */
    assert_drawn(80, "\r> \u2705\033[K\r\033[4C");
    type("\x05\x15"
         "0123456789abcdef" HOME);
    assert_drawn(13, "\r> 0123456789\033[K\r\033[2C");
}

/* --- styles ----------------------------------------------------------------------------------- */

static void test_chat_style_changes_no_byte_and_needs_no_whole_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *styled;
    } rows[] = {
        {"a * b", "a * b"},
        {"# T\nx", "\033[1m# T\033[0m\nx"},
        {"a **b** c", "a **\033[1mb**\033[0m c"},
        {"> q\nr", "\033[2m> q\033[0m\nr"},
        {"a `c *` b", "a \033[36m`c *`\033[0m b"},
        {"``a`b`` c", "\033[36m``a`b``\033[0m c"},
        {"a `open\nb", "a \033[36m`open\033[0m\nb"},
        {"```c\n# x\n\n``\n```\ny",
         "\033[36m```c\033[0m\n\033[36m# x\033[0m\n\n\033[36m``\033[0m\n\033[36m"
         "```\033[0m\ny"},
        {"- **a `b` c**\n    # code",
         "- **\033[1ma \033[0m\033[36m\033[1m`b`\033[0m\033[1m c**\033[0m\n    # code"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        for (size_t piece = 1; piece <= 3; piece++) {
            struct chat_style style = {0};
            struct buf out = {0};
            struct str rest = str_of(rows[i].text);
            while (rest.n > 0) {
                size_t n = rest.n < piece ? rest.n : piece;
                chat_style_put(&style, (struct str){rest.p, n}, &out);
                rest = (struct str){rest.p + n, rest.n - n};
            }
            assert_string_equal(out.bytes, rows[i].styled);
            buf_done(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_chat_edit_keys, teardown),
        cmocka_unit_test_teardown(
            test_chat_edit_moves_and_deletes_what_a_person_takes_for_one_character, teardown),
        cmocka_unit_test_teardown(test_chat_edit_draws_a_very_long_line, teardown),
        cmocka_unit_test_teardown(test_chat_edit_lines_before, teardown),
        cmocka_unit_test_teardown(test_chat_edit_draws_what_fits, teardown),
        cmocka_unit_test(test_chat_style_changes_no_byte_and_needs_no_whole_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
