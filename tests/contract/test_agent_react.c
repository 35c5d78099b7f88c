/* The ReAct adapter for core/agent.h: turns, tools, faults and limits.  The tools and the loop
 * are real, the model follows a script. */
#include "tests/support/script_model.h"

/* --- turns and tools -------------------------------------------------------------------------- */

static void test_react_answer_without_tools(void **state)
{
    (void)state;
    START(THINK("Hm. "), SAY("It "), SAY("is \"so\"."), DONE);
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&probe.log), json("thinking {'text':'Hm. '}\n"
                                                  "token {'text':'It '}\n"
                                                  "token {'text':'is \\'so\\'.'}\n"
                                                  "final_answer {'output':'It is \\'so\\'.'}\n"));
    assert_string_equal(text_of(&probe.final), "It is \"so\".");
    assert_string_equal(text_of(&script.requests), QUESTION "]\n");
}

static void test_react_model_gets_system_history_input_and_tools(void **state)
{
    static const struct act acts[] = {SAY("yes"), DONE};
    static const struct tool echo = {
        .name = "echo", .description = "Says \"it\".", .parameters = "{\"type\":\"object\"}"};
    static const struct tool *const one[] = {&echo};
    (void)state;
    settings.system = "Be brief.";
    settings.tools = one;
    settings.n_tools = 1;
    script.acts = acts;
    script.n = countof(acts);
    probe_start(&agent_react_ops, &settings, STR("h\xc3\xa9\n"),
                json(" [ {'role':'user','content':'a'} , {'role':'assistant','content':'b'} ]"));
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&script.requests),
                        json("[{'role':'system','content':'Be brief.'},"
                             "{'role':'user','content':'a'},"
                             "{'role':'assistant','content':'b'},"
                             "{'role':'user','content':'h\xc3\xa9\\n'}]\n"));
    assert_string_equal(text_of(&script.tools),
                        json("[{'type':'function','function':{'name':'echo','description':"
                             "'Says \\'it\\'.','parameters':{'type':'object'}}}]"));
}

static void test_react_tool_is_called_and_its_result_told(void **state)
{
    (void)state;
    START(SAY("Let me see. "), CALL("c1", "calculator", " {\"expression\": \"6*7\"} "), DONE,
          SAY("It is 42."), DONE);
    expect_end(RUN_DONE, "");
    assert_string_equal(
        text_of(&probe.log),
        json("token {'text':'Let me see. '}\n"
             "tool_call {'call_id':'c1','name':'calculator','arguments':{'expression':'6*7'}}\n"
             "tool_result {'call_id':'c1','name':'calculator','output':'42','is_error':false}\n"
             "token {'text':'It is 42.'}\n"
             "final_answer {'output':'It is 42.'}\n"));
    assert_string_equal(
        text_of(&script.requests),
        json(QUESTION "]\n" QUESTION
                      ",{'role':'assistant','content':'Let me see. ','tool_calls':[{'id':'c1',"
                      "'type':'function','function':{'name':'calculator',"
                      "'arguments':'{\\'expression\\':\\'6*7\\'}'}}]},"
                      "{'role':'tool','tool_call_id':'c1','content':'42'}]\n"));
}

static void test_react_calls_of_one_turn_are_made_in_order(void **state)
{
    (void)state;
    START(CALL("a", "calculator", "{\"expression\":\"1+1\"}"),
          CALL("b", "calculator", "{\"expression\":\"2+2\"}"), DONE, SAY("done"), DONE);
    expect_end(RUN_DONE, "");
    assert_non_null(strstr(text_of(&probe.log),
                           json("'output':'2','is_error':false}\ntool_call {'call_id':'b'")));
    assert_non_null(
        strstr(text_of(&script.requests), json("'content':null,'tool_calls':[{'id':'a'")));
    assert_non_null(
        strstr(text_of(&script.requests), json("'content':'2'},{'role':'tool','tool_call_id':'b',"
                                               "'content':'4'}]\n")));
}

static void expect_refused_call(const char *name, const char *arguments, const char *output)
{
    struct act acts[] = {CALL("c", name, arguments), DONE, SAY("I see."), DONE};
    char expected[256];
    start_acts(acts, countof(acts));
    expect_end(RUN_DONE, "");
    snprintf(expected, sizeof expected, json("'output':'%s','is_error':true}\n"), output);
    assert_non_null(strstr(text_of(&probe.log), expected));
    snprintf(expected, sizeof expected, json("'content':'error: %s'}]\n"), output);
    assert_non_null(strstr(text_of(&script.requests), expected));
    finish();
}

static void test_react_errors_of_calls_go_back_to_the_model(void **state)
{
    (void)state;
    expect_refused_call("calculator", json("{'expression':'1/0'}"), "division by zero");
    expect_refused_call("teleport", "{}", json("there is no tool \\'teleport\\'"));
    expect_refused_call("", "", json("there is no tool \\'\\'"));
    expect_refused_call("calculator", json("{'expression'"), "the arguments are not JSON");
    expect_refused_call("calculator", "[1]", "the arguments are not a JSON object");
    expect_refused_call("calculator", NULL, json("\\'expression\\' must be a string"));
}

static void test_react_broken_arguments_are_repaired_in_the_talk(void **state)
{
    (void)state;
    START(CALL("c", "clock", "{broken"), DONE, SAY("ok"), DONE);
    expect_end(RUN_DONE, "");
    assert_non_null(strstr(text_of(&probe.log), json("'name':'clock','arguments':{}}\n")));
    assert_non_null(strstr(text_of(&script.requests), json("'arguments':'{}'}}]")));
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
    assert_string_equal(text_of(&probe.log), json("final_answer {'output':''}\n"));
}

/* --- faults and limits ------------------------------------------------------------------------ */

static void test_react_fault_of_the_model_ends_the_run(void **state)
{
    (void)state;
    START(SAY("I beg"), FAIL("connection lost"));
    expect_end(RUN_FAILED, "model: connection lost");
    assert_string_equal(text_of(&probe.log), json("token {'text':'I beg'}\n"));
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
                        "the history is not a JSON array");
    assert_string_equal(probe_start(&agent_react_ops, &settings, STR("x"), "[1"),
                        "the history is not a JSON array");
}

static void test_react_turn_without_end_is_stopped(void **state)
{
    static char text[100001];
    memset(text, 'x', 100000);
    (void)state;
    script.loops = true;
    probe.silent = true;
    START(SAY(text));
    expect_end(RUN_FAILED, "model: a turn exceeds 4 MiB");
    START(CALL("c", "clock", "{}"));
    expect_end(RUN_FAILED, "model: a turn calls more than 64 tools");
    START(CALL("c", "clock", text));
    expect_end(RUN_FAILED, "model: a turn exceeds 4 MiB");
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
