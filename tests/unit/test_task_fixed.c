#include "core/task_fixed.h"

#include <stdlib.h>

#include "tests/support/t.h"

static struct task_fixed *fixed;

static int teardown(void **state)
{
    (void)state;
    free(fixed);
    fixed = NULL;
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static struct str *string_of(struct task_record *rec, size_t i)
{
    struct str *const all[] = {
#define T(name) &rec->name,
        TASK_FIELDS(T)
#undef T
    };
    assert_int_equal(countof(all), N_TASK_FIELDS);
    return all[i];
}

static void assert_same(struct str have, struct str given)
{
    assert_int_equal(have.p != NULL, given.p != NULL);
    assert_true(!have.p || str_eq(have, given));
}

/* All strings of the record that are kept, and none of the others. */
static void assert_kept(struct task_record *given)
{
    struct task_record back = {.owner = STR("untouched"), .event_bytes = 7};
    task_fixed_fill(fixed, &back);
    for (size_t i = 0; i < N_TASK_FIELDS; i++) {
        assert_same(*string_of(&back, i), *string_of(given, i));
        assert_same(task_fixed_get(fixed, (enum task_field)i), *string_of(given, i));
    }
    assert_int_equal(back.created_at, given->created_at);
    assert_int_equal(back.type, given->type);
    assert_int_equal(back.waits, given->waits);
    assert_int_equal(back.notify_on_complete, given->notify_on_complete);
    assert_text(back.owner, "untouched");
    assert_int_equal(back.event_bytes, 7);
}

static void test_task_fixed_every_set_of_strings_comes_back(void **state)
{
    (void)state;
    static const char bytes[N_TASK_FIELDS] = "abcdefghijkl";
    for (unsigned set = 0; set < 1u << N_TASK_FIELDS; set++) {
        struct task_record given = {.created_at = 1764280000123 + set,
                                    .type = (enum task_type)(set % 4),
                                    .waits = set & 4,
                                    .notify_on_complete = set & 8};
        for (size_t i = 0; i < N_TASK_FIELDS; i++)
            if (set >> i & 1)
                *string_of(&given, i) =
                    (struct str){bytes + i, (set + i) % 2}; /* also empty ones */
        fixed = task_fixed_new(&given);
        assert_kept(&given);
        fixed = task_fixed_drop_input(fixed);
        given.input = given.parts = given.context = STR_NULL;
        assert_kept(&given);
        free(fixed);
        fixed = NULL;
    }
}

/* Lengths that take one more byte, and strings with any contents. */
static void test_task_fixed_strings_of_every_length_come_back(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 127, 128, 129, 16383, 16384, 16385, 2097151, 2097152};
    enum { MOST = 2097152 };
    char *bytes = xcalloc(MOST);
    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (char)(i * 7);
    for (size_t i = 0; i < countof(lengths); i++) {
        struct str s = {bytes, lengths[i]};
        struct task_record given = {
            .agent = s, .metadata = {bytes + 1, s.n ? s.n - 1 : 0}, .input = s, .ancestors = s};
        fixed = task_fixed_new(&given);
        assert_kept(&given);
        fixed = task_fixed_drop_input(fixed);
        given.input = given.parts = given.context = STR_NULL;
        assert_kept(&given);
        free(fixed);
        fixed = NULL;
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_task_fixed_every_set_of_strings_comes_back),
        TEST(test_task_fixed_strings_of_every_length_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
