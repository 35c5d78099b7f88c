#include "proto/ulid.h"
#include "tests/support/t.h"

/* Chance under control: either a fixed byte, or a stream of numbers. */
static uint8_t fixed_byte;
static uint64_t random_state;

static bool fixed(void *bytes, size_t n)
{
    memset(bytes, fixed_byte, n);
    return true;
}

static bool streamed(void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)t_random(&random_state);
    return true;
}

static void test_ulid_known_numbers_have_known_texts(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        uint8_t chance;
        const char *id;
    } rows[] = {
        /* The specification's own example of a time: 1469918176385 is 01ARYZ6S41. */
        {1469918176385, 0x00, "01ARYZ6S410000000000000000"},
        {1469918176385, 0xFF, "01ARYZ6S41ZZZZZZZZZZZZZZZZ"},
        {1, 0x00, "00000000010000000000000000"},
        {281474976710655, 0xFF, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"},
        {INT64_MAX, 0x00, "7ZZZZZZZZZ0000000000000000"}, /* beyond 48 bits: the newest there is */
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct ulid_source source = {.random = fixed};
        char id[TASK_ID_LEN + 1];
        fixed_byte = rows[i].chance;
        ulid_next(&source, rows[i].ms, id);
        assert_string_equal(id, rows[i].id);
        assert_true(ulid_is_valid(str_of(id)));
    }
}

static void test_ulid_same_millisecond_steps_by_chance(void **state)
{
    (void)state;
    struct ulid_source source = {.random = fixed};
    char id[TASK_ID_LEN + 1];
    fixed_byte = 0;
    ulid_next(&source, 1469918176385, id);
    ulid_next(&source, 1469918176385, id); /* a step of 0 counts as 1 */
    assert_string_equal(id, "01ARYZ6S410000000000000001");
    fixed_byte = 0xFF;
    ulid_next(&source, 1469918176384, id); /* the clock went back: + 2^64 */
    assert_string_equal(id, "01ARYZ6S41000G000000000001");
}

static void test_ulid_full_millisecond_runs_into_the_next(void **state)
{
    (void)state;
    struct ulid_source source = {.random = fixed};
    char id[TASK_ID_LEN + 1];
    fixed_byte = 0xFF;
    ulid_next(&source, 1469918176385, id);
    fixed_byte = 0;
    ulid_next(&source, 1469918176385, id);
    assert_string_equal(id, "01ARYZ6S420000000000000000");
    ulid_next(&source, 1469918176386, id); /* that millisecond's own time comes */
    assert_string_equal(id, "01ARYZ6S420000000000000001");
}

static void test_ulid_order_holds_whatever_the_clock_does(void **state)
{
    (void)state;
    struct ulid_source source = {.random = streamed};
    char last[TASK_ID_LEN + 1] = "", id[TASK_ID_LEN + 1];
    int64_t clock = 1764280000000;
    random_state = t_seed();
    for (int i = 0; i < 200000; i++) {
        switch (t_below(&random_state, 10)) {
        case 0: clock += (int64_t)t_below(&random_state, 100000); break;
        case 1: clock -= (int64_t)t_below(&random_state, 100000); break;
        case 2: clock++; break;
        default: break;
        }
        ulid_next(&source, i % 5000 ? clock : -clock, id);
        assert_true(strcmp(last, id) < 0);
        assert_true(ulid_is_valid(str_of(id)));
        memcpy(last, id, sizeof id);
        if (i % 1000 == 0) { /* a restart: a new source learns the newest id */
            source = (struct ulid_source){.random = streamed};
            ulid_after(&source, str_of(last));
        }
    }
}

static void test_ulid_steps_cannot_be_guessed(void **state)
{
    (void)state;
    struct ulid_source source = {.random = streamed};
    char last[TASK_ID_LEN + 1], id[TASK_ID_LEN + 1];
    random_state = 1;
    ulid_next(&source, 1764280000000, last);
    for (int i = 0; i < 1000; i++) {
        ulid_next(&source, 1764280000000, id);
        /* 64 bits of step: the last 12 characters are almost always all new, seldom 8 of them. */
        int same = 0;
        for (int at = 14; at < TASK_ID_LEN; at++)
            same += id[at] == last[at];
        assert_true(same < 8);
        memcpy(last, id, sizeof id);
    }
}

static void test_ulid_after_raises_and_never_lowers(void **state)
{
    (void)state;
    struct ulid_source source = {.random = fixed};
    char id[TASK_ID_LEN + 1];
    fixed_byte = 0;
    ulid_after(&source, STR("01ARYZ6S41ABCDEFGHJKMNPQRS"));
    ulid_after(&source, STR("01ARYZ6S40ZZZZZZZZZZZZZZZZ")); /* older */
    ulid_after(&source, STR("not an id"));
    ulid_after(&source, STR("81ARYZ6S41ABCDEFGHJKMNPQRS"));
    ulid_after(&source, STR_NULL);
    ulid_next(&source, 5, id);
    assert_string_equal(id, "01ARYZ6S41ABCDEFGHJKMNPQRT");
}

static void test_ulid_is_valid_by_its_alphabet(void **state)
{
    (void)state;
    char id[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_true(ulid_is_valid(str_of(id)));
    assert_false(ulid_is_valid((struct str){id, 25}));
    assert_false(ulid_is_valid(STR("01ARZ3NDEKTSV4RRFFQ69G5FAVA")));
    assert_false(ulid_is_valid(STR("")));
    assert_false(ulid_is_valid(STR_NULL));
    for (int at = 0; at < TASK_ID_LEN; at++) {
        char kept = id[at];
        for (int c = 0; c < 256; c++) {
            bool legal = c && strchr("0123456789ABCDEFGHJKMNPQRSTVWXYZ", c); /* no I, L, O, U */
            id[at] = (char)c;
            assert_int_equal(ulid_is_valid((struct str){id, TASK_ID_LEN}),
                             legal && (at > 0 || c <= '7'));
        }
        id[at] = kept;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ulid_known_numbers_have_known_texts),
        cmocka_unit_test(test_ulid_same_millisecond_steps_by_chance),
        cmocka_unit_test(test_ulid_full_millisecond_runs_into_the_next),
        cmocka_unit_test(test_ulid_order_holds_whatever_the_clock_does),
        cmocka_unit_test(test_ulid_steps_cannot_be_guessed),
        cmocka_unit_test(test_ulid_after_raises_and_never_lowers),
        cmocka_unit_test(test_ulid_is_valid_by_its_alphabet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
