/* The ReAct adapter behind core/agent.h, with a model that follows a script, the real tools and a
 * real loop. */
#include "tests/support/run_probe.h"

#include "gateway/agent_react.h"
#include "gateway/stepper.h"
#include "gateway/tools.h"

/* ------------------------------------------------------------------ a model that follows a script */

struct act {
    enum { ACT_THINK, ACT_SAY, ACT_CALL, ACT_DONE, ACT_WAIT, ACT_REFUSE } kind;
    const char *a, *b, *c;
};

#define THINK(text)                   \
    {                                 \
        ACT_THINK, (text), NULL, NULL \
    }
#define SAY(text)                   \
    {                               \
        ACT_SAY, (text), NULL, NULL \
    }
#define CALL(id, name, arguments)           \
    {                                       \
        ACT_CALL, (id), (name), (arguments) \
    }
#define DONE                       \
    {                              \
        ACT_DONE, NULL, NULL, NULL \
    }
#define FAIL(error)                   \
    {                                 \
        ACT_DONE, (error), NULL, NULL \
    }
#define WAIT                       \
    {                              \
        ACT_WAIT, NULL, NULL, NULL \
    } /* for ever */
#define REFUSE(error)                   \
    {                                   \
        ACT_REFUSE, (error), NULL, NULL \
    }

struct model_turn {
    struct model_events events;
    void *user;
    struct stepper stepper;
};

static struct {
    const struct act *acts;
    size_t n, at;
    bool loops;          /* begins again where it ends */
    struct buf requests; /* the messages of each turn, one a line */
    struct buf tools;    /* of the last turn */
    size_t n_turns;
} script;

static void on_act(void *arg)
{
    struct model_turn *t = arg;
    if (script.loops && script.at == script.n)
        script.at = 0;
    const struct act *act = script.at < script.n ? &script.acts[script.at++] : NULL;
    if (!act || act->kind == ACT_DONE || act->kind == ACT_WAIT)
        stepper_stop(&t->stepper);
    if (!act) {
        t->events.on_done(t->user, STR("the script is over"));
        return;
    }
    switch (act->kind) {
    case ACT_THINK:
    case ACT_SAY:
        if (!t->events.on_piece(t->user, act->kind == ACT_SAY ? PIECE_TOKEN : PIECE_THINKING,
                                str_of(act->a)))
            stepper_stop(&t->stepper);
        break;
    case ACT_CALL:
        t->events.on_tool_call(
            t->user, &(struct model_call){str_of(act->a), str_of(act->b), str_of(act->c)});
        break;
    case ACT_DONE: t->events.on_done(t->user, str_of(act->a)); break;
    case ACT_WAIT:
    case ACT_REFUSE: break;
    }
}

static struct model_turn *fake_start(void *settings, const struct model_request *request,
                                     const struct model_events *events, void *user, char *ret_error)
{
    (void)settings;
    buf_putstr(&script.requests, request->messages);
    put(&script.requests, STR("\n"));
    buf_clear(&script.tools);
    put(&script.tools, request->tools);
    if (script.at < script.n && script.acts[script.at].kind == ACT_REFUSE) {
        snprintf(ret_error, 256, "%s", script.acts[script.at++].a);
        return NULL;
    }
    struct model_turn *t = xcalloc(sizeof *t);
    script.n_turns++;
    t->events = *events;
    t->user = user;
    stepper_init(&t->stepper, &loop, 0, on_act, t);
    stepper_start(&t->stepper);
    return t;
}

static void fake_unpause(struct model_turn *t)
{
    stepper_start(&t->stepper);
}

static void fake_free(struct model_turn *t)
{
    if (t)
        stepper_close(&t->stepper, free);
}

static const struct model_ops fake_ops = {"fake", fake_start, fake_unpause, fake_free};
static const struct model fake_model = {"fake", &fake_ops, NULL};
static const struct tool *tools[2];
static struct react_settings settings;

static int setup_react(void **state)
{
    tools[0] = tool_find(STR("calculator"));
    tools[1] = tool_find(STR("clock"));
    settings = (struct react_settings){
        .loop = &loop, .model = &fake_model, .tools = tools, .n_tools = countof(tools)};
    memset(&script, 0, sizeof script);
    return setup(state);
}

static int teardown_react(void **state)
{
    int failed = teardown(state);
    buf_done(&script.requests);
    buf_done(&script.tools);
    return failed;
}

static void start_acts(const struct act *acts, size_t n)
{
    finish();
    script.acts = acts;
    script.n = n;
    script.at = script.n_turns = 0;
    buf_clear(&script.requests);
    assert_string_equal(probe_start(&agent_react_ops, &settings, STR("question"), NULL), "");
}
#define START(...)                                      \
    do {                                                \
        static const struct act acts[] = {__VA_ARGS__}; \
        start_acts(acts, countof(acts));                \
    } while (0)

static bool deliver(const char *line)
{
    return agent_react_ops.deliver(probe.run, str_of(line));
}

#define MESSAGE(text) "{\"type\":\"message\",\"from\":\"user\",\"content\":\"" text "\"}"
#define QUESTION "[{\"role\":\"user\",\"content\":\"question\"}"

/* ------------------------------------------------------------------ turns and tools */

static void test_react_answer_without_tools(void **state)
{
    (void)state;
    START(THINK("Hm. "), SAY("It "), SAY("is \"so\"."), DONE);
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&probe.log), "thinking {\"text\":\"Hm. \"}\n"
                                             "token {\"text\":\"It \"}\n"
                                             "token {\"text\":\"is \\\"so\\\".\"}\n"
                                             "final_answer {\"output\":\"It is \\\"so\\\".\"}\n");
    assert_string_equal(text_of(&probe.final), "It is \"so\".");
    assert_string_equal(text_of(&script.requests), QUESTION "]\n");
}

static void test_react_model_gets_system_history_input_and_tools(void **state)
{
    static const struct act acts[] = {SAY("yes"), DONE};
    static const struct tool echo = {"echo", "Says \"it\".", "{\"type\":\"object\"}", NULL};
    static const struct tool *const one[] = {&echo};
    (void)state;
    settings.system = "Be brief.";
    settings.tools = one;
    settings.n_tools = 1;
    script.acts = acts;
    script.n = countof(acts);
    probe_start(
        &agent_react_ops, &settings, STR("h\xc3\xa9\n"),
        " [ {\"role\":\"user\",\"content\":\"a\"} , {\"role\":\"assistant\",\"content\":\"b\"} ]");
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&script.requests),
                        "[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                        "{\"role\":\"user\",\"content\":\"a\"},"
                        "{\"role\":\"assistant\",\"content\":\"b\"},"
                        "{\"role\":\"user\",\"content\":\"h\xc3\xa9\\n\"}]\n");
    assert_string_equal(text_of(&script.tools),
                        "[{\"type\":\"function\",\"function\":{\"name\":\"echo\",\"description\":"
                        "\"Says \\\"it\\\".\",\"parameters\":{\"type\":\"object\"}}}]");
}

static void test_react_tool_is_called_and_its_result_told(void **state)
{
    (void)state;
    START(SAY("Let me see. "), CALL("c1", "calculator", " {\"expression\": \"6*7\"} "), DONE,
          SAY("It is 42."), DONE);
    expect_end(RUN_DONE, "");
    assert_string_equal(
        text_of(&probe.log),
        "token {\"text\":\"Let me see. \"}\n"
        "tool_call {\"call_id\":\"c1\",\"name\":\"calculator\",\"arguments\":{\"expression\":\"6*7\"}}\n"
        "tool_result {\"call_id\":\"c1\",\"name\":\"calculator\",\"output\":\"42\",\"is_error\":false}\n"
        "token {\"text\":\"It is 42.\"}\n"
        "final_answer {\"output\":\"It is 42.\"}\n");
    assert_string_equal(
        text_of(&script.requests), QUESTION
        "]\n" QUESTION
        ",{\"role\":\"assistant\",\"content\":\"Let me see. \",\"tool_calls\":[{\"id\":\"c1\","
        "\"type\":\"function\",\"function\":{\"name\":\"calculator\","
        "\"arguments\":\"{\\\"expression\\\":\\\"6*7\\\"}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"}]\n");
}

static void test_react_calls_of_one_turn_are_made_in_order(void **state)
{
    (void)state;
    START(CALL("a", "calculator", "{\"expression\":\"1+1\"}"),
          CALL("b", "calculator", "{\"expression\":\"2+2\"}"), DONE, SAY("done"), DONE);
    expect_end(RUN_DONE, "");
    assert_non_null(strstr(text_of(&probe.log),
                           "\"output\":\"2\",\"is_error\":false}\ntool_call {\"call_id\":\"b\""));
    assert_non_null(
        strstr(text_of(&script.requests), "\"content\":null,\"tool_calls\":[{\"id\":\"a\""));
    assert_non_null(strstr(text_of(&script.requests),
                           "\"content\":\"2\"},{\"role\":\"tool\",\"tool_call_id\":\"b\","
                           "\"content\":\"4\"}]\n"));
}

static void expect_refused_call(const char *name, const char *arguments, const char *output)
{
    struct act acts[] = {CALL("c", name, arguments), DONE, SAY("I see."), DONE};
    char expected[256];
    start_acts(acts, countof(acts));
    expect_end(RUN_DONE, "");
    snprintf(expected, sizeof expected, "\"output\":\"%s\",\"is_error\":true}\n", output);
    assert_non_null(strstr(text_of(&probe.log), expected));
    snprintf(expected, sizeof expected, "\"content\":\"error: %s\"}]\n", output);
    assert_non_null(strstr(text_of(&script.requests), expected));
    finish();
}

static void test_react_errors_of_calls_go_back_to_the_model(void **state)
{
    (void)state;
    expect_refused_call("calculator", "{\"expression\":\"1/0\"}", "division by zero");
    expect_refused_call("teleport", "{}", "there is no tool \\\"teleport\\\"");
    expect_refused_call("", "", "there is no tool \\\"\\\"");
    expect_refused_call("calculator", "{\"expression\"", "the arguments are not JSON");
    expect_refused_call("calculator", "[1]", "the arguments are not a JSON object");
    expect_refused_call("calculator", NULL, "\\\"expression\\\" must be a string");
}

static void test_react_broken_arguments_are_repaired_in_the_talk(void **state)
{
    (void)state;
    START(CALL("c", "clock", "{broken"), DONE, SAY("ok"), DONE);
    expect_end(RUN_DONE, "");
    assert_non_null(strstr(text_of(&probe.log), "\"name\":\"clock\",\"arguments\":{}}\n"));
    assert_non_null(strstr(text_of(&script.requests), "\"arguments\":\"{}\"}}]"));
}

static void test_react_cap_on_turns_ends_the_run(void **state)
{
    (void)state;
    settings.max_turns = 3;
    script.loops = true;
    START(CALL("c", "clock", "{}"), DONE);
    expect_end(RUN_FAILED, "no answer within 3 turns of the model");
    assert_int_equal(script.n_turns, 3);
    finish();
    settings.max_turns = 0;
    START(CALL("c", "clock", "{}"), DONE);
    expect_end(RUN_FAILED, "no answer within 10 turns of the model");
    assert_int_equal(script.n_turns, 10);
}

static void test_react_empty_answer_is_one(void **state)
{
    (void)state;
    START(DONE);
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&probe.log), "final_answer {\"output\":\"\"}\n");
}

/* ------------------------------------------------------------------ faults and limits */

static void test_react_fault_of_the_model_ends_the_run(void **state)
{
    (void)state;
    START(SAY("I beg"), FAIL("connection lost"));
    expect_end(RUN_FAILED, "model: connection lost");
    assert_string_equal(text_of(&probe.log), "token {\"text\":\"I beg\"}\n");
    START(REFUSE("no such host"));
    expect_end(RUN_FAILED, "model: no such host");
    START(CALL("c", "clock", "{}"), DONE, REFUSE("gone"));
    expect_end(RUN_FAILED, "model: gone");
    START(CALL("c", "clock", "{}"), FAIL("broken off")); /* what it called is not made */
    expect_end(RUN_FAILED, "model: broken off");
    assert_int_equal(probe.n_events, 0);
}

static void test_react_history_that_is_none_is_refused(void **state)
{
    (void)state;
    assert_string_equal(probe_start(&agent_react_ops, &settings, STR("x"), "{}"),
                        "the history is no JSON array");
    assert_string_equal(probe_start(&agent_react_ops, &settings, STR("x"), "[1"),
                        "the history is no JSON array");
}

static void test_react_turn_without_end_is_stopped(void **state)
{
    static char text[100001];
    memset(text, 'x', 100000);
    (void)state;
    script.loops = true;
    probe.silent = true;
    START(SAY(text));
    expect_end(RUN_FAILED, "model: a turn passes 4 MiB");
    START(CALL("c", "clock", "{}"));
    expect_end(RUN_FAILED, "model: a turn calls more than 64 tools");
    START(CALL("c", "clock", text));
    expect_end(RUN_FAILED, "model: a turn passes 4 MiB");
}

static void test_react_long_answer_is_cut_to_an_output(void **state)
{
    static char text[300001];
    for (size_t i = 0; i + 3 <= 300000; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3); /* 262,144 is no multiple of three */
    (void)state;
    START(SAY(text), DONE);
    expect_end(RUN_DONE, "");
    assert_int_equal(probe.final.len, MAX_OUTPUT / 3 * 3);
    assert_int_equal(probe.tokens.len, 300000);
    assert_string_equal(text_of(&probe.tokens), text);
    assert_true(probe.n_tokens >= 5);
    memset(text, 1, 300000); /* six bytes each as JSON: an output must fit into its line */
    START(SAY(text), DONE);
    expect_end(RUN_DONE, "");
    assert_true(probe.final.len > 100000 && probe.final.len < MAX_EVENT_LINE / 6);
}

/* ------------------------------------------------------------------ the inbox */

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
    assert_string_equal(text_of(&probe.log), "token {\"text\":\"One.\"}\n"
                                             "token {\"text\":\" Two.\"}\n"
                                             "token {\"text\":\"Three.\"}\n"
                                             "final_answer {\"output\":\"Three.\"}\n");
    assert_string_equal(text_of(&script.requests), QUESTION
                        "]\n" QUESTION ",{\"role\":\"assistant\",\"content\":\"One. Two.\"},"
                        "{\"role\":\"user\",\"content\":\"and \xc3\xbc?\"}]\n");
}

static void test_react_message_waits_for_the_results_of_calls(void **state)
{
    (void)state;
    START(SAY("Hm."), CALL("c", "calculator", "{\"expression\":\"1+1\"}"), DONE, SAY("Two."), DONE);
    probe.on_event = deliver_once;
    expect_end(RUN_DONE, "");
    assert_int_equal(script.n_turns, 2);
    assert_non_null(strstr(text_of(&script.requests), "\"content\":\"2\"},{\"role\":\"user\","));
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
    const char *last = strrchr(text_of(&script.requests), '[');
    assert_string_equal(last, QUESTION ",{\"role\":\"user\",\"content\":\"first\"},"
                                       "{\"role\":\"assistant\",\"content\":\"A\"},"
                                       "{\"role\":\"user\",\"content\":\"second\\nline\"},"
                                       "{\"role\":\"assistant\",\"content\":\"B\"},"
                                       "{\"role\":\"user\",\"content\":\"third\"}]\n");
    assert_string_equal(text_of(&probe.final), "C");
    assert_false(deliver(MESSAGE("too late")));
}

static void test_react_message_of_a_child_names_it(void **state)
{
    (void)state;
    START(SAY("A"), DONE);
    assert_true(
        deliver("{\"type\":\"message\",\"from\":\"child\",\"content\":\"out\",\"child\":"
                "{\"task_id\":\"01J\",\"name\":\"probe\",\"status\":\"failed\",\"x\":null}}"));
    expect_end(RUN_DONE, "");
    assert_non_null(strstr(text_of(&script.requests),
                           "\"content\":\"[from child, name probe, task_id 01J, "
                           "status failed]\\nout\""));
}

static void test_react_other_lines_are_ignored(void **state)
{
    static const char *const lines[] = {
        "{\"type\":\"cancel\"}",
        "{\"type\":\"tool_result\",\"call_id\":\"c\",\"output\":\"\",\"is_error\":false}",
        "{\"type\":\"input\",\"input_id\":\"q\",\"answer\":null}",
        "{\"type\":\"message\",\"content\":7}",
        "{\"type\":\"message\"}",
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

static void test_react_inbox_has_a_limit(void **state)
{
    static char line[100100];
    size_t n = 0;
    (void)state;
    START(WAIT);
    snprintf(line, sizeof line, "{\"type\":\"message\",\"from\":\"user\",\"content\":\"%0*d\"}",
             100000, 0);
    turn_loop(3);
    while (deliver(line))
        n++;
    assert_int_equal(n, REACT_INBOX / 100060);
    assert_true(deliver(MESSAGE("small")));
}

/* ------------------------------------------------------------------ stopping */

static void expect_cancelled_soon(void (*stop)(struct run *run))
{
    uint64_t asked = uv_hrtime();
    stop(probe.run);
    assert_false(probe.ended);
    turn_loop(2);
    assert_true(probe.ended);
    assert_int_equal(probe.end, RUN_FAILED);
    assert_string_equal(probe.text, "cancelled");
    assert_true(probe.ended_at - asked < 10000000);
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
    assert_string_equal(text_of(&probe.log), "token {\"text\":\"a\"}\n");
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

/* ------------------------------------------------------------------ backpressure */

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
        TEST(test_react_answer_without_tools),
        TEST(test_react_model_gets_system_history_input_and_tools),
        TEST(test_react_tool_is_called_and_its_result_told),
        TEST(test_react_calls_of_one_turn_are_made_in_order),
        TEST(test_react_errors_of_calls_go_back_to_the_model),
        TEST(test_react_broken_arguments_are_repaired_in_the_talk),
        TEST(test_react_cap_on_turns_ends_the_run),
        TEST(test_react_empty_answer_is_one),
        TEST(test_react_fault_of_the_model_ends_the_run),
        TEST(test_react_history_that_is_none_is_refused),
        TEST(test_react_turn_without_end_is_stopped),
        TEST(test_react_long_answer_is_cut_to_an_output),
        TEST(test_react_message_in_a_turn_enters_after_it),
        TEST(test_react_message_waits_for_the_results_of_calls),
        TEST(test_react_messages_enter_one_a_turn_in_order),
        TEST(test_react_message_of_a_child_names_it),
        TEST(test_react_other_lines_are_ignored),
        TEST(test_react_inbox_has_a_limit),
        TEST(test_react_cancel_and_kill_end_it_at_once),
        TEST(test_react_cancel_between_calls_leaves_the_rest),
        TEST(test_react_cancel_from_inside_an_event),
        TEST(test_react_free_at_any_time),
        TEST(test_react_pause_stops_every_step),
        TEST(test_react_unpause_from_inside_is_not_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
