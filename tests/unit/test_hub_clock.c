/* F40: the wall clock is set back and forward. Numbers, orders and time-outs do not follow it; the
 * expiry of tokens does. */
#include "tests/support/hub_kit.h"

#define MINUTE 60000
#define HOUR (60 * MINUTE)

/* Many small commits cost a busy loop more than they bring; one that would sleep commits at
 * once. */
static void test_hub_busy_loop_commits_once_a_pace(void **state)
{
    static const struct {
        msec_t later; /* than the last batch */
        bool busy, submits;
    } turns[] = {
        {BATCH_PACE_MS, true, true},
        {0, true, false},
        {BATCH_PACE_MS - 1, true, false},
        {BATCH_PACE_MS - 1, false, true},
        {0, false, true},
        {BATCH_PACE_MS - 1, true, false},
        {BATCH_PACE_MS, true, true},
        {9 * BATCH_PACE_MS, true, false}, /* its first turn */
        {9 * BATCH_PACE_MS, true, true},
        {9 * BATCH_PACE_MS, false, true},
    };
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    kit_settle(k);
    msec_t last = k->hub.clock.now_ms;
    for (size_t i = 0; i < countof(turns); i++) {
        r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'x'}}")));
        k->hub.clock.now_ms = last + turns[i].later;
        hub_submit(&k->hub, turns[i].busy);
        assert_int_equal(store_inline_step_commit(k->inline_store), turns[i].submits);
        if (turns[i].submits)
            last = k->hub.clock.now_ms;
    }
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* The wait for more changes is bounded: it ends before the journal is full. */
static void test_hub_busy_loop_commits_at_once_what_is_much(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    kit_settle(k);
    static const char begin[] = "{\"event\":\"token\",\"data\":{\"text\":\"", end[] = "\"}}";
    char line[65536];
    memset(line, 'x', sizeof line);
    memcpy(line, begin, sizeof begin - 1);
    memcpy(line + sizeof line - (sizeof end - 1), end, sizeof end - 1);
    size_t lines = 0;
    do {
        assert_true(lines++ < JOURNAL_FULL_BYTES / sizeof line);
        r->events->on_line(r->task, (struct str){line, sizeof line});
        hub_submit(&k->hub, true);
    } while (!store_inline_step_commit(k->inline_store));
    assert_true(lines > 1);
    assert_int_equal(k->hub.n_live, 1); /* and all of them were taken */
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

static int setup(void **state)
{
    *state = kit_new();
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static void say_token(struct kit *k, size_t run)
{
    run_say(k, kit_run(k, run), json("{'event':'token','data':{'text':'x'}}"));
}

static void test_hub_seqs_are_dense_over_jumps_of_the_clock(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    int64_t jumps[] = {0, -30 * MINUTE, HOUR, -30 * MINUTE};
    for (size_t i = 0; i < countof(jumps); i++) {
        k->hub.clock.wall_ms += jumps[i];
        say_token(k, 0);
        struct client *again = client_new(k, "ann"); /* drop and resume, across each */
        client_ask(again, "resume", "c", task, i ? json(",'after':2") : "");
        client_await(again, json("'resumed'"));
        for (size_t seq = i ? 3 : 1; seq <= 3 + i; seq++) {
            char part[32];
            snprintf(part, sizeof part, json("'seq':%zu,"), seq);
            client_expect(again, part);
        }
        client_expect(again, json("'caught_up'"));
        client_free(again);
    }
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, "task.completed");
    client_free(c);
}

static void test_hub_time_outs_do_not_follow_the_wall_clock(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    k->hub.clock.wall_ms += HOUR;
    kit_pass(k, 299000); /* the idle time-out is 300 s */
    assert_int_equal(kit_run(k, 0)->cancels, 0);
    k->hub.clock.wall_ms -= 2 * HOUR;
    kit_pass(k, 2000);
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, json("'code':'timeout'"));
    client_free(c);
}

static void test_hub_questions_expire_by_what_has_passed(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    run_say(k, kit_run(k, 0),
            json("{'event':'input_required','data':{'input_id':'q','kind':'question',"
                 "'prompt':'?','timeout_s':600}}"));
    client_await(c, "input_required");
    k->hub.clock.wall_ms += HOUR;
    kit_pass(k, 599000);
    client_expect_nothing(c);
    k->hub.clock.wall_ms -= 3 * HOUR;
    kit_pass(k, 2000);
    client_await(c, "input_received");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

/* Lists are in the order of creation, whatever the clock says; over a restart too. */
static void test_hub_ids_grow_when_the_clock_is_set_back(void **state)
{
    struct kit *k = *state;
    char last[TASK_ID_LEN + 1] = "";
    int64_t jumps[] = {0, HOUR, -2 * HOUR, 0, -30 * MINUTE, 1};
    for (size_t i = 0; i < countof(jumps); i++) {
        k->hub.clock.wall_ms += jumps[i];
        struct client *c = client_new(k, "ann");
        const char *task = client_start(c, "c", "hi");
        assert_true(strcmp(task, last) > 0);
        memcpy(last, task, TASK_ID_LEN);
        run_end(k, kit_run(k, i), RUN_DONE, "");
        client_await(c, "task.completed");
        client_say(c, json("{'type':'tasks','id':'t','conversation_id':'c','limit':1}"));
        assert_non_null(strstr(client_await(c, json("'tasks'")), last)); /* the newest */
        client_free(c);
        kit_crash(k);
    }
}

static bool expires_in_half_an_hour(struct session *s, struct str token, struct identity *ret)
{
    if (!client_authenticate(s, token, ret))
        return false;
    ret->expires_at_ms = s->hub->clock.wall_ms + 30 * MINUTE;
    return true;
}

static void test_hub_expiry_of_a_token_follows_the_wall_clock(void **state)
{
    static const struct session_ops ops = {.authenticate = expires_in_half_an_hour,
                                           .hold = client_hold};
    struct kit *k = *state;
    for (int forward = 0; forward < 2; forward++) {
        struct client c = {.kit = k, .owner = "ann"};
        session_init(&c.session, &k->hub, &ops, &c);
        client_say(&c, json("{'type':'hello'}"));
        client_await(&c, "welcome");
        k->hub.clock.wall_ms += forward ? HOUR : -HOUR;
        kit_pass(k, MINUTE); /* it looks at least so often */
        kit_pass(k, 1000);
        assert_int_equal(c.session.state, forward ? SESSION_CLOSING : SESSION_OPEN);
        if (!forward) {
            kit_pass(k, 28 * MINUTE); /* 90 min are left, less what has passed */
            kit_pass(k, 60 * MINUTE);
            client_await(&c, "token_expiring");
            assert_int_equal(c.session.state, SESSION_OPEN);
            kit_pass(k, 2 * MINUTE);
        }
        client_await(&c, "unauthorized");
        assert_int_equal(c.session.close_code, CLOSE_UNAUTHORIZED);
        session_done(&c.session);
        buf_done(&c.got);
    }
}

/* A client that the rate limit refuses learns when to ask again: then it is served, and not much
 * before. */
static void test_hub_rate_limit_tells_when_there_is_room(void **state)
{
    struct kit *k = *state;
    static const unsigned rates[] = {1, 7, 50};
    for (size_t i = 0; i < countof(rates) * 2; i++) {
        k->hub.o.limits.requests_per_second = rates[i / 2];
        struct client *c = client_new(k, "ann");
        const char *line = "";
        while (!strstr(line, "rate_limited")) {
            client_say(c, json("{'type':'ping','id':'x'}"));
            kit_settle(k);
            line = client_await(c, json("'id':'x'"));
        }
        msec_t wait =
            strtol(strrchr(line, ':') + 1, NULL, 10); /* retry_after_ms is the last member */
        kit_pass(k, i % 2 ? wait : wait - 2);
        client_say(c, json("{'type':'ping','id':'y'}"));
        client_await(c, i % 2 ? json("'pong','id':'y'") : json("'id':'y','code':'rate_limited'"));
        client_free(c);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_seqs_are_dense_over_jumps_of_the_clock),
        TEST(test_hub_time_outs_do_not_follow_the_wall_clock),
        TEST(test_hub_questions_expire_by_what_has_passed),
        TEST(test_hub_ids_grow_when_the_clock_is_set_back),
        TEST(test_hub_expiry_of_a_token_follows_the_wall_clock),
        TEST(test_hub_rate_limit_tells_when_there_is_room),
        TEST(test_hub_busy_loop_commits_once_a_pace),
        TEST(test_hub_busy_loop_commits_at_once_what_is_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
