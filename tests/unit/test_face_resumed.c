#include "tests/support/face_kit.h"

#include "proto/faces/a2a.h"
#include "proto/faces/acp_server.h"
#include "proto/faces/ag_ui.h"
#include "proto/faces/ai_sdk.h"
#include "proto/faces/mcp.h"
#include "proto/faces/openai.h"
#include "proto/faces/responses.h"

/* One life in all faces: a step that settles, a step that a restart cuts short, and the same step
 * done anew (PROTOCOL.md section 4). What each must say is worked out by hand from docs/faces.md.
 * Where the summary names the withdrawal, nothing of it is told; else it is taken back. */

#define NAMED STR("[[5,9]]")

static struct ag_ui_request ag_ui = {.history = STR("[]"), .tells_history = true};
static struct a2a_request a2a = {.operation = A2A_STREAM, .without_history = true};

static void begin_stream(const struct face_ops *ops, const void *request, struct str retracted)
{
    stream = face_stream_make(ops, &(struct face_task){.task_id = STR(TID),
                                                       .conversation_id = STR("c-1"),
                                                       .agent = STR("a"),
                                                       .created_at = TS,
                                                       .request = request,
                                                       .retracted = retracted});
}

static void tell_until_the_restart(void)
{
    tell(1, EVENT_TASK_CREATED, json("{'agent':'a','input':'hi'}"));
    tell(2, EVENT_TASK_STARTED, "{}");
    tell(3, EVENT_TOKEN, json("{'text':'One. '}"));
    tell(4, EVENT_TOOL_CALL, json("{'call_id':'c','name':'n','arguments':{}}"));
    tell(5, EVENT_TOOL_RESULT, json("{'call_id':'c','name':'n','output':'o'}"));
    tell(6, EVENT_THINKING, json("{'text':'hm'}"));
    tell(7, EVENT_TOKEN, json("{'text':'T'}"));
    tell(8, EVENT_TOKEN, json("{'text':'w'}"));
}

static void tell_the_rest(void)
{
    tell(9, EVENT_TASK_RESUMED,
         json("{'attempt':2,'why':'restart','retracts':5,'keep':{'text':5,"
              "'thinking':0}}"));
    tell(10, EVENT_TOKEN, json("{'text':'Two.'}"));
    tell(11, EVENT_FINAL_ANSWER, json("{'output':'One. Two.'}"));
    tell(12, EVENT_TASK_COMPLETED, json("{'output':'One. Two.','result':null}"));
}

/* The lines that have one of these, from what was said. */
static struct str lines_with(const char *a, const char *b)
{
    static struct buf found;
    struct str all = got_now();
    buf_clear(&found);
    while (all.n > 0) {
        const char *newline = memchr(all.p, '\n', all.n);
        size_t n = (size_t)(newline - all.p) + 1;
        if (memmem(all.p, n, a, strlen(a)) || memmem(all.p, n, b, strlen(b)))
            buf_put(&found, all.p, n);
        all = (struct str){all.p + n, all.n - n};
    }
    return buf_str(&found);
}

static void assert_says(const char *text, bool says)
{
    if (!memmem(got.bytes, got.len, text, strlen(text)) == says)
        fail_msg("%s %s:\n%.*s", text, says ? "is missing" : "was told", (int)got.len, got.bytes);
}

/* --- where the summary names it --------------------------------------------------------------- */

static void test_no_face_tells_text_that_is_known_to_be_withdrawn(void **state)
{
    static const struct mcp_request mcp = {.operation = MCP_CALL,
                                           .call = {.rpc_id = {"3", 1}, .token = {"7", 1}}};
    static const struct {
        const struct face_ops *ops;
        const void *request;
    } faces[] = {{&ai_sdk_ops, NULL}, {&openai_ops, NULL}, {&ag_ui_ops, &ag_ui},
                 {&a2a_ops, &a2a},    {&mcp_ops, &mcp},    {&acp_server_ops, NULL}};
    (void)state;
    for (size_t i = 0; i < countof(faces); i++) {
        begin_stream(faces[i].ops, faces[i].request, NAMED);
        tell_until_the_restart();
        tell_the_rest();
        assert_says("\"T\"", false);
        assert_says("\"hm\"", false);
        assert_says("One. ", true);
        assert_says("\"Two.\"", true);
        assert_says("reset-step", false);
        assert_true(stream->is_over);
        assert_false(stream->breaks);
        face_stream_free(stream);
        stream = NULL;
        buf_clear(&got);
    }
}

static void test_ag_ui_client_with_withdrawn_text_gets_all_messages_anew(void **state)
{
    struct ag_ui_request again = ag_ui;
    (void)state;
    again.known.seq = 7;
    memcpy(again.task_id, TID, sizeof again.task_id);
    begin_stream(&ag_ui_ops, &again, NAMED);
    tell_until_the_restart();
    tell_the_rest();
    assert_true(strncmp(got.bytes + got.len - 1, "\n", 1) == 0);
    assert_says("{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[]}", true);
    assert_says("\"One. \"", true);
    assert_says("\"T\"", false);
    face_stream_free(stream);
    buf_clear(&got);
    again.known.seq = 10; /* it has what came after */
    begin_stream(&ag_ui_ops, &again, NAMED);
    tell_until_the_restart();
    tell_the_rest();
    assert_says("MESSAGES_SNAPSHOT", false);
    assert_says("\"One. \"", false);
}

/* --- where it does not ------------------------------------------------------------------------ */

static void test_ai_sdk_resets_the_step(void **state)
{
    (void)state;
    begin_stream(&ai_sdk_ops, NULL, STR_NULL);
    tell_until_the_restart();
    assert_text(lines_with("text-3\",\"delta", "step"),
                json("{'type':'start-step'}\n"
                     "{'type':'finish-step'}\n"
                     "{'type':'start-step'}\n"
                     "{'type':'finish-step'}\n"
                     "{'type':'start-step'}\n"
                     "{'type':'text-delta','id':'text-3','delta':'T'}\n"
                     "{'type':'text-delta','id':'text-3','delta':'w'}\n"));
    tell_the_rest();
    assert_text(
        got_now(),
        json("{'type':'reset-step'}\n"
             "{'type':'text-start','id':'text-4'}\n"
             "{'type':'text-delta','id':'text-4','delta':'Two.'}\n"
             "{'type':'text-end','id':'text-4'}\n"
             "{'type':'finish-step'}\n"
             "{'type':'finish','finishReason':'stop','messageMetadata':{'result':null}}\n"));
}

static void test_chat_completions_breaks_off(void **state)
{
    (void)state;
    begin_stream(&openai_ops, NULL, STR_NULL);
    tell_until_the_restart();
    buf_clear(&got);
    tell_the_rest();
    assert_int_equal(got.len, 0);
    assert_true(stream->is_over);
    assert_true(stream->breaks);
}

static void test_whole_completion_has_what_remains(void **state)
{
    static const struct openai_options whole = {.is_whole = true};
    (void)state;
    begin_stream(&openai_ops, &whole, STR_NULL);
    tell_until_the_restart();
    tell_the_rest();
    assert_says("\"content\":\"One. Two.\"", true);
    assert_false(stream->breaks);
}

static void test_a2a_begins_the_artifact_anew(void **state)
{
    (void)state;
    begin_stream(&a2a_ops, &a2a, STR_NULL);
    tell_until_the_restart();
    buf_clear(&got);
    tell_the_rest();
#define PIECE(text, append)                                                                  \
    "{'artifactUpdate':{'taskId':'Yy0x." TID "','contextId':'c-1','artifact':{'artifactId':" \
    "'answer','name':'answer','parts':[{'text':'" text "'}]},'append':" append "}}\n"
    assert_text(lines_with("artifactUpdate", "artifactUpdate"),
                json(PIECE("", "false") PIECE("Two.", "true") PIECE("One. Two.", "false")));
}

static void test_a2a_snapshot_keeps_what_remains(void **state)
{
    static const struct a2a_request get = {.operation = A2A_GET, .without_history = true};
    (void)state;
    begin_stream(&a2a_ops, &get, STR_NULL);
    tell_until_the_restart();
    tell(9, EVENT_TASK_RESUMED, json("{'retracts':5,'keep':{'text':5,'thinking':0}}"));
    tell(10, EVENT_TOKEN, json("{'text':'Two.'}"));
    face_stream_idle(stream, &sink);
    assert_says("\"text\":\"One. Two.\"", true);
}

/* --- Responses, whose numbers stay ------------------------------------------------------------ */

#define ITEM(kind, n) "'item_id':'" kind "_" TID "_" n "','output_index':" n ",'content_index':0"

static void test_responses_ends_the_item_and_opens_another(void **state)
{
    static const struct str retracted[] = {{NULL, 0}, {"[[5,9]]", 7}};
    (void)state;
    for (size_t i = 0; i < countof(retracted); i++) {
        begin_stream(&responses_ops, NULL, retracted[i]);
        tell_until_the_restart();
        assert_text(
            lines_with("text.delta", "text.delta"),
            json(
                "response.output_text.delta {'type':'response.output_text.delta',"
                "'sequence_number':5," ITEM(
                    "msg",
                    "0") ",'delta':'One. ','logprobs':[]}\n"
                         "response.reasoning_text.delta {'type':'response.reasoning_text.delta',"
                         "'sequence_number':15," ITEM(
                             "rs",
                             "2") ",'delta':'hm'}\n"
                                  "response.output_text.delta {'type':'response.output_text.delta',"
                                  "'sequence_number':21," ITEM(
                                      "msg",
                                      "3") ",'delta':'T','logprobs':[]}\n"
                                           "response.output_text.delta {'type':'response.output_text.delta',"
                                           "'sequence_number':22," ITEM(
                                               "msg", "3") ",'delta':'w','logprobs':[]}\n"));
        tell_the_rest();
        struct str rest = lines_with("output_item", "response.completed");
        assert_non_null(memmem(rest.p, rest.n, "\"status\":\"incomplete\"", 21));
        const char *last = strstr(rest.p, "response.completed");
        assert_non_null(last);
        /* The final output has what remains, and only that. */
        assert_non_null(strstr(last, "\"text\":\"One. \""));
        assert_non_null(strstr(last, "\"text\":\"Two.\""));
        assert_non_null(strstr(last, "mcp_call"));
        assert_null(strstr(last, "\"Tw\""));
        assert_null(strstr(last, "\"hm\""));
        face_stream_free(stream);
        stream = NULL;
    }
}

static void test_responses_lets_a_restart_be_that_withdraws_nothing(void **state)
{
    (void)state;
    begin_stream(&responses_ops, NULL, STR_NULL);
    tell(1, EVENT_TASK_CREATED, "{}");
    tell(2, EVENT_TOKEN, json("{'text':'a'}"));
    buf_clear(&got);
    tell(3, EVENT_TASK_RESUMED, json("{'attempt':2,'why':'restart'}"));
    assert_int_equal(got.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_face_tells_text_that_is_known_to_be_withdrawn),
        TEST(test_ag_ui_client_with_withdrawn_text_gets_all_messages_anew),
        TEST(test_ai_sdk_resets_the_step),
        TEST(test_chat_completions_breaks_off),
        TEST(test_whole_completion_has_what_remains),
        TEST(test_a2a_begins_the_artifact_anew),
        TEST(test_a2a_snapshot_keeps_what_remains),
        TEST(test_responses_ends_the_item_and_opens_another),
        TEST(test_responses_lets_a_restart_be_that_withdraws_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
