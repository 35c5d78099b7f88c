/* Forms of other programs, from lines that these programs have printed (tests/forms/). */
#include <stdio.h>

#include "proto/agent_line.h"
#include "proto/forms/form.h"
#include "tests/support/t.h"

static struct form form;
static struct buf out;
static struct agent_line_decoder decoder;

static int teardown(void **state)
{
    (void)state;
    form_done(&form);
    buf_done(&out);
    agent_line_done(&decoder);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

/* Each line that comes out is one that an agent may say. */
static void check_lines(void)
{
    struct agent_line line;
    for (size_t at = 0; at < out.len;) {
        const char *end = memchr(out.bytes + at, '\n', out.len - at);
        assert_non_null(end);
        size_t n = (size_t)(end - out.bytes) - at;
        if (!agent_line_decode(&decoder, (struct str){out.bytes + at, n}, &line))
            fail_msg("%s: %.*s", line.error, (int)n, out.bytes + at);
        assert_int_not_equal(line.kind, LINE_EMPTY);
        at += n + 1;
    }
}

static void take(const char *line)
{
    form_take(&form, str_of(line), &out);
    check_lines();
}

/* Another form goes on in its place, as after a restart of the gateway. */
static void change_hands(void)
{
    struct buf state = {0};
    struct js_doc doc = {0};
    enum agent_form kind = form.kind;
    buf_putc(&state, '{');
    form_put_state(&form, &state);
    buf_putc(&state, '}');
    form_done(&form);
    form_open(&form, kind);
    assert_true(js_parse(&doc, state.bytes, state.len, JS_OURS));
    assert_true(form_take_state(&form, &doc, 0));
    js_done(&doc);
    buf_done(&state);
}

static void take_lines(enum agent_form kind, const char *name, bool changing_hands)
{
    char path[512];
    static char line[65536];
    snprintf(path, sizeof path, "%s/forms/%s.jsonl", TESTS_FOLDER, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    form_open(&form, kind);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        take(line);
        if (changing_hands)
            change_hands();
    }
    fclose(file);
    form_end(&form, &out);
    check_lines();
}

static void take_recorded(enum agent_form kind, const char *name)
{
    take_lines(kind, name, false);
}

static const char *text(const struct buf *b)
{
    return b->len ? b->bytes : "";
}

#define EVENT(name, data) "{\"event\":\"" name "\",\"data\":{" data "}}\n"

static void test_form_claude_streams_thoughts_and_text(void **state)
{
    (void)state;
    take_recorded(AGENT_FORM_CLAUDE, "claude_thinks");
    const char *expected =
        EVENT("thinking", "\"text\":\"Let me t\"") EVENT("thinking", "\"text\":\"hink of \"")
            EVENT("thinking", "\"text\":\"six time\"") EVENT("thinking", "\"text\":\"s seven.\"")
                EVENT("token", "\"text\":\"It is 42\"") EVENT("token", "\"text\":\".\"");
    assert_int_equal(strncmp(text(&out), expected, strlen(expected)), 0);
    assert_non_null(strstr(out.bytes, EVENT("final_answer", "\"output\":\"It is 42.\"")));
    assert_non_null(
        strstr(out.bytes, "{\"event\":\"result\",\"data\":{\"usage\":{\"input_tokens\""));
    assert_string_equal(text(&form.session), "b1997a3f-6bf6-48fd-b284-63e94526afe3");
    assert_string_equal(text(&form.failure), "");
}

static void test_form_claude_tells_calls_with_the_names_of_their_tools(void **state)
{
    (void)state;
    take_recorded(AGENT_FORM_CLAUDE, "claude_calls");
    const char *call =
        EVENT("tool_call", "\"call_id\":\"toolu_-enmcOiPzu13WehD\",\"name\":\"Bash\",\"arguments\":"
                           "{\"command\":\"echo hello\",\"description\":\"say hello\"}");
    const char *result =
        EVENT("tool_result", "\"call_id\":\"toolu_-enmcOiPzu13WehD\",\"name\":\"Bash\","
                             "\"output\":\"hello\",\"is_error\":false");
    char *called = strstr(out.bytes, call), *ended = strstr(out.bytes, result);
    assert_true(called && ended && called < ended);
    assert_null(strstr(called + 1, call));
    assert_non_null(strstr(ended, EVENT("token", "\"text\":\"It says \"")));
    assert_null(strstr(out.bytes, "\"text\":\"It says hello.\"")); /* pieces alone, not again */
    assert_non_null(strstr(ended, EVENT("final_answer", "\"output\":\"It says hello.\"")));
}

static void test_form_claude_failure_is_what_the_program_says(void **state)
{
    (void)state;
    take_recorded(AGENT_FORM_CLAUDE, "claude_fails");
    assert_string_equal(text(&form.failure), "API Error: 400 bad thing");
    assert_null(strstr(out.bytes, "\"event\":\"token\""));
    assert_null(strstr(out.bytes, "final_answer"));
}

static void test_form_claude_session_that_is_gone_is_none(void **state)
{
    (void)state;
    take_recorded(AGENT_FORM_CLAUDE, "claude_has_no_session");
    assert_string_equal(text(&form.failure), "No conversation found with session ID: "
                                             "00000000-0000-4000-8000-000000000000");
    assert_string_equal(text(&form.session), "");
}

static void test_form_claude_helpers_tell_calls_alone(void **state)
{
    (void)state;
    form_open(&form, AGENT_FORM_CLAUDE);
    take("{\"type\":\"assistant\",\"parent_tool_use_id\":\"t1\",\"message\":{\"content\":["
         "{\"type\":\"text\",\"text\":\"aside\"},"
         "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"Read\",\"input\":{}}]}}");
    take("{\"type\":\"user\",\"parent_tool_use_id\":\"t1\",\"message\":{\"content\":[{\"type\":"
         "\"tool_result\",\"tool_use_id\":\"t2\",\"is_error\":true,\"content\":["
         "{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\",\"source\":{}}]}]}}");
    assert_string_equal(text(&out),
                        EVENT("tool_call", "\"call_id\":\"t2\",\"name\":\"Read\",\"arguments\":{}")
                            EVENT("tool_result",
                                  "\"call_id\":\"t2\",\"name\":\"Read\",\"output\":\"a\\n[image]\","
                                  "\"is_error\":true"));
}

static void test_form_claude_tells_what_it_uses_after_each_message(void **state)
{
    (void)state;
    form_open(&form, AGENT_FORM_CLAUDE);
    for (int i = 0; i < 2; i++) {
        take("{\"type\":\"stream_event\",\"event\":{\"type\":\"message_start\",\"message\":{"
             "\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":40,"
             "\"cache_read_input_tokens\":500,\"output_tokens\":1}}}}");
        take("{\"type\":\"stream_event\",\"event\":{\"type\":\"message_delta\",\"delta\":{},"
             "\"usage\":{\"output_tokens\":7}}}");
        take("{\"type\":\"stream_event\",\"event\":{\"type\":\"message_stop\"}}");
    }
    assert_string_equal(text(&out), EVENT("result", "\"usage\":{\"input_tokens\":543,"
                                                    "\"output_tokens\":7}")
                                        EVENT("result", "\"usage\":{\"input_tokens\":1086,"
                                                        "\"output_tokens\":14}"));
}

static void test_form_claude_without_pieces_tells_whole_messages(void **state)
{
    (void)state;
    form_open(&form, AGENT_FORM_CLAUDE);
    take("{\"type\":\"assistant\",\"parent_tool_use_id\":null,\"message\":{\"content\":["
         "{\"type\":\"thinking\",\"thinking\":\"hm\"},{\"type\":\"text\",\"text\":\"Hello\"}]}}");
    assert_string_equal(text(&out),
                        EVENT("thinking", "\"text\":\"hm\"") EVENT("token", "\"text\":\"Hello\""));
}

static void test_form_codex_tells_messages_and_thoughts(void **state)
{
    (void)state;
    take_recorded(AGENT_FORM_CODEX, "codex_thinks");
    assert_non_null(strstr(out.bytes,
                           EVENT("thinking", "\"text\":\"Let me think of six times seven.\"")
                               EVENT("token", "\"text\":\"It is 42.\"")));
    assert_non_null(strstr(out.bytes, EVENT("final_answer", "\"output\":\"It is 42.\"")));
    assert_non_null(strstr(out.bytes, "{\"event\":\"custom\",\"data\":{\"event_type\":\"error\","));
    assert_string_equal(text(&form.session), "01a2271a-ca8a-79a0-b6f1-ec102f9c2dc6");
    assert_string_equal(text(&form.failure), "");
}

static void test_form_codex_tells_a_call_once(void **state)
{
    (void)state;
    take_recorded(AGENT_FORM_CODEX, "codex_calls");
    const char *expected = EVENT("token", "\"text\":\"Let me look.\"")
        EVENT("tool_call",
              "\"call_id\":\"item_2\",\"name\":\"command_execution\",\"arguments\":{\"command\":"
              "\"/bin/bash -lc 'echo hello; echo oops >&2; exit 0'\"}")
            EVENT("tool_result", "\"call_id\":\"item_2\",\"name\":\"command_execution\","
                                 "\"output\":\"hello\\noops\\n\",\"is_error\":false")
                EVENT("token", "\"text\":\"It says hello.\"");
    assert_non_null(strstr(out.bytes, expected));
    assert_non_null(strstr(out.bytes, EVENT("final_answer", "\"output\":\"It says hello.\"")));
}

static void test_form_codex_failure_is_that_of_the_turn(void **state)
{
    (void)state;
    take_recorded(AGENT_FORM_CODEX, "codex_fails");
    assert_non_null(strstr(text(&form.failure), "bad thing"));
    assert_null(strstr(text(&out), "final_answer"));
}

static void test_form_codex_error_that_was_got_over_is_no_failure(void **state)
{
    (void)state;
    form_open(&form, AGENT_FORM_CODEX);
    take("{\"type\":\"error\",\"message\":\"Reconnecting... 1/5\"}");
    take("{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\","
         "\"text\":\"done\"}}");
    take("{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":3}}");
    form_end(&form, &out);
    assert_string_equal(text(&form.failure), "");
    assert_non_null(
        strstr(out.bytes, "{\"event\":\"result\",\"data\":{\"usage\":{\"input_tokens\":3}}}"));
}

static void test_form_codex_plan_is_progress(void **state)
{
    (void)state;
    form_open(&form, AGENT_FORM_CODEX);
    take("{\"type\":\"item.updated\",\"item\":{\"id\":\"i\",\"type\":\"todo_list\",\"items\":["
         "{\"text\":\"a\",\"completed\":true},{\"text\":\"b\",\"completed\":false},"
         "{\"text\":\"c\",\"completed\":false},{\"text\":\"d\",\"completed\":false}]}}");
    assert_non_null(strstr(out.bytes, EVENT("progress", "\"progress\":0.25,\"note\":\"b\"")));
}

static void test_form_that_says_no_result_has_failed(void **state)
{
    (void)state;
    static const enum agent_form kinds[] = {AGENT_FORM_CLAUDE, AGENT_FORM_CODEX};
    for (size_t i = 0; i < countof(kinds); i++) {
        form_open(&form, kinds[i]);
        take("Warning: not JSON");
        take("[1]");
        take("{\"type\":\"a\",\"type\":\"b\"}");
        form_end(&form, &out);
        assert_string_equal(text(&form.failure), "it has ended without saying its result");
        assert_string_equal(text(&out), "");
        form_done(&form);
    }
}

static void test_form_text_keeps_characters_whole(void **state)
{
    (void)state;
    form_open(&form, AGENT_FORM_TEXT);
    take("h\xc3");
    take("\xa9\xf0\x9f");
    take("\x8c\x8a\n");
    take("\xff\xe2");
    form_end(&form, &out);
    check_lines();
    assert_string_equal(text(&out),
                        EVENT("token", "\"text\":\"h\"") EVENT("token", "\"text\":\"\xc3\xa9\"")
                            EVENT("token", "\"text\":\"\xf0\x9f\x8c\x8a\\n\"")
                                EVENT("token", "\"text\":\"\xef\xbf\xbd\"")
                                    EVENT("token", "\"text\":\"\xef\xbf\xbd\""));
}

static void test_form_cuts_what_no_event_can_hold(void **state)
{
    (void)state;
    struct buf line = {0};
    form_open(&form, AGENT_FORM_CODEX);
    buf_puts(&line, "{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":"
                    "\"command_execution\",\"command\":\"");
    for (int i = 0; i < 300000; i++)
        buf_puts(&line, "\\u0000\\n"); /* 300,000 of both: 2.4 MB in JSON */
    buf_puts(&line, "\",\"aggregated_output\":\"");
    for (int i = 0; i < 3000000; i++)
        buf_putc(&line, 'x');
    buf_puts(&line, "\"}}");
    take(line.bytes);
    assert_non_null(strstr(out.bytes, "\"arguments\":{\"command\":{\"left_out\":2400000}}"));
    assert_non_null(strstr(out.bytes, " bytes left out]\""));
    buf_clear(&line);
    buf_clear(&out);
    buf_puts(&line, "{\"type\":\"deep\",\"x\":");
    for (int i = 0; i < 126; i++)
        buf_putc(&line, '[');
    for (int i = 0; i < 126; i++)
        buf_putc(&line, ']');
    buf_putc(&line, '}');
    take(line.bytes);
    assert_string_equal(text(&out),
                        EVENT("custom", "\"event_type\":\"deep\",\"payload\":{\"left_out\":272}"));
    buf_done(&line);
}

static void test_form_session_is_no_option_and_no_path(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "-p", "a b", "a/b", "a\n", "--resume=x", "\xc3\xa9"};
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(form_is_session(str_of(bad[i])));
    assert_true(form_is_session(STR("01a2271a-ca8a-79a0_b6f1.ec10")));
    form_open(&form, AGENT_FORM_CODEX);
    take("{\"type\":\"thread.started\",\"thread_id\":\"--dangerous\"}");
    assert_string_equal(text(&form.session), "");
}

static const struct {
    enum agent_form kind;
    const char *name;
} recorded[] = {
    {AGENT_FORM_CLAUDE, "claude_thinks"},
    {AGENT_FORM_CLAUDE, "claude_calls"},
    {AGENT_FORM_CLAUDE, "claude_fails"},
    {AGENT_FORM_CODEX, "codex_thinks"},
    {AGENT_FORM_CLAUDE, "claude_has_no_session"},
    {AGENT_FORM_CODEX, "codex_calls"},
    {AGENT_FORM_CODEX, "codex_fails"},
};

static void test_form_that_another_goes_on_with_says_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(recorded); i++) {
        struct buf said = {0}, failure = {0}, session = {0};
        take_lines(recorded[i].kind, recorded[i].name, false);
        buf_puts(&said, text(&out));
        buf_puts(&failure, text(&form.failure));
        buf_puts(&session, text(&form.session));
        teardown(NULL);
        buf_clear(&out);
        take_lines(recorded[i].kind, recorded[i].name, true);
        assert_string_equal(text(&out), text(&said));
        assert_string_equal(text(&form.failure), text(&failure));
        assert_string_equal(text(&form.session), text(&session));
        teardown(NULL);
        buf_done(&said);
        buf_done(&failure);
        buf_done(&session);
    }
}

static void test_form_state_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]",
        "{}",
        "{'streams':false,'has_ended':false}",
        "{'streams':1,'has_ended':false,'calls':[]}",
        "{'streams':false,'has_ended':false,'calls':{}}",
        "{'streams':false,'has_ended':false,'calls':['a']}",
        "{'streams':false,'has_ended':false,'calls':[[]]}",
        "{'streams':false,'has_ended':false,'calls':[['a']]}",
        "{'streams':false,'has_ended':false,'calls':[['a',1]]}",
        "{'streams':false,'has_ended':false,'calls':[['a','b','c']]}",
        "{'streams':false,'has_ended':false,'calls':[],'answer':1}",
        "{'streams':false,'has_ended':false,'calls':[],'session':'--x'}",
    };
    for (size_t i = 0; i < countof(bad); i++) {
        struct js_doc doc = {0};
        const char *state_text = t_json(bad[i]);
        form_open(&form, AGENT_FORM_CLAUDE);
        assert_true(js_parse(&doc, state_text, strlen(state_text), JS_OURS));
        if (form_take_state(&form, &doc, 0))
            fail_msg("%s was taken", bad[i]);
        js_done(&doc);
        form_done(&form);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_form_claude_streams_thoughts_and_text),
        TEST(test_form_claude_tells_calls_with_the_names_of_their_tools),
        TEST(test_form_claude_failure_is_what_the_program_says),
        TEST(test_form_claude_session_that_is_gone_is_none),
        TEST(test_form_claude_helpers_tell_calls_alone),
        TEST(test_form_claude_tells_what_it_uses_after_each_message),
        TEST(test_form_claude_without_pieces_tells_whole_messages),
        TEST(test_form_codex_tells_messages_and_thoughts),
        TEST(test_form_codex_tells_a_call_once),
        TEST(test_form_codex_failure_is_that_of_the_turn),
        TEST(test_form_codex_error_that_was_got_over_is_no_failure),
        TEST(test_form_codex_plan_is_progress),
        TEST(test_form_that_says_no_result_has_failed),
        TEST(test_form_text_keeps_characters_whole),
        TEST(test_form_cuts_what_no_event_can_hold),
        TEST(test_form_session_is_no_option_and_no_path),
        TEST(test_form_that_another_goes_on_with_says_the_same),
        TEST(test_form_state_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
