/* The ReAct adapter for core/agent.h: inbox, approvals, stopping, backpressure.  The tools and
 * the loop are real, the model follows a script. */
#include "tests/support/script_model.h"

/* --- the inbox -------------------------------------------------------------------------------- */

static void deliver_once(struct probe *p)
{
    if (p->n_events == 1)
        assert_true(deliver(MESSAGE("and \\u00fc?")));
}

static void test_react_message_in_a_turn_enters_after_it(void **state)
{
    (void)state;
    START(SAY("One."), SAY(" Two."), DONE, SAY("Three."), DONE);
    probe.on_event = deliver_once;
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&probe.log), json("token {'text':'One.'}\n"
                                                  "token {'text':' Two.'}\n"
                                                  "token {'text':'Three.'}\n"
                                                  "final_answer {'output':'Three.'}\n"));
    assert_string_equal(text_of(&script.requests),
                        json(QUESTION "]\n" QUESTION ",{'role':'assistant','content':'One. Two.'},"
                                      "{'role':'user','content':'and \xc3\xbc?'}]\n"));
}

static void test_react_message_waits_for_the_results_of_calls(void **state)
{
    (void)state;
    START(SAY("Hm."), CALL("c", "calculator", "{\"expression\":\"1+1\"}"), DONE, SAY("Two."), DONE);
    probe.on_event = deliver_once;
    expect_end(RUN_DONE, "");
    assert_int_equal(script.n_turns, 2);
    assert_non_null(strstr(text_of(&script.requests), json("'content':'2'},{'role':'user',")));
}

static void test_react_messages_enter_one_a_turn_in_order(void **state)
{
    (void)state;
    settings.max_turns = 1; /* each message begins a count of its own */
    START(SAY("A"), DONE, SAY("B"), DONE, SAY("C"), DONE);
    assert_true(deliver(MESSAGE("first")));
    assert_true(deliver(MESSAGE("second\\nline")));
    turn_loop(1);
    assert_true(deliver(MESSAGE("third")));
    expect_end(RUN_DONE, "");
    const char *last = strstr(text_of(&script.requests), "]\n[") + 2;
    last = strstr(last, "]\n[") + 2;
    assert_string_equal(
        last, json(QUESTION ",{'role':'assistant','content':'[This message got no answer.]'},"
                            "{'role':'user','content':'first'},"
                            "{'role':'assistant','content':'A'},"
                            "{'role':'user','content':'second\\nline'},"
                            "{'role':'assistant','content':'B'},"
                            "{'role':'user','content':'third'}]\n"));
    assert_string_equal(text_of(&probe.final), "C");
    assert_false(deliver(MESSAGE("too late")));
}

static void test_react_message_of_a_child_names_it(void **state)
{
    (void)state;
    START(SAY("A"), DONE);
    assert_true(deliver(json("{'type':'message','from':'child','content':'out','child':"
                             "{'task_id':'01J','name':'probe','status':'failed','x':null}}")));
    expect_end(RUN_DONE, "");
    assert_non_null(
        strstr(text_of(&script.requests), json("'content':'[from child, name probe, task_id 01J, "
                                               "status failed]\\nout'")));
}

static void test_react_other_lines_are_ignored(void **state)
{
    const char *const lines[] = {
        json("{'type':'cancel'}"),
        json("{'type':'tool_result','call_id':'c','output':'','is_error':false}"),
        json("{'type':'input','input_id':'q','answer':null}"),
        json("{'type':'message','content':7}"),
        json("{'type':'message'}"),
        "[]",
        "",
        "{"};
    (void)state;
    START(SAY("A"), DONE);
    for (size_t i = 0; i < countof(lines); i++)
        assert_true(deliver(lines[i]));
    expect_end(RUN_DONE, "");
    assert_int_equal(script.n_turns, 1);
}

static bool is_asked(void)
{
    return script.n_turns > 0;
}

static void test_react_message_is_left_to_core_within_a_turn(void **state)
{
    (void)state;
    START(SAY("A"), WAIT);
    wait_until(is_asked);
    assert_false(agent_react_ops.deliver(probe.run, str_of(MESSAGE("not now"))));
    assert_false(agent_react_ops.is_deaf(probe.run)); /* but later */
    assert_true(agent_react_ops.picks);
}

/* An object so many levels deep. */
static void put_nested(struct buf *out, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        buf_puts(out, json("{'a':"));
    buf_puts(out, "0");
    for (size_t i = 0; i < depth; i++)
        buf_putc(out, '}');
}

static void test_react_message_around_the_deepest_result_enters(void **state)
{
    (void)state;
    struct buf line = {0};
    START(SAY("A"), DONE);
    buf_puts(&line, json("{'type':'message','from':'child','content':'out','child':"
                         "{'task_id':'01J','name':'probe','status':'completed','result':"));
    put_nested(&line, MAX_JSON_DEPTH);
    buf_puts(&line, "}}");
    bool taken = deliver(line.bytes);
    buf_done(&line);
    assert_true(taken);
    expect_end(RUN_DONE, "");
    assert_non_null(strstr(text_of(&script.requests), json("status completed]\\nout'")));
}

/* --- approvals -------------------------------------------------------------------------------- */

static struct {
    tool_done_fn done;
    void *user;
    unsigned starts, stops;
} careful_job;

static bool careful_asks(const struct tool *tool, const struct tool_caller *caller,
                         struct str arguments, struct buf *question)
{
    (void)tool;
    (void)caller;
    (void)arguments;
    buf_puts(question, "May it?");
    return true;
}

static bool careful_topic(const struct tool *tool, const struct tool_caller *caller,
                          struct str arguments, struct tool_topic *ret)
{
    (void)tool;
    (void)caller;
    (void)arguments;
    buf_puts(&ret->name, "all care");
    buf_puts(&ret->key, "careful: all");
    return true;
}

static struct tool_job *careful_start(const struct tool *tool, const struct tool_caller *caller,
                                      struct str arguments, tool_done_fn done, void *user,
                                      struct buf *out)
{
    (void)tool;
    (void)caller;
    (void)arguments;
    (void)out;
    careful_job.starts++;
    careful_job.done = done;
    careful_job.user = user;
    return (struct tool_job *)&careful_job;
}

static void careful_stop(struct tool_job *job)
{
    assert_ptr_equal(job, &careful_job);
    careful_job.stops++;
}

static const struct tool careful = {.name = "careful",
                                    .description = "Asks first.",
                                    .parameters = "{}",
                                    .start = careful_start,
                                    .stop = careful_stop,
                                    .asks = careful_asks};

static void test_react_approval_shows_arguments_as_deep_as_may_be(void **state)
{
    static const struct tool *const one[] = {&careful};
    (void)state;
    settings.tools = one;
    settings.n_tools = 1;
    memset(&careful_job, 0, sizeof careful_job);
    struct buf arguments = {0}, question = {0};
    put_nested(&arguments, MAX_JSON_DEPTH);
    buf_putf(&question,
             json("input_required {'input_id':'ask-1','call_id':'c','kind':'approval',"
                  "'prompt':'May it?',"
                  "'tool':'careful','arguments':%s}\n"),
             arguments.bytes);
    struct act acts[] = {CALL("c", "careful", arguments.bytes), DONE, SAY("I see."), DONE};
    start_acts(acts, countof(acts));
    probe.pause_at = 2; /* the call, and the question */
    wait_until(is_paused);
    bool asked = strstr(text_of(&probe.log), question.bytes) != NULL;
    probe.pause_at = 0;
    buf_done(&arguments);
    buf_done(&question);
    assert_true(asked);
    assert_int_equal(careful_job.starts, 0);
    assert_true(deliver(json("{'type':'input','input_id':'ask-1','answer':true}")));
    assert_int_equal(careful_job.starts, 1);
    agent_react_ops.unpause(probe.run);
    careful_job.done(careful_job.user, true, STR("did it"));
    expect_end(RUN_DONE, "");
    assert_non_null(strstr(text_of(&script.requests), json("'content':'did it'}]\n")));
    finish();
    assert_int_equal(careful_job.stops, 1);
}

static bool has_begun(void)
{
    return careful_job.starts > 0;
}

static bool has_begun_again(void)
{
    return careful_job.starts > 1;
}

static void test_react_allowed_topic_is_not_asked_about_again(void **state)
{
    static struct tool by_topic;
    static const struct tool *const one[] = {&by_topic};
    (void)state;
    by_topic = careful;
    by_topic.topic = careful_topic;
    settings.tools = one;
    settings.n_tools = 1;
    memset(&careful_job, 0, sizeof careful_job);
    START(CALL("a", "careful", "{}"), DONE, CALL("b", "careful", "{}"), DONE, SAY("Well."), DONE);
    probe.pause_at = 2; /* the call, and the question */
    wait_until(is_paused);
    probe.pause_at = 0;
    assert_non_null(strstr(text_of(&probe.log), json("{'id':'conversation',")));
    assert_true(deliver(json("{'type':'input','input_id':'ask-1','answer':'conversation'}")));
    agent_react_ops.unpause(probe.run);
    wait_until(has_begun);
    careful_job.done(careful_job.user, true, STR("did it"));
    wait_until(has_begun_again);
    careful_job.done(careful_job.user, true, STR("did it again"));
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&probe.allowed), "\ncareful: all\n");
    const char *question = strstr(text_of(&probe.log), "input_required");
    assert_null(strstr(question + 1, "input_required"));
}

/* --- stopping --------------------------------------------------------------------------------- */

/* In turns of the loop, not in milliseconds: those depend on what else the machine does. */
static void expect_cancelled_soon(void (*stop)(struct run *run))
{
    stop(probe.run);
    assert_false(probe.ended);
    turn_loop(1);
    assert_true(probe.ended);
    assert_int_equal(probe.end, RUN_FAILED);
    assert_string_equal(probe.text, "cancelled");
    assert_false(deliver(MESSAGE("late")));
    stop(probe.run); /* once more: nothing */
    agent_react_ops.unpause(probe.run);
    turn_loop(3);
    finish();
}

static void test_react_cancel_and_kill_end_it_at_once(void **state)
{
    void (*const ways[])(struct run *) = {agent_react_ops.cancel, agent_react_ops.kill};
    (void)state;
    for (size_t i = 0; i < countof(ways); i++) {
        START(SAY("never"), DONE); /* before the first step */
        expect_cancelled_soon(ways[i]);
        START(WAIT); /* the model says nothing */
        turn_loop(10);
        expect_cancelled_soon(ways[i]);
        script.loops = true;
        START(SAY("on and on ")); /* in the middle of a stream */
        wait_until(has_events);
        expect_cancelled_soon(ways[i]);
        script.loops = false;
    }
}

static void test_react_cancel_between_calls_leaves_the_rest(void **state)
{
    (void)state;
    START(CALL("a", "clock", "{}"), CALL("b", "clock", "{}"), DONE, SAY("never"), DONE);
    probe.pause_at = 1; /* before the second */
    wait_until(is_paused);
    turn_loop(5);
    assert_int_equal(probe.n_events, 2);
    expect_cancelled_soon(agent_react_ops.cancel); /* paused as it is */
}

static void cancel_inside(struct probe *p)
{
    agent_react_ops.cancel(p->run);
}

static void test_react_cancel_from_inside_an_event(void **state)
{
    (void)state;
    START(SAY("a"), SAY("b"), SAY("c"), DONE);
    probe.on_event = cancel_inside;
    expect_end(RUN_FAILED, "cancelled");
    assert_string_equal(text_of(&probe.log), json("token {'text':'a'}\n"));
}

static void test_react_free_at_any_time(void **state)
{
    (void)state;
    for (int n = 0; n < 40; n++) {
        START(THINK("Hm."), SAY("A"), CALL("a", "clock", "{}"), CALL("b", "x", "{"), DONE, SAY("B"),
              DONE, SAY("C"), WAIT);
        turn_loop(n / 2);
        assert_true(deliver(MESSAGE("more")) || probe.ended);
        if (n % 2)
            agent_react_ops.cancel(probe.run);
        size_t before = probe.n_events;
        agent_react_ops.free(probe.run);
        probe.run = NULL;
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(probe.n_events, before);
    }
}

/* --- backpressure ----------------------------------------------------------------------------- */

static void test_react_pause_stops_every_step(void **state)
{
    size_t n = 0;
    (void)state;
    START(THINK("Hm."), SAY("A"), CALL("a", "clock", "{}"), CALL("b", "clock", "{}"), DONE,
          SAY("B"), SAY("C"), DONE);
    for (probe.pause_at = 1; !probe.ended; n++) {
        wait_until(is_paused);
        size_t before = probe.n_events;
        turn_loop(20);
        if (probe.ended)
            break;
        assert_true(probe.n_events <= before + 1); /* the result of a call under way */
        probe.pause_at = probe.n_events + 1;
        agent_react_ops.unpause(probe.run);
    }
    expect_end(RUN_DONE, "");
    assert_int_equal(probe.n_events, 9);
    assert_true(n >= 6);
    assert_string_equal(text_of(&probe.final), "BC");
}

static void unpause_inside(struct probe *p)
{
    agent_react_ops.unpause(p->run);
}

static void test_react_unpause_from_inside_is_not_forgotten(void **state)
{
    (void)state;
    START(SAY("A"), SAY("B"), CALL("a", "clock", "{}"), DONE, SAY("C"), DONE);
    probe.pause_at = 1;
    probe.on_event = unpause_inside;
    expect_end(RUN_DONE, "");
    assert_int_equal(probe.n_events, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_react, teardown_react)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_react_message_in_a_turn_enters_after_it),
        TEST(test_react_message_waits_for_the_results_of_calls),
        TEST(test_react_messages_enter_one_a_turn_in_order),
        TEST(test_react_message_of_a_child_names_it),
        TEST(test_react_other_lines_are_ignored),
        TEST(test_react_message_around_the_deepest_result_enters),
        TEST(test_react_approval_shows_arguments_as_deep_as_may_be),
        TEST(test_react_allowed_topic_is_not_asked_about_again),
        TEST(test_react_message_is_left_to_core_within_a_turn),
        TEST(test_react_cancel_and_kill_end_it_at_once),
        TEST(test_react_cancel_between_calls_leaves_the_rest),
        TEST(test_react_cancel_from_inside_an_event),
        TEST(test_react_free_at_any_time),
        TEST(test_react_pause_stops_every_step),
        TEST(test_react_unpause_from_inside_is_not_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
