/* A chat brings along a context in place of the history, and may make a conversation that no list
 * shows. */
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

#define CONTEXT                                             \
    "'context':[{'role':'developer','content':'be short'}," \
    "{'content':'so?','role':'user','name':'ann'}]"
#define AS_HISTORY "[{'role':'system','content':'be short'},{'role':'user','content':'so?'}]"

static void answer(struct kit *k, size_t run)
{
    run_say(k, kit_run(k, run), json("{'event':'final_answer','data':{'output':'two'}}"));
    run_end(k, kit_run(k, run), RUN_DONE, "");
}

static void test_context_takes_the_place_of_the_history(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "one");
    answer(k, 0);
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'three'," CONTEXT "}"));
    assert_string_equal(kit_run(k, 1)->history.bytes, json(AS_HISTORY));
    answer(k, 1);
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'x','context':[]}"));
    assert_string_equal(kit_run(k, 2)->history.bytes, "[]");
    answer(k, 2);
    client_say(c, json("{'type':'chat','message':'alone','background':true," CONTEXT "}"));
    assert_string_equal(kit_run(k, 3)->history.bytes, json(AS_HISTORY));
    answer(k, 3);
    client_start(c, "c", "again"); /* of that task alone: the next one has the stored history */
    assert_non_null(strstr(kit_run(k, 4)->history.bytes, json("'content':'one'")));
    assert_null(strstr(kit_run(k, 4)->history.bytes, "be short"));
    answer(k, 4);
    client_free(c);
}

static void test_context_is_there_after_a_restart_until_its_agent_starts(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "runs");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'waits',"
                       "'when_busy':'enqueue'," CONTEXT "}"));
    client_await(c, json("'started'"));
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 2);
    assert_string_equal(kit_run(k, 1)->input, "waits");
    assert_string_equal(kit_run(k, 1)->history.bytes, json(AS_HISTORY));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
}

static bool is_listed(struct client *c, const char *id)
{
    char name[64];
    snprintf(name, sizeof name, json("'conversation_id':'%s'"), id);
    client_say(c, json("{'type':'conversations'}"));
    return strstr(client_await(c, json("{'type':'conversations'")), name) != NULL;
}

static bool has_heard(const struct client *watcher, const char *id)
{
    char name[64];
    snprintf(name, sizeof name, json("'conversation_id':'%s'"), id);
    return watcher->got.len && strstr(watcher->got.bytes, name) != NULL;
}

static void test_unlisted_conversation_is_in_no_list_and_no_push(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *w = client_new(k, "ann");
    client_say(w, json("{'type':'watch'}"));
    client_say(c, json("{'type':'chat','conversation_id':'u','message':'hi','unlisted':true}"));
    answer(k, 0);
    client_start(c, "c", "hi");
    answer(k, 1);
    client_start(c, "u", "more"); /* and stays so */
    answer(k, 2);
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'x','unlisted':true}"));
    answer(k, 3);
    assert_true(is_listed(c, "c")); /* one that was there is not hidden */
    assert_false(is_listed(c, "u"));
    client_say(c, json("{'type':'history','conversation_id':'u'}")); /* all else is as ever */
    assert_non_null(strstr(client_await(c, json("'type':'history'")), json("'content':'more'")));
    client_say(c, json("{'type':'title','conversation_id':'u','title':'t'}"));
    client_await(c, json("'ok'"));
    client_say(c, json("{'type':'delete','conversation_id':'u'}"));
    client_await(c, json("'ok'"));
    assert_false(has_heard(w, "u"));
    assert_true(has_heard(w, "c"));
    client_start(c, "u", "anew"); /* the id is free again */
    answer(k, 4);
    assert_true(is_listed(c, "u"));
    assert_true(has_heard(w, "u"));
    client_free(w);
    client_free(c);
}

static void test_unlisted_conversation_is_not_told_to_be_deleted_after_a_restart(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'chat','conversation_id':'u','message':'hi','unlisted':true}"));
    answer(k, 0);
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    struct client *w = client_new(k, "ann");
    client_say(w, json("{'type':'watch'}"));
    client_say(c, json("{'type':'delete','conversation_id':'u'}"));
    client_await(c, json("'ok'"));
    assert_false(has_heard(w, "u"));
    client_free(w);
    client_free(c);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_context_takes_the_place_of_the_history),
        HUB_TEST(test_context_is_there_after_a_restart_until_its_agent_starts),
        HUB_TEST(test_unlisted_conversation_is_in_no_list_and_no_push),
        HUB_TEST(test_unlisted_conversation_is_not_told_to_be_deleted_after_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
