#define FACE_TEARDOWN teardown
#include "tests/support/face_kit.h"

#include "proto/faces/openai.h"

/* Requests are what openai@7.59.0 posts, as a stand-in server has recorded it.  The right chunks
 * are those of OpenAI's reference, worked out by hand from the mapping in docs/faces.md. */

#define HEAD "{'id':'chatcmpl-" TID "','object':'chat.completion.chunk','created':7,'model':'a',"
#define CHUNK(delta) HEAD "'choices':[{'index':0,'delta':{" delta "},'finish_reason':null}]}\n"
#define FIRST                                                               \
    HEAD "'choices':[{'index':0,'delta':{'role':'assistant','content':''}," \
         "'finish_reason':null}],'holdfast':{'conversation_id':'c','task_id':'" TID "'}}\n"
#define LAST HEAD "'choices':[{'index':0,'delta':{},'finish_reason':'stop'}]}\n"

static struct openai_request request;
static struct openai_fault fault;

static int teardown(void **state)
{
    openai_request_done(&request);
    return face_teardown(state);
}

static void expect(const char *text)
{
    assert_int_equal(got.len, strlen(text));
    assert_true(got.len == 0 || memcmp(got.bytes, text, got.len) == 0);
}

static void begin(bool is_whole, bool wants_usage)
{
    const struct openai_options options = {is_whole, wants_usage};
    face_stream_free(stream);
    buf_clear(&got);
    stream = openai_ops.make(&(struct face_task){.task_id = STR(TID),
                                                 .conversation_id = STR("c"),
                                                 .agent = STR("a"),
                                                 .created_at = 7999,
                                                 .request = &options});
}

#define USED                                                                    \
    "{'output':'x','result':{'usage':{'prompt_tokens':1,'completion_tokens':2," \
    "'total_tokens':3}}}"
#define USAGE "'usage':{'prompt_tokens':1,'completion_tokens':2,'total_tokens':3}"

static void test_answer_in_pieces_is_deltas(void **state)
{
    (void)state;
    begin(false, true);
    tell_next(EVENT_TASK_CREATED, json("{'agent':'a','input':'hi'}"));
    tell_next(EVENT_TASK_STARTED, "{}");
    tell_next(EVENT_THINKING, json("{'text':'hm'}"));
    tell_next(EVENT_TOKEN, json("{'text':'Hel'}"));
    tell_next(EVENT_TOKEN, json("{'text':'l\\u00f6\\n'}"));
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'Hell\xc3\xb6\\n'}"));
    tell_next(EVENT_TASK_COMPLETED, json(USED));
    assert_text(buf_str(&got),
                json(FIRST CHUNK("'reasoning_content':'hm'") CHUNK("'content':'Hel'")
                         CHUNK("'content':'l\xc3\xb6\\n'") LAST HEAD "'choices':[]," USAGE "}\n"));
    assert_true(stream->is_over);
    assert_false(stream->breaks);
    begin(false, false);
    tell_next(EVENT_TASK_COMPLETED, json(USED)); /* its beginning may be gone */
    assert_null(strstr(got.bytes, "usage"));
}

static void test_tools_of_the_gateway_are_not_the_clients_to_run(void **state)
{
    (void)state;
    begin(false, false);
    tell_next(EVENT_TASK_CREATED, "{}");
    tell_next(EVENT_TOOL_CALL, json("{'call_id':'c1','name':'clock','arguments':{'zone':'UTC'}}"));
    assert_text(buf_str(&got),
                json(FIRST HEAD "'choices':[{'index':0,'delta':{},'finish_reason':null}],"
                                "'holdfast':{'event':'tool_call','data':{'call_id':'c1',"
                                "'name':'clock','arguments':{'zone':'UTC'}}}}\n"));
}

/* Sent text cannot be taken back: see docs/faces.md. */
static void test_final_answer_after_what_was_said(void **state)
{
    (void)state;
    const struct {
        const char *token, *final, *deltas;
    } table[] = {
        {NULL, json("{'output':'42'}"), json(CHUNK("'content':'42'"))},
        {json("{'text':'42'}"), json("{'output':'42'}"), ""},
        {json("{'text':'so: 42'}"), json("{'output':'42'}"), ""},
        {json("{'text':'42'}"), json("{'output':'42!'}"), json(CHUNK("'content':'!'"))},
        {json("{'text':'41'}"), json("{'output':'42'}"),
         json(CHUNK("'content':'\\n\\n'") CHUNK("'content':'42'"))},
        {json("{'text':'42'}"), json("{'output':''}"), ""},
        {json("{'text':'42'}"), json("{'output':7}"), ""},
    };
    for (size_t i = 0; i < countof(table); i++) {
        begin(false, false);
        tell_next(EVENT_TASK_CREATED, "{}");
        if (table[i].token)
            tell_next(EVENT_TOKEN, table[i].token);
        buf_clear(&got);
        tell_next(EVENT_FINAL_ANSWER, table[i].final);
        expect(table[i].deltas);
    }
}

/* PROTOCOL.md 3: an output of more than 256 KiB is cut, and the events have it all. */
static void test_long_answer_is_not_said_twice(void **state)
{
    (void)state;
    struct buf token = {0}, final = {0};
    buf_puts(&token, json("{'text':'"));
    buf_puts(&final, json("{'output':'"));
    for (size_t i = 0; i < 262144; i++)
        buf_putc(&final, (char)('a' + i % 26));
    for (size_t i = 0; i < 262150; i++)
        buf_putc(&token, (char)('a' + i % 26));
    buf_put(&token, json("'}\0"), 3);
    buf_put(&final, json("'}\0"), 3);
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        begin(is_whole, false);
        tell_next(EVENT_TOKEN, token.bytes);
        buf_clear(&got);
        tell_next(EVENT_FINAL_ANSWER, final.bytes);
        assert_int_equal(got.len, 0);
        tell_next(EVENT_TASK_COMPLETED, "{}");
        assert_true(is_whole ? got.len > 262150 : got.len < 1000);
    }
    begin(false, false); /* of a longer one only the end is kept, and that is enough */
    for (size_t i = 0; i < 5; i++)
        tell_next(EVENT_TOKEN, token.bytes);
    tell_next(EVENT_TOKEN, json("{'text':'the end'}"));
    buf_clear(&got);
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'the end'}"));
    assert_int_equal(got.len, 0);
    tell_next(EVENT_FINAL_ANSWER, final.bytes); /* the beginning, as the gateway cuts it */
    assert_int_equal(got.len, 0);
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'another'}"));
    expect(json(CHUNK("'content':'\\n\\n'") CHUNK("'content':'another'")));
    buf_done(&token);
    buf_done(&final);
}

static void test_whole_answer_is_one_object(void **state)
{
    (void)state;
    begin(true, false);
    tell_next(EVENT_TASK_CREATED, "{}");
    tell_next(EVENT_THINKING, json("{'text':'hm'}"));
    tell_next(EVENT_TOKEN, json("{'text':'draft'}"));
    tell_next(EVENT_PROGRESS, json("{'progress':0.5}"));
    tell_next(EVENT_FINAL_ANSWER, json("{'output':'42'}"));
    tell_next(EVENT_TASK_COMPLETED, json(USED));
    assert_text(buf_str(&got),
                json("{'id':'chatcmpl-" TID "','object':'chat.completion','created':7,"
                     "'model':'a','choices':[{'index':0,'message':{'role':'assistant',"
                     "'content':'42','refusal':null,'reasoning_content':'hm'},"
                     "'logprobs':null,'finish_reason':'stop'}]," USAGE ","
                     "'holdfast':{'conversation_id':'c','task_id':'" TID "'}}\n"));
    assert_int_equal(stream->status, 0);
}

static void test_failure_breaks_the_stream_and_has_a_status(void **state)
{
    (void)state;
    const struct {
        const char *error, *code, *type;
        int status;
    } table[] = {
        {json("'code':'agent_error','message':'why'"), "agent_error", "server_error", 500},
        {json("'code':'timeout','message':'why'"), "timeout", "server_error", 504},
        {json("'code':'orphaned','message':'why'"), "orphaned", "server_error", 500},
        {json("'code':'overloaded','message':'why'"), "overloaded", "server_error", 503},
        {json("'code':'cancelled','message':'why'"), "cancelled", "invalid_request_error", 409},
        {json("'code':'agent_error','message':'why','reason':'model_busy'"), "model_busy",
         "rate_limit_error", 429},
        {json("'code':'agent_error','message':'why','reason':'context_too_long'"),
         "context_length_exceeded", "invalid_request_error", 400},
    };
    for (size_t i = 0; i < countof(table); i++) {
        char data[256], expected[256];
        begin(i % 2, false);
        snprintf(data, sizeof data, json("{'status':'failed','error':{%s}}"), table[i].error);
        snprintf(expected, sizeof expected,
                 json("{'error':{'message':'why','type':'%s','param':null,'code':'%s'}}\n"),
                 table[i].type, table[i].code);
        tell_next(EVENT_TASK_FAILED, data);
        expect(expected);
        assert_true(stream->is_over && stream->breaks);
        assert_int_equal(stream->status, table[i].status);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

static const char recorded[] =
    "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"temperature\":0.2,"
    "\"metadata\":{\"k\":\"v\"},\"messages\":[{\"role\":\"developer\",\"content\":\"be short\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"text\","
    "\"text\":\"m\xc3\xb6re\"}]},{\"role\":\"assistant\",\"content\":\"two\"},"
    "{\"role\":\"user\",\"content\":\"three\"}]}";
#define AGENTS "[{'name':'a','description':'','default':true},{'name':'b'}]"

static enum face_next ask(int operation, const char *body, const char *key)
{
    exchange_done(&x);
    x = (struct face_exchange){.ops = &openai_http_ops};
    const struct face_input in = {.operation = operation,
                                  .conversation = str_of(key),
                                  .body = str_of(body),
                                  .idempotency_key = str_of(key),
                                  .agents = str_of(json(AGENTS)),
                                  .doc = &doc};
    return openai_http_ops.begin(&x, &in);
}

static void test_request_of_the_stock_client_is_a_chat(void **state)
{
    (void)state;
    assert_int_equal(ask(OPENAI_CHAT, recorded, "k-1"), FACE_FOLLOW);
    assert_int_equal(x.ask.verb, VERB_CHAT);
    assert_text(buf_str(&x.ask.body),
                json("{'message':'three','context':[{'role':'developer','content':'be short'},"
                     "{'role':'user','content':'one\\nm\xc3\xb6re'},"
                     "{'role':'assistant','content':'two'}],'agent':'a','request_key':'k-1',"
                     "'metadata':{'k':'v'},'unlisted':true}"));
    assert_false(x.is_whole);
    assert_int_equal(ask(OPENAI_CHAT, json("{'messages':[{'role':'user','content':'hi'}]}"), NULL),
                     FACE_FOLLOW);
    assert_text(buf_str(&x.ask.body), json("{'message':'hi','context':[],'unlisted':true}"));
    assert_true(x.is_whole);
    assert_int_equal(ask(OPENAI_CHAT,
                         json("{'conversation':'c-1','tools':[],'n':1,'messages':[{'role':"
                              "'user','content':'hi'},{'role':'system','content':'s'}]}"),
                         NULL),
                     FACE_FOLLOW);
    assert_text(buf_str(&x.ask.body),
                json("{'message':'hi','context':[{'role':'system','content':'s'}],"
                     "'unlisted':false}"));
    assert_text(buf_str(&x.ask.conversation_id), "c-1");
}

static void test_agents_are_the_models(void **state)
{
    (void)state;
#define MODEL(name) "{'id':'" name "','object':'model','created':0,'owned_by':'holdfast'}"
    assert_int_equal(ask(OPENAI_MODELS, "", NULL), FACE_REPLY);
    assert_text(buf_str(&x.reply),
                json("{'object':'list','data':[" MODEL("a") "," MODEL("b") "]}"));
    assert_int_equal(ask(OPENAI_MODEL, "", "b"), FACE_REPLY);
    assert_text(buf_str(&x.reply), json(MODEL("b")));
    assert_int_equal(x.status, 200);
    assert_int_equal(ask(OPENAI_MODEL, "", "c"), FACE_REPLY);
    assert_int_equal(x.status, 404);
    assert_int_equal(
        ask(OPENAI_CHAT, json("{'model':'c','messages':[{'role':'user','content':'hi'}]}"), NULL),
        FACE_REPLY);
    assert_text(buf_str(&x.reply),
                json("{'error':{'message':'no agent has the name of this model','type':"
                     "'invalid_request_error','param':'model','code':'model_not_found'}}"));
    assert_int_equal(x.status, 404);
}

static void test_fault_names_the_member(void **state)
{
    (void)state;
#define HI "'messages':[{'role':'user','content':'hi'}]"
#define SAYS(messages) "{'messages':[" messages "]}"
    const struct {
        const char *body, *code, *param;
    } table[] = {
        {"", "invalid_json", ""},
        {"[]", "invalid_json", ""},
        {"{}", "missing_required_parameter", "messages"},
        {json("{'messages':{}}"), "missing_required_parameter", "messages"},
        {json(SAYS("7")), "invalid_value", "messages"},
        {json(SAYS("{'role':'system','content':'x'}")), "invalid_value", "messages"},
        {json(SAYS("{'role':'tool','content':'x'},{'role':'user','content':'hi'}")),
         "invalid_value", "messages[0]"},
        {json(SAYS("{'role':'user','content':'hi'},{'role':'tool','content':'x'}")),
         "invalid_value", "messages"},
        {json(SAYS("{'role':'user','content':''}")), "invalid_value", "messages[0]"},
        {json(SAYS("{'role':'user','content':7}")), "invalid_type", "messages[0].content"},
        {json(SAYS("{'role':'user'}")), "invalid_type", "messages[0].content"},
        {json(SAYS("{'role':'user','content':[{'type':'text'}]}")), "invalid_type",
         "messages[0].content"},
        {json(SAYS("{'role':'user','content':[7]}")), "unsupported_content", "messages[0].content"},
        {json("{'stream':1," HI "}"), "invalid_type", "stream"},
        {json("{'model':7," HI "}"), "invalid_type", "model"},
        {json("{'n':1.5," HI "}"), "unsupported_parameter", "n"},
        {json("{'logprobs':true," HI "}"), "unsupported_parameter", "logprobs"},
        {json("{'tools':[{}]," HI "}"), "unsupported_parameter", "tools"},
    };
    for (size_t i = 0; i < countof(table); i++) {
        openai_request_done(&request);
        assert_false(openai_read(&doc, str_of(table[i].body), &request, &fault));
        assert_string_equal(fault.code, table[i].code);
        assert_string_equal(fault.param, table[i].param);
        assert_int_equal(fault.status, 400);
        assert_true(strlen(fault.message) > 10);
    }
    openai_request_done(&request);
    assert_true(openai_read(&doc, str_of(json("{'tools':[{}],'tool_choice':'none'," HI "}")),
                            &request, &fault));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answer_in_pieces_is_deltas),
        TEST(test_tools_of_the_gateway_are_not_the_clients_to_run),
        TEST(test_final_answer_after_what_was_said),
        TEST(test_long_answer_is_not_said_twice),
        TEST(test_whole_answer_is_one_object),
        TEST(test_failure_breaks_the_stream_and_has_a_status),
        TEST(test_request_of_the_stock_client_is_a_chat),
        TEST(test_agents_are_the_models),
        TEST(test_fault_names_the_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
