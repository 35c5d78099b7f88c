/* F61: whose a task is cannot be read.  Nobody is allowed on a guess, everybody gets one answer,
 * and nothing changes; when the store answers again, all is as it was. */
#include "tests/support/hub_kit.h"

#define NONE "01ARZ3NDEKTSV4RRFFQ69G5FAV"

static const struct {
    const char *verb, *more;
} verbs[] = {{"resume", ""},
             {"resume", ",\"after\":3,\"coalesce\":true"},
             {"unsubscribe", ""},
             {"task", ""},
             {"cancel", ""},
             {"cancel", ",\"tree\":true"},
             {"send", ",\"content\":\"x\""},
             {"respond", ",\"input_id\":\"q\",\"answer\":\"x\""}};

static const char *const lists[] = {"tasks", "history", "results", "conversations", "open"};

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

static void end_first_run(struct kit *k, struct client *c)
{
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'secret'}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, "task.completed");
}

/* Each verb on an ended task of ann's, as its owner, as another, and on one that is not there. */
static void check_all(struct kit *k, const char *task, enum store_error failure)
{
    for (size_t i = 0; i < countof(verbs); i++) {
        char first[256] = "";
        struct client *who[] = {client_new(k, "ann"), client_new(k, "bob"), client_new(k, "ann")};
        for (size_t j = 0; j < countof(who); j++) {
            client_await(who[j], "welcome");
            store_inline_fail_queries(k->inline_store, 1000, failure);
            client_ask(who[j], verbs[i].verb, "c", j == 2 ? NONE : task, verbs[i].more);
            const char *line = client_line(who[j]);
            bool is_damage =
                failure ==
                STORE_CORRUPT; /* told with the id that was asked for, and not for ever again */
            assert_non_null(
                strstr(line, is_damage ? json("'code':'internal'") : json("'code':'overloaded'")));
            assert_true(is_damage == !strstr(line, json("'retry_after_ms'")));
            assert_true(!is_damage || strstr(line, j == 2 ? NONE : task));
            if (j > 0 && !(is_damage && j == 2))
                assert_string_equal(line, first);
            snprintf(first, sizeof first, "%s", line);
            client_expect_nothing(who[j]);
            store_inline_fail_queries(k->inline_store, 0, STORE_OK);
            kit_settle(k);
            client_expect_nothing(who[j]);
            client_free(who[j]);
        }
    }
}

static void test_hub_unreadable_owner_is_overloaded_for_everyone(void **state)
{
    struct kit *k = *state;
    static const enum store_error failures[] = {STORE_IO, STORE_BUSY, STORE_CORRUPT, STORE_FULL};
    struct client *ann = client_new(k, "ann");
    char task[TASK_ID_LEN + 1];
    snprintf(task, sizeof task, "%s", client_start(ann, "c", "hi"));
    end_first_run(k, ann);
    client_free(ann);
    for (size_t f = 0; f < countof(failures); f++) {
        kit_crash(k); /* nothing of the task is in memory */
        check_all(k, task, failures[f]);
        assert_int_equal(k->n_runs, 1);
        ann = client_new(k, "ann");
        client_ask(ann, "resume", "c", task, "");
        assert_non_null(strstr(client_await(ann, json("'resumed'")), json("'head':5")));
        client_await(ann, json("'caught_up'"));
        client_free(ann);
        struct client *bob = client_new(k, "bob");
        client_ask(bob, "resume", "c", task, "");
        client_await(bob, json("'code':'not_found'"));
        client_free(bob);
    }
}

static void test_hub_unreadable_lists_are_overloaded_and_not_empty(void **state)
{
    struct kit *k = *state;
    struct client *ann = client_new(k, "ann");
    client_start(ann, "c", "hi");
    end_first_run(k, ann);
    for (size_t i = 0; i < countof(lists); i++) {
        char line[128];
        store_inline_fail_queries(k->inline_store, 1000, STORE_IO);
        snprintf(line, sizeof line, json("{'type':'%s','id':'q'%s}"), lists[i],
                 strcmp(lists[i], "conversations") == 0 ? "" : json(",'conversation_id':'c'"));
        client_say(ann, line);
        client_await(ann, json("'code':'overloaded'"));
        client_expect_nothing(ann);
        store_inline_fail_queries(k->inline_store, 0, STORE_OK);
        client_say(ann, line);
        assert_null(strstr(client_await(ann, json("'id':'q'")), "error"));
    }
    client_free(ann);
}

/* A key that cannot be looked up starts nothing: else a repeat would start the work twice. */
static void test_hub_unreadable_request_key_starts_nothing(void **state)
{
    static const char chat[] = "{\"type\":\"chat\",\"id\":\"k\",\"conversation_id\":\"c\","
                               "\"message\":\"hi\",\"request_key\":\"key\"}";
    struct kit *k = *state;
    struct client *ann = client_new(k, "ann");
    client_say(ann, chat);
    client_await(ann, json("'started'"));
    end_first_run(k, ann);
    store_inline_fail_queries(k->inline_store, 1000, STORE_IO);
    client_say(ann, chat);
    client_await(ann, json("'code':'overloaded'"));
    assert_int_equal(k->n_runs, 1);
    store_inline_fail_queries(k->inline_store, 0, STORE_OK);
    client_say(ann, chat);
    client_await(ann, json("'repeated':true"));
    assert_int_equal(k->n_runs, 1);
    client_free(ann);
}

/* An answer that does not come is waited for: neither allowed nor refused meanwhile. */
static void test_hub_answer_that_does_not_come_is_waited_for(void **state)
{
    struct kit *k = *state;
    struct client *ann = client_new(k, "ann");
    char task[TASK_ID_LEN + 1];
    snprintf(task, sizeof task, "%s", client_start(ann, "c", "hi"));
    end_first_run(k, ann);
    client_free(ann);
    kit_crash(k);
    struct client *bob = client_new(k, "bob");
    client_await(bob, "welcome");
    char line[256];
    snprintf(line, sizeof line, json("{'type':'resume','conversation_id':'c','task_id':'%s'}"),
             task);
    session_receive(&bob->session, str_of(line));
    for (int i = 0; i < 100; i++) {
        k->hub.clock.now_ms += 100;
        kit_turn(k);
    }
    client_expect_nothing(bob);
    kit_settle(k);
    client_expect(bob, json("'code':'not_found'"));
    client_expect_nothing(bob);
    client_free(bob);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_unreadable_owner_is_overloaded_for_everyone),
        TEST(test_hub_unreadable_lists_are_overloaded_and_not_empty),
        TEST(test_hub_unreadable_request_key_starts_nothing),
        TEST(test_hub_answer_that_does_not_come_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
