#include <stdio.h>

#define FACE_SETUP setup
#include "tests/support/face_kit.h"

#include "proto/faces/acp_server.h"
#include "proto/str.h"

/* The right messages are those of ACP 1, worked out by hand from the mapping in docs/faces.md; the
 * frames of requests are recorded from the client of @agentclientprotocol/sdk 2.4.0. */

#define ID "Yy0x." TID /* of conversation c-1 */

#define SENT_INITIALIZE                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\"" \
    ":1,\"clientCapabilities\":{\"elicitation\":{\"form\":{}}}}}"
#define SENT_NEW                                                                          \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"/\"," \
    "\"mcpServers\":[]}}"
#define SENT_PROMPT                                                                          \
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/prompt\",\"params\":{\"sessionId\":" \
    "\"c-1\",\"prompt\":[{\"type\":\"text\",\"text\":\"hi\"}]}}"
#define SENT_PERMISSION                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "/a/q1\",\"result\":{\"outcome\":{\"outcome\":" \
    "\"selected\",\"optionId\":\"allow\"}}}"
#define SENT_FORM                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "/q/q2\",\"result\":{\"action\":\"accept\"," \
    "\"content\":{\"answer\":\"me\"}}}"
#define SENT_CANCEL \
    "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"c-1\"}}"
#define SENT_LOAD                                                                          \
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/load\",\"params\":{\"sessionId\":" \
    "\"c-1\",\"cwd\":\"/\",\"mcpServers\":[]}}"

static struct face_peer peer;

static int setup(void **state)
{
    (void)state;
    peer = (struct face_peer){0};
    return 0;
}

static enum face_next send(const char *frame)
{
    const struct face_input in = {
        .body = str_of(frame), .nonce = STR("00ff"), .agent = STR("a"), .peer = &peer, .doc = &doc};
    exchange_done(&x);
    x = (struct face_exchange){.ops = &acp_server_http_ops};
    return x.ops->begin(&x, &in);
}

static enum face_next hear(enum error e, const char *line)
{
    return x.ops->replied(&x, e, str_of(line), &reply_doc);
}

static void begin_stream(const char *after_answer)
{
    stream = acp_server_ops.make(
        &(struct face_task){.task_id = STR(TID),
                            .conversation_id = STR("c-1"),
                            .after_answer = after_answer ? str_of(after_answer) : STR_NULL,
                            .request = x.state});
}

static void begin_prompt(bool elicits)
{
    peer = (struct face_peer){.has_begun = true, .elicits = elicits};
    assert_int_equal(send(SENT_PROMPT), FACE_FOLLOW);
    begin_stream(NULL);
}

static void assert_ask(enum verb verb, const char *task, const char *body)
{
    assert_int_equal(x.ask.verb, verb);
    assert_text(buf_str(&x.ask.conversation_id), "c-1");
    assert_text(buf_str(&x.ask.task_id), task);
    assert_text(buf_str(&x.ask.body), body);
}

/* --- streams ---------------------------------------------------------------------------------- */

#define UPDATE(kind)                                                                        \
    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"c-1\"," \
    "\"update\":{\"sessionUpdate\":\"" kind "\""
#define CHUNK(kind, text, seq) \
    UPDATE(kind)               \
    ",\"content\":{\"type\":\"text\",\"text\":\"" text "\"},\"messageId\":\"" TID "-" seq "\"}}}\n"
#define REPLY(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{" result "}}\n"

static void test_prompt_is_told_as_updates_and_ends_in_its_reply(void **state)
{
    (void)state;
    begin_prompt(false);
    tell(1, EVENT_TASK_CREATED, "{\"input\":\"hi\"}");
    tell(2, EVENT_THINKING, "{\"text\":\"hm\"}");
    tell(3, EVENT_TOKEN, "{\"text\":\"Hel\"}");
    tell(4, EVENT_TOKEN, "{\"text\":\"lo\"}");
    tell(5, EVENT_TOOL_CALL, "{\"call_id\":\"1\",\"name\":\"ls\",\"arguments\":{\"at\":\"/\"}}");
    tell(6, EVENT_TOOL_RESULT, "{\"call_id\":\"1\",\"output\":\"no\",\"is_error\":true}");
    tell(7, EVENT_TOKEN, "{\"text\":\"!\"}");
    tell(8, EVENT_FINAL_ANSWER, "{\"output\":\"Hello!\"}");
    tell(9, EVENT_TASK_COMPLETED, "{\"output\":\"Hello!\",\"result\":{\"n\":1}}");
    assert_text(
        buf_str(&got),
        CHUNK("agent_thought_chunk", "hm", "2") CHUNK("agent_message_chunk", "Hel", "3")
            CHUNK("agent_message_chunk", "lo", "3") UPDATE(
                "tool_call") ",\"toolCallId\":\"" TID
                             "-1\",\"title\":\"ls\",\"status\":\"in_progress\","
                             "\"rawInput\":{\"at\":\"/\"}}}}\n" UPDATE(
                                 "tool_call_update") ",\"toolCallId\":\"" TID
                                                     "-1\",\"status\":\"failed\",\"content\":[{\"type\":"
                                                     "\"content\",\"content\":{\"type\":\"text\",\"text\":\"no\"}}]}}}\n" CHUNK(
                                                         "agent_message_chunk", "!", "7")
                                                         REPLY(
                                                             "2",
                                                             "\"stopReason\":\"end_turn\",\"_meta\":{\"holdfast/result\":{\"n\":1}}"));
    assert_true(stream->is_over);
}

static void test_ends_have_the_forms_of_the_protocol(void **state)
{
    (void)state;
    begin_prompt(false);
    tell(1, EVENT_TASK_FAILED, "{\"status\":\"cancelled\",\"error\":{\"code\":\"cancelled\"}}");
    assert_text(buf_str(&got), REPLY("2", "\"stopReason\":\"cancelled\""));
    face_stream_free(stream);
    buf_clear(&got);
    begin_prompt(false);
    tell(1, EVENT_TASK_FAILED,
         "{\"status\":\"failed\",\"error\":{\"code\":\"timeout\",\"message\":\"timeout: 3 s\"}}");
    assert_text(buf_str(&got),
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32603,\"message\":\"timeout: 3 "
                "s\",\"data\":{\"code\":\"timeout\",\"message\":\"timeout: 3 s\"}}}\n");
    face_stream_free(stream);
    buf_clear(&got);
    begin_prompt(false);
    tell(1, EVENT_TASK_COMPLETED, "{\"result\":{\"stop_reason\":\"refusal\"}}");
    assert_text(buf_str(&got), REPLY("2", "\"stopReason\":\"refusal\",\"_meta\":{\"holdfast/"
                                          "result\":{\"stop_reason\":\"refusal\"}}"));
}

#define ASKED "{\"input_id\":\"q1\",\"kind\":\"approval\",\"prompt\":\"sure?\",\"tool\":\"rm\"}"

static void test_permission_is_asked_once_nothing_follows_and_taken_back(void **state)
{
    (void)state;
    begin_prompt(false);
    tell(1, EVENT_INPUT_REQUIRED, ASKED);
    tell(2, EVENT_INPUT_RECEIVED, "{\"input_id\":\"q1\",\"answer\":true}");
    face_stream_idle(stream, &sink);
    assert_int_equal(got.len, 0);
    tell(3, EVENT_INPUT_REQUIRED, ASKED);
    face_stream_idle(stream, &sink);
    face_stream_idle(stream, &sink);
    tell(4, EVENT_INPUT_RECEIVED, "{\"input_id\":\"q1\",\"answer\":true}");
    assert_text(
        buf_str(&got),
        "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "/a/q1\",\"method\":\"session/request_permission\","
        "\"params\":{\"sessionId\":\"c-1\",\"toolCall\":{\"toolCallId\":\"" TID
        "-q1\",\"title\":\"sure?\",\"status\":\"pending\",\"name\":\"rm\",\"rawInput\":null},"
        "\"options\":[{\"optionId\":\"allow\",\"name\":\"Allow\",\"kind\":\"allow_once\"},"
        "{\"optionId\":\"reject\",\"name\":\"Reject\",\"kind\":\"reject_once\"}]}}\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":\"" ID
        "/a/q1\"}}\n");
}

static void test_options_are_the_events_own(void **state)
{
    (void)state;
    static const char options[] =
        "\"options\":[{\"optionId\":\"y\",\"name\":\"Yes\",\"kind\":\"allow_always\"},"
        "{\"optionId\":\"later\",\"name\":\"later\",\"kind\":\"allow_once\"}]}}\n";
    begin_prompt(false);
    tell(1, EVENT_INPUT_REQUIRED,
         "{\"input_id\":\"q1\",\"kind\":\"approval\",\"options\":[{\"id\":\"y\",\"name\":\"Yes\","
         "\"kind\":\"allow_always\"},\"later\"]}");
    face_stream_idle(stream, &sink);
    assert_non_null(strstr(got.bytes, "\"id\":\"" ID "/o/q1\""));
    assert_text(str_from(buf_str(&got), got.len - (sizeof options - 1)), options);
}

#define WHO "{\"input_id\":\"q2\",\"kind\":\"question\",\"prompt\":\"who?\"}"

static void test_question_is_a_form_or_ends_the_turn_as_text(void **state)
{
    (void)state;
    begin_prompt(true);
    tell(1, EVENT_INPUT_REQUIRED, WHO);
    face_stream_idle(stream, &sink);
    assert_text(buf_str(&got),
                "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "/q/q2\",\"method\":\"elicitation/create\","
                "\"params\":{\"sessionId\":\"c-1\",\"mode\":\"form\",\"message\":\"who?\","
                "\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":"
                "\"string\"}},\"required\":[\"answer\"]}}}\n");
    face_stream_free(stream);
    buf_clear(&got);
    begin_prompt(false);
    tell(1, EVENT_INPUT_REQUIRED, WHO);
    face_stream_idle(stream, &sink);
    assert_text(buf_str(&got), CHUNK("agent_message_chunk", "who?", "1")
                                   REPLY("2", "\"stopReason\":\"end_turn\""));
    assert_true(stream->is_over);
}

static void test_what_comes_after_an_answer_is_told_alone(void **state)
{
    (void)state;
    begin_prompt(false);
    face_stream_free(stream);
    begin_stream("q2");
    tell(1, EVENT_TOKEN, "{\"text\":\"so far\"}");
    tell(2, EVENT_INPUT_REQUIRED, WHO);
    face_stream_idle(stream, &sink);
    tell(3, EVENT_INPUT_RECEIVED, "{\"input_id\":\"q2\",\"answer\":\"me\"}");
    tell(4, EVENT_TOKEN, "{\"text\":\"hi me\"}");
    assert_text(buf_str(&got), CHUNK("agent_message_chunk", "hi me", "4"));
}

static void test_text_that_a_restart_withdrew_is_not_told(void **state)
{
    (void)state;
    peer.has_begun = true;
    (void)send(SENT_PROMPT);
    stream =
        face_stream_make(&acp_server_ops, &(struct face_task){.task_id = STR(TID),
                                                              .conversation_id = STR("c-1"),
                                                              .retracted = STR("[[3,6],[\"x\"]]"),
                                                              .request = x.state});
    tell(3, EVENT_TOKEN, "{\"text\":\"one \"}");
    tell(4, EVENT_TOKEN, "{\"text\":\"tw\"}");
    tell(5, EVENT_THINKING, "{\"text\":\"hm\"}");
    tell(6, EVENT_TASK_RESUMED, "{\"attempt\":2,\"retracts\":3}");
    tell(7, EVENT_TOKEN, "{\"text\":\"two\"}");
    tell(8, EVENT_FINAL_ANSWER, "{\"output\":\"one two\"}");
    assert_text(buf_str(&got),
                CHUNK("agent_message_chunk", "one ", "3") CHUNK("agent_message_chunk", "two", "7"));
}

static void test_update_of_an_agent_that_speaks_acp_passes(void **state)
{
    (void)state;
    begin_prompt(false);
    tell(1, EVENT_CUSTOM,
         "{\"event_type\":\"plan\",\"payload\":{\"sessionUpdate\":\"plan\",\"entries\":[]}}");
    tell(2, EVENT_CUSTOM, "{\"event_type\":\"plan\",\"payload\":{\"sessionUpdate\":\"x\"}}");
    assert_text(buf_str(&got),
                UPDATE("plan") ",\"entries\":[]}}}\n"
                               "{\"jsonrpc\":\"2.0\",\"method\":\"_holdfast/event\",\"params\":{"
                               "\"sessionId\":\"c-1\",\"taskId\":\"" TID
                               "\",\"event\":\"custom\",\"data\":{\"event_type\":\"plan\","
                               "\"payload\":{\"sessionUpdate\":\"x\"}}}}\n");
}

/* --- requests --------------------------------------------------------------------------------- */

static void test_connection_begins_with_initialize(void **state)
{
    (void)state;
    assert_int_equal(send(SENT_NEW), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,\"message\":"
                "\"the connection must be initialized first\"}}");
    assert_int_equal(send(SENT_INITIALIZE), FACE_REPLY);
    assert_text(
        buf_str(&x.reply),
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1,"
        "\"agentCapabilities\":{\"loadSession\":true,\"promptCapabilities\":{\"image\":"
        "true,\"audio\":true,\"embeddedContext\":true},\"mcpCapabilities\":{\"http\":"
        "false,\"sse\":false},\"sessionCapabilities\":{\"list\":{},\"resume\":{},\"close\":{}"
        ",\"delete\":{}}},\"authMethods\":[],\"agentInfo\":{\"name\":\"holdfast\","
        "\"version\":\"1.0\"}}}");
    assert_true(peer.has_begun && peer.elicits);
    assert_int_equal(send(SENT_NEW), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"sessionId\":\"acp-00ff\"}}");
    (void)send(SENT_INITIALIZE);
    assert_text(buf_str(&x.reply), "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32600,"
                                   "\"message\":\"the connection is initialized\"}}");
}

static void test_prompt_is_a_chat_of_the_session(void **state)
{
    (void)state;
    begin_prompt(false);
    assert_ask(VERB_CHAT, "", "{\"message\":\"hi\",\"agent\":\"a\",\"when_busy\":\"reject\"}");
    assert_int_equal(
        send("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/prompt\",\"params\":{\"sessionId\""
             ":\"c-1\",\"prompt\":[{\"type\":\"text\",\"text\":\"see\"},{\"type\":\"resource_link\""
             ",\"name\":\"n\",\"uri\":\"file:///n\"}]}}"),
        FACE_FOLLOW);
    assert_ask(VERB_CHAT, "",
               "{\"message\":\"see\\n[n](file:///n)\",\"agent\":\"a\",\"when_busy\":\"reject\"}");
}

#define TURN(more)                                                                                 \
    "{\"tasks\":[{\"task_id\":\"" TID "\",\"conversation_id\":\"c-1\",\"status\":\"running\"" more \
    "}]}"

static void test_prompt_answers_the_question_that_a_turn_waits_for(void **state)
{
    (void)state;
    begin_prompt(false);
    assert_int_equal(hear(ERR_CONFLICT, "{\"message\":\"busy\"}"), FACE_ASK);
    assert_ask(VERB_TASKS, "", "{\"turns\":true,\"limit\":1}");
    assert_int_equal(hear(ERR_NONE, TURN(",\"waiting_for\":\"q2\"")), FACE_ASK);
    assert_ask(VERB_RESPOND, TID, "{\"input_id\":\"q2\",\"answer\":\"hi\"}");
    assert_int_equal(hear(ERR_NONE, "{\"type\":\"ok\"}"), FACE_FOLLOW);
    assert_ask(VERB_RESUME, TID, "{}");
    assert_text(buf_str(&x.after_answer), "q2");
    (void)send(SENT_PROMPT);
    (void)hear(ERR_CONFLICT, "{\"message\":\"busy\"}");
    assert_int_equal(hear(ERR_NONE, TURN("")), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32600,\"message\":"
                "\"a turn of this session is in progress\"}}");
}

static void test_load_tells_turn_after_turn_and_follows_the_last(void **state)
{
    (void)state;
    peer.has_begun = true;
    assert_int_equal(send(SENT_LOAD), FACE_ASK);
    assert_ask(VERB_TASKS, "", "{\"turns\":true,\"limit\":200}");
    assert_int_equal(
        hear(ERR_NONE, "{\"tasks\":[{\"task_id\":\"01ARZ3NDEKTSV4RRFFQ69G5FA2\",\"type\":"
                       "\"notice\"},{\"task_id\":\"" TID "\",\"type\":\"chat\"}],\"more\":true}"),
        FACE_ASK);
    assert_ask(VERB_TASKS, "",
               "{\"turns\":true,\"limit\":200,\"before\":\"01ARZ3NDEKTSV4RRFFQ69G5FA2\"}");
    assert_int_equal(
        hear(ERR_NONE, "{\"tasks\":[{\"task_id\":\"01ARZ3NDEKTSV4RRFFQ69G5FA1\",\"type\":\"chat\"}"
                       "],\"more\":false}"),
        FACE_FOLLOW);
    static const struct {
        const char *task, *heard;
    } turns[] = {
        {"01ARZ3NDEKTSV4RRFFQ69G5FA1", CHUNK("user_message_chunk", "hi", "1")},
        {"01ARZ3NDEKTSV4RRFFQ69G5FA2", ""}, /* nobody has said that */
    };
    for (size_t i = 0; i < countof(turns); i++) {
        assert_ask(VERB_RESUME, turns[i].task, "{}");
        begin_stream(NULL);
        tell(1, EVENT_TASK_CREATED, "{\"input\":\"hi\"}");
        face_stream_idle(stream, &sink);
        assert_true(stream->is_over); /* another turn follows */
        assert_text(buf_str(&got), turns[i].heard);
        assert_int_equal(x.ops->ended(&x, stream), FACE_FOLLOW);
        face_stream_free(stream);
        buf_clear(&got);
    }
    assert_ask(VERB_RESUME, TID, "{}");
    begin_stream(NULL);
    tell(3, EVENT_TOKEN, "{\"text\":\"a\"}");
    face_stream_idle(stream, &sink);
    tell(4, EVENT_TASK_COMPLETED, "{\"output\":\"a\"}");
    assert_text(buf_str(&got),
                CHUNK("agent_message_chunk", "a", "3") REPLY(
                    "3", "") "{\"jsonrpc\":\"2.0\",\"method\":\"_holdfast/turn_ended\",\"params\":{"
                             "\"sessionId\":\"c-1\",\"taskId\":\"" TID
                             "\",\"stopReason\":\"end_turn\"}}\n");
    assert_int_equal(x.ops->ended(&x, stream), FACE_REPLY);
    assert_int_equal(x.reply.len, 0);
}

static void test_load_of_what_has_ended_is_answered_behind_it(void **state)
{
    (void)state;
    peer.has_begun = true;
    (void)send(SENT_LOAD);
    (void)hear(ERR_NONE, TURN(""));
    begin_stream(NULL);
    tell(4, EVENT_TASK_FAILED, "{\"status\":\"failed\",\"error\":{\"code\":\"orphaned\"}}");
    assert_text(buf_str(&got),
                "{\"jsonrpc\":\"2.0\",\"method\":\"_holdfast/turn_ended\",\"params\":{"
                "\"sessionId\":\"c-1\",\"taskId\":\"" TID
                "\",\"error\":{\"code\":\"orphaned\"}}}\n");
    assert_int_equal(x.ops->ended(&x, stream), FACE_REPLY);
    assert_text(buf_str(&x.reply), "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
}

/* More turns than a load has room for: the oldest are left out, also within a page. */
static void test_load_has_room_for_the_newest_turns(void **state)
{
    (void)state;
    struct buf page = {0};
    peer.has_begun = true;
    (void)send(SENT_LOAD);
    for (int n = 0; n < 6; n++) {
        buf_clear(&page);
        buf_puts(&page, "{\"tasks\":[");
        for (int i = 0; i < 180; i++)
            buf_putf(&page, "%s{\"task_id\":\"01ARZ3NDEKTSV4RRFFQ69G%04d\"}", i ? "," : "",
                     (5 - n) * 180 + i);
        buf_puts(&page, "],\"more\":true}");
        buf_putc(&page, 0);
        assert_int_equal(hear(ERR_NONE, page.bytes), n < 5 ? FACE_ASK : FACE_FOLLOW);
    }
    assert_text(buf_str(&x.ask.task_id), "01ARZ3NDEKTSV4RRFFQ69G0080");
    buf_done(&page);
}

static void test_sessions_that_are_not_there_have_one_answer(void **state)
{
    (void)state;
    static const char gone[] = "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32002,"
                               "\"message\":\"Resource not found\",\"data\":{\"sessionId\":\"c-1\"}"
                               "}}";
    peer.has_begun = true;
    (void)send(SENT_LOAD);
    assert_int_equal(hear(ERR_NONE, "{\"tasks\":[],\"more\":false}"), FACE_REPLY);
    assert_text(buf_str(&x.reply), gone);
    (void)send(SENT_LOAD);
    assert_int_equal(hear(ERR_NOT_FOUND, "{\"message\":\"no\"}"), FACE_REPLY);
    assert_text(buf_str(&x.reply), gone);
}

#define SESSION_REQUEST(method)                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/" method "\",\"params\":{\"sessionId\":" \
    "\"c-1\",\"cwd\":\"/\"}}"

static void test_resume_tells_what_comes_and_nothing_else(void **state)
{
    (void)state;
    peer.has_begun = true;
    assert_int_equal(send(SESSION_REQUEST("resume")), FACE_ASK);
    assert_ask(VERB_TASKS, "", "{\"turns\":true,\"limit\":1}");
    assert_int_equal(hear(ERR_NONE, "{\"tasks\":[{\"task_id\":\"" TID "\"}],\"more\":true}"),
                     FACE_FOLLOW);
    assert_ask(VERB_RESUME, TID, "{}");
    begin_stream(NULL);
    tell(1, EVENT_TASK_CREATED, "{\"input\":\"hi\"}");
    tell(2, EVENT_TOKEN, "{\"text\":\"one\"}");
    assert_int_equal(got.len, 0);
    face_stream_idle(stream, &sink);
    assert_text(got_now(), "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n");
    tell(3, EVENT_TOKEN, "{\"text\":\" two\"}");
    assert_text(got_now(), CHUNK("agent_message_chunk", " two", "2"));
    tell(4, EVENT_FINAL_ANSWER, "{\"output\":\"one two\"}");
    assert_int_equal(got.len, 0);
}

static void test_list_is_of_conversations(void **state)
{
    (void)state;
    peer.has_begun = true;
    assert_int_equal(send("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/list\",\"params\":{"
                          "\"cursor\":\"c-9\",\"cwd\":\"/w\"}}"),
                     FACE_ASK);
    assert_int_equal(x.ask.verb, VERB_CONVERSATIONS);
    assert_int_equal(x.ask.conversation_id.len, 0);
    assert_text(buf_str(&x.ask.body), "{\"before\":\"c-9\"}");
    assert_int_equal(
        hear(ERR_NONE,
             "{\"conversations\":[{\"conversation_id\":\"c-2\",\"title\":\"a\\n\","
             "\"updated_at\":1795953600007},{\"conversation_id\":\"c-1\"}],\"more\":true}"),
        FACE_REPLY);
    assert_text(buf_str(&x.reply),
                "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"sessions\":[{\"sessionId\":\"c-2\","
                "\"cwd\":\"/w\",\"title\":\"a\\n\",\"updatedAt\":\"2026-11-29T12:00:00.007Z\"},{"
                "\"sessionId\":\"c-1\",\"cwd\":\"/w\"}],\"nextCursor\":\"c-1\"}}");
}

static void test_session_that_is_not_there_is_as_good_as_ended(void **state)
{
    static const struct {
        const char *sent;
        enum verb verb;
    } ends[] = {{SESSION_REQUEST("close"), VERB_CANCEL_ALL},
                {SESSION_REQUEST("delete"), VERB_DELETE}};
    static const enum error said[] = {ERR_NONE, ERR_NOT_FOUND};
    (void)state;
    peer.has_begun = true;
    for (size_t i = 0; i < countof(ends); i++)
        for (size_t k = 0; k < countof(said); k++) {
            assert_int_equal(send(ends[i].sent), FACE_ASK);
            assert_ask(ends[i].verb, "", "{}");
            assert_int_equal(hear(said[k], "{\"message\":\"no\"}"), FACE_REPLY);
            assert_text(buf_str(&x.reply), "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
        }
    (void)hear(ERR_OVERLOADED, "{\"message\":\"no\"}");
    assert_text(buf_str(&x.reply), "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32603,"
                                   "\"message\":\"no\"}}");
}

static void test_last_step_is_not_told_again_as_the_answer(void **state)
{
    (void)state;
    begin_prompt(false);
    tell(2, EVENT_TOKEN, "{\"text\":\"One. \"}");
    tell(3, EVENT_TOOL_CALL, "{\"call_id\":\"c\",\"name\":\"n\",\"arguments\":{}}");
    tell(4, EVENT_TOOL_RESULT, "{\"call_id\":\"c\",\"name\":\"n\",\"output\":\"o\"}");
    tell(5, EVENT_TOKEN, "{\"text\":\"Two.\"}");
    buf_clear(&got);
    tell(6, EVENT_FINAL_ANSWER, "{\"output\":\"Two.\"}");
    assert_int_equal(got.len, 0);
}

static void test_answers_and_cancels_are_requests_without_a_reply(void **state)
{
    (void)state;
    peer.has_begun = true;
    assert_int_equal(send(SENT_PERMISSION), FACE_ASK);
    assert_ask(VERB_RESPOND, TID, "{\"input_id\":\"q1\",\"answer\":true}");
    assert_int_equal(hear(ERR_CONFLICT, "{\"message\":\"late\"}"), FACE_REPLY);
    assert_int_equal(x.reply.len, 0);
    assert_int_equal(send(SENT_FORM), FACE_ASK);
    assert_ask(VERB_RESPOND, TID, "{\"input_id\":\"q2\",\"answer\":\"me\"}");
    assert_int_equal(send(SENT_CANCEL), FACE_ASK);
    assert_ask(VERB_CANCEL_ALL, "", "{}");
    static const char *const silent[] = {
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"../x\"}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":2}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"x/a/q\",\"result\":{\"outcome\":{\"outcome\":\"selected\","
        "\"optionId\":\"allow\"}}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "/a/q\",\"result\":{\"outcome\":{\"outcome\":"
        "\"cancelled\"}}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "/a/q\",\"error\":{\"code\":-32601,\"message\":\"\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"\"}}",
    };
    for (size_t i = 0; i < countof(silent); i++) {
        assert_int_equal(send(silent[i]), FACE_REPLY);
        assert_int_equal(x.reply.len, 0);
    }
}

static void test_answer_to_options_is_the_id_of_one(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *option, *answer;
    } cases[] = {{"a", "allow", "true"},
                 {"a", "reject", "false"},
                 {"a", "x", "false"},
                 {"o", "allow", "\"allow\""}};
    char frame[256], expected[64];
    peer.has_begun = true;
    for (size_t i = 0; i < countof(cases); i++) {
        snprintf(frame, sizeof frame,
                 "{\"jsonrpc\":\"2.0\",\"id\":\"" ID "/%s/q\",\"result\":{\"outcome\":{\"outcome\":"
                 "\"selected\",\"optionId\":\"%s\"}}}",
                 cases[i].kind, cases[i].option);
        snprintf(expected, sizeof expected, "{\"input_id\":\"q\",\"answer\":%s}", cases[i].answer);
        assert_int_equal(send(frame), FACE_ASK);
        assert_ask(VERB_RESPOND, TID, expected);
    }
}

static void test_frame_has_the_requests_id_and_token(void **state)
{
    (void)state;
    struct face_frame frame = {0};
    acp_server_ws_ops.read(&doc,
                           STR("{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":\"initialize\","
                               "\"params\":{\"_meta\":{\"holdfast/token\":\"t\"}}}"),
                           &frame);
    assert_int_equal(frame.kind, FRAME_REQUEST);
    assert_text(frame.id, "\"7\"");
    assert_text(frame.authorization, "t");
    acp_server_ws_ops.put_failed(&got, frame.id, ERR_UNAUTHORIZED, "no");
    assert_text(buf_str(&got), "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"error\":{\"code\":-32000,"
                               "\"message\":\"no\"}}");
    buf_done(&frame.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_prompt_is_told_as_updates_and_ends_in_its_reply),
        TEST(test_ends_have_the_forms_of_the_protocol),
        TEST(test_permission_is_asked_once_nothing_follows_and_taken_back),
        TEST(test_options_are_the_events_own),
        TEST(test_question_is_a_form_or_ends_the_turn_as_text),
        TEST(test_what_comes_after_an_answer_is_told_alone),
        TEST(test_text_that_a_restart_withdrew_is_not_told),
        TEST(test_update_of_an_agent_that_speaks_acp_passes),
        TEST(test_connection_begins_with_initialize),
        TEST(test_prompt_is_a_chat_of_the_session),
        TEST(test_prompt_answers_the_question_that_a_turn_waits_for),
        TEST(test_load_tells_turn_after_turn_and_follows_the_last),
        TEST(test_load_of_what_has_ended_is_answered_behind_it),
        TEST(test_load_has_room_for_the_newest_turns),
        TEST(test_sessions_that_are_not_there_have_one_answer),
        TEST(test_resume_tells_what_comes_and_nothing_else),
        TEST(test_list_is_of_conversations),
        TEST(test_session_that_is_not_there_is_as_good_as_ended),
        TEST(test_last_step_is_not_told_again_as_the_answer),
        TEST(test_answers_and_cancels_are_requests_without_a_reply),
        TEST(test_answer_to_options_is_the_id_of_one),
        TEST(test_frame_has_the_requests_id_and_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
