/* A run is told to stop when the reason is committed, so the next gateway knows it. */
#include "tests/support/hub_again.h"

#define TOKEN(text) json("{'event':'token','data':{'text':'" text "'}}")

static int setup(void **state)
{
    struct kit *k = kit_new();
    again_use(k, &again_ops);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    buf_done(&again.numbered);
    return 0;
}

/* A kill, a start, and a client that follows the task from its beginning. */
static struct client *restart(struct kit *k, struct client *c, const char *task)
{
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    client_ask(c, "resume", "c", task, "");
    client_await(c, json("'resumed'"));
    return c;
}

/* It was silent for too long; what that stages is committed when the store goes on. */
static void let_time_out(struct kit *k)
{
    kit_hang(k, true);
    kit_pass(k, k->agents[0].idle_timeout_ms + 1);
}

static void test_a_run_is_told_to_stop_when_the_reason_is_committed(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    let_time_out(k);
    assert_int_equal(kit_run(k, 0)->cancels, 0);
    kit_hang(k, false);
    kit_settle(k);
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    kit_pass(k, k->agents[0].grace_ms + 1); /* the grace counts from there */
    assert_int_equal(kit_run(k, 0)->kills, 1);
    run_end(k, kit_run(k, 0), RUN_FAILED, "killed by signal 9");
    client_free(c);
}

static void test_a_run_is_told_to_stop_though_the_store_gives_up(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    let_time_out(k);
    store_inline_fail_commits(k->inline_store, 1, STORE_VOID);
    kit_hang(k, false);
    kit_settle(k);
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    run_end(k, kit_run(k, 0), RUN_FAILED, "killed by signal 15");
    client_free(c);
}

/* Its last words count, and the reason stays what it was. */
static void test_a_run_that_was_told_to_stop_ends_for_that_reason(void **state)
{
    struct kit *k = *state;
    again_use(k, &again_numbered_ops);
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    kit_pass(k, k->agents[0].idle_timeout_ms + 1);
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    c = restart(k, c, task);
    assert_int_equal(kit_run(k, 1)->cancels, 1); /* by this gateway, as always */
    c = restart(k, c, task);
    run_say(k, kit_run(k, 2), TOKEN("last words"));
    run_end(k, kit_run(k, 2), RUN_FAILED, "killed by signal 15");
    client_await(c, json("'code':'timeout','message':'timeout: no event for 300 s'"));
    assert_non_null(strstr(c->got.bytes, json("'output':'last words'")));
    assert_null(strstr(c->got.bytes, "planned"));
    client_free(c);
}

/* The run ended with its gateway: the task ends at once, whether it could go on or not. */
static void test_a_task_that_was_to_stop_ends_for_that_reason(void **state)
{
    struct kit *k = *state;
    for (int i = 0; i < 2; i++) {
        struct client *c = client_new(k, "ann");
        const char *task = client_start(c, "c", "go");
        kit_pass(k, k->agents[0].idle_timeout_ms + 1);
        again.gone = i ? "its process was killed" : NULL;
        c = restart(k, c, task);
        client_await(c, json("'code':'timeout','message':'timeout: no event for 300 s'"));
        client_free(c);
    }
    assert_int_equal(k->n_runs, 2);
    assert_int_equal(k->hub.stats.not_resumed[NOT_THERE], 0);
}

/* A cancel that comes between the start of the gateway and the run's. */
static void test_a_cancel_before_the_run_is_there_is_told_when_it_is_committed(void **state)
{
    struct kit *k = *state;
    again_use(k, &again_numbered_ops);
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    int status = 1;
    client_free(c);
    kit_close_hub(k);
    kit_open_hub(k);
    hub_restore(&k->hub, kit_on_ready, &status);
    kit_hang(k, true);
    kit_turn(k);
    while (status == 1) {
        assert_true(store_inline_step(k->inline_store));
        kit_turn(k);
    }
    assert_int_equal(k->n_runs, 1);
    c = client_new(k, "ann");
    client_ask(c, "cancel", "c", task, "");
    while (k->n_runs == 1) {
        assert_true(store_inline_step_query(k->inline_store)); /* the history */
        kit_turn(k);
    }
    assert_int_equal(kit_run(k, 1)->cancels, 0);
    kit_hang(k, false);
    kit_settle(k);
    client_await(c, json("'cancelled':1"));
    assert_int_equal(kit_run(k, 1)->cancels, 1);
    run_end(k, kit_run(k, 1), RUN_FAILED, "killed by signal 15");
    client_free(c);
}

/* A connection whose token has an actor. */
static struct client *member_new(struct kit *k, const char *actor)
{
    struct client *c = xcalloc(sizeof *c);
    struct js_doc doc = {0};
    char claim[64];
    snprintf(claim, sizeof claim, json("{'actor':'%s'}"), actor);
    assert_true(js_parse(&doc, claim, strlen(claim), JS_OURS));
    c->kit = k;
    session_init(&c->session, &k->hub, &client_ops, c);
    struct owner *ann = owner_ref(&k->hub, STR("ann"));
    struct asker who = {.owner = ann, .quota = ann, .rights = rights_read(&doc, 0, STR_NULL)};
    assert_non_null(who.rights);
    session_adopt(&c->session, &who);
    rights_unref(who.rights);
    owner_unref(&k->hub, ann);
    js_done(&doc);
    return c;
}

static void cancel_as(struct kit *k, const char *actor, const char *task)
{
    struct client *c = member_new(k, actor);
    client_ask(c, "cancel", "c", task, "");
    client_await(c, json("'cancelled':1"));
    client_free(c);
}

/* Whether it goes on, ends at the start, or had not begun. */
static void test_who_cancelled_is_told_after_a_restart(void **state)
{
    struct kit *k = *state;
    static const struct agent_ops *const all[] = {&again_ops, &again_numbered_ops, &kit_ops};
    for (size_t i = 0; i < countof(all); i++) {
        again_use(k, all[i]);
        for (size_t a = 0; a < countof(k->agents); a++)
            k->agents[a].goes_on = all[i] != &kit_ops;
        struct client *c = client_new(k, "ann");
        const char *task = client_start(c, "c", "go");
        size_t n = k->n_runs;
        cancel_as(k, "bob \xc3\xb6", task);
        c = restart(k, c, task);
        if (k->n_runs > n)
            run_end(k, kit_run(k, n), RUN_FAILED, "signal 15");
        client_await(c, json("'actor':'bob \xc3\xb6'"));
        client_free(c);
    }
}

/* Its note is not that of who cancelled it, and the other way round. */
static void test_a_stop_and_a_cancel_keep_apart(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    r->events->on_stop(r->task, STR("a reason"));
    kit_settle(k);
    cancel_as(k, "bob", task);
    c = restart(k, c, task);
    assert_non_null(strstr(client_await(c, json("'event':'task.failed'")), json("'actor':'bob'")));
    client_free(c);
}

/* A cancel that the store has given up never was, and neither was who asked for it. */
static void test_a_cancel_that_was_given_up_names_nobody(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *bob = member_new(k, "bob");
    const char *task = client_start(c, "c", "go");
    store_inline_fail_commits(k->inline_store, 1, STORE_VOID);
    client_ask(bob, "cancel", "c", task, "");
    client_await(bob, json("'code':'overloaded'"));
    client_free(bob);
    kit_pass(k, 1000);
    client_ask(c, "cancel", "c", task, "");
    client_await(c, json("'cancelled':1"));
    run_end(k, kit_run(k, 0), RUN_FAILED, "signal 15");
    const char *end = client_await(c, json("'event':'task.failed'"));
    assert_non_null(strstr(end, json("'cancel':{")));
    assert_null(strstr(end, "bob"));
    client_free(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_run_is_told_to_stop_when_the_reason_is_committed),
        TEST(test_a_run_is_told_to_stop_though_the_store_gives_up),
        TEST(test_a_run_that_was_told_to_stop_ends_for_that_reason),
        TEST(test_a_task_that_was_to_stop_ends_for_that_reason),
        TEST(test_a_cancel_before_the_run_is_there_is_told_when_it_is_committed),
        TEST(test_who_cancelled_is_told_after_a_restart),
        TEST(test_a_stop_and_a_cancel_keep_apart),
        TEST(test_a_cancel_that_was_given_up_names_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
