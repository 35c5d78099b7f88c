/* The memory of an idle session: one that follows a task has its subscription, and no more; what it
 * needs to ask and to be answered comes with the request and goes with the answer. */
#include "tests/support/hub_kit.h"

static struct client *c;

static int setup(void **state)
{
    *state = kit_new();
    c = client_new(*state, "ann");
    return 0;
}

static int teardown(void **state)
{
    client_free(c);
    kit_free_all(*state);
    return 0;
}

static void resume(const char *task)
{
    client_ask(c, "resume", "c", task, json(",'after':0"));
    client_await(c, "caught_up");
}

/* With the rim's half the target is 2,048 bytes (bench/README.md, idle). */
static void test_hub_idle_session_holds_its_subscription_alone(void **state)
{
    struct kit *k = *state;
    resume(client_start(c, "c", "wait"));
    kit_settle(k);
    const struct session *s = &c->session;
    const struct subscription *sub =
        list_item(s->subscriptions.next, struct subscription, in_session);
    assert_true(list_is_single(&s->subscriptions));
    assert_null(s->backlog);
    assert_null(s->views);
    assert_null(sub->rollup);
    assert_true(sizeof *sub <= 120); /* which malloc makes 128 */
    assert_true(sizeof *s <= 232);
}

/* The store does not answer yet: what was asked waits, and then it is gone. */
static void test_hub_session_has_a_backlog_as_long_as_something_waits(void **state)
{
    struct kit *k = *state;
    const char *id = client_start(c, "c", "wait");
    kit_settle(k);
    assert_null(c->session.backlog);
    session_receive(&c->session,
                    STR("{\"type\":\"history\",\"id\":\"h\",\"conversation_id\":\"c\"}\n"
                        "{\"type\":\"ping\",\"id\":\"p\"}"));
    assert_non_null(c->session.backlog);
    assert_non_null(c->session.backlog->call);
    assert_int_equal(session_n_waiting(&c->session), 1); /* the pong */
    kit_settle(k);
    client_await(c, json("'id':'h'"));
    assert_null(c->session.backlog);
    resume(id);
    kit_settle(k);
    assert_null(c->session.backlog);
}

/* Subscriptions of an opening go with it; the client's own stay, in that conversation too. */
static void test_hub_shut_ends_what_the_opening_follows(void **state)
{
    struct kit *k = *state;
    struct client *reader = client_new(k, "ann");
    struct session *s = &reader->session;
    const char *asked = client_start(c, "c", "wait");
    client_ask(reader, "resume", "c", asked, json(",'after':0"));
    client_await(reader, "caught_up");
    client_say(reader, json("{'type':'open','id':'o','conversation_id':'c','follow':true}"));
    client_await(reader, json("'type':'conversation'"));
    assert_int_equal(s->views->n_openings, 1);
    client_start(c, "c", "wait");
    client_start(c, "other", "wait");
    kit_settle(k);
    assert_int_equal(s->n_subscriptions, 2);
    client_say(reader, json("{'type':'close','id':'x','conversation_id':'c'}"));
    client_await(reader, json("'type':'ok'"));
    assert_int_equal(s->views->n_openings, 0);
    assert_int_equal(s->n_subscriptions, 1);
    struct stream *stream = hub_find_stream(&k->hub, STR("ann"), STR("c"), str_of(asked));
    assert_non_null(session_find(s, stream));
    client_free(reader);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_idle_session_holds_its_subscription_alone),
        HUB_TEST(test_hub_session_has_a_backlog_as_long_as_something_waits),
        HUB_TEST(test_hub_shut_ends_what_the_opening_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
