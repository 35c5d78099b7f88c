#include "tests/support/face_kit.h"

#include "proto/faces/a2a.h"

/* The right messages are those of A2A 1.0 (its ProtoJSON), worked out by hand from the mapping in
 * docs/faces.md; the requests are those that the SDK's client posts. */

#define ID "Yy0x." TID /* of conversation c-1 */
#define ABOUT "\"taskId\":\"" ID "\",\"contextId\":\"c-1\""
#define AT "\"timestamp\":\"2026-11-29T12:00:00.007Z\""

static void begin_stream(const struct a2a_request *r)
{
    stream = a2a_ops.make(&(struct face_task){
        .task_id = STR(TID), .conversation_id = STR("c-1"), .agent = STR("a"), .request = r});
}

#define CREATED "{\"agent\":\"a\",\"input\":\"hi\"}"
#define HISTORY                                                                        \
    "\"history\":[{\"messageId\":\"" TID "-1\",\"contextId\":\"c-1\",\"taskId\":\"" ID \
    "\",\"role\":"                                                                     \
    "\"ROLE_USER\",\"parts\":[{\"text\":\"hi\"}]}]"
#define ARTIFACT(text) \
    "{\"artifactId\":\"answer\",\"name\":\"answer\",\"parts\":[{\"text\":\"" text "\"}]}"
#define STATUS(state) "\"status\":{\"state\":\"TASK_STATE_" state "\"," AT "}"
#define UPDATE(state) "{\"statusUpdate\":{" ABOUT "," STATUS(state)
#define PIECE(text, append) \
    "{\"artifactUpdate\":{" ABOUT ",\"artifact\":" ARTIFACT(text) ",\"append\":" append "}}"

/* --- streams ---------------------------------------------------------------------------------- */

static void test_new_task_is_said_first_and_its_text_is_one_artifact(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_STREAM});
    tell_next(EVENT_TASK_CREATED, CREATED);
    tell_next(EVENT_TASK_STARTED, "{}");
    tell_next(EVENT_TOKEN, "{\"text\":\"Hel\"}");
    tell_next(EVENT_TOKEN, "{\"text\":\"l\\u00f6\\n\"}");
    tell_next(EVENT_FINAL_ANSWER, "{\"output\":\"Hell\xc3\xb6\\n\"}");
    tell_next(EVENT_TASK_COMPLETED, "{\"output\":\"x\",\"result\":{\"n\":3}}");
    assert_text(
        buf_str(&got),
        "{\"task\":{\"id\":\"" ID "\",\"contextId\":\"c-1\"," STATUS(
            "SUBMITTED") "," HISTORY
                         "}}\n" UPDATE("WORKING") "}}\n" PIECE("Hel", "false") "\n" PIECE(
                             "l\xc3\xb6\\n",
                             "true") "\n" UPDATE("COMPLETED") ",\"metadata\":{\"result\":{\"n\":3}}}}\n");
    assert_true(stream->is_over);
}

static void test_each_message_is_an_answer_of_json_rpc(void **state)
{
    (void)state;
    begin_stream(
        &(struct a2a_request){.operation = A2A_STREAM, .is_rpc = true, .rpc_id = STR("7")});
    tell_next(EVENT_TASK_CREATED, CREATED);
    buf_clear(&got);
    tell_next(EVENT_TASK_STARTED, "{}");
    assert_text(buf_str(&got),
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":" UPDATE("WORKING") "}}}\n");
}

static void test_subscription_begins_with_a_snapshot(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_SUBSCRIBE, .without_history = true});
    tell_next(EVENT_TASK_CREATED, CREATED);
    tell_next(EVENT_TASK_STARTED, "{}");
    tell_next(EVENT_TOKEN, "{\"text\":\"so \"}");
    tell_next(EVENT_TOKEN, "{\"text\":\"far\"}");
    assert_int_equal(got.len, 0);
    face_stream_idle(stream, &sink);
    face_stream_idle(stream, &sink);
    tell_next(EVENT_TOKEN, "{\"text\":\"!\"}");
    assert_text(buf_str(&got),
                "{\"task\":{\"id\":\"" ID
                "\",\"contextId\":\"c-1\"," STATUS("WORKING") ",\"artifacts\":[" ARTIFACT(
                    "so far") "]}}\n" PIECE("!", "true") "\n");
    assert_false(stream->is_over);
}

/* 256 KiB in the snapshot, the rest in pieces: none of it is lost, or kept. */
static void test_long_snapshot_goes_on_in_pieces(void **state)
{
    struct buf piece = {0};
    (void)state;
    buf_puts(&piece, "{\"text\":\"");
    for (size_t i = 0; i < 100000; i++)
        buf_putc(&piece, '#');
    buf_puts(&piece, "\"}");
    buf_putc(&piece, 0);
    begin_stream(&(struct a2a_request){.operation = A2A_SUBSCRIBE, .without_history = true});
    tell_next(EVENT_TASK_CREATED, CREATED);
    tell_next(EVENT_TOKEN, piece.bytes);
    tell_next(EVENT_TOKEN, piece.bytes);
    assert_int_equal(got.len, 0);
    tell_next(EVENT_TOKEN, piece.bytes);
    size_t n = 0;
    for (size_t i = 0; i < got.len; i++)
        n += got.bytes[i] == '#';
    assert_int_equal(n, 300000);
    assert_non_null(strstr(got.bytes, "\"append\":true"));
    face_stream_idle(stream, &sink);
    assert_null(strstr(got.bytes + got.len - 100, "{\"task\":"));
    buf_done(&piece);
}

static void test_get_says_what_there_is_and_is_over(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_GET});
    tell_next(EVENT_TASK_CREATED, CREATED);
    face_stream_idle(stream, &sink);
    assert_text(buf_str(&got),
                "{\"id\":\"" ID "\",\"contextId\":\"c-1\"," STATUS("SUBMITTED") "," HISTORY "}\n");
    assert_true(stream->is_over);
}

static void test_message_waits_for_the_end_or_for_a_question(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_SEND, .without_history = true});
    tell_next(EVENT_TASK_CREATED, CREATED);
    face_stream_idle(stream, &sink);
    assert_int_equal(got.len, 0);
    tell_next(EVENT_INPUT_REQUIRED,
              "{\"input_id\":\"q\",\"kind\":\"question\",\"prompt\":\"who?\"}");
    assert_int_equal(got.len, 0);
    face_stream_idle(stream, &sink);
    assert_text(
        buf_str(&got),
        "{\"task\":{\"id\":\"" ID "\",\"contextId\":\"c-1\",\"status\":{\"state\":"
        "\"TASK_STATE_INPUT_REQUIRED\"," AT ",\"message\":{\"messageId\":\"" TID
        "-2\",\"contextId\":\"c-1\",\"taskId\":\"" ID "\",\"role\":\"ROLE_AGENT\",\"parts\":"
        "[{\"text\":\"who?\"},{\"data\":{\"input_id\":\"q\",\"kind\":\"question\",\"prompt\":"
        "\"who?\"}}]}}}}\n");
    assert_true(stream->is_over);
}

static void test_question_that_was_answered_stops_nothing(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_STREAM_ON});
    tell_next(EVENT_INPUT_REQUIRED,
              "{\"input_id\":\"q\",\"kind\":\"question\",\"prompt\":\"who?\"}");
    tell_next(EVENT_INPUT_RECEIVED, "{\"input_id\":\"q\",\"answer\":\"me\"}");
    face_stream_idle(stream, &sink);
    assert_text(buf_str(&got),
                "{\"task\":{\"id\":\"" ID "\",\"contextId\":\"c-1\"," STATUS("WORKING") "}}\n");
    assert_false(stream->is_over);
}

static void test_another_final_answer_takes_the_artifacts_place(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_STREAM});
    tell_next(EVENT_TASK_CREATED, CREATED);
    tell_next(EVENT_TOKEN, "{\"text\":\"draft\"}");
    buf_clear(&got);
    tell_next(EVENT_FINAL_ANSWER, "{\"output\":\"final\"}");
    assert_text(buf_str(&got), PIECE("final", "false") "\n");
}

static void test_what_has_no_place_is_metadata(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_STREAM});
    tell_next(EVENT_TASK_CREATED, CREATED);
    tell_next(EVENT_TASK_STARTED, "{}");
    buf_clear(&got);
    tell_next(EVENT_TOOL_CALL, "{\"call_id\":\"1\",\"name\":\"clock\",\"arguments\":{}}");
    assert_text(buf_str(&got),
                UPDATE("WORKING") ",\"metadata\":{\"event\":\"tool_call\",\"data\":{"
                                  "\"call_id\":\"1\",\"name\":\"clock\",\"arguments\":{}}}}}\n");
}

#define FILE_DATA                                                                              \
    "{\"call_id\":\"1\",\"file_id\":\"F\",\"name\":\"a b.txt\",\"media_type\":\"text/plain\"," \
    "\"size\":6,\"sha256\":\"00\"}"
#define FILE_ARTIFACT                                                                               \
    "{\"artifactId\":\"F\",\"name\":\"a b.txt\",\"parts\":[{\"url\":\"http://h/v1/conversations/"   \
    "c-1/files/F\",\"filename\":\"a b.txt\",\"mediaType\":\"text/plain\",\"metadata\":{\"size\":6," \
    "\"sha256\":\"00\"}}]}"

static void test_file_is_an_artifact_of_its_own(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_STREAM, .base = STR("http://h")});
    tell_next(EVENT_TASK_CREATED, CREATED);
    buf_clear(&got);
    tell_next(EVENT_FILE, FILE_DATA);
    tell_next(EVENT_TOKEN, "{\"text\":\"ok\"}");
    assert_text(buf_str(&got),
                "{\"artifactUpdate\":{" ABOUT ",\"artifact\":" FILE_ARTIFACT
                ",\"append\":false,\"lastChunk\":true}}\n" PIECE("ok", "false") "\n");
    face_teardown(NULL);
    begin_stream(&(struct a2a_request){
        .operation = A2A_GET, .base = STR("http://h"), .without_history = true});
    tell_next(EVENT_TASK_CREATED, CREATED);
    tell_next(EVENT_FILE, FILE_DATA);
    tell_next(EVENT_TOKEN, "{\"text\":\"ok\"}");
    face_stream_idle(stream, &sink);
    assert_text(buf_str(&got),
                "{\"id\":\"" ID "\",\"contextId\":\"c-1\"," STATUS(
                    "SUBMITTED") ",\"artifacts\":[" ARTIFACT("ok") "," FILE_ARTIFACT "]}\n");
}

static void test_task_without_its_beginning_has_the_text_of_its_end(void **state)
{
    static const struct a2a_request r = {.operation = A2A_GET};
    (void)state;
    stream = a2a_ops.make(&(struct face_task){.task_id = STR(TID),
                                              .conversation_id = STR("c-1"),
                                              .agent = STR("a"),
                                              .first = 4,
                                              .request = &r});
    tell(4, EVENT_TOKEN, "{\"text\":\"lo\"}");
    tell(5, EVENT_TASK_COMPLETED, "{\"output\":\"Hello\"}");
    assert_text(buf_str(&got), "{\"id\":\"" ID "\",\"contextId\":\"c-1\"," STATUS(
                                   "COMPLETED") ",\"artifacts\":[" ARTIFACT("Hello") "]}\n");
}

static void test_failure_says_why_and_a_cancel_is_canceled(void **state)
{
    (void)state;
    begin_stream(&(struct a2a_request){.operation = A2A_CANCEL, .without_history = true});
    tell_next(EVENT_TASK_CREATED, CREATED);
    face_stream_idle(stream, &sink);
    tell_next(EVENT_TASK_FAILED,
              "{\"status\":\"cancelled\",\"error\":{\"code\":\"cancelled\",\"message\":"
              "\"cancelled by the user\"}}");
    assert_text(
        buf_str(&got),
        "{\"id\":\"" ID "\",\"contextId\":\"c-1\",\"status\":{\"state\":\"TASK_STATE_CANCELED\"," AT
        ",\"message\":{\"messageId\":\"" TID "-2\",\"contextId\":\"c-1\",\"taskId\":\"" ID
        "\",\"role\":\"ROLE_AGENT\",\"parts\":[{\"text\":\"cancelled by the user\"}]}},"
        "\"metadata\":{\"error\":{\"code\":\"cancelled\",\"message\":\"cancelled by the user\"}}}\n");
}

/* --- requests --------------------------------------------------------------------------------- */

static enum face_next ask(const struct face_http_ops *ops, struct face_input in)
{
    exchange_done(&x);
    x = (struct face_exchange){.ops = ops};
    in.agent = in.agent.p ? in.agent : STR("a");
    in.doc = &doc;
    return ops->begin(&x, &in);
}

static enum face_next call(const char *body)
{
    return ask(&a2a_rpc_ops, (struct face_input){.operation = A2A_RPC, .body = str_of(body)});
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
    "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":" params ",\"id\":1}"
#define MESSAGE(more, text)                    \
    "{\"message\":{\"messageId\":\"m1\"," more \
    "\"role\":\"ROLE_USER\",\"parts\":[{\"text\":\"" text "\"}]},\"configuration\":{}}"

static void test_message_is_a_chat_and_its_id_a_key(void **state)
{
    (void)state;
    assert_int_equal(
        call(CALL("SendStreamingMessage", MESSAGE("\"contextId\":\"c-1\",", "h\\u0069"))),
        FACE_FOLLOW);
    assert_int_equal(x.ask.verb, VERB_CHAT);
    assert_text(buf_str(&x.ask.conversation_id), "c-1");
    struct str body = buf_str(&x.ask.body);
    static const char begin[] = "{\"message\":\"hi\",\"agent\":\"a\",\"request_key\":\"a2a:";
    assert_true(body.n > sizeof begin);
    assert_memory_equal(body.p, begin, sizeof begin - 1);
    assert_false(x.is_whole);
    struct buf first = {0};
    buf_putstr(&first, body);
    assert_int_equal(call(CALL("SendMessage", MESSAGE("\"contextId\":\"c-1\",", "hi"))),
                     FACE_FOLLOW);
    assert_true(str_eq(buf_str(&x.ask.body), buf_str(&first))); /* the same message */
    assert_true(x.is_whole);
    assert_int_equal(call(CALL("SendMessage", MESSAGE("\"contextId\":\"c-2\",", "hi"))),
                     FACE_FOLLOW);
    assert_false(str_eq(buf_str(&x.ask.body), buf_str(&first)));
    buf_done(&first);
}

#define RECORD(more)                                       \
    "{\"type\":\"task\",\"task\":{\"task_id\":\"" TID      \
    "\",\"conversation_id\":\"c-1\",\"agent\":\"a\"," more \
    ",\"head\":9,\"created_at\":5,\"started_at\":6}}"

static void test_message_to_a_task_answers_it_or_is_sent_to_it(void **state)
{
    (void)state;
    assert_int_equal(call(CALL("SendMessage", MESSAGE("\"taskId\":\"" ID "\",", "me"))), FACE_ASK);
    assert_ask(VERB_TASK_GET, "c-1", TID, "{}");
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"running\"")), FACE_ASK);
    assert_ask(VERB_SEND, "c-1", TID, "{\"content\":\"me\"}");
    assert_int_equal(hear(ERR_NONE, "{\"type\":\"ok\"}"), FACE_FOLLOW);
    assert_ask(VERB_RESUME, "c-1", TID, "{}");
    assert_int_equal(call(CALL("SendMessage", MESSAGE("\"taskId\":\"" ID "\",", "Yes"))), FACE_ASK);
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"running\",\"waiting_for\":\"q\"")),
                     FACE_ASK);
    assert_ask(VERB_RESPOND, "c-1", TID, "{\"input_id\":\"q\",\"answer\":\"Yes\"}");
    assert_int_equal(hear(ERR_BAD_REQUEST, "{\"message\":\"must be true or false\"}"), FACE_ASK);
    assert_ask(VERB_RESPOND, "c-1", TID, "{\"input_id\":\"q\",\"answer\":true}");
    assert_int_equal(hear(ERR_NONE, "{\"type\":\"ok\"}"), FACE_FOLLOW);
}

static void test_text_that_is_no_verdict_approves_of_nothing(void **state)
{
    (void)state;
    (void)call(CALL("SendMessage", MESSAGE("\"taskId\":\"" ID "\",", "yes please")));
    (void)hear(ERR_NONE, RECORD("\"status\":\"running\",\"waiting_for\":\"q\""));
    assert_int_equal(hear(ERR_BAD_REQUEST, "{\"message\":\"must be true or false\"}"), FACE_REPLY);
    assert_text(
        buf_str(&x.reply),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"must be true or "
        "false\",\"data\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":"
        "\"INVALID_PARAMS\",\"domain\":\"a2a-protocol.org\"}]}}");
}

static void test_data_with_answer_is_the_answer_as_it_is(void **state)
{
    (void)state;
    (void)call(CALL("SendMessage",
                    "{\"message\":{\"messageId\":\"m\",\"taskId\":\"" ID
                    "\",\"role\":\"ROLE_USER\",\"parts\":[{\"data\":{\"answer\":false}}]}}"));
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"running\",\"waiting_for\":\"q\"")),
                     FACE_ASK);
    assert_ask(VERB_RESPOND, "c-1", TID, "{\"input_id\":\"q\",\"answer\":false}");
}

static void test_ended_task_of_which_no_event_is_kept_is_told_from_its_record(void **state)
{
    (void)state;
    assert_int_equal(call(CALL("GetTask", "{\"id\":\"" ID "\"}")), FACE_ASK);
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"failed\",\"error\":{\"code\":\"timeout\","
                                           "\"message\":\"timeout\"},\"output\":\"so far\"")),
                     FACE_FOLLOW);
    assert_ask(VERB_RESUME, "c-1", TID, "{}");
    assert_int_equal(hear(ERR_INTERNAL, "{}"), FACE_REPLY);
    assert_text(
        buf_str(&x.reply),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"id\":\"" ID
        "\",\"contextId\":\"c-1\",\"status\":"
        "{\"state\":\"TASK_STATE_FAILED\",\"timestamp\":\"1970-01-01T00:00:00.006Z\",\"message\":"
        "{\"messageId\":\"" TID "-9\",\"contextId\":\"c-1\",\"taskId\":\"" ID "\",\"role\":"
        "\"ROLE_AGENT\",\"parts\":[{\"text\":\"timeout\"}]}},\"artifacts\":[" ARTIFACT(
            "so far") "],\"metadata\":{\"error\":{\"code\":\"timeout\",\"message\":\"timeout\"}}}}");
    assert_int_equal(x.status, 200);
}

static int code_of_reply(void)
{
    int64_t code = 0;
    assert_true(js_parse(&reply_doc, x.reply.bytes, x.reply.len, JS_OURS));
    uint32_t error = js_get(&reply_doc, 0, "error");
    assert_true(error && js_int(&reply_doc, js_get(&reply_doc, error, "code"), &code));
    return (int)code;
}

static void test_operations_that_an_ended_task_does_not_take(void **state)
{
    (void)state;
    static const struct {
        const char *call, *record;
        int code;
    } cases[] = {
        {CALL("CancelTask", "{\"id\":\"" ID "\"}"), RECORD("\"status\":\"completed\""), -32002},
        {CALL("SubscribeToTask", "{\"id\":\"" ID "\"}"), RECORD("\"status\":\"completed\""),
         -32004},
        {CALL("SendMessage", MESSAGE("\"taskId\":\"" ID "\",", "x")),
         RECORD("\"status\":\"cancelled\""), -32004},
        {CALL("SendMessage", MESSAGE("\"taskId\":\"" ID "\",\"contextId\":\"c-2\",", "x")),
         RECORD("\"status\":\"running\""), -32602},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        assert_int_equal(call(cases[i].call), FACE_ASK);
        assert_int_equal(hear(ERR_NONE, cases[i].record), FACE_REPLY);
        assert_int_equal(code_of_reply(), cases[i].code);
    }
    (void)call(CALL("CancelTask", "{\"id\":\"" ID "\"}"));
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"cancelled\"")), FACE_FOLLOW);
    (void)call(CALL("CancelTask", "{\"id\":\"" ID "\"}"));
    assert_int_equal(hear(ERR_NONE, RECORD("\"status\":\"running\"")), FACE_ASK);
    assert_ask(VERB_CANCEL, "c-1", TID, "{}");
}

static void test_bad_requests_have_the_protocols_codes(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int code;
    } cases[] = {
        {"{", -32700},
        {"[]", -32600},
        {"{\"jsonrpc\":\"1.0\",\"method\":\"GetTask\",\"params\":{}}", -32600},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"GetTask\",\"params\":{},\"id\":{}}", -32600},
        {"{\"jsonrpc\":\"2.0\",\"params\":{}}", -32600},
        {CALL("message/send", "{}"), -32601},
        {CALL("GetTask", "[]"), -32602},
        {CALL("SendMessage", "{}"), -32602},
        {CALL("SendMessage", MESSAGE("", "")), -32602},
        {CALL("ListTasks", "{\"pageSize\":0}"), -32602},
        {CALL("ListTasks", "{\"pageSize\":101}"), -32602},
        {CALL("ListTasks", "{\"status\":\"DONE\"}"), -32602},
        {CALL("ListTasks", "{\"pageToken\":\"!\"}"), -32602},
        {CALL("ListTasks", "{\"statusTimestampAfter\":\"soon\"}"), -32602},
        {CALL("CreateTaskPushNotificationConfig", "{}"), -32001},
        {CALL("GetExtendedAgentCard", "{}"), -32004},
        {CALL("GetTask", "{}"), -32001},
        {CALL("GetTask", "{\"id\":\"" TID "\"}"), -32001},
        {CALL("GetTask", "{\"id\":\"YQ." TID "x\"}"), -32001},
        {CALL("SendMessage",
              "{\"message\":{\"messageId\":\"m\",\"role\":\"ROLE_USER\",\"parts\":[{\"raw\":"
              "\"AA=\"}]}}"),
         -32005},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        assert_int_equal(call(cases[i].body), FACE_REPLY);
        assert_int_equal(code_of_reply(), cases[i].code);
        assert_int_equal(x.status, 200);
    }
    const struct face_input old = {
        .operation = A2A_RPC, .header = STR("0.3"), .body = STR(CALL("GetTask", "{\"id\":\"x\"}"))};
    assert_int_equal(ask(&a2a_rpc_ops, old), FACE_REPLY);
    assert_int_equal(code_of_reply(), -32009);
}

static void test_rest_has_its_own_form_of_errors(void **state)
{
    (void)state;
    assert_int_equal(
        ask(&a2a_rest_ops, (struct face_input){.operation = A2A_GET, .task = STR("x")}),
        FACE_REPLY);
    assert_int_equal(x.status, 404);
    assert_text(
        buf_str(&x.reply),
        "{\"error\":{\"code\":404,\"status\":\"NOT_FOUND\",\"message\":\"no such task\",\"details\":"
        "[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"TASK_NOT_FOUND\","
        "\"domain\":\"a2a-protocol.org\"}]}}");
}

/* --- lists ------------------------------------------------------------------------------------ */

#define OLD "01ARZ3NDEKTSV4RRFFQ69G5FAA"
#define LISTED(id, agent, status)                                            \
    "{\"task_id\":\"" id "\",\"conversation_id\":\"c-1\",\"agent\":\"" agent \
    "\",\"status\":\"" status "\","                                          \
    "\"created_at\":1795953600007}"
#define SHORT(id, state) "{\"id\":\"Yy0x." id "\",\"contextId\":\"c-1\"," STATUS(state) "}"

static void test_page_of_a_conversation_ends_where_it_is_full(void **state)
{
    (void)state;
    const struct face_input in = {.operation = A2A_LIST, .query = STR("contextId=c-1&pageSize=1")};
    assert_int_equal(ask(&a2a_rest_ops, in), FACE_ASK);
    assert_ask(VERB_TASKS, "c-1", "", "{\"limit\":100}");
    assert_int_equal(hear(ERR_NONE, "{\"tasks\":[" LISTED(OLD, "a", "running") "," LISTED(
                                        TID, "a", "completed") "]}"),
                     FACE_REPLY);
    assert_text(
        buf_str(&x.reply), /* the token is c-1, a newline, and TID */
        "{\"tasks\":[" SHORT(
            TID,
            "COMPLETED") "],\"nextPageToken\":\""
                         "Yy0xCjAxQVJaM05ERUtUU1Y0UlJGRlE2OUc1RkFW\",\"pageSize\":1,\"totalSize\":2}");
    const struct face_input more = {
        .operation = A2A_LIST,
        .query = STR("contextId=c-1&pageToken=Yy0xCjAxQVJaM05ERUtUU1Y0UlJGRlE2OUc1RkFW")};
    assert_int_equal(ask(&a2a_rest_ops, more), FACE_ASK);
    assert_ask(VERB_TASKS, "c-1", "", "{\"limit\":100,\"before\":\"" TID "\"}");
    assert_int_equal(hear(ERR_NONE, "{\"tasks\":[" LISTED(OLD, "a", "running") "]}"), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"tasks\":[" SHORT(
                    OLD, "WORKING") "],\"nextPageToken\":\"\",\"pageSize\":50,\"totalSize\":1}");
}

static void test_list_of_all_goes_from_conversation_to_conversation(void **state)
{
    (void)state;
    assert_int_equal(call(CALL("ListTasks", "{}")), FACE_ASK);
    assert_ask(VERB_CONVERSATIONS, "", "", "{\"limit\":1}");
    assert_int_equal(
        hear(ERR_NONE, "{\"conversations\":[{\"conversation_id\":\"c-1\"}],\"more\":true}"),
        FACE_ASK);
    assert_ask(VERB_TASKS, "c-1", "", "{\"limit\":100}");
    assert_int_equal(hear(ERR_NONE, "{\"tasks\":[" LISTED(OLD, "another", "running") "," LISTED(
                                        TID, "a", "pending") "]}"),
                     FACE_ASK);
    assert_ask(VERB_CONVERSATIONS, "", "", "{\"limit\":1,\"before\":\"c-1\"}");
    assert_int_equal(hear(ERR_NONE, "{\"conversations\":[]}"), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tasks\":[" SHORT(
                    TID, "SUBMITTED") "],\"nextPageToken\":\"\",\"pageSize\":50,\"totalSize\":1}}");
}

static void test_times_of_rfc_3339_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"2026-11-29T12:00:00.007Z", TS},
                {"2026-11-29T12:00:00.0079Z", TS},
                {"2026-11-29T13:30:00.007+01:30", TS},
                {"2026-11-29T08:00:00.007-04:00", TS},
                {"2026-11-29T12:00:00Z", TS - 7}};
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-11-29",
                                      "2026-11-29T12:00:00",
                                      "2026-11-29T12:00:00.",
                                      "2026-11-29T12:00:00+0130",
                                      "2026-11-29T12:00:00+01:30 or so",
                                      "2026-11-29T12:00:00+-1:30",
                                      " 2026-11-29T12:00:00Z",
                                      "2026-11-29T 2:00:00Z",
                                      "2026-11-29T12:00:00Z\n",
                                      "tomorrow"};
    int64_t ms;
    for (size_t i = 0; i < countof(good); i++) {
        assert_true(a2a_time_read(str_of(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(a2a_time_read(str_of(bad[i]), &ms));
}

static void test_card_names_where_the_agent_is_asked(void **state)
{
    (void)state;
    static const char agents[] =
        "[{\"name\":\"a\",\"description\":\"first\",\"default\":false,\"examples\":[\"hi\"]},"
        "{\"name\":\"b\",\"description\":\"\",\"default\":true}]";
    struct face_input in = {
        .operation = A2A_CARD, .base = STR("https://h"), .agents = str_of(agents)};
    assert_int_equal(ask(&a2a_rest_ops, in), FACE_REPLY);
    assert_text(
        buf_str(&x.reply),
        "{\"name\":\"a\",\"description\":\"first\",\"version\":\"1.0\",\"supportedInterfaces\":[{\"url\":"
        "\"https://h/v1/a2a/a\",\"protocolBinding\":\"JSONRPC\",\"protocolVersion\":\"1.0\"},{\"url\":"
        "\"https://h/v1/a2a/a\",\"protocolBinding\":\"HTTP+JSON\",\"protocolVersion\":\"1.0\"}],"
        "\"capabilities\":{\"streaming\":true,\"pushNotifications\":false,\"extendedAgentCard\":false},"
        "\"securitySchemes\":{\"bearer\":{\"httpAuthSecurityScheme\":{\"scheme\":\"Bearer\"}}},"
        "\"securityRequirements\":[{\"schemes\":{\"bearer\":{\"list\":[]}}}],\"defaultInputModes\":"
        "[\"text/plain\"],\"defaultOutputModes\":[\"text/plain\"],\"skills\":[{\"id\":\"a\",\"name\":\"a\","
        "\"description\":\"first\",\"tags\":[],\"examples\":[\"hi\"]}]}");
    in.agent = STR("c");
    assert_int_equal(ask(&a2a_rest_ops, in), FACE_REPLY);
    assert_int_equal(x.status, 404);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_new_task_is_said_first_and_its_text_is_one_artifact),
        TEST(test_each_message_is_an_answer_of_json_rpc),
        TEST(test_subscription_begins_with_a_snapshot),
        TEST(test_long_snapshot_goes_on_in_pieces),
        TEST(test_get_says_what_there_is_and_is_over),
        TEST(test_message_waits_for_the_end_or_for_a_question),
        TEST(test_question_that_was_answered_stops_nothing),
        TEST(test_another_final_answer_takes_the_artifacts_place),
        TEST(test_what_has_no_place_is_metadata),
        TEST(test_file_is_an_artifact_of_its_own),
        TEST(test_task_without_its_beginning_has_the_text_of_its_end),
        TEST(test_failure_says_why_and_a_cancel_is_canceled),
        TEST(test_message_is_a_chat_and_its_id_a_key),
        TEST(test_message_to_a_task_answers_it_or_is_sent_to_it),
        TEST(test_text_that_is_no_verdict_approves_of_nothing),
        TEST(test_data_with_answer_is_the_answer_as_it_is),
        TEST(test_ended_task_of_which_no_event_is_kept_is_told_from_its_record),
        TEST(test_operations_that_an_ended_task_does_not_take),
        TEST(test_bad_requests_have_the_protocols_codes),
        TEST(test_rest_has_its_own_form_of_errors),
        TEST(test_page_of_a_conversation_ends_where_it_is_full),
        TEST(test_list_of_all_goes_from_conversation_to_conversation),
        TEST(test_times_of_rfc_3339_are_read),
        TEST(test_card_names_where_the_agent_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
