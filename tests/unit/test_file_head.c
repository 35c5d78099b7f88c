/* An HTTP head's words about a file: RFC 6266, 8187 and 9110, with their own examples. */
#include "proto/file_head.h"
#include "tests/support/t.h"

static void assert_name(const char *value, const char *expected)
{
    struct buf name = {0};
    bool good = disposition_read(str_of(value), &name);
    buf_putc(&name, 0);
    assert_int_equal(good, expected != NULL);
    if (expected)
        assert_string_equal(name.bytes, expected);
    buf_done(&name);
}

static void test_disposition_names_of_the_rfcs(void **state)
{
    (void)state;
    assert_name("Attachment; filename=example.html", "example.html");
    assert_name("INLINE; FILENAME= \"an example.html\"", NULL); /* no blank may stand there */
    assert_name("INLINE; FILENAME=\"an example.html\"", "an example.html");
    assert_name("attachment; filename*= UTF-8''%e2%82%ac%20rates", NULL);
    assert_name("attachment; filename*=UTF-8''%e2%82%ac%20rates", "\xe2\x82\xac rates");
    assert_name("attachment; filename=\"EURO rates\"; filename*=utf-8'en'%e2%82%ac%20rates",
                "\xe2\x82\xac rates");
    assert_name("attachment; filename*=utf-8''b; filename=a", "b");
    assert_name("attachment", "");
    assert_name("attachment;", "");
    assert_name("attachment; size=3 ; ; filename=a", "a");
    assert_name("form-data; name=\"f\"; filename=\"a \\\"b\\\".txt\"", "a \"b\".txt");
}

static void test_disposition_names_lose_their_path(void **state)
{
    (void)state;
    assert_name("attachment; filename=\"/etc/passwd\"", "passwd");
    assert_name("attachment; filename*=UTF-8''..%2f..%5cx", "x");
    assert_name("attachment; filename=\"C:\\\\boot.ini\"", "boot.ini");
    assert_name("attachment; filename=\"a/\"", "");
    assert_name("attachment; filename=\"..\"", "");
    assert_name("attachment; filename=.", "");
}

static void test_disposition_that_cannot_be_read(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      ";",
                                      "attachment filename=a",
                                      "attachment; filename",
                                      "attachment; filename=",
                                      "attachment; filename=\"a",
                                      "attachment; filename=\"a\\",
                                      "attachment; filename*=a",
                                      "attachment; filename*=iso-8859-1''a",
                                      "attachment; filename*=UTF-8'a",
                                      "attachment; filename*=UTF-8''%4",
                                      "attachment; filename*=UTF-8''%zz",
                                      "attachment; filename*=UTF-8''%00",
                                      "attachment; filename*=UTF-8''%0a",
                                      "attachment; filename*=UTF-8''%ff",
                                      "attachment; filename=\"\x80\""};
    for (size_t i = 0; i < countof(bad); i++)
        assert_name(bad[i], NULL);
}

static void assert_told(const char *name, bool is_inline, const char *expected)
{
    struct buf out = {0};
    disposition_put(&out, is_inline, str_of(name));
    buf_putc(&out, 0);
    assert_string_equal(out.bytes, expected);
    buf_done(&out);
}

static void test_disposition_is_told(void **state)
{
    (void)state;
    assert_told("", false, "attachment");
    assert_told("a b.txt", true, "inline; filename=\"a b.txt\"");
    assert_told("\"%\\", false, "attachment; filename=\"___\"; filename*=UTF-8''%22%25%5C");
    assert_told("\xe2\x82\xac.txt", false,
                "attachment; filename=\"___.txt\"; filename*=UTF-8''%E2%82%AC.txt");
}

static void assert_type(const char *value, const char *expected)
{
    struct buf out = {0};
    bool good = media_type_read(str_of(value), &out);
    buf_putc(&out, 0);
    assert_int_equal(good, expected != NULL);
    if (expected)
        assert_string_equal(out.bytes, expected);
    buf_done(&out);
}

static void test_media_types(void **state)
{
    (void)state;
    assert_type("Text/HTML;Charset=\"utf-8\"", "text/html");
    assert_type(" application/vnd.api+json ", "application/vnd.api+json");
    static const char *const bad[] = {
        "", "text", "text/", "/plain", "text/plain x", "te xt/plain", "text/pl\nain"};
    for (size_t i = 0; i < countof(bad); i++)
        assert_type(bad[i], NULL);
}

static void test_images_by_their_bytes(void **state)
{
    (void)state;
    assert_string_equal(image_type(STR("\x89PNG\r\n\x1a\n....")), "image/png");
    assert_string_equal(image_type(STR("\xff\xd8\xff\xe0")), "image/jpeg");
    assert_string_equal(image_type(STR("GIF89a")), "image/gif");
    assert_string_equal(image_type(STR("RIFF\1\2\3\4WEBPVP8 ")), "image/webp");
    assert_string_equal(image_type(STR("\0\0\0\x1c"
                                       "ftypavif")),
                        "image/avif");
    assert_null(image_type(STR("<svg xmlns=")));
    assert_null(image_type(STR("GIF89")));
    assert_null(image_type(STR("RIFF\1\2\3\4WAVE")));
    assert_null(image_type(STR("")));
}

static void assert_range(const char *value, enum range_verdict verdict, int64_t from, int64_t n)
{
    int64_t got_from, got_n;
    assert_int_equal(range_read(str_of(value), 100, &got_from, &got_n), verdict);
    if (verdict == RANGE_NONE)
        return;
    assert_int_equal(got_from, from);
    assert_int_equal(got_n, n);
}

static void test_ranges(void **state)
{
    (void)state;
    assert_range("bytes=0-0", RANGE_PART, 0, 1);
    assert_range("bytes=10-19", RANGE_PART, 10, 10);
    assert_range("Bytes=10-", RANGE_PART, 10, 90);
    assert_range("bytes=-10", RANGE_PART, 90, 10);
    assert_range("bytes=-1000", RANGE_PART, 0, 100);
    assert_range("bytes=99-1000", RANGE_PART, 99, 1);
    assert_range("bytes=100-", RANGE_NONE, 0, 0);
    assert_range("bytes=-0", RANGE_NONE, 0, 0);
    static const char *const ignored[] = {"",
                                          "bytes",
                                          "bytes=",
                                          "bytes=-",
                                          "bytes=5-4",
                                          "bytes=a-",
                                          "bytes=0-1,2-",
                                          "items=0-1",
                                          "bytes=0x1-",
                                          "bytes=1-2 3",
                                          "bytes=9999999999999999999-"};
    for (size_t i = 0; i < countof(ignored); i++)
        assert_range(ignored[i], RANGE_ALL, 0, 100);
    int64_t from, n;
    assert_int_equal(range_read(STR("bytes=0-0"), 0, &from, &n), RANGE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disposition_names_of_the_rfcs),
        cmocka_unit_test(test_disposition_names_lose_their_path),
        cmocka_unit_test(test_disposition_that_cannot_be_read),
        cmocka_unit_test(test_disposition_is_told),
        cmocka_unit_test(test_media_types),
        cmocka_unit_test(test_images_by_their_bytes),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
