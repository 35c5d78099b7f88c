/* Notices of what is no task: told once, over kills and lost commits, to nobody else. */
#include "core/notice.h"
#include "tests/support/hub_kit.h"

struct told {
    int calls, status;
    int64_t notice_key;
};

static void on_told(void *user, int status, int64_t notice_key)
{
    struct told *t = user;
    t->calls++;
    t->status = status;
    t->notice_key = notice_key;
}

static struct told told;
static char task_id[TASK_ID_LEN + 1];

static int setup(void **state)
{
    struct kit *k = kit_new();
    struct client *c = client_new(k, "ann");
    told = (struct told){0};
    snprintf(task_id, sizeof task_id, "%s", client_start(c, "c", "hi"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static void tell(struct kit *k, const char *key, bool silent)
{
    struct notice_source source = {.key = str_of(key),
                                   .owner = STR("ann"),
                                   .conversation_id = STR("c"),
                                   .task_id = str_of(task_id),
                                   .text = STR("it has ended"),
                                   .silent = silent};
    notice_tell(&k->hub, &source, on_told, &told);
}

static void test_source_is_told_once_whoever_is_killed(void **state)
{
    struct kit *k = *state;
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_int_equal(told.status, 0);
    assert_true(told.notice_key > 0);
    assert_int_equal(k->n_runs, 2);
    assert_string_equal(kit_run(k, 1)->input, "it has ended");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_int_equal(told.calls, 2);
    assert_int_equal(told.notice_key, 0); /* earlier */
    kit_crash(k);
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_int_equal(told.calls, 3);
    assert_int_equal(k->n_runs, 2);
    tell(k, "proc_2", false);
    kit_settle(k);
    assert_int_equal(k->n_runs, 3);
}

/* Between any two steps of the store: then it is told again by who has not heard that it is
 * told. */
static void test_source_a_kill_between_any_two_steps_tells_it_once(void **state)
{
    for (unsigned steps = 0; steps < 12; steps++) {
        struct kit *k = *state;
        k->bounded = true;
        k->steps_left = steps;
        tell(k, "proc_1", false);
        kit_settle(k);
        k->bounded = false;
        kit_crash(k);
        tell(k, "proc_1", false);
        kit_settle(k);
        size_t n = 0;
        struct client *c = client_new(k, "ann");
        client_say(c, json("{'type':'history','conversation_id':'c'}"));
        for (const char *p = client_await(c, json("'history'")); (p = strstr(p, "it has ended"));
             p++)
            n++;
        client_free(c);
        assert_int_equal(n, 1);
        teardown(state);
        setup(state);
    }
}

static void test_source_that_is_settled_is_not_told(void **state)
{
    struct kit *k = *state;
    struct notice_source source = {.key = STR("proc_1"),
                                   .owner = STR("ann"),
                                   .conversation_id = STR("c"),
                                   .task_id = str_of(task_id)};
    notice_settle(&k->hub, &source);
    kit_settle(k);
    kit_crash(k);
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.notice_key, 0);
    assert_int_equal(k->n_runs, 1);
}

static void test_source_that_waits_can_be_withdrawn(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "busy");
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_true(notice_withdraw(&k->hub, STR("ann"), STR("c"), STR("proc_1")));
    assert_false(notice_withdraw(&k->hub, STR("ann"), STR("c"), STR("proc_1")));
    assert_false(notice_withdraw(&k->hub, STR("bob"), STR("c"), STR("proc_1")));
    assert_false(notice_withdraw(&k->hub, STR("ann"), STR("c"), STR("proc_2")));
    kit_settle(k);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_int_equal(k->n_runs, 2);
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 2);
}

/* An earlier gateway has told it, and it waits still. */
static void test_source_that_waits_over_a_restart_can_be_withdrawn(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "busy");
    client_say(
        c, json("{'type':'chat','conversation_id':'c','message':'later','when_busy':'enqueue'}"));
    client_await(c, json("'started'"));
    tell(k, "proc_1", false);
    tell(k, "proc_2", false);
    kit_settle(k);
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 3);
    assert_string_equal(kit_run(k, 2)->input, "later"); /* both wait for it */
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_int_equal(told.notice_key, 0);
    assert_true(notice_withdraw(&k->hub, STR("ann"), STR("c"), STR("proc_1")));
    assert_false(notice_withdraw(&k->hub, STR("ann"), STR("c"), STR("proc_1")));
    kit_settle(k);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    assert_int_equal(k->n_runs, 4);
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    assert_int_equal(k->n_runs, 4); /* the other's turn alone */
}

static struct hub *withdraws; /* on_withdraw does it there */

static void on_withdraw(void *user, int status, int64_t notice_key)
{
    on_told(user, status, notice_key);
    assert_true(notice_withdraw(withdraws, STR("ann"), STR("c"), STR("proc_1")));
}

/* As soon as it is told, whose commit is still to come, or fails at first: nobody hears of it. */
static void test_source_can_be_withdrawn_before_its_commit(void **state)
{
    for (int fails = 0; fails < 2; fails++) {
        struct kit *k = *state;
        struct notice_source source = {.key = STR("proc_1"),
                                       .owner = STR("ann"),
                                       .conversation_id = STR("c"),
                                       .task_id = str_of(task_id),
                                       .text = STR("it has ended")};
        withdraws = &k->hub;
        if (fails)
            store_inline_fail_commits(k->inline_store, 1000, STORE_FULL);
        notice_tell(&k->hub, &source, on_withdraw, &told);
        for (int i = 0; i < 40; i++)
            kit_pass(k, 1000);
        store_inline_fail_commits(k->inline_store, 0, STORE_OK);
        kit_pass(k, 5000);
        assert_int_equal(told.calls, 1);
        assert_int_equal(k->n_runs, 1);
        kit_crash(k);
        tell(k, "proc_1", false);
        kit_settle(k);
        assert_int_equal(told.notice_key, 0); /* earlier, as far as anybody knows */
        assert_int_equal(k->n_runs, 1);
        teardown(state);
        setup(state);
    }
}

static void test_silent_source_is_told_in_the_next_turn(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    tell(k, "proc_1", true);
    kit_settle(k);
    assert_int_equal(k->n_runs, 1);
    client_start(c, "c", "again");
    assert_non_null(strstr(kit_run(k, 1)->history.bytes, "it has ended"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

static void test_source_whose_task_is_gone_goes_nowhere(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'delete','conversation_id':'c'}"));
    client_await(c, json("'ok'"));
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.status, STORE_NOT_FOUND);
    client_say(c, json("{'type':'conversations'}"));
    client_await(c, json("'conversations':[]"));
    client_free(c);
}

static void test_source_whose_commit_is_given_up_is_told_later(void **state)
{
    struct kit *k = *state;
    store_inline_fail_commits(k->inline_store, 1000, STORE_FULL);
    tell(k, "proc_1", false);
    for (int i = 0; i < 40; i++)
        kit_pass(k, 1000);
    assert_int_equal(told.calls, 1);
    assert_int_equal(k->n_runs, 1);
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    kit_pass(k, 5000);
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    kit_crash(k);
    tell(k, "proc_1", false);
    kit_settle(k);
    assert_int_equal(k->n_runs, 2);
}

/* Its key is no client's: one that repeats it starts a task of its own. */
static void test_source_s_key_is_no_request_key(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    tell(k, "proc_1", true);
    kit_settle(k);
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'x',"
                       "'request_key':'notice proc_1'}"));
    assert_null(strstr(client_await(c, json("'started'")), json("'repeated'")));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_source_is_told_once_whoever_is_killed),
        TEST(test_source_a_kill_between_any_two_steps_tells_it_once),
        TEST(test_source_that_is_settled_is_not_told),
        TEST(test_source_that_waits_can_be_withdrawn),
        TEST(test_source_that_waits_over_a_restart_can_be_withdrawn),
        TEST(test_source_can_be_withdrawn_before_its_commit),
        TEST(test_silent_source_is_told_in_the_next_turn),
        TEST(test_source_whose_task_is_gone_goes_nowhere),
        TEST(test_source_whose_commit_is_given_up_is_told_later),
        TEST(test_source_s_key_is_no_request_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
