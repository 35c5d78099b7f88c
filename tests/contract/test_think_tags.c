/* Thoughts between tags, told apart from the answer: in pieces of every size. */
#include "tests/support/t.h"

#include "gateway/models/think_tags.h"

/* Runs of one kind are joined: "(thought)answer", and "!" where all before it was thought. */
static void put_run(struct buf *seen, enum think_run *last, enum think_run run,
                    const struct buf *text)
{
    if (run == THINK_UNSAID) {
        buf_puts(seen, *last == THINK_THOUGHT ? ")!" : "!");
        *last = run;
        return;
    }
    if (run == THINK_THOUGHT && *last != THINK_THOUGHT)
        buf_putc(seen, '(');
    if (run != THINK_THOUGHT && *last == THINK_THOUGHT)
        buf_putc(seen, ')');
    buf_putstr(seen, buf_str(text));
    *last = run;
}

static void check(const char *name, const char *all, size_t step, const char *expected)
{
    struct think_tags tags;
    struct buf seen = {0}, text = {0};
    enum think_run last = THINK_MORE, run;
    size_t n = strlen(all);
    think_tags_init(&tags, name);
    for (size_t at = 0; at < n; at += step) {
        struct str in = {all + at, step < n - at ? step : n - at};
        while ((run = think_tags_next(&tags, &in, &text)) != THINK_MORE) {
            put_run(&seen, &last, run, &text);
            buf_clear(&text);
        }
        assert_int_equal(in.n, 0);
    }
    run = think_tags_end(&tags, &text);
    if (run != THINK_MORE)
        put_run(&seen, &last, run, &text);
    if (last == THINK_THOUGHT)
        buf_putc(&seen, ')');
    if (!str_eq(buf_str(&seen), str_of(expected)))
        fail_msg("of \"%s\" by %zu: got \"%s\", want \"%s\"", all, step,
                 seen.bytes ? seen.bytes : "", expected);
    buf_done(&seen);
    buf_done(&text);
    think_tags_done(&tags);
}

static void test_g21_tags_are_told_apart_however_they_are_cut(void **state)
{
    static const struct {
        const char *all, *expected;
    } table[] = {
        {"", ""},
        {"plain", "plain"},
        {"a < b <thin <thinking> </thin", "a < b <thin <thinking> </thin"},
        {"<think>hm</think>42", "(hm)42"},
        {"\n<think>\nhm <b> </b>\n</think>\n\n42\n", "\n(\nhm <b> </b>\n)42\n"},
        {"<think></think>42", "42"},
        {"<think>a</think> <think>b</think> 42", "(ab)42"},
        {"One. <think>hm</think> Two.", "One. (hm) Two."},
        {"<<think>hm<</think>42", "<(hm<)42"},
        {"<think>only", "(only)"},
        {"<think>only</thi", "(only</thi)"},
        {"Use <think> for it.", "Use ( for it.)<think> for it."},
        {"Write `<think>` or \"<think>\"\n```\n<think>\n</think>\n```\n<think>hm</think>now",
         "Write `<think>` or \"<think>\"\n```\n<think>\n</think>\n```\n(hm)now"},
        {"an odd ` here\n<think>hm</think>.", "an odd ` here\n(hm)."},
        {"hm\n</think>\n\n42", "hm\n!42"},
        {"<think>a</think>b</think>c", "(a)b</think>c"},
    };
    (void)state;
    for (size_t i = 0; i < countof(table); i++)
        for (size_t step = 1; step <= 12; step++)
            check("think", table[i].all, step, table[i].expected);
}

static void test_g21_tags_have_the_name_that_is_configured(void **state)
{
    (void)state;
    check("", "<think>hm</think>42", 1, "<think>hm</think>42");
    check("seed:think", "<seed:think>hm</seed:think><think>42", 3, "(hm)<think>42");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g21_tags_are_told_apart_however_they_are_cut),
        cmocka_unit_test(test_g21_tags_have_the_name_that_is_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
