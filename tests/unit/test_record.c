#include "proto/record.h"
#include "tests/support/t.h"

static struct buf out;

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static struct task_record least(void)
{
    return (struct task_record){
        .type = TYPE_CHAT,
        .created_at = 1764280000000,
        .owner = STR("secret owner"),
        .conversation_id = STR("c-1"),
        .task_id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        .agent = STR("assistant"),
        .input = STR("secret input"),
        .state = {.status = STATUS_PENDING, .progress = -1, .first = 1, .head = 1},
    };
}

static struct task_record full(void)
{
    struct task_record task = least();
    task.type = TYPE_BACKGROUND;
    task.notify_on_complete = true;
    task.name = STR("n\"1");
    task.description = STR("d\n");
    task.metadata = str_of(json("{'m':1}"));
    task.parent_task_id = STR("P");
    task.parent_run_id = STR("R");
    task.parent_call_id = STR("C");
    task.parent_agent_id = STR("A");
    task.state = (struct task_state){
        .status = STATUS_FAILED,
        .error = TASK_TIMEOUT,
        .progress = 0.4,
        .first = 3,
        .head = 57,
        .cancel_requested_at = 1764280000004,
        .started_at = 1764280000003,
        .completed_at = 1764280000009,
        .output_truncated = true,
        .acked = true,
        .error_message = STR("timeout after 5 s"),
        .output = STR("part"),
        .result = str_of(json("{'r':[]}")),
        .undelivered = str_of(json("['x']")),
        .waiting_for = STR("q1"),
    };
    return task;
}

static void test_task_write_least_leaves_out_null_false_and_empty(void **state)
{
    (void)state;
    struct task_record task = least();
    for (int brief = 0; brief < 2; brief++) {
        buf_clear(&out);
        task_write(&out, &task, brief);
        assert_text(buf_str(&out),
                    json("{'task_id':'01ARZ3NDEKTSV4RRFFQ69G5FAV','conversation_id':'c-1',"
                         "'agent':'assistant','type':'chat','status':'pending',"
                         "'progress':null,'head':1,'created_at':1764280000000}"));
    }
}

static void test_task_write_full_has_the_order_of_the_page(void **state)
{
    (void)state;
    struct task_record task = full();
    task_write(&out, &task, false);
    assert_text(buf_str(&out),
                json("{'task_id':'01ARZ3NDEKTSV4RRFFQ69G5FAV','conversation_id':'c-1',"
                     "'agent':'assistant','type':'background','name':'n\\'1',"
                     "'description':'d\\n','status':'failed','progress':0.4,'head':57,"
                     "'waiting_for':'q1','cancel_requested_at':1764280000004,"
                     "'error':{'code':'timeout','message':'timeout after 5 s'},"
                     "'output':'part','output_truncated':true,'result':{'r':[]},"
                     "'undelivered':['x'],'notify_on_complete':true,'metadata':{'m':1},"
                     "'parent':{'task_id':'P','run_id':'R','call_id':'C','agent_id':'A'},"
                     "'created_at':1764280000000,'started_at':1764280000003,"
                     "'completed_at':1764280000009}"));
}

static void test_task_write_brief_leaves_out_the_large_ones(void **state)
{
    (void)state;
    struct task_record task = full();
    task_write(&out, &task, true);
    assert_text(buf_str(&out),
                json("{'task_id':'01ARZ3NDEKTSV4RRFFQ69G5FAV','conversation_id':'c-1',"
                     "'agent':'assistant','type':'background','name':'n\\'1',"
                     "'description':'d\\n','status':'failed','progress':0.4,'head':57,"
                     "'waiting_for':'q1','cancel_requested_at':1764280000004,"
                     "'error':{'code':'timeout','message':'timeout after 5 s'},"
                     "'output_truncated':true,'notify_on_complete':true,"
                     "'parent':{'task_id':'P','run_id':'R','call_id':'C','agent_id':'A'},"
                     "'created_at':1764280000000,'started_at':1764280000003,"
                     "'completed_at':1764280000009}"));
}

static void test_task_write_parent_has_what_is_set(void **state)
{
    (void)state;
    struct task_record task = least();
    task.parent_call_id = STR("C");
    task.state.undelivered = STR("[]");
    task.state.output = STR("");
    task_write(&out, &task, false);
    assert_non_null(strstr(out.bytes, json(",'parent':{'call_id':'C'},'created_at'")));
    assert_null(strstr(out.bytes, "undelivered"));
    assert_non_null(strstr(out.bytes, json(",'output':'',"))); /* an answer that is empty is one */
}

static void test_task_write_progress_has_the_fewest_digits(void **state)
{
    (void)state;
    static const struct {
        double progress;
        const char *text;
    } rows[] = {
        {0, "0"},
        {1, "1"},
        {0.4, "0.4"},
        {0.1, "0.1"},
        {0.25, "0.25"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {1e-9, "1e-09"},
        {0.999, "0.999"},
        {-1, "null"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct task_record task = least();
        char expected[64];
        task.state.progress = rows[i].progress;
        buf_clear(&out);
        task_write(&out, &task, true);
        snprintf(expected, sizeof expected, json("'progress':%s,'head'"), rows[i].text);
        if (!strstr(out.bytes, expected))
            fail_msg("%s not in %s", expected, out.bytes);
    }
}

static void test_record_names_are_those_of_the_wire(void **state)
{
    (void)state;
    static const char *const statuses[] = {"pending", "running", "completed", "failed",
                                           "cancelled"};
    for (size_t i = 0; i < countof(statuses); i++) {
        enum task_status status = STATUS_PENDING;
        assert_string_equal(status_name((enum task_status)i), statuses[i]);
        assert_true(status_find(str_of(statuses[i]), &status));
        assert_int_equal(status, i);
        assert_int_equal(status_is_terminal(status), i >= 2);
    }
    enum task_status untouched = STATUS_FAILED;
    assert_false(status_find(STR("done"), &untouched));
    assert_false(status_find(STR_NULL, &untouched));
    assert_int_equal(untouched, STATUS_FAILED);
    assert_string_equal(type_name(TYPE_CHAT), "chat");
    assert_string_equal(type_name(TYPE_BACKGROUND), "background");
    assert_string_equal(type_name(TYPE_CHILD), "child");
    assert_string_equal(type_name(TYPE_NOTICE), "notice");
    assert_string_equal(role_name(ROLE_USER), "user");
    assert_string_equal(role_name(ROLE_ASSISTANT), "assistant");
    assert_string_equal(role_name(ROLE_SYSTEM), "system");
}

static void test_message_write_has_all_members(void **state)
{
    (void)state;
    struct message_record message = {
        .message_id = STR("M"),
        .task_id = STR("T"),
        .content = STR("half of \xf0\x9f\x98"), /* F55: a broken one never leaves */
        .role = ROLE_ASSISTANT,
        .created_at = 17,
    };
    message_write(&out, &message);
    assert_text(buf_str(&out),
                json("{'message_id':'M','role':'assistant','content':'half of \xef\xbf\xbd',"
                     "'task_id':'T','partial':false,'created_at':17}"));
    message.partial = true;
    buf_clear(&out);
    message_write(&out, &message);
    assert_non_null(strstr(out.bytes, json("'partial':true")));
}

static void test_conversation_write_has_all_members(void **state)
{
    (void)state;
    struct conversation_record conversation = {
        .conversation_id = STR("c-1"), .title = STR("Title"), .updated_at = 99, .running = 2};
    conversation_write(&out, &conversation);
    assert_text(buf_str(&out), json("{'conversation_id':'c-1','title':'Title','updated_at':99,"
                                    "'running':2}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_task_write_least_leaves_out_null_false_and_empty),
        TEST(test_task_write_full_has_the_order_of_the_page),
        TEST(test_task_write_brief_leaves_out_the_large_ones),
        TEST(test_task_write_parent_has_what_is_set),
        TEST(test_task_write_progress_has_the_fewest_digits),
        TEST(test_record_names_are_those_of_the_wire),
        TEST(test_message_write_has_all_members),
        TEST(test_conversation_write_has_all_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
