#include "proto/agent_line.h"
#include "tests/support/t.h"

static struct agent_line_decoder decoder;
static struct agent_line line;

static int teardown(void **state)
{
    (void)state;
    agent_line_done(&decoder);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

/* Decodes a copy that is gone afterwards: spans must stand in the decoder. */
static bool decode_bytes(struct str text)
{
    char *copy = xalloc(text.n);
    if (text.n)
        memcpy(copy, text.p, text.n);
    bool ok = agent_line_decode(&decoder, (struct str){copy, text.n}, &line);
    free(copy);
    return ok;
}

static bool decode(const char *text)
{
    return decode_bytes(str_of(text));
}

static void decode_ok(const char *text)
{
    if (!decode(text))
        fail_msg("%s: %s", text, line.error);
}

static void test_agent_line_blank_is_empty(void **state)
{
    (void)state;
    static const char *const blanks[] = {"", "\n", "\r\n", "  \t \r\n"};
    for (size_t i = 0; i < countof(blanks); i++) {
        decode_ok(blanks[i]);
        assert_int_equal(line.kind, LINE_EMPTY);
    }
    assert_true(agent_line_decode(&decoder, STR_NULL, &line));
}

static void test_agent_line_event_gives_compact_data(void **state)
{
    (void)state;
    const struct {
        const char *text;
        enum event_type event;
        const char *data;
    } rows[] = {
        {json("{'event':'token','data':{'text':'Hel'}}"), EVENT_TOKEN, json("{'text':'Hel'}")},
        {"\xEF\xBB\xBF{\"event\":\"token\",\"data\":{\"text\":\"\"}}", EVENT_TOKEN,
         json("{'text':''}")},
        {json(" { 'data' : { 'text' : '' , 'x' : 1e400 } , 'event' : 'th\\u0069nking' } \r\n"),
         EVENT_THINKING, json("{'text':'','x':1e400}")},
        {json("{'event':'progress','data':{'progress':0.4,'note':'half'}}"), EVENT_PROGRESS,
         json("{'progress':0.4,'note':'half'}")},
        {json("{'event':'progress','data':{'progress':1,'note':null}}"), EVENT_PROGRESS,
         json("{'progress':1,'note':null}")},
        {json("{'event':'custom','data':{'event_type':'e','payload':[18446744073709551616]}}"),
         EVENT_CUSTOM, json("{'event_type':'e','payload':[18446744073709551616]}")},
        {json("{'event':'custom','data':{'event_type':'e'}}"), EVENT_CUSTOM,
         json("{'event_type':'e'}")},
        {json("{'event':'custom','data':{'event_type':'e','name':'n','data':1}}"), EVENT_CUSTOM,
         json("{'event_type':'e','name':'n','data':1}")},
        {json("{'event':'custom','data':{'name':'n','value':[1]}}"), EVENT_CUSTOM,
         json("{'event_type':'n','payload':[1]}")},
        {json("{'event':'custom','data':{'x':1,'data':null,'name':'n'}}"), EVENT_CUSTOM,
         json("{'event_type':'n','payload':null,'x':1}")},
        {json("{'event':'custom','data':{'data':2,'name':'n','value':1,'payload':0}}"),
         EVENT_CUSTOM, json("{'event_type':'n','payload':0,'data':2,'value':1}")},
        {json("{'event':'custom','data':{'name':'n'}}"), EVENT_CUSTOM, json("{'event_type':'n'}")},
        {json("{'event':'final_answer','data':{'output':'42'}}"), EVENT_FINAL_ANSWER,
         json("{'output':'42'}")},
        {json("{'event':'tool_call','data':{'call_id':'c','name':'n','arguments':{}}}"),
         EVENT_TOOL_CALL, json("{'call_id':'c','name':'n','arguments':{}}")},
        {json("{'event':'tool_result','data':{'call_id':'c','name':'n','output':'o',"
              "'is_error':true}}"),
         EVENT_TOOL_RESULT, json("{'call_id':'c','name':'n','output':'o','is_error':true}")},
        {json("{'event':'tool_result','data':{'call_id':'c','name':'n','output':''}}"),
         EVENT_TOOL_RESULT, json("{'call_id':'c','name':'n','output':''}")},
        {json("{'event':'token','call':5,'data':{'text':'x'},'unknown':[]}"), EVENT_TOKEN,
         json("{'text':'x'}")},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        decode_ok(rows[i].text);
        assert_int_equal(line.kind, LINE_EVENT);
        assert_int_equal(line.event, rows[i].event);
        assert_span(line.data, rows[i].data, strlen(rows[i].data));
    }
}

static void test_agent_line_event_gives_what_core_asks_for(void **state)
{
    (void)state;
    decode_ok(json("{'event':'token','data':{'text':'a\\n\\u00e9'}}"));
    assert_text(line.text, "a\n\xc3\xa9");
    decode_ok(json("{'event':'final_answer','data':{'output':''}}"));
    assert_text(line.text, "");
    decode_ok(json("{'event':'progress','data':{'progress':2.5e-1}}"));
    assert_true(line.progress == 0.25);
}

/* F55: halves of a character, escaped or as bytes, never get further than this. */
static void test_agent_line_broken_text_is_repaired_f55(void **state)
{
    (void)state;
    const struct {
        const char *text, *data, *value;
    } rows[] = {
        {json("{'event':'token','data':{'text':'\\ud83d'}}"), json("{'text':'\xef\xbf\xbd'}"),
         "\xef\xbf\xbd"},
        {json("{'event':'token','data':{'text':'a\xf0\x9f\x98'}}"),
         json("{'text':'a\xef\xbf\xbd'}"), "a\xef\xbf\xbd"},
        {json("{'event':'token','data':{'text':'\xff\xff\xff\xff'}}"),
         json("{'text':'\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd'}"),
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        decode_ok(rows[i].text);
        assert_span(line.data, rows[i].data, strlen(rows[i].data));
        assert_span(line.text, rows[i].value, strlen(rows[i].value));
    }
    decode_ok(json("{'event':'token','data':{'text':'\\u0000'}}"));
    assert_text(line.data, json("{'text':'\\u0000'}"));
    assert_span(line.text, "\0", 1);
}

static void test_agent_line_broken_bytes_that_fill_a_line_have_room(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_puts(&text, json("{'event':'token','data':{'text':'"));
    for (int i = 0; i < 100000; i++)
        buf_putc(&text, '\xff');
    buf_puts(&text, json("'}}"));
    bool ok = decode_bytes(buf_str(&text));
    buf_done(&text);
    assert_true(ok);
    assert_int_equal(line.text.n, 300000);
    decode_ok(json("{'event':'token','data':{'text':'x'}}")); /* and a decoder serves on */
    assert_text(line.text, "x");
}

static void test_agent_line_question_leaves_the_time_out_to_core(void **state)
{
    (void)state;
    decode_ok(json("{'event':'input_required','data':{'timeout_s':600,'input_id':'q1',"
                   "'kind':'question','prompt':'?','expires_at':5,'x':[1,{'timeout_s':2}]}}"));
    assert_int_equal(line.event, EVENT_INPUT_REQUIRED);
    assert_text(line.input_id, "q1");
    assert_false(line.approval);
    assert_int_equal(line.timeout_s, 600);
    assert_text(line.data, json("{'input_id':'q1','kind':'question','prompt':'?',"
                                "'x':[1,{'timeout_s':2}]}"));
    decode_ok(json("{'event':'input_required','data':{'input_id':'q','kind':'approval',"
                   "'prompt':'','tool':'t','arguments':{'a':1},'timeout_s':null}}"));
    assert_true(line.approval);
    assert_int_equal(line.timeout_s, -1);
    assert_text(line.data, json("{'input_id':'q','kind':'approval','prompt':'','tool':'t',"
                                "'arguments':{'a':1}}"));
}

static void test_agent_line_approval_may_have_options(void **state)
{
    (void)state;
    decode_ok(
        "{\"event\":\"input_required\",\"data\":{\"input_id\":\"q\",\"kind\":\"approval\","
        "\"prompt\":\"?\",\"options\":[{\"id\":\"y\",\"name\":\"Yes\",\"kind\":\"allow_once\"},"
        "{\"id\":\"\\u00e9\",\"name\":\"\",\"kind\":\"x\",\"more\":1}]}}");
    assert_int_equal(line.option_ids.n, 5);
    assert_memory_equal(line.option_ids.p, "y\0\xc3\xa9\0", 5);
    assert_non_null(strstr(line.data.p, "\"options\":[{\"id\":\"y\","));
    decode_ok("{\"event\":\"input_required\",\"data\":{\"input_id\":\"q\",\"kind\":\"approval\","
              "\"prompt\":\"?\",\"options\":[]}}");
    assert_int_equal(line.option_ids.n, 0);
    decode_ok("{\"event\":\"input_required\",\"data\":{\"input_id\":\"q\",\"kind\":\"approval\","
              "\"prompt\":\"?\",\"options\":[\"y\",{\"id\":\"n\"}]}}");
    assert_memory_equal(line.option_ids.p, "y\0n\0", 4);
    decode_ok("{\"event\":\"input_required\",\"data\":{\"input_id\":\"q\",\"kind\":\"question\","
              "\"prompt\":\"?\",\"options\":[5]}}"); /* nothing to check: any text answers */
    assert_int_equal(line.option_ids.n, 0);
}

static void test_agent_line_timeout_is_rounded_up(void **state)
{
    (void)state;
    const struct {
        const char *timeout;
        int64_t seconds; /* 0: refused */
    } rows[] = {{"1", 1},   {"0.001", 1}, {"1.5", 2},       {"1e3", 1000}, {"1e300", 10000000000},
                {"0", 0},   {"-1", 0},    {json("'5'"), 0}, {"true", 0},   {"1e400", 0},
                {"-0.0", 0}};
    for (size_t i = 0; i < countof(rows); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 json("{'event':'input_required','data':{'input_id':'q','kind':'question',"
                      "'prompt':'','timeout_s':%s}}"),
                 rows[i].timeout);
        assert_int_equal(decode(text), rows[i].seconds > 0);
        if (rows[i].seconds)
            assert_true(line.timeout_s == rows[i].seconds);
        else
            assert_string_equal(line.error,
                                "input_required: \"timeout_s\" must be a number above 0");
    }
}

static void test_agent_line_result_is_the_whole_object(void **state)
{
    (void)state;
    decode_ok(json("{'event':'result','data':{ 'a' : [ ] }}"));
    assert_int_equal(line.kind, LINE_RESULT);
    assert_text(line.data, json("{'a':[]}"));
}

static void test_agent_line_title_is_a_text(void **state)
{
    (void)state;
    decode_ok(json("{'event':'title','data':{'title':'A \\u00e9','more':1}}"));
    assert_int_equal(line.kind, LINE_TITLE);
    assert_text(line.text, "A \xc3\xa9");
    assert_false(decode(json("{'event':'title','data':{'title':1}}")));
    assert_string_equal(line.error, "title: \"title\" must be a string");
}

static void test_agent_line_calls_fill_their_fields(void **state)
{
    (void)state;
    decode_ok(json("{'call':'tool','call_id':'c1','name':'calc','arguments':{ 'x': 1.0}}"));
    assert_int_equal(line.kind, LINE_TOOL);
    assert_text(line.call_id, "c1");
    assert_text(line.name, "calc");
    assert_text(line.arguments, json("{'x':1.0}"));
    decode_ok(json("{'call':'spawn','call_id':'c2','agent':'script','input':'in',"
                   "'name':'n','description':'d'}"));
    assert_int_equal(line.kind, LINE_SPAWN);
    assert_text(line.agent, "script");
    assert_text(line.input, "in");
    assert_text(line.name, "n");
    assert_text(line.description, "d");
    decode_ok(json("{'call':'spawn','call_id':'c2','input':'','agent':null}"));
    assert_null_span(line.agent);
    assert_null_span(line.name);
    assert_null_span(line.description);
    assert_text(line.input, "");
    decode_ok(json("{'call':'send','call_id':'c3','task_id':'parent','content':'\\u0041'}"));
    assert_int_equal(line.kind, LINE_SEND);
    assert_text(line.task_id, "parent");
    assert_text(line.content, "A");
    decode_ok(json("{'call':'cancel','call_id':'c4','task_id':'T','tree':true}"));
    assert_int_equal(line.kind, LINE_CANCEL);
    assert_text(line.task_id, "T");
    assert_true(line.tree);
    decode_ok(json("{'call':'cancel','call_id':'c4','task_id':'T'}"));
    assert_false(line.tree);
    decode_ok(json("{'call':'file','call_id':'c5','path':'/a b','name':'b','media_type':'c/d'}"));
    assert_int_equal(line.kind, LINE_FILE);
    assert_text(line.call_id, "c5");
    assert_text(line.path, "/a b");
    assert_text(line.name, "b");
    assert_text(line.media_type, "c/d");
    decode_ok(json("{'call':'file','call_id':'c5','path':''}"));
    assert_null_span(line.name);
    assert_null_span(line.media_type);
}

#define EVENT(name, data) "{\"event\":\"" name "\",\"data\":" data "}"

static const struct {
    const char *text, *error;
} faults[] = {
    {"Hello!", "a line is not JSON (unexpected character at byte 0): Hello!"},
    {"\"\x1b[31m\\", "a line is not JSON (control character in a string at byte 1): ??[31m\\"},
    {"{\"event\":\"token\"", "a line is not JSON (unexpected end at byte 16): {?event?:?token?"},
    {"[]", "a line is not a JSON object"},
    {"5", "a line is not a JSON object"},
    {"{}", "a line has neither \"event\" nor \"call\""},
    {"{\"event\":5}", "\"event\" must be a string"},
    {"{\"event\":null,\"call\":\"tool\"}", "\"event\" must be a string"},
    {"{\"call\":[]}", "\"call\" must be a string"},
    {"{\"event\":\"token\",\"data\":{\"text\":\"a\",\"text\":\"b\"}}", "duplicate key \"text\""},
    {EVENT("tokn", "{}"), "unknown event \"tokn\""},
    {EVENT("to\\nk\\u009f\\\"", "{}"), "unknown event \"to?k??\""},
    {EVENT("", "{}"), "unknown event \"\""},
    {"{\"call\":\"fork\"}", "unknown call \"fork\""},
    {EVENT("task.created", "{}"), "only the gateway makes event \"task.created\""},
    {EVENT("task.started", "{}"), "only the gateway makes event \"task.started\""},
    {EVENT("task.completed", "{}"), "only the gateway makes event \"task.completed\""},
    {EVENT("task.failed", "{}"), "only the gateway makes event \"task.failed\""},
    {EVENT("file", "{}"), "only the gateway makes event \"file\""},
    {EVENT("child", "{}"), "only the gateway makes event \"child\""},
    {EVENT("message", "{}"), "only the gateway makes event \"message\""},
    {EVENT("input_received", "{}"), "only the gateway makes event \"input_received\""},
    {"{\"event\":\"token\"}", "token: \"data\" is missing: it must be an object"},
    {EVENT("token", "null"), "token: \"data\" must be an object"},
    {EVENT("token", "\"x\""), "token: \"data\" must be an object"},
    {EVENT("result", "[]"), "result: \"data\" must be an object"},
    {EVENT("token", "{}"), "token: \"text\" is missing: it must be a string"},
    {EVENT("token", "{\"text\":null}"), "token: \"text\" must be a string"},
    {EVENT("thinking", "{\"text\":5}"), "thinking: \"text\" must be a string"},
    {EVENT("progress", "{\"progress\":1.01}"),
     "progress: \"progress\" must be a number from 0 to 1"},
    {EVENT("progress", "{\"progress\":-0.1}"),
     "progress: \"progress\" must be a number from 0 to 1"},
    {EVENT("progress", "{\"progress\":\"1\"}"),
     "progress: \"progress\" must be a number from 0 to 1"},
    {EVENT("progress", "{\"progress\":0,\"note\":1}"), "progress: \"note\" must be a string"},
    {EVENT("custom", "{\"payload\":1}"), "custom: \"event_type\" is missing: it must be a string"},
    {EVENT("custom", "{\"name\":1,\"data\":1}"), "custom: \"name\" must be a string"},
    {EVENT("final_answer", "{\"output\":1}"), "final_answer: \"output\" must be a string"},
    {EVENT("tool_call", "{\"call_id\":\"c\",\"name\":\"n\"}"),
     "tool_call: \"arguments\" is missing: it must be an object"},
    {EVENT("tool_call", "{\"call_id\":\"c\",\"name\":\"n\",\"arguments\":\"{}\"}"),
     "tool_call: \"arguments\" must be an object"},
    {EVENT("tool_result", "{\"call_id\":\"c\",\"name\":\"n\",\"output\":{}}"),
     "tool_result: \"output\" must be a string"},
    {EVENT("tool_result", "{\"call_id\":\"c\",\"name\":\"n\",\"output\":\"\",\"is_error\":0}"),
     "tool_result: \"is_error\" must be true or false"},
    {EVENT("input_required", "{\"input_id\":\"\",\"kind\":\"question\",\"prompt\":\"\"}"),
     "input_required: \"input_id\" must be a string of 1 to 128 bytes"},
    {EVENT("input_required", "{\"input_id\":\"q\",\"kind\":\"choice\",\"prompt\":\"\"}"),
     "input_required: \"kind\" must be approval or question"},
#define OPTIONS(list)                                                                               \
    {                                                                                               \
        EVENT("input_required",                                                                     \
              "{\"input_id\":\"q\",\"kind\":\"approval\",\"prompt\":\"\",\"options\":" list "}"),   \
            "input_required: \"options\" must be a list of at most 32 texts, or objects with an id" \
    }
    OPTIONS("{}"),
    OPTIONS("[5]"),
    OPTIONS("[\"\"]"),
    OPTIONS("[{\"name\":\"y\"}]"),
    OPTIONS("[{\"id\":\"\",\"name\":\"\",\"kind\":\"\"}]"),
    OPTIONS("[{\"id\":\"a\\u0000\",\"name\":\"\",\"kind\":\"\"}]"),
    {EVENT("input_required", "{\"input_id\":\"q\",\"kind\":\"question\"}"),
     "input_required: \"prompt\" is missing: it must be a string"},
    {"{\"call\":\"tool\",\"name\":\"n\",\"arguments\":{}}",
     "tool: \"call_id\" is missing: it must be a string"},
    {"{\"call\":\"tool\",\"call_id\":\"c\",\"name\":\"n\",\"arguments\":null}",
     "tool: \"arguments\" must be an object"},
    {"{\"call\":\"spawn\",\"call_id\":\"c\"}", "spawn: \"input\" is missing: it must be a string"},
    {"{\"call\":\"spawn\",\"call_id\":\"c\",\"input\":\"\",\"name\":5}",
     "spawn: \"name\" must be a string"},
    {"{\"call\":\"send\",\"call_id\":\"c\",\"content\":\"\"}",
     "send: \"task_id\" is missing: it must be a string"},
    {"{\"call\":\"cancel\",\"call_id\":\"c\",\"task_id\":\"t\",\"tree\":1}",
     "cancel: \"tree\" must be true or false"},
};

static void test_agent_line_fault_names_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(faults); i++) {
        if (decode(faults[i].text))
            fail_msg("accepted: %s", faults[i].text);
        if (strcmp(line.error, faults[i].error) != 0)
            fail_msg("%s: %s", faults[i].text, line.error);
        assert_false(line.over_limit);
    }
}

static bool decode_of_size(const char *before, size_t n, const char *behind)
{
    struct buf text = {0};
    buf_puts(&text, before);
    for (size_t i = 0; i < n; i++)
        buf_puts(&text, i % 2 ? "x" : "\\u0041"); /* counted in the value, not in its text */
    buf_puts(&text, behind);
    bool ok = decode_bytes(buf_str(&text));
    buf_done(&text);
    return ok;
}

static void test_agent_line_output_over_256_kib_is_refused(void **state)
{
    (void)state;
    static const char before[] = "{\"event\":\"final_answer\",\"data\":{\"output\":\"";
    assert_true(decode_of_size(before, 262144, json("'}}")));
    assert_int_equal(line.text.n, 262144);
    assert_false(decode_of_size(before, 262145, json("'}}")));
    assert_true(line.over_limit);
    assert_string_equal(line.error, "final_answer: \"output\" is over the limit of 262144 bytes");

    static const char result[] = "{\"event\":\"result\",\"data\":{\"r\":  \"";
    assert_true(decode_of_size(result, 262144 - 8, json("'}}"))); /* {"r":""} */
    assert_int_equal(line.data.n, 262144);
    assert_false(decode_of_size(result, 262144 - 7, json("'}}")));
    assert_true(line.over_limit);
    assert_string_equal(line.error, "result: \"data\" is over the limit of 262144 bytes");
}

static void test_agent_line_hostile_nesting_is_refused_f56(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_puts(&text, json("{'event':'custom','data':{'event_type':'e','payload':"));
    for (int i = 0; i < 200000; i++)
        buf_putc(&text, '[');
    bool ok = decode_bytes(buf_str(&text));
    buf_done(&text);
    assert_false(ok);
    assert_non_null(strstr(line.error, "nested too deeply"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_agent_line_blank_is_empty),
        TEST(test_agent_line_event_gives_compact_data),
        TEST(test_agent_line_event_gives_what_core_asks_for),
        TEST(test_agent_line_broken_text_is_repaired_f55),
        TEST(test_agent_line_broken_bytes_that_fill_a_line_have_room),
        TEST(test_agent_line_question_leaves_the_time_out_to_core),
        TEST(test_agent_line_approval_may_have_options),
        TEST(test_agent_line_timeout_is_rounded_up),
        TEST(test_agent_line_result_is_the_whole_object),
        TEST(test_agent_line_title_is_a_text),
        TEST(test_agent_line_calls_fill_their_fields),
        TEST(test_agent_line_fault_names_what_is_wrong),
        TEST(test_agent_line_output_over_256_kib_is_refused),
        TEST(test_agent_line_hostile_nesting_is_refused_f56),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
