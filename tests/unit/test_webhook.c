#include "proto/webhook.h"
#include "tests/support/t.h"

static struct js_doc doc;
static struct buf out;

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    js_done(&doc);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static bool takes(const char *json)
{
    uint32_t id;
    assert_true(js_parse(&doc, json, strlen(json), JS_CLIENT));
    buf_clear(&out);
    return webhook_read(&doc, 0, &out, &id);
}

static void test_webhook_is_kept_without_its_id(void **state)
{
    (void)state;
    assert_true(
        takes("{ \"form\" : \"a2a\", \"webhook_id\": \"x\", \"url\": \"https://h:1/p?q=1#f\","
              " \"headers\": {\"Authorization\": \"Bearer s\"}, \"other\": 1}"));
    assert_text(buf_str(&out), "{\"url\":\"https://h:1/p?q=1#f\",\"headers\":{\"Authorization\":"
                               "\"Bearer s\"},\"form\":\"a2a\"}");
    assert_true(takes("{\"url\":\"http://[::1]:8/a@b\"}"));
    assert_text(buf_str(&out), "{\"url\":\"http://[::1]:8/a@b\"}");
}

static void test_url_has_a_host_and_no_user(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"url\":1}",
        "{\"url\":\"http://\"}",
        "{\"url\":\"http:///x\"}",
        "{\"url\":\"http://:80/\"}",
        "{\"url\":\"http://?x\"}",
        "{\"url\":\"HTTP://x/\"}",
        "{\"url\":\"file:///etc/passwd\"}",
        "{\"url\":\"http://u@x/\"}",
        "{\"url\":\"http://x\\\\@y/\"}",
        "{\"url\":\"http://x/\\u0000\"}",
        "{\"url\":\"http://x/\\u00e4\"}",
    };
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(takes(bad[i]));
}

static void test_headers_are_those_that_nobody_else_sets(void **state)
{
    (void)state;
#define HEADERS(h) "{\"url\":\"http://x/\",\"headers\":{" h "}}"
    static const char *const bad[] = {
        HEADERS("\"\":\"x\""),
        HEADERS("\"a\":\"\""),
        HEADERS("\"a\":null"),
        HEADERS("\"a:b\":\"x\""),
        HEADERS("\"a\\u0000\":\"x\""),
        HEADERS("\"a\":\"x\\ny: z\""),
        HEADERS("\"CONTENT-TYPE\":\"x\""),
        HEADERS("\"Webhook-Signature\":\"x\""),
        HEADERS("\"proxy-authorization\":\"x\""),
        HEADERS("\"te\":\"x\""),
    };
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(takes(bad[i]));
    assert_true(takes(HEADERS("\"test\":\"x\",\"X-A_b.c~\":\" !~\"")));
    assert_true(takes(HEADERS("")));
}

static void test_message_names_its_target(void **state)
{
    (void)state;
    struct webhook_target target;
    webhook_put_message(&out, STR("o\"1"),
                        STR("{\"url\":\"http://x/\",\"headers\":{\"a\":\"1\",\"b\":"
                            "\"2\"},\"form\":\"a2a\"}"),
                        STR("{\"type\":\"task.failed\"}"));
    assert_true(webhook_target_read(&doc, buf_str(&out), &target));
    assert_string_equal(target.url, "http://x/");
    assert_true(target.a2a);
    assert_string_equal(target.headers[0], "a: 1");
    assert_string_equal(target.headers[1], "b: 2");
    assert_null(target.headers[2]);
    assert_text(buf_str(&target.message), "{\"type\":\"task.failed\"}");
    webhook_target_done(&target);
    static const char *const damaged[] = {
        "",
        "{",
        "[]",
        "{\"message\":{}}",
        "{\"webhook\":{},\"message\":{}}",
        "{\"webhook\":{\"url\":\"http://x/\"}}",
        "{\"webhook\":{\"url\":\"http://x/\",\"headers\":{\"a\":\"\\n\"}},\"message\":{}}",
    };
    for (size_t i = 0; i < countof(damaged); i++) {
        assert_false(webhook_target_read(&doc, str_of(damaged[i]), &target));
        webhook_target_done(&target);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_webhook_is_kept_without_its_id),
        TEST(test_url_has_a_host_and_no_user),
        TEST(test_headers_are_those_that_nobody_else_sets),
        TEST(test_message_names_its_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
