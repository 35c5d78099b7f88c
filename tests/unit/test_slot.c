#include "core/slot.h"

#include "tests/support/t.h"

/* Rows on disk carry these numbers: they may never change.  By hand: FNV-1a of "" is its offset
 * cbf29ce484222325, and of "a" af63dc4c8601ec8c (the algorithm's published vectors). */
static unsigned fold(uint64_t h)
{
    h ^= h >> 32;
    return (unsigned)((h ^ h >> 16) & 4095);
}

static void test_slots_are_those_of_every_version(void **state)
{
    (void)state;
    assert_int_equal(slot_of(STR("")), fold(0xcbf29ce484222325));
    assert_int_equal(slot_of(STR("a")), fold(0xaf63dc4c8601ec8c));
    assert_int_equal(slot_of(STR("foobar")), fold(0x85944171f73967e8));
    assert_int_not_equal(slot_of(STR("own\0er")), slot_of(STR("own")));
}

/* 100 owners in each slot on average: none has twice as many as it should, by far. */
static void test_slots_are_even(void **state)
{
    (void)state;
    static unsigned n[N_SLOTS];
    char name[32];
    for (int i = 0; i < 100 * N_SLOTS; i++) {
        snprintf(name, sizeof name, "user-%d@example.com", i);
        n[slot_of(str_of(name))]++;
    }
    for (size_t i = 0; i < N_SLOTS; i++)
        assert_in_range(n[i], 40, 180);
}

static void test_slots_are_a_set(void **state)
{
    (void)state;
    struct slots set = {0};
    slots_add(&set, 0);
    slots_add(&set, 65);
    slots_add(&set, N_SLOTS - 1);
    unsigned n = 0;
    for (unsigned i = 0; i < N_SLOTS; i++)
        n += slots_has(&set, i);
    assert_int_equal(n, 3);
    assert_true(slots_has(&set, 0) && slots_has(&set, 65) && slots_has(&set, N_SLOTS - 1));
}

static void test_slots_are_read_as_they_were_put(void **state)
{
    (void)state;
    struct slots set = {0}, read;
    struct buf text = {0};
    slots_add(&set, 0);
    slots_add(&set, 63);
    slots_add(&set, 70);
    slots_add(&set, N_SLOTS - 1);
    slots_put(&set, &text);
    assert_int_equal(text.len, SLOTS_HEX);
    assert_true(slots_read(buf_str(&text), &read));
    assert_memory_equal(&set, &read, sizeof set);
    text.bytes[5] = 'g';
    assert_false(slots_read(buf_str(&text), &read));
    assert_false(slots_read(STR("4096"), &read));
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_are_those_of_every_version),
        cmocka_unit_test(test_slots_are_even),
        cmocka_unit_test(test_slots_are_a_set),
        cmocka_unit_test(test_slots_are_read_as_they_were_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
