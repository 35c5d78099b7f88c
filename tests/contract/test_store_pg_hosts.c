/* A URL with several servers, of which one is a machine that is gone: it takes the connection, as a
 * kernel does for a program that is stopped, and says nothing. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/contract/store_pg_kit.h"

#ifdef HOLDFAST_POSTGRES
#include "gateway/store/store_pg_hosts.h"
#include "gateway/store/store_pg_private.h"

/* --- a URL taken apart ------------------------------------------------------------------------ */

static void assert_host(const struct pg_host *its, const char *host, const char *hostaddr,
                        const char *port)
{
    const char *const got[] = {its->host, its->hostaddr, its->port};
    const char *const expected[] = {host, hostaddr, port};
    for (size_t i = 0; i < countof(got); i++)
        if (expected[i])
            assert_string_equal(got[i], expected[i]);
        else
            assert_null(got[i]);
}

static void test_each_server_has_what_is_its_own(void **state)
{
    static const struct {
        const char *url, *hosts[2], *addresses[2], *ports[2];
    } urls[] = {
        {"host=a,b dbname=d", {"a", "b"}, {NULL}, {NULL}},
        {"host=a,b port=1,2", {"a", "b"}, {NULL}, {"1", "2"}},
        {"host=a,b port=7", {"a", "b"}, {NULL}, {"7", "7"}},
        {"host=/one,b port=1,", {"/one", "b"}, {NULL}, {"1", "5432"}},
        {"postgresql://u:p@[::1]:6000,b:7000/d?sslmode=require",
         {"::1", "b"},
         {NULL},
         {"6000", "7000"}},
        {"postgresql://a,b:7000/d", {"a", "b"}, {NULL}, {"5432", "7000"}},
        {"hostaddr=10.0.0.1,10.0.0.2", {NULL}, {"10.0.0.1", "10.0.0.2"}, {NULL}},
        {"host=a,b hostaddr=10.0.0.1,10.0.0.2 port=1,2",
         {"a", "b"},
         {"10.0.0.1", "10.0.0.2"},
         {"1", "2"}},
    };
    (void)state;
    for (size_t i = 0; i < countof(urls); i++) {
        struct pg_hosts hosts;
        pg_hosts_read(&hosts, urls[i].url);
        assert_int_equal(hosts.n, 2);
        for (size_t k = 0; k < 2; k++)
            assert_host(&hosts.all[k], urls[i].hosts[k], urls[i].addresses[k], urls[i].ports[k]);
        pg_hosts_done(&hosts);
    }
}

/* libpq says what is wrong with them, or tries its own default. */
static void test_others_are_left_as_they_are(void **state)
{
    static const char *const urls[] = {
        "",
        "dbname=d",
        "host=a port=1",
        "host=a,b port=1,2,3",
        "host=a,b,c hostaddr=10.0.0.1,10.0.0.2",
        "host=,b",
        "host=a,",
        "host=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q",
        "host='a,b",
    };
    (void)state;
    for (size_t i = 0; i < countof(urls); i++) {
        struct pg_hosts hosts;
        pg_hosts_read(&hosts, urls[i]);
        assert_int_equal(hosts.n, 1);
        assert_host(&hosts.all[0], NULL, NULL, NULL);
        pg_hosts_done(&hosts);
    }
}

/* --- servers ---------------------------------------------------------------------------------- */

static int listen_silently(int *ret_port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static unsigned connections_to(int fd)
{
    unsigned n = 0;
    for (int c; (c = accept(fd, NULL, NULL)) >= 0; n++)
        close(c);
    return n;
}

static void test_the_server_behind_a_silent_one_is_reached(void **state)
{
    char folder[128] = "", url[512];
    int port, silent = listen_silently(&port);
    struct pg_conn conn = {0};
    (void)state;
    assert_int_equal(sscanf(pg_kit_server(), "host=%127s", folder), 1);
    snprintf(url, sizeof url, "host=127.0.0.1,%s port=%d,5432 user=holdfast dbname=postgres",
             folder, port);
    struct store_pg_options o = {.url = url, .connect_ms = 4000};
    assert_true(pg_conn_open(&conn, &o, "one"));
    assert_int_equal(connections_to(silent), 1);
    pg_conn_close(&conn);
    assert_true(pg_conn_open(&conn, &o, "one"));
    assert_int_equal(connections_to(silent), 0); /* the one that took us last is first */
    pg_conn_close(&conn);
    close(silent);
}

static void test_what_is_wrong_with_each_is_said(void **state)
{
    char url[512];
    int port, silent = listen_silently(&port);
    struct pg_conn conn = {0};
    (void)state;
    snprintf(url, sizeof url, "host=127.0.0.1,/nowhere port=%d,5432 user=u dbname=d", port);
    struct store_pg_options o = {.url = url, .connect_ms = 200};
    assert_false(pg_conn_open(&conn, &o, "one"));
    assert_non_null(strstr(conn.error, "the server 127.0.0.1 does not answer; "));
    assert_non_null(strstr(conn.error, "/nowhere/.s.PGSQL.5432"));
    close(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_server_has_what_is_its_own),
        cmocka_unit_test(test_others_are_left_as_they_are),
        cmocka_unit_test(test_what_is_wrong_with_each_is_said),
        cmocka_unit_test(test_the_server_behind_a_silent_one_is_reached),
    };
    size_t n = pg_kit_server() ? countof(tests) : countof(tests) - 1;
    return _cmocka_run_group_tests("store_pg_hosts", tests, n, NULL, NULL);
}

#else

int main(void)
{
    print_message("skipped: built without libpq\n");
    return 0;
}

#endif
