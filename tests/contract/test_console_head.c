/* The head of a request to the operator's console. */
#include "gateway/cli/console_head.h"
#include "proto/str.h"
#include "tests/support/t.h"

#define OURS "Host: 127.0.0.1:7\r\n"

static void test_console_head_takes_what_goes_on_and_no_more(void **state)
{
    (void)state;
    struct console_head head;
    struct buf out = {0};
    const char *why = NULL;
    struct str bytes =
        STR("DELETE /v1/conversations/c/tasks/t?tree=true HTTP/1.1\r\n" OURS
            "authorization: Bearer s3cret\r\nCookie: a=b\r\nX-Forwarded-For: 1.2.3.4\r\n"
            "Holdfast-Owner:  J%c3%bc \r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\n\r\n{}and more");
    assert_int_equal(console_head_read(bytes, &head, &why), 0);
    assert_int_equal(console_head_check(&head, 7, &why), 0);
    assert_int_equal(head.length, 2);
    assert_true(str_eq(head.bearer, STR("Bearer s3cret")));
    assert_true(str_begins(str_from(bytes, head.head_bytes), STR("{}and")));
    console_head_put(&head, &out);
    assert_string_equal(
        out.bytes, "DELETE /v1/conversations/c/tasks/t?tree=true HTTP/1.1\r\nHost: localhost\r\n"
                   "Connection: close\r\nHoldfast-Owner: J%c3%bc\r\n"
                   "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n");
    buf_done(&out);
}

static void test_console_head_refuses_what_could_be_read_in_two_ways(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int status;
    } rows[] = {
        {"GET / HTTP/1.0\r\n" OURS "\r\n", 400},
        {"GET  / HTTP/1.1\r\n" OURS "\r\n", 400},
        {"GET x HTTP/1.1\r\n" OURS "\r\n", 400},
        {"GET http://127.0.0.1:7/ HTTP/1.1\r\n" OURS "\r\n", 400},
        {"GET /\x01 HTTP/1.1\r\n" OURS "\r\n", 400},
        {"GET / HTTP/1.1\n" OURS "\r\n\r\n", 400},
        {"(GET) / HTTP/1.1\r\n" OURS "\r\n", 400},
        {"GET / HTTP/1.1\r\n" OURS " folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" OURS "A : b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" OURS "A: b\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" OURS OURS "\r\n", 400},
        {"GET / HTTP/1.1\r\n" OURS "Authorization: a\r\nAuthorization: b\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" OURS "Transfer-Encoding: chunked\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" OURS "Upgrade: websocket\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" OURS "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" OURS "Content-Length: +1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" OURS "Content-Length: \r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" OURS "Content-Length: 9999999999\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" OURS "Content-Length: 65537\r\n\r\n", 413},
        {"POST / HTTP/1.1\r\n" OURS "Content-Length: 65536\r\n\r\n", 0},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct console_head head;
        const char *why = NULL;
        assert_int_equal(console_head_read(str_of(rows[i].bytes), &head, &why), rows[i].status);
        assert_true((rows[i].status == 0) == (why == NULL));
    }
}

static void test_console_head_belongs_to_this_address_and_this_page(void **state)
{
    (void)state;
    static const struct {
        const char *method, *headers;
        int status;
    } rows[] = {
        {"GET", OURS, 0},
        {"GET", "", 421},
        {"GET", "Host: 127.0.0.1:8\r\n", 421},
        {"GET", "Host: localhost:7\r\n", 421},
        {"GET", "Host: rebound.example:7\r\n", 421},
        {"POST", OURS "Origin: http://127.0.0.1:7\r\nSec-Fetch-Site: same-origin\r\n", 0},
        {"POST", OURS "Origin: http://127.0.0.1:8\r\n", 403},
        {"POST", OURS "Origin: null\r\n", 403},
        {"GET", OURS "Origin: https://evil.example\r\n", 403},
        {"POST", OURS "Sec-Fetch-Site: cross-site\r\n", 403},
        {"POST", OURS "Sec-Fetch-Site: same-site\r\n", 403},
        {"GET", OURS "Sec-Fetch-Site: cross-site\r\n", 0}, /* a link to the page */
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct console_head head;
        struct buf bytes = {0};
        const char *why = NULL;
        buf_putf(&bytes, "%s / HTTP/1.1\r\n%s\r\n", rows[i].method, rows[i].headers);
        assert_int_equal(console_head_read(buf_str(&bytes), &head, &why), 0);
        assert_int_equal(console_head_check(&head, 7, &why), rows[i].status);
        buf_done(&bytes);
    }
}

static void test_console_head_asks_for_the_page_by_plain_names(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool is_page;
    } rows[] = {
        {"/console/", true},         {"/console/console.js", true},
        {"/console", false},         {"/console/../v1/admin/state", false},
        {"/console/..", false},      {"/console/a..b", false},
        {"/console//v1", false},     {"/console/%2e%2e/v1/admin/state", false},
        {"/console/.hidden", false}, {"/console/?x", false},
        {"/console/a\\b", false},    {"/consolex/", false},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct console_head head = {.method = STR("GET"), .path = str_of(rows[i].path)};
        assert_true(console_head_is_page(&head) == rows[i].is_page);
        head.method = STR("POST");
        assert_false(console_head_is_page(&head));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_console_head_takes_what_goes_on_and_no_more),
        cmocka_unit_test(test_console_head_refuses_what_could_be_read_in_two_ways),
        cmocka_unit_test(test_console_head_asks_for_the_page_by_plain_names),
        cmocka_unit_test(test_console_head_belongs_to_this_address_and_this_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
