/* Rows A1, A2 and A40 to A43 of the task manager: how a record reads. */
#include "proto/record.h"
#include "tests/support/t.h"

static struct buf out;

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

static struct task_record ended(void)
{
    return (struct task_record){
        .type = TYPE_BACKGROUND,
        .created_at = 1000,
        .owner = STR("ann"),
        .conversation_id = STR("thread-1"),
        .task_id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        .agent = STR("shell"),
        .state = {.status = STATUS_COMPLETED, .progress = 1, .head = 4, .completed_at = 2000},
    };
}

static const char *shown(const struct task_record *task)
{
    buf_clear(&out);
    task_write(&out, task, false);
    return out.bytes;
}

static void test_a01_status_terminal_check(void **state)
{
    (void)state;
    assert_false(status_is_terminal(STATUS_PENDING));
    assert_false(status_is_terminal(STATUS_RUNNING));
    assert_true(status_is_terminal(STATUS_COMPLETED));
    assert_true(status_is_terminal(STATUS_FAILED));
    assert_true(status_is_terminal(STATUS_CANCELLED));
}

static void test_a02_status_names(void **state)
{
    (void)state;
    assert_string_equal(status_name(STATUS_RUNNING), "running");
    assert_string_equal(status_name(STATUS_COMPLETED), "completed");
    assert_string_equal(status_name(STATUS_FAILED), "failed");
    assert_string_equal(status_name(STATUS_CANCELLED), "cancelled");
}

static void test_a40_no_result_has_no_key(void **state)
{
    (void)state;
    struct task_record task = ended();
    assert_null(strstr(shown(&task), "result"));
    task.state.result = STR("{}");
    assert_non_null(strstr(shown(&task), json(",'result':{},")));
}

static void test_a41_parent_is_there_with_any_one_of_its_four(void **state)
{
    (void)state;
    static const char *const members[] = {"task_id", "run_id", "call_id", "agent_id"};
    for (size_t i = 0; i < countof(members); i++) {
        struct task_record task = ended();
        assert_null(strstr(shown(&task), json("'parent'")));
        struct str *fields[] = {&task.parent_task_id, &task.parent_run_id, &task.parent_call_id,
                                &task.parent_agent_id};
        *fields[i] = STR("x");
        char expected[64];
        snprintf(expected, sizeof expected, json(",'parent':{'%s':'x'},"), members[i]);
        assert_non_null(strstr(shown(&task), expected));
    }
}

static void test_a42_empty_parent_is_left_out(void **state)
{
    (void)state;
    struct task_record task = ended();
    for (int brief = 0; brief < 2; brief++) {
        buf_clear(&out);
        task_write(&out, &task, brief);
        assert_null(strstr(out.bytes, "parent"));
    }
}

static void test_a43_parent_with_a_run_is_written(void **state)
{
    (void)state;
    struct task_record task = ended();
    task.parent_run_id = STR("run-1");
    for (int brief = 0; brief < 2; brief++) {
        buf_clear(&out);
        task_write(&out, &task, brief);
        assert_non_null(strstr(out.bytes, json(",'parent':{'run_id':'run-1'},")));
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a01_status_terminal_check),
        TEST(test_a02_status_names),
        TEST(test_a40_no_result_has_no_key),
        TEST(test_a41_parent_is_there_with_any_one_of_its_four),
        TEST(test_a42_empty_parent_is_left_out),
        TEST(test_a43_parent_with_a_run_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
