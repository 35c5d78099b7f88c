/* Workers: who gets which run, when lines are acknowledged, what becomes of runs that are lost. */
#include "tests/support/worker_end.h"

/* --- tests ------------------------------------------------------------------------------------ */

/* A run is handed out when a note of that is on disk. */
static void join_and_settle(struct end *e, const char *name, int runs, const char *open)
{
    end_join(e, name, runs, open);
    kit_settle(kit);
}

static void test_ack_comes_with_the_commit_and_not_before(void **state)
{
    (void)state;
    join_and_settle(&one, "i", 4, "");
    end_expect(&one, json("{'type':'welcome','grace_s':30,'open':{}}"));
    ask(ann, "first");
    end_expect(&one, json("'type':'run'"));
    end_token(&one, run_id, 1, "a");
    end_token(&one, run_id, 2, "b");
    kit_turn(kit);
    end_expect_nothing(&one);
    kit_settle(kit);
    end_expect(&one, json("'type':'ack'")); /* one for both */
    end_says(&one, run_id, 3, json("'end':'done'"));
    kit_turn(kit);
    end_expect_nothing(&one);
    kit_settle(kit);
    end_expect(&one, json("{'type':'gone','run':'"));
    expect_end(ann, json("'output':'ab'"));
    end_expect_nothing(&one);
}

static void test_failing_commits_are_never_acknowledged(void **state)
{
    (void)state;
    join_and_settle(&one, "i", 4, "");
    end_expect(&one, "welcome");
    ask(ann, "first");
    end_expect(&one, json("'type':'run'"));
    kit_fault.point = KIT_COMMIT;
    kit_fault.first = kit_passed[KIT_COMMIT] + 1;
    kit_fault.times = 1000000;
    kit_fault.error = STORE_IO;
    end_token(&one, run_id, 1, "a");
    kit_settle(kit);
    assert_false(one.held); /* nobody has said more since */
    end_token(&one, run_id, 2, "b");
    kit_settle(kit);
    assert_true(one.held);
    end_expect_nothing(&one);
    kit_fault.times = 0;
    for (int i = 0; i < 20; i++)
        kit_pass(kit, 1000);
    end_expect(&one, json("'n':2}"));
    assert_false(one.held);
}

static void test_commits_that_are_given_up_end_the_run(void **state)
{
    (void)state;
    join_and_settle(&one, "i", 4, "");
    end_expect(&one, "welcome");
    ask(ann, "first");
    end_expect(&one, json("'type':'run'"));
    kit_fault.point = KIT_COMMIT;
    kit_fault.first = kit_passed[KIT_COMMIT] + 1;
    kit_fault.times = 1000000;
    kit_fault.error = STORE_IO;
    end_token(&one, run_id, 1, "a");
    for (int i = 0; i < 60; i++)
        kit_pass(kit, 1000);
    kit_fault.times = 0;
    for (int i = 0; i < 60; i++)
        kit_pass(kit, 1000);
    expect_end(ann, json("'code':'internal'"));
    const char *line = end_next(&one);
    while (*line && !strstr(line, "gone"))
        line = end_next(&one);
    assert_non_null(strstr(line, "gone"));
}

static void test_owner_with_the_fewest_runs_is_next(void **state)
{
    struct client *bob = client_new(kit, "bob");
    char ids[6][TASK_ID_LEN + 1];
    (void)state;
    for (int i = 0; i < 5; i++)
        snprintf(ids[i], sizeof ids[i], "%s", ask(ann, "first"));
    snprintf(ids[5], sizeof ids[5], "%s", ask(bob, "first"));
    assert_int_equal(workers_waiting(workers), 6);
    join_and_settle(&one, "i", 2, "");
    end_expect(&one, "welcome");
    end_expect(&one, ids[0]);
    end_expect(&one, ids[5]); /* bob's only one, before four of ann's that came earlier */
    end_says(&one, ids[5], 1, json("'end':'done'"));
    kit_settle(kit);
    end_expect(&one, "gone");
    end_expect(&one, ids[1]);
    client_free(bob);
}

static void test_run_goes_where_most_room_is(void **state)
{
    (void)state;
    join_and_settle(&one, "small", 1, "");
    join_and_settle(&two, "large", 3, "");
    for (int i = 0; i < 5; i++)
        ask(ann, "first");
    struct worker_view v = workers_view(workers, 0);
    assert_int_equal(v.runs, 4);
    assert_int_equal(v.instances, 2);
    assert_int_equal(workers_waiting(workers), 1);
    int n[2] = {0};
    for (const char *line; *(line = end_next(&one)) != 0;)
        n[0] += strstr(line, json("'type':'run'")) != NULL;
    for (const char *line; *(line = end_next(&two)) != 0;)
        n[1] += strstr(line, json("'type':'run'")) != NULL;
    assert_int_equal(n[0], 1);
    assert_int_equal(n[1], 3);
}

static void test_worker_gets_no_more_than_its_runs(void **state)
{
    (void)state;
    const char *hello = json("{'type':'hello','worker':'cpu','secret':'" SECRET
                             "','instance':'i','agents':['first'],'runs':9}");
    assert_string_equal(end_hello(&one, hello), "");
    ask(ann, "first");
    ask(ann, "first");
    assert_int_equal(workers_view(workers, 1).runs, 1);
    ask(ann, "second"); /* which it does not serve */
    assert_int_equal(workers_waiting(workers), 2);
}

static void test_hellos_that_are_refused(void **state)
{
#define HELLO                                                                           \
    json("{'type':'hello','worker':'%s','secret':'%s','instance':'%s','agents':['%s']," \
         "'runs':1}")
    const struct {
        const char *worker, *secret, *agent, *why;
    } rows[] = {
        {"gpu", SECRET "x", "first", "the worker's name or secret is wrong"},
        {"gpu", "a", "first", "the worker's name or secret is wrong"},
        {"tpu", SECRET, "first", "the worker's name or secret is wrong"},
        {"gpu", SECRET, "third", "\"agents\" has one that is not among the agents of this worker"},
        {"cpu", SECRET, "second", "\"agents\" has one that is not among the agents of this worker"},
    };
    char line[512];
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        snprintf(line, sizeof line, HELLO, rows[i].worker, rows[i].secret, "i", rows[i].agent);
        assert_string_equal(end_hello(&one, line), rows[i].why);
    }
    assert_int_equal(workers_stats(workers)->refused, 3);
    struct end more[4] = {{0}};
    for (int i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), 0};
        snprintf(line, sizeof line, HELLO, "gpu", SECRET, name, "first");
        assert_string_equal(end_hello(&more[i], line),
                            i < 3 ? "" : "this worker has as many instances as it may have");
    }
    for (int i = 0; i < 4; i++)
        end_done(&more[i]);
    assert_int_equal(workers_view(workers, 0).instances, 0);
}

static void test_lost_run_goes_on_elsewhere_only_if_nothing_came(void **state)
{
    char ids[3][TASK_ID_LEN + 1];
    (void)state;
    join_and_settle(&one, "i", 4, "");
    for (int i = 0; i < 3; i++)
        snprintf(ids[i], sizeof ids[i], "%s", ask(ann, i == 2 ? "first" : "second"));
    while (*end_next(&one))
        ;
    char ack[128];
    snprintf(ack, sizeof ack, json("{'type':'ack','run':'%s','n':1}"), ids[0]);
    end_say(&one, ack);
    end_token(&one, ids[1], 1, "said");
    kit_settle(kit);
    end_cut(&one);
    kit_pass(kit, 29000);
    assert_int_equal(workers_view(workers, 0).away, 1);
    kit_pass(kit, 2000);
    assert_int_equal(workers_view(workers, 0).away, 0);
    expect_end(ann, json("'code':'orphaned'"));
    expect_end(ann, json("'code':'orphaned'"));
    assert_int_equal(workers_stats(workers)->lost, 3);
    join_and_settle(&two, "other", 4, "");
    end_expect(&two, "welcome");
    end_expect(&two, ids[0]);
    end_says(&two, ids[0], 1, json("'end':'done'"));
    expect_end(ann, "task.completed");
}

/* A hello in between would learn that the run is over. */
static void test_hello_waits_until_runs_have_begun_again(void **state)
{
    char open[64];
    (void)state;
    join_and_settle(&one, "i", 4, "");
    ask(ann, "first");
    while (*end_next(&one))
        ;
    end_cut(&one);
    crash();
    assert_true(was_resuming);
    snprintf(open, sizeof open, json("'%s':1"), run_id);
    join_and_settle(&one, "i", 4, open);
    end_expect(&one, run_id); /* welcome names it */
    end_says(&one, run_id, 1, json("'end':'done'"));
    kit_settle(kit);
    end_expect(&one, "gone");
    end_cut(&one);
    crash();
    assert_false(was_resuming);
}

/* The old worker was only cut off, and comes back when its run is another's. */
static void test_run_that_moved_is_not_its_old_workers(void **state)
{
    (void)state;
    join_and_settle(&one, "i", 4, "");
    ask(ann, "second");
    while (*end_next(&one))
        ;
    end_cut(&one);
    kit_pass(kit, 31000);
    join_and_settle(&two, "other", 4, "");
    end_expect(&two, "welcome");
    end_expect(&two, run_id);
    char open[64];
    snprintf(open, sizeof open, json("'%s':1"), run_id);
    join_and_settle(&one, "i", 4, open);
    end_expect(&one, json("'open':{}"));
    end_token(&one, run_id, 1, "from the old one");
    end_expect(&one, "gone");
    end_token(&two, run_id, 1, "new");
    end_says(&two, run_id, 2, json("'end':'done'"));
    expect_end(ann, json("'output':'new'"));
}

static void test_wait_for_a_place_has_an_end_and_its_idle_clock_stands(void **state)
{
    (void)state;
    kit->agents[0].idle_timeout_ms = 1000;
    ask(ann, "first");
    kit_pass(kit, 59000);
    assert_int_equal(workers_waiting(workers), 1);
    kit_pass(kit, 2000);
    expect_end(ann, "agent_error: no worker took it within 60 s");
    ask(ann, "first");
    join_and_settle(&one, "i", 4, "");
    while (*end_next(&one))
        ;
    end_cut(&one);
    kit_pass(kit, 20000); /* away: neither */
    join_and_settle(&one, "i", 4, "");
    kit_pass(kit, 500);
    kit_pass(kit, 2500);
    kit_pass(kit, 6000);
    expect_end(ann, json("'code':'timeout'"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ack_comes_with_the_commit_and_not_before),
        TEST(test_failing_commits_are_never_acknowledged),
        TEST(test_commits_that_are_given_up_end_the_run),
        TEST(test_owner_with_the_fewest_runs_is_next),
        TEST(test_run_goes_where_most_room_is),
        TEST(test_worker_gets_no_more_than_its_runs),
        TEST(test_hellos_that_are_refused),
        TEST(test_lost_run_goes_on_elsewhere_only_if_nothing_came),
        TEST(test_hello_waits_until_runs_have_begun_again),
        TEST(test_run_that_moved_is_not_its_old_workers),
        TEST(test_wait_for_a_place_has_an_end_and_its_idle_clock_stands),
    };
    return worker_end_run(tests, countof(tests));
}
