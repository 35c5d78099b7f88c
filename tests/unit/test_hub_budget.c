/* Budgets of tasks whose agents do not ask by themselves: when it is asked, and what waits. */
#include "tests/support/hub_kit.h"

struct tool_job {
    int unused;
};

static struct tool_job job;
static unsigned n_started;

static struct tool_job *slow_start(const struct tool *tool, const struct tool_caller *caller,
                                   struct str arguments, tool_done_fn done, void *user,
                                   struct buf *out)
{
    (void)tool, (void)caller, (void)arguments, (void)done, (void)user, (void)out;
    n_started++;
    return &job;
}

static void slow_stop(struct tool_job *j)
{
    (void)j;
}

static const struct tool slow = {.name = "slow", .start = slow_start, .stop = slow_stop};
static const struct tool *const tools[] = {&slow};

static int setup(void **state)
{
    struct kit *k = kit_new();
    n_started = 0;
    k->agents[0].tools = tools;
    k->agents[0].n_tools = countof(tools);
    k->agents[0].has_budget = true;
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

#define TOLD(id) "{'event':'tool_call','data':{'call_id':'" id "','name':'look','arguments':{}}}"
#define CALL(id) "{'call':'tool','call_id':'" id "','name':'slow','arguments':{}}"
#define ASKED(n) "'event':'input_required','data':{'input_id':'budget-" n "'"

static void test_hub_budget_of_calls_is_asked_about_at_the_call_beyond(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    k->agents[0].budget.tool_calls = 1;
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json(TOLD("a")));
    kit_settle(k);
    assert_true(r->wants_more);
    run_say(k, r, json(CALL("b")));
    assert_false(r->wants_more);
    const char *asked = client_await(c, json(ASKED("1")));
    assert_non_null(strstr(asked, json("'arguments':{'tool_calls':{'used':1,'limit':1}}")));
    client_await(c, json("'event':'tool_call','data':{'call_id':'b'"));
    assert_int_equal(n_started, 0);
    client_ask(c, "respond", "c", task, json(",'input_id':'budget-1','answer':true"));
    client_await(c, json("'event':'input_received'"));
    kit_settle(k);
    assert_int_equal(n_started, 1);
    assert_true(r->wants_more);
    assert_int_equal(r->delivered.len, 0); /* the answer is not the agent's */
    run_say(k, r, json(TOLD("d")));        /* b was the first of the new budget */
    client_await(c, json(ASKED("2")));
    client_free(c);
}

static void test_hub_budget_that_is_refused_ends_the_task(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    k->agents[0].budget.tool_calls = 1;
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'event':'token','data':{'text':'said'}}"));
    run_say(k, r, json(TOLD("a")));
    run_say(k, r, json(TOLD("b")));
    client_await(c, json(ASKED("1")));
    client_ask(c, "respond", "c", task, json(",'input_id':'budget-1','answer':false"));
    client_await(c, json("'event':'input_received'"));
    assert_int_equal(r->cancels, 1);
    run_end(k, r, RUN_FAILED, "");
    const char *end = client_await(c, json("'event':'task.failed'"));
    assert_non_null(strstr(end, "agent_error: the budget is used up: 1 of 1 tool calls"));
    assert_non_null(strstr(end, json("'output':'said'")));
    client_free(c);
}

static void test_hub_budget_of_seconds_is_asked_about_in_silence(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    k->agents[0].budget.seconds = 10;
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r,
            json("{'event':'input_required','data':{'input_id':'own','kind':'question',"
                 "'prompt':'?'}}"));
    client_await(c, json("'input_id':'own'"));
    kit_pass(k, 11000); /* while the user is asked anything else, it waits */
    assert_null(strstr(c->got.bytes, "budget-1"));
    client_ask(c, "respond", "c", task, json(",'input_id':'own','answer':'x'"));
    client_await(c, json(ASKED("1")));
    kit_pass(k, 60000); /* it is asked once */
    assert_null(strstr(c->got.bytes, "budget-2"));
    client_ask(c, "respond", "c", task, json(",'input_id':'budget-1','answer':true"));
    client_await(c, json("'input_id':'budget-1','answer':true"));
    kit_pass(k, 9000);
    assert_null(strstr(c->got.bytes, "budget-2"));
    kit_pass(k, 2000);
    client_await(c, json(ASKED("2")));
    client_free(c);
}

static void test_hub_budget_is_no_matter_of_a_task_that_is_cancelled(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    k->agents[0].budget.tool_calls = 1;
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json(TOLD("a")));
    run_say(k, r, json(CALL("b")));
    client_await(c, json(ASKED("1")));
    client_ask(c, "cancel", "c", task, "");
    client_await(c, json("'type':'ok'"));
    assert_true(r->wants_more); /* its last words are read */
    run_say(k, r, json(TOLD("e")));
    run_end(k, r, RUN_DONE, "");
    client_await(c, json("'event':'task.failed','data':{'status':'cancelled'"));
    assert_null(strstr(c->got.bytes, "budget-2"));
    assert_int_equal(n_started, 0);
    client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hub_budget_of_calls_is_asked_about_at_the_call_beyond,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_hub_budget_that_is_refused_ends_the_task, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_hub_budget_of_seconds_is_asked_about_in_silence, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_hub_budget_is_no_matter_of_a_task_that_is_cancelled,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
