#include "proto/errors.h"
#include "tests/support/t.h"

static void test_error_codes_and_statuses_are_those_of_the_wire(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        enum error error;
        int status;
    } rows[] = {
        {"bad_request", ERR_BAD_REQUEST, 400},
        {"unsupported", ERR_UNSUPPORTED, 400},
        {"unauthorized", ERR_UNAUTHORIZED, 401},
        {"not_found", ERR_NOT_FOUND, 404},
        {"conflict", ERR_CONFLICT, 409},
        {"out_of_range", ERR_OUT_OF_RANGE, 409},
        {"task_terminated", ERR_TASK_TERMINATED, 409},
        {"no_inbox", ERR_NO_INBOX, 409},
        {"too_large", ERR_TOO_LARGE, 413},
        {"rate_limited", ERR_RATE_LIMITED, 429},
        {"internal", ERR_INTERNAL, 500},
        {"overloaded", ERR_OVERLOADED, 503},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        assert_string_equal(error_code(rows[i].error), rows[i].code);
        assert_int_equal(error_status(rows[i].error), rows[i].status);
    }
}

static void test_task_error_code_is_found_again(void **state)
{
    (void)state;
    static const struct {
        enum task_error error;
        const char *code;
    } rows[] = {
        {TASK_AGENT_ERROR, "agent_error"},
        {TASK_TIMEOUT, "timeout"},
        {TASK_CANCELLED_ERROR, "cancelled"},
        {TASK_ORPHANED, "orphaned"},
        {TASK_LIMIT, "limit"},
        {TASK_OVERLOADED, "overloaded"},
        {TASK_INTERNAL, "internal"},
    };
    for (size_t i = 0; i < countof(rows); i++)
        assert_string_equal(task_error_code(rows[i].error), rows[i].code);
}

static void test_task_error_tells_the_reason_of_a_model(void **state)
{
    const struct {
        const char *message, *json;
    } rows[] = {
        {"agent_error: model: model_busy: HTTP 429",
         json(
             "{'code':'agent_error','message':'agent_error: model: HTTP 429','reason':'model_busy'}")},
        {"agent_error: model: HTTP 400",
         json("{'code':'agent_error','message':'agent_error: model: HTTP 400'}")},
        {"agent_error: model: model_busy",
         json("{'code':'agent_error','message':'agent_error: model: model_busy'}")},
        {"agent_error: broke_off: x",
         json("{'code':'agent_error','message':'agent_error: broke_off: x'}")},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct buf out = {0};
        task_error_put(&out, TASK_AGENT_ERROR, str_of(rows[i].message));
        bool good = str_eq(buf_str(&out), str_of(rows[i].json));
        buf_done(&out);
        assert_true(good);
    }
}

static void test_close_codes_are_those_of_the_wire(void **state)
{
    (void)state;
    static const struct {
        enum close_code code;
        int number;
    } rows[] = {
        {CLOSE_GOING_AWAY, 1001}, {CLOSE_PROTOCOL, 1002}, {CLOSE_INVALID, 1007},
        {CLOSE_POLICY, 1008},     {CLOSE_TOO_BIG, 1009},  {CLOSE_UNAUTHORIZED, 4401},
        {CLOSE_TRY_LATER, 1013},  {CLOSE_SILENT, 4408},   {CLOSE_SLOW, 4413},
        {CLOSE_FLOOD, 4429},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        assert_int_equal(rows[i].code, rows[i].number);
        assert_true(strlen(close_text(rows[i].code)) > 0);
        assert_true(strlen(close_text(rows[i].code)) <= 123); /* what a close frame holds */
    }
}

static void test_error_line_leaves_out_what_is_not_there(void **state)
{
    (void)state;
    const struct {
        enum error error;
        struct str id;
        const char *message;
        msec_t retry_after_ms;
        int64_t head;
        const char *line;
    } rows[] = {
        {ERR_NOT_FOUND,
         {"7", 1},
         "no such task",
         -1,
         -1,
         json("{'type':'error','id':'7','code':'not_found','message':'no such task'}")},
        {ERR_NOT_FOUND,
         {NULL, 0},
         "no such task",
         -1,
         -1,
         json("{'type':'error','code':'not_found','message':'no such task'}")},
        {ERR_OVERLOADED,
         {json("a'\n"), 3},
         "later",
         1500,
         -1,
         json("{'type':'error','id':'a\\'\\n','code':'overloaded','message':'later',"
              "'retry_after_ms':1500}")},
        {ERR_OVERLOADED, /* whoever says it, a time is told */
         {NULL, 0},
         "later",
         -1,
         -1,
         json("{'type':'error','code':'overloaded','message':'later','retry_after_ms':1000}")},
        {ERR_RATE_LIMITED,
         {"x", 1},
         "slower",
         -1,
         -1,
         json("{'type':'error','id':'x','code':'rate_limited','message':'slower',"
              "'retry_after_ms':1000}")},
        {ERR_OUT_OF_RANGE,
         {"x", 1},
         "beyond the head",
         -1,
         0,
         json("{'type':'error','id':'x','code':'out_of_range','message':'beyond the head',"
              "'head':0}")},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct buf out = {0};
        error_line(&out, rows[i].error, rows[i].id, rows[i].message, rows[i].retry_after_ms,
                   rows[i].head);
        assert_span(buf_str(&out), rows[i].line, strlen(rows[i].line));
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_codes_and_statuses_are_those_of_the_wire),
        cmocka_unit_test(test_task_error_code_is_found_again),
        cmocka_unit_test(test_task_error_tells_the_reason_of_a_model),
        cmocka_unit_test(test_close_codes_are_those_of_the_wire),
        cmocka_unit_test(test_error_line_leaves_out_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
