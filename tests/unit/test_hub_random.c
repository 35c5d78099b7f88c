/* Random lives, against the witness of hub_world.h.  T_SEED repeats a run. */
#include "tests/support/hub_world.h"

static uint64_t rng;

static size_t choose(size_t n)
{
    return t_below(&rng, n);
}

static void test_hub_random_lives_keep_the_promises(void **state)
{
    (void)state;
    uint64_t seed = t_seed();
    unsigned crashes = 0, lines = 0, turned = 0;
    size_t tasks = 0;
    world_choose = choose;
    for (uint64_t life = 0; life < 8; life++) {
        print_message("life %u\n", (unsigned)life);
        rng = seed + life;
        live_once(6000);
        crashes += w.crashes;
        turned += w.turned;
        lines += w.lines;
        tasks += w.n_tasks;
    }
    print_message("%zu tasks, %u lines, %u crashes, %u branches told\n", tasks, lines, crashes,
                  turned);
    assert_true(tasks > 100 && lines > 5000 && crashes > 5 && turned > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hub_random_lives_keep_the_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
