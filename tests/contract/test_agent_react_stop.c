/* A run of the ReAct loop that is stopped, or taken up elsewhere, while a command of it runs: what
 * is committed before, and what is begun again. */
#include "tests/support/react_story.h"

/* Until that was told; nothing that runs comes to an end. */
static void run_until(struct story *s, const char *part)
{
    for (int i = 0; i < 2000 && !has_told(s, part); i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        kit_turn(s->k);
        if (!has_told(s, part))
            kit_step(s->k);
    }
    assert_true(has_told(s, part));
}

/* It does what it is up to; the store does nothing. */
static void pass_turns(struct story *s)
{
    for (int i = 0; i < 20; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        kit_turn(s->k);
    }
}

/* Until so many commands have begun, of which none ends. */
static void run_until_commands(struct story *s, size_t n)
{
    for (int i = 0; i < 2000 && world.n_commands < n; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        kit_turn(s->k);
        kit_step(s->k);
    }
    assert_int_equal(world.n_commands, n);
}

#define COMMAND_UNKNOWN json("'call_id':'b','name':'command','output':'" TOOL_UNKNOWN "'")

/* A command that has begun at one place is not begun again at another, nor at the first one again:
 * the model is told that nobody knows.  What had not begun begins. */
static void test_react_a_command_that_began_elsewhere_is_not_begun_again(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++) {
        struct story s = {0};
        begin(&s);
        start(&s);
        run_until_commands(&s, 1);
        world.place = "there";
        (void)kill_at(&s, 0, true);
        world.n_commands = 0; /* of that place nothing is to be seen from the other */
        run_until(&s, COMMAND_UNKNOWN);
        assert_int_equal(world.n_commands, 0);
        if (back) {
            world.place = "here";
            (void)kill_at(&s, 0, true);
        }
        run_on(&s);
        assert_true(is_over(&s));
        assert_int_equal(world.n_commands, 1); /* that of the next turn */
        assert_int_equal(count(s.c->got.bytes, COMMAND_UNKNOWN), 1);
        end(&s);
    }
}

/* The next command of the turn begins there, and is known to have begun there. */
static void test_react_a_command_that_begins_there_is_looked_for_there(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++) {
        struct story s = {0};
        begin(&s);
        start(&s);
        run_until(&s, json("'name':'pay'"));
        assert_int_equal(world.n_commands, 0);
        world.place = "there";
        (void)kill_at(&s, 0, false); /* its tool_call is not on disk */
        run_until_commands(&s, 1);
        world.place = back ? "here" : "there";
        (void)kill_at(&s, 0, false);
        run_on(&s);
        assert_true(is_over(&s));
        assert_int_equal(count(s.c->got.bytes, COMMAND_UNKNOWN), back);
        assert_int_equal(world.n_commands, 2);
        end(&s);
    }
}

/* A budget of one call, of which there are more: the second is not granted while the first runs. */
static void refuse_budget(struct story *s)
{
    settings.budget.tool_calls = 1;
    begin(s);
    start(s);
    run_until(s, json("'input_id':'budget-1'"));
    assert_int_equal(world.paid[1], 1);
    assert_false(list_is_empty(&world.jobs));
    ask(s, "respond", "r", json(",'input_id':'budget-1','answer':false"));
    pass_turns(s);
}

#define REFUSED json("'code':'agent_error','message':'agent_error: the budget is used up: 1 of 1")

static void test_react_a_budget_that_ends_it_is_committed_before_its_commands_end(void **state)
{
    struct story s = {0};
    (void)state;
    refuse_budget(&s);
    assert_false(list_is_empty(&world.jobs));
    run_until(&s, "task.failed");
    assert_true(list_is_empty(&world.jobs));
    assert_true(has_told(&s, REFUSED));
    settings.budget.tool_calls = 5;
    end(&s);
}

/* With the answer and the decision on disk, or with neither: then it is asked still. */
static void test_react_a_budget_that_ended_it_ends_it_after_a_kill(void **state)
{
    (void)state;
    for (int applied = 0; applied < 2; applied++) {
        struct story s = {0};
        refuse_budget(&s);
        unsigned asked = told.asked[0];
        (void)kill_at(&s, 0, applied);
        if (!applied)
            ask(&s, "respond", "r", json(",'input_id':'budget-1','answer':false"));
        run_until(&s, "task.failed");
        assert_true(has_told(&s, REFUSED));
        assert_int_equal(told.asked[0], asked);
        assert_int_equal(told.asked[1], 0);
        assert_int_equal(world.paid[1], 1);
        end(&s);
    }
    settings.budget.tool_calls = 5;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_react_a_command_that_began_elsewhere_is_not_begun_again),
        cmocka_unit_test(test_react_a_command_that_begins_there_is_looked_for_there),
        cmocka_unit_test(test_react_a_budget_that_ends_it_is_committed_before_its_commands_end),
        cmocka_unit_test(test_react_a_budget_that_ended_it_ends_it_after_a_kill),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
