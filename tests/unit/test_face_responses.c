#define FACE_SETUP setup
#define FACE_TEARDOWN teardown
#include "tests/support/face_kit.h"

#include "proto/faces/responses.h"

/* The right events are those of OpenAI's Responses API (the types of openai@7.59.0), worked out by
 * hand from the mapping in docs/faces.md. That OpenAI's own accumulator takes them is shown by
 * tests/clients/openai_responses.test.mjs. */

#define RID "resp_Yy0x." TID /* base64url of "c-1" (RFC 4648 5) */

static struct responses_request request;
static char why[128];

static struct face_stream *make(void)
{
    return responses_ops.make(&(struct face_task){.task_id = STR(TID),
                                                  .conversation_id = STR("c-1"),
                                                  .agent = STR("a"),
                                                  .metadata = str_of(json("{'k':'v'}")),
                                                  .created_at = 1700000000999});
}

static int setup(void **state)
{
    (void)state;
    stream = make();
    return 0;
}

static int teardown(void **state)
{
    responses_request_done(&request);
    return face_teardown(state);
}

/* A task's events before its agent's, and their outcome. */
static void begin(void)
{
    tell_next(EVENT_TASK_CREATED, json("{'agent':'a','input':'hi'}"));
    tell_next(EVENT_TASK_STARTED, "{}");
    buf_clear(&got);
}

/* `event:` is the type. */
#define EVENT(n, type) "response." type " {'type':'response." type "','sequence_number':" #n
#define RESPONSE(status, output, ending, metadata)                                 \
    ",'response':{'id':'" RID "','object':'response','created_at':1700000000,"     \
    "'status':'" status "','background':true,'model':'a','conversation':{'id':"    \
    "'c-1'},'output':[" output "]," ending ",'metadata':" metadata                 \
    ",'instructions':null,'previous_response_id':null,'parallel_tool_calls':true," \
    "'temperature':null,'top_p':null,'tool_choice':'auto','tools':[],'text':"      \
    "{'format':{'type':'text'}}}}\n"
#define OPEN "'error':null,'incomplete_details':null,'usage':null"
#define GIVEN "{'k':'v'}"
#define TEXT_PART(text) "{'type':'output_text','text':'" text "','annotations':[],'logprobs':[]}"
#define MESSAGE(n, status, content)                                                    \
    "{'id':'msg_" TID "_" #n "','type':'message','role':'assistant','status':'" status \
    "','content':[" content "]}"
#define PART_OF(kind, n) \
    ",'item_id':'" kind "_" TID "_" #n "','output_index':" #n ",'content_index':0"
#define ITEM(n, item) ",'output_index':" #n ",'item':" item "}\n"

static void test_answer_in_pieces_is_one_message(void **state)
{
    (void)state;
    tell_next(EVENT_TASK_CREATED, json("{'agent':'a','input':'hi'}"));
    tell_next(EVENT_TASK_STARTED, "{}");
    tell_next(EVENT_TOKEN, json("{'text':'Hel'}"));
    tell_next(EVENT_TOKEN, json("{'text':'lo\\n'}"));
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'Hello\\n'}"));
    tell_next(EVENT_TASK_COMPLETED,
              json("{'output':'Hello\\n','result':{'usage':{'prompt_tokens':3,"
                   "'completion_tokens':2,'total_tokens':5}}}"));
    assert_text(
        buf_str(&got),
        json(EVENT(0, "created") RESPONSE("queued", "", OPEN, GIVEN) EVENT(1, "queued") RESPONSE(
            "queued", "", OPEN,
            GIVEN) EVENT(2, "in_progress") RESPONSE("in_progress", "", OPEN,
                                                    GIVEN) EVENT(3, "output_item.added")
                 ITEM(0, MESSAGE(0, "in_progress", "")) EVENT(4, "content_part.added") PART_OF(
                     "msg", 0) ",'part':" TEXT_PART("") "}\n" EVENT(5, "output_text.delta")
                     PART_OF("msg", 0) ",'delta':'Hel','logprobs':[]}\n" EVENT(
                         6, "output_text.delta")
                         PART_OF("msg", 0) ",'delta':'lo\\n','logprobs':[]}\n" EVENT(
                             7, "output_text.done")
                             PART_OF("msg", 0) ",'text':'Hello\\n','logprobs':[]}\n" EVENT(
                                 8, "content_part.done")
                                 PART_OF("msg", 0) ",'part':" TEXT_PART("Hello\\n") "}\n" EVENT(
                                     9, "output_item.done") ITEM(0, MESSAGE(0, "completed",
                                                                            TEXT_PART("Hello\\n")))
                                     EVENT(10, "completed") RESPONSE(
                                         "completed",
                                         MESSAGE(0, "completed", TEXT_PART("Hello\\n")),
                                         "'error':null,'incomplete_details':null,'usage':{'input_tokens':3,"
                                         "'input_tokens_details':{'cached_tokens':0},'output_tokens':2,"
                                         "'output_tokens_details':{'reasoning_tokens':0},'total_tokens':5},"
                                         "'completed_at':1795953600",
                                         GIVEN)));
    assert_true(stream->is_over);
}

#define REASONING(status, content)                                           \
    "{'id':'rs_" TID "_0','type':'reasoning','summary':[],'status':'" status \
    "','content':[" content "]}"
#define THOUGHT(text) "{'type':'reasoning_text','text':'" text "'}"
#define CALL(n, status, arguments, result)                           \
    "{'id':'mcp_" TID "_" #n "','type':'mcp_call','status':'" status \
    "','name':'clock','arguments':'" arguments "','server_label':'holdfast'" result "}"
#define NOTHING ",'output':null,'error':null"
#define CALL_OF(n) ",'item_id':'mcp_" TID "_" #n "','output_index':" #n "}\n"

static void test_thoughts_and_tools_are_items_in_their_place(void **state)
{
    (void)state;
    begin();
    tell_next(EVENT_THINKING, json("{'text':'hm'}"));
    tell_next(EVENT_TOOL_CALL, json("{'call_id':'c1','name':'clock','arguments':{'z':1}}"));
    tell_next(EVENT_TOOL_RESULT, json("{'call_id':'c1','name':'clock','output':'noon'}"));
    assert_text(
        buf_str(&got),
        json(EVENT(3, "output_item.added") ITEM(0, REASONING("in_progress", ""))
                 EVENT(4, "content_part.added") PART_OF("rs", 0) ",'part':" THOUGHT("") "}\n" EVENT(
                     5, "reasoning_text.delta")
                     PART_OF("rs", 0) ",'delta':'hm'}\n" EVENT(6, "reasoning_text.done")
                         PART_OF("rs", 0) ",'text':'hm'}\n" EVENT(7, "content_part.done") PART_OF(
                             "rs", 0) ",'part':" THOUGHT("hm") "}\n" EVENT(8, "output_item.done")
                             ITEM(0, REASONING("completed", THOUGHT("hm")))
                                 EVENT(9, "output_item.added")
                                     ITEM(1, CALL(1, "in_progress", "{\\'z\\':1}", NOTHING))
                                         EVENT(10, "mcp_call.in_progress") CALL_OF(1)
                                             EVENT(11, "mcp_call.completed") CALL_OF(1)
                                                 EVENT(12, "output_item.done") ITEM(
                                                     1, CALL(1, "completed", "{\\'z\\':1}",
                                                             ",'output':'noon','error':null"))));
}

static void test_calls_side_by_side_and_failed_ones(void **state)
{
    (void)state;
    begin();
    tell_next(EVENT_TOOL_CALL, json("{'call_id':'c1','name':'clock','arguments':{}}"));
    tell_next(EVENT_TOOL_CALL, json("{'call_id':'c2','name':'clock','arguments':{}}"));
    buf_clear(&got);
    tell_next(EVENT_TOOL_RESULT,
              json("{'call_id':'c1','name':'clock','output':'no','is_error':true}"));
    tell_next(EVENT_TASK_FAILED, json("{'status':'cancelled'}"));
    assert_text(
        buf_str(&got),
        json(EVENT(7, "mcp_call.failed") CALL_OF(0) EVENT(8, "output_item.done")
                 ITEM(0, CALL(0, "failed", "{}",
                              ",'output':null,'error':{'type':'mcp_tool_execution_error',"
                              "'content':'no'}")) EVENT(9, "output_item.done")
                     ITEM(1, CALL(1, "incomplete", "{}", NOTHING)) EVENT(10, "incomplete")
                         RESPONSE("cancelled",
                                  CALL(0, "failed", "{}",
                                       ",'output':null,'error':{'type':'mcp_tool_execution_error',"
                                       "'content':'no'}") "," CALL(1, "incomplete", "{}", NOTHING),
                                  "'error':null,'incomplete_details':{'reason':'cancelled'},"
                                  "'usage':null,'completed_at':1795953600",
                                  GIVEN)));
}

static void test_another_final_answer_is_an_item_of_its_own(void **state)
{
    (void)state;
    begin();
    tell_next(EVENT_TOKEN, json("{'text':'draft'}"));
    buf_clear(&got);
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'final'}"));
    tell_next(EVENT_TASK_COMPLETED, json("{'output':'final','result':null}"));
    assert_text(
        buf_str(&got),
        json(EVENT(6, "output_text.done") PART_OF(
            "msg", 0) ",'text':'draft','logprobs':[]}\n" EVENT(7, "content_part.done")
                 PART_OF("msg", 0) ",'part':" TEXT_PART("draft") "}\n" EVENT(8, "output_item.done")
                     ITEM(0, MESSAGE(0, "incomplete", TEXT_PART("draft")))
                         EVENT(9, "output_item.added") ITEM(1, MESSAGE(1, "in_progress", ""))
                             EVENT(10, "content_part.added") PART_OF("msg", 1) ",'part':" TEXT_PART(
                                 "") "}\n" EVENT(11, "output_text.delta")
                                 PART_OF("msg", 1) ",'delta':'final','logprobs':[]}\n" EVENT(
                                     12, "output_text.done")
                                     PART_OF("msg", 1) ",'text':'final','logprobs':[]}\n" EVENT(
                                         13, "content_part.done")
                                         PART_OF("msg", 1) ",'part':" TEXT_PART(
                                             "final") "}\n" EVENT(14, "output_item.done")
                                             ITEM(1, MESSAGE(1, "completed", TEXT_PART("final")))
                                                 EVENT(15, "completed") RESPONSE(
                                                     "completed",
                                                     MESSAGE(1, "completed", TEXT_PART("final")),
                                                     OPEN ",'completed_at':1795953600", GIVEN)));
}

#define APPROVAL                                                              \
    "{'id':'mcpr_cTE','type':'mcp_approval_request','name':'rm','arguments':" \
    "'{\\'f\\':1}','server_label':'holdfast','prompt':'sure?'}" /* "q1" is cTE */

static void test_approval_is_an_item_and_other_questions_are_not(void **state)
{
    (void)state;
    begin();
    tell_next(EVENT_INPUT_REQUIRED, json("{'input_id':'q0','kind':'question','prompt':'who?'}"));
    tell_next(EVENT_INPUT_REQUIRED, json("{'input_id':'q1','kind':'approval','prompt':'sure?',"
                                         "'tool':'rm','arguments':{'f':1}}"));
    tell_next(EVENT_INPUT_RECEIVED, json("{'input_id':'q1','answer':true}"));
    assert_text(buf_str(&got), json(EVENT(3, "output_item.added") ITEM(0, APPROVAL)
                                        EVENT(4, "output_item.done") ITEM(0, APPROVAL)));
}

#define CITATION                                                                       \
    "{'type':'container_file_citation','container_id':'c-1','file_id':'F','filename':" \
    "'a b.txt','start_index':0,'end_index':0,'media_type':'text/plain','size':6}"
#define CITED "{'type':'output_text','text':'','annotations':[" CITATION "],'logprobs':[]}"
#define OF_FILE ",'item_id':'msg_" TID "_1','output_index':1,'content_index':0"

static void test_file_is_a_message_without_text_that_cites_it(void **state)
{
    (void)state;
    begin();
    tell_next(EVENT_TOKEN, json("{'text':'so'}"));
    buf_clear(&got);
    tell_next(EVENT_FILE, json("{'call_id':'1','file_id':'F','name':'a b.txt','media_type':"
                               "'text/plain','size':6,'sha256':'00'}"));
    const char *own = strstr(got.bytes, "response.output_item.added");
    assert_non_null(own); /* the run of text has ended before it */
    assert_text(
        str_of(own),
        json(EVENT(9, "output_item.added") ",'output_index':1,'item':" MESSAGE(
            1, "in_progress", "") "}\n" EVENT(10, "content_part.added") OF_FILE
             ",'part':" TEXT_PART("") "}\n" EVENT(11, "output_text.annotation.added") OF_FILE
             ",'annotation_index':0,'annotation':" CITATION "}\n" EVENT(12, "output_text.done")
                 OF_FILE ",'text':'','logprobs':[]}\n" EVENT(13, "content_part.done") OF_FILE
             ",'part':" CITED
             "}\n" EVENT(14, "output_item.done") ",'output_index':1,'item':" MESSAGE(1, "completed",
                                                                                     CITED) "}\n"));
    buf_clear(&got);
    tell_next(EVENT_TOKEN, json("{'text':' far'}"));
    tell_next(EVENT_TASK_COMPLETED, json("{'output':'so far'}"));
    assert_non_null(strstr(got.bytes, json("'output_index':2")));
    assert_non_null(strstr(
        got.bytes, json("'output':[" MESSAGE(0, "completed", TEXT_PART("so")) "," MESSAGE(
                       1, "completed", CITED) "," MESSAGE(2, "completed", TEXT_PART(" far")) "]")));
}

static void test_failure_keeps_what_was_said(void **state)
{
    (void)state;
    begin();
    tell_next(EVENT_TOKEN, json("{'text':'so far'}"));
    buf_clear(&got);
    tell_next(EVENT_TASK_FAILED, json("{'status':'failed','error':{'code':'timeout','message':"
                                      "'timeout: 3 s'}}"));
    assert_text(
        buf_str(&got),
        json(
            EVENT(6, "output_text.done") PART_OF(
                "msg", 0) ",'text':'so far','logprobs':[]}\n" EVENT(7, "content_part.done")
                PART_OF("msg", 0) ",'part':" TEXT_PART("so far") "}\n" EVENT(8, "output_item.done")
                    ITEM(0, MESSAGE(0, "incomplete", TEXT_PART("so far"))) EVENT(9, "failed")
                        RESPONSE("failed", MESSAGE(0, "incomplete", TEXT_PART("so far")),
                                 "'error':{'code':'server_error','message':'timeout: 3 s'},"
                                 "'incomplete_details':null,'usage':null,'completed_at':1795953600",
                                 GIVEN)));
    assert_true(stream->is_over);
}

/* A text of so many bytes, as one token or as the final answer. */
static void tell_long(enum event_type type, const char *member, size_t n)
{
    struct buf data = {0};
    buf_putf(&data, json("{'%s':'"), member);
    memset(buf_reserve(&data, n), 'x', n);
    data.len += n;
    buf_puts(&data, json("'}"));
    buf_putc(&data, 0);
    tell_next(type, data.bytes);
    buf_done(&data);
}

static size_t count(const char *text)
{
    size_t n = 0;
    buf_putc(&got, 0);
    for (const char *at = got.bytes; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* Two pieces of 200 KiB do not fit into one item of 256 KiB; the third item pushes the first out of
 * the last event's 512 KiB. */
static void test_long_texts_are_several_messages_and_the_last_event_is_bounded(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 3; i++)
        tell_long(EVENT_TOKEN, "text", 200 * 1024);
    tell_long(EVENT_FINAL_ANSWER, "output", 256 * 1024); /* the gateway's own, which is cut */
    assert_int_equal(count(json("'type':'response.output_item.added'")), 3);
    assert_int_equal(count(json("'status':'incomplete'")), 0);
    buf_clear(&got);
    tell_next(EVENT_TASK_COMPLETED, json("{'output':'x','result':null}"));
    const char *last = strstr(got.bytes, json("'type':'response.completed'"));
    assert_non_null(last);
    assert_null(strstr(last, "msg_" TID "_0"));
    assert_non_null(strstr(last, "msg_" TID "_1"));
    assert_non_null(strstr(last, json("'metadata':{'k':'v','output_truncated':'true'}")));
}

static void test_calls_that_are_never_answered_are_bounded(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 65; i++)
        tell_next(EVENT_TOOL_CALL, json("{'call_id':'c','name':'clock','arguments':{}}"));
    assert_int_equal(count(json("'type':'response.output_item.done'")), 1);
    assert_int_equal(count(json("'status':'incomplete'")), 1);
}

static void test_numbers_do_not_begin_anew_where_the_beginning_is_gone(void **state)
{
    (void)state;
    tell(7, EVENT_TOKEN, json("{'text':'x'}"));
    assert_text(buf_str(&got),
                json("error {'type':'error','sequence_number':0,'code':'gone','message':'the "
                     "beginning of this response is no longer kept','param':null}\n"));
    assert_true(stream->is_over);
}

/* --- ids -------------------------------------------------------------------------------------- */

static void test_id_is_the_conversation_and_the_task(void **state)
{
    static const char *const bad[] = {
        "", "resp_", "Yy0x." TID, "resp_Yy0x", "resp_Yy0x=." TID, "resp_Yy1." TID, "resp_Y y." TID,
    };
    struct buf conversation = {0}, task = {0};
    (void)state;
    assert_true(responses_read_id(STR(RID), &conversation, &task));
    assert_text(buf_str(&conversation), "c-1");
    assert_text(buf_str(&task), TID);
    responses_put_id(&got, STR("c-1"), STR(TID));
    assert_text(buf_str(&got), RID);
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(responses_read_id(str_of(bad[i]), &conversation, &task));
    buf_done(&conversation);
    buf_done(&task);
}

/* --- requests --------------------------------------------------------------------------------- */

static bool reads(const char *json)
{
    responses_request_done(&request);
    return responses_read(&reply_doc, str_of(json), &request, why);
}

static void test_input_is_a_text_or_messages(void **state)
{
    (void)state;
    assert_true(reads(json("{'model':'echo','input':'hi','stream':true,'metadata':{'a':"
                           "'b'}}")));
    assert_text(buf_str(&request.message), "hi");
    assert_text(buf_str(&request.agent), "echo");
    assert_text(buf_str(&request.metadata), json("{'a':'b'}"));
    assert_true(request.stream && !request.background);
    assert_int_equal(request.context.len, 0);
    assert_true(reads(json("{'instructions':'be nice','input':[{'role':'developer','content':'d'},"
                           "{'type':'message','role':'user','content':[{'type':'input_text','text':"
                           "'1'}]},{'type':'reasoning','id':'rs_1','summary':[]},{'type':'message',"
                           "'role':'assistant','content':[{'type':'output_text','text':'2'}]},"
                           "{'role':'user','content':[{'type':'input_text','text':'a'},{'type':"
                           "'input_text','text':'b'}]}],'tools':[],'background':true}")));
    assert_text(buf_str(&request.message), "a\nb");
    assert_text(buf_str(&request.context),
                json("[{'role':'system','content':'be nice'},{'role':'developer',"
                     "'content':'d'},{'role':'user','content':'1'},{'role':"
                     "'assistant','content':'2'}]"));
    assert_true(request.background);
}

static void test_approval_is_answered_by_the_last_item(void **state)
{
    static const char json[] =
        "{\"previous_response_id\":\"" RID "\",\"input\":[{\"role\":\"user\",\"content\":\"x\"},"
        "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"mcpr_cTE\",\"approve\":%s}]}";
    char text[512];
    (void)state;
    snprintf(text, sizeof text, json, "true");
    assert_true(reads(text) && request.is_answer && request.approves);
    assert_text(buf_str(&request.input_id), "q1");
    snprintf(text, sizeof text, json, "false");
    assert_true(reads(text) && request.is_answer && !request.approves);
}

static void test_conversation_of_the_gateway_is_the_context(void **state)
{
    const char *const given[] = {
        json("'conversation':'c-1'"),
        json("'conversation':{'id':'c-1'}"),
        json("'previous_response_id':'" RID "'"),
    };
    (void)state;
    for (size_t i = 0; i < countof(given); i++) {
        char json[256];
        snprintf(json, sizeof json, json("{'instructions':'x','input':'hi',%s}"), given[i]);
        assert_true(reads(json));
        assert_int_equal(request.context.len, 0);
        assert_true(str_eq(buf_str(&request.conversation), i < 2 ? STR("c-1") : STR("")));
        assert_true(str_eq(buf_str(&request.previous), i < 2 ? STR("") : STR(RID)));
    }
}

static void test_faults_are_named(void **state)
{
    const char *const cases[][2] = {
        {"[]", "not a JSON object"},
        {"{}", "\"input\" must be a string or an array of items"},
        {json("{'input':''}"), "the last message of \"input\" has no text"},
        {json("{'input':[]}"), "\"input\" must end in a message of the user"},
        {json("{'input':[1]}"), "\"input\" must end in a message of the user"},
        {json("{'input':[{'role':'assistant','content':'x'}]}"),
         "the last message of \"input\" must have the role \"user\""},
        {json("{'input':[{'role':'tool','content':'x'}]}"),
         "\"role\" must be user, assistant, system or developer"},
        {json("{'input':[{'role':'user','content':[{'type':'input_image'}]}]}"),
         "\"image_url\" must be a data URL with base64, or the path of a file on this gateway"},
        {json("{'input':[{'role':'user','content':[{'type':'input_video'}]}]}"),
         "the content of a message must be input_text, input_image or input_file"},
        {json("{'input':[{'type':'function_call_output','call_id':'c','output':'x'},"
              "{'role':'user','content':'x'}]}"),
         "\"input\" has an item of a type that this gateway does not take"},
        {json("{'input':[{'type':'mcp_approval_response','approval_request_id':'mcpr_cTE',"
              "'approve':true}]}"),
         "an approval needs the \"previous_response_id\" that asked for it"},
        {json("{'input':[{'type':'mcp_approval_response','approval_request_id':'x',"
              "'approve':true}]}"),
         "\"approval_request_id\" must be the id of an mcp_approval_request"},
        {json("{'input':[{'type':'mcp_approval_response'}]}"), "\"approve\" must be true or false"},
        {json("{'input':'x','tools':[{'type':'function','name':'f'}]}"),
         "\"tools\" are not accepted: the agents of this gateway have their own"},
        {json("{'input':'x','conversation':'c','previous_response_id':'r'}"),
         "\"conversation\" and \"previous_response_id\" exclude each other"},
        {json("{'input':'x','stream':1}"), "\"stream\" must be true or false"},
        {json("{'input':'x','metadata':[]}"), "\"metadata\" must be an object"},
        {json("{'input':'x','model':4}"), "\"model\" must be the name of an agent"},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        assert_false(reads(cases[i][0]));
        assert_string_equal(why, cases[i][1]);
    }
}

/* --- frames ----------------------------------------------------------------------------------- */

static void test_frames_are_routed_by_stream(void **state)
{
    struct face_frame frame = {0};
    (void)state;
    responses_ws_ops.read(&reply_doc,
                          str_of(json("{'type':'response.create','stream_id':'s1','input':'x'}")),
                          &frame);
    assert_int_equal(frame.kind, FRAME_REQUEST);
    assert_text(frame.id, "s1");
    responses_ws_ops.put_message(&got, frame.id, 0, str_of(json("{'type':'x'}")));
    assert_text(buf_str(&got), json("{'stream_id':'s1','type':'x'}"));
    buf_done(&frame.memory);
    buf_clear(&got);
    responses_ws_ops.read(&reply_doc, str_of(json("{'type':'response.steer'}")), &frame);
    assert_int_equal(frame.kind, FRAME_BAD);
    responses_ws_ops.put_failed(&got, STR(""), ERR_BAD_REQUEST, frame.why);
    assert_text(buf_str(&got),
                json("{'type':'error','status':400,'error':{'message':'\\'type\\' must be "
                     "\\'response.create\\'','type':'invalid_request_error','param':null,"
                     "'code':'bad_request'}}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answer_in_pieces_is_one_message),
        TEST(test_thoughts_and_tools_are_items_in_their_place),
        TEST(test_calls_side_by_side_and_failed_ones),
        TEST(test_another_final_answer_is_an_item_of_its_own),
        TEST(test_approval_is_an_item_and_other_questions_are_not),
        TEST(test_file_is_a_message_without_text_that_cites_it),
        TEST(test_failure_keeps_what_was_said),
        TEST(test_long_texts_are_several_messages_and_the_last_event_is_bounded),
        TEST(test_calls_that_are_never_answered_are_bounded),
        TEST(test_numbers_do_not_begin_anew_where_the_beginning_is_gone),
        TEST(test_id_is_the_conversation_and_the_task),
        TEST(test_input_is_a_text_or_messages),
        TEST(test_approval_is_answered_by_the_last_item),
        TEST(test_conversation_of_the_gateway_is_the_context),
        TEST(test_faults_are_named),
        TEST(test_frames_are_routed_by_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
