/* The reading of live tasks at a start, some of them at once. */
#include "tests/support/hub_kit.h"

#define TASKS 40 /* more than are read at once */

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

static char ids[TASKS][TASK_ID_LEN + 1];

static const char *owner_of(int i)
{
    return i % 2 ? "ann" : "bob"; /* one may not have so many */
}

static void start_tasks(struct kit *k)
{
    for (int i = 0; i < TASKS; i++) {
        struct client *c = client_new(k, owner_of(i));
        snprintf(ids[i], sizeof ids[i], "%s", client_start(c, "c", "hi"));
        run_say(k, kit_run(k, (size_t)i), json("{'event':'token','data':{'text':'half'}}"));
        client_free(c);
    }
}

/* A start after a crash, up to the first query about a live task, which waits. */
static void hold_first_task(struct kit *k, int *ret_status)
{
    kit_close_hub(k);
    kit_open_hub(k);
    *ret_status = 1;
    hub_restore(&k->hub, kit_on_ready, ret_status);
    while (store_inline_next(k->inline_store) != QUERY_BLOCKS)
        assert_true(kit_step(k));
    assert_true(store_inline_hold(k->inline_store, false));
}

static void expect_orphans(struct kit *k)
{
    for (int i = 0; i < TASKS; i++) {
        struct client *c = client_new(k, owner_of(i));
        client_ask(c, "task", "c", ids[i], "");
        const char *record = client_await(c, json("'type':'task'"));
        assert_non_null(strstr(record, json("'code':'orphaned'")));
        assert_non_null(strstr(record, json("'output':'half'")));
        client_free(c);
    }
}

static void test_hub_restore_reads_tasks_side_by_side(void **state)
{
    struct kit *k = *state;
    int status;
    start_tasks(k);
    hold_first_task(k, &status);
    unsigned before = kit_passed[KIT_READ];
    kit_settle(k);
    assert_int_equal(kit_passed[KIT_READ] - before, 2 * (TASKS - 1)); /* its events, its inbox */
    assert_int_equal(status, 1);
    store_inline_release(k->inline_store);
    kit_settle(k);
    assert_int_equal(status, 0);
    expect_orphans(k);
}

/* The others are asked first: it has their memory. */
static void test_hub_restore_that_fails_waits_for_what_it_asked(void **state)
{
    struct kit *k = *state;
    int status;
    start_tasks(k);
    hold_first_task(k, &status);
    store_inline_fail_queries(k->inline_store, 1, STORE_IO);
    unsigned before = kit_passed[KIT_READ];
    kit_settle(k);
    assert_true(kit_passed[KIT_READ] - before < 2 * (TASKS - 1)); /* of no further task */
    assert_int_equal(status, 1);
    store_inline_release(k->inline_store);
    kit_settle(k);
    assert_int_equal(status, STORE_IO);
    kit_crash(k);
    expect_orphans(k);
}

static void test_hub_restore_is_closed_while_it_reads(void **state)
{
    struct kit *k = *state;
    int status;
    start_tasks(k);
    hold_first_task(k, &status);
    store_inline_release(k->inline_store);
    kit_crash(k);
    expect_orphans(k);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_restore_reads_tasks_side_by_side),
        HUB_TEST(test_hub_restore_that_fails_waits_for_what_it_asked),
        HUB_TEST(test_hub_restore_is_closed_while_it_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
