/* Edited messages, answers that are made again, and the choice between branches. */
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

static void answer(struct kit *k, size_t run, const char *text)
{
    char line[256];
    snprintf(line, sizeof line, json("{'event':'final_answer','data':{'output':'%s'}}"), text);
    run_say(k, kit_run(k, run), line);
    run_end(k, kit_run(k, run), RUN_DONE, "");
}

/* Asks with these members more, and returns the reply. */
static const char *ask_with(struct client *c, const char *more)
{
    char line[512];
    snprintf(line, sizeof line, json("{'type':'chat','id':'x','conversation_id':'c'%s}"), more);
    client_say(c, line);
    return client_await(c, json("'id':'x'"));
}

static const char *place(struct client *c, const char *how, const char *id, const char *message)
{
    char more[256];
    snprintf(more, sizeof more, json(",'%s':'%s'%s%s%s"), how, id, message ? ",\"message\":\"" : "",
             message ? message : "", message ? "\"" : "");
    return ask_with(c, more);
}

/* The conversation as open gives it: contents with a blank between. */
static const char *path_of(struct client *c, const char *expected)
{
    static char said[512];
    static char line[4096];
    client_say(c, json("{'type':'history','id':'h','conversation_id':'c'}"));
    snprintf(line, sizeof line, "%s", client_await(c, json("'id':'h'")));
    said[0] = 0;
    for (const char *at = line; (at = strstr(at, json("'content':'"))) != NULL;) {
        at += strlen(json("'content':'"));
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%.*s", said[0] ? " " : "",
                 (int)strcspn(at, json("'")), at);
    }
    assert_string_equal(said, expected);
    return line;
}

/* The id of the message with that content in the conversation's branch. */
static const char *id_of(struct client *c, const char *content)
{
    static char ids[8][TASK_ID_LEN + 1];
    static size_t turn;
    char *id = ids[turn++ % countof(ids)], what[128];
    client_say(c, json("{'type':'history','id':'h','conversation_id':'c','all':true}"));
    const char *line = client_await(c, json("'id':'h'")), *at = line;
    snprintf(what, sizeof what, json("'content':'%s'"), content);
    const char *found = strstr(line, what);
    assert_non_null(found);
    for (const char *next; (next = strstr(at + 1, json("{'message_id':'"))) && next < found;)
        at = next;
    snprintf(id, sizeof ids[0], "%s", line_field(at, "message_id"));
    return id;
}

static void test_history_of_an_edited_message_ends_above_it(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "one");
    answer(k, 0, "two");
    client_start(c, "c", "three");
    answer(k, 1, "four");
    assert_non_null(strstr(place(c, "edit", id_of(c, "three"), "drei"), json("'started'")));
    assert_string_equal(kit_run(k, 2)->history.bytes,
                        json("[{'role':'user','content':'one'},"
                             "{'role':'assistant','content':'two'}]"));
    answer(k, 2, "vier");
    const char *line = path_of(c, "one two drei vier");
    assert_non_null(strstr(line, json("'siblings':[")));
    place(c, "edit", id_of(c, "one"), "eins");
    assert_string_equal(kit_run(k, 3)->history.bytes, "[]");
    answer(k, 3, "zwei");
    path_of(c, "eins zwei");
    client_free(c);
}

static void test_reply_goes_on_from_an_older_message(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "one");
    answer(k, 0, "two");
    client_start(c, "c", "three");
    answer(k, 1, "four");
    place(c, "reply_to", id_of(c, "two"), "other");
    assert_non_null(strstr(kit_run(k, 2)->history.bytes, "two"));
    assert_null(strstr(kit_run(k, 2)->history.bytes, "three"));
    answer(k, 2, "one more");
    path_of(c, "one two other one more");
    client_free(c);
}

/* The question is asked once more, of the same agent, and stands there once. */
static void test_regenerated_answer_is_a_sibling(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    ask_with(c, json(",'message':'one','agent':'second'"));
    answer(k, 0, "two");
    client_start(c, "c", "three");
    answer(k, 1, "four");
    const char *started = place(c, "regenerate", id_of(c, "two"), NULL);
    assert_non_null(strstr(started, json("'question_id':'")));
    assert_non_null(strstr(started, json("'agent':'second'")));
    assert_string_equal(kit_run(k, 2)->input, "one");
    assert_string_equal(kit_run(k, 2)->history.bytes, "[]");
    path_of(c, "one");
    answer(k, 2, "zwei");
    path_of(c, "one zwei");
    client_start(c, "c", "drei");
    assert_string_equal(kit_run(k, 3)->history.bytes,
                        json("[{'role':'user','content':'one'},"
                             "{'role':'assistant','content':'zwei'}]"));
    answer(k, 3, "vier");
    client_say(c, json("{'type':'open','id':'o','conversation_id':'c'}"));
    const char *line = client_await(c, json("'id':'o'"));
    assert_non_null(strstr(line, json("'branch':{'message_id':'")));
    client_free(c);
}

static void test_failed_task_is_tried_again(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "one");
    assert_non_null(strstr(place(c, "regenerate", task, NULL), json("'code':'conflict'")));
    run_end(k, kit_run(k, 0), RUN_FAILED, "no");
    const char *again = line_field(place(c, "regenerate", task, NULL), "task_id");
    run_end(k, kit_run(k, 1), RUN_FAILED, "no");
    path_of(c, "one");
    place(c, "regenerate", again, NULL); /* a task that has no message of its own */
    answer(k, 2, "two");
    path_of(c, "one two");
    client_free(c);
}

static void test_branch_is_chosen_for_everybody(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *other = client_new(k, "ann");
    client_start(c, "c", "one");
    answer(k, 0, "two");
    client_say(other, json("{'type':'open','id':'o','conversation_id':'c'}"));
    client_await(other, json("'id':'o'"));
    const char *edited = id_of(c, "one");
    place(c, "edit", edited, "eins");
    const char *pushed = client_await(other, json("'content':'eins'"));
    assert_non_null(strstr(pushed, json("'siblings':['")));
    client_await(other, json("{'type':'branch','conversation_id':'c','message_id':'"));
    answer(k, 1, "zwei");
    assert_non_null(strstr(client_await(other, json("'content':'zwei'")), json("'parent_id':'")));
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'branch','id':'b','conversation_id':'c','message_id':'%s'}"), edited);
    client_say(c, line);
    const char *two = id_of(c, "two"), *reply = client_await(other, json("{'type':'branch'"));
    assert_string_equal(line_field(reply, "message_id"), two);
    path_of(c, "one two");
    client_say(c, line); /* again: nobody hears of what has not changed */
    client_await(c, json("{'type':'branch','id':'b'"));
    client_expect_nothing(other);
    client_free(c);
    client_free(other);
}

/* An answer that comes when another branch was chosen changes nothing there. */
static void test_answer_of_a_branch_that_was_left(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "one");
    answer(k, 0, "two");
    const char *two = id_of(c, "two");
    const char *task = line_field(place(c, "regenerate", two, NULL), "task_id");
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'branch','id':'b','conversation_id':'c','message_id':'%s'}"), two);
    client_say(c, line);
    client_start(c, "c", "three");
    answer(k, 1, "zwei");
    path_of(c, "one two three");
    answer(k, 2, "four");
    snprintf(line, sizeof line,
             json("{'type':'branch','id':'b','conversation_id':'c','message_id':'%s'}"), task);
    client_say(c, line); /* a task stands for its answer */
    path_of(c, "one zwei");
    client_free(c);
}

/* A queued question has the answer that it waited for in its history, also after a
 * restart. */
static void test_queued_question_knows_the_answer_before_it(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "one");
    answer(k, 0, "two");
    place(c, "regenerate", id_of(c, "two"), NULL);
    ask_with(c, json(",'message':'three','when_busy':'enqueue'"));
    client_free(c);
    kit_crash(k); /* run 1 ends as orphaned, without a word; the queue goes on */
    assert_string_equal(kit_run(k, 2)->input, "three");
    assert_string_equal(kit_run(k, 2)->history.bytes, json("[{'role':'user','content':'one'}]"));
    c = client_new(k, "ann");
    ask_with(c, json(",'message':'five','when_busy':'enqueue'"));
    answer(k, 2, "four");
    assert_string_equal(kit_run(k, 3)->history.bytes,
                        json("[{'role':'user','content':'one'},"
                             "{'role':'user','content':'three'},"
                             "{'role':'assistant','content':'four'}]"));
    answer(k, 3, "six");
    client_free(c);
}

static void test_faults_are_named(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    const char *task = client_start(c, "c", "one");
    answer(k, 0, "two");
    const char *two = id_of(c, "two"), *one = id_of(c, "one");
    assert_non_null(
        strstr(place(c, "edit", two, "x"), "\\\"edit\\\" names no message of the user"));
    assert_non_null(
        strstr(place(c, "regenerate", one, NULL), "\\\"regenerate\\\" names no answer"));
    assert_non_null(strstr(place(c, "edit", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x"),
                           json("'code':'not_found','message':'no such message'")));
    const char *nothing = place(other, "edit", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x");
    char expected[256];
    snprintf(expected, sizeof expected, "%s", nothing);
    assert_string_equal(place(other, "edit", one, "x"), expected);
    assert_string_equal(place(other, "regenerate", task, NULL), expected);
    assert_string_equal(place(other, "reply_to", two, "x"), expected);
    client_free(c);
    client_free(other);
}

/* A repeat is the same request; the place is not compared, but that it is one. */
static void test_regenerate_once_with_a_request_key(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "one");
    answer(k, 0, "two");
    char more[256];
    snprintf(more, sizeof more, json(",'regenerate':'%s','request_key':'k'"), id_of(c, "two"));
    const char *first = ask_with(c, more);
    assert_null(strstr(first, "repeated"));
    char id[TASK_ID_LEN + 1];
    snprintf(id, sizeof id, "%s", line_field(first, "task_id"));
    const char *second = ask_with(c, more);
    assert_non_null(strstr(second, json("'repeated':true")));
    assert_string_equal(line_field(second, "task_id"), id);
    assert_non_null(
        strstr(ask_with(c, json(",'message':'one','request_key':'k'")), json("'code':'conflict'")));
    answer(k, 1, "zwei");
    client_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_history_of_an_edited_message_ends_above_it),
        TEST(test_reply_goes_on_from_an_older_message),
        TEST(test_regenerated_answer_is_a_sibling),
        TEST(test_failed_task_is_tried_again),
        TEST(test_branch_is_chosen_for_everybody),
        TEST(test_answer_of_a_branch_that_was_left),
        TEST(test_queued_question_knows_the_answer_before_it),
        TEST(test_faults_are_named),
        TEST(test_regenerate_once_with_a_request_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
