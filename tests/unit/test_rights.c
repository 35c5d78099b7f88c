/* The claim of a narrowed token: what it is, and what it allows. */
#include "proto/rights.h"
#include "tests/support/t.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define OTHER "01ARZ3NDEKTSV4RRFFQ69G5FAW"

static struct rights *read_claim(const char *text)
{
    struct js_doc doc = {0};
    assert_true(js_parse(&doc, text, strlen(text), JS_ANY_NUMBER));
    struct rights *r = rights_read(&doc, 0, STR_NULL);
    js_done(&doc);
    return r;
}

static void test_rights_that_are_not_understood_are_none(void **state)
{
    (void)state;
    static const char of_two[] =
        "{'conversations':[{'prefix':'c','task_id':'" TID "','rights':['read']}]}";
    static const char *const rows[] = {
        "'c'",
        "[]",
        "{'only':1}",
        "{'actor':''}",
        "{'actor':1}",
        "{'conversations':'c'}",
        "{'conversations':['c']}",
        "{'conversations':[{'rights':['read']}]}",
        "{'conversations':[{'id':'','rights':['read']}]}",
        "{'conversations':[{'id':'c'}]}",
        "{'conversations':[{'id':'c','rights':[]}]}",
        "{'conversations':[{'id':'c','rights':'read'}]}",
        "{'conversations':[{'id':'c','rights':['Read']}]}",
        "{'conversations':[{'id':'c','prefix':'c','rights':['read']}]}",
        "{'conversations':[{'id':'c','rights':['read'],'until':1}]}",
        of_two,
        "{'conversations':[{'id':'c','task_id':'','rights':['read']}]}",
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (read_claim(t_json(rows[i])))
            fail_msg("%s", rows[i]);
    struct buf many = {0};
    for (int n = MAX_SCOPES; n <= MAX_SCOPES + 1; n++) {
        buf_clear(&many);
        buf_puts(&many, "{\"conversations\":[");
        for (int i = 0; i < n; i++)
            buf_putf(&many, "%s{\"id\":\"c%d\",\"rights\":[\"read\"]}", i ? "," : "", i);
        buf_puts(&many, "]}");
        buf_putc(&many, 0);
        struct rights *r = read_claim(many.bytes);
        assert_int_equal(r != NULL, n == MAX_SCOPES);
        rights_unref(r);
    }
    buf_done(&many);
}

static void test_rights_allow_what_they_name(void **state)
{
    (void)state;
    static const struct {
        const char *conversation, *task;
        unsigned need;
        bool allowed;
    } rows[] = {
        {"c", NULL, RIGHT_READ, true},
        {"c", NULL, RIGHT_READ | RIGHT_ASK, true}, /* of two entries together */
        {"c", NULL, RIGHT_CANCEL, false},
        {"c", NULL, 0, false}, /* what only the owner may */
        {"c", TID, RIGHT_READ, true},
        {"cc", NULL, RIGHT_READ, false},
        {"C", NULL, RIGHT_READ, false},
        {"", NULL, RIGHT_READ, false},
        {"team-1", NULL, RIGHT_ANSWER, true},
        {"team-", NULL, RIGHT_ANSWER, true},
        {"team", NULL, RIGHT_ANSWER, false},
        {"team-1", NULL, RIGHT_READ, false},
        {"t", TID, RIGHT_READ, true},
        {"t", OTHER, RIGHT_READ, false},
        {"t", NULL, RIGHT_READ, false},
        {"t", "", RIGHT_READ, false},
    };
    struct rights *r = read_claim(
        json("{'conversations':[{'id':'c','rights':['read']},{'rights':['ask'],'id':'\\u0063'},"
             "{'prefix':'team-','rights':['answer']},{'id':'t','task_id':'" TID
             "','rights':['read']}], 'actor':'b\\u00f6b'}"));
    assert_non_null(r);
    assert_text(r->actor, "b\xc3\xb6"
                          "b");
    assert_false(rights_are_whole(r));
    for (size_t i = 0; i < countof(rows); i++) {
        struct str task = rows[i].task ? str_of(rows[i].task) : STR_NULL;
        if (rights_allow(r, str_of(rows[i].conversation), task, rows[i].need) != rows[i].allowed)
            fail_msg("row %zu", i);
    }
    rights_unref(r);
}

static void test_rights_of_everything(void **state)
{
    (void)state;
    struct rights *actor = read_claim(json("{'actor':'bob'}"));
    struct rights *all = read_claim(json("{'conversations':[{'prefix':'','rights':['ask']}]}"));
    struct rights *none = read_claim(json("{'conversations':[]}"));
    assert_true(rights_are_whole(NULL) && rights_allow(NULL, STR("c"), STR_NULL, 0));
    assert_true(rights_are_whole(actor) && rights_allow(actor, STR("c"), STR_NULL, 0));
    assert_true(rights_allow(all, STR(""), STR_NULL, RIGHT_ASK)); /* a name that is not known yet */
    assert_false(rights_allow(all, STR("c"), STR_NULL, 0));
    assert_false(rights_allow(none, STR(""), STR_NULL, RIGHT_READ));
    assert_false(rights_equal(all, none) || rights_equal(NULL, none));
    assert_true(rights_equal(none, none) && rights_equal(NULL, NULL));
    struct buf words = {0};
    rights_put_words(&words, RIGHT_READ | RIGHT_CANCEL);
    assert_text(buf_str(&words), json("['read','cancel']"));
    buf_done(&words);
    rights_unref(actor);
    rights_unref(all);
    rights_unref(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rights_that_are_not_understood_are_none),
        cmocka_unit_test(test_rights_allow_what_they_name),
        cmocka_unit_test(test_rights_of_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
