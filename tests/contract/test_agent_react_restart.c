/* A run of the ReAct loop, under the real core, and a kill between any two steps of the store.
 *
 * One story is told again and again: a task whose model calls tools of every kind, asks the user,
 * starts a child, gets a message and uses up a budget.  Each time the gateway dies one step of the
 * store later, once with that step on disk and untold, once without it; a second round kills it a
 * second time, on the way to its end.  The model is a function of what it is told, and that is what
 * is tested: each turn is asked with the same bytes, and never again once it is settled. */
#include "tests/support/react_story.h"

#ifdef T_ADDRESS
#define STRIDE 5 /* between the second kills; the first ones are at every step */
#else
#define STRIDE 1
#endif

/* All that the events say, without what they withdraw. */
static void put_said(const char *lines, struct buf *out)
{
    struct said said = {0};
    for (const char *at = lines; at && (at = strstr(at, EVENT_PREFIX)); at++) {
        const char *newline = strchr(at, '\n');
        struct event_parts event;
        if (newline && event_line_split((struct str){at, (size_t)(newline - at)}, &event) &&
            event.event != EVENT_FINAL_ANSWER)
            said_line(&said, &event);
    }
    buf_puts(out, "");
    buf_putstr(out, buf_str(&said.tokens));
    said_done(&said);
}

static void check(struct story *s)
{
    const char *lines = s->c->got.bytes;
    struct buf said = {0};
    if (!is_over(s))
        fail_msg("it has not ended: %s", lines);
    assert_non_null(strstr(lines, json("'event':'task.completed','data':{'output':'Done.'")));
    assert_int_equal(count(lines, json("'event':'task.completed'")), 1);
    assert_int_equal(count(lines, json("'event':'tool_call'")), 9);
    assert_int_equal(count(lines, json("'event':'tool_result'")), 9);
    assert_int_equal(count(lines, json("'event':'child'")), 1);
    assert_int_equal(count(lines, json("'event':'input_required'")), 3);
    assert_int_equal(count(lines, json("'event':'input_received'")), 3);
    assert_null(strstr(lines, "budget-2"));
    assert_true(count(lines, json("'content':'by the way'")) >= s->acked);
    assert_true(count(lines, json("'event':'message','data':{'from':'user'")) <= 2);
    put_said(lines, &said);
    assert_non_null(strstr(said.bytes, "Let me see. And now. Done."));
    assert_int_equal(count(said.bytes, "Let me "), 1);
    assert_int_equal(count(said.bytes, "And now. "), 1);
    buf_done(&said);
    assert_true(world.paid[1] <= 1 && world.paid[2] <= 1); /* and every effect happens once … */
    assert_int_equal(world.n_commands, 2);
    for (int i = 1; i <= 2; i++) /* … unless its result says that nobody knows */
        assert_true(world.paid[i] == 1 || strstr(lines, TOOL_UNKNOWN));
}

static void test_react_a_kill_between_any_two_steps_does_nothing_twice(void **state)
{
    (void)state;
    bool killed = true;
    unsigned steps = 0, unknown = 0;
    for (; killed; steps++) {
        for (int way = 0; way < 3; way++) {
            struct story s = {.planned = way == 2};
            begin(&s);
            killed = kill_at(&s, steps, way == 1);
            run_on(&s);
            unknown += count(s.c->got.bytes, TOOL_UNKNOWN);
            check(&s);
            end(&s);
        }
    }
    print_message("killed at %u steps, %u times nobody knew\n", steps - 1, unknown);
    assert_true(steps > 30 && unknown > 0);
}

static void test_react_a_second_kill_does_nothing_twice_either(void **state)
{
    (void)state;
    bool killed = true;
    for (unsigned steps = 0; killed; steps++) {
        for (unsigned more = steps % STRIDE; more < 50; more += STRIDE) {
            struct story s = {0};
            begin(&s);
            killed = kill_at(&s, steps, (steps + more) % 2);
            (void)kill_at(&s, more, more % 4 < 2);
            run_on(&s);
            check(&s);
            end(&s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_react_a_kill_between_any_two_steps_does_nothing_twice),
        cmocka_unit_test(test_react_a_second_kill_does_nothing_twice_either),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
