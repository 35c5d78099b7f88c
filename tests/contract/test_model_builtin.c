/* The built-in model for gateway/models/model.h, driven by the ReAct loop with the real
 * tools. */
#include "gateway/agents/agent_react.h"
#include "gateway/models/model_builtin.h"
#include "gateway/models/model_rules.h"
#include "gateway/tools/tools.h"
#include "tests/support/run_probe.h"

static struct builtin_settings builtin = {.loop = &loop};
static const struct model model = {
    .name = "builtin", .ops = &model_builtin_ops, .settings = &builtin};
static const struct tool *tools[2];
static struct react_settings settings;

static int setup_builtin(void **state)
{
    tools[0] = tool_find(STR("calculator"));
    tools[1] = tool_find(STR("clock"));
    builtin.pace_ms = 0;
    settings =
        (struct react_settings){.loop = &loop, .model = &model, .tools = tools, .n_tools = 2};
    return setup(state);
}

static void ask_after(const char *history, const char *input)
{
    finish();
    assert_string_equal(probe_start(&agent_react_ops, &settings, str_of(input), history), "");
}

/* Its whole answer. */
static const char *answer_after(const char *history, const char *input)
{
    ask_after(history, input);
    expect_end(RUN_DONE, "");
    assert_true(utf8_valid(buf_str(&probe.log)));
    return text_of(&probe.final);
}

static const char *answer(const char *input)
{
    return answer_after(NULL, input);
}

#define assert_has(text, part)                                       \
    do {                                                             \
        if (!strstr((text), (part)))                                 \
            fail_msg("\"%s\" does not have \"%s\"", (text), (part)); \
    } while (0)

#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define SAID(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"

/* --- tools ------------------------------------------------------------------------------------ */

static void test_builtin_arithmetic_asks_the_calculator(void **state)
{
    (void)state;
    assert_string_equal(answer("what is 12*(3+4)?"), "`12 * (3 + 4)` is **84**.");
    assert_has(text_of(&probe.log),
               json("tool_call {'call_id':'call_1','name':'calculator','arguments':"
                    "{'expression':'12 * (3 + 4)'}}\n"
                    "tool_result {'call_id':'call_1','name':'calculator','output':'84',"
                    "'is_error':false}\n"));
    assert_has(text_of(&probe.thought), "That is arithmetic");
    assert_string_equal(answer("17 % 5"), "`17 % 5` is **2**.");
    assert_string_equal(answer("2^10"), "`2^10` is **1024**.");
    assert_string_equal(answer("1/0?"), "`1 / 0` has no value: division by zero.");
    assert_has(answer("((((1+1"), "`((((1 + 1` has no value: syntax error at position 10");
}

static void test_builtin_time_asks_the_clock(void **state)
{
    (void)state;
    assert_has(answer("What time is it?"), "The clock (UTC) says **20");
    assert_has(text_of(&probe.log), json("'name':'clock','arguments':{'format':'iso'}}"));
    assert_has(answer("which day is today?"), "day, 20");
    assert_has(text_of(&probe.log), json("{'format':'date'}"));
    answer("the unix time, please");
    assert_has(text_of(&probe.log), json("{'format':'unix'}"));
}

static void test_builtin_calls_two_tools_in_one_turn(void **state)
{
    (void)state;
    const char *said = answer("what is 2+2, and what time is it?");
    assert_has(said, "`2 + 2` is **4**.\n\nThe clock (UTC) says **");
    assert_has(text_of(&probe.log), json("{'call_id':'call_2','name':'clock'"));
}

static void test_builtin_without_tools_says_so(void **state)
{
    (void)state;
    settings.n_tools = 0;
    assert_has(answer("2+2"), "`calculator`, but this agent has none of that name");
    assert_has(answer("what time is it"), "`clock`, but this agent has none");
    assert_null(strstr(text_of(&probe.log), "tool_call"));
}

static void test_builtin_ids_of_calls_differ_within_a_run(void **state)
{
    (void)state;
    ask_after(NULL, "1+1");
    assert_true(probe_deliver(json("{'type':'message','from':'user','content':'2+2'}")));
    assert_true(
        probe_deliver(json("{'type':'message','from':'user','content':'what is my name?'}")));
    expect_end(RUN_DONE, "");
    assert_null(strstr(text_of(&probe.log), "call_2"));
    assert_has(text_of(&probe.tokens), "`2 + 2` is **4**.\n\nYou have not told me");
}

/* --- streams of words ------------------------------------------------------------------------- */

static void test_builtin_counts(void **state)
{
    (void)state;
    assert_string_equal(answer("count to 5"), "1 2 3 4 5");
    assert_int_equal(probe.n_tokens, 5);
    assert_has(text_of(&probe.log), json("token {'text':'1 '}\ntoken {'text':'2 '}\n"));
    assert_string_equal(answer("Please count up to 1!"), "1");
    assert_has(answer("count to 0"), "not less");
    assert_has(answer("count to 100001"), "not more");
    assert_has(answer("count to 99999999999999999999"), "not more");
    probe.silent = true;
    ask_after(NULL, "count to 100,000");
    expect_end(RUN_DONE, "");
    assert_int_equal(probe.n_tokens, 100000);
    assert_int_equal(probe.tokens.len, 588894);
    assert_string_equal(text_of(&probe.tokens) + 588894 - 12, "99999 100000");
}

static void test_builtin_repeats_words(void **state)
{
    (void)state;
    assert_string_equal(answer("repeat 3 words"), "kelp rock tide");
    answer("Repeat 250 words, please");
    assert_int_equal(probe.n_tokens, 250);
    assert_has(answer("repeat 100001 words"), "not more");
}

static bool has_five_tokens(void)
{
    return probe.n_tokens >= 5;
}

static void test_builtin_pace_holds_and_slowly_is_slower(void **state)
{
    (void)state;
    builtin.pace_ms = 10;
    uint64_t begun = uv_hrtime();
    ask_after(NULL, "count to 100");
    wait_until(has_five_tokens);
    uint64_t ms = (uv_hrtime() - begun) / 1000000;
    assert_true(ms >= 35);
    begun = uv_hrtime();
    ask_after(NULL, "count to 100 slowly");
    wait_until(has_five_tokens);
    ms = (uv_hrtime() - begun) / 1000000;
    assert_true(ms >= 190);
    agent_react_ops.cancel(probe.run);
    turn_loop(1); /* between two words: not at the next one */
    assert_true(probe.ended);
    expect_end(RUN_FAILED, "cancelled");
}

static void test_builtin_long_words_are_cut_between_characters(void **state)
{
    char input[6 + 600 + 1] = "think ";
    for (size_t i = 0; i < 600; i += 3)
        memcpy(input + 6 + i, "\xe6\xb5\xb7", 3);
    input[606] = 0;
    (void)state;
    assert_has(answer(input), "\xe6\xb5\xb7\xe6\xb5\xb7");
    assert_true(utf8_valid(buf_str(&probe.final)));
    assert_true(probe.n_tokens > 10);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void test_builtin_remembers_a_name(void **state)
{
    (void)state;
    assert_has(answer("Hi, my name is Ada Lovelace, what is 1+1?"),
               "Nice to meet you, **Ada Lovelace**");
    const char history[] = "[" USER("my name is Bob") "," SAID("Hi") "," USER(
        "Call me J\xc3\xb6rg and go") "," SAID("Hi") "]";
    assert_has(answer_after(history, "What's my name?"), "Your name is **J\xc3\xb6rg**");
    assert_has(answer_after(history, "Hello!"), "Hello, **J\xc3\xb6rg**!");
    assert_has(answer("what is my name?"), "You have not told me");
    assert_has(answer("my name is"), "stand-in"); /* nobody */
}

static void test_builtin_tells_what_was_said(void **state)
{
    (void)state;
    const char history[] = "[" USER("one") "," SAID("a") "," USER("two\\nlines") "," SAID("b") "]";
    assert_string_equal(answer_after(history, "What did I say before?"),
                        "Before this you said 2 things:\n\n> one\n\n> two lines\n");
    assert_has(answer("what did I say before?"), "this is your first message");
    assert_has(answer_after("[" USER("a") "," USER("b") "," USER("c") "," USER("d") "," USER(
                                "e") "," USER("f") "]",
                            "what have I said"),
               "said 6 things:\n\n> b\n");
}

/* --- the rest --------------------------------------------------------------------------------- */

static void test_builtin_says_what_it_is(void **state)
{
    static const char *const inputs[] = {"hello", "tell me about whales", "\xf0\x9f\x90\x8b", "?"};
    (void)state;
    for (size_t i = 0; i < countof(inputs); i++)
        assert_has(answer(inputs[i]), "built-in stand-in: a few rules and no language model");
    assert_has(answer("tell me about\nwhales"), "\n\n> tell me about whales\n\n");
    assert_int_equal(probe.thought.len, 0);
}

static void test_builtin_thinks_aloud_when_asked(void **state)
{
    (void)state;
    answer("think about the s\xc3\xa9"
           "a");
    assert_has(text_of(&probe.thought), "The message has 19 characters.");
    assert_true(probe.thought.len > 200);
    assert_true(probe.n_events - probe.n_tokens > 20); /* in pieces */
}

static void test_builtin_fails_when_asked(void **state)
{
    (void)state;
    ask_after(NULL, "please fail");
    expect_end(RUN_FAILED, "model: the built-in model was asked to fail");
    assert_has(text_of(&probe.tokens), "I begin to answer");
    assert_int_equal(probe.n_finals, 0);
    answer_after("[" USER("fail") "]", "hello"); /* that was before */
}

static void test_builtin_is_the_same_each_time(void **state)
{
    struct buf first = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        answer("think: what is 3*3?");
        if (i == 0) {
            first = probe.log;
            probe.log = (struct buf){0};
        }
    }
    bool same = str_eq(buf_str(&first), buf_str(&probe.log));
    buf_done(&first);
    assert_true(same);
}

static void test_builtin_pause_and_unpause_lose_nothing(void **state)
{
    (void)state;
    ask_after(NULL, "think and count to 50");
    for (probe.pause_at = 1; !probe.ended;) {
        wait_until(is_paused);
        size_t before = probe.n_events;
        turn_loop(3);
        assert_int_equal(probe.n_events, before);
        probe.pause_at = before + 1 + before % 7;
        if (probe.n_tokens == 50)
            probe.pause_at = 0;
        agent_react_ops.unpause(probe.run);
        if (!probe.pause_at)
            break;
    }
    expect_end(RUN_DONE, "");
    assert_int_equal(probe.n_tokens, 50);
}

static void test_builtin_free_at_any_time(void **state)
{
    (void)state;
    for (int n = 0; n < 12; n++) {
        builtin.pace_ms = n % 2 ? 1 : 0;
        ask_after(NULL, n % 3 ? "think and count to 300" : "slowly: 1+1");
        turn_loop(n);
        finish();
        uv_run(&loop, UV_RUN_DEFAULT);
    }
}

/* --- the rules themselves --------------------------------------------------------------------- */

static void test_rules_take_any_messages(void **state)
{
    const char *const good[] = {
        "[]",
        "[1,\"x\",null,[],{}]",
        json("[{'role':'user'}]"),
        json("[{'role':7,'content':7}]"),
        json("[{'role':'user','content':null}]"),
        json("[{'role':'user','content':'a\\u0000b fail'}]"),
        json("[{'role':'tool','content':'84'}]"),
        json("[{'role':'assistant','tool_calls':[1,{},{'id':1}]},{'role':'tool'}]"),
        json(
            "[{'role':'assistant','tool_calls':[{'id':'c','function':{'name':'calculator'}}]},{'role':'tool','tool_call_id':'c'}]"),
        json(
            "[{'role':'assistant','tool_calls':[{'id':'c','function':{'arguments':'{'}}]},{'role':'tool','tool_call_id':'c'}]"),
    };
    static const char *const bad[] = {"", "{}", "[", "7"};
    struct rules_plan plan;
    (void)state;
    for (size_t i = 0; i < countof(good); i++) {
        struct model_request request = {.messages = str_of(good[i]),
                                        .tools =
                                            str_of(json("[1,{'function':7},{'function':{}}]"))};
        bool answered = rules_answer(&request, &plan);
        bool says = plan.answer.len > 0;
        rules_plan_done(&plan);
        assert_true(answered && says);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        struct model_request request = {.messages = str_of(bad[i]), .tools = STR("[]")};
        assert_false(rules_answer(&request, &plan));
        rules_plan_done(&plan);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_builtin, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_builtin_arithmetic_asks_the_calculator),
        TEST(test_builtin_time_asks_the_clock),
        TEST(test_builtin_calls_two_tools_in_one_turn),
        TEST(test_builtin_without_tools_says_so),
        TEST(test_builtin_ids_of_calls_differ_within_a_run),
        TEST(test_builtin_counts),
        TEST(test_builtin_repeats_words),
        TEST(test_builtin_pace_holds_and_slowly_is_slower),
        TEST(test_builtin_long_words_are_cut_between_characters),
        TEST(test_builtin_remembers_a_name),
        TEST(test_builtin_tells_what_was_said),
        TEST(test_builtin_says_what_it_is),
        TEST(test_builtin_thinks_aloud_when_asked),
        TEST(test_builtin_fails_when_asked),
        TEST(test_builtin_is_the_same_each_time),
        TEST(test_builtin_pause_and_unpause_lose_nothing),
        TEST(test_builtin_free_at_any_time),
        TEST(test_rules_take_any_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
