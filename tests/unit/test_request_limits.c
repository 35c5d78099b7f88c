/* Every maximum of a request, at it and one beyond (limits.h). */
#include "tests/support/request_kit.h"

#define IDS "'task_id':'01ARZ3NDEKTSV4RRFFQ69G5FAV','conversation_id':'c-1'"

static bool decode(const char *line)
{
    request_done(&request);
    return request_decode(&doc, str_of(line), false, &request, &fault);
}

static char *ack_of(int n)
{
    struct buf line = {0};
    buf_puts(&line, json("{'type':'ack','conversation_id':'c','task_ids':["));
    for (int i = 0; i < n; i++)
        buf_puts(&line, i ? json(",'t'") : json("'t'"));
    buf_puts(&line, "]}");
    return buf_take(&line);
}

static void test_request_ack_of_more_than_1000_is_refused(void **state)
{
    (void)state;
    char *most = ack_of(1000), *more = ack_of(1001), *many = ack_of(70000);
    bool ok = decode(most) && request.n_task_ids == 1000 && str_eq(request.task_ids[999], STR("t"));
    bool refused = !decode(more) && !decode(many);
    free(most);
    free(more);
    free(many);
    assert_true(ok);
    assert_true(refused);
    assert_string_equal(fault.message, "\"task_ids\" must be an array of at most 1000 strings");
}

/* A value of exactly the most bytes passes, one more does not: counted in the value, not its
 * text. */
static void test_request_lengths_are_counted_in_the_value(void **state)
{
    (void)state;
    const struct {
        const char *before, *unit; /* of one byte in the value */
        size_t max;
    } rows[] = {
        {json("{'type':'chat','message':'m','agent':'"), "a", 128},
        {json("{'type':'chat','message':'m','request_key':'"), "\\u0041", 128},
        {json("{'type':'chat','message':'m','name':'"), "\\n", 128},
        {json("{'type':'chat','message':'m','description':'"), "d", 1024},
        {json("{'type':'chat','message':'m','conversation_id':'"), "\\u0063", 128},
        {json("{'type':'title','conversation_id':'c','title':'"), "t", 512},
        {json("{'type':'respond'," IDS ",'answer':true,'input_id':'"), "q", 128},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        for (size_t over = 0; over < 2; over++) {
            struct buf line = {0};
            buf_puts(&line, rows[i].before);
            for (size_t n = 0; n < rows[i].max + over; n++)
                buf_puts(&line, rows[i].unit);
            buf_puts(&line, json("'}"));
            bool ok = decode(line.bytes);
            buf_done(&line);
            if (ok != (over == 0))
                fail_msg("%s… of %zu", rows[i].before, rows[i].max + over);
        }
    }
}

static void test_request_metadata_is_measured_compact(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct buf line = {0};
        buf_puts(&line, json("{'type':'chat','message':'m','metadata':{  'k'  :  '"));
        for (size_t n = 0; n < 16384 - sizeof("{\"k\":\"\"}") + 1 + over; n++)
            buf_puts(&line, "x");
        buf_puts(&line, json("'       }}"));
        bool ok = decode(line.bytes);
        size_t n = request.metadata.n;
        buf_done(&line);
        assert_int_equal(ok, over == 0);
        assert_int_equal(n, over == 0 ? 16384 : 0);
    }
    assert_int_equal(fault.code, ERR_BAD_REQUEST);
}

static void test_request_context_is_measured_compact(void **state)
{
    (void)state;
    static const char one[] = "[{\"role\":\"user\",\"content\":\"\"}]";
    for (size_t over = 0; over < 2; over++) {
        struct buf line = {0};
        buf_puts(&line,
                 "{\"type\":\"chat\",\"message\":\"m\",\"context\":[  {\"other\":\"member\",");
        buf_puts(&line, "\"role\" : \"user\" , \"content\" : \"");
        for (size_t n = 0; n < 262144 - (sizeof one - 1) + over; n++)
            buf_puts(&line, "x");
        buf_puts(&line, "\" } ] }");
        bool ok = decode(line.bytes);
        size_t n = request.context.n;
        buf_done(&line);
        assert_int_equal(ok, over == 0);
        assert_int_equal(n, over == 0 ? 262144 : 0);
    }
    assert_int_equal(fault.code, ERR_BAD_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_ack_of_more_than_1000_is_refused),
        TEST(test_request_lengths_are_counted_in_the_value),
        TEST(test_request_metadata_is_measured_compact),
        TEST(test_request_context_is_measured_compact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
