/* Tasks that start each other without end: each record has the ids of all above it, so there is an
 * end. */
#define KIT_RUNS 1100
#include "tests/support/hub_kit.h"

static int setup(void **state)
{
    *state = kit_new();
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

#define SPAWN "{'call':'spawn','call_id':'c','input':'next'}"

/* Each starts the next one and ends: at no time are there more than two. */
static void test_hub_chain_of_tasks_has_an_end(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char root[TASK_ID_LEN + 1], last[TASK_ID_LEN + 1];
    snprintf(root, sizeof root, "%s", client_start(c, "c", "go"));
    for (unsigned n = 1; n < MAX_GENERATIONS; n++) {
        struct run *r = kit_run(k, n - 1);
        run_say(k, r, json(SPAWN));
        assert_int_equal(k->n_runs, n + 1);
        snprintf(last, sizeof last, "%s", line_field(r->delivered.bytes, "task_id"));
        run_end(k, r, RUN_DONE, "");
    }
    struct run *r = kit_run(k, MAX_GENERATIONS - 1);
    run_say(k, r, json(SPAWN));
    assert_string_equal(r->delivered.bytes,
                        json("{'type':'error','call_id':'c','code':'overloaded','message':"
                             "'too many generations of tasks'}\n"));
    assert_int_equal(k->n_runs, MAX_GENERATIONS);
    /* All of its ancestors reach it. */
    client_ask(c, "cancel", "c", root, json(",'tree':true"));
    assert_non_null(strstr(client_await(c, json("'cancelled':1,")), last));
    run_end(k, r, RUN_FAILED, "");
    client_free(c);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_chain_of_tasks_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
