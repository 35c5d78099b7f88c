/* Links that break, homes that are none any more, and peers that are no nodes. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/link_pair.h"

/* --- ends ------------------------------------------------------------------------------------- */

static void test_lost_home(void **state)
{
    (void)state;
    struct told r = {0};
    struct client *c = client_at_front("anna");
    kit_hang(home, true);
    struct call *call = ask(&r, "anna", NULL, VERB_CHAT, NULL, json("{'message':'hi'}"));
    assert_non_null(call);
    AWAIT(links_stats_of(home_links)->requests_in == 1);
    close_home_links();
    AWAIT(c->session.state == SESSION_CLOSING && r.n == 1);
    assert_int_equal(c->session.close_code, CLOSE_GOING_AWAY);
    assert_int_equal(r.error, ERR_OVERLOADED);
    assert_non_null(strstr(r.line.bytes, "may have carried this out"));
    assert_int_equal(links_stats_of(front_links)->lost, 1);
    assert_int_equal(links_stats_of(front_links)->away, 0);
    ask(&r, "anna", NULL, VERB_CONVERSATIONS, NULL, "");
    assert_int_equal(r.n, 2);
    assert_int_equal(r.error, ERR_OVERLOADED);
    kit_hang(home, false);
    client_free(c);
    buf_done(&r.line);
}

static void test_home_is_found_again(void **state)
{
    (void)state;
    close_home_links();
    AWAIT(!is_up());
    struct client *c = xcalloc(sizeof *c);
    c->kit = front;
    snprintf(c->owner, sizeof c->owner, "anna");
    session_init(&c->session, &front->hub, &client_ops, c);
    client_say(c, json("{'type':'hello'}"));
    assert_int_equal(c->session.close_code, CLOSE_GOING_AWAY);
    client_free(c);
    links_drop(front_links, HOME_INCARNATION);
    home_links =
        open_links(home, HOME_INCARNATION, "0123456789abcdef0123456789abcdef", "127.0.0.1:0");
    dial();
    AWAIT(is_up());
    c = client_at_front("anna");
    say(c, json("{'type':'ping'}"));
    AWAIT(has_got(c, "pong"));
    client_free(c);
}

static void test_owner_who_moved(void **state)
{
    (void)state;
    struct told r = {0};
    is_homeless = true;
    struct client *c = client_new(front, "anna");
    AWAIT(c->session.state == SESSION_CLOSING);
    assert_false(has_got(c, "welcome"));
    assert_int_equal(c->session.close_code, CLOSE_GOING_AWAY);
    ask(&r, "anna", NULL, VERB_CHAT, NULL, json("{'message':'hi'}"));
    AWAIT(r.n == 1);
    assert_int_equal(r.error, ERR_OVERLOADED);
    assert_int_equal(home->n_runs, 0);
    assert_int_equal(links_stats_of(home_links)->moved, 2);
    client_free(c);
    buf_done(&r.line);
}

static void test_revoked_owner(void **state)
{
    (void)state;
    struct told r = {0};
    revocations_set(&home->hub, STR("anna"), INT64_MAX);
    struct client *c = client_new(front, "anna");
    AWAIT(c->session.state == SESSION_CLOSING);
    assert_false(has_got(c, "welcome")); /* the home's word comes first */
    assert_int_equal(c->session.close_code, CLOSE_UNAUTHORIZED);
    AWAIT(has_got(c, "revoked"));
    ask(&r, "anna", NULL, VERB_CONVERSATIONS, NULL, "");
    AWAIT(r.n == 1);
    assert_int_equal(r.error, ERR_UNAUTHORIZED);
    client_free(c);
    buf_done(&r.line);
}

static void test_owner_who_is_revoked_while_connected(void **state)
{
    (void)state;
    struct client *c = client_at_front("anna"), *other = client_at_front("bert");
    AWAIT(links_stats_of(home_links)->remote == 2);
    assert_int_equal(links_close_owner(home_links, STR("anna"), CLOSE_UNAUTHORIZED, "revoked"), 1);
    AWAIT(c->session.state == SESSION_CLOSING);
    assert_int_equal(c->session.close_code, CLOSE_UNAUTHORIZED);
    AWAIT(has_got(c, "revoked"));
    assert_int_equal(other->session.state, SESSION_OPEN);
    client_free(c);
    client_free(other);
}

/* Without a sure lease the home says nothing; what it had to say comes when the lease is back. */
static void test_home_without_a_lease(void **state)
{
    (void)state;
    struct client *c = client_at_front("anna");
    say(c, json("{'type':'ping','id':'1'}"));
    AWAIT(has_got(c, json("'id':'1'")));
    is_mute = true;
    say(c, json("{'type':'ping','id':'2'}"));
    uint64_t seen = links_stats_of(home_links)->bytes_in;
    links_turn(front_links);
    AWAIT(links_stats_of(home_links)->bytes_in > seen);
    for (int i = 0; i < 100; i++)
        pump();
    assert_false(has_got(c, json("'id':'2'")));
    is_mute = false;
    AWAIT(has_got(c, json("'id':'2'")));
    client_free(c);
}

static void test_silent_home(void **state)
{
    (void)state;
    struct client *c = client_at_front("anna");
    is_mute = true; /* as behind a network that drops everything */
    for (int i = 0; i < 100 && c->session.state == SESSION_OPEN; i++) {
        pass(500);
        pump();
    }
    assert_int_equal(c->session.close_code, CLOSE_GOING_AWAY);
    assert_true(links_stats_of(front_links)->ends[LINK_END_SILENT] >= 1);
    client_free(c);
}

static void test_pings_keep_a_link(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        pass(1000);
        pump();
        pump();
    }
    AWAIT(is_up());
}

/* --- who is no node --------------------------------------------------------------------------- */

static void test_wrong_secret(void **state)
{
    (void)state;
    AWAIT(links_stats_of(home_links)->ends[LINK_END_REFUSED] >= 1 &&
          links_stats_of(front_links)->ends[LINK_END_REFUSED] >= 1);
    assert_false(is_up());
    assert_int_equal(links_stats_of(home_links)->remote, 0);
}

static int strange_socket(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)links_port(home_links))};
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Everything that the home says, until it closes. */
static void hear_out(int fd, struct buf *out)
{
    uint64_t until = uv_hrtime() + PATIENCE_MS * 1000000ULL;
    char bytes[4096];
    for (;;) {
        pump();
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n > 0)
            buf_put(out, bytes, (size_t)n);
        else if (n == 0 || errno != EAGAIN)
            break;
        if (uv_hrtime() > until)
            fail_msg("the home does not close");
    }
    close(fd);
}

static void strange_hello(int fd, uint64_t version, const char *cluster)
{
    char nonce[LINK_NONCE] = "";
    struct buf out = {0};
    link_put(&out, &(struct link_frame){.kind = LINK_HELLO,
                                        .number = {version, 99},
                                        .text = {str_of(cluster), STR("strange")},
                                        .bytes = {nonce, sizeof nonce}});
    assert_int_equal(write(fd, out.bytes, out.len), (ssize_t)out.len);
    buf_done(&out);
}

static void test_strangers(void **state)
{
    (void)state;
    static const struct {
        uint64_t version;
        const char *cluster, *answer;
    } rows[] = {{LINK_VERSION + 1, "test", "it speaks another version of links"},
                {LINK_VERSION, "other", "it belongs to another cluster"}};
    for (size_t i = 0; i < countof(rows); i++) {
        struct buf heard = {0};
        int fd = strange_socket();
        strange_hello(fd, rows[i].version, rows[i].cluster);
        hear_out(fd, &heard);
        assert_non_null(memmem(heard.bytes, heard.len, rows[i].answer, strlen(rows[i].answer)));
        buf_done(&heard);
    }
}

/* A stranger without a proof is not answered anything else, whatever it sends. */
static void test_stranger_without_proof(void **state)
{
    (void)state;
    struct buf heard = {0}, out = {0};
    int fd = strange_socket();
    strange_hello(fd, LINK_VERSION, "test");
    link_put(&out, &(struct link_frame){.kind = LINK_OPEN,
                                        .id = 1,
                                        .flags = LINK_IS_SOCKET,
                                        .text = {STR("anna"), STR("anna"), STR("")}});
    assert_int_equal(write(fd, out.bytes, out.len), (ssize_t)out.len);
    hear_out(fd, &heard);
    assert_non_null(memmem(heard.bytes, heard.len, "the secrets differ", 18));
    assert_int_equal(links_stats_of(home_links)->remote, 0);
    buf_clear(&heard);
    fd = strange_socket();
    assert_int_equal(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    hear_out(fd, &heard);
    assert_true(links_stats_of(home_links)->ends[LINK_END_BROKEN] >= 1);
    buf_done(&heard);
    buf_done(&out);
}

static void test_stranger_who_says_nothing(void **state)
{
    (void)state;
    struct buf heard = {0};
    int fd = strange_socket();
    for (int i = 0; i < 5; i++)
        pump();
    pass(11000);
    hear_out(fd, &heard);
    buf_done(&heard);
}

/* --- TLS -------------------------------------------------------------------------------------- */

static int setup_home_encrypts(void **state)
{
    (void)state;
    home_tls = true;
    front_tls = false;
    return setup_with("0123456789abcdef0123456789abcdef");
}

/* Both sides learn why. */
static void test_dialler_without_tls(void **state)
{
    (void)state;
    AWAIT(links_stats_of(home_links)->ends[LINK_END_REFUSED] > 0);
    AWAIT(links_stats_of(front_links)->ends[LINK_END_REFUSED] > 0);
    assert_false(is_up());
}

static int setup_front_encrypts(void **state)
{
    home_tls = false;
    front_tls = true;
    return setup(state);
}

/* The dialler decides: a gateway that does not insist takes both. */
static void test_dialler_with_tls(void **state)
{
    (void)state;
    struct client *c = client_at_front("anna");
    client_free(c);
}

static int setup_tls(void **state)
{
    home_tls = front_tls = true;
    return setup(state);
}

static int setup_tls_another_secret(void **state)
{
    home_tls = front_tls = true;
    return setup_another_secret(state);
}

static void test_wrong_secret_of_tls(void **state)
{
    (void)state;
    AWAIT(links_stats_of(home_links)->ends[LINK_END_REFUSED] > 0);
    AWAIT(links_stats_of(front_links)->ends[LINK_END_REFUSED] > 0);
    assert_false(is_up());
    assert_int_equal(links_stats_of(home_links)->remote, 0);
}

/* Bytes that begin like TLS and are none, or stop. */
static void test_stranger_who_only_begins_tls(void **state)
{
    (void)state;
    struct buf heard = {0};
    int fd = strange_socket();
    assert_int_equal(write(fd, "\x16\x03\x01\x00\x05no tls at all", 18), 18);
    hear_out(fd, &heard);
    assert_true(links_stats_of(home_links)->ends[LINK_END_REFUSED] >= 1);
    buf_clear(&heard);
    fd = strange_socket();
    assert_int_equal(write(fd, "\x16", 1), 1);
    for (int i = 0; i < 5; i++)
        pump();
    pass(11000);
    hear_out(fd, &heard);
    buf_done(&heard);
}

#define TLS(name) cmocka_unit_test_setup_teardown(name, setup_tls, teardown)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lost_home),
        TEST(test_home_is_found_again),
        TEST(test_owner_who_moved),
        TEST(test_revoked_owner),
        TEST(test_owner_who_is_revoked_while_connected),
        TEST(test_home_without_a_lease),
        TEST(test_silent_home),
        TEST(test_pings_keep_a_link),
        cmocka_unit_test_setup_teardown(test_wrong_secret, setup_another_secret, teardown),
        TEST(test_strangers),
        TEST(test_stranger_without_proof),
        TEST(test_stranger_who_says_nothing),
        TLS(test_lost_home),
        TLS(test_home_is_found_again),
        TLS(test_owner_who_moved),
        TLS(test_home_without_a_lease),
        TLS(test_silent_home),
        TLS(test_pings_keep_a_link),
        TLS(test_stranger_who_says_nothing),
        TLS(test_stranger_who_only_begins_tls),
        cmocka_unit_test_setup_teardown(test_wrong_secret_of_tls, setup_tls_another_secret,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_dialler_without_tls, setup_home_encrypts, teardown),
        cmocka_unit_test_setup_teardown(test_dialler_with_tls, setup_front_encrypts, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
