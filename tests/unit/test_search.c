/* Queries and texts; the rows are worked out from PROTOCOL.md section 5. */
#include "proto/search.h"
#include "tests/support/t.h"

static bool finds(const char *query, const char *text)
{
    struct search s;
    bool found = search_read(str_of(query), &s) && search_finds(&s, str_of(text));
    search_done(&s);
    return found;
}

static void test_search_finds(void **state)
{
    (void)state;
    static const struct {
        const char *query, *text;
        bool found;
    } rows[] = {
        {"hello", "Hello, world", true},
        {"WORLD hello", "Hello, world", true},
        {"hello mars", "Hello, world", false},
        {"ell", "Hello", true}, /* three characters: also inside a word */
        {"el", "Hello", false}, /* two: where a word begins */
        {"he", "Hello", true},
        {"wo", "Hello, world", true},
        {"o", "Hello", false},
        {"o", "Hello (Oslo)", true},
        {"\"hello world\"", "hello  world", false},
        {"\"hello world\"", "Say: hello world!", true},
        {"\"lo wo\"", "hello world", true},
        {"\"unclosed part", "an unclosed part", true},
        {"a\"b c\"d", "ab cd", false},
        {"a\"b c\"d", "d a b c", true},
        {"straße", "STRASSE", false}, /* simple folding: one character for one */
        {"ÄÖÜ", "äöü", true},
        {"Σίσυφος", "ΣΊΣΥΦΟΣ", true}, /* a final sigma too */
        {"ЁЖ", "ёж", true},
        {"ı", "I", false},
        {"東", "日本東京", true}, /* no blanks: a word begins everywhere */
        {"東京", "日本東京", true},
        {"ไทย", "ภาษาไทย", true},
        {"한국", "대한국", false}, /* Korean has blanks */
        {"é", "café", false},
        {"ca",
         "un\xc2\xa0"
         "café",
         true},
        {"x", "", false},
        {"\xf0\x9f\x98\x80", "so \xf0\x9f\x98\x80!", true},
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (finds(rows[i].query, rows[i].text) != rows[i].found)
            fail_msg("%s in %s", rows[i].query, rows[i].text);
}

static void test_search_for_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {"", " ", "\"\"", " \" \t", "\xe3\x80\x80"};
    for (size_t i = 0; i < countof(rows); i++) {
        struct search s;
        bool is_there = search_read(str_of(rows[i]), &s);
        search_done(&s);
        if (is_there != (i == 3)) /* a quoted blank is something */
            fail_msg("row %zu", i);
    }
}

static void check_shown(const char *query, const char *text, const char *expected)
{
    struct search s;
    struct buf out = {0};
    assert_true(search_read(str_of(query), &s));
    buf_putc(&out, '{');
    search_put(&s, str_of(text), &out);
    assert_text(buf_str(&out), t_json(expected));
    buf_done(&out);
    search_done(&s);
}

static void test_search_marks_what_it_found(void **state)
{
    (void)state;
    check_shown("or hello", "Hello ored world",
                "{'text':'Hello ored world','matches':[[0,5],[6,2]]");
    check_shown("world wor", "w\xc3\xb6rld World",
                "{'text':'w\xc3\xb6rld World','matches':[[6,5]]");
    check_shown("aba", "ababa", "{'text':'ababa','matches':[[0,3]]");
    struct buf text = {0}, expected = {0};
    for (int i = 0; i < 200; i++)
        buf_puts(&text, "\xc3\xa4");
    buf_puts(&text, " needle ");
    for (int i = 0; i < 200; i++)
        buf_puts(&text, "\xc3\xb6");
    buf_puts(&expected, "{'text':'");
    for (int i = 0; i < SEARCH_BEFORE - 1; i++)
        buf_puts(&expected, "\xc3\xa4");
    buf_puts(&expected, " needle ");
    for (int i = 0; i < SEARCH_SHOWN - SEARCH_BEFORE - 7; i++)
        buf_puts(&expected, "\xc3\xb6");
    buf_puts(&expected, "','matches':[[40,6]]");
    buf_putc(&text, 0);
    buf_putc(&expected, 0);
    check_shown("NEEDLE", text.bytes, expected.bytes);
    buf_done(&text);
    buf_done(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_finds),
        cmocka_unit_test(test_search_for_nothing),
        cmocka_unit_test(test_search_marks_what_it_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
