/* A file that ends between a chat's look-up and its commit is named by no message. */
#include "tests/support/hub_kit.h"

#define FILE_ID "01HG0000000000000000000001"
#define BLOB "00000000000000000000000000000000000000000000000000000000000000aa"
#define CREATED 1764280000000
#define CHAT                                                  \
    "{'type':'chat','id':'q','conversation_id':'c','message'" \
    ":[{'type':'text','text':'look'},{'type':'file','file_id':'" FILE_ID "'}]}"
#define DELETE "{'type':'delete','id':'d','conversation_id':'c'}"

static int setup(void **state)
{
    struct kit *k = kit_new();
    *state = k;
    k->agents[0].takes_files = true;
    struct file_record file = {.owner = STR("ann"),
                               .conversation_id = STR("c"),
                               .file_id = STR(FILE_ID),
                               .name = STR("a"),
                               .media_type = STR("text/plain"),
                               .sha256 = STR(BLOB),
                               .blob = STR(BLOB),
                               .size = 1,
                               .created_at = CREATED};
    journal_put(&k->hub.journal, &(struct op){.kind = OP_FILE_PUT, .file = &file});
    kit_settle(k);
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static void expire(struct kit *k)
{
    chat_files_end(&k->hub, &(struct op){.kind = OP_FILES_EXPIRE, .at = CREATED + 1});
}

static void turn_until_written(struct kit *k)
{
    do
        kit_turn(k);
    while (store_inline_step_commit(k->inline_store));
}

/* The store has said that the file is there, and nobody has heard it yet. */
static struct client *chat_looked(struct kit *k)
{
    struct client *c = client_new(k, "ann");
    session_receive(&c->session, str_of(json(CHAT)));
    assert_int_equal(store_inline_next(k->inline_store), QUERY_FILE);
    assert_true(store_inline_ask(k->inline_store));
    return c;
}

static void expect_refusal(struct client *c)
{
    kit_settle(c->kit);
    client_await(c, json("'id':'q','code':'not_found','message':'no such file'"));
    assert_int_equal(c->kit->n_runs, 0);
    client_say(c, json("{'type':'history','id':'h','conversation_id':'c'}"));
    client_await(c, json("'id':'h'"));
    assert_null(strstr(c->got.bytes, json("'content':'look'")));
    client_free(c);
}

static void test_hub_file_expires_behind_the_look_up(void **state)
{
    struct kit *k = *state;
    struct client *c = chat_looked(k);
    expire(k);
    turn_until_written(k);
    expect_refusal(c);
}

static void test_hub_file_expires_and_the_look_up_hears_first(void **state)
{
    struct kit *k = *state;
    struct client *c = chat_looked(k);
    expire(k); /* staged, and not on disk when the answer comes */
    assert_true(store_inline_step_query(k->inline_store));
    expect_refusal(c);
}

static void test_hub_file_expires_before_the_look_up(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    expire(k); /* staged: the store would still say that it is there */
    session_receive(&c->session, str_of(json(CHAT)));
    expect_refusal(c);
}

static void test_hub_file_goes_with_its_conversation_behind_the_look_up(void **state)
{
    struct kit *k = *state;
    struct client *other = client_new(k, "ann");
    client_start(other, "c", "hi");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    struct client *c = chat_looked(k);
    session_receive(&other->session, str_of(json(DELETE)));
    turn_until_written(k);
    kit_settle(k);
    client_await(other, json("{'type':'ok','id':'d'}"));
    client_await(c, json("'id':'q','code':'not_found','message':'no such file'"));
    assert_int_equal(k->n_runs, 1);
    client_free(other);
    client_free(c);
}

static void test_hub_file_that_a_task_names_does_not_expire(void **state)
{
    struct kit *k = *state;
    struct client *c = chat_looked(k);
    assert_true(store_inline_step_query(k->inline_store)); /* staged in this turn */
    expire(k);
    kit_settle(k);
    client_await(c, json("'started'"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_say(c, json(CHAT)); /* it is still there */
    client_await(c, json("'started'"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

static void test_hub_chat_looks_again_for_its_own_files_alone(void **state)
{
    struct kit *k = *state;
    struct client *c = chat_looked(k);
    unsigned before = kit_passed[KIT_READ];
    chat_files_end(&k->hub, &(struct op){.kind = OP_CONVERSATION_DELETE,
                                         .owner = STR("ann"),
                                         .conversation_id = STR("other")});
    chat_files_end(&k->hub, &(struct op){.kind = OP_CONVERSATION_DELETE,
                                         .owner = STR("bob"),
                                         .conversation_id = STR("c")});
    assert_true(store_inline_step_query(k->inline_store));
    assert_int_equal(kit_passed[KIT_READ], before);
    kit_settle(k);
    client_await(c, json("'started'"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

static void test_hub_question_that_is_asked_again_names_its_files_too(void **state)
{
    struct kit *k = *state;
    char line[256];
    struct client *c = client_new(k, "ann");
    client_say(c, json(CHAT));
    const char *task = line_field(client_await(c, json("'started'")), "task_id");
    run_say(k, kit_run(k, 0), json("{'event':'final_answer','data':{'output':'x'}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    snprintf(line, sizeof line,
             json("{'type':'chat','id':'r','conversation_id':'c','regenerate':'%s'}"), task);
    client_say(c, line);
    client_await(c, json("'type':'started','id':'r'"));
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

static void test_hub_store_that_fails_at_the_look_up_refuses(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    store_inline_fail_queries(k->inline_store, 1, STORE_IO);
    client_say(c, json(CHAT));
    client_await(c, json("'id':'q','code':'overloaded'"));
    store_inline_fail_queries(k->inline_store, 1, STORE_CORRUPT);
    client_say(c, json(CHAT));
    client_await(c, json("'id':'q','code':'internal'"));
    client_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_file_expires_behind_the_look_up),
        TEST(test_hub_file_expires_and_the_look_up_hears_first),
        TEST(test_hub_file_expires_before_the_look_up),
        TEST(test_hub_file_goes_with_its_conversation_behind_the_look_up),
        TEST(test_hub_file_that_a_task_names_does_not_expire),
        TEST(test_hub_chat_looks_again_for_its_own_files_alone),
        TEST(test_hub_question_that_is_asked_again_names_its_files_too),
        TEST(test_hub_store_that_fails_at_the_look_up_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
