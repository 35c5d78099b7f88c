/* The conversation as a model is given it: what is left out when it grows too long. */
#include "gateway/agents/talk.h"
#include "tests/support/t.h"

static struct talk talk;

static int setup(void **state)
{
    (void)state;
    talk_init(&talk);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    talk_done(&talk);
    return 0;
}

static void put_call(const char *id)
{
    talk_begin(&talk, TALK_ASSISTANT);
    js_put_field(&talk.json, "call", str_of(id));
    talk_end(&talk, false);
    talk_put(&talk, TALK_TOOL, str_of(id), false);
}

static void expect(const char *contents)
{
    struct buf seen = {0};
    struct js_doc doc = {0};
    struct str all = talk_str(&talk);
    assert_true(js_parse(&doc, all.p, all.n, JS_AGENT));
    for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i)) {
        uint32_t text = js_get(&doc, i, "content");
        js_value(&doc, text ? text : js_get(&doc, i, "call"), &seen);
        buf_putc(&seen, text ? ' ' : '>');
    }
    if (!str_eq(buf_str(&seen), str_of(contents)))
        fail_msg("got %s, want %s", buf_str(&seen).p, contents);
    js_done(&doc);
    buf_done(&seen);
}

static size_t count(const char *word)
{
    struct str all = talk_str(&talk);
    size_t n = 0;
    for (size_t i = 0; i + strlen(word) <= all.n; i++)
        n += memcmp(all.p + i, word, strlen(word)) == 0;
    return n;
}

static size_t shorten_by_one(void)
{
    return talk_shorten(&talk, talk.json.len);
}

static void test_talk_leaves_out_the_oldest_question_with_its_answer(void **state)
{
    struct js_doc doc = {0};
    (void)state;
    talk_put(&talk, TALK_SYSTEM, STR("s"), true);
    assert_true(talk_put_history(
        &talk, &doc,
        str_of(json("[{'role':'user','content':'q1'},{'role':'assistant','content':'a1'},"
                    "{'role':'user','content':'q2'},{'role':'assistant','content':'a2'}]"))));
    talk_put(&talk, TALK_USER, STR("now"), true);
    put_call("c1");
    put_call("c2");
    expect("s q1 a1 q2 a2 now c1>c1 c2>c2 ");
    assert_int_equal(talk_shorten(&talk, talk.json.len + 1), 0); /* just fits */
    assert_int_equal(shorten_by_one(), 2);
    expect("s q2 a2 now c1>c1 c2>c2 ");
    assert_int_equal(shorten_by_one(), 2);
    expect("s now c1>c1 c2>c2 ");
    assert_int_equal(shorten_by_one(), 2);
    expect("s now c2>c2 ");
    assert_int_equal(shorten_by_one(), 0); /* what came last stays */
    expect("s now c2>c2 ");
    talk_put(&talk, TALK_USER, STR("more"), false);
    assert_int_equal(talk_shorten(&talk, 1), 2);
    expect("s now [This message got no answer.] more ");
}

static void test_talk_without_a_system_message(void **state)
{
    (void)state;
    talk_put(&talk, TALK_USER, STR("q1"), false);
    talk_put(&talk, TALK_ASSISTANT, STR("a1"), false);
    talk_put(&talk, TALK_USER, STR("q2"), false);
    talk_put(&talk, TALK_USER, STR("now"), true);
    assert_int_equal(shorten_by_one(), 2);
    expect("q2 [This message got no answer.] now ");
    assert_int_equal(talk_shorten(&talk, 1), 1);
    expect("now ");
    put_call("c");
    expect("now c>c ");
}

static void test_g02_g26_talk_takes_turns(void **state)
{
    const struct {
        const char *history, *expected;
    } table[] = {
        {"[]", "s now "},
        {json("[{'role':'user','content':'q'}]"), "s q [This message got no answer.] now "},
        {json("[{'role':'assistant','content':'a0'},{'role':'user','content':'q'},"
              "{'role':'assistant','content':'a'}]"),
         "s q a now "},
        {json("[{'role':'user','content':'q'},{'role':'assistant','content':'a'},"
              "{'role':'system','content':'news'},{'role':'user','content':'r'},"
              "{'role':'assistant','content':'b'},{'role':'assistant','content':'c'}]"),
         "s q a news [This message got no answer.] r b [The question is no longer known.] c now "},
    };
    struct js_doc doc = {0};
    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        talk_done(&talk);
        talk_init(&talk);
        talk_put(&talk, TALK_SYSTEM, STR("s"), true);
        assert_true(talk_put_history(&talk, &doc, str_of(table[i].history)));
        talk_put(&talk, TALK_USER, STR("now"), true);
        expect(table[i].expected);
        assert_int_equal(count(json("'system'")), 1);
        size_t size = talk_str(&talk).n;
        assert_int_equal(talk_size(&talk) + 1, size);
        assert_int_equal(talk_shorten(&talk, size), 0);
    }
}

static void test_talk_history_that_is_none(void **state)
{
    struct js_doc doc = {0};
    (void)state;
    assert_false(talk_put_context(&talk, &doc, STR_NULL, STR("{}")));
    assert_false(talk_put_history(&talk, &doc, STR("{}")));
    assert_false(talk_put_history(&talk, &doc, STR("[")));
    assert_true(talk_put_history(&talk, &doc, STR("[]")));
    expect("");
    js_done(&doc);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* PROTOCOL.md 8: one system message, in front, the agent's own first. */
static void test_context_instructs_in_one_system_message(void **state)
{
    (void)state;
    static const struct {
        const char *system, *context, *json;
    } table[] = {
        {"own", "[]", "[{\"role\":\"system\",\"content\":\"own\"}]"},
        {NULL, "[]", "[]"},
        {NULL, "[{\"role\":\"system\",\"content\":\"a\"}]",
         "[{\"role\":\"system\",\"content\":\"a\"}]"},
        {"own",
         "[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"q\"},"
         "{\"role\":\"assistant\",\"content\":\"r\"},{\"role\":\"system\",\"content\":\"b\"}]",
         "[{\"role\":\"system\",\"content\":\"own\\n\\na\\n\\nb\"},"
         "{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"r\"}]"},
    };
    struct js_doc doc = {0};
    for (size_t i = 0; i < countof(table); i++) {
        talk_done(&talk);
        talk_init(&talk);
        assert_true(
            talk_put_context(&talk, &doc, str_of(table[i].system), str_of(table[i].context)));
        struct str got = talk_str(&talk);
        assert_int_equal(got.n, strlen(table[i].json));
        assert_memory_equal(got.p, table[i].json, got.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_talk_leaves_out_the_oldest_question_with_its_answer),
        TEST(test_talk_without_a_system_message),
        TEST(test_g02_g26_talk_takes_turns),
        TEST(test_talk_history_that_is_none),
        TEST(test_context_instructs_in_one_system_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
