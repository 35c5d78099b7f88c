/* Calls that wait for a commit when the store begins to fail: each is answered within 2 s, once,
 * and what was asked for is not done twice. */
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

static void fail_commits(struct kit *k)
{
    store_inline_fail_commits(k->inline_store, 100000, STORE_FULL);
}

static void mend_commits(struct kit *k)
{
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    for (int i = 0; i < 3; i++)
        kit_pass(k, 1000);
}

static void wait_2_s(struct kit *k)
{
    for (int i = 0; i < 20; i++)
        kit_pass(k, 100);
}

static void test_hub_writers_that_wait_are_overloaded_within_2_s(void **state)
{
    struct kit *k = *state;
    struct client *c[7];
    for (size_t i = 0; i < countof(c); i++)
        c[i] = client_new(k, "ann");
    char task[32], line[256];
    snprintf(task, sizeof task, "%s", client_start(c[0], "c", "hi"));
    client_await(c[0], "task.started");
    run_say(k, kit_run(k, 0),
            json("{'event':'input_required','data':{'input_id':'i','kind':"
                 "'question','prompt':'p'}}"));
    client_await(c[0], "input_required");
    const char *const requests[] = {
        /* the second waits for the first */
        json("'chat','conversation_id':'n','message':'x','request_key':'k'"),
        json("'chat','conversation_id':'n','message':'x','request_key':'k'"),
        json("'send','conversation_id':'c','task_id':'%s','content':'x'"),
        json("'respond','conversation_id':'c','task_id':'%s','input_id':'i','answer':'x'"),
        json("'cancel','conversation_id':'c','task_id':'%s'"),
        json("'title','conversation_id':'c','title':'x'"),
        json("'delete','conversation_id':'d'"),
    };
    _Static_assert(countof(requests) == countof(c), "one for each");
    fail_commits(k);
    for (size_t i = 0; i < countof(c); i++) { /* all in one turn: the store has not failed yet */
        while (*client_line(c[i]))
            ;
        char *at = line + snprintf(line, sizeof line, json("{'id':'q','type':"));
        const char *named = strstr(requests[i], "%s");
        int before = named ? (int)(named - requests[i]) : (int)strlen(requests[i]);
        snprintf(at, sizeof line - (size_t)(at - line), "%.*s%s%s}", before, requests[i],
                 named ? task : "", named ? named + 2 : "");
        session_receive(&c[i]->session, str_of(line));
    }
    wait_2_s(k);
    for (size_t i = 0; i < countof(c); i++) {
        const char *got = client_line(c[i]);
        if (!strstr(got, json("{'type':'error','id':'q','code':'overloaded'")) ||
            !strstr(got, json("'retry_after_ms':1000")))
            fail_msg("%s got %s", requests[i], got);
        client_expect_nothing(c[i]);
    }
    mend_commits(k);
    for (size_t i = 1; i < countof(c); i++) { /* no second reply */
        for (const char *got = client_line(c[i]); *got; got = client_line(c[i]))
            assert_null(strstr(got, json("'id':'q'")));
        client_free(c[i]);
    }
    client_free(c[0]);
}

/* The key is claimed until the commit is decided: a repeat that looks it up while the commit is
 * on its way, or just after it, starts nothing. */
static void test_hub_chat_that_was_overloaded_is_not_started_twice(void **state)
{
    struct kit *k = *state;
    static const char chat[] =
        "{\"type\":\"chat\",\"id\":\"q\",\"conversation_id\":\"c\",\"message\":\"x\","
        "\"request_key\":\"k\"}";
    struct client *c = client_new(k, "ann");
    fail_commits(k);
    client_line(c);
    client_say(c, chat);
    wait_2_s(k);
    client_expect(c, json("'overloaded'"));
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    client_say(c, chat); /* before the store is tried again */
    wait_2_s(k);
    client_say(c, chat);
    const char *line = client_await(c, json("'repeated':true"));
    assert_non_null(strstr(line, json("'started'")));
    assert_int_equal(k->n_runs, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

/* A store that is back soon: nobody learns of it. */
static void test_hub_failure_of_half_a_second_is_waited_for(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    store_inline_fail_commits(k->inline_store, 3, STORE_BUSY);
    client_line(c);
    client_say(c, json("{'type':'chat','id':'q','conversation_id':'c','message':'x'}"));
    client_expect_nothing(c);
    for (int i = 0; i < 5; i++)
        kit_pass(k, 100);
    client_expect(c, json("{'type':'started','id':'q'"));
    wait_2_s(k);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

/* A disk that neither takes the batch nor refuses it. */
static void test_hub_commit_that_hangs_is_overloaded_within_4_s(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *late = client_new(k, "bob");
    client_line(c);
    client_line(late);
    kit_hang(k, true);
    client_say(c, json("{'type':'chat','id':'q','conversation_id':'c','message':'x'}"));
    for (int i = 0; i < 40; i++) {
        client_expect_nothing(c);
        kit_pass(k, 100);
    }
    client_expect(c, json("{'type':'error','id':'q','code':'overloaded'"));
    client_say(late, json("{'type':'chat','id':'r','conversation_id':'d','message':'x'}"));
    client_expect(late, json("{'type':'error','id':'r','code':'overloaded'"));
    kit_hang(k, false);
    kit_pass(k, 0);
    client_say(late, json("{'type':'chat','id':'s','conversation_id':'d','message':'x'}"));
    client_expect(late, json("{'type':'started','id':'s'"));
    assert_int_equal(k->n_runs, 2); /* what hung was committed, and is carried out once */
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(late);
    client_free(c);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hub_writers_that_wait_are_overloaded_within_2_s),
        TEST(test_hub_chat_that_was_overloaded_is_not_started_twice),
        TEST(test_hub_failure_of_half_a_second_is_waited_for),
        TEST(test_hub_commit_that_hangs_is_overloaded_within_4_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
