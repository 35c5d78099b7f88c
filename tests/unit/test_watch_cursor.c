/* The text of a watcher's cursor (proto/watch_cursor.h). */
#include "proto/ulid.h"
#include "proto/watch_cursor.h"
#include "tests/support/t.h"

static bool fill_with_a_number(void *bytes, size_t n)
{
    static uint64_t number = 42;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)t_random(&number);
    return true;
}

static void test_watch_cursor_of_all_places_fits_and_is_read_back(void **state)
{
    struct watch_cursor *c = xcalloc(sizeof *c), *back = xcalloc(sizeof *back);
    struct ulid_source source = {.random = fill_with_a_number};
    struct buf text = {0};
    (void)state;
    ulid_next(&source, 1700000000000, c->newest);
    c->epoch = MAX_SAFE_INTEGER;
    for (; c->n_places < WATCH_CURSOR_TASKS; c->n_places++) {
        ulid_next(&source, 1700000000000, c->places[c->n_places].task_id);
        c->places[c->n_places].seq = MAX_SAFE_INTEGER - c->n_places;
    }
    watch_cursor_write(c, &text);
    assert_true(text.len <= MAX_WATCH_CURSOR);
    assert_true(watch_cursor_read(buf_str(&text), back));
    assert_memory_equal(c, back, sizeof *c);
    for (size_t n = 0; n < 40; n++) /* cut anywhere, it is none, or one of fewer places */
        if (watch_cursor_read((struct str){text.bytes, text.len - 1 - n}, back))
            assert_true(back->n_places < c->n_places);
    assert_false(watch_cursor_read(STR(""), back));
    assert_false(watch_cursor_read(STR("AAAA"), back));
    buf_done(&text);
    free(c);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch_cursor_of_all_places_fits_and_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
