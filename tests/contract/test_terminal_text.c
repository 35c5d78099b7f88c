/* Bytes of commands as text. */
#include "gateway/processes/terminal_text.h"
#include "proto/js.h"
#include "tests/support/t.h"

#define BAD "\xef\xbf\xbd"

static void check(struct str bytes, bool cut, bool ended, const char *expected)
{
    struct buf out = {0};
    terminal_text(bytes, cut, ended, &out);
    bool good = str_eq(buf_str(&out), str_of(expected));
    if (!good)
        print_error("got \"%.*s\", expected \"%s\"\n", (int)out.len, out.bytes ? out.bytes : "",
                    expected);
    buf_done(&out);
    assert_true(good);
}

static void test_terminal_text_of_bytes(void **state)
{
    const struct {
        const char *bytes, *text;
    } table[] = {
        {"", ""},
        {"plain\ttext\n", "plain\ttext\n"},
        {"a\r\nb\r\r\nc\r", "a\nb\nc"},
        {"caf\xe9!", "caf" BAD "!"},
        {"\xf0\x9f\x8c\x8a\xe2\x82\xac", "\xf0\x9f\x8c\x8a\xe2\x82\xac"},
        {"\xc0\xaf\xed\xa0\x80", BAD BAD BAD BAD BAD}, /* overlong, a surrogate */
        {"\x01\x1f\x07\x7f|", BAD BAD "|"},
        {"\x1b[1;31mred\x1b[0m", "red"},
        {"\x1b[?25l\x1b[2Kx\x1b[38:5:1m", "x"},
        {json("\x1b]0;title\x07"
              "a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"),
         "alink"},
        {"\x1bP1$r\x1b\\b\x1b(Bc\x1b"
         "7d\x1b=e",
         "bcde"},
        {"\x1b]not closed\nnext", "\nnext"},
        {"\x1b[31", ""},
        {"\x1b", ""},
        {"\x1b\x1b[mx", "x"},
        {"\x1b[\xe9x", BAD "x"},
    };
    (void)state;
    for (size_t i = 0; i < countof(table); i++)
        check(str_of(table[i].bytes), false, true, table[i].text);
    check((struct str){"a\0b", 3}, false, true, "a" BAD "b");
}

/* The text that a terminal shows in the end, worked out by hand (ECMA-48: CR, BS, CUF, CUB, CHA,
 * EL). */
static void test_g13_terminal_text_of_a_line_that_is_written_over(void **state)
{
    static const struct {
        const char *bytes, *text;
    } table[] = {
        {"10%\r20%\r100%\n", "100%\n"},
        {"progress 100\rdone\n", "doneress 100\n"}, /* nothing has erased the rest */
        {"progress 100\r\x1b[Kdone\n", "done\n"},
        {"progress 100\x1b[2K\rdone\n", "done\n"},
        {"progress 100\r\x1b[2Kdone\n", "done\n"},
        {"progress 100\r\x1b[0Kdone\r\n", "done\n"},
        {"|\b/\b-", "-"},
        {"abc\b\b\b\b\bX", "Xbc"},
        {"ab\b \bc\n", "ac\n"}, /* rubbed out */
        {"_\bu_\bn", "un"},     /* underlined, as man(1) has it */
        {"abcdef\x1b[3DX", "abcXef"},
        {"abcdef\x1b[2GX\x1b[2CY", "aXcdYf"},
        {"abc\x1b[GX\x1b[99CY", "XbcY"}, /* no farther than its end */
        {"abc\x1b[99DX", "Xbc"},
        {"abc\r\x1b[1mX\x1b[0m\n", "Xbc\n"},
        {"\xf0\x9f\x8c\x8a\xc3\xa9x\ra\xe2\x82\xac\n", "a\xe2\x82\xacx\n"},
        {"\xffx\rab\n", "ab\n"},
        {"one\ntwo\rT\nthree", "one\nTwo\nthree"}, /* the line alone */
        {"one\r\ntwo\b\b\b\b\bT", "one\nTwo"},
        {"kept\r", "kept"},
        {"kept\r\n", "kept\n"},
        {"a\tb\rX", "X\tb"},
        {"\r\b\x1b[K\x1b[2K\x1b[Dx", "x"},
        {"abc\x1b[?2Kd\x1b[1;2Ge\x1b[2", "abcde"}, /* others: nothing */
        {"abc\x1b[99999999999999999999999999GX", "abcX"},
    };
    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        check(str_of(table[i].bytes), false, true, table[i].text);
        check(str_of(table[i].bytes), true, true, table[i].text);
    }
}

/* Its cost is that of its length: with a copy of the line for each step this would take minutes. */
static void test_g13_terminal_text_of_a_long_line_costs_its_length(void **state)
{
    static const char *const steps[] = {"\r\xc3\xa9\xc3\xa9", "\x1b[2K\xc3\xa9", "\b\xc3\xa9",
                                        "\r\x1b[99999C\b\xc3\xa9", "\x1b[Kx\r\n"};
    (void)state;
    for (size_t i = 0; i < countof(steps); i++) {
        struct buf bytes = {0}, out = {0};
        for (int n = 0; n < 400000; n++)
            buf_putc(&bytes, 'x');
        while (bytes.len < 1000000)
            buf_puts(&bytes, steps[i]);
        terminal_text(buf_str(&bytes), true, true, &out);
        bool good = out.len > 0 && out.len <= bytes.len;
        buf_done(&bytes);
        buf_done(&out);
        assert_true(good);
    }
}

static void test_terminal_text_of_a_part(void **state)
{
    static const char wave[] = "\xf0\x9f\x8c\x8a";
    (void)state;
    for (size_t n = 1; n < 4; n++) {
        check((struct str){wave, n}, false, false, "");       /* the rest is still to come */
        check((struct str){wave, n}, false, true, BAD);       /* it never will */
        check((struct str){wave + n, 4 - n}, true, true, ""); /* its beginning has gone */
    }
    check(STR("x\xe9"), false, false, "x");
    check(STR("\x80\x80\x80\x80y"), true, true, BAD "y"); /* no character is so long */
    check(STR("x\x80\x80\x80\x80"), false, false, "x" BAD BAD BAD BAD);
}

/* For any input, the text is UTF-8 and has no control characters. */
static void test_terminal_text_of_random_bytes(void **state)
{
    static const char favourites[] = "\x1b[]()\x07\\;m0\b2KDCG\r\n\xf0\x9f\x8c\x8a\xc3\x80";
    uint64_t random = t_seed();
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char bytes[64];
        size_t n = t_random(&random) % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = t_random(&random) % 2
                           ? favourites[t_random(&random) % (sizeof favourites - 1)]
                           : (char)t_random(&random);
        struct buf out = {0};
        terminal_text((struct str){bytes, n}, round % 2, round % 3, &out);
        bool good = utf8_valid(buf_str(&out));
        for (size_t i = 0; i < out.len; i++)
            good &= (unsigned char)out.bytes[i] >= 0x20 || strchr("\t\n", out.bytes[i]);
        buf_done(&out);
        assert_true(good);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terminal_text_of_bytes),
        cmocka_unit_test(test_g13_terminal_text_of_a_line_that_is_written_over),
        cmocka_unit_test(test_g13_terminal_text_of_a_long_line_costs_its_length),
        cmocka_unit_test(test_terminal_text_of_a_part),
        cmocka_unit_test(test_terminal_text_of_random_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
