/* Which slots are repaired next, when some cannot be: no hub and no store, but the plan
 * (gateway/cluster/repairs.h), and slots that fail. */
#include "gateway/cluster/repairs.h"

#include "tests/support/t.h"

#define NOW 1000

static struct repairs r;
static struct slots open_now, bad;
static unsigned n_repairs, n_news;

static int setup(void **state)
{
    (void)state;
    repairs_init(&r);
    open_now = bad = (struct slots){0};
    n_repairs = n_news = 0;
    return 0;
}

static void come(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        repairs_add(&r, i);
}

static bool meets(const struct slots *a, const struct slots *b)
{
    for (size_t i = 0; i < countof(a->bits); i++)
        if (a->bits[i] & b->bits[i])
            return true;
    return false;
}

/* Until nothing waits: a repair with a bad slot fails as a whole. */
static void repair_all(msec_t now)
{
    while (slots_count(&r.waiting) > 0) {
        struct slots none = {0};
        repairs_next(&r);
        assert_true(slots_count(&r.going) > 0);
        n_repairs++;
        struct slots going = r.going;
        bool fails = meets(&going, &bad);
        if (!fails)
            slots_add_those(&open_now, &going);
        n_news += repairs_done(&r, fails ? &going : &none, now);
        repairs_take_open(&r, &open_now);
    }
}

static void test_all_at_once(void **state)
{
    (void)state;
    come(0, N_SLOTS);
    repair_all(NOW);
    assert_int_equal(n_repairs, 1);
    assert_int_equal(slots_count(&open_now), N_SLOTS);
}

static void test_one_that_fails_costs_no_other(void **state)
{
    (void)state;
    for (unsigned slot = 0; slot < N_SLOTS; slot += 819) {
        setup(NULL);
        slots_add(&bad, slot);
        come(0, N_SLOTS);
        repair_all(NOW);
        assert_int_equal(slots_count(&open_now), N_SLOTS - 1);
        assert_int_equal(slots_count(&r.unrepaired), 1);
        assert_true(slots_has(&r.unrepaired, slot));
        assert_int_equal(n_news, 1);
        assert_in_range(n_repairs, 13, 40);
    }
}

/* Many side by side look like a store that refuses everything: the others open later. */
static void test_many_that_fail_are_told_from_the_others(void **state)
{
    msec_t now = NOW;
    (void)state;
    for (unsigned slot = 100; slot < 120; slot++)
        slots_add(&bad, slot);
    come(0, 1000);
    repair_all(now);
    for (int i = 0; i < 100 && slots_count(&open_now) < 980; i++) {
        repairs_look(&r, now += 60000);
        repair_all(now);
    }
    assert_int_equal(slots_count(&open_now), 980);
    assert_int_equal(slots_count(&r.unrepaired), 20);
    bad = (struct slots){0};
    repairs_look(&r, now += 60000);
    repair_all(now);
    assert_int_equal(slots_count(&open_now), 1000);
    assert_int_equal(slots_count(&r.unrepaired), 0);
}

static void test_a_store_that_refuses_everything_is_left_alone(void **state)
{
    msec_t now = NOW, before = NOW;
    unsigned rounds = 0, seconds = 0;
    (void)state;
    slots_add_all(&bad);
    come(0, N_SLOTS);
    repair_all(now);
    assert_in_range(n_repairs, 13 + REPAIRS_ALONE - 1, 40);
    assert_int_equal(slots_count(&r.unrepaired), N_SLOTS);
    assert_int_equal(n_news, 1 + (REPAIRS_ALONE - 1)); /* each that failed alone, and the rest */
    n_news = 0;
    for (; seconds < 600; seconds++) {
        repairs_look(&r, now += 1000);
        if (slots_count(&r.waiting) == 0)
            continue;
        rounds++;
        before = now;
        repair_all(now);
        assert_int_equal(slots_count(&r.failed), N_SLOTS);
    }
    assert_in_range(rounds, 10, 20); /* 1, 2, 4 … s, then once a minute */
    assert_in_range(now - before, 0, 60000);
    assert_int_equal(n_news, 0); /* it is told once */
    bad = (struct slots){0};
    repairs_look(&r, now += 60000);
    repair_all(now);
    assert_int_equal(slots_count(&open_now), N_SLOTS);
    assert_int_equal(r.n_tries, 0);
}

static void test_one_that_is_anothers_is_forgotten(void **state)
{
    (void)state;
    slots_add(&bad, 7);
    come(7, 9);
    repair_all(NOW);
    assert_true(slots_has(&r.unrepaired, 7));
    repairs_forget(&r, 7);
    repairs_look(&r, NOW + 3600000);
    assert_int_equal(slots_count(&r.unrepaired) + slots_count(&r.waiting), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_at_once, setup),
        cmocka_unit_test_setup(test_one_that_fails_costs_no_other, setup),
        cmocka_unit_test_setup(test_many_that_fail_are_told_from_the_others, setup),
        cmocka_unit_test_setup(test_a_store_that_refuses_everything_is_left_alone, setup),
        cmocka_unit_test_setup(test_one_that_is_anothers_is_forgotten, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
