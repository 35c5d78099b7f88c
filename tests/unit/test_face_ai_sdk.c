#define FACE_SETUP setup
#define FACE_TEARDOWN teardown
#include "tests/support/face_kit.h"

#include "proto/faces/ai_sdk.h"

/* The right chunks are those of the SDK's UI message stream (its `uiMessageChunkSchema`), worked
 * out by hand from the mapping in docs/faces.md. */

static struct ai_sdk_request request;
static char why[128];

static int setup(void **state)
{
    (void)state;
    stream = ai_sdk_ops.make(&(struct face_task){.task_id = STR(TID)});
    return 0;
}

static int teardown(void **state)
{
    ai_sdk_request_done(&request);
    return face_teardown(state);
}

static void test_answer_in_pieces_is_one_text_part(void **state)
{
    (void)state;
    tell_next(EVENT_TASK_CREATED, json("{'agent':'a','input':'hi'}"));
    tell_next(EVENT_TASK_STARTED, "{}");
    tell_next(EVENT_TOKEN, json("{'text':'Hel'}"));
    tell_next(EVENT_TOKEN, json("{'text':'l\\u00f6\\n'}"));
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'Hell\xc3\xb6\\n'}"));
    tell_next(EVENT_TASK_COMPLETED, json("{'output':'x','result':{'usage':{'total_tokens':3}}}"));
    assert_text(buf_str(&got),
                json("{'type':'start','messageId':'" TID "'}\n"
                     "{'type':'start-step'}\n"
                     "{'type':'text-start','id':'text-1'}\n"
                     "{'type':'text-delta','id':'text-1','delta':'Hel'}\n"
                     "{'type':'text-delta','id':'text-1','delta':'l\xc3\xb6\\n'}\n"
                     "{'type':'text-end','id':'text-1'}\n"
                     "{'type':'finish-step'}\n"
                     "{'type':'finish','finishReason':'stop','messageMetadata':{'result':"
                     "{'usage':{'total_tokens':3}}}}\n"));
    assert_true(stream->is_over);
}

static void test_thoughts_and_tools_keep_their_place(void **state)
{
    (void)state;
    tell_next(EVENT_THINKING, json("{'text':'hm'}"));
    tell_next(EVENT_TOOL_CALL, json("{'call_id':'c1','name':'clock','arguments':{'zone':'UTC'}}"));
    tell_next(EVENT_TOOL_RESULT,
              json("{'call_id':'c1','name':'clock','output':'noon','is_error':false}"));
    tell_next(EVENT_TOKEN, json("{'text':'Noon.'}"));
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'Noon.'}"));
    tell_next(EVENT_TASK_COMPLETED, json("{'output':'Noon.','result':null}"));
    assert_text(
        buf_str(&got),
        json("{'type':'start','messageId':'" TID "'}\n"
             "{'type':'start-step'}\n"
             "{'type':'reasoning-start','id':'reasoning-1'}\n"
             "{'type':'reasoning-delta','id':'reasoning-1','delta':'hm'}\n"
             "{'type':'reasoning-end','id':'reasoning-1'}\n"
             "{'type':'tool-input-available','toolCallId':'c1','toolName':'clock','input':"
             "{'zone':'UTC'},'dynamic':true,'providerExecuted':true}\n"
             "{'type':'tool-output-available','toolCallId':'c1','output':'noon','dynamic':true,"
             "'providerExecuted':true}\n"
             "{'type':'finish-step'}\n"
             "{'type':'start-step'}\n"
             "{'type':'text-start','id':'text-2'}\n"
             "{'type':'text-delta','id':'text-2','delta':'Noon.'}\n"
             "{'type':'text-end','id':'text-2'}\n"
             "{'type':'finish-step'}\n"
             "{'type':'finish','finishReason':'stop','messageMetadata':{'result':null}}\n"));
}

static void test_another_final_answer_takes_the_last_run_back(void **state)
{
    (void)state;
    tell_next(EVENT_TOKEN, json("{'text':'draft'}"));
    buf_clear(&got);
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'final'}"));
    assert_text(buf_str(&got), json("{'type':'reset-step'}\n"
                                    "{'type':'text-start','id':'text-2'}\n"
                                    "{'type':'text-delta','id':'text-2','delta':'final'}\n"));
}

/* Text beyond 256 KiB is only in the events: the answer that is made of the tokens is cut. */
static void test_cut_final_answer_takes_nothing_back(void **state)
{
    struct buf data = {0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        bool is_token = i < 2;
        size_t n = (is_token ? 200 : 256) * 1024;
        buf_clear(&data);
        buf_puts(&data, is_token ? "{\"text\":\"" : "{\"output\":\"");
        memset(buf_reserve(&data, n), 'x', n);
        data.len += n;
        buf_puts(&data, "\"}");
        buf_clear(&got);
        tell_next(is_token ? EVENT_TOKEN : EVENT_FINAL_ANSWER, data.bytes);
    }
    assert_int_equal(got.len, 0);
    buf_done(&data);
}

static void test_final_answer_alone_is_text(void **state)
{
    (void)state;
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'42'}"));
    assert_text(buf_str(&got), json("{'type':'start','messageId':'" TID "'}\n"
                                    "{'type':'start-step'}\n"
                                    "{'type':'text-start','id':'text-1'}\n"
                                    "{'type':'text-delta','id':'text-1','delta':'42'}\n"));
}

static void test_failure_is_an_error_and_a_cancel_an_abort(void **state)
{
    (void)state;
    tell_next(EVENT_TASK_FAILED,
              json("{'status':'failed','error':{'code':'timeout','message':'timeout: 3 s'}}"));
    assert_text(buf_str(&got), json("{'type':'start','messageId':'" TID "'}\n"
                                    "{'type':'error','errorText':'timeout: 3 s'}\n"));
    assert_true(stream->is_over);
    face_stream_free(stream);
    stream = ai_sdk_ops.make(&(struct face_task){.task_id = STR(TID)});
    buf_clear(&got);
    tell_next(EVENT_TASK_FAILED,
              json("{'status':'cancelled','error':{'code':'cancelled','message':'cancelled'}}"));
    assert_text(buf_str(&got), json("{'type':'start','messageId':'" TID "'}\n"
                                    "{'type':'abort','reason':'cancelled'}\n"));
}

#define ASKED "{'input_id':'q1','kind':'approval','prompt':'sure?','tool':'rm','arguments':{'f':1}}"

static void test_open_approval_finishes_the_stream_when_nothing_follows(void **state)
{
    (void)state;
    tell_next(EVENT_INPUT_REQUIRED, json(ASKED));
    assert_false(stream->is_over);
    face_stream_idle(stream, &sink);
    assert_text(
        buf_str(&got),
        json(
            "{'type':'start','messageId':'" TID "'}\n"
            "{'type':'start-step'}\n"
            "{'type':'tool-input-available','toolCallId':'q1','toolName':'rm','input':{'f':1},"
            "'dynamic':true,'providerExecuted':true}\n"
            "{'type':'tool-approval-request','approvalId':'q1','toolCallId':'q1','reason':'sure?'}\n"
            "{'type':'finish-step'}\n"
            "{'type':'finish','finishReason':'tool-calls'}\n"));
    assert_true(stream->is_over);
}

static void test_answered_approval_goes_on(void **state)
{
    (void)state;
    tell_next(EVENT_INPUT_REQUIRED, json(ASKED));
    tell_next(EVENT_INPUT_RECEIVED, json("{'input_id':'q1','answer':false}"));
    buf_clear(&got);
    face_stream_idle(stream, &sink);
    assert_int_equal(got.len, 0);
    tell_next(EVENT_TOKEN, json("{'text':'ok'}"));
    assert_false(stream->is_over);
}

static void test_stream_after_an_answer_has_only_what_follows(void **state)
{
    (void)state;
    face_stream_free(stream);
    stream = ai_sdk_ops.make(&(struct face_task){.task_id = STR(TID), .after_answer = STR("q1")});
    tell_next(EVENT_TOKEN, json("{'text':'before'}"));
    tell_next(EVENT_INPUT_REQUIRED, json(ASKED));
    face_stream_idle(stream, &sink); /* the answer is not committed yet */
    tell_next(EVENT_INPUT_RECEIVED, json("{'input_id':'q1','answer':true}"));
    tell_next(EVENT_TOKEN, json("{'text':'after'}"));
    assert_text(buf_str(&got),
                json("{'type':'start','messageId':'" TID "'}\n"
                     "{'type':'tool-approval-response','approvalId':'q1','approved':true}\n"
                     "{'type':'start-step'}\n"
                     "{'type':'text-start','id':'text-2'}\n"
                     "{'type':'text-delta','id':'text-2','delta':'after'}\n"));
}

static void test_what_has_no_place_is_a_data_part(void **state)
{
    (void)state;
    tell_next(EVENT_PROGRESS, json("{'progress':0.5,'note':'half'}"));
    tell_next(EVENT_CUSTOM, json("{'event_type':'chart','payload':[1,2]}"));
    tell_next(EVENT_INPUT_REQUIRED, json("{'input_id':'q2','kind':'question','prompt':'who?'}"));
    assert_text(
        buf_str(&got),
        json(
            "{'type':'start','messageId':'" TID "'}\n"
            "{'type':'start-step'}\n"
            "{'type':'data-progress','id':'progress','data':{'progress':0.5,'note':'half'}}\n"
            "{'type':'data-custom','data':{'event_type':'chart','payload':[1,2]}}\n"
            "{'type':'data-question','data':{'input_id':'q2','kind':'question','prompt':'who?'}}\n"));
}

/* --- requests --------------------------------------------------------------------------------- */

static bool reads(const char *json, bool is_frame)
{
    ai_sdk_request_done(&request);
    return ai_sdk_read(&reply_doc, str_of(json), is_frame, &request, why);
}

/* As captured from ai@7.0.173. */
static void test_send_is_the_last_message_of_the_user(void **state)
{
    (void)state;
    assert_true(
        reads(json("{'id':'chat-1','messages':[{'id':'m0','role':'user','parts':[{'type':'text',"
                   "'text':'old'}]},{'id':'m1','role':'user','parts':[{'type':'text','text':'a'},"
                   "{'type':'text','text':'b'}]}],'trigger':'submit-message','model':'echo'}"),
              false));
    assert_int_equal(request.kind, AI_SDK_SEND);
    assert_text(request.chat_id, "chat-1");
    assert_text(request.text, "a\nb");
    assert_text(request.agent, "echo");
    assert_int_equal(request.request_key.n, 35);
    assert_null_span(request.authorization);
}

/* The client has dropped what came after the message, and posts what is left. */
static void test_edit_goes_under_the_answer_before_it(void **state)
{
#define USER(id) "{'id':'" id "','role':'user','parts':[{'type':'text','text':'x'}]}"
    (void)state;
    assert_true(
        reads(json("{'id':'c','messages':[" USER("m0") ",{'id':'" TID
                                                       "','role':'assistant','parts':[]}," USER(
                                                           "m1") "],'messageId':'m1',"
                                                                 "'trigger':'submit-message'}"),
              false));
    assert_int_equal(request.kind, AI_SDK_SEND);
    assert_true(request.edits);
    assert_text(request.task_id, TID);
    assert_int_equal(request.request_key.n, 0); /* the same words may be asked once more */
    assert_true(reads(json("{'type':'send','requestId':'r','id':'c','messages':[" USER(
                          "m0") "],"
                                "'messageId':'m0','trigger':'submit-message'}"),
                      true));
    assert_true(request.edits);
    assert_null_span(request.task_id);
    assert_false(reads(json("{'id':'c','messages':[{'role':'assistant','parts':[]}," USER(
                           "m1") "],"
                                 "'messageId':'m1'}"),
                       false));
    assert_string_equal(why, "the answer before the edited message has no id");
}

static void test_frame_brings_ids_and_a_token(void **state)
{
    (void)state;
    assert_true(reads(
        json("{'type':'send','requestId':'r-1','id':'chat-1','trigger':'submit-message','messages':"
             "[{'id':'m1','role':'user','parts':[{'type':'text','text':'hi'}]}],"
             "'headers':{'authorization':'Bearer k'},'body':{'model':'m'}}"),
        true));
    assert_text(request.request_id, "r-1");
    assert_text(request.authorization, "Bearer k");
    assert_text(request.agent, "m");
    assert_true(reads(
        json("{'type':'resume','requestId':'r-2','id':'chat-1','headers':{},'body':{}}"), true));
    assert_int_equal(request.kind, AI_SDK_RESUME);
    assert_true(reads(json("{'type':'abort','requestId':'r-1'}"), true));
    assert_int_equal(request.kind, AI_SDK_ABORT);
}

static void test_same_message_has_the_same_key_and_an_edit_another(void **state)
{
    static const char message[] =
        "{\"id\":\"c\",\"messages\":[{\"id\":\"m1\",\"role\":\"user\",\"parts\":[{\"type\":\"text\","
        "\"text\":\"%s\"}]}]}";
    char json[256], first[64];
    (void)state;
    snprintf(json, sizeof json, message, "one");
    assert_true(reads(json, false));
    snprintf(first, sizeof first, "%.*s", (int)request.request_key.n, request.request_key.p);
    assert_true(reads(json, false));
    assert_true(str_eq(request.request_key, str_of(first)));
    snprintf(json, sizeof json, message, "two");
    assert_true(reads(json, false));
    assert_false(str_eq(request.request_key, str_of(first)));
}

static void test_answered_approval_is_an_answer(void **state)
{
    (void)state;
    assert_true(reads(
        json("{'id':'c','messages':[{'id':'" TID "','role':'assistant','parts':[{'type':"
             "'dynamic-tool','toolCallId':'q1','state':'approval-responded','approval':{'id':'q1',"
             "'approved':true}}]}]}"),
        false));
    assert_int_equal(request.kind, AI_SDK_ANSWER);
    assert_text(request.task_id, TID);
    assert_text(request.input_id, "q1");
    assert_text(request.answer, "true");
}

static void test_faults_are_named(void **state)
{
    const struct {
        const char *json;
        bool is_frame;
        const char *why;
    } cases[] = {
        {"[]", false, "not a JSON object"},
        {json("{'messages':[]}"), false, "\"id\" must be the chat's id"},
        {json("{'id':'c'}"), false, "\"messages\" must be an array that ends in a message"},
        {json("{'id':'c','messages':[1]}"), false,
         "\"messages\" must be an array that ends in a message"},
        {json("{'id':'c','messages':[{'role':'system'}]}"), false,
         "the last message must have the role \"user\" or \"assistant\""},
        {json("{'id':'c','messages':[{'role':'user','parts':[]}]}"), false,
         "the last message has no text"},
        {json("{'id':'c','messages':[{'role':'assistant','parts':[]}]}"), false,
         "the last message is the assistant's, and answers no question"},
        {json("{'type':'send','id':'c'}"), true, "\"requestId\" must be a string"},
        {json("{'type':'x','requestId':'r','id':'c'}"), true,
         "\"type\" must be \"send\", \"resume\" or \"abort\""},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        assert_false(reads(cases[i].json, cases[i].is_frame));
        assert_string_equal(why, cases[i].why);
    }
}

static void test_fingerprint_does_not_depend_on_where_the_text_was_cut(void **state)
{
    char text[500];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7 % 251);
    for (size_t piece = 1; piece < 100; piece++) {
        struct face_said said = {0};
        for (size_t at = 0; at < sizeof text; at += piece)
            face_said_add(&said, (struct str){text + at,
                                              sizeof text - at < piece ? sizeof text - at : piece});
        assert_true(face_said_is(&said, (struct str){text, sizeof text}));
        text[499 - piece] ^= 1;
        assert_false(face_said_is(&said, (struct str){text, sizeof text}));
        text[499 - piece] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answer_in_pieces_is_one_text_part),
        TEST(test_thoughts_and_tools_keep_their_place),
        TEST(test_another_final_answer_takes_the_last_run_back),
        TEST(test_cut_final_answer_takes_nothing_back),
        TEST(test_final_answer_alone_is_text),
        TEST(test_failure_is_an_error_and_a_cancel_an_abort),
        TEST(test_open_approval_finishes_the_stream_when_nothing_follows),
        TEST(test_answered_approval_goes_on),
        TEST(test_stream_after_an_answer_has_only_what_follows),
        TEST(test_what_has_no_place_is_a_data_part),
        TEST(test_send_is_the_last_message_of_the_user),
        TEST(test_edit_goes_under_the_answer_before_it),
        TEST(test_frame_brings_ids_and_a_token),
        TEST(test_same_message_has_the_same_key_and_an_edit_another),
        TEST(test_answered_approval_is_an_answer),
        TEST(test_faults_are_named),
        TEST(test_fingerprint_does_not_depend_on_where_the_text_was_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
