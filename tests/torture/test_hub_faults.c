/* Every fault point of the domain fails at its first, second, … passing in a whole conversation,
 * once or from then on, and the promises hold: the witness of hub_world.h sees to it.
 *
 * One life is told again and again, the same each time but for the fault: it ends when the point
 * was not passed often enough for the next one. */
#include "tests/support/hub_world.h"

#ifdef T_ADDRESS
#define LIVES 3
#define TIMES 1, FOR_GOOD
#else
#define LIVES 5 /* of different seeds */
#define TIMES 1, 3, FOR_GOOD
#endif
#define STEPS 240     /* of each, with a crash in the middle */
#define RETRY_MS 2000 /* so that what fails for good is given up within a life */
#define FOR_GOOD 1000000

static uint64_t rng;

static size_t choose(size_t n)
{
    return t_below(&rng, n);
}

static void come_again(void)
{
    see_all();
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client *c = w.watchers[i].client;
        if (c->broken || c->session.state == SESSION_CLOSING)
            drop(i);
    }
}

static void live(uint64_t seed)
{
    rng = seed;
    world_choose = choose;
    begin_the_world();
    w.kit->hub.journal.retry_ms = RETRY_MS;
    for (size_t i = 0; i < STEPS; i++) {
        step();
        come_again();
        if (i % 8 == 0)
            list(i / 8 % CLIENTS);
        if (i % 8 == 4)
            ask(i / 8 % CLIENTS, "send", json(",'content':'a word'"));
        if (i % 8 == 6)
            w.kit->hub.clock.now_ms += 300;
        if (i == STEPS / 4) /* so that a commit is tried again in every life */
            store_inline_fail_commits(w.kit->inline_store, 2, STORE_BUSY);
        if (i == STEPS / 2)
            crash();
    }
    end_the_world();
}

/* The lives that it took until the point was passed by in all of them. */
static unsigned fail_at_each(enum kit_point point, unsigned times, enum store_error error)
{
    unsigned lives = 0, seeds = t_often(LIVES, 1);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        unsigned first = 0;
        do {
            kit_fault.point = point;
            kit_fault.first = ++first;
            kit_fault.times = times;
            kit_fault.error = error;
            live(seed);
            lives++;
        } while (kit_passed[point] >= first);
    }
    assert_true(lives > seeds); /* else it is never passed */
    return lives;
}

static void torture(enum kit_point point, const enum store_error *errors, size_t n_errors)
{
    static const unsigned times[] = {TIMES};
    static const char *const names[] = {
#define X(NAME, name, what) #name,
        KIT_POINTS(X)
#undef X
    };
    unsigned lives = 0;
    for (size_t e = 0; e < n_errors; e++)
        for (size_t t = 0; t < countof(times); t++)
            lives += fail_at_each(point, times[t], errors[e]);
    print_message("%s: %u lives\n", names[point], lives);
}

static void torture_once(enum kit_point point)
{
    static const enum store_error none[] = {STORE_OK};
    torture(point, none, countof(none));
}

static void test_torture_each_commit_fails(void **state)
{
    static const enum store_error errors[] = {STORE_BUSY, STORE_FULL, STORE_IO};
    (void)state;
    torture(KIT_COMMIT, errors, countof(errors));
}

static void test_torture_each_read_fails(void **state)
{
    static const enum store_error errors[] = {STORE_BUSY, STORE_IO, STORE_CORRUPT};
    (void)state;
    torture(KIT_READ, errors, countof(errors));
}

static void test_torture_each_start_of_an_agent_fails(void **state)
{
    (void)state;
    torture_once(KIT_SPAWN);
}

static void test_torture_each_message_to_an_agent_is_refused(void **state)
{
    (void)state;
    torture_once(KIT_DELIVER);
}

static void test_torture_each_hello_is_refused(void **state)
{
    (void)state;
    torture_once(KIT_HELLO);
}

static void test_torture_each_send_breaks_the_connection(void **state)
{
    (void)state;
    torture_once(KIT_SEND);
}

static void test_torture_each_timer_is_late(void **state)
{
    (void)state;
    torture_once(KIT_TIMER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torture_each_commit_fails),
        cmocka_unit_test(test_torture_each_read_fails),
        cmocka_unit_test(test_torture_each_start_of_an_agent_fails),
        cmocka_unit_test(test_torture_each_message_to_an_agent_is_refused),
        cmocka_unit_test(test_torture_each_hello_is_refused),
        cmocka_unit_test(test_torture_each_send_breaks_the_connection),
        cmocka_unit_test(test_torture_each_timer_is_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
