/* Requests of the gateway's own: which addresses are public, when a try follows, what is told of an
 * error, and the life of a fetch beside a server that says nothing. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/fetch/complaint.h"
#include "gateway/fetch/fetch.h"
#include "tests/support/t.h"

static void test_net_is_public(void **state)
{
    (void)state;
    static const char *const good[] = {"1.1.1.1",      "8.8.8.8",    "172.15.0.1",    "172.32.0.1",
                                       "11.0.0.1",     "100.63.0.1", "223.255.255.1", "198.20.0.1",
                                       "2606:4700::1", "2a00::1",    "::ffff:1.1.1.1"};
    static const char *const bad[] = {
        "0.0.0.0",         "10.0.0.1",        "127.0.0.1",   "127.255.0.1",
        "100.64.0.1",      "169.254.169.254", "172.16.0.1",  "172.31.9.9",
        "192.168.1.1",     "192.0.2.1",       "198.18.0.1",  "198.19.0.1",
        "224.0.0.1",       "255.255.255.255", "::",          "::1",
        "fe80::1",         "fd00::1",         "ff02::1",     "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::",   "2001:db8::1", "2001::1",
        "::127.0.0.1"};
    struct net_address a;
    for (size_t i = 0; i < countof(good); i++) {
        assert_true(net_parse_address(str_of(good[i]), &a));
        if (!net_is_public(&a))
            fail_msg("%s", good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        assert_true(net_parse_address(str_of(bad[i]), &a));
        if (net_is_public(&a))
            fail_msg("%s", bad[i]);
    }
}

static void test_fetch_retry_doubles_with_jitter_and_honours_retry_after(void **state)
{
    (void)state;
    static const msec_t full[] = {500, 1000, 2000, 4000, 8000, 8000};
    for (unsigned tries = 1; tries <= countof(full); tries++) {
        for (uint32_t random = 0; random < 20000; random += 777) {
            msec_t ms = fetch_retry_ms(tries, 0, random);
            assert_true(ms >= full[tries - 1] / 2 && ms <= full[tries - 1]);
        }
    }
    assert_int_not_equal(fetch_retry_ms(1, 0, 1), fetch_retry_ms(1, 0, 100));
    assert_int_equal(fetch_retry_ms(1, 30, 7), 30000);
    assert_int_equal(fetch_retry_ms(1, 60, 7), 60000);
    assert_int_equal(fetch_retry_ms(1, 61, 7), -1);
}

static void expect_complaint(const char *body, const char *text)
{
    struct buf out = {0};
    complaint_put(&out, str_of(body));
    if (!str_eq(buf_str(&out), str_of(text)))
        fail_msg("%s: got %s", body, buf_str(&out).p);
    buf_done(&out);
}

static void test_complaint(void **state)
{
    (void)state;
    expect_complaint(json("{'error':{'message':'no\\nkey','code':1}}"), "no key");
    expect_complaint(json(" {'error':'busy'}"), "busy");
    expect_complaint(json("{'message':'m'}"), "m");
    expect_complaint(json("{'detail':'d'}"), "d");
    expect_complaint(json("{'detail':[1]}"), "");
    expect_complaint(json("{'detail':[{'loc':['body'],'msg':'required'}]}"), "body: required");
    expect_complaint(json("{'message':{'detail':[{'loc':['body','n'],'msg':'no'}]}}"),
                     "body.n: no");
    expect_complaint(json("[{'error':{'message':'m'}},{}]"), "m");
    expect_complaint(json("{'errors':[{'message':'m'}],'success':false}"), "m");
    expect_complaint(json("{'error':'ValueError','message':'m'}"), "ValueError: m");
    expect_complaint(json("{'error':'m','message':'m'}"), "m");
    expect_complaint(json("{'error':{'code':7}}"), "7");
    expect_complaint(json("{'error':{'code':'busy'},'msg':'x'}"), "busy");
    expect_complaint(json("{'code':1,'msg':'m'}"), "m");
    expect_complaint(json("{'error':[[[[[['deep']]]]]]}"), "");
    expect_complaint(json("{'error':{'message':'m','metadata':{'raw':'r'}}}"), "m: r");
    expect_complaint("not\tthere \nmore", "not there");
    expect_complaint("\r\n\xff!", "\xEF\xBF\xBD!");
    expect_complaint("<html>", "");
    expect_complaint("", "");
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = '\0';
    struct buf out = {0};
    complaint_put(&out, str_of(text));
    assert_int_equal(out.len, COMPLAINT_BYTES + 3);
    buf_done(&out);
}

/* --- a fetch ---------------------------------------------------------------------------------- */

static uv_loop_t loop;
static struct fetcher *fetcher;
static struct seen {
    bool done;
    char error[256];
} seen;

static void on_done(void *user, struct str error)
{
    struct seen *s = user;
    assert_false(s->done);
    s->done = true;
    snprintf(s->error, sizeof s->error, "%.*s", (int)error.n, error.p ? error.p : "");
}

static bool on_bytes(void *user, struct str bytes)
{
    (void)user;
    (void)bytes;
    fail();
    return true;
}

static const struct fetch_events events = {.on_bytes = on_bytes, .on_done = on_done};

static int setup(void **state)
{
    (void)state;
    seen = (struct seen){0};
    uv_loop_init(&loop);
    fetcher = fetcher_open(&loop);
    return fetcher ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    fetcher_close(fetcher);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

/* A server that takes connections and says nothing. */
static int listen_in_silence(char ret_url[64])
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof to;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(bind(fd, (const struct sockaddr *)&to, n), 0);
    assert_return_code(listen(fd, 16), 0);
    assert_return_code(getsockname(fd, (struct sockaddr *)&to, &n), 0);
    snprintf(ret_url, 64, "http://127.0.0.1:%d/", ntohs(to.sin_port));
    return fd;
}

static void run_to_end(struct fetch *f)
{
    while (!seen.done)
        uv_run(&loop, UV_RUN_ONCE);
    fetch_free(f);
}

static void test_fetch_silence_ends_at_its_limit(void **state)
{
    static const struct fetch_options options = {.idle_ms = 30, .proxy = ""};
    char url[64];
    (void)state;
    int fd = listen_in_silence(url);
    run_to_end(fetch_start(fetcher, &options, &(struct fetch_request){.url = url}, &events, &seen));
    assert_string_equal(seen.error, "nothing arrived for 0 s");
    close(fd);
}

static void test_fetch_freed_at_any_time_says_nothing(void **state)
{
    static const struct fetch_options options = {.retries = 5, .proxy = ""};
    char url[64];
    (void)state;
    int fd = listen_in_silence(url);
    for (int turns = 0; turns < 8; turns++) {
        struct fetch_request request = {.url = turns % 2 ? url : "http://127.0.0.1:1/"};
        struct fetch *f = fetch_start(fetcher, &options, &request, &events, &seen);
        struct fetch *other = fetch_start(fetcher, &options, &request, &events, &seen);
        for (int i = 0; i < turns; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        fetch_free(f);
        uv_run(&loop, UV_RUN_NOWAIT);
        fetch_free(other);
    }
    assert_false(seen.done);
    close(fd);
}

static void test_fetch_errors_are_told(void **state)
{
    static const struct {
        struct fetch_options options;
        const char *url, *why;
    } rows[] = {
        {{.proxy = ""}, "http://127.0.0.1:1/", "127.0.0.1 port 1"},
        {{.guarded = true}, "http://127.0.0.1:1/", "the address 127.0.0.1 is not public"},
        {{.proxy = ""}, "file:///etc/passwd", "rotocol"},
        {{.proxy = ""}, "http://", ""},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        seen = (struct seen){0};
        run_to_end(fetch_start(fetcher, &rows[i].options,
                               &(struct fetch_request){.url = rows[i].url}, &events, &seen));
        assert_true(seen.error[0]);
        if (!strstr(seen.error, rows[i].why))
            fail_msg("%s: %s", rows[i].url, seen.error);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net_is_public),
        cmocka_unit_test(test_fetch_retry_doubles_with_jitter_and_honours_retry_after),
        cmocka_unit_test(test_complaint),
        TEST(test_fetch_silence_ends_at_its_limit),
        TEST(test_fetch_freed_at_any_time_says_nothing),
        TEST(test_fetch_errors_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
