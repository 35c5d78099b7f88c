/* A task's webhooks: held while it is live, over restarts; told of its questions and its end. */
#include "tests/support/hub_kit.h"

static struct buf rows;
static size_t n_rows;

static int setup(void **state)
{
    *state = kit_new();
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    buf_done(&rows);
    return 0;
}

static void keep_rows(void *arg, int status, struct answer *answer)
{
    (void)arg;
    assert_int_equal(status, 0);
    n_rows = answer->n_outbox;
    buf_clear(&rows);
    for (size_t i = 0; i < n_rows; i++) {
        buf_putstr(&rows, answer->outbox[i].body);
        buf_putc(&rows, '\n');
    }
    buf_putc(&rows, 0);
}

/* Their bodies are in rows afterwards. */
static size_t stored(struct kit *k, const char *hook)
{
    hub_query(&k->hub,
              &(struct query){
                  .kind = QUERY_OUTBOX, .key = str_of(hook), .limit = 100, .max_bytes = 1 << 20},
              keep_rows, NULL);
    kit_settle(k);
    return n_rows;
}

/* more: members in C's own form of json. */
#define ask(c, type, id, more) client_ask(c, type, "c", id, json(more))

#define HOOK(id) ",'webhook':{'url':'https://h/" id "','webhook_id':'" id "'}"

static void start(struct client *c, char ret_id[TASK_ID_LEN + 1])
{
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'hi'" HOOK("1") "}"));
    snprintf(ret_id, TASK_ID_LEN + 1, "%s",
             line_field(client_await(c, json("'started'")), "task_id"));
}

static void test_webhook_is_told_of_the_end_and_gone(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[TASK_ID_LEN + 1];
    start(c, id);
    ask(c, "webhook", id, HOOK("2"));
    client_await(c, json("'webhook':{'webhook_id':'2','url':'https://h/2'}"));
    assert_int_equal(stored(k, OUTBOX_HELD), 2);
    assert_int_equal(stored(k, OUTBOX_OF_TASKS), 0);
    run_say(k, kit_run(k, 0), json("{'event':'final_answer','data':{'output':'two'}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_int_equal(stored(k, OUTBOX_HELD), 0);
    assert_int_equal(stored(k, OUTBOX_OF_TASKS), 2);
    assert_non_null(strstr(rows.bytes, json("{'owner':'ann','webhook':{'url':'https://h/1'},"
                                            "'message':{'type':'task.completed'")));
    assert_non_null(strstr(rows.bytes, json("'output':'two'")));
    ask(c, "webhook", id, HOOK("3"));
    client_await(c, "task_terminated");
    ask(c, "webhooks", id, "");
    client_await(c, json("'webhooks':[]"));
    client_free(c);
}

static void test_webhook_that_was_replaced_or_deleted_is_not_told(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[TASK_ID_LEN + 1];
    start(c, id);
    ask(c, "webhook", id, ",'webhook':{'url':'https://h/new','webhook_id':'1'}");
    ask(c, "webhook", id, HOOK("2"));
    ask(c, "webhook_delete", id, ",'webhook_id':'2'");
    ask(c, "webhook_delete", id, ",'webhook_id':'none'");
    ask(c, "webhooks", id, "");
    client_await(c, json("'webhooks':[{'webhook_id':'1','url':'https://h/new'}]"));
    run_say(k, kit_run(k, 0),
            json("{'event':'input_required','data':{'input_id':'q','kind':'question','prompt':"
                 "'?'}}"));
    assert_int_equal(stored(k, OUTBOX_OF_TASKS), 1);
    assert_non_null(strstr(rows.bytes, json("'type':'task.input_required'")));
    assert_non_null(strstr(rows.bytes, json("'waiting_for':'q'")));
    assert_non_null(strstr(rows.bytes, "https://h/new"));
    ask(c, "cancel", id, "");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_int_equal(stored(k, OUTBOX_OF_TASKS), 2);
    assert_non_null(strstr(rows.bytes, json("'status':'cancelled'")));
    client_free(c);
}

static void test_webhook_survives_a_restart_with_its_task(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[TASK_ID_LEN + 1];
    start(c, id);
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'waits','when_busy':"
                       "'enqueue'" HOOK("late") "}"));
    snprintf(id, sizeof id, "%s", line_field(client_await(c, json("'started'")), "task_id"));
    client_free(c);
    kit_crash(k);
    assert_int_equal(stored(k, OUTBOX_OF_TASKS), 1); /* of the one that ran */
    assert_non_null(strstr(rows.bytes, "orphaned"));
    assert_int_equal(stored(k, OUTBOX_HELD), 1);
    c = client_new(k, "ann");
    ask(c, "webhooks", id, "");
    client_await(c, json("'webhooks':[{'webhook_id':'late','url':'https://h/late'}]"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_int_equal(stored(k, OUTBOX_OF_TASKS), 2);
    assert_int_equal(stored(k, OUTBOX_HELD), 0);
    client_free(c);
}

static void test_webhook_of_another_owner_is_no_such_task(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    char id[TASK_ID_LEN + 1];
    start(c, id);
    ask(other, "webhook", id, HOOK("x"));
    client_await(other, "not_found");
    ask(other, "webhooks", id, "");
    client_await(other, "not_found");
    ask(other, "webhook_delete", id, ",'webhook_id':'1'");
    client_await(other, "not_found");
    assert_int_equal(stored(k, OUTBOX_HELD), 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(other);
    client_free(c);
}

static void test_webhooks_have_a_limit(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[TASK_ID_LEN + 1];
    start(c, id);
    ask(c, "webhook", id, HOOK("2"));
    ask(c, "webhook", id, HOOK("3"));
    client_await(c, "overloaded");
    ask(c, "webhook", id, ",'webhook':{'url':'https://h/new','webhook_id':'2'}");
    client_await(c, "https://h/new");
    k->hub.o.limits.task_webhooks = 0;
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'x'" HOOK("1") "}"));
    client_await(c, "unsupported");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_webhook_is_told_of_the_end_and_gone),
        HUB_TEST(test_webhook_that_was_replaced_or_deleted_is_not_told),
        HUB_TEST(test_webhook_survives_a_restart_with_its_task),
        HUB_TEST(test_webhook_of_another_owner_is_no_such_task),
        HUB_TEST(test_webhooks_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
