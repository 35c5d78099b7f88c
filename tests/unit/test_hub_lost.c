/* The losses of an abandoned batch: the tasks that lost lines, and nothing else. */
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

static struct stream *stream_of(struct run *r)
{
    return ((struct task *)r->task)->stream;
}

/* F37: the tails of silent tasks are sealed with whatever else is written.  When that is given up,
 * they are as they were: all that they said is on disk. */
static void test_hub_given_up_seal_of_a_silent_task_costs_it_nothing(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *silent = client_start(c, "silent", "hi");
    client_start(c, "loud", "hi");
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'kept'}}"));
    client_await(c, "kept");
    kit_pass(k, TAIL_AGE_MS - 1000);
    run_say(k, kit_run(k, 1), json("{'event':'token','data':{'text':'heard'}}"));
    client_await(c, "heard");
    const size_t tail = stream_of(kit_run(k, 0))->tail.len;
    assert_true(tail > 0);

    store_inline_fail_commits(k->inline_store, 60, STORE_IO);
    kit_run(k, 1)->events->on_line(kit_run(k, 1)->task,
                                   str_of(json("{'event':'token','data':{'text':'lost'}}")));
    kit_pass(k, 2000); /* the tail is old, and goes with the line */
    assert_non_null(stream_of(kit_run(k, 0))->sealing);
    for (int i = 0; i < 100; i++)
        kit_pass(k, 1000);
    assert_false(kit_run(k, 0)->freed);
    assert_true(kit_run(k, 1)->freed);
    assert_non_null(strstr(client_await(c, "task.failed"), json("'code':'internal'")));

    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'more'}}"));
    client_await(c, json("'seq':4,"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_non_null(strstr(client_await(c, "task.completed"), silent));
    client_ask(c, "resume", "silent", silent, "");
    client_await(c, "kept");
    client_await(c, "more");
    client_await(c, json("'caught_up'"));
    client_free(c);
}

/* A tail that is never sealed would keep the journal from being emptied, for as long as the task is
 * silent. */
static void test_hub_given_up_seal_is_made_when_the_store_is_back(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'kept'}}"));
    store_inline_fail_commits(k->inline_store, 60, STORE_IO);
    kit_pass(k, TAIL_AGE_MS + 1000);
    assert_non_null(stream_of(kit_run(k, 0))->sealing);
    for (int i = 0; i < 100 + TAIL_AGE_MS / 1000; i++)
        kit_pass(k, 1000);
    assert_false(kit_run(k, 0)->freed);
    assert_true(hub_can_write(&k->hub));
    assert_null(stream_of(kit_run(k, 0))->sealing);
    assert_int_equal(stream_of(kit_run(k, 0))->tail.len, 0);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, "task.completed");
    client_free(c);
}

/* A task whose end was lost ends anew, and still has what it said. */
static void test_hub_end_that_was_given_up_keeps_its_output(void **state)
{
    struct kit *k = *state;
    for (int answers = 0; answers < 2; answers++) {
        struct client *c = client_new(k, "ann");
        client_start(c, "c", "hi");
        run_say(k, kit_run(k, (size_t)answers), json("{'event':'token','data':{'text':'kept'}}"));
        if (answers)
            run_say(k, kit_run(k, 1), json("{'event':'final_answer','data':{'output':'kept'}}"));
        client_await(c, "kept");
        store_inline_fail_commits(k->inline_store, 60, STORE_IO);
        run_end(k, kit_run(k, (size_t)answers), RUN_DONE, "");
        for (int i = 0; i < 100; i++)
            kit_pass(k, 1000);
        assert_non_null(strstr(client_await(c, "task.failed"), json("'output':'kept'")));
        client_free(c);
    }
}

/* Its new end knows as well that it said more than is kept. */
static void test_hub_end_that_was_given_up_is_still_cut(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char line[32 * 1024];
    const char *task = client_start(c, "c", "hi");
    const int text = (int)sizeof line - 64;
    snprintf(line, sizeof line, json("{'event':'token','data':{'text':'%0*d'}}"), text, 0);
    for (int i = 0; i < MAX_OUTPUT / text + 2; i++) {
        run_say(k, kit_run(k, 0), line);
        kit_pass(k, 10);
    }
    store_inline_fail_commits(k->inline_store, 60, STORE_IO);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    for (int i = 0; i < 100; i++)
        kit_pass(k, 1000);
    client_await(c, "task.failed");
    client_ask(c, "task", "c", task, "");
    const char *told = client_await(c, json("'type':'task'"));
    assert_non_null(strstr(told, json("'output_truncated':true")));
    client_free(c);
}

/* F37: its sync failed, and the process died before it was tried again; but the log has it. */
static void lie_once(struct kit *k)
{
    kit_commit_lies = true;
    k->bounded = true;
    k->steps_left = 1;
}

/* Nobody has seen it, and it is there: as if it had been committed and not told. Events seen before
 * keep their numbers. */
static void test_hub_commit_that_failed_and_is_there_is_dense_and_ends_once(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char task[TASK_ID_LEN + 1];
    snprintf(task, sizeof task, "%s", client_start(c, "c", "hi"));
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'seen'}}"));
    client_await(c, json("'seq':3,"));
    lie_once(k);
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'unseen'}}"));
    client_expect_nothing(c);
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    client_ask(c, "resume", "c", task, json(",'after':3"));
    client_await(c, json("'seq':4,"));
    assert_non_null(strstr(client_await(c, json("'seq':5,")), json("'code':'orphaned'")));
    client_await(c, json("'caught_up'"));
    client_expect_nothing(c);
    client_free(c);
}

static void test_hub_end_that_failed_and_is_there_is_the_end(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char task[TASK_ID_LEN + 1];
    snprintf(task, sizeof task, "%s", client_start(c, "c", "hi"));
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'all'}}"));
    client_await(c, json("'seq':3,"));
    lie_once(k);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_expect_nothing(c);
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    client_ask(c, "resume", "c", task, json(",'after':3"));
    client_await(c, json("'event':'final_answer'"));
    client_await(c, json("'event':'task.completed'"));
    client_await(c, json("'caught_up'"));
    client_expect_nothing(c);
    client_free(c);
}

/* A client that repeats a request without a reply, or with a refusal, finds the task: it runs
 * once. */
static void test_hub_start_that_failed_and_is_there_is_found_by_its_key(void **state)
{
    static const char request[] = "{\"type\":\"chat\",\"id\":\"1\",\"conversation_id\":\"c\","
                                  "\"message\":\"hi\",\"request_key\":\"k\"}";
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_await(c, json("'welcome'"));
    lie_once(k);
    k->steps_left = 2; /* its key is looked up first */
    client_say(c, request);
    client_expect_nothing(c);
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 1);
    c = client_new(k, "ann");
    client_say(c, request);
    client_await(c, json("'repeated':true"));
    kit_settle(k);
    assert_int_equal(k->n_runs, 1);
    client_free(c);
}

/* A cursor from before the loss may be of another event with that number, unless its client knows
 * better; tasks of later have no other history. */
static void test_hub_cursor_of_a_lost_history_is_refused(void **state)
{
    struct kit *k = *state;
    struct client *before = client_new(k, "ann");
    char old[TASK_ID_LEN + 1], later[TASK_ID_LEN + 1];
    client_expect(before, "welcome");
    assert_null(strstr(before->got.bytes, "epoch"));
    snprintf(old, sizeof old, "%s", client_start(before, "c", "hi"));
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'said'}}"));
    client_await(before, json("'seq':3,"));
    client_free(before);

    hub_rewound(&k->hub, 7, 8);
    struct client *c = client_new(k, "ann");
    client_expect(c, json("'epoch':7"));
    client_ask(c, "resume", "c", old, json(",'after':2"));
    client_await(c, json("'code':'out_of_range'"));
    client_ask(c, "resume", "c", old, json(",'after':2,'epoch':6"));
    client_await(c, json("'code':'out_of_range'"));
    client_ask(c, "resume", "c", old, json(",'after':2,'epoch':7"));
    assert_non_null(strstr(client_await(c, json("'resumed'")), json("'epoch':7")));
    client_ask(c, "resume", "c", old, json(",'after':0"));
    client_await(c, json("'resumed'"));

    snprintf(later, sizeof later, "%s", client_start(c, "d", "hi"));
    run_say(k, kit_run(k, 1), json("{'event':'token','data':{'text':'said'}}"));
    client_ask(c, "resume", "d", later, json(",'after':1"));
    client_await(c, json("'resumed'"));
    client_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_given_up_seal_of_a_silent_task_costs_it_nothing),
        TEST(test_hub_given_up_seal_is_made_when_the_store_is_back),
        TEST(test_hub_end_that_was_given_up_keeps_its_output),
        TEST(test_hub_end_that_was_given_up_is_still_cut),
        TEST(test_hub_commit_that_failed_and_is_there_is_dense_and_ends_once),
        TEST(test_hub_end_that_failed_and_is_there_is_the_end),
        TEST(test_hub_start_that_failed_and_is_there_is_found_by_its_key),
        TEST(test_hub_cursor_of_a_lost_history_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
