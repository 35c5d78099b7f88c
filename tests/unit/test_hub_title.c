/* A title that is set while the conversation is being deleted: it does not bring it back. */
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

#define TITLE "{'type':'title','id':'t','conversation_id':'c','title':'new'}"
#define DELETE "{'type':'delete','id':'d','conversation_id':'c'}"

/* A title is asked for, and the store has said that there is such a conversation; nobody has heard
 * it yet.  Then another connection (one carries out its requests in their order) has it deleted. */
static struct client *title_asked(struct kit *k, struct client **ret_other)
{
    struct client *c = client_new(k, "ann");
    *ret_other = client_new(k, "ann");
    client_start(c, "c", "hi");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, "task.completed");
    session_receive(&c->session, str_of(json(TITLE)));
    assert_true(store_inline_ask(k->inline_store));
    session_receive(&(*ret_other)->session, str_of(json(DELETE)));
    return c;
}

static void turn_until_written(struct kit *k)
{
    do
        kit_turn(k);
    while (store_inline_step_commit(k->inline_store));
}

static void expect_nothing_is_left(struct client *c, struct client *other)
{
    client_await(other, json("{'type':'ok','id':'d'}"));
    client_free(other);
    client_say(c, json("{'type':'conversations','id':'l'}"));
    client_await(c, json("'conversations':[]"));
    client_free(c);
}

static void test_hub_title_while_it_is_deleted_is_a_conflict(void **state)
{
    struct kit *k = *state;
    struct client *other, *c = title_asked(k, &other);
    assert_true(store_inline_step_query(k->inline_store));
    kit_settle(k);
    client_await(c, json("'id':'t','code':'conflict'"));
    expect_nothing_is_left(c, other);
}

static void test_hub_title_of_what_was_deleted_meanwhile_is_not_found(void **state)
{
    struct kit *k = *state;
    struct client *other, *c = title_asked(k, &other);
    turn_until_written(k);
    kit_settle(k);
    client_await(c, json("'id':'t','code':'not_found'"));
    expect_nothing_is_left(c, other);
}

/* The answer was of the one that was deleted; the title goes to the one that is there now. */
static void test_hub_title_of_what_was_deleted_and_begun_anew_is_set(void **state)
{
    struct kit *k = *state;
    struct client *other, *c = title_asked(k, &other);
    turn_until_written(k);
    session_receive(&other->session,
                    str_of(json("{'type':'chat','conversation_id':'c','message':'again'}")));
    turn_until_written(k);
    kit_settle(k);
    client_await(c, json("{'type':'ok','id':'t'}"));
    client_say(c, json("{'type':'conversations','id':'l'}"));
    client_await(c, json("'title':'new'"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(other);
    client_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_title_while_it_is_deleted_is_a_conflict),
        TEST(test_hub_title_of_what_was_deleted_meanwhile_is_not_found),
        TEST(test_hub_title_of_what_was_deleted_and_begun_anew_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
