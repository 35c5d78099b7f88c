/* Bytes of commands as text. */
#include "tests/support/t.h"

#include "gateway/processes/terminal_text.h"
#include "proto/js.h"

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
    static const struct {
        const char *bytes, *text;
    } table[] = {
        {"", ""},
        {"plain\ttext\n", "plain\ttext\n"},
        {"a\r\nb\rc\r", "a\nb\nc\n"},
        {"caf\xe9!", "caf" BAD "!"},
        {"\xf0\x9f\x8c\x8a\xe2\x82\xac", "\xf0\x9f\x8c\x8a\xe2\x82\xac"},
        {"\xc0\xaf\xed\xa0\x80", BAD BAD BAD BAD BAD}, /* overlong, a surrogate */
        {"\x01\x1f\x08\x07\x7f|", BAD BAD "|"},
        {"\x1b[1;31mred\x1b[0m", "red"},
        {"\x1b[?25l\x1b[2Kx\x1b[38:5:1m", "x"},
        {"\x1b]0;title\x07"
         "a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
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

/* Whatever comes, the text is UTF-8 and has no control characters. */
static void test_terminal_text_of_random_bytes(void **state)
{
    static const char favourites[] = "\x1b[]()\x07\\;m0\r\n\xf0\x9f\x8c\x8a\xc3\x80";
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_terminal_text_of_bytes),
                                       cmocka_unit_test(test_terminal_text_of_a_part),
                                       cmocka_unit_test(test_terminal_text_of_random_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
