/* Tools that take time, and what the idle clock makes of them and of children. */
#include <stdio.h>

#include "tests/support/hub_kit.h"

struct tool_job {
    tool_done_fn done;
    void *user;
    bool stopped;
};

static struct tool_job jobs[4];
static size_t n_jobs;

static struct tool_job *slow_start(const struct tool *tool, const struct tool_caller *caller,
                                   struct str arguments, tool_done_fn done, void *user,
                                   struct buf *out)
{
    (void)caller;
    (void)tool;
    if (!str_eq(arguments, STR("{}"))) {
        buf_puts(out, "no arguments, please");
        return NULL;
    }
    jobs[n_jobs] = (struct tool_job){.done = done, .user = user};
    return &jobs[n_jobs++];
}

static void slow_stop(struct tool_job *job)
{
    assert_false(job->stopped);
    job->stopped = true;
}

static const struct tool slow = {.name = "slow", .start = slow_start, .stop = slow_stop};
static const struct tool said = {.name = "spawn_task", .says = "spawn"};
static const struct tool *const tools[] = {&slow, &said};

static int setup(void **state)
{
    struct kit *k = kit_new();
    n_jobs = 0;
    for (size_t i = 0; i < countof(k->agents); i++) {
        k->agents[i].tools = tools;
        k->agents[i].n_tools = countof(tools);
    }
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

#define CALL(id) "{'call':'tool','call_id':'" id "','name':'slow','arguments':{}}"

static void test_hub_tool_that_takes_time_is_answered_when_it_is_done(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json(CALL("a")));
    run_say(k, r, json(CALL("b")));
    client_await(c, json("'event':'tool_call','data':{'call_id':'b'"));
    assert_int_equal(n_jobs, 2);
    assert_int_equal(r->delivered.len, 0);
    jobs[1].done(jobs[1].user, true, STR("two"));
    jobs[0].done(jobs[0].user, false, STR("one"));
    kit_settle(k);
    assert_string_equal(
        r->delivered.bytes,
        json("{'type':'tool_result','call_id':'b','output':'two','is_error':false}\n"
             "{'type':'tool_result','call_id':'a','output':'one','is_error':true}\n"));
    client_await(c, json("'event':'tool_result','data':{'call_id':'a','name':'slow'"));
    assert_true(jobs[0].stopped && jobs[1].stopped);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

static void test_hub_tool_that_does_not_start_is_an_error(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'call':'tool','call_id':'a','name':'slow','arguments':{'x':1}}"));
    assert_non_null(strstr(r->delivered.bytes, json("'output':'no arguments, please','is_error':"
                                                    "true}")));
    run_say(k, r, json("{'call':'tool','call_id':'b','name':'spawn_task','arguments':{}}"));
    assert_non_null(strstr(r->delivered.bytes, json("'call_id':'b','code':'not_found'")));
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

static void test_hub_tool_is_stopped_with_its_task(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json(CALL("a")));
    run_end(k, r, RUN_DONE, "");
    assert_true(jobs[0].stopped);
    client_await(c, json("'event':'task.completed'"));
    client_free(c);
}

static void test_hub_idle_clock_stands_still_while_a_tool_runs(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json(CALL("a")));
    kit_pass(k, 700000);
    jobs[0].done(jobs[0].user, true, STR("late"));
    kit_settle(k);
    assert_non_null(strstr(r->delivered.bytes, json("'output':'late'")));
    kit_pass(k, 310000);
    run_end(k, r, RUN_FAILED, "");
    client_await(c, "timeout: no event for 300 s");
    client_free(c);
}

static void test_hub_idle_clock_stands_still_while_a_child_lives(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'call':'spawn','call_id':'c1','input':'kid'}"));
    struct run *kid = kit_run(k, 1);
    for (int i = 0; i < 3; i++) {
        kit_pass(k, 200000);
        run_say(k, kid, json("{'event':'token','data':{'text':'busy'}}"));
    }
    run_end(k, kid, RUN_DONE, "");
    assert_non_null(strstr(r->delivered.bytes, "busybusybusy"));
    run_end(k, r, RUN_DONE, "");
    client_await(c, json("'event':'task.completed'"));
    client_free(c);
}

/* A child's end is wrapped in a line, and that in an event: its result may have been as
 * deep as a line of the child can be. */
static void test_hub_end_of_a_child_with_the_deepest_result_is_told(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'call':'spawn','call_id':'c1','input':'kid'}"));
    struct run *kid = kit_run(k, 1);
    struct buf line = {0};
    buf_puts(&line, json("{'event':'result','data':"));
    for (int i = 1; i < MAX_JSON_DEPTH; i++)
        buf_puts(&line, json("{'a':"));
    buf_putc(&line, '0');
    for (int i = 1; i < MAX_JSON_DEPTH; i++)
        buf_putc(&line, '}');
    buf_putc(&line, '}');
    run_say(k, kid, line.bytes);
    buf_done(&line);
    run_say(k, kid, json("{'event':'token','data':{'text':'deep'}}"));
    run_end(k, kid, RUN_DONE, "");
    assert_non_null(strstr(r->delivered.bytes, json("'result':{'a':")));
    client_await(c, json("'event':'message','data':{'from':'child','content':'deep'}"));
    run_end(k, r, RUN_DONE, "");
    client_await(c, json("'event':'task.completed'"));
    client_free(c);
}

/* The line with n times piece in the middle. */
static void run_say_long(struct kit *k, struct run *r, const char *begin, const char *piece,
                         size_t n, const char *end)
{
    struct buf line = {0};
    buf_puts(&line, begin);
    for (size_t i = 0; i < n; i++)
        buf_puts(&line, piece);
    buf_puts(&line, end);
    assert_true(line.len < MAX_EVENT_LINE);
    run_say(k, r, line.bytes);
    buf_done(&line);
}

/* A line is bounded, but what comes of it is longer: broken bytes grow to three each, and what a
 * call brings stands in the answer's event, or in the child's. */
static void test_hub_call_whose_events_would_be_too_long_fails_the_task(void **state)
{
    const struct {
        const char *begin, *piece;
        size_t n;
        const char *end;
    } rows[] = {
        {json("{'call':'tool','call_id':'"), "\xff", 400000,
         json("','name':'slow','arguments':{'x':1}}")},
        {json("{'call':'tool','call_id':'"), "x", 1048000,
         json("','name':'slow','arguments':{'x':1}}")},
        {json("{'call':'spawn','call_id':'a','input':'"), "\xff", 400000, json("'}")},
        {json("{'call':'spawn','call_id':'a','agent':'"), "\xff", 400000, json("','input':''}")},
        {json("{'call':'send','call_id':'a','task_id':'parent','content':'"), "\xff", 400000,
         json("'}")},
    };
    struct kit *k = *state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct client *c = client_new(k, "ann");
        client_start(c, "c", "go");
        struct run *r = kit_run(k, i);
        run_say_long(k, r, rows[i].begin, rows[i].piece, rows[i].n, rows[i].end);
        run_end(k, r, RUN_FAILED, "");
        const char *end = client_await(c, json("'event':'task.failed'"));
        assert_non_null(strstr(end, json("'code':'limit'")));
        assert_int_equal(k->n_runs, i + 1); /* no child */
        client_free(c);
    }
}

/* A child's output grows when its end is told: a control character takes six bytes. */
static void test_hub_end_of_a_child_that_said_control_characters_fits_an_event(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'call':'spawn','call_id':'a','input':'kid'}"));
    struct run *kid = kit_run(k, 1);
    for (int i = 0; i < 4; i++)
        run_say_long(k, kid, json("{'event':'token','data':{'text':'"), "\\u0001", 65536,
                     json("'}}"));
    run_end(k, kid, RUN_DONE, "");
    const char *line = client_await(c, json("'event':'message','data':{'from':'child'"));
    assert_true(strlen(line) < MAX_EVENT_LINE);
    assert_true(strlen(line) > MAX_EVENT_LINE / 2);
    run_end(k, r, RUN_DONE, "");
    client_await(c, json("'event':'task.completed'"));
    client_free(c);
}

#define SAID(event, data) "{\"event\":\"" event "\",\"data\":{" data "}}"

static void test_hub_result_without_a_name_gets_that_of_its_call(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, SAID("tool_call", "\"call_id\":\"a\",\"name\":\"look\",\"arguments\":{}"));
    run_say(k, r, SAID("tool_call", "\"call_id\":\"b\",\"name\":\"\\\"q\",\"arguments\":{}"));
    run_say(k, r, SAID("tool_result", "\"call_id\":\"a\",\"output\":\"one\""));
    client_await(
        c, "\"event\":\"tool_result\",\"data\":{\"name\":\"look\",\"call_id\":\"a\",\"output\":"
           "\"one\"}");
    run_say(k, r, SAID("tool_result", "\"name\":null,\"output\":\"two\",\"call_id\":\"b\""));
    client_await(c, "\"event\":\"tool_result\",\"data\":{\"name\":\"\\\"q\",\"output\":\"two\"");
    run_say(k, r, SAID("tool_result", "\"call_id\":\"c\",\"output\":\"three\""));
    run_end(k, r, RUN_DONE, "");
    const char *end = client_await(c, "\"event\":\"task.failed\"");
    assert_non_null(strstr(end, "tool_result: \\\"name\\\" is missing"));
    client_free(c);
}

static void test_hub_names_of_calls_are_kept_for_the_last_32(void **state)
{
    (void)state;
    struct tool_names *names = NULL;
    char id[8];
    assert_null(tool_names_of(names, STR("0")).p);
    for (int i = 0; i < 33; i++) {
        snprintf(id, sizeof id, "%d", i);
        tool_names_tell(&names, str_of(id), STR("look"));
    }
    assert_null(tool_names_of(names, STR("0")).p);
    assert_true(str_eq(tool_names_of(names, STR("1")), STR("look")));
    tool_names_tell(&names, STR("1"), STR("again"));
    assert_true(str_eq(tool_names_of(names, STR("1")), STR("again")));
    tool_names_free(names);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_tool_that_takes_time_is_answered_when_it_is_done),
        TEST(test_hub_result_without_a_name_gets_that_of_its_call),
        cmocka_unit_test(test_hub_names_of_calls_are_kept_for_the_last_32),
        TEST(test_hub_tool_that_does_not_start_is_an_error),
        TEST(test_hub_tool_is_stopped_with_its_task),
        TEST(test_hub_idle_clock_stands_still_while_a_tool_runs),
        TEST(test_hub_idle_clock_stands_still_while_a_child_lives),
        TEST(test_hub_end_of_a_child_with_the_deepest_result_is_told),
        TEST(test_hub_call_whose_events_would_be_too_long_fails_the_task),
        TEST(test_hub_end_of_a_child_that_said_control_characters_fits_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
