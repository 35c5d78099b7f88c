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
    assert_text(buf_str(&out), expected);
    buf_done(&out);
    search_done(&s);
}

static void test_search_marks_what_it_found(void **state)
{
    (void)state;
    check_shown("or hello", "Hello ored world",
                json("{'text':'Hello ored world','matches':[[0,5],[6,2]]"));
    check_shown("world wor", "w\xc3\xb6rld World",
                json("{'text':'w\xc3\xb6rld World','matches':[[6,5]]"));
    check_shown("aba", "ababa", json("{'text':'ababa','matches':[[0,3]]"));
    struct buf text = {0}, expected = {0};
    for (int i = 0; i < 200; i++)
        buf_puts(&text, "\xc3\xa4");
    buf_puts(&text, " needle ");
    for (int i = 0; i < 200; i++)
        buf_puts(&text, "\xc3\xb6");
    buf_puts(&expected, json("{'text':'"));
    for (int i = 0; i < SEARCH_BEFORE - 1; i++)
        buf_puts(&expected, "\xc3\xa4");
    buf_puts(&expected, " needle ");
    for (int i = 0; i < SEARCH_SHOWN - SEARCH_BEFORE - 7; i++)
        buf_puts(&expected, "\xc3\xb6");
    buf_puts(&expected, json("','matches':[[40,6]]"));
    buf_putc(&text, 0);
    buf_putc(&expected, 0);
    check_shown("NEEDLE", text.bytes, expected.bytes);
    buf_done(&text);
    buf_done(&expected);
}

static void put_times(struct buf *out, const char *text, int n)
{
    for (int i = 0; i < n; i++)
        buf_puts(out, text);
}

/* A long text of equal words with something else in its middle, and how many of them are shown. */
static void check_piece(const char *word, const char *query, int before, int behind,
                        const char *last)
{
    struct buf text = {0}, expected = {0};
    size_t n_chars = 0;
    for (const char *c = word; *c; c++)
        n_chars += ((unsigned char)*c & 0xc0) != 0x80;
    put_times(&text, word, 90);
    buf_putf(&text, "%s ", query);
    put_times(&text, word, 90);
    buf_puts(&expected, json("{'text':'"));
    put_times(&expected, word, before);
    buf_putf(&expected, "%s ", query);
    put_times(&expected, word, behind);
    buf_putf(&expected, json("%s','matches':[[%zu,%zu]]"), last, (size_t)before * n_chars,
             strlen(query));
    buf_putc(&text, 0);
    buf_putc(&expected, 0);
    check_shown(query, text.bytes, expected.bytes);
    buf_done(&text);
    buf_done(&expected);
}

static void test_search_shows_whole_words(void **state)
{
    (void)state;
    check_piece("bridge ", "needles", 5, 15, "bridge");
    check_piece("br\xc3\xbc"
                "cke ",
                "needles", 5, 15,
                "br\xc3\xbc"
                "cke");
    check_piece("gl\xc3\xbc"
                "ck. ",
                "needle", 5, 16,
                "gl\xc3\xbc"
                "ck.");
    /* no blanks: each character is a word */
    check_piece("\xe6\xa9\x8b\xe6\xa2\x81", "needles", 20, 56, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_finds),
        cmocka_unit_test(test_search_for_nothing),
        cmocka_unit_test(test_search_marks_what_it_found),
        cmocka_unit_test(test_search_shows_whole_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
