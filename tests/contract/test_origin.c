/* The check of origins (PROTOCOL.md section 1; field case F66), and the addresses in it.
 */
#include <netinet/in.h>
#include <sys/socket.h>

#include "gateway/base/net.h"
#include "gateway/base/origin.h"
#include "tests/support/t.h"

struct row {
    const char *name;
    const char *origin; /* NULL: absent */
    const char *host;
    enum origin_verdict verdict;
};

static void open_origins(struct origins *c, const char *const *origins)
{
    size_t n = 0;

    *c = (struct origins){0};
    while (origins[n])
        n++;
    c->list = xcalloc((n + 1) * sizeof *c->list);
    for (size_t i = 0; i < n; i++)
        if (!origin_parse(str_of(origins[i]), &c->list[i]))
            fail_msg("%s does not parse", origins[i]);
    c->n = n;
}

static void close_origins(struct origins *c)
{
    for (size_t i = 0; i < c->n; i++)
        origin_done(&c->list[i]);
    free(c->list);
}

static void check_rows(const char *const *origins, bool loopback, bool cookie,
                       const struct row *rows, size_t n)
{
    struct origins c;
    size_t n_wrong = 0;

    open_origins(&c, origins);
    for (size_t i = 0; i < n; i++) {
        enum origin_verdict got =
            origin_check(&c, str_of(rows[i].origin), str_of(rows[i].host), loopback, cookie);
        if (got != rows[i].verdict) {
            print_error("%s: %s, not %s\n", rows[i].name, origin_verdict_text(got),
                        origin_verdict_text(rows[i].verdict));
            n_wrong++;
        }
    }
    close_origins(&c);
    assert_int_equal(n_wrong, 0);
}

static const char *const none[] = {NULL};

/* --- without a list --------------------------------------------------------------------------- */

static void test_origin_without_list_must_be_that_of_host(void **state)
{
    static const struct row rows[] = {
        {"same", "http://chat.example:8080", "chat.example:8080", ORIGIN_OK},
        {"same over tls", "https://chat.example", "chat.example", ORIGIN_OK},
        {"default port of http", "http://chat.example", "chat.example:80", ORIGIN_OK},
        {"default port of https", "https://chat.example:443", "chat.example", ORIGIN_OK},
        {"upper case", "HTTP://CHAT.example", "chat.EXAMPLE", ORIGIN_OK},
        {"ipv6", "http://[::1]:8080", "[::1]:8080", ORIGIN_OK},
        {"ipv6 written otherwise", "http://[::1]:8080", "[0:0:0:0:0:0:0:1]:8080", ORIGIN_OK},
        {"other host", "http://evil.test", "chat.example", ORIGIN_FOREIGN},
        {"other port", "http://chat.example:8081", "chat.example:8080", ORIGIN_FOREIGN},
        {"no port", "http://chat.example", "chat.example:8080", ORIGIN_FOREIGN},
        {"https port for http", "http://chat.example", "chat.example:443", ORIGIN_FOREIGN},
        {"host as prefix", "http://chat.example.evil.test", "chat.example", ORIGIN_FOREIGN},
        {"host as suffix", "http://evilchat.example", "chat.example", ORIGIN_FOREIGN},
        {"host as user", "http://chat.example@evil.test", "chat.example", ORIGIN_FOREIGN},
        {"port as prefix", "http://chat.example:8080.evil.test", "chat.example:8080",
         ORIGIN_FOREIGN},
        {"sub-domain", "http://a.chat.example", "chat.example", ORIGIN_FOREIGN},
        {"null", "null", "chat.example", ORIGIN_FOREIGN},
        {"null as a host", "null", "null", ORIGIN_FOREIGN},
        {"empty", "", "chat.example", ORIGIN_FOREIGN},
        {"rubbish", "http//%%", "chat.example", ORIGIN_FOREIGN},
        {"path", "http://chat.example/", "chat.example", ORIGIN_FOREIGN},
        {"two in one", "http://chat.example http://evil.test", "chat.example", ORIGIN_FOREIGN},
        {"two with a comma", "http://chat.example,http://evil.test", "chat.example",
         ORIGIN_FOREIGN},
        {"other scheme", "ftp://chat.example", "chat.example", ORIGIN_FOREIGN},
        {"extension", "chrome-extension://chat.example", "chat.example", ORIGIN_FOREIGN},
        {"file", "file://", "chat.example", ORIGIN_FOREIGN},
        {"port beyond 65535", "http://chat.example:65616", "chat.example:80", ORIGIN_FOREIGN},
        {"port with a zero", "http://chat.example:080", "chat.example", ORIGIN_FOREIGN},
        {"no host header", "http://chat.example", NULL, ORIGIN_FOREIGN},
        {"empty host header", "http://chat.example", "", ORIGIN_FOREIGN},
        {"absent", NULL, "chat.example", ORIGIN_OK},
        {"absent, no host either", NULL, NULL, ORIGIN_OK},
    };
    (void)state;
    check_rows(none, false, false, rows, countof(rows));
}

static void test_origin_of_bytes_that_are_no_text_is_foreign(void **state)
{
    struct origins c = {0};
    static const char nul[] = "http://chat.example\0.evil.test";
    char letters[400] = "http://";
    (void)state;

    assert_int_equal(
        origin_check(&c, (struct str){nul, sizeof nul - 1}, STR("chat.example"), false, false),
        ORIGIN_FOREIGN);
    memset(letters + 7, 'a', sizeof letters - 7);
    struct str origin = {letters, sizeof letters}, host = {letters + 7, sizeof letters - 7};
    assert_int_equal(origin_check(&c, origin, host, false, false), ORIGIN_FOREIGN);
    assert_int_equal(origin_check(&c, STR("http://\xff"), STR("\xff"), false, false),
                     ORIGIN_FOREIGN);
}

/* --- with a list ------------------------------------------------------------------------------ */

static void test_origin_with_list_must_be_in_it(void **state)
{
    static const char *const list[] = {"https://chat.example", "http://localhost:3000",
                                       "https://*.sub.example", "tauri://localhost", NULL};
    static const struct row rows[] = {
        {"listed", "https://chat.example", "gateway.example", ORIGIN_OK},
        {"listed, its port said", "https://chat.example:443", "x", ORIGIN_OK},
        {"listed with port", "http://localhost:3000", "x", ORIGIN_OK},
        {"upper case", "https://CHAT.example", "x", ORIGIN_OK},
        {"http for https", "http://chat.example", "x", ORIGIN_FOREIGN},
        {"http on 443", "http://chat.example:443", "x", ORIGIN_FOREIGN},
        {"other port", "https://chat.example:8443", "x", ORIGIN_FOREIGN},
        {"as prefix", "https://chat.example.evil.test", "x", ORIGIN_FOREIGN},
        {"same as host, not listed", "https://gateway.example", "gateway.example", ORIGIN_FOREIGN},
        {"sub-domain of an exact entry", "https://a.chat.example", "x", ORIGIN_FOREIGN},
        {"wildcard", "https://a.sub.example", "x", ORIGIN_OK},
        {"wildcard, deeper", "https://b.a.sub.example", "x", ORIGIN_OK},
        {"wildcard, not the host itself", "https://sub.example", "x", ORIGIN_FOREIGN},
        {"wildcard, no dot", "https://evilsub.example", "x", ORIGIN_FOREIGN},
        {"wildcard, empty label", "https://.sub.example", "x", ORIGIN_FOREIGN},
        {"wildcard, http", "http://a.sub.example", "x", ORIGIN_FOREIGN},
        {"wildcard, port", "https://a.sub.example:444", "x", ORIGIN_FOREIGN},
        {"wildcard as it stands", "https://*.sub.example", "x", ORIGIN_FOREIGN},
        {"other scheme that is listed", "tauri://localhost", "x", ORIGIN_OK},
        {"its host under http", "http://localhost", "x", ORIGIN_FOREIGN},
        {"null", "null", "x", ORIGIN_FOREIGN},
        {"absent", NULL, "x", ORIGIN_OK},
    };
    (void)state;
    check_rows(list, false, false, rows, countof(rows));
}

static void test_origin_absent_with_a_cookie_is_missing(void **state)
{
    static const char *const list[] = {"https://chat.example", NULL};
    static const struct row rows[] = {
        {"absent", NULL, "chat.example", ORIGIN_MISSING},
        {"listed", "https://chat.example", "chat.example", ORIGIN_OK},
        {"foreign", "https://evil.test", "chat.example", ORIGIN_FOREIGN},
    };
    (void)state;
    check_rows(list, false, true, rows, countof(rows));
}

static void test_origin_is_listed_knows_only_the_list(void **state)
{
    static const char *const list[] = {"https://chat.example", NULL};
    struct origins c, empty = {0};
    (void)state;

    open_origins(&c, list);
    bool listed = origin_is_listed(&c, STR("https://chat.example"));
    bool foreign = origin_is_listed(&c, STR("https://evil.test")) ||
                   origin_is_listed(&c, STR_NULL) || origin_is_listed(&empty, STR("http://x"));
    close_origins(&c);
    assert_true(listed);
    assert_false(foreign);
}

/* --- on loopback ------------------------------------------------------------------------------ */

static void test_origin_on_loopback_host_must_be_its_own(void **state)
{
    static const struct row rows[] = {
        {"ipv4", NULL, "127.0.0.1:8080", ORIGIN_OK},
        {"ipv4 without port", NULL, "127.0.0.1", ORIGIN_OK},
        {"another of 127/8", NULL, "127.0.0.2:8080", ORIGIN_OK},
        {"ipv6", NULL, "[::1]:8080", ORIGIN_OK},
        {"localhost", NULL, "localhost:8080", ORIGIN_OK},
        {"LOCALHOST", NULL, "LOCALHOST", ORIGIN_OK},
        {"below localhost", NULL, "app.localhost:8080", ORIGIN_OK},
        {"rebound", NULL, "evil.test:8080", ORIGIN_FOREIGN_HOST},
        {"rebound with its origin", "http://evil.test:8080", "evil.test:8080", ORIGIN_FOREIGN_HOST},
        {"address as prefix", NULL, "127.0.0.1.evil.test", ORIGIN_FOREIGN_HOST},
        {"name as prefix", NULL, "localhost.evil.test", ORIGIN_FOREIGN_HOST},
        {"name as suffix", NULL, "evillocalhost", ORIGIN_FOREIGN_HOST},
        {"empty label", NULL, ".localhost", ORIGIN_FOREIGN_HOST},
        {"another address", NULL, "10.0.0.1", ORIGIN_FOREIGN_HOST},
        {"any address", NULL, "0.0.0.0:8080", ORIGIN_FOREIGN_HOST},
        {"another ipv6", NULL, "[::2]:8080", ORIGIN_FOREIGN_HOST},
        {"naked ipv6", NULL, "::1", ORIGIN_FOREIGN_HOST},
        {"short address", NULL, "127.1", ORIGIN_FOREIGN_HOST},
        {"user", NULL, "localhost@evil.test", ORIGIN_FOREIGN_HOST},
        {"empty", NULL, "", ORIGIN_FOREIGN_HOST},
        {"absent", NULL, NULL, ORIGIN_FOREIGN_HOST},
        {"foreign page", "http://evil.test", "127.0.0.1:8080", ORIGIN_FOREIGN},
        {"other port's page", "http://127.0.0.1:3000", "127.0.0.1:8080", ORIGIN_FOREIGN},
        {"own page", "http://127.0.0.1:8080", "127.0.0.1:8080", ORIGIN_OK},
        {"own page by another name", "http://localhost:8080", "127.0.0.1:8080", ORIGIN_FOREIGN},
    };
    (void)state;
    check_rows(none, true, false, rows, countof(rows));
}

static void test_origin_on_loopback_a_host_of_origins_is_its_own(void **state)
{
    static const char *const list[] = {"https://chat.example", "https://*.sub.example", NULL};
    static const struct row rows[] = {
        {"behind a proxy", "https://chat.example", "chat.example", ORIGIN_OK},
        {"behind a proxy, with port", "https://chat.example", "chat.example:8443", ORIGIN_OK},
        {"below a wildcard", "https://a.sub.example", "a.sub.example", ORIGIN_OK},
        {"another", "https://chat.example", "evil.test", ORIGIN_FOREIGN_HOST},
        {"loopback", "https://chat.example", "127.0.0.1:8080", ORIGIN_OK},
    };
    (void)state;
    check_rows(list, true, false, rows, countof(rows));
}

static void test_origin_beyond_loopback_a_host_must_be_one_of_hosts(void **state)
{
    static const struct {
        const char *host;
        enum origin_verdict verdict;
    } rows[] = {
        {"gateway.internal", ORIGIN_OK},
        {"GATEWAY.internal:8080", ORIGIN_OK},
        {"a.hosts.example", ORIGIN_OK},
        {"chat.example", ORIGIN_OK}, /* of origins */
        {"localhost", ORIGIN_OK},
        {"192.0.2.7:8080", ORIGIN_OK}, /* a name that is bound anew is no address */
        {"[2001:db8::7]", ORIGIN_OK},
        {"hosts.example", ORIGIN_FOREIGN_HOST},
        {"evil.test", ORIGIN_FOREIGN_HOST},
        {"gateway.internal.evil.test", ORIGIN_FOREIGN_HOST},
        {"192.0.2.7.evil.test", ORIGIN_FOREIGN_HOST},
        {"", ORIGIN_FOREIGN_HOST},
        {NULL, ORIGIN_FOREIGN_HOST},
    };
    static const char *const list[] = {"https://chat.example", NULL};
    struct origin hosts[2];
    struct origins c;
    (void)state;

    open_origins(&c, list);
    assert_true(origin_parse_host(STR("Gateway.Internal"), &hosts[0]));
    assert_true(origin_parse_host(STR("*.hosts.example"), &hosts[1]));
    for (size_t i = 0; i < countof(rows); i++) {
        struct str host = str_of(rows[i].host);
        c.n_hosts = 0;
        assert_int_equal(origin_check(&c, STR_NULL, host, false, false), ORIGIN_OK); /* no list */
        c.hosts = hosts;
        c.n_hosts = 2;
        if (origin_check(&c, STR_NULL, host, false, false) != rows[i].verdict)
            fail_msg("%s", rows[i].host ? rows[i].host : "none");
    }
    /* On loopback they are its own beside what it has. */
    assert_int_equal(origin_check(&c, STR_NULL, STR("a.hosts.example"), true, false), ORIGIN_OK);
    assert_int_equal(origin_check(&c, STR_NULL, STR("192.0.2.7"), true, false),
                     ORIGIN_FOREIGN_HOST);
    assert_int_equal(origin_check(&c, STR_NULL, STR("evil.test"), true, false),
                     ORIGIN_FOREIGN_HOST);
    origin_done(&hosts[0]);
    origin_done(&hosts[1]);
    close_origins(&c);
}

/* --- entries ---------------------------------------------------------------------------------- */

static void test_origin_parse_host_takes_names_alone(void **state)
{
    static const char *const bad[] = {"",
                                      "https://chat.example",
                                      "chat.example:80",
                                      "chat.example/",
                                      "*",
                                      "*.",
                                      "*chat.example",
                                      "a b",
                                      ".chat.example",
                                      "chat..example",
                                      "*.[::1]",
                                      "[::1"};
    struct origin o;
    (void)state;

    for (size_t i = 0; i < countof(bad); i++)
        if (origin_parse_host(str_of(bad[i]), &o))
            fail_msg("%s", bad[i]);
}

static void test_origin_parse_takes_origins_alone(void **state)
{
    static const char *const bad[] = {
        "",
        "chat.example",
        "https://",
        "https://chat.example/",
        "https://chat.example/path",
        "https://chat.example?x",
        "https://user@chat.example",
        "https://chat.example:",
        "https://chat.example:0",
        "https://chat.example:70000",
        "https://chat.example:x",
        "https://*",
        "https://*.",
        "https://*chat.example",
        "https://a.*.example",
        "https://*.[::1]",
        "https://[::1",
        "https://[1.2.3.4]",
        "https://chat..example",
        "https:// chat.example",
        "*",
        "null",
        "1http://a",
        "://a",
    };
    struct origin o = {0};
    size_t n_taken = 0;
    (void)state;

    for (size_t i = 0; i < countof(bad); i++)
        if (origin_parse(str_of(bad[i]), &o)) {
            print_error("taken: %s\n", bad[i]);
            origin_done(&o);
            n_taken++;
        }
    assert_int_equal(n_taken, 0);
}

static void test_origin_parse_fills_in_and_lowers(void **state)
{
    struct origin o;
    (void)state;

    assert_true(origin_parse(STR("HTTPS://*.Chat.Example"), &o));
    bool right = str_eq(str_of(o.scheme), STR("https")) &&
                 str_eq(str_of(o.host), STR("chat.example")) && o.port == 443 && o.subdomains;
    origin_done(&o);
    assert_true(right);
}

/* --- addresses -------------------------------------------------------------------------------- */

static void test_net_parses_addresses_and_networks(void **state)
{
    static const struct {
        const char *text;
        int bits; /* -1: refused */
    } rows[] = {
        {"10.0.0.0/8", 104},
        {"10.0.0.1", 128},
        {"0.0.0.0/0", 96},
        {"::/0", 0},
        {"fd00::/8", 8},
        {"::1", 128},
        {"[::1]", 128},
        {"10.0.0.1/32", 128},
        {"10.0.0.1/8", -1},
        {"10.0.0.0/33", -1},
        {"10.0.0.0/", -1},
        {"10.0.0.0/08", -1},
        {"10.0.0/8", -1},
        {"::/129", -1},
        {"fd00::1/8", -1},
        {"localhost", -1},
        {"", -1},
        {"/8", -1},
        {"10.0.0.0/8/8", -1},
        {"[10.0.0.1]", -1},
        {"fe80::1%eth0", -1},
        {"10.0.0.0/-1", -1},
        {"[]", -1},
        {"1.2.3.4 ", -1},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct net net = {0};
        bool taken = net_parse(str_of(rows[i].text), &net);
        if (taken != (rows[i].bits >= 0) || (taken && (int)net.bits != rows[i].bits))
            fail_msg("%s: %s, %u bits", rows[i].text, taken ? "taken" : "refused", net.bits);
    }
}

static void test_net_list_has_members_only(void **state)
{
    static const struct {
        const char *net, *address;
        bool member;
    } rows[] = {
        {"10.0.0.0/8", "10.255.0.1", true},  {"10.0.0.0/8", "11.0.0.1", false},
        {"10.0.0.0/9", "10.128.0.1", false}, {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"fd00::/8", "fd12::1", true},       {"fd00::/8", "fe00::1", false},
        {"0.0.0.0/0", "::1", false},         {"::/0", "1.2.3.4", true},
        {"1.2.3.4", "1.2.3.4", true},        {"1.2.3.4", "1.2.3.5", false},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct net net;
        struct net_address address;
        assert_true(net_parse(str_of(rows[i].net), &net));
        assert_true(net_parse_address(str_of(rows[i].address), &address));
        if (net_list_has(&net, 1, &address) != rows[i].member)
            fail_msg("%s in %s", rows[i].address, rows[i].net);
        assert_false(net_list_has(&net, 0, &address));
    }
}

static void test_net_of_sockaddr_and_back(void **state)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000001)}};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr other = {.sa_family = AF_UNIX};
    struct net_address address;
    char text[NET_TEXT];
    (void)state;

    assert_true(net_of_sockaddr((struct sockaddr *)&four, &address));
    assert_true(net_is_loopback(&address));
    net_format(&address, text);
    assert_string_equal(text, "127.0.0.1");
    assert_true(net_of_sockaddr((struct sockaddr *)&six, &address));
    assert_true(net_is_loopback(&address));
    net_format(&address, text);
    assert_string_equal(text, "::1");
    assert_false(net_of_sockaddr(&other, &address));
    assert_true(net_parse_address(STR("128.0.0.1"), &address));
    assert_false(net_is_loopback(&address));
}

static void test_net_group_is_the_address_or_its_first_bits(void **state)
{
    static const struct {
        const char *address;
        unsigned bits;
        const char *group;
    } rows[] = {
        {"203.0.113.7", 64, "203.0.113.7"},
        {"::ffff:203.0.113.7", 64, "203.0.113.7"},
        {"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"},
        {"2001:db8:1:2:ffff::", 64, "2001:db8:1:2::/64"},
        {"2001:db8:1:3::1", 64, "2001:db8:1:3::/64"},
        {"2001:db8:1:2:3:4:5:6", 56, "2001:db8:1::/56"},
        {"2001:db8:1:ff:3:4:5:6", 60, "2001:db8:1:f0::/60"},
        {"2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 127,
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"},
        {"8000::1", 1, "8000::/1"},
    };
    (void)state;

    for (size_t i = 0; i < countof(rows); i++) {
        struct net_address address;
        char text[NET_TEXT];
        assert_true(net_parse_address(str_of(rows[i].address), &address));
        net_format_group(&address, rows[i].bits, text);
        assert_string_equal(text, rows[i].group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origin_without_list_must_be_that_of_host),
        cmocka_unit_test(test_origin_of_bytes_that_are_no_text_is_foreign),
        cmocka_unit_test(test_origin_with_list_must_be_in_it),
        cmocka_unit_test(test_origin_absent_with_a_cookie_is_missing),
        cmocka_unit_test(test_origin_is_listed_knows_only_the_list),
        cmocka_unit_test(test_origin_on_loopback_host_must_be_its_own),
        cmocka_unit_test(test_origin_on_loopback_a_host_of_origins_is_its_own),
        cmocka_unit_test(test_origin_beyond_loopback_a_host_must_be_one_of_hosts),
        cmocka_unit_test(test_origin_parse_host_takes_names_alone),
        cmocka_unit_test(test_origin_parse_takes_origins_alone),
        cmocka_unit_test(test_origin_parse_fills_in_and_lowers),
        cmocka_unit_test(test_net_parses_addresses_and_networks),
        cmocka_unit_test(test_net_list_has_members_only),
        cmocka_unit_test(test_net_of_sockaddr_and_back),
        cmocka_unit_test(test_net_group_is_the_address_or_its_first_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
