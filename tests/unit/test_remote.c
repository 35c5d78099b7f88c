/* Forms of servers, from streams that such servers have sent (tests/forms/). */
#include <stdio.h>

#include "proto/agent_line.h"
#include "proto/forms/remote.h"
#include "tests/support/t.h"

static struct remote remote;
static struct sse_reader reader;
static struct buf said;
static struct agent_line_decoder decoder;

static int teardown(void **state)
{
    (void)state;
    remote_done(&remote);
    remote = (struct remote){0};
    sse_reader_done(&reader);
    buf_done(&said);
    agent_line_done(&decoder);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static void open_turn(enum remote_kind kind, const char *session)
{
    const char *history = json("[{'role':'user','content':'one'},"
                               "{'role':'assistant','content':'two'}]");
    remote_begin(&remote, kind,
                 &(struct remote_turn){STR("http://peer/x"), STR("m"), STR("c-1"), STR("t-1"),
                                       STR("three"), str_of(history), STR("all of it"),
                                       str_of(session)});
}

/* Keeps what was said; each line is one that an agent may say. */
static void hear(void)
{
    struct agent_line line;
    struct str now = buf_str(&remote.said);
    for (size_t at = 0; at < now.n;) {
        const char *end = memchr(now.p + at, '\n', now.n - at);
        assert_non_null(end);
        size_t n = (size_t)(end - now.p) - at;
        if (!agent_line_decode(&decoder, (struct str){now.p + at, n}, &line))
            fail_msg("%s: %.*s", line.error, (int)n, now.p + at);
        at += n + 1;
    }
    buf_putstr(&said, now);
    buf_clear(&remote.said);
}

static void take(const char *text)
{
    struct str in = str_of(text);
    struct sse_event e;
    while (sse_reader_next(&reader, &in, &e) == SSE_EVENT)
        remote_event(&remote, &e);
    hear();
}

static void take_recorded(const char *name)
{
    char path[512];
    static char text[65536];
    snprintf(path, sizeof path, "%s/forms/%s.sse", TESTS_FOLDER, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    take(text);
    remote_end(&remote, STR_NULL);
    hear();
}

static void take_data(const char *data)
{
    struct buf event = {0};
    buf_putf(&event, "data: %s\n\n", data);
    take(event.bytes);
    buf_done(&event);
}

static void answer(unsigned number, const char *value)
{
    char line[256];
    snprintf(line, sizeof line, json("{'type':'input','input_id':'ask-%u','answer':%s}"), number,
             value);
    remote_answer(&remote, str_of(line));
    hear();
}

static const char *text(const struct buf *b)
{
    return b->len ? b->bytes : "";
}

/* The next request; it is taken. */
static void expect_request(const char *url, const char *body)
{
    assert_true(remote.request.wanted);
    remote.request.wanted = false;
    assert_string_equal(text(&remote.request.url), url);
    assert_string_equal(text(&remote.request.body), body);
    assert_int_equal(remote.request.is_get, *body == 0);
}

static void expect_failure(const char *why)
{
    assert_int_equal(remote.state, REMOTE_FAILED);
    assert_string_equal(text(&remote.failure), why);
}

#define EVENT(name, data) "{\"event\":\"" name "\",\"data\":{" data "}}\n"
#define TOKEN(of) EVENT("token", "\"text\":\"" of "\"")
#define USAGE(in, out, all)                                            \
    "{\"event\":\"result\",\"data\":{\"usage\":{\"prompt_tokens\":" in \
    ",\"completion_tokens\":" out ",\"total_tokens\":" all "}}}\n"

/* --- recorded streams ------------------------------------------------------------------------- */

static void test_remote_recorded_turns_become_lines(void **state)
{
    static const struct {
        enum remote_kind kind;
        const char *name, *lines;
    } rows[] = {
        {REMOTE_RESPONSES, "responses_thinks",
         EVENT("thinking", "\"text\":\"Six time\"") EVENT("thinking", "\"text\":\"s seven.\"")
             TOKEN("42 🌊") USAGE("5", "7", "12") EVENT("final_answer", "\"output\":\"42 🌊\"")},
        {REMOTE_AG_UI, "ag_ui_calls",
         EVENT("tool_call", "\"call_id\":\"c1\",\"name\":\"clock\",\"arguments\":{\"zone\":\"UTC\"}") EVENT(
             "tool_result", "\"call_id\":\"c1\",\"name\":\"clock\",\"output\":\"12:00\","
                            "\"is_error\":false") EVENT("thinking", "\"text\":\"Noon.\"")
             TOKEN("It is noon.") EVENT(
                 "custom",
                 "\"event_type\":\"place\",\"payload\":{\"x\":1}") "{\"event\":\"result\",\"data\":{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,"
                                                                   "\"total_tokens\":7},\"result\":{\"n\":1}}}\n" EVENT(
                                                                       "final_answer",
                                                                       "\"output\":\"It is noon.\"")},
        {REMOTE_A2A, "a2a_says",
         EVENT("thinking", "\"text\":\"hm\"") TOKEN("Hel") TOKEN("lo")
             EVENT("final_answer", "\"output\":\"Hello\"")},
        {REMOTE_A2A, "a2a_old_says",
         EVENT("thinking", "\"text\":\"hm\"") TOKEN("Hel") TOKEN("lo")
             EVENT("final_answer", "\"output\":\"Hello\"")},
        {REMOTE_AI_SDK, "ai_sdk_calls",
         EVENT("thinking", "\"text\":\"hm\"") TOKEN("Look. ") EVENT(
             "tool_call", "\"call_id\":\"c2\",\"name\":\"look\",\"arguments\":{\"path\":\"/x\"}")
             EVENT("tool_result", "\"call_id\":\"c2\",\"name\":\"look\",\"output\":\"{\\\"at\\\":"
                                  "\\\"/x\\\"}\",\"is_error\":false") TOKEN("It is there.")
                 USAGE("6", "10", "16") EVENT("final_answer", "\"output\":\"It is there.\"")},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        open_turn(rows[i].kind, "");
        remote.request.wanted = false;
        take_recorded(rows[i].name);
        assert_int_equal(remote.state, REMOTE_DONE);
        assert_string_equal(text(&said), rows[i].lines);
        teardown(NULL);
    }
}

static void test_remote_recorded_failures_are_told(void **state)
{
    static const struct {
        enum remote_kind kind;
        const char *name, *why;
    } rows[] = {
        {REMOTE_AG_UI, "ag_ui_fails", "the agent said: no idea"},
        {REMOTE_A2A, "a2a_fails", "the agent said: I cannot"},
        {REMOTE_AI_SDK, "ai_sdk_fails", "the agent said: I cannot"},
        {REMOTE_RESPONSES, "responses_calls",
         "it waits for the result of a function, which only a client that has functions can give"},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        open_turn(rows[i].kind, "");
        remote.request.wanted = false;
        take_recorded(rows[i].name);
        expect_failure(rows[i].why);
        teardown(NULL);
    }
}

/* --- Responses -------------------------------------------------------------------------------- */

static void test_remote_responses_asks_for_an_approval(void **state)
{
    (void)state;
    open_turn(REMOTE_RESPONSES, "");
    expect_request(
        "http://peer/x",
        json("{'model':'m','stream':true,'input':[{'role':'user','content':'one'},"
             "{'role':'assistant','content':'two'},{'role':'user','content':'three'}]}"));
    take_data(json("{'type':'response.output_item.done','item':{'type':'mcp_approval_request',"
                   "'id':'a1','name':'rm','arguments':'{}'}}"));
    take_data(json("{'type':'response.completed','response':{'id':'r1','status':'completed'}}"));
    assert_int_equal(remote.state, REMOTE_ASKS);
    assert_non_null(strstr(said.bytes, json("'prompt':'May the agent call rm: {}','tool':'rm'")));
    answer(1, "true");
    expect_request("http://peer/x",
                   json("{'model':'m','stream':true,'previous_response_id':'r1','input':[{'type':"
                        "'mcp_approval_response','approval_request_id':'a1','approve':true}]}"));
}

static void test_remote_responses_of_a_server_that_does_not_stream(void **state)
{
    (void)state;
    open_turn(REMOTE_RESPONSES, "");
    remote.request.wanted = false;
    remote_body(&remote,
                str_of(json("{'object':'response','status':'completed','output':[{'type':'message',"
                            "'content':[{'type':'output_text','text':'Hi.'}]}],'usage':"
                            "{'input_tokens':1,'output_tokens':2}}")));
    hear();
    assert_int_equal(remote.state, REMOTE_DONE);
    assert_string_equal(text(&said), TOKEN("Hi.") USAGE("1", "2", "3")
                                         EVENT("final_answer", "\"output\":\"Hi.\""));
}

static void test_remote_responses_other_ends_are_failures(void **state)
{
    const struct {
        const char *data, *why;
    } rows[] = {
        {json("{'type':'response.incomplete','response':{'status':'incomplete',"
              "'incomplete_details':{'reason':'max_output_tokens'}}}"),
         "the answer is incomplete: max_output_tokens"},
        {json("{'type':'response.failed','response':{'status':'failed','error':{'code':'x',"
              "'message':'no luck'}}}"),
         "the agent said: no luck"},
        {json("{'type':'error','message':'slow down'}"), "the agent said: slow down"},
        {json("{'error':{'message':'no such model'}}"), "the agent said: no such model"},
        {"[DONE]", "the reply ended before its turn"},
        {"{\"a", "an event of the reply is no JSON: unexpected end at byte 3"},
        {"7", "an event of the reply is neither an object nor an array"},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        open_turn(REMOTE_RESPONSES, "");
        remote.request.wanted = false;
        take_data(rows[i].data);
        expect_failure(rows[i].why);
        teardown(NULL);
    }
}

/* --- A2A -------------------------------------------------------------------------------------- */

static void test_remote_a2a_goes_on_with_its_context_and_task(void **state)
{
    (void)state;
    open_turn(REMOTE_A2A, "ctx-1");
    expect_request(
        "http://peer/x",
        json("{'jsonrpc':'2.0','id':1,'method':'SendStreamingMessage','params':{'message':{"
             "'messageId':'t-1-1','role':'ROLE_USER','parts':[{'text':'three'}],'contextId':"
             "'ctx-1'}}}"));
    take_recorded("a2a_asks");
    assert_int_equal(remote.state, REMOTE_ASKS);
    assert_string_equal(text(&remote.session), "a88d8f53-777b-4455-ab76-e4bbec643701");
    answer(1, "\"blue\"");
    expect_request(
        "http://peer/x",
        json("{'jsonrpc':'2.0','id':2,'method':'SendStreamingMessage','params':{'message':{"
             "'messageId':'t-1-2','role':'ROLE_USER','parts':[{'text':'blue'}],'contextId':"
             "'a88d8f53-777b-4455-ab76-e4bbec643701','taskId':"
             "'446c5396-161a-47dd-84f3-7e5af270bbc1'}}}"));
    take_recorded("a2a_asks"); /* the same question again is the old one */
    assert_int_equal(remote.n_questions, 0);
    assert_true(remote_cancel(&remote));
    expect_request("http://peer/x", json("{'jsonrpc':'2.0','id':4,'method':'CancelTask','params':"
                                         "{'id':'446c5396-161a-47dd-84f3-7e5af270bbc1'}}"));
}

static void test_remote_a2a_snapshot_tells_what_is_new(void **state)
{
    (void)state;
    open_turn(REMOTE_A2A, "");
    remote.request.wanted = false;
    take_data(json("{'result':{'task':{'id':'k','contextId':'c','status':{'state':"
                   "'TASK_STATE_WORKING'}}}}"));
    take_data(json("{'result':{'artifactUpdate':{'taskId':'k','artifact':{'artifactId':'a','parts':"
                   "[{'text':'Once '}]}}}}"));
    remote_end(&remote, STR("cut"));
    assert_true(remote.request.again);
    expect_request("http://peer/x", json("{'jsonrpc':'2.0','id':2,'method':'SubscribeToTask',"
                                         "'params':{'id':'k'}}"));
    take_data(json("{'error':{'code':-32004,'message':'it has ended'}}"));
    assert_false(remote.request.again);
    expect_request("http://peer/x",
                   json("{'jsonrpc':'2.0','id':3,'method':'GetTask','params':{'id':'k'}}"));
    remote_body(&remote,
                str_of(json("{'result':{'id':'k','status':{'state':'TASK_STATE_COMPLETED'},"
                            "'artifacts':[{'artifactId':'a','parts':[{'text':'Once more.'}]},"
                            "{'artifactId':'b','parts':[{'text':'!'},{'data':{'n':1}}]}]}}")));
    hear();
    assert_int_equal(remote.state, REMOTE_DONE);
    assert_string_equal(
        text(&said),
        TOKEN("Once ") TOKEN("more.") TOKEN("!")
            EVENT("custom", "\"event_type\":\"artifact\",\"payload\":{\"data\":{\"n\":1}}")
                EVENT("final_answer", "\"output\":\"Once more.!\""));
}

static void test_remote_a2a_cut_before_its_task_is_known_fails(void **state)
{
    (void)state;
    open_turn(REMOTE_A2A, "");
    remote.request.wanted = false;
    remote_end(&remote, STR("the connection broke off"));
    expect_failure("the connection broke off");
    assert_false(remote_cancel(&remote));
}

/* --- AG-UI ------------------------------------------------------------------------------------ */

static void test_remote_ag_ui_answers_go_with_the_next_run(void **state)
{
    (void)state;
    open_turn(REMOTE_AG_UI, "");
    expect_request("http://peer/x",
                   json("{'threadId':'c-1','runId':'t-1','state':{},'tools':[],'context':[],"
                        "'forwardedProps':{},'messages':[{'id':'m1','role':'user','content':'one'},"
                        "{'id':'m2','role':'assistant','content':'two'},"
                        "{'id':'m3','role':'user','content':'three'}]}"));
    take_recorded("ag_ui_asks");
    assert_int_equal(remote.state, REMOTE_ASKS);
    answer(2, "null");
    assert_int_equal(remote.state, REMOTE_ASKS);
    answer(1, "true");
    expect_request(
        "http://peer/x",
        json("{'threadId':'c-1','runId':'t-1-2','state':{},'tools':[],'context':[],"
             "'forwardedProps':{},'messages':[{'id':'m1','role':'user','content':'one'},"
             "{'id':'m2','role':'assistant','content':'two'},"
             "{'id':'m3','role':'user','content':'three'},"
             "{'id':'a1','role':'assistant','content':'Well. '},"
             "{'id':'a2','role':'assistant','toolCalls':[{'id':'r-1','type':'function',"
             "'function':{'name':'remove','arguments':'{}'}}]}],"
             "'resume':[{'interruptId':'ask-2-0','status':'resolved','payload':{'approved':true}},"
             "{'interruptId':'ask-2-1','status':'cancelled'}]}"));
}

static void test_remote_ag_ui_snapshot_of_messages_is_the_answer(void **state)
{
    (void)state;
    open_turn(REMOTE_AG_UI, "");
    remote.request.wanted = false;
    take_data(json("{'type':'TEXT_MESSAGE_CHUNK','delta':'draft'}"));
    take_data(json("{'type':'MESSAGES_SNAPSHOT','messages':[{'id':'1','role':'user','content':'q'},"
                   "{'id':'2','role':'assistant','content':'Better.'}]}"));
    take_data(json("{'type':'RUN_FINISHED','threadId':'t','runId':'r'}"));
    assert_int_equal(remote.state, REMOTE_DONE);
    assert_string_equal(text(&said),
                        TOKEN("draft") EVENT("final_answer", "\"output\":\"Better.\""));
}

static void test_remote_ag_ui_messages_of_others_are_no_answer(void **state)
{
    (void)state;
    open_turn(REMOTE_AG_UI, "");
    remote.request.wanted = false;
    take_data(json("{'type':'TEXT_MESSAGE_START','messageId':'x','role':'user'}"));
    take_data(json("{'type':'TEXT_MESSAGE_CONTENT','messageId':'x','delta':'no'}"));
    take_data(json("{'type':'TEXT_MESSAGE_END','messageId':'x'}"));
    take_data(json("{'type':'TEXT_MESSAGE_CONTENT','messageId':'y','delta':'yes'}"));
    assert_string_equal(text(&said), TOKEN("yes"));
}

/* --- the AI SDK ------------------------------------------------------------------------------- */

static void test_remote_ai_sdk_approval_goes_back_with_the_turn(void **state)
{
    (void)state;
    open_turn(REMOTE_AI_SDK, "");
    expect_request(
        "http://peer/x",
        json(
            "{'id':'c-1','trigger':'submit-message','messages':[{'id':'m1','role':'user','parts':"
            "[{'type':'text','text':'one'}]},{'id':'m2','role':'assistant','parts':[{'type':'text'"
            ",'text':'two'}]},{'id':'m3','role':'user','parts':[{'type':'text','text':'three'}]}]}"));
    take_recorded("ai_sdk_approves");
    assert_int_equal(remote.state, REMOTE_ASKS);
    assert_non_null(strstr(said.bytes, json("'kind':'approval','prompt':'May the agent call "
                                            "remove?','tool':'remove','arguments':{'path':'/x'}")));
    answer(1, "false");
    const char *parts =
        json("{'id':'answer','role':'assistant','parts':[{'type':'step-start'},{'type':'text',"
             "'text':'Now. '},{'type':'tool-remove','toolCallId':'c1','input':{'path':'/x'},"
             "'state':'approval-responded','approval':{'id':'aitxt-A7ySC0Qnojfpxo8BcFMex6LZ',"
             "'approved':false,'signature':'rsZdCHSZUXqqLg_ZPdpG5Q8JrzHFobOYAvMx4L2HK0s'}}]}]}");
    assert_true(remote.request.wanted);
    assert_non_null(strstr(text(&remote.request.body), parts));
}

/* --- LangGraph -------------------------------------------------------------------------------- */

#define LANGGRAPH_OPTIONS                                                          \
    "'stream_mode':['messages-tuple','updates','custom'],'stream_resumable':true," \
    "'on_disconnect':'continue','multitask_strategy':'enqueue'"

static void test_remote_langgraph_makes_a_thread_and_runs(void **state)
{
    (void)state;
    open_turn(REMOTE_LANGGRAPH, "");
    expect_request("http://peer/x/threads", json("{'metadata':{'conversation_id':'c-1'}}"));
    remote_body(&remote, str_of(json("{'thread_id':'t1'}")));
    assert_true(remote.new_session);
    expect_request("http://peer/x/threads/t1/runs/stream",
                   json("{'assistant_id':'m'," LANGGRAPH_OPTIONS ",'input':{'messages':["
                        "{'role':'user','content':'one'},{'role':'assistant','content':'two'},"
                        "{'role':'user','content':'three'}]}}"));
    take_recorded("langgraph_calls");
    assert_int_equal(remote.state, REMOTE_DONE);
    assert_string_equal(
        text(&said),
        TOKEN("Hello ") TOKEN("there, ") TOKEN("my ") TOKEN("friend. ")
            EVENT("tool_call", "\"call_id\":\"call_1\",\"name\":\"clock\",\"arguments\":{}")
                EVENT("tool_result", "\"call_id\":\"call_1\",\"name\":\"clock\",\"output\":"
                                     "\"12:00\",\"is_error\":false")
                    EVENT("final_answer", "\"output\":\"Hello there, my friend. \""));
}

static void test_remote_langgraph_thread_that_is_gone_is_made_anew(void **state)
{
    (void)state;
    open_turn(REMOTE_LANGGRAPH, "old");
    expect_request("http://peer/x/threads/old/runs/stream",
                   json("{'assistant_id':'m'," LANGGRAPH_OPTIONS
                        ",'input':{'messages':[{'role':'user','content':'three'}]}}"));
    remote_refused(&remote, 404, STR("HTTP 404"));
    expect_request("http://peer/x/threads", json("{'metadata':{'conversation_id':'c-1'}}"));
    remote_refused(&remote, 404, STR("HTTP 404"));
    expect_failure("HTTP 404");
}

static void test_remote_langgraph_joins_after_a_cut(void **state)
{
    (void)state;
    open_turn(REMOTE_LANGGRAPH, "t1");
    remote.request.wanted = false;
    take("event: metadata\ndata: {\"run_id\":\"r1\"}\nid: 0\n\n");
    take("event: messages\ndata: [{\"type\":\"ai\",\"content\":\"Hel\"}]\nid: 1\n\n");
    remote_end(&remote, STR("cut"));
    assert_true(remote.request.again);
    assert_string_equal(text(&remote.request.last_id), "1");
    expect_request("http://peer/x/threads/t1/runs/r1/stream", "");
    take("event: messages\ndata: [{\"type\":\"ai\",\"content\":\"lo\"}]\nid: 2\n\n");
    remote_end(&remote, STR_NULL);
    expect_request("http://peer/x/threads/t1/runs/r1/join", "");
    remote_body(&remote, str_of(json("{'messages':[{'type':'human','content':'three'},"
                                     "{'type':'ai','content':'Hello.'}]}")));
    remote_end(&remote, STR_NULL);
    hear();
    assert_int_equal(remote.state, REMOTE_DONE);
    assert_string_equal(text(&said),
                        TOKEN("Hel") TOKEN("lo") EVENT("final_answer", "\"output\":\"Hello.\""));
}

static void test_remote_langgraph_interrupts_are_questions(void **state)
{
    (void)state;
    open_turn(REMOTE_LANGGRAPH, "t1");
    remote.request.wanted = false;
    take_recorded("langgraph_asks");
    assert_int_equal(remote.state, REMOTE_ASKS);
    assert_non_null(strstr(said.bytes, json("'kind':'question','prompt':'Which colour?'")));
    answer(1, "\"blue\"");
    expect_request("http://peer/x/threads/t1/runs/stream",
                   json("{'assistant_id':'m'," LANGGRAPH_OPTIONS ",'command':{'resume':'blue'}}"));
    take_recorded("langgraph_approves");
    assert_non_null(strstr(said.bytes, json("'kind':'approval','prompt':'remove it','tool':'rm',"
                                            "'arguments':{'path':'/x'}")));
    answer(2, "false");
    expect_request("http://peer/x/threads/t1/runs/stream",
                   json("{'assistant_id':'m'," LANGGRAPH_OPTIONS
                        ",'command':{'resume':{'decisions':[{'type':'reject'}]}}}"));
    take_recorded("langgraph_answered");
    assert_int_equal(remote.state, REMOTE_DONE);
    assert_non_null(
        strstr(said.bytes, EVENT("final_answer", "\"output\":\"You like \\\"blue\\\"\"")));
}

static void test_remote_langgraph_tells_a_message_once(void **state)
{
    (void)state;
    open_turn(REMOTE_LANGGRAPH, "t1");
    remote.request.wanted = false;
    const char *update =
        "event: updates\ndata: {\"a\":[null,{\"messages\":[{\"id\":\"1\",\"type\":\"ai\",\"content\":"
        "\"\",\"tool_calls\":[{\"id\":\"c\",\"name\":\"look\",\"args\":{}}],\"usage_metadata\":{"
        "\"input_tokens\":1,\"output_tokens\":2}},{\"id\":\"2\",\"type\":\"tool\",\"tool_call_id\":\"c\","
        "\"content\":\"x\"}]}],\"b\":{\"n\":1},\"d\":null}\n\n";
    take("event: metadata\ndata: {\"run_id\":\"r1\"}\n\n");
    take(update);
    take(update);
    remote_end(&remote, STR_NULL);
    hear();
    assert_string_equal(
        text(&said),
        EVENT("tool_call", "\"call_id\":\"c\",\"name\":\"look\",\"arguments\":{}")
            EVENT("tool_result",
                  "\"call_id\":\"c\",\"name\":\"look\",\"output\":\"x\",\"is_error\":false")
                EVENT("custom", "\"event_type\":\"b\",\"payload\":{\"n\":1}")
                    EVENT("custom", "\"event_type\":\"b\",\"payload\":{\"n\":1}")
                        USAGE("1", "2", "3"));
}

static void test_remote_answer_may_come_before_the_reply_has_ended(void **state)
{
    (void)state;
    open_turn(REMOTE_LANGGRAPH, "t1");
    remote.request.wanted = false;
    take("event: metadata\ndata: {\"run_id\":\"r1\"}\n\n");
    take("event: updates\ndata: {\"__interrupt__\":[{\"id\":\"i\",\"value\":\"Which?\"}]}\n\n");
    answer(1, "\"blue\"");
    assert_false(remote.request.wanted);
    remote_end(&remote, STR_NULL);
    expect_request("http://peer/x/threads/t1/runs/stream",
                   json("{'assistant_id':'m'," LANGGRAPH_OPTIONS ",'command':{'resume':'blue'}}"));
}

static void test_remote_langgraph_failure_and_cancel(void **state)
{
    (void)state;
    open_turn(REMOTE_LANGGRAPH, "t1");
    remote.request.wanted = false;
    assert_false(remote_cancel(&remote)); /* no run is known yet */
    take("event: metadata\ndata: {\"run_id\":\"r1\"}\n\n");
    assert_true(remote_cancel(&remote));
    expect_request("http://peer/x/threads/t1/runs/r1/cancel", "{}");
    remote.step = 0;
    take_recorded("langgraph_fails");
    expect_failure("the agent said: the graph broke");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_remote_recorded_turns_become_lines),
        TEST(test_remote_recorded_failures_are_told),
        TEST(test_remote_responses_asks_for_an_approval),
        TEST(test_remote_responses_of_a_server_that_does_not_stream),
        TEST(test_remote_responses_other_ends_are_failures),
        TEST(test_remote_a2a_goes_on_with_its_context_and_task),
        TEST(test_remote_a2a_snapshot_tells_what_is_new),
        TEST(test_remote_a2a_cut_before_its_task_is_known_fails),
        TEST(test_remote_ag_ui_answers_go_with_the_next_run),
        TEST(test_remote_ag_ui_snapshot_of_messages_is_the_answer),
        TEST(test_remote_ag_ui_messages_of_others_are_no_answer),
        TEST(test_remote_ai_sdk_approval_goes_back_with_the_turn),
        TEST(test_remote_langgraph_makes_a_thread_and_runs),
        TEST(test_remote_langgraph_thread_that_is_gone_is_made_anew),
        TEST(test_remote_langgraph_joins_after_a_cut),
        TEST(test_remote_langgraph_interrupts_are_questions),
        TEST(test_remote_langgraph_tells_a_message_once),
        TEST(test_remote_answer_may_come_before_the_reply_has_ended),
        TEST(test_remote_langgraph_failure_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
