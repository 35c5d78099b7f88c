/* Clients of a front whose owners' home is another node: lines, their order and every end are as if
 * the client were at the home. */
#include "core/handover.h"
#include "tests/support/link_pair.h"

#define OWN_EVENTS 4 /* created, started, final_answer, completed */

/* --- what clients do -------------------------------------------------------------------------- */

static void test_client_at_the_wrong_node(void **state)
{
    (void)state;
    struct client *c = client_at_front("anna");
    say(c, json("{'type':'chat','id':'1','conversation_id':'c','message':'hi'}"));
    AWAIT(has_got(c, json("'started'")) && home->n_runs == 1);
    const char *task = line_field(client_await(c, json("'started'")), "task_id");
    struct run *r = home->runs[0];
    for (int i = 0; i < 100; i++) {
        speak(r, json("{'event':'token','data':{'text':'a piece of an answer'}}"));
        pump();
    }
    AWAIT(count_got(c, "a piece of an answer") == 100);
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'send','id':'2','conversation_id':'c','task_id':'%s','content':'x'}"),
             task);
    say(c, line);
    AWAIT(r->delivered.len > 0 && strstr(r->delivered.bytes, "message"));
    snprintf(line, sizeof line,
             json("{'type':'cancel','id':'3','conversation_id':'c','task_id':'%s'}"), task);
    say(c, line);
    AWAIT(r->cancels == 1);
    r->events->on_end(r->task, RUN_DONE, STR(""));
    AWAIT(has_got(c, json("'status':'cancelled'")));
    say(c, json("{'type':'ping','id':'4'}"));
    AWAIT(has_got(c, "pong"));
    assert_int_equal(front->n_runs, 0);
    assert_int_equal(links_stats_of(home_links)->remote, 1);
    assert_int_equal(links_stats_of(front_links)->away, 1);
    client_free(c);
    AWAIT(links_stats_of(home_links)->remote == 0);
}

static void test_later_lines_of_the_first_message(void **state)
{
    (void)state;
    struct client *c = xcalloc(sizeof *c);
    c->kit = front;
    snprintf(c->owner, sizeof c->owner, "anna");
    session_init(&c->session, &front->hub, &client_ops, c);
    say(c, json("{'type':'hello','id':'h'}\n{'type':'ping','id':'p'}\n{'type':'watch','id':'w'}"));
    AWAIT(has_got(c, json("'id':'p'")) && has_got(c, json("'id':'w'")));
    client_expect(c, json("'id':'h'"));
    client_free(c);
}

/* Another owner of the same front is served by the front itself. */
static void test_owner_who_lives_here(void **state)
{
    (void)state;
    struct client *c = client_at_front("here");
    say(c, json("{'type':'conversations','id':'1'}"));
    kit_settle(front);
    assert_true(has_got(c, json("'id':'1'")));
    assert_int_equal(links_stats_of(front_links)->away, 0);
    client_free(c);
}

static void test_later_hello(void **state)
{
    (void)state;
    struct client *c = client_at_front("anna"), *other = client_at_front("anna");
    say(c, json("{'type':'hello','id':'2','token':'anna'}"));
    AWAIT(has_got(c, json("'id':'2'")));
    assert_int_equal(c->session.state, SESSION_OPEN);
    say(c, json("{'type':'hello','id':'3','token':'bert'}"));
    AWAIT(c->session.state == SESSION_CLOSING);
    assert_int_equal(c->session.close_code, CLOSE_UNAUTHORIZED);
    AWAIT(has_got(c, "the token is another owner's"));
    say(other, json("{'type':'hello','id':'3','token':'bad'}"));
    AWAIT(other->session.close_code == CLOSE_UNAUTHORIZED);
    client_free(c);
    client_free(other);
}

/* Good once, wherever it was taken first; and nowhere without its home. */
static void test_code_of_a_handover(void **state)
{
    (void)state;
    struct buf code = {0}, line = {0};
    struct owner *anna = owner_ref(&home->hub, STR("anna"));
    assert_true(handover_make(&home->hub, anna, 5000000, &code));
    struct client *c = xcalloc(sizeof *c), *late = xcalloc(sizeof *late);
    struct client *const both[] = {c, late};
    buf_puts(&line, "{\"type\":\"hello\",\"id\":\"h\"");
    js_put_field(&line, "handover", buf_str(&code));
    buf_puts(&line, "}\n{\"type\":\"ping\",\"id\":\"p\"}");
    buf_putc(&line, 0);
    for (size_t i = 0; i < countof(both); i++) {
        both[i]->kit = front;
        snprintf(both[i]->owner, sizeof both[i]->owner, "anna");
        session_init(&both[i]->session, &front->hub, &client_ops, both[i]);
        say(both[i], line.bytes);
        assert_int_equal(both[i]->session.state, SESSION_HELLO); /* the home decides */
    }
    AWAIT(has_got(c, json("'id':'p'"))); /* what stood behind the hello is the same owner's */
    client_expect(c, json("'type':'welcome','id':'h'"));
    AWAIT(late->session.state == SESSION_CLOSING);
    assert_int_equal(late->session.close_code, CLOSE_UNAUTHORIZED);
    client_expect(late, "the code is not valid");
    assert_false(has_got(late, "pong"));
    client_free(c);
    client_free(late);
    close_home_links();
    AWAIT(!is_up());
    front->hub.open = (struct slots){0}; /* nor is it this node's */
    c = xcalloc(sizeof *c);
    c->kit = front;
    session_init(&c->session, &front->hub, &client_ops, c);
    say(c, line.bytes);
    AWAIT(has_got(c, "overloaded"));
    assert_int_equal(c->session.close_code, CLOSE_TRY_LATER);
    client_free(c);
    owner_unref(&home->hub, anna);
    buf_done(&code);
    buf_done(&line);
}

static void test_flood_is_closed_as_at_home(void **state)
{
    (void)state;
    struct client *c = client_at_front("anna");
    for (int i = 0; i < 2000 && c->session.state == SESSION_OPEN; i++)
        say(c, json("{'type':'ping'}"));
    AWAIT(c->session.state == SESSION_CLOSING);
    assert_int_equal(c->session.close_code, CLOSE_FLOOD);
    AWAIT(has_got(c, "rate_limited"));
    client_free(c);
}

/* --- windows ---------------------------------------------------------------------------------- */

#define PIECES 3000
#define PIECE_BYTES 1000

static struct run *start_talk(struct client *c, const char *conversation)
{
    char line[160];
    size_t n = home->n_runs;
    snprintf(line, sizeof line, json("{'type':'chat','conversation_id':'%s','message':'talk'}"),
             conversation);
    say(c, line);
    AWAIT(home->n_runs == n + 1 && has_got(c, json("'started'")));
    return home->runs[n];
}

/* A client that reads nothing costs a window, and holds nobody up; later it gets everything. */
static void test_frozen_client(void **state)
{
    (void)state;
    char piece[PIECE_BYTES + 64];
    struct client *frozen = client_at_front("anna"), *quick = client_at_front("anna");
    struct run *r = start_talk(frozen, "c"), *other = start_talk(quick, "d");
    frozen->frozen = true;
    snprintf(piece, sizeof piece, json("{'event':'token','data':{'text':'%0*d'}}"), PIECE_BYTES, 0);
    for (int i = 0; i < PIECES; i++) {
        speak(r, piece);
        if (i % 10 == 0)
            speak(other, json("{'event':'token','data':{'text':'tick'}}"));
        pump();
    }
    AWAIT(count_got(quick, "tick") == PIECES / 10);
    assert_true(session_reply_bytes(&frozen->session) > 0);
    assert_true(session_reply_bytes(&frozen->session) <= LINK_WINDOW + 2 * MAX_MESSAGE_OUT);
    assert_int_equal(links_stats_of(front_links)->links_up, 1);
    frozen->frozen = false;
    r->events->on_end(r->task, RUN_DONE, STR(""));
    session_wake(&frozen->session);
    AWAIT(has_got(frozen, "task.completed"));
    check_dense(frozen, PIECES + OWN_EVENTS);
    client_free(frozen);
    client_free(quick);
}

/* Messages that the home does not take stop the client, and all of them are answered. */
static void test_home_that_takes_no_messages(void **state)
{
    (void)state;
    static char line[60000];
    struct client *c = client_at_front("anna");
    home->hub.o.limits.burst = 100000;
    kit_hang(home, true);
    size_t n = (size_t)snprintf(line, 200,
                                json("{'type':'title','conversation_id':'c','title':'t',"
                                     "'x':'"));
    memset(line + n, 'x', 20000);
    memcpy(line + n + 20000, json("'}"), 3);
    unsigned sent = 0;
    for (; sent < 1000 && !c->held; sent++) {
        say(c, line);
        pump();
    }
    assert_true(c->held);
    kit_hang(home, false);
    AWAIT(!c->held);
    AWAIT(count_got(c, json("'type':")) == 1 + sent); /* welcome, and an answer each */
    client_free(c);
}

/* --- requests without a session, and readers -------------------------------------------------- */

static void test_request_without_a_session(void **state)
{
    (void)state;
    struct told r = {0};
    ask(&r, "anna", NULL, VERB_CHAT, NULL, json("{'message':'hi','request_key':'k'}"));
    AWAIT(r.n == 1);
    assert_int_equal(r.error, ERR_NONE);
    assert_non_null(strstr(r.line.bytes, json("'started'")));
    char task[TASK_ID_LEN + 1];
    snprintf(task, sizeof task, "%s", line_field(r.line.bytes, "task_id"));
    ask(&r, "anna", NULL, VERB_CHAT, NULL, json("{'message':'hi','request_key':'k'}"));
    AWAIT(r.n == 2);
    assert_non_null(strstr(r.line.bytes, task)); /* the key is known at the home */
    ask(&r, "bert", NULL, VERB_TASK_GET, task, "");
    AWAIT(r.n == 3);
    assert_int_equal(r.error, ERR_NOT_FOUND);
    ask(&r, "anna", NULL, VERB_CANCEL, task, "");
    AWAIT(r.n == 4);
    assert_int_equal(r.error, ERR_NONE);
    assert_int_equal(front->hub.stats.requests[VERB_CHAT], 0); /* counted where it was done */
    assert_int_equal(home->hub.stats.requests[VERB_CHAT], 2);
    buf_done(&r.line);
}

static void reader_hold(struct session *s, bool hold)
{
    (void)s, (void)hold;
}
static const struct session_ops reader_session_ops = {.hold = reader_hold};

static void test_reader_knows_when_it_is_through(void **state)
{
    (void)state;
    struct told r = {0};
    struct client c = {.kit = front};
    struct owner *o = owner_ref(&front->hub, STR("anna"));
    session_init(&c.session, &front->hub, &reader_session_ops, &c);
    session_adopt(&c.session, &(struct asker){.owner = o, .quota = o});
    owner_unref(&front->hub, o);
    ask(&r, "anna", &c.session, VERB_CHAT, NULL, json("{'message':'hi'}"));
    AWAIT(r.n == 1 && has_got(&c, "task.started"));
    assert_int_equal(session_knows(&c.session) & (LINK_FOLLOWS | LINK_IS_TOLD | LINK_IS_THROUGH),
                     LINK_FOLLOWS | LINK_IS_TOLD);
    c.frozen = true;
    speak(home->runs[0], json("{'event':'token','data':{'text':'last'}}"));
    AWAIT(session_n_replies(&c.session) > 0);
    assert_int_equal(session_knows(&c.session) & (LINK_FOLLOWS | LINK_IS_TOLD), LINK_FOLLOWS);
    home->runs[0]->events->on_end(home->runs[0]->task, RUN_DONE, STR(""));
    c.frozen = false;
    session_wake(&c.session);
    AWAIT(has_got(&c, "task.completed"));
    AWAIT(!(session_knows(&c.session) & LINK_FOLLOWS));
    assert_true(session_knows(&c.session) & LINK_IS_THROUGH);
    check_dense(&c, 1 + OWN_EVENTS);
    session_done(&c.session);
    buf_done(&c.got);
    buf_done(&r.line);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_client_at_the_wrong_node),
        TEST(test_later_lines_of_the_first_message),
        TEST(test_owner_who_lives_here),
        TEST(test_code_of_a_handover),
        TEST(test_later_hello),
        TEST(test_flood_is_closed_as_at_home),
        TEST(test_frozen_client),
        TEST(test_home_that_takes_no_messages),
        TEST(test_request_without_a_session),
        TEST(test_reader_knows_when_it_is_through),
    };
    int failed = cmocka_run_group_tests_name("plain", tests, NULL, NULL);
    home_tls = front_tls = true;
    return failed + cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
