/* Messages that are scheduled: due once each, over restarts, by a clock that the test holds. */
#include "core/schedule.h"
#include "tests/support/hub_kit.h"

#define MINUTE 60000
#define HOUR (60 * MINUTE)
#define CHAT "'chat':{'message':'hi'}"

static int setup(void **state)
{
    *state = kit_new(); /* 2025-11-27, 21:46:40 UTC */
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

/* The reply, which must have that text; its schedule_id. */
static void say(struct client *c, const char *type, const char *more, const char *expected,
                char *ret_id)
{
    struct buf line = {0};
    buf_putf(&line, "{\"type\":\"%s\",%s}", type, more);
    buf_putc(&line, 0);
    client_say(c, line.bytes);
    const char *reply = client_await(c, expected);
    if (ret_id)
        snprintf(ret_id, TASK_ID_LEN + 1, "%s", line_field(reply, "schedule_id"));
    buf_done(&line);
}

#define schedule(c, more, id) say(c, "schedule", json(more), "\"scheduled\"", id)
#define refused(c, type, more, why) say(c, type, json(more), why, NULL)

static void crash_after(struct kit *k, msec_t ms)
{
    k->hub.clock.now_ms += ms;
    k->hub.clock.wall_ms += ms;
    kit_crash(k);
    kit_settle(k);
}

static void test_schedule_once_is_due_once_and_gone(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    schedule(c, CHAT ",'conversation_id':'c','not_before':1764280060000", NULL);
    say(c, "schedules", "\"id\":\"l\"", json("'next_at':1764280060000"), NULL);
    kit_pass(k, MINUTE - 1);
    assert_int_equal(k->n_runs, 0);
    kit_pass(k, 1);
    assert_int_equal(k->n_runs, 1);
    assert_string_equal(kit_run(k, 0)->input, "hi");
    say(c, "schedules", "\"id\":\"m\"", json("'schedules':[]"), NULL);
    char task[TASK_ID_LEN + 1];
    client_say(c, json("{'type':'tasks','conversation_id':'c'}"));
    snprintf(task, sizeof task, "%s",
             line_field(client_await(c, json("'type':'tasks'")), "task_id"));
    client_ask(c, "task", "c", task, "");
    client_await(c, json("'metadata':{'schedule_id':'"));
    kit_pass(k, HOUR);
    assert_int_equal(k->n_runs, 1);
    assert_int_equal(k->hub.stats.schedule_runs[SCHEDULE_STARTED], 1);
    client_free(c);
}

static void test_schedule_in_the_past_is_due_at_once(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    schedule(c, CHAT ",'not_before':1", NULL);
    kit_settle(k);
    assert_int_equal(k->n_runs, 1);
    client_free(c);
}

static void test_schedule_comes_again_and_again(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    schedule(c, CHAT ",'every_s':60", NULL);
    for (size_t i = 1; i <= 5; i++) {
        kit_pass(k, MINUTE);
        assert_int_equal(k->n_runs, i);
        run_end(k, kit_run(k, i - 1), RUN_DONE, "");
    }
    say(c, "schedules", "\"id\":\"l\"", json("'last':{'at':1764280300000,'task_id':'"), NULL);
    client_free(c);
}

/* A long time without a gateway is made up for once, or not at all. */
static void test_schedule_that_was_missed(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    schedule(c, CHAT ",'every_s':60", NULL);
    schedule(c, CHAT ",'every_s':60,'catch_up':false", NULL);
    client_free(c);
    crash_after(k, 10 * MINUTE + 1000);
    assert_int_equal(k->n_runs, 1);
    assert_int_equal(k->hub.stats.schedule_runs[SCHEDULE_MISSED], 1);
    c = client_new(k, "ann");
    say(c, "schedules", "\"id\":\"l\"", json("'error':{'code':'missed'"), NULL);
    kit_pass(k, MINUTE);
    assert_int_equal(k->n_runs, 3); /* both */
    client_free(c);
}

/* Killed after each step of the store: one task, always. */
static void test_schedule_is_due_once_over_restarts(void **state)
{
    struct kit *k = *state;
    size_t runs = 0;
    for (unsigned steps = 0; steps < 12; steps++) {
        struct client *c = client_new(k, "ann");
        char request[200], in[16];
        snprintf(in, sizeof in, "c%u", steps);
        snprintf(request, sizeof request, json(CHAT ",'conversation_id':'%s','not_before':%lld"),
                 in, (long long)k->hub.clock.wall_ms + MINUTE);
        say(c, "schedule", request, "\"scheduled\"", NULL);
        client_free(c);
        k->bounded = true;
        k->steps_left = steps;
        kit_pass(k, MINUTE);
        k->bounded = false;
        kit_crash(k);
        kit_pass(k, MINUTE);
        runs++;
        c = client_new(k, "ann");
        snprintf(request, sizeof request, json("'conversation_id':'%s'"), in);
        const char *task = json("'task_id'");
        say(c, "tasks", request, task, NULL);
        const char *list = strstr(c->got.bytes, "\"tasks\":[");
        size_t n = 0;
        for (const char *at = list; at && (at = strstr(at, task)) != NULL; at++)
            n++;
        assert_int_equal(n, 1);
        say(c, "schedules", "\"id\":\"l\"", json("'schedules':[]"), NULL);
        client_free(c);
    }
    assert_int_equal(runs, 12);
}

static void test_schedule_is_changed_paused_and_removed(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[TASK_ID_LEN + 1], more[200];
    schedule(c, CHAT ",'every_s':60", id);
    snprintf(more, sizeof more, json("'schedule_id':'%s','paused':true"), id);
    say(c, "reschedule", more, json("'paused':true"), NULL);
    kit_pass(k, HOUR);
    assert_int_equal(k->n_runs, 0);
    snprintf(more, sizeof more,
             json("'schedule_id':'%s','paused':false,'cron':'0 * * * *','chat':{'message':'x'}"),
             id);
    say(c, "reschedule", more, json("'cron':'0 * * * *'"), NULL);
    client_free(c);
    crash_after(k, 0);
    kit_pass(k, 13 * MINUTE); /* 22:59:40 */
    assert_int_equal(k->n_runs, 0);
    kit_pass(k, 20000);
    assert_int_equal(k->n_runs, 1);
    assert_string_equal(kit_run(k, 0)->input, "x");
    c = client_new(k, "ann");
    snprintf(more, sizeof more, json("'schedule_id':'%s'"), id);
    say(c, "unschedule", more, json("'ok'"), NULL);
    say(c, "unschedule", more, json("'not_found'"), NULL);
    kit_pass(k, 3 * (msec_t)HOUR);
    assert_int_equal(k->n_runs, 1);
    client_free(c);
}

static void test_schedule_of_another_owner_is_not_there(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    char id[TASK_ID_LEN + 1], more[100];
    schedule(c, CHAT ",'every_s':60", id);
    snprintf(more, sizeof more, json("'schedule_id':'%s','paused':true"), id);
    say(other, "reschedule", more, json("'no such schedule'"), NULL);
    say(other, "unschedule", more, json("'no such schedule'"), NULL);
    say(other, "schedules", "\"id\":\"l\"", json("'schedules':[]"), NULL);
    client_free(other);
    client_free(c);
}

static void test_schedule_that_is_wrong_is_refused_by_name(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    refused(c, "schedule", CHAT, "says when");
    refused(c, "schedule", "'every_s':60", "\\\"chat\\\" is missing");
    refused(c, "schedule", "'chat':{},'every_s':60", "in \\\"chat\\\": \\\"message\\\" is missing");
    refused(c, "schedule", "'chat':{'message':'x','agent':'none'},'every_s':60", "no configured");
    refused(c, "schedule", "'chat':{'message':'x','request_key':'k'},'every_s':60",
            "no request_key");
    refused(c, "schedule", CHAT ",'every_s':59", "\\\"every_s\\\" must be an integer from 60");
    refused(c, "schedule", CHAT ",'cron':'* * * *'", "five fields");
    refused(c, "schedule", CHAT ",'cron':'0 0 30 2 *'", "names no time");
    refused(c, "schedule", CHAT ",'cron':'0 0 * * *','every_s':60", "exclude");
    refused(c, "schedule", CHAT ",'cron':'0 0 * * *','time_zone':'Mars/Utopia'", "no zone");
    refused(c, "schedule", CHAT ",'every_s':60,'time_zone':'UTC'", "for \\\"cron\\\" alone");
    refused(c, "schedule", CHAT ",'every_s':60,'paused':1", "\\\"paused\\\" must be true or false");
    refused(c, "reschedule", "'schedule_id':'x'", "no such schedule");
    say(c, "schedules", "\"id\":\"l\"", json("'schedules':[]"), NULL);
    client_free(c);
}

static void test_schedules_have_a_limit(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    for (int i = 0; i < 4; i++)
        schedule(c, CHAT ",'every_s':60", NULL);
    refused(c, "schedule", CHAT ",'every_s':60", "too many schedules of this owner");
    k->hub.o.limits.schedules = 4;
    refused(other, "schedule", CHAT ",'every_s':60", "too many schedules in all");
    k->hub.o.limits.schedules_per_owner = 0;
    refused(other, "schedule", CHAT ",'every_s':60", "unsupported");
    client_free(other);
    client_free(c);
}

/* Without room it waits, and is due once when there is some. */
static void test_schedule_waits_for_room(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    k->hub.o.limits.tasks_per_owner = 1;
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'first'}"));
    client_await(c, json("'started'"));
    schedule(c, CHAT ",'every_s':60", NULL);
    kit_pass(k, 3 * MINUTE);
    assert_int_equal(k->n_runs, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    kit_pass(k, 30000);
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    kit_pass(k, 1000);
    assert_int_equal(k->n_runs, 2);
    client_free(c);
}

/* While its chat is on its way it gets another time: that one stands. */
static void test_schedule_that_is_changed_while_it_is_due_keeps_its_new_time(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[TASK_ID_LEN + 1], more[100];
    schedule(c, CHAT ",'not_before':1764280060000", id);
    kit_hang(k, true);
    kit_pass(k, MINUTE);
    snprintf(more, sizeof more,
             json("{'type':'reschedule','schedule_id':'%s','not_before':1764283600000}"), id);
    session_receive(&c->session, str_of(more));
    kit_hang(k, false);
    kit_settle(k);
    assert_int_equal(k->n_runs, 1);
    say(c, "schedules", "\"id\":\"l\"", json("'next_at':1764283600000"), NULL);
    kit_pass(k, HOUR);
    assert_int_equal(k->n_runs, 2);
    say(c, "schedules", "\"id\":\"m\"", json("'schedules':[]"), NULL);
    client_free(c);
}

/* With the conversation its schedules go, in the same commit. */
static void test_schedule_goes_with_its_conversation(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'first'}"));
    client_await(c, json("'started'"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    schedule(c, CHAT ",'conversation_id':'c','every_s':60", NULL);
    schedule(c, CHAT ",'conversation_id':'d','every_s':3600", NULL);
    client_say(c, json("{'type':'delete','conversation_id':'c'}"));
    client_await(c, json("'ok'"));
    say(c, "schedules", "\"id\":\"l\"", json("'conversation_id':'d'"), NULL);
    client_free(c);
    crash_after(k, 5 * MINUTE);
    assert_int_equal(k->n_runs, 1);
    assert_int_equal(k->hub.n_schedules, 1);
}

/* What the store did not take is as if it had not been asked. */
static void test_schedule_that_was_not_committed_is_not_due(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[TASK_ID_LEN + 1], more[100];
    schedule(c, CHAT ",'every_s':3600", id);
    k->hub.journal.retry_ms = 0;
    kit_fault.point = KIT_COMMIT;
    kit_fault.first = kit_passed[KIT_COMMIT] + 1;
    kit_fault.times = 1000;
    kit_fault.error = STORE_IO;
    snprintf(more, sizeof more, json("'schedule_id':'%s','every_s':60"), id);
    say(c, "reschedule", more, json("'overloaded'"), NULL);
    kit_pass(k, 2000);
    kit_fault.times = 0;
    kit_pass(k, 2000);
    say(c, "schedules", "\"id\":\"l\"", json("'every_s':3600"), NULL);
    kit_pass(k, 2 * MINUTE);
    assert_int_equal(k->n_runs, 0);
    kit_pass(k, HOUR);
    assert_int_equal(k->n_runs, 1);
    client_free(c);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_schedule_once_is_due_once_and_gone),
        HUB_TEST(test_schedule_in_the_past_is_due_at_once),
        HUB_TEST(test_schedule_comes_again_and_again),
        HUB_TEST(test_schedule_that_was_missed),
        HUB_TEST(test_schedule_is_due_once_over_restarts),
        HUB_TEST(test_schedule_is_changed_paused_and_removed),
        HUB_TEST(test_schedule_of_another_owner_is_not_there),
        HUB_TEST(test_schedule_that_is_wrong_is_refused_by_name),
        HUB_TEST(test_schedules_have_a_limit),
        HUB_TEST(test_schedule_waits_for_room),
        HUB_TEST(test_schedule_that_is_changed_while_it_is_due_keeps_its_new_time),
        HUB_TEST(test_schedule_goes_with_its_conversation),
        HUB_TEST(test_schedule_that_was_not_committed_is_not_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
