/* The memory of connections: nobody gets what somebody has, cells lie side by side, and what a peak
 * took goes back. */
#include <stdlib.h>

#include "gateway/base/cells.h"
#include "tests/support/t.h"

#define LIVE 300
#define MANY 5000
#define SHEET_BYTES 65536

static bool uses_cells(void)
{
    void *cell = cell_new(64);
    bool uses = cells_bytes() > 0; /* the address sanitizer's builds have malloc's memory only */
    cell_free(cell);
    return uses;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static bool holds(const char *cell, size_t n, char mark)
{
    return n == 0 || (cell[0] == mark && memcmp(cell, cell + 1, n - 1) == 0);
}

struct kept {
    char *cell;
    size_t n;
    char mark;
};

/* All sizes, some of them malloc's. */
static void renew(struct kept *k, uint32_t *seed)
{
    size_t n = 1 + next_random(seed) % (CELL_MOST + CELL_MOST / 4), had = k->n < n ? k->n : n;
    bool resizes = k->cell && next_random(seed) % 2;
    if (resizes) {
        k->cell = cell_resize(k->cell, n);
        assert_true(holds(k->cell, had, k->mark));
    } else {
        cell_free(k->cell);
        k->cell = cell_new(n);
    }
    assert_non_null(k->cell);
    assert_int_equal((uintptr_t)k->cell % 8, 0);
    k->n = n;
    k->mark = (char)next_random(seed);
    memset(k->cell, k->mark, n);
}

static void test_cells_of_one_size_lie_side_by_side(void **state)
{
    (void)state;
    if (!uses_cells())
        skip();
    const char *first = cell_new(376), *second = cell_new(370), *other = cell_new(8);
    assert_int_equal(second - first, 376);
    assert_true((uintptr_t)other / SHEET_BYTES != (uintptr_t)first / SHEET_BYTES);
    cell_free((void *)(uintptr_t)second);
    assert_ptr_equal(cell_new(376), second); /* the one that was used last is in the cache */
    cell_free((void *)(uintptr_t)first);
    cell_free((void *)(uintptr_t)second);
    cell_free((void *)(uintptr_t)other);
}

static void test_cells_keep_what_is_in_them(void **state)
{
    struct kept kept[LIVE] = {{0}};
    uint32_t seed = 7;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct kept *k = &kept[next_random(&seed) % LIVE];
        assert_true(!k->cell || holds(k->cell, k->n, k->mark));
        renew(k, &seed);
    }
    for (size_t i = 0; i < LIVE; i++) {
        assert_true(!kept[i].cell || holds(kept[i].cell, kept[i].n, kept[i].mark));
        cell_free(kept[i].cell);
    }
}

static void test_cells_of_a_peak_go_back_and_are_used_again(void **state)
{
    static char *cells[MANY];
    (void)state;
    if (!uses_cells())
        skip();
    size_t before = cells_bytes(), most = 0;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            cells[i] = cell_new(864);
            memset(cells[i], 1, 864);
        }
        assert_true(round == 0 || cells_bytes() == most);
        most = cells_bytes();
        assert_true(most > before + (size_t)MANY * 864);
        assert_true(most < before + (size_t)MANY * 864 * 102 / 100);
        for (size_t i = 0; i < MANY; i++)
            cell_free(cells[i]);
        assert_true(cells_bytes() <= before + SHEET_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_of_one_size_lie_side_by_side), /* in a sheet of their own */
        cmocka_unit_test(test_cells_keep_what_is_in_them),
        cmocka_unit_test(test_cells_of_a_peak_go_back_and_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
