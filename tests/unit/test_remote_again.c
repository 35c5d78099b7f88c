/* Turns of servers that go on after a restart of the gateway: what was noted, and the next
 * request. */
#include <stdio.h>

#include "proto/forms/remote_again.h"
#include "tests/support/t.h"

static struct remote remote;
static struct sse_reader reader;
static struct remote_past past;
static struct buf note;
static uint64_t seq;

static int teardown(void **state)
{
    (void)state;
    remote_done(&remote);
    remote = (struct remote){0};
    sse_reader_done(&reader);
    remote_past_done(&past);
    past = (struct remote_past){0};
    buf_done(&note);
    seq = 0;
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static const char *text(const struct buf *b)
{
    return b->len ? b->bytes : "";
}

static struct remote_turn turn(const char *session)
{
    return (struct remote_turn){STR("http://peer/x"), STR("m"), STR("c-1"),       STR("t-1"),
                                STR("three"),         STR(""),  STR("all of it"), str_of(session)};
}

/* A turn whose first request was sent. */
static void begin(enum remote_kind kind, const char *session)
{
    struct remote_turn t = turn(session);
    remote_begin(&remote, kind, &t);
    remote.request.wanted = false;
}

static void take(const char *stream)
{
    struct str in = str_of(stream);
    struct sse_event e;
    while (sse_reader_next(&reader, &in, &e) == SSE_EVENT)
        remote_event(&remote, &e);
}

static void take_recorded(const char *name)
{
    char path[512];
    static char all[65536];
    snprintf(path, sizeof path, "%s/forms/%s.sse", TESTS_FOLDER, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    fclose(file);
    take(all);
    remote_end(&remote, STR_NULL);
}

/* The gateway is killed: what it knew is gone but for the note. */
static void kill_now(bool is_noted)
{
    assert_int_equal(remote_is_notable(&remote), is_noted);
    if (is_noted)
        remote_put_note(&remote, &note);
    remote_done(&remote);
    remote = (struct remote){0};
    sse_reader_done(&reader);
    if (is_noted)
        assert_true(remote_past_note(&past, buf_str(&note)));
}

/* An event of the task, and whether the text up to it stays. */
static void happened(enum remote_kind kind, enum event_type event, const char *data, bool stays)
{
    struct event_parts e = {.seq = ++seq, .event = event, .data = str_of(t_json(data))};
    assert_int_equal(remote_past_event(&past, kind, &e), stays);
}

static void start_again(enum remote_kind kind, const char *session)
{
    struct remote_turn t = turn(session);
    remote_begin_again(&remote, kind, &t, &past);
    assert_int_equal(remote.request.may_repeat, remote.request.wanted);
}

static void expect_request(const char *url, const char *body)
{
    assert_true(remote.request.wanted);
    remote.request.wanted = false;
    assert_false(remote.request.again);
    assert_string_equal(text(&remote.request.url), url);
    if (*body)
        assert_non_null(strstr(text(&remote.request.body), t_json(body)));
    assert_int_equal(remote.request.is_get, *body == 0);
}

static void test_remote_again_langgraph_goes_on_behind_the_last_event(void **state)
{
    (void)state;
    begin(REMOTE_LANGGRAPH, "t1");
    take("event: metadata\ndata: {\"run_id\":\"r1\"}\nid: 0\n\n");
    take("event: updates\nid: 1\ndata: {\"agent\":{\"messages\":[{\"type\":\"ai\",\"id\":\"m1\","
         "\"content\":\"\",\"tool_calls\":[{\"id\":\"c1\",\"name\":\"look\",\"args\":{}}],"
         "\"usage_metadata\":{\"input_tokens\":3,\"output_tokens\":4}}]}}\n\n");
    kill_now(true);
    happened(REMOTE_LANGGRAPH, EVENT_TOOL_CALL, "{'call_id':'c1','name':'look'}", true);
    happened(REMOTE_LANGGRAPH, EVENT_TOKEN, "{'text':'Hel'}", true);
    start_again(REMOTE_LANGGRAPH, "");
    assert_string_equal(text(&remote.request.last_id), "1");
    expect_request("http://peer/x/threads/t1/runs/r1/stream", "");
    take("event: updates\nid: 2\ndata: {\"agent\":{\"messages\":[{\"type\":\"ai\",\"id\":\"m1\"}]},"
         "\"tools\":{\"messages\":[{\"type\":\"tool\",\"id\":\"m2\",\"tool_call_id\":\"c1\","
         "\"content\":\"seen\"}]}}\n\n");
    assert_string_equal(text(&remote.said),
                        "{\"event\":\"tool_result\",\"data\":{\"call_id\":\"c1\","
                        "\"name\":\"look\",\"output\":\"seen\","
                        "\"is_error\":false}}\n");
    assert_int_equal(remote.tokens_in, 3);
    remote_end(&remote, STR_NULL);
    expect_request("http://peer/x/threads/t1/runs/r1/join", "");
}

static void test_remote_again_langgraph_that_knows_no_such_run_begins_anew(void **state)
{
    (void)state;
    begin(REMOTE_LANGGRAPH, "t1");
    take("event: metadata\ndata: {\"run_id\":\"r1\"}\nid: 0\n\n");
    kill_now(true);
    start_again(REMOTE_LANGGRAPH, "t1");
    expect_request("http://peer/x/threads/t1/runs/r1/stream", "");
    remote_refused(&remote, 404, STR("HTTP 404"));
    assert_true(remote.anew);
    assert_int_equal(remote.request.last_id.len, 0);
    expect_request("http://peer/x/threads/t1/runs/stream", "'content':'three'");
    remote_refused(&remote, 404, STR("HTTP 404")); /* nor the thread */
    expect_request("http://peer/x/threads", "'conversation_id':'c-1'");
}

static void test_remote_again_a2a_tells_its_task_from_the_beginning(void **state)
{
    (void)state;
    begin(REMOTE_A2A, "");
    take("data: {\"result\":{\"task\":{\"id\":\"k\",\"contextId\":\"ctx\",\"status\":{\"state\":"
         "\"TASK_STATE_WORKING\"}}}}\n\n");
    take("data: {\"result\":{\"artifactUpdate\":{\"taskId\":\"k\",\"artifact\":{\"artifactId\":"
         "\"a\",\"parts\":[{\"text\":\"Once \"}]}}}}\n\n");
    kill_now(true);
    happened(REMOTE_A2A, EVENT_TOKEN, "{'text':'Once '}", false);
    start_again(REMOTE_A2A, "");
    expect_request("http://peer/x", "'method':'GetTask','params':{'id':'k'}");
    remote_body(&remote, str_of(json("{'result':{'id':'k','status':{'state':'TASK_STATE_WORKING'},"
                                     "'artifacts':[{'artifactId':'a','parts':[{'text':'Once m'}]}"
                                     "]}}")));
    assert_string_equal(text(&remote.said),
                        "{\"event\":\"token\",\"data\":{\"text\":\"Once m\"}}\n");
    remote_end(&remote, STR_NULL);
    assert_non_null(strstr(text(&remote.request.body), json("'method':'SubscribeToTask'")));
    remote.request.wanted = false; /* some name the event that has an error */
    take("event: error\ndata: {\"error\":{\"code\":-32004,\"message\":\"it has ended\"}}\n\n");
    assert_non_null(strstr(text(&remote.request.body), json("'method':'GetTask'")));
    assert_string_equal(text(&remote.session), "ctx");
}

static void test_remote_again_a2a_that_knows_no_such_task_begins_anew(void **state)
{
    (void)state;
    begin(REMOTE_A2A, "ctx");
    take("data: {\"result\":{\"task\":{\"id\":\"k\",\"contextId\":\"ctx\",\"status\":{\"state\":"
         "\"TASK_STATE_WORKING\"}}}}\n\n");
    kill_now(true);
    start_again(REMOTE_A2A, "ctx");
    expect_request("http://peer/x", "'method':'GetTask'");
    remote_body(&remote, str_of(json("{'error':{'code':-32001,'message':'no such task'}}")));
    assert_int_equal(remote.state, REMOTE_WORKS);
    expect_request("http://peer/x", "'parts':[{'text':'three'}]");
    assert_null(strstr(text(&remote.request.body), "taskId"));
}

static void test_remote_again_an_open_question_waits_on(void **state)
{
    (void)state;
    begin(REMOTE_A2A, "");
    take_recorded("a2a_asks");
    kill_now(true);
    happened(REMOTE_A2A, EVENT_TOKEN, "{'text':'Well. '}", true);
    happened(REMOTE_A2A, EVENT_INPUT_REQUIRED, "{'input_id':'ask-1'}", true);
    start_again(REMOTE_A2A, "");
    assert_int_equal(remote.state, REMOTE_ASKS);
    assert_false(remote.request.wanted);
    remote_answer(&remote, str_of(json("{'type':'input','input_id':'ask-1','answer':'blue'}")));
    expect_request("http://peer/x", "'messageId':'t-1-2','role':'ROLE_USER','parts':[{'text':'blue'"
                                    "}],'contextId':'a88d8f53-777b-4455-ab76-e4bbec643701',"
                                    "'taskId':'446c5396-161a-47dd-84f3-7e5af270bbc1'");
    take("data: {\"result\":{\"artifactUpdate\":{\"artifact\":{\"artifactId\":\"answer\",\"parts\":"
         "[{\"text\":\"Well. Blue.\"}]}}}}\n\n");
    assert_string_equal(text(&remote.said),
                        "{\"event\":\"token\",\"data\":{\"text\":\"Blue.\"}}\n");
}

static void test_remote_again_answers_that_were_given_are_posted_again(void **state)
{
    (void)state;
    begin(REMOTE_AI_SDK, "");
    take_recorded("ai_sdk_approves");
    kill_now(true);
    happened(REMOTE_AI_SDK, EVENT_TOKEN, "{'text':'Now. '}", true);
    happened(REMOTE_AI_SDK, EVENT_INPUT_REQUIRED, "{'input_id':'ask-1','kind':'approval'}", true);
    happened(REMOTE_AI_SDK, EVENT_INPUT_RECEIVED, "{'input_id':'ask-1','answer':false}", true);
    happened(REMOTE_AI_SDK, EVENT_TOKEN, "{'text':'I will no'}", false);
    start_again(REMOTE_AI_SDK, "");
    assert_int_equal(remote.state, REMOTE_WORKS);
    expect_request("http://peer/x", "'state':'approval-responded','approval':{'id':"
                                    "'aitxt-A7ySC0Qnojfpxo8BcFMex6LZ','approved':false");
}

static void test_remote_again_without_a_note_the_turn_is_posted_anew(void **state)
{
    unsigned moot[REMOTE_QUESTIONS];
    (void)state;
    begin(REMOTE_RESPONSES, "");
    take("data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hel\"}\n\n");
    kill_now(false);
    happened(REMOTE_RESPONSES, EVENT_TOKEN, "{'text':'Hel'}", false);
    happened(REMOTE_RESPONSES, EVENT_INPUT_REQUIRED, "{'input_id':'ask-3'}", false);
    assert_int_equal(remote_past_moot(&past, moot), 1); /* its reply had not ended */
    assert_int_equal(moot[0], 3);
    start_again(REMOTE_RESPONSES, "");
    expect_request("http://peer/x", "'content':'three'");
    remote_ask_text(&remote, STR("again?"), STR(""));
    assert_non_null(strstr(text(&remote.said), json("'input_id':'ask-4'")));
}

static void test_remote_again_notes_that_are_none_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "{",
        "{'questions':{}}",
        "{'questions':[[1]]}",
        "{'questions':[['1','x']]}",
        "{'questions':[[-1,'x']]}",
        "{'questions':[[1,2]]}",
    };
    (void)state;
    for (size_t i = 0; i < countof(wrong); i++)
        assert_false(remote_past_note(&past, str_of(t_json(wrong[i]))));
    assert_true(remote_past_note(&past, STR("{}")));
    start_again(REMOTE_A2A, "");
    expect_request("http://peer/x", "'method':'SendStreamingMessage'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_remote_again_langgraph_goes_on_behind_the_last_event),
        TEST(test_remote_again_langgraph_that_knows_no_such_run_begins_anew),
        TEST(test_remote_again_a2a_tells_its_task_from_the_beginning),
        TEST(test_remote_again_a2a_that_knows_no_such_task_begins_anew),
        TEST(test_remote_again_an_open_question_waits_on),
        TEST(test_remote_again_answers_that_were_given_are_posted_again),
        TEST(test_remote_again_without_a_note_the_turn_is_posted_anew),
        TEST(test_remote_again_notes_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
