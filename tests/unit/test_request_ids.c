/* The two ids of a request about a task (PROTOCOL.md section 5: any fault of either is not_found),
 * and the same requests over HTTP, where the path brings the ids. */
#include "proto/parts.h"
#include "tests/support/request_kit.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"

static bool decode(struct str line)
{
    request_done(&request);
    return request_decode(&doc, line, false, &request, &fault);
}

/* Each verb about a task, with its other fields right. */
static const char *const task_verbs[] = {
    "\"type\":\"resume\",\"after\":3",
    "\"type\":\"unsubscribe\"",
    "\"type\":\"cancel\",\"tree\":false",
    "\"type\":\"send\",\"content\":\"x\"",
    "\"type\":\"respond\",\"input_id\":\"q\",\"answer\":true",
    "\"type\":\"task\"",
};

static void test_request_ids_any_fault_is_one_answer(void **state)
{
    (void)state;
    const char *const ids[] = {
        "",
        json(",'task_id':'" TID "'"),
        json(",'conversation_id':'c'"),
        json(",'task_id':'','conversation_id':'c'"),
        json(",'task_id':'" TID "','conversation_id':''"),
        json(",'task_id':null,'conversation_id':'c'"),
        json(",'task_id':'" TID "','conversation_id':null"),
        json(",'task_id':5,'conversation_id':'c'"),
        json(",'task_id':18446744073709551616,'conversation_id':'c'"),
        json(",'task_id':[{'x':9007199254740992}],'conversation_id':{'y':-9007199254740992}"),
        json(",'task_id':'" TID "','conversation_id':true"),
        json(",'task_id':'" TID "X','conversation_id':'c'"),
        json(",'task_id':'01arz3ndektsv4rrffq69g5fav','conversation_id':'c'"),
        json(",'task_id':'81ARZ3NDEKTSV4RRFFQ69G5FAV','conversation_id':'c'"),
        json(",'task_id':'a-name','conversation_id':'c'"),
        json(",'task_id':'" TID "\\u0000','conversation_id':'c'"),
        json(",'task_id':'" TID "','conversation_id':'/'"),
        json(",'task_id':'" TID "','conversation_id':'c\\u0000'"),
    };
    for (size_t v = 0; v < countof(task_verbs); v++) {
        for (size_t i = 0; i < countof(ids); i++) {
            char line[300];
            int n = snprintf(line, sizeof line, json("{'id':'7',%s%s}"), task_verbs[v], ids[i]);
            if (decode((struct str){line, (size_t)n}))
                fail_msg("accepted: %s", line);
            if (fault.code != ERR_NOT_FOUND || strcmp(fault.message, "no such task") != 0)
                fail_msg("%s: %s", line, fault.message);
            assert_false(fault.malformed);
            assert_string_equal(fault.id, "7");
        }
    }
}

static void test_request_ids_right_ones_are_accepted(void **state)
{
    (void)state;
    for (size_t v = 0; v < countof(task_verbs); v++) {
        char line[300];
        int n = snprintf(line, sizeof line,
                         json("{%s,'task_id':'\\u0030"
                              "1ARZ3NDEKTSV4RRFFQ69G5FAV',"
                              "'conversation_id':'\\u0063'}"),
                         task_verbs[v]);
        assert_true(decode((struct str){line, (size_t)n}));
        assert_text(request.task_id, TID);
        assert_text(request.conversation_id, "c");
        assert_true(verb_flags(request.verb) & VERB_TASK);
    }
}

static void test_request_ids_other_faults_come_first(void **state)
{
    (void)state;
    const char *const lines[] = {
        json("{'type':'resume','after':null}"),
        json("{'type':'resume','coalesce':5,'task_id':5}"),
        json("{'type':'cancel','conversation_id':'/','tree':'yes'}"),
        json("{'type':'send'}"),
        json("{'type':'send','content':null}"),
        json("{'type':'respond','answer':true}"),
        json("{'type':'respond','input_id':'','answer':true}"),
        json("{'type':'respond','input_id':'q'}"),
        json("{'type':'respond','input_id':'q','answer':null}"),
        json("{'type':'respond','input_id':'q','answer':1}"),
        json("{'type':'respond','input_id':'q','answer':{}}"),
    };
    for (size_t i = 0; i < countof(lines); i++) {
        assert_false(decode(str_of(lines[i])));
        if (fault.code != ERR_BAD_REQUEST)
            fail_msg("%s: %s", lines[i], fault.message);
    }
}

static void test_conversation_id_is_valid_by_its_characters(void **state)
{
    (void)state;
    char longest[130];
    memset(longest, 'a', sizeof longest);
    assert_true(conversation_id_is_valid((struct str){longest, 128}));
    assert_false(conversation_id_is_valid((struct str){longest, 129}));
    assert_false(conversation_id_is_valid(STR("")));
    assert_false(conversation_id_is_valid(STR_NULL));
    for (int c = 0; c < 256; c++) {
        char first[2] = {(char)c, 'a'}, second[2] = {'a', (char)c};
        bool letter =
            c && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", c);
        bool mark = c && strchr("._-", c);
        assert_int_equal(conversation_id_is_valid((struct str){first, 2}), letter);
        assert_int_equal(conversation_id_is_valid((struct str){second, 2}), letter || mark);
    }
}

/* --- over HTTP -------------------------------------------------------------------------------- */

static bool from_body(enum verb verb, struct str conversation_id, struct str task_id,
                      struct str body)
{
    request_done(&request);
    return request_from_body(&doc, verb, conversation_id, task_id, body, &request, &fault);
}

static void test_request_body_takes_the_ids_of_the_path(void **state)
{
    (void)state;
    assert_true(from_body(VERB_CHAT, STR("c-1"), STR_NULL,
                          str_of(json("{'type':5,'id':[],'task_id':18446744073709551616,"
                                      "'conversation_id':{},'message':'m'}"))));
    assert_int_equal(request.verb, VERB_CHAT);
    assert_text(request.conversation_id, "c-1");
    assert_text(request.message, "m");
    assert_null_span(request.id);
    assert_null_span(request.task_id);
    assert_true(from_body(VERB_RESUME, STR("c-1"), STR(TID), str_of(json("{'after':5}"))));
    assert_text(request.conversation_id, "c-1");
    assert_text(request.task_id, TID);
    assert_int_equal(request.after, 5);
    assert_true(from_body(VERB_TASKS, STR("c-1"), STR_NULL, STR("")));
    assert_int_equal(request.limit, 50);
    assert_true(from_body(VERB_CONVERSATIONS, STR_NULL, STR_NULL, STR_NULL));
    assert_true(from_body(VERB_CHAT, STR_NULL, STR_NULL, str_of(json("{'message':'m'}"))));
    assert_null_span(request.conversation_id);
}

static void test_request_body_faults_are_those_of_a_line(void **state)
{
    (void)state;
    const struct {
        enum verb verb;
        enum error code;
        struct str conversation_id, task_id, body;
        const char *message;
    } rows[] = {
        {VERB_CHAT,
         ERR_BAD_REQUEST,
         {"c", 1},
         {NULL, 0},
         {"", 0},
         "\"message\" is missing: it " PARTS_EXPECTED},
        {VERB_CHAT,
         ERR_BAD_REQUEST,
         {"/", 1},
         {NULL, 0},
         {json("{'message':'m'}"), 15},
         "\"conversation_id\" must be a string of 1 to 128 letters, digits, '.', '_' and '-', the "
         "first a letter or digit"},
        {VERB_HISTORY,
         ERR_BAD_REQUEST,
         {NULL, 0},
         {NULL, 0},
         {json("{'conversation_id':'c'}"), 23},
         "\"conversation_id\" is missing: it must be a string of 1 to 128 letters, digits, '.', '_' "
         "and '-', the first a letter or digit"},
        {VERB_TASK_GET, ERR_NOT_FOUND, {"c", 1}, {"x", 1}, {"", 0}, "no such task"},
        {VERB_TASK_GET, ERR_NOT_FOUND, {"/", 1}, {TID, 26}, {"", 0}, "no such task"},
        {VERB_TASK_GET, ERR_NOT_FOUND, {NULL, 0}, {NULL, 0}, {"", 0}, "no such task"},
        {VERB_SEND,
         ERR_BAD_REQUEST,
         {"c", 1},
         {"x", 1},
         {"", 0},
         "\"content\" is missing: it must be a string"},
        {VERB_SEND, ERR_BAD_REQUEST, {"c", 1}, {TID, 26}, {"[]", 2}, "not a JSON object"},
        {VERB_SEND,
         ERR_BAD_REQUEST,
         {"c", 1},
         {TID, 26},
         {"{", 1},
         "not JSON: unexpected end at byte 1"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        assert_false(
            from_body(rows[i].verb, rows[i].conversation_id, rows[i].task_id, rows[i].body));
        assert_string_equal(fault.message, rows[i].message);
        assert_int_equal(fault.code, rows[i].code);
        assert_false(fault.has_id);
    }
}

static void test_verb_flags_are_those_of_the_wire(void **state)
{
    (void)state;
    assert_int_equal(verb_flags(VERB_HELLO), VERB_BEFORE_WELCOME);
    assert_int_equal(verb_flags(VERB_CANCEL), VERB_TASK | VERB_CANCELS | VERB_WRITES);
    assert_int_equal(verb_flags(VERB_CANCEL_ALL), VERB_CANCELS | VERB_WRITES);
    assert_int_equal(verb_flags(VERB_WEBHOOKS), VERB_TASK);
    assert_int_equal(verb_flags(VERB_BRANCH), VERB_ASK | VERB_WRITES);
    assert_int_equal(verb_flags(VERB_SCHEDULE), VERB_WRITES);
    assert_int_equal(verb_flags(VERB_SCHEDULES), 0);
    assert_int_equal(verb_flags(VERB_FORK), VERB_WRITES);
    assert_int_equal(verb_flags(VERB_EXPORT), VERB_READ);
    assert_int_equal(verb_flags(VERB_IMPORT), VERB_WRITES);
    assert_int_equal(N_VERBS, 38);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_ids_any_fault_is_one_answer),
        TEST(test_request_ids_right_ones_are_accepted),
        TEST(test_request_ids_other_faults_come_first),
        TEST(test_conversation_id_is_valid_by_its_characters),
        TEST(test_request_body_takes_the_ids_of_the_path),
        TEST(test_request_body_faults_are_those_of_a_line),
        TEST(test_verb_flags_are_those_of_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
