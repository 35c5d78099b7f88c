/* A conversation in which thousands wait: their order, and what an end costs. */
#include <time.h>

#define KIT_RUNS 512
#include "tests/support/hub_kit.h"

#define N_BACKGROUND 4000
#define N_QUEUED 400

static int setup(void **state)
{
    struct kit *k = kit_new();
    struct hub_limits *l = &k->hub.o.limits;
    l->tasks = l->tasks_per_owner = l->subscriptions = 2 * (N_BACKGROUND + N_QUEUED);
    l->burst = l->requests_per_second = 100000;
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static void chat(struct client *c, const char *more, int i)
{
    char line[200];
    snprintf(line, sizeof line, json("{'type':'chat','conversation_id':'c','message':'%d'%s}"), i,
             more);
    client_say(c, line);
    client_await(c, json("'started'"));
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One walk for each end.  One for each of those that wait would be at 4 * 10^8 steps, which take
 * seconds. */
static void test_hub_end_among_thousands_costs_one_walk(void **state)
{
    struct kit *k = *state;
    k->hub.o.limits.processes = 1;
    k->agents[1].is_process = false;
    struct client *c = client_new(k, "ann");
    for (int i = 0; i < N_BACKGROUND; i++) /* the first has the only slot */
        chat(c, json(",'background':true"), i);
    for (int i = 0; i < N_QUEUED; i++)
        chat(c, json(",'when_busy':'enqueue','agent':'second'"), i);
    double begun = cpu_s();
    for (int i = 1; i <= N_QUEUED; i++)
        run_end(k, kit_run(k, (size_t)i), RUN_DONE, "");
    double took = cpu_s() - begun;
    assert_int_equal(k->n_runs, N_QUEUED + 1);
    client_free(c);
    if (took > 0.5)
        fail_msg("%.2f s", took);
}

/* First in, first out, one after the other; a slot that is free is taken by one, and no limit is
 * met again. */
static void test_hub_those_that_wait_start_in_order(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    chat(c, "", 0);
    for (int i = 1; i <= 50; i++)
        chat(c, json(",'when_busy':'enqueue'"), i);
    for (int i = 0; i <= 50; i++) {
        char input[16];
        snprintf(input, sizeof input, "%d", i);
        assert_int_equal(k->n_runs, i + 1);
        assert_string_equal(kit_run(k, (size_t)i)->input, input);
        run_end(k, kit_run(k, (size_t)i), RUN_DONE, "");
    }
    client_free(c);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hub_end_among_thousands_costs_one_walk),
        TEST(test_hub_those_that_wait_start_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
