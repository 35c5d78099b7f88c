/* A title as a model says it: one line of text stays, and nothing else. */
#include "gateway/agents/titles.h"
#include "tests/support/t.h"

static void expect(const char *said, const char *title)
{
    struct buf out = {0};
    title_put_clean(str_of(said), &out);
    if (!str_eq(buf_str(&out), str_of(title)))
        fail_msg("of \"%s\" came \"%.*s\", want \"%s\"", said, (int)out.len,
                 out.len ? out.bytes : "", title);
    buf_done(&out);
}

static void test_title_is_the_first_line_with_a_word(void **state)
{
    (void)state;
    expect("Rome in May", "Rome in May");
    expect("\n \r\n **\n  Rome in May \nA longer explanation.", "Rome in May");
    expect("Rome\xe2\x80\xa8in May", "Rome");
    expect("", "");
    expect(" \"\" \n\n**", "");
}

static void test_title_has_no_quotes_and_no_marks_around_it(void **state)
{
    (void)state;
    expect("\"Rome in May\"", "Rome in May");
    expect("“Rome” and „May“", "Rome and May");
    expect("「ローマ」", "ローマ");
    expect("«Rome»", "Rome");
    expect("# **Rome in May**", "Rome in May");
    expect("'`Rome`'", "Rome");
    expect("The '90s, and the parents'", "The '90s, and the parents'");
    expect("C# and a_b", "C# and a_b");
}

static void test_title_has_no_control_characters(void **state)
{
    (void)state;
    expect("Ro\x1b[31mme\x07 \t\x7f in\xc2\x85 May", "Ro[31mme in May");
    expect("\xef\xbb\xbfRo\xe2\x80\xaeme\xe2\x81\xa6", "Rome");
    expect("Ro\xff\xfeme \xf0\x9f\x8c", "Rome");
}

static void test_title_has_at_most_80_characters(void **state)
{
    struct buf said = {0}, want = {0};
    (void)state;
    for (int i = 0; i < 200; i++)
        buf_puts(&said, "é");
    for (int i = 0; i < 80; i++)
        buf_puts(&want, "é");
    buf_putc(&said, 0);
    buf_putc(&want, 0);
    expect(said.bytes, want.bytes);
    buf_done(&said);
    buf_done(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_title_is_the_first_line_with_a_word),
        cmocka_unit_test(test_title_has_no_quotes_and_no_marks_around_it),
        cmocka_unit_test(test_title_has_no_control_characters),
        cmocka_unit_test(test_title_has_at_most_80_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
