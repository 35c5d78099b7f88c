#include "tests/support/face_kit.h"

#include "proto/faces/mcp.h"

/* The right messages are those of MCP 2026-07-28 and of its extension of tasks (SEP-2663), worked
 * out by hand from the mapping in docs/faces.md; the requests are those of its client 2.4.0. */

#define ID "Yy0x." TID /* of conversation c-1 */
#define META(can)                                                      \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28'," \
    "'io.modelcontextprotocol/clientCapabilities':{" can "}}"
#define TAKES_TASKS "'extensions':{'io.modelcontextprotocol/tasks':{}}"
#define STATE(status)                                                        \
    "'taskId':'" ID "','status':'" status "','ttlMs':null,'createdAt':"      \
    "'2026-11-29T12:00:00.007Z','lastUpdatedAt':'2026-11-29T12:00:00.007Z'," \
    "'pollIntervalMs':1000"
#define FORM(prompt)                                                                  \
    "{'method':'elicitation/create','params':{'mode':'form','message':'" prompt       \
    "','requestedSchema':{'type':'object','properties':{'answer':{'type':'string'}}," \
    "'required':['answer']}}}"
#define ASKED(id) json("{'input_id':'" id "','kind':'question','prompt':'who?'}")

static struct mcp_request request;

static void begin_stream(enum mcp_operation operation)
{
    request =
        (struct mcp_request){.operation = operation,
                             .is_modern = true,
                             .takes_tasks = true,
                             .task_id = STR(ID),
                             .call = {.rpc_id = STR("3"), .token = STR("7"), .elicits = true}};
    stream = mcp_ops.make(&(struct face_task){
        .task_id = STR(TID), .conversation_id = STR("c-1"), .created_at = TS, .request = &request});
}

/* --- streams ---------------------------------------------------------------------------------- */

static void test_call_is_told_its_progress_and_ends_in_the_result(void **state)
{
    (void)state;
    begin_stream(MCP_CALL);
    tell(1, EVENT_TASK_CREATED, "{}");
    tell(3, EVENT_TOKEN, json("{'text':'Hel'}"));
    face_stream_idle(stream, &sink);
    assert_text(got_now(), json("{'jsonrpc':'2.0','method':'notifications/progress','params':"
                                "{'progressToken':7,'progress':3,'message':'Hel'}}\n"));
    tell(4, EVENT_TASK_COMPLETED, json("{'output':'Hello','result':{'n':1}}"));
    assert_text(got_now(), json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'complete',"
                                "'content':[{'type':'text','text':'Hello'}],'structuredContent':"
                                "{'n':1},'isError':false}}\n"));
    assert_true(stream->is_over);
}

static void test_questions_end_the_answer_and_their_state_is_before_the_first(void **state)
{
    (void)state;
    begin_stream(MCP_CALL);
    tell(4, EVENT_INPUT_REQUIRED, ASKED("q1"));
    tell(5, EVENT_INPUT_RECEIVED, json("{'input_id':'q1','answer':'x'}"));
    face_stream_idle(stream, &sink);
    assert_false(stream->is_over);
    tell(6, EVENT_INPUT_REQUIRED, ASKED("q2"));
    tell(7, EVENT_INPUT_REQUIRED, ASKED("q\\\"3"));
    face_stream_idle(stream, &sink);
    assert_text(got_now(),
                json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'input_required',"
                     "'inputRequests':{'q/q2':" FORM("who?") ",'q/q\\\"3':" FORM("who?") //
                     "},'requestState':'" ID "_5'}}\n"));
    assert_true(stream->is_over);
}

static void test_task_that_waits_is_told_with_its_question(void **state)
{
    (void)state;
    begin_stream(MCP_TASK_GET);
    tell(1, EVENT_TASK_STARTED, "{}");
    tell(2, EVENT_INPUT_REQUIRED, ASKED("q1"));
    face_stream_idle(stream, &sink);
    assert_text(got_now(), json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'complete'," STATE(
                               "input_required") ",'inputRequests':{'q/q1':" FORM("who?") "}}}\n"));
    assert_true(stream->is_over);
}

#define NOTICE "{'jsonrpc':'2.0','method':'notifications/tasks','params':{" SUBSCRIPTION ","
#define SUBSCRIPTION "'_meta':{'io.modelcontextprotocol/subscriptionId':3}"

static void test_subscription_tells_each_state_when_it_stands(void **state)
{
    (void)state;
    begin_stream(MCP_LISTEN);
    tell(1, EVENT_TASK_STARTED, "{}");
    tell(2, EVENT_INPUT_REQUIRED, ASKED("q1"));
    tell(3, EVENT_INPUT_RECEIVED, json("{'input_id':'q1','answer':'x'}"));
    face_stream_idle(stream, &sink);
    face_stream_idle(stream, &sink);
    assert_text(got_now(),
                json("{'jsonrpc':'2.0','method':'notifications/subscriptions/acknowledged',"
                     "'params':{" SUBSCRIPTION ",'notifications':{'taskIds':['" ID "']}}}\n" //
                     NOTICE STATE("working") "}}\n"));
    tell(4, EVENT_TASK_FAILED, json("{'status':'cancelled'}"));
    assert_text(got_now(),
                json(NOTICE STATE(
                    "cancelled") "}}\n"                                                       //
                                 "{'jsonrpc':'2.0','id':3,'result':{'resultType':'complete'," //
                     SUBSCRIPTION "}}\n"));
    assert_true(stream->is_over);
}

/* --- requests --------------------------------------------------------------------------------- */

static enum face_next post_as(const char *method, const char *name, const char *body)
{
    exchange_done(&x);
    x = (struct face_exchange){.ops = &mcp_post_ops};
    return mcp_post_ops.begin(
        &x, &(struct face_input){.operation = MCP_POST,
                                 .body = str_of(body),
                                 .agents = STR("[{\"name\":\"a\"}]"),
                                 .also = {STR("2026-07-28"), str_of(method), str_of(name)},
                                 .doc = &doc});
}

#define POST(method, name, params) \
    post_as(method, name,          \
            json("{'jsonrpc':'2.0','id':3,'method':'" method "','params':{" params "}}"))

static enum face_next hear(enum error e, const char *line)
{
    return x.ops->replied(&x, e, str_of(line), &reply_doc);
}

static void test_head_repeats_the_body(void **state)
{
    (void)state;
    assert_int_equal(POST("tools/call", "b", "'name':'a','arguments':{'message':'m'}," META("")),
                     FACE_REPLY);
    assert_int_equal(x.status, 400);
    assert_non_null(strstr(x.reply.bytes, "-32020"));
    assert_int_equal(
        POST("tools/call", "=?base64?YQ==?=", "'name':'a','arguments':{'message':'m'}," META("")),
        FACE_FOLLOW);
    assert_text(buf_str(&x.ask.body), json("{'message':'m','agent':'a','name':'mcp 3'}"));
    assert_int_equal(POST("tools/list", NULL, ""), FACE_REPLY);
    assert_int_equal(x.status, 400);
    assert_non_null(strstr(x.reply.bytes, "-32602"));
}

static void test_tools_and_the_server_are_told(void **state)
{
    (void)state;
    assert_int_equal(POST("tools/list", NULL, META("")), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'complete','tools':[{'name':"
                     "'a','description':'Asks this agent.','inputSchema':{'type':'object',"
                     "'properties':{'message':{'type':'string','description':'what is asked'}},"
                     "'required':['message']}}],'ttlMs':60000,'cacheScope':'private'}}"));
    assert_int_equal(POST("server/discover", NULL, META("")), FACE_REPLY);
    assert_non_null(strstr(x.reply.bytes, "\"supportedVersions\":[\"2026-07-28\"]"));
    assert_int_equal(POST("initialize", NULL, META("")), FACE_REPLY);
    assert_int_equal(x.status, 404);
}

#define CALL "'name':'a','arguments':{'message':'m'},"
#define TASK(status) \
    "{'type':'task','task':{'task_id':'" TID "','conversation_id':'c-1','status':'" status "',"
#define TIMES "'created_at':1795953600007,'completed_at':1795953600007"

static void test_call_that_is_made_again_answers_and_goes_on(void **state)
{
    (void)state;
    assert_int_equal(
        POST("tools/call", "a",
             CALL META("'elicitation':{}") ",'requestState':'" ID
                                           "_5','inputResponses':{'x':1,'q/q1':{'action':"
                                           "'accept','content':{'answer':'me'}},'a/q2':"
                                           "{'action':'decline'}}"),
        FACE_ASK);
    assert_int_equal(x.ask.verb, VERB_RESPOND);
    assert_text(buf_str(&x.ask.body), json("{'input_id':'q1','answer':'me'}"));
    assert_int_equal(hear(ERR_NONE, "{}"), FACE_ASK);
    assert_text(buf_str(&x.ask.body), json("{'input_id':'q2','answer':false}"));
    assert_int_equal(hear(ERR_CONFLICT, "{}"), FACE_FOLLOW); /* somebody else was first */
    assert_int_equal(x.ask.verb, VERB_RESUME);
    assert_text(buf_str(&x.ask.body), json("{'after':5}"));
    assert_int_equal(POST("tools/call", "a", CALL META("") ",'requestState':'x'"), FACE_REPLY);
    assert_non_null(strstr(x.reply.bytes, "-32602"));
}

#define LINK                                                                                \
    "{'type':'resource_link','uri':'http://h/v1/conversations/c-1/files/F','name':'a.txt'," \
    "'mimeType':'text/plain','size':6}"
#define GIVES "{'file_id':'F','name':'a.txt','media_type':'text/plain','size':6}"

/* The client that answers a question has nothing of what came before it but the state. */
static void test_file_before_a_question_is_in_the_result_after_it(void **state)
{
    (void)state;
    begin_stream(MCP_CALL);
    request.call.base = STR("http://h");
    tell(4, EVENT_FILE, json(GIVES));
    tell(5, EVENT_TOKEN, json("{'text':'so'}"));
    tell(6, EVENT_INPUT_REQUIRED, json("{'input_id':'q1','kind':'question','prompt':'?'}"));
    face_stream_idle(stream, &sink);
    assert_non_null(strstr(got.bytes, json("'requestState':'" ID "_5_4'")));
    face_teardown(NULL);

    assert_int_equal(POST("tools/call", "a",
                          CALL META("'elicitation':{}") ",'requestState':'" ID
                                                        "_5_4','inputResponses':{}"),
                     FACE_FOLLOW);
    assert_text(buf_str(&x.ask.body), json("{'after':3}"));
    begin_stream(MCP_CALL);
    request.call.base = STR("http://h");
    request.after = 5;
    tell(4, EVENT_FILE, json(GIVES));
    tell(5, EVENT_TOKEN, json("{'text':'so'}"));
    assert_int_equal(got.len, 0);
    tell(8, EVENT_TASK_COMPLETED, json("{'output':'done'}"));
    assert_text(buf_str(&got),
                json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'complete','content':["
                     "{'type':'text','text':'done'}," LINK "],'isError':false}}\n"));
}

static void test_client_of_the_extension_gets_a_task(void **state)
{
    (void)state;
    assert_int_equal(POST("tools/call", "a", CALL META(TAKES_TASKS)), FACE_ASK);
    assert_int_equal(hear(ERR_NONE, json(TASK("pending") TIMES "}}")), FACE_REPLY);
    assert_text(
        buf_str(&x.reply),
        json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'task'," STATE("working") "}}"));
    assert_int_equal(POST("tasks/get", ID, "'taskId':'" ID "'," META(TAKES_TASKS)), FACE_ASK);
    assert_int_equal(hear(ERR_NONE, json(TASK("failed") "'error':{'message':'no'}," TIMES "}}")),
                     FACE_FOLLOW); /* only the events have the files */
    assert_int_equal(hear(ERR_INTERNAL, "{}"), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'complete','taskId':'" ID
                     "','status':'completed','statusMessage':'no','ttlMs':null,'createdAt':"
                     "'2026-11-29T12:00:00.007Z','lastUpdatedAt':'2026-11-29T12:00:00.007Z',"
                     "'pollIntervalMs':1000,'result':{'content':[{'type':'text','text':'no'}],"
                     "'isError':true}}}"));
    assert_int_equal(POST("tasks/get", ID, "'taskId':'" ID "'," META(TAKES_TASKS)), FACE_ASK);
    assert_int_equal(hear(ERR_NONE, json(TASK("running") "'waiting_for':'q1'," TIMES "}}")),
                     FACE_FOLLOW); /* only the events have the question */
    assert_true(x.is_whole);
    assert_int_equal(POST("tasks/get", ID, "'taskId':'" ID "'," META("")), FACE_REPLY);
    assert_int_equal(x.status, 400);
    assert_non_null(strstr(x.reply.bytes, "-32021"));
}

static void test_cancel_is_acknowledged_whatever_the_task_was(void **state)
{
    static const enum error done[] = {ERR_NONE, ERR_TASK_TERMINATED, ERR_CONFLICT};
    (void)state;
    for (size_t i = 0; i < countof(done); i++) {
        assert_int_equal(POST("tasks/cancel", ID, "'taskId':'" ID "'," META(TAKES_TASKS)),
                         FACE_ASK);
        assert_int_equal(x.ask.verb, VERB_CANCEL);
        assert_int_equal(hear(done[i], "{}"), FACE_REPLY);
        assert_text(buf_str(&x.reply),
                    json("{'jsonrpc':'2.0','id':3,'result':{'resultType':'complete'}}"));
    }
    assert_int_equal(POST("tasks/cancel", ID, "'taskId':'" ID "'," META(TAKES_TASKS)), FACE_ASK);
    assert_int_equal(hear(ERR_NOT_FOUND, json("{'message':'no such task'}")), FACE_REPLY);
    assert_non_null(strstr(x.reply.bytes, "-32602"));
}

static void test_subscription_to_nothing_ends_as_it_begins(void **state)
{
    (void)state;
    assert_int_equal(
        POST("subscriptions/listen", NULL, "'notifications':{'toolsListChanged':true}," META("")),
        FACE_REPLY);
    assert_text(buf_str(&x.head), "content-type: text/event-stream\n");
    assert_text(buf_str(&x.reply),
                json("data: {'jsonrpc':'2.0','method':'notifications/subscriptions/acknowledged',"
                     "'params':{" SUBSCRIPTION ",'notifications':{}}}\n\n"
                     "data: {'jsonrpc':'2.0','id':3,'result':{'resultType':'complete'," //
                     SUBSCRIPTION "}}\n\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_call_is_told_its_progress_and_ends_in_the_result),
        TEST(test_questions_end_the_answer_and_their_state_is_before_the_first),
        TEST(test_task_that_waits_is_told_with_its_question),
        TEST(test_subscription_tells_each_state_when_it_stands),
        TEST(test_head_repeats_the_body),
        TEST(test_tools_and_the_server_are_told),
        TEST(test_call_that_is_made_again_answers_and_goes_on),
        TEST(test_client_of_the_extension_gets_a_task),
        TEST(test_file_before_a_question_is_in_the_result_after_it),
        TEST(test_cancel_is_acknowledged_whatever_the_task_was),
        TEST(test_subscription_to_nothing_ends_as_it_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
