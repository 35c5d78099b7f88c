/* Everything before a run: thousands of chats that wait, and the store's part in a start. */
#include <time.h>

#define KIT_RUNS 1024
#include "tests/support/hub_kit.h"

#ifdef T_ADDRESS
#define N_BACKGROUND 2000
#define N_QUEUED 200
#else
#define N_BACKGROUND 4000
#define N_QUEUED 400
#endif

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

/* Adds background tasks up to that many, and as many chats as ever; returns the processor's seconds
 * that the ends of the chats take. */
static double ends_beside(struct kit *k, struct client *c, int from, int to)
{
    size_t had = k->n_runs;
    for (int i = from; i < to; i++) /* the first has the only slot */
        chat(c, json(",'background':true"), i);
    had = k->n_runs > had ? k->n_runs : had;
    for (int i = 0; i < N_QUEUED; i++)
        chat(c, json(",'when_busy':'enqueue','agent':'second'"), i);
    double begun = cpu_s();
    for (size_t i = 0; i < N_QUEUED; i++)
        run_end(k, kit_run(k, had + i), RUN_DONE, "");
    assert_int_equal(k->n_runs, had + N_QUEUED);
    return cpu_s() - begun;
}

/* One walk for each end: among four times as many an end takes four times as long.  One walk for
 * each of those that wait would take sixteen. */
static void test_hub_end_among_thousands_costs_one_walk(void **state)
{
    struct kit *k = *state;
    k->hub.o.limits.processes = 1;
    k->agents[1].is_process = false;
    struct client *c = client_new(k, "ann");
    double few = ends_beside(k, c, 0, N_BACKGROUND / 4);
    double many = ends_beside(k, c, N_BACKGROUND / 4, N_BACKGROUND);
    client_free(c);
    if (many > 12 * few)
        fail_msg("%.3f s beside %d, %.3f s beside %d", few, N_BACKGROUND / 4, many, N_BACKGROUND);
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

/* A chat whose start is on its way: task.started to the disk, and the history from it. */
static const struct task *starting(struct kit *k, struct client *c)
{
    session_receive(&c->session,
                    str_of(json("{'type':'chat','conversation_id':'c','message':'hi'}")));
    for (int i = 0; i < 10; i++) {
        kit_turn(k);
        const struct conversation *conversation =
            conversation_find(&k->hub, str_of(c->session.owner->name), STR("c"));
        assert_non_null(conversation);
        const struct task *t =
            list_item(conversation->tasks.next, const struct task, in_conversation);
        if (t->phase == PHASE_STARTING)
            return t;
        assert_true(kit_step(k));
    }
    fail_msg("it does not start");
    return NULL;
}

/* Neither waits for the other, and the agent is let go when both are there. */
static void test_hub_history_is_read_beside_the_commit_of_the_start(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "alice");
    client_await(c, json("'welcome'"));
    const struct task *first = starting(k, c);
    assert_int_equal(store_inline_next(k->inline_store), QUERY_PATH);
    assert_true(store_inline_step_query(k->inline_store));
    assert_int_equal(first->phase, PHASE_STARTING);
    assert_int_equal(k->n_runs, 0);
    assert_true(store_inline_step_commit(k->inline_store));
    assert_int_equal(first->phase, PHASE_RUNNING);
    assert_int_equal(k->n_runs, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    const struct task *second = starting(k, c);
    assert_true(store_inline_step_commit(k->inline_store));
    assert_int_equal(second->phase, PHASE_STARTING);
    assert_true(store_inline_step_query(k->inline_store));
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

/* A history that cannot be read ends the task, whether its start is on disk by then or not. */
static void test_hub_history_that_cannot_be_read_ends_the_task(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "alice");
    client_await(c, json("'welcome'"));
    for (int committed = 0; committed < 2; committed++) {
        starting(k, c);
        if (committed)
            assert_true(store_inline_step_commit(k->inline_store));
        store_inline_fail_queries(k->inline_store, 1, STORE_IO);
        assert_true(store_inline_step_query(k->inline_store));
        kit_settle(k);
        client_await(c, json("'event':'task.started'"));
        client_await(c, json("'event':'task.failed','data':{'status':'failed','error':"
                             "{'code':'internal'"));
    }
    assert_int_equal(k->n_runs, 0);
    client_free(c);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hub_end_among_thousands_costs_one_walk),
        TEST(test_hub_those_that_wait_start_in_order),
        TEST(test_hub_history_is_read_beside_the_commit_of_the_start),
        TEST(test_hub_history_that_cannot_be_read_ends_the_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
