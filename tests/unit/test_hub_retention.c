/* Retention driven through its clients: what is gone, who is refused, and that no reader is
 * misled. */
#include <stdlib.h>

#include "tests/support/hub_kit.h"

#define DAY 86400000LL
#define TICK (RETENTION_TICK_MS + 1000)

static int setup(void **state)
{
    struct kit *k = kit_new();
    for (size_t i = 0; i < countof(k->agents); i++)
        k->agents[i].timeout_ms = k->agents[i].idle_timeout_ms = 0; /* days pass here */
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

/* Many pieces: each waits for a pause. */
static void pass(struct kit *k, msec_t ms)
{
    kit_pass(k, ms);
    for (int i = 0; i < 50; i++)
        kit_pass(k, RETENTION_PAUSE_MS);
}

/* A task that has said so many tokens and ended; its id. */
static const char *finished(struct kit *k, struct client *c, const char *conversation, int tokens)
{
    const char *id = client_start(c, conversation, "hi");
    struct run *r = kit_run(k, k->n_runs - 1);
    for (int i = 0; i < tokens; i++)
        run_say(k, r, json("{'event':'token','data':{'text':'some words '}}"));
    run_end(k, r, RUN_DONE, "");
    client_await(c, "task.completed");
    return id;
}

static void begin(struct kit *k, struct retention_options o)
{
    k->retention = o;
    kit_crash(k);
}

static void expect_refused(struct client *c, const char *why)
{
    client_say(c, json("{'type':'chat','id':'r','conversation_id':'n','message':'x'}"));
    const char *line = client_await(c, json("'id':'r'"));
    assert_non_null(strstr(line, json("'overloaded'")));
    assert_non_null(strstr(line, why));
    assert_non_null(strstr(line, json("'retry_after_ms'")));
}

static void test_hub_what_ended_long_ago_is_not_found(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.task_ms = DAY});
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    char old[32], young[32];
    snprintf(old, sizeof old, "%s", finished(k, c, "old", 20));
    client_start(other, "lives", "on");
    struct run *lives = kit_run(k, k->n_runs - 1);
    pass(k, DAY / 2);
    snprintf(young, sizeof young, "%s", finished(k, c, "young", 3));
    pass(k, DAY / 2 - TICK);
    client_ask(c, "task", "old", old, "");
    client_await(c, json("'task':{"));
    pass(k, TICK);
    static const char *const verbs[] = {"resume", "task", "cancel"};
    for (size_t i = 0; i < countof(verbs); i++) {
        client_ask(c, verbs[i], "old", old, "");
        client_await(c, json("'not_found'"));
    }
    client_say(c, json("{'type':'conversations','id':'l'}"));
    const char *list = client_await(c, json("'conversations':["));
    assert_null(strstr(list, json("'old'")));
    assert_non_null(strstr(list, json("'young'")));
    client_ask(c, "resume", "young", young, "");
    client_await(c, "task.completed");
    assert_int_equal(k->hub.retention.n_tasks, 1);
    assert_int_equal(lives->cancels + lives->kills, 0);
    run_say(k, lives, json("{'event':'token','data':{'text':'still here'}}"));
    client_await(other, "still here");
    client_free(c);
    client_free(other);
}

static void test_hub_many_expired_go_in_pieces(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.task_ms = DAY});
    struct client *c = client_new(k, "ann");
    for (int i = 0; i < 3 * RETENTION_PIECE; i++)
        finished(k, c, "c", 1);
    uint64_t before = k->hub.journal.n_commits;
    kit_pass(k, DAY + TICK);
    assert_int_equal(k->hub.retention.n_tasks, RETENTION_PIECE);
    kit_pass(k, RETENTION_PAUSE_MS);
    assert_int_equal(k->hub.retention.n_tasks, 2 * RETENTION_PIECE);
    pass(k, 0);
    assert_int_equal(k->hub.retention.n_tasks, 3 * RETENTION_PIECE);
    assert_in_range(k->hub.journal.n_commits - before, 3, 6);
    client_free(c);
}

static void test_hub_an_owners_oldest_events_go_first_and_are_told(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.owner_bytes = 16384});
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    char first[32], kept[32], his[32];
    snprintf(his, sizeof his, "%s", finished(k, other, "c", 40));
    snprintf(first, sizeof first, "%s", finished(k, c, "c", 40)); /* some 6 KB each */
    finished(k, c, "c", 40);
    snprintf(kept, sizeof kept, "%s", finished(k, c, "c", 40));
    pass(k, 0);
    assert_int_equal(k->hub.retention.n_tasks, 0);
    assert_in_range(k->hub.retention.n_events, 1, 2);
    assert_int_equal(k->hub.retention.n_full, 0);
    client_ask(c, "resume", "c", first, "");
    const char *line = client_await(c, json("'resumed'"));
    assert_non_null(strstr(line, json("'after':0,'head':44,'first':45")));
    assert_non_null(strstr(line, json("'output':'some words")));
    client_expect(c, json("'caught_up'"));
    client_expect_nothing(c);
    client_ask(c, "resume", "c", kept, "");
    client_await(c, json("'seq':1,"));
    client_await(c, "task.completed");
    client_ask(other, "resume", "c", his, ""); /* nobody's writing evicts another's */
    client_await(other, json("'seq':1,"));
    client_free(c);
    client_free(other);
}

static void test_hub_full_owner_starts_nothing_and_what_runs_goes_on(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.owner_bytes = 3000});
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    client_start(c, "lives", "on");
    struct run *lives = kit_run(k, k->n_runs - 1);
    for (int i = 0; i < 3; i++)
        finished(k, c, "c", 1);
    pass(k, 0);
    assert_int_equal(k->hub.retention.n_full, 1);
    assert_int_equal(k->hub.retention.n_tasks, 0); /* all are younger than a day */
    expect_refused(c, "this owner's share of the store is full");
    assert_int_equal(k->hub.stats.limit_hits[LIMIT_STORE_PER_OWNER], 1);
    client_start(other, "c", "free");
    run_say(k, lives, json("{'call':'spawn','call_id':'s','agent':'first','input':'x'}"));
    assert_non_null(strstr(lives->delivered.bytes, "share of the store is full"));
    run_say(k, lives, json("{'event':'token','data':{'text':'goes on'}}"));
    client_await(c, "goes on");

    client_free(c); /* a restart does not forget it */
    client_free(other);
    begin(k, k->retention);
    c = client_new(k, "ann");
    expect_refused(c, "this owner's share of the store is full");
    client_say(c, json("{'type':'delete','id':'d','conversation_id':'c'}"));
    client_await(c, json("'ok'"));
    pass(k, 0);
    client_start(c, "c", "again");
    assert_int_equal(k->hub.retention.n_full, 0);
    client_free(c);
}

static msec_t retry_after(struct client *c)
{
    client_say(c, json("{'type':'chat','id':'r','conversation_id':'n','message':'x'}"));
    const char *line = client_await(c, json("'id':'r'"));
    const char *at = strstr(line, json("'retry_after_ms':"));
    assert_non_null(strstr(line, "this owner's share of the store is full"));
    return at ? strtoll(at + strlen(json("'retry_after_ms':")), NULL, 10) : -1;
}

/* Records stay for a day: the first that ended goes first, and with it room may come. */
static void test_hub_full_owner_is_told_when_room_can_come(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.owner_bytes = 3000});
    struct client *c = client_new(k, "ann");
    for (int i = 0; i < 3; i++)
        finished(k, c, "c", 1);
    int64_t ended = k->hub.clock.wall_ms;
    pass(k, TICK);
    assert_int_equal(retry_after(c), ended + DAY - k->hub.clock.wall_ms);
    pass(k, DAY / 2);
    msec_t rest = retry_after(c);
    assert_int_equal(rest, ended + DAY - k->hub.clock.wall_ms);
    pass(k, rest - RETENTION_TICK_MS);
    expect_refused(c, "this owner's share of the store is full");
    pass(k, 2 * TICK); /* and then it has come */
    client_start(c, "c", "again");
    client_free(c);
}

/* All of it is of what runs: no day makes room. */
static void test_hub_owner_full_of_what_runs_is_told_that_waiting_does_not_help(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.owner_bytes = 3000});
    struct client *c = client_new(k, "ann");
    client_start(c, "lives", "on");
    struct run *lives = kit_run(k, k->n_runs - 1);
    for (int i = 0; i < 200; i++)
        run_say(k, lives, json("{'event':'token','data':{'text':'some words '}}"));
    pass(k, TAIL_AGE_MS + 1000); /* it lies in blocks */
    client_start(c, "c", "look at me");
    run_end(k, kit_run(k, k->n_runs - 1), RUN_DONE, "");
    client_say(c, json("{'type':'delete','id':'d','conversation_id':'c'}"));
    client_await(c, json("{'type':'ok','id':'d'"));
    pass(k, TICK);
    assert_int_equal(retry_after(c), -1);
    client_free(c);
}

static void test_hub_full_owner_loses_records_of_the_day_before(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.owner_bytes = 3000});
    struct client *c = client_new(k, "ann");
    char oldest[32];
    snprintf(oldest, sizeof oldest, "%s", finished(k, c, "c", 1));
    finished(k, c, "c", 1);
    finished(k, c, "c", 1);
    pass(k, 0);
    expect_refused(c, "share");
    pass(k, DAY + TICK);
    assert_true(k->hub.retention.n_tasks >= 1);
    assert_int_equal(k->hub.retention.n_full, 0);
    client_ask(c, "task", "c", oldest, "");
    client_await(c, json("'not_found'"));
    client_start(c, "c", "again");
    client_free(c);
}

static void test_hub_full_store_refuses_everybody(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.store_bytes = 2500});
    struct client *c = client_new(k, "ann"), *other = client_new(k, "bob");
    for (int i = 0; i < 3; i++)
        finished(k, c, "c", 1);
    pass(k, TICK);
    expect_refused(c, json("'the store is full'"));
    expect_refused(other, json("'the store is full'"));
    client_say(c, json("{'type':'delete','id':'d','conversation_id':'c'}"));
    client_await(c, json("'ok'"));
    pass(k, TICK);
    client_start(other, "c", "again");
    client_free(c);
    client_free(other);
}

/* Events that are being read stay; a whole task goes, and its reader is told. */
static void test_hub_reader_is_never_left_in_the_middle(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.owner_bytes = 8192, .task_ms = DAY});
    struct client *c = client_new(k, "ann"), *slow = client_new(k, "ann");
    char id[32];
    snprintf(id, sizeof id, "%s", finished(k, c, "c", 20));
    slow->frozen = true;
    client_ask(slow, "resume", "c", id, "");
    finished(k, c, "c", 40);
    pass(k, 0);
    assert_int_equal(k->hub.retention.n_events, 1); /* the other's */
    slow->frozen = false;
    session_wake(&slow->session);
    kit_settle(k);
    client_await(slow, json("'seq':1,"));
    client_await(slow, "task.completed");

    char other[32];
    snprintf(other, sizeof other, "%s", finished(k, c, "d", 3));
    slow->frozen = true;
    client_ask(slow, "resume", "d", other, "");
    pass(k, DAY + TICK);
    slow->frozen = false;
    session_wake(&slow->session);
    kit_settle(k);
    client_await(slow, json("'not_found'"));
    client_free(c);
    client_free(slow);
}

/* Someone asks while the removal is on its way: all of it, or the gap, and nothing between. */
static void test_hub_resume_races_the_removal(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.task_ms = DAY});
    struct client *c = client_new(k, "ann");
    for (int steps = 0; steps < 12; steps++) {
        char id[32];
        snprintf(id, sizeof id, "%s", finished(k, c, "c", 5));
        k->hub.clock.now_ms += DAY + TICK;
        k->hub.clock.wall_ms += DAY + TICK;
        kit_turn(k);
        for (int i = 0; i < steps; i++) {
            (void)kit_step(k);
            kit_turn(k);
        }
        client_ask(c, "resume", "c", id, "");
        const char *line = client_await(c, json("'id':'q'"));
        if (strstr(line, json("'resumed'"))) {
            client_expect(c, json("'seq':1,"));
        } else {
            assert_non_null(strstr(line, json("'not_found'")));
        }
        pass(k, TICK);
        while (*client_line(c))
            ;
        assert_int_equal(k->damaged_at, 0);
        client_ask(c, "task", "c", id, "");
        client_await(c, json("'not_found'"));
    }
    client_free(c);
}

static void test_hub_failing_store_removes_later(void **state)
{
    struct kit *k = *state;
    begin(k, (struct retention_options){.task_ms = DAY});
    struct client *c = client_new(k, "ann");
    char id[32];
    snprintf(id, sizeof id, "%s", finished(k, c, "c", 5));
    store_inline_fail_commits(k->inline_store, 1000, STORE_FULL);
    pass(k, DAY + TICK);
    client_ask(c, "resume", "c", id, ""); /* whether it has gone is not decided */
    const char *line = client_await(c, json("'id':'q'"));
    assert_non_null(strstr(line, json("'overloaded'")));
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    for (int i = 0; i < 60; i++)
        pass(k, 1000);
    client_ask(c, "resume", "c", id, "");
    client_await(c, json("'not_found'"));
    client_free(c);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hub_what_ended_long_ago_is_not_found),
        TEST(test_hub_many_expired_go_in_pieces),
        TEST(test_hub_an_owners_oldest_events_go_first_and_are_told),
        TEST(test_hub_full_owner_starts_nothing_and_what_runs_goes_on),
        TEST(test_hub_full_owner_is_told_when_room_can_come),
        TEST(test_hub_owner_full_of_what_runs_is_told_that_waiting_does_not_help),
        TEST(test_hub_full_owner_loses_records_of_the_day_before),
        TEST(test_hub_full_store_refuses_everybody),
        TEST(test_hub_reader_is_never_left_in_the_middle),
        TEST(test_hub_resume_races_the_removal),
        TEST(test_hub_failing_store_removes_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
