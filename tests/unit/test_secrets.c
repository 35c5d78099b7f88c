/* Secrets of the configuration in texts, in JSON, and cut over pieces. */
#include "core/secrets.h"
#include "tests/support/t.h"

#include "proto/js.h"

#define KEY "sk-live-0123456789"
#define LONGER "sk-live-0123456789-and-more"
#define QUOTED "pa\"ss/wo\\rd\n"

static struct secrets *secrets;

static int setup(void **state)
{
    (void)state;
    secrets = secrets_new();
    secrets_add(secrets, STR(KEY));
    secrets_add(secrets, STR(LONGER));
    secrets_add(secrets, STR(QUOTED));
    secrets_add(secrets, STR(KEY));
    secrets_add(secrets, STR("short"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    secrets_free(secrets);
    return 0;
}

/* expected NULL: there is none in it. */
static void check(bool json, const char *text, const char *expected)
{
    struct buf out = {0};
    struct str in = str_of(text);
    bool found = json ? secrets_hide_json(secrets, in, &out) : secrets_hide(secrets, in, &out);
    assert_int_equal(found, expected != NULL);
    assert_int_equal(out.len, expected ? strlen(expected) : 0);
    if (expected)
        assert_string_equal(out.bytes, expected);
    buf_done(&out);
}

static void test_secrets_in_texts(void **state)
{
    (void)state;
    check(false, "", NULL);
    check(false, "nothing here, sk-live-012345678", NULL);
    check(false, KEY, "***");
    check(false, "a " KEY KEY ", b", "a ******, b");
    check(false, "x" LONGER "x", "x***x"); /* the longer one, whole */
    check(false, "short sk-live-01234567890", "short ***0");
}

static void test_secrets_in_json(void **state)
{
    (void)state;
    check(true, "{}", NULL);
    check(true, "{\"text\":\"\",\"n\":[1,true]}", NULL);
    check(true, "{\"text\":\"<" KEY ">\",\"n\":1}", "{\"text\":\"<***>\",\"n\":1}");
    check(true, "[\"\\\"" KEY "\"]", "[\"\\\"***\"]");
    check(true, "{\"" KEY "\" : 1}", NULL); /* the name of a member stays */
    check(true, "[\"\\u0073k-live\\u002D0123456789\"]", "[\"***\"]");
    check(true, "[\"pa\\\"ss\\/wo\\\\rd\\n!\"]", "[\"***!\"]"); /* with "/" escaped, or not */
    check(true, "[\"pa\\\"ss/wo\\\\rd\\u000a\"]", "[\"***\"]");
    check(true, "[\"\\ud83d\\ude00\\\\\", \"" KEY "\"]", "[\"\\ud83d\\ude00\\\\\", \"***\"]");
}

static void test_secrets_have_a_tail(void **state)
{
    (void)state;
    assert_int_equal(secrets_tail(secrets, STR("")), 0);
    assert_int_equal(secrets_tail(secrets, STR("no begin here")), 0);
    assert_int_equal(secrets_tail(secrets, STR("ends in s")), 1);
    assert_int_equal(secrets_tail(secrets, STR("ss")), 1);
    assert_int_equal(secrets_tail(secrets, STR("x sk-live-0")), 9);
    assert_int_equal(secrets_tail(secrets, STR("x " KEY)), strlen(KEY)); /* of the longer one */
    assert_int_equal(secrets_tail(NULL, STR("s")), 0);
}

/* Pieces of every size: what is let through joins to the text without its secrets. */
static void test_secrets_are_found_however_they_are_cut(void **state)
{
    static const char text[] = "s sk sk-" KEY " and " LONGER "," KEY "s" QUOTED "sk-live-";
    struct buf whole = {0};
    (void)state;
    assert_true(secrets_hide(secrets, str_of(text), &whole));
    for (size_t step = 1; step < sizeof text; step++) {
        struct buf held = {0}, out = {0};
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t n = sizeof text - 1 - at < step ? sizeof text - 1 - at : step;
            buf_put(&held, text + at, n);
            bool is_last = at + n == sizeof text - 1;
            size_t now = held.len - (is_last ? 0 : secrets_tail(secrets, buf_str(&held)));
            if (!secrets_hide(secrets, (struct str){held.bytes, now}, &out))
                buf_put(&out, held.bytes, now);
            buf_consume(&held, now);
        }
        assert_int_equal(out.len, whole.len);
        assert_memory_equal(out.bytes, whole.bytes, out.len);
        buf_done(&held);
        buf_done(&out);
    }
    buf_done(&whole);
}

#define SECRETS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SECRETS_TEST(test_secrets_in_texts),
        SECRETS_TEST(test_secrets_in_json),
        SECRETS_TEST(test_secrets_have_a_tail),
        SECRETS_TEST(test_secrets_are_found_however_they_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
