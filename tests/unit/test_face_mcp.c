#include "tests/support/face_kit.h"

#include "proto/faces/mcp.h"

/* The right messages are those of MCP 2025-11-25, worked out by hand from the mapping in
 * docs/faces.md; the requests are those that the SDK's client posts. */

#define ID "Yy0x." TID /* of conversation c-1 */

static void begin_stream(const struct mcp_request *r)
{
    stream = mcp_ops.make(&(struct face_task){
        .task_id = STR(TID), .conversation_id = STR("c-1"), .created_at = TS, .request = r});
}

/* --- streams ---------------------------------------------------------------------------------- */

static void test_call_is_primed_told_its_progress_and_ends_in_the_result(void **state)
{
    (void)state;
    begin_stream(&(struct mcp_request){.operation = MCP_CALL,
                                       .call = {.rpc_id = STR("3"), .token = STR("\"t\"")}});
    tell(1, EVENT_TASK_CREATED, "{}");
    tell(3, EVENT_TOKEN, "{\"text\":\"Hel\"}");
    tell(4, EVENT_PROGRESS, "{\"progress\":0.5,\"note\":\"half\"}");
    tell(9, EVENT_TASK_COMPLETED, "{\"output\":\"Hello\",\"result\":{\"n\":1}}");
    assert_text(
        buf_str(&got),
        "\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":"
        "\"t\",\"progress\":3,\"message\":\"Hel\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":"
        "\"t\",\"progress\":4,\"message\":\"half\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
        "\"Hello\"}],\"structuredContent\":{\"n\":1},\"isError\":false}}\n");
    assert_true(stream->is_over);
}

static void test_call_without_a_token_has_no_progress(void **state)
{
    (void)state;
    begin_stream(&(struct mcp_request){.operation = MCP_CALL, .call = {.rpc_id = STR("3")}});
    tell(3, EVENT_TOKEN, "{\"text\":\"Hel\"}");
    assert_text(buf_str(&got), "\n");
}

static void test_failure_is_a_result_that_is_an_error(void **state)
{
    (void)state;
    begin_stream(&(struct mcp_request){.operation = MCP_TASK_RESULT,
                                       .call = {.rpc_id = STR("3"), .is_task = true}});
    tell(1, EVENT_TASK_FAILED,
         "{\"status\":\"failed\",\"output\":\"so far\",\"error\":{\"code\":\"timeout\","
         "\"message\":\"timeout: 3 s\"}}");
    assert_text(
        buf_str(&got),
        "\n"
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"so "
        "far\"},{\"type\":\"text\",\"text\":\"timeout: 3 s\"}],\"isError\":true,\"_meta\":"
        "{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"" ID "\"}}}}\n");
}

#define ASKED "{\"input_id\":\"q1\",\"kind\":\"approval\",\"prompt\":\"sure?\",\"tool\":\"rm\"}"

static void test_question_is_asked_when_nothing_follows_it(void **state)
{
    (void)state;
    begin_stream(&(struct mcp_request){.operation = MCP_CALL,
                                       .call = {.rpc_id = STR("3"), .elicits = true}});
    tell(1, EVENT_INPUT_REQUIRED, ASKED);
    tell(2, EVENT_INPUT_RECEIVED, "{\"input_id\":\"q1\",\"answer\":true}");
    face_stream_idle(stream, &sink);
    assert_text(buf_str(&got), "\n");
    tell(3, EVENT_INPUT_REQUIRED, ASKED);
    face_stream_idle(stream, &sink);
    face_stream_idle(stream, &sink);
    assert_text(
        buf_str(&got),
        "\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"elicitation/create\",\"id\":\"" ID "/a/q1\",\"params\":"
        "{\"mode\":\"form\",\"message\":\"sure?\",\"requestedSchema\":{\"type\":\"object\","
        "\"properties\":{\"approve\":{\"type\":\"boolean\"}},\"required\":[\"approve\"]}}}\n");
}

static void test_question_to_a_client_that_takes_none_is_left_to_others(void **state)
{
    (void)state;
    begin_stream(&(struct mcp_request){.operation = MCP_CALL, .call = {.rpc_id = STR("3")}});
    tell(1, EVENT_INPUT_REQUIRED, ASKED);
    face_stream_idle(stream, &sink);
    assert_text(buf_str(&got), "\n");
    assert_false(stream->is_over);
}

static void test_cancel_is_answered_by_the_task_that_has_ended(void **state)
{
    (void)state;
    begin_stream(&(struct mcp_request){.operation = MCP_TASK_CANCEL, .call = {.rpc_id = STR("3")}});
    tell(1, EVENT_TASK_CREATED, "{}");
    assert_int_equal(got.len, 0);
    tell(2, EVENT_TASK_FAILED, "{\"status\":\"cancelled\"}");
    assert_text(buf_str(&got), "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"taskId\":\"" ID
                               "\",\"status\":\"cancelled\",\"ttl\":null,\"createdAt\":"
                               "\"2026-11-29T12:00:00.007Z\",\"lastUpdatedAt\":"
                               "\"2026-11-29T12:00:00.007Z\"}}\n");
}

/* --- requests --------------------------------------------------------------------------------- */

static enum face_next post(const char *body)
{
    const struct face_input in = {.operation = MCP_POST,
                                  .header = STR("mcp-e-1"),
                                  .body = str_of(body),
                                  .nonce = STR("00ff"),
                                  .agents = STR("[{\"name\":\"a\",\"description\":\"first\"}]"),
                                  .doc = &doc};
    exchange_done(&x);
    x = (struct face_exchange){.ops = &mcp_post_ops};
    return x.ops->begin(&x, &in);
}

static enum face_next hear(enum error e, const char *line)
{
    return x.ops->replied(&x, e, str_of(line), &reply_doc);
}

static void assert_ask(enum verb verb, const char *conversation, const char *task, const char *body)
{
    assert_int_equal(x.ask.verb, verb);
    assert_string_equal(buf_str(&x.ask.conversation_id).p, conversation);
    assert_string_equal(buf_str(&x.ask.task_id).p, task);
    assert_string_equal(buf_str(&x.ask.body).p, body);
}

#define CALL(method, params) \
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"" method "\",\"params\":" params "}"

static void test_session_says_whether_its_client_takes_questions(void **state)
{
    (void)state;
    static const char plain[] =
        CALL("initialize", "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}");
    assert_int_equal(post(plain), FACE_REPLY);
    assert_text(buf_str(&x.header_value), "mcp-00ff");
    assert_text(
        buf_str(&x.reply),
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"protocolVersion\":\"2025-06-18\","
        "\"capabilities\":{\"tools\":{},\"tasks\":{\"list\":{},\"cancel\":{},\"requests\":{\"tools\":"
        "{\"call\":{}}}}},\"serverInfo\":{\"name\":\"holdfast\",\"version\":\"1.0\"}}}");
    (void)post(
        CALL("initialize", "{\"protocolVersion\":\"1\",\"capabilities\":{\"elicitation\":{}}}"));
    assert_text(buf_str(&x.header_value), "mcp-e-00ff");
}

static void test_call_is_a_chat_of_the_session_that_can_be_found_again(void **state)
{
    (void)state;
    assert_int_equal(
        post(CALL("tools/call", "{\"name\":\"a\",\"arguments\":{\"message\":\"hi\"},\"_meta\":"
                                "{\"progressToken\":7}}")),
        FACE_FOLLOW);
    assert_int_equal(x.ask.verb, VERB_CHAT);
    assert_text(buf_str(&x.ask.conversation_id), "mcp-e-1");
    static const char begin[] =
        "{\"message\":\"hi\",\"agent\":\"a\",\"name\":\"mcp 7\",\"request_key\":\"mcp:";
    assert_memory_equal(x.ask.body.bytes, begin, sizeof begin - 1);
    assert_int_equal(post("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                          "{\"requestId\":7}}"),
                     FACE_ASK);
    assert_ask(VERB_TASKS, "mcp-e-1", "", "{\"limit\":200}");
    assert_int_equal(
        hear(ERR_NONE,
             "{\"tasks\":[{\"task_id\":\"OTHER\",\"status\":\"running\",\"name\":\"mcp "
             "8\"},{\"task_id\":\"" TID "\",\"status\":\"running\",\"name\":\"mcp 7\"}]}"),
        FACE_ASK);
    assert_ask(VERB_CANCEL, "mcp-e-1", TID, "{}");
    assert_int_equal(hear(ERR_NONE, "{\"type\":\"ok\"}"), FACE_REPLY);
    assert_int_equal(x.status, 202);
}

#define RECORD(more)                \
    "{\"task\":{\"task_id\":\"" TID \
    "\",\"conversation_id\":\"c-1\",\"created_at\":1795953600007," more "}}"
#define TASK(status)                                              \
    "\"taskId\":\"" ID "\",\"status\":\"" status                  \
    "\",\"ttl\":null,\"createdAt\":\"2026-11-29T12:00:00.007Z\"," \
    "\"lastUpdatedAt\":\"2026-11-29T12:00:00.007Z\",\"pollInterval\":1000"

static void test_tasks_are_got_and_made(void **state)
{
    (void)state;
    assert_int_equal(post(CALL("tasks/get", "{\"taskId\":\"" ID "\"}")), FACE_ASK);
    assert_ask(VERB_TASK_GET, "c-1", TID, "{}");
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"running\",\"waiting_for\":\"q\"")),
                     FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{" TASK("input_required") "}}");
    assert_int_equal(
        post(CALL("tools/call", "{\"name\":\"a\",\"arguments\":{\"message\":\"hi\"},\"task\":{}}")),
        FACE_ASK);
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"pending\"")), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"task\":{" TASK("working") "}}}");
}

static void test_cancel_of_a_task_waits_for_its_end(void **state)
{
    (void)state;
    assert_int_equal(post(CALL("tasks/cancel", "{\"taskId\":\"" ID "\"}")), FACE_ASK);
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"running\"")), FACE_ASK);
    assert_ask(VERB_CANCEL, "c-1", TID, "{}");
    assert_int_equal(hear(ERR_NONE, "{\"type\":\"ok\"}"), FACE_FOLLOW);
    assert_ask(VERB_RESUME, "c-1", TID, "{}");
    assert_true(x.is_whole);
    (void)post(CALL("tasks/cancel", "{\"taskId\":\"" ID "\"}"));
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"completed\"")), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32602,\"message\":"
                "\"the task has ended\"}}");
}

static void test_answers_to_questions_are_responses(void **state)
{
    (void)state;
    static const struct {
        const char *id, *result, *body;
    } cases[] = {
        {"/a/q", "{\"action\":\"accept\",\"content\":{\"approve\":true}}", "true"},
        {"/a/q", "{\"action\":\"accept\",\"content\":{\"approve\":false}}", "false"},
        {"/a/q", "{\"action\":\"decline\"}", "false"},
        {"/a/q", "{\"action\":\"decline\",\"content\":{\"approve\":true}}", "false"},
        {"/q/q", "{\"action\":\"accept\",\"content\":{\"answer\":\"me\"}}", "\"me\""},
        {"/q/q", "{\"action\":\"cancel\"}", "\"\""},
    };
    char body[512], expected[128];
    for (size_t i = 0; i < countof(cases); i++) {
        snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "%s\",\"result\":%s}",
                 cases[i].id, cases[i].result);
        snprintf(expected, sizeof expected, "{\"input_id\":\"q\",\"answer\":%s}", cases[i].body);
        assert_int_equal(post(body), FACE_ASK);
        assert_ask(VERB_RESPOND, "c-1", TID, expected);
        assert_int_equal(hear(ERR_NOT_FOUND, "{\"message\":\"no such task\"}"), FACE_REPLY);
        assert_int_equal(x.status, 202); /* whatever came of it */
    }
}

static void test_id_of_an_event_brings_the_call_back(void **state)
{
    (void)state;
    const struct mcp_request r = {
        .operation = MCP_CALL,
        .call = {.rpc_id = STR("\"a?\""), .token = STR("5"), .elicits = true, .is_task = true}};
    struct buf id = {0};
    begin_stream(&r);
    mcp_put_event_id(&id, stream, (struct face_place){.seq = 12});
    const struct face_input in = {.operation = MCP_RESUME, .header = buf_str(&id), .doc = &doc};
    x.ops = &mcp_get_ops;
    assert_int_equal(x.ops->begin(&x, &in), FACE_FOLLOW);
    assert_ask(VERB_RESUME, "c-1", TID, "{\"after\":12}");
    const struct mcp_request *read = x.state;
    assert_text(read->call.rpc_id, "\"a?\"");
    assert_text(read->call.token, "5");
    assert_true(read->call.elicits && read->call.is_task);
    for (size_t n = 0; n < id.len; n++) { /* what was cut off is none, and no fault of ours */
        exchange_done(&x);
        x = (struct face_exchange){.ops = &mcp_get_ops};
        (void)mcp_read_event_id(&x, (struct str){id.bytes, n}, STR("http://h"));
    }
    buf_done(&id);
}

#define FILE_DATA "{\"file_id\":\"F\",\"name\":\"a.txt\",\"media_type\":\"text/plain\",\"size\":6}"
#define LINK                                                                                  \
    "{\"type\":\"resource_link\",\"uri\":\"http://h/v1/conversations/c-1/files/F\",\"name\":" \
    "\"a.txt\",\"mimeType\":\"text/plain\",\"size\":6}"
#define LINKED(text) "\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}," LINK "]"

/* The client may come back behind the file: the id of its last event says where the file is. */
static void test_files_are_links_in_the_result_also_for_a_client_that_comes_back(void **state)
{
    struct buf id = {0};
    (void)state;
    begin_stream(&(struct mcp_request){
        .operation = MCP_CALL,
        .call = {.rpc_id = STR("3"), .token = STR("5"), .elicits = true, .base = STR("http://h")}});
    tell(1, EVENT_TASK_CREATED, "{}");
    tell(4, EVENT_FILE, FILE_DATA);
    tell(5, EVENT_INPUT_REQUIRED, "{\"input_id\":\"q1\",\"kind\":\"question\"}");
    tell(6, EVENT_TOKEN, "{\"text\":\"Hel\"}");
    mcp_put_event_id(&id, stream, (struct face_place){.seq = 6});
    tell(7, EVENT_TASK_COMPLETED, "{\"output\":\"Hello\"}");
    assert_non_null(strstr(got.bytes, LINKED("Hello")));
    face_teardown(NULL);

    x.ops = &mcp_get_ops;
    const struct face_input in = {
        .operation = MCP_RESUME, .header = buf_str(&id), .base = STR("http://h"), .doc = &doc};
    assert_int_equal(x.ops->begin(&x, &in), FACE_FOLLOW);
    assert_ask(VERB_RESUME, "c-1", TID, "{\"after\":3}");
    begin_stream(x.state);
    tell(4, EVENT_FILE, FILE_DATA);
    tell(5, EVENT_INPUT_REQUIRED, "{\"input_id\":\"q1\",\"kind\":\"question\"}");
    tell(6, EVENT_TOKEN, "{\"text\":\"Hel\"}");
    face_stream_idle(stream, &sink);
    assert_int_equal(got.len, 0); /* the client has that */
    tell(7, EVENT_TASK_COMPLETED, "{\"output\":\"Hello\"}");
    assert_text(buf_str(&got), "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{" LINKED(
                                   "Hello") ",\"isError\":false}}\n");
    buf_done(&id);
}

static void test_bad_messages_have_the_codes_of_json_rpc(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int code, status;
    } cases[] = {
        {"{", -32700, 400},
        {"[]", -32600, 400},
        {"{\"jsonrpc\":\"2.0\"}", -32600, 400},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, 400},
        {CALL("resources/list", "{}"), -32601, 200},
        {CALL("tools/call", "{}"), -32602, 200},
        {CALL("tools/call", "{\"name\":\"a\"}"), -32602, 200},
        {CALL("tasks/get", "{}"), -32602, 200},
        {CALL("tasks/result", "{\"taskId\":\"" TID "\"}"), -32602, 200},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        int64_t code = 0;
        assert_int_equal(post(cases[i].body), FACE_REPLY);
        assert_true(js_parse(&reply_doc, x.reply.bytes, x.reply.len, JS_OURS));
        uint32_t error = js_get(&reply_doc, 0, "error");
        assert_true(error && js_int(&reply_doc, js_get(&reply_doc, error, "code"), &code));
        assert_int_equal(code, cases[i].code);
        assert_int_equal(x.status, cases[i].status);
    }
    assert_int_equal(post("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                     FACE_REPLY);
    assert_int_equal(x.status, 202);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_call_is_primed_told_its_progress_and_ends_in_the_result),
        TEST(test_call_without_a_token_has_no_progress),
        TEST(test_failure_is_a_result_that_is_an_error),
        TEST(test_files_are_links_in_the_result_also_for_a_client_that_comes_back),
        TEST(test_question_is_asked_when_nothing_follows_it),
        TEST(test_question_to_a_client_that_takes_none_is_left_to_others),
        TEST(test_cancel_is_answered_by_the_task_that_has_ended),
        TEST(test_session_says_whether_its_client_takes_questions),
        TEST(test_call_is_a_chat_of_the_session_that_can_be_found_again),
        TEST(test_tasks_are_got_and_made),
        TEST(test_cancel_of_a_task_waits_for_its_end),
        TEST(test_answers_to_questions_are_responses),
        TEST(test_id_of_an_event_brings_the_call_back),
        TEST(test_bad_messages_have_the_codes_of_json_rpc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
