/* A strict client: what it says is known, or refused by its name. */
#include "proto/request.h"
#include "tests/support/t.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"

static struct js_doc doc;
static struct request request;
static struct request_fault fault;

static bool decode(const char *line, bool strict)
{
    request_done(&request);
    return request_decode(&doc, str_of(line), strict, &request, &fault);
}

static void test_request_strict_names_an_unknown_member(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum error code;
        const char *message;
    } rows[] = {
        {"{'type':'chat','message':'m','attachments':[]}", ERR_BAD_REQUEST,
         "\"attachments\" is unknown here"},
        {"{'type':'ping','\\u0061':1}", ERR_BAD_REQUEST, "\"a\" is unknown here"},
        {"{'type':'close','conversation_id':'c','task_id':'t'}", ERR_BAD_REQUEST,
         "\"task_id\" is unknown here"},
        /* not_found means that everything else was right */
        {"{'type':'task','x':1}", ERR_BAD_REQUEST, "\"x\" is unknown here"},
        {"{'type':'task'}", ERR_NOT_FOUND, NO_SUCH_TASK},
    };
    assert_true(decode(json("{'type':'chat','message':'m','attachments':[]}"), false));
    assert_false(request.strict);
    for (size_t i = 0; i < countof(rows); i++) {
        assert_false(decode(t_json(rows[i].line), true));
        assert_int_equal(fault.code, rows[i].code);
        assert_string_equal(fault.message, rows[i].message);
        assert_null(request.memory);
    }
    assert_true(decode(json("{'type':'resume','id':'1','task_id':'" TID
                            "','conversation_id':'c-1','after':3,'coalesce':true}"),
                       true));
    assert_true(decode(json("{'type':'chat','message':'m','metadata':{'x':1},'reply_to':'" TID
                            "','conversation_id':'c'}"),
                       true));
    assert_true(request.strict);
}

static void test_request_hello_is_strict_for_itself(void **state)
{
    (void)state;
    assert_true(decode(json("{'type':'hello','tokens':'','strict':false}"), false));
    assert_false(decode(json("{'type':'hello','tokens':'','strict':true}"), false));
    assert_string_equal(fault.message, "\"tokens\" is unknown here");
    assert_true(decode(json("{'type':'hello','client':{'x':1},'strict':true}"), false));
    assert_true(request.strict);
}

static int teardown(void **state)
{
    (void)state;
    request_done(&request);
    js_done(&doc);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_strict_names_an_unknown_member),
        cmocka_unit_test(test_request_hello_is_strict_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
