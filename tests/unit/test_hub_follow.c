/* Everything that a connection follows: conversations, lists, and what their limits leave out. */
#include "proto/link.h"
#include "tests/support/hub_kit.h"

static int setup(void **state)
{
    *state = kit_new();
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

#define OPEN_FOLLOW "{'type':'open','id':'o','conversation_id':'c','follow':true}"

/* PROTOCOL.md 5: live tasks from their head, new ones from seq 1: new is what the snapshot
 * lacks. */
static void test_hub_task_born_while_it_is_opened_is_followed_from_seq_1(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann");
    const char *old = client_start(a, "c", "old");
    session_receive(&b->session, str_of(json(OPEN_FOLLOW)));
    kit_turn(k);
    assert_true(store_inline_step_query(k->inline_store)); /* its messages */
    assert_true(store_inline_ask(k->inline_store)); /* its tasks: read, and not yet answered */
    session_receive(&a->session,
                    str_of(json("{'type':'chat','id':'n','conversation_id':'c','message':'new'}")));
    kit_turn(k);
    while (store_inline_step_commit(k->inline_store))
        kit_turn(k);
    const char *new = line_field(client_await(a, json("'started'")), "task_id");
    kit_settle(k);
    const char *snapshot = client_await(b, json("'conversation'"));
    assert_non_null(strstr(snapshot, old));
    assert_null(strstr(snapshot, new));
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'x'}}"));
    char first[96];
    unsigned n_old = 0, n_new = 0;
    for (const char *got = client_line(b); *got; got = client_line(b)) {
        n_old += strstr(got, json("'type':'event'")) && strstr(got, old);
        if (!strstr(got, json("'type':'event'")) || !strstr(got, new))
            continue;
        snprintf(first, sizeof first, json("'seq':%u,"), ++n_new);
        assert_non_null(strstr(got, first));
    }
    assert_int_equal(n_old, 1); /* the token: what was before is behind its head */
    assert_int_equal(n_new, 2);
    client_free(a);
    client_free(b);
}

static void test_hub_what_passes_the_limit_of_subscriptions_is_said(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann");
    client_start(a, "c", "one");
    client_start(a, "c", "two");
    k->hub.o.limits.subscriptions = 1;
    client_say(b, json(OPEN_FOLLOW));
    client_expect(b, json("'welcome'"));
    client_expect(b, json("'code':'overloaded'"));
    client_say(a, json("{'type':'chat','id':'x','message':'three'}"));
    client_await(a, json("{'type':'error','id':'x','code':'overloaded'"));
    assert_int_equal(k->n_runs, 2);
    k->hub.o.limits.subscriptions = 2;
    client_say(b, json(OPEN_FOLLOW));
    client_await(b, json("'conversation'"));
    k->hub.o.limits.subscriptions = 3;
    const char *third = client_start(a, "c", "three");
    client_await(b, third);
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'x'}}"));
    client_await(b, json("'token'"));
    k->hub.o.limits.subscriptions = 4;
    client_free(a);
    a = client_new(k, "ann");
    k->hub.o.limits.subscriptions = 3; /* b has three */
    const char *fourth = client_start(a, "c", "four");
    const char *said = client_await(b, json("{'type':'error','code':'overloaded'"));
    assert_non_null(strstr(said, fourth));
    client_free(a);
    client_free(b);
}

/* A stop that is planned is told to all, and never before welcome. */
static void test_hub_goaway_reaches_who_connects_during_a_drain(void **state)
{
    struct kit *k = *state;
    struct client *before = client_new(k, "ann");
    client_expect(before, json("'welcome'"));
    struct client early = {.kit = k, .owner = "ann"};
    session_init(&early.session, &k->hub, &client_ops, &early);
    hub_drain(&k->hub);
    session_say_goaway(&before->session);
    session_say_goaway(&early.session);
    kit_settle(k);
    client_expect(before, json("{'type':'goaway','retry_after_ms':"));
    client_expect_nothing(before);
    client_say(&early, json("{'type':'hello'}"));
    client_expect(&early, json("'welcome'"));
    client_expect(&early, json("{'type':'goaway','retry_after_ms':"));
    client_say(&early, json("{'type':'hello'}"));
    client_expect(&early, json("'welcome'"));
    client_expect_nothing(&early);
    session_done(&early.session);
    buf_done(&early.got);
    client_free(before);
}

static void test_hub_watcher_gets_the_newest_state_when_the_store_reads_again(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *w = client_new(k, "ann");
    client_say(w, json("{'type':'watch'}"));
    client_await(w, json("'ok'"));
    client_start(a, "c", "hi");
    client_await(w, json("'running':1"));
    while (*client_line(w))
        ;
    store_inline_fail_queries(k->inline_store, 1, STORE_IO);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_expect_nothing(w);
    kit_pass(k, 1000);
    client_expect(w, json("'running':0"));
    client_free(a);
    client_free(w);
}

/* All of it: a transport that is nothing but the watch can tell that it is over. */
static void test_hub_watch_ends_at_a_damaged_record(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *c = client_new(k, "ann");
    client_say(c, json("{'type':'watch','id':'1','events':true}"));
    client_await(c, json("'type':'cursor'"));
    assert_true(session_knows(&c->session) & LINK_WATCHES);
    store_inline_fail_queries(k->inline_store, 1, STORE_CORRUPT);
    client_start(a, "c", "x");
    client_await(c, json("{'type':'error','code':'internal','message':'watch ends: "));
    assert_false(session_knows(&c->session) & LINK_WATCHES);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_expect_nothing(c);
    client_say(c, json("{'type':'watch','id':'2'}"));
    client_await(c, json("{'type':'ok','id':'2'}"));
    client_say(a, json("{'type':'title','conversation_id':'c','title':'t'}"));
    client_await(c, json("'type':'conversation_changed'"));
    client_free(a);
    client_free(c);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_task_born_while_it_is_opened_is_followed_from_seq_1),
        HUB_TEST(test_hub_what_passes_the_limit_of_subscriptions_is_said),
        HUB_TEST(test_hub_goaway_reaches_who_connects_during_a_drain),
        HUB_TEST(test_hub_watcher_gets_the_newest_state_when_the_store_reads_again),
        HUB_TEST(test_hub_watch_ends_at_a_damaged_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
