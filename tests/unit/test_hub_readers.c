/* A reader's lines when something comes between two of the hub's reads: a removal, a
 * deletion, an end.  The reads are held back by hand (store_inline_hold), so each pair is met,
 * and not by luck. */
#include "tests/support/hub_kit.h"

#define DAY 86400000LL
#define TICK (RETENTION_TICK_MS + 1000)
#define N_TOKENS 120 /* of 4 KiB: what two loads have, and no third */
#define HEAD (N_TOKENS + 4)

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

static void pass(struct kit *k, msec_t ms)
{
    kit_pass(k, ms);
    for (int i = 0; i < 50; i++)
        kit_pass(k, RETENTION_PAUSE_MS);
}

/* A task that has said so many tokens of 4 KiB, and ended. */
static void finish(struct kit *k, struct client *c, const char *conversation, int tokens,
                   char id[32])
{
    char line[4200];
    snprintf(line, sizeof line, json("{'event':'token','data':{'text':'%04000d'}}"), 7);
    snprintf(id, 32, "%s", client_start(c, conversation, "hi"));
    struct run *r = kit_run(k, k->n_runs - 1);
    for (int i = 0; i < tokens; i++)
        run_say(k, r, line);
    run_end(k, r, RUN_DONE, "");
    client_await(c, "task.completed");
}

/* One turn and one step of the store, until this kind of query is the next. */
static void step_to(struct kit *k, enum query_kind kind)
{
    for (int i = 0; i < 50; i++) {
        kit_turn(k);
        if (store_inline_hold(k->inline_store,
                              false)) { /* there is one: look at it, and put it back */
            store_inline_release(k->inline_store);
            if (store_inline_next(k->inline_store) == kind)
                return;
        }
        kit_step(k);
    }
    fail_msg("no query of kind %d came", (int)kind);
}

/* --- removals --------------------------------------------------------------------------------- */

enum removal_kind { EXPIRED, EVENTS, DELETED };
enum place { RECORD, FIRST_BLOCKS, MORE_BLOCKS };

static void begin(struct kit *k, enum removal_kind removal)
{
    k->retention = (struct retention_options){.task_ms = removal == EXPIRED ? DAY : 0,
                                              .owner_bytes = removal == EVENTS ? 1600000 : 0};
    kit_crash(k);
}

/* Two pieces at least, so that the collector no longer knows of the first. */
static void remove_it(struct kit *k, enum removal_kind removal, bool is_read)
{
    struct client *c = client_new(k, "ann");
    char other[32];
    if (removal == EXPIRED) {
        pass(k, DAY + TICK);
    } else if (removal == EVENTS) {
        finish(k, c, "more", N_TOKENS, other);
        if (!is_read)
            finish(k, c, "more", N_TOKENS, other);
        pass(k, TICK);
    } else {
        client_say(c, json("{'type':'delete','id':'d','conversation_id':'c'}"));
        client_await(c, json("{'type':'ok','id':'d'"));
    }
    client_free(c);
}

struct told {
    bool resumed, first, caught_up, not_found; /* a line without id that names the task */
    uint64_t last;
};

/* Every line that has come, and no other kind than these; events are dense. */
static struct told listen(struct client *c, const char *id)
{
    struct told told = {0};
    for (const char *line = client_line(c); *line; line = client_line(c)) {
        assert_false(told.caught_up || told.not_found); /* the last line */
        if (strstr(line, json("{'type':'resumed'"))) {
            told.resumed = true;
            told.first = strstr(line, json("'first':")) != NULL;
        } else if (strstr(line, json("{'type':'caught_up'"))) {
            told.caught_up = true;
        } else if (strstr(line, json("{'type':'error','code':'not_found'"))) {
            assert_non_null(strstr(line, id));
            told.not_found = true;
        } else if (strstr(line, json("{'type':'error','id':'q','code':'not_found'"))) {
            assert_int_equal(told.last, 0);
        } else {
            char seq[32];
            snprintf(seq, sizeof seq, json("'seq':%d,"), (int)++told.last);
            assert_non_null(strstr(line, json("{'type':'event'")));
            assert_non_null(strstr(line, seq));
        }
    }
    return told;
}

static struct told race(struct kit *k, enum removal_kind removal, enum place place, bool answered)
{
    begin(k, removal);
    struct client *c = client_new(k, "ann");
    char id[32], other[32];
    finish(k, c, "c", N_TOKENS, id);
    for (int i = 0; i < RETENTION_PIECE && removal == EXPIRED; i++)
        finish(k, c, "rest", 1, other);
    client_free(c);
    begin(k, removal); /* nothing of it is in memory */
    pass(k, 0);

    c = client_new(k, "ann");
    client_line(c);
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'resume','id':'q','conversation_id':'c','task_id':'%s'}"), id);
    session_receive(&c->session, str_of(line));
    step_to(k, QUERY_TASK);
    for (enum place at = RECORD; at < place; at++) {
        kit_step(k);
        step_to(k, QUERY_BLOCKS);
    }
    assert_true(store_inline_hold(k->inline_store, answered));
    remove_it(k, removal, place != RECORD);
    store_inline_release(k->inline_store);
    kit_settle(k);
    struct told told = listen(c, id);
    assert_int_equal(k->hub.stats.damages, 0);
    assert_int_equal(k->damaged_at, 0);
    assert_true(list_is_empty(&c->session.subscriptions));
    if (removal != EVENTS) { /* asked anew, it is not there */
        client_ask(c, "resume", "c", id, "");
        client_expect(c, json("{'type':'error','id':'q','code':'not_found'"));
    }
    client_expect_nothing(c);
    static const char *const left[] = {"c", "more", "rest"};
    for (size_t i = 0; i < countof(left); i++) {
        snprintf(line, sizeof line, json("{'type':'delete','id':'d','conversation_id':'%s'}"),
                 left[i]);
        client_say(c, line);
        client_expect(c, json("{'type':'ok','id':'d'"));
    }
    client_free(c);
    return told;
}

/* The record was found, and is told; then what was told of is not there, which is said. */
static void test_hub_removal_between_the_record_and_its_blocks_is_not_found(void **state)
{
    static const enum removal_kind removals[] = {EXPIRED, EVENTS, DELETED};
    for (size_t i = 0; i < countof(removals); i++) {
        struct told told = race(*state, removals[i], RECORD, true);
        assert_true(told.resumed && told.not_found && !told.first && !told.caught_up);
        assert_int_equal(told.last, 0);
    }
}

static void test_hub_removal_before_the_record_is_read_is_not_found(void **state)
{
    static const enum removal_kind removals[] = {EXPIRED, DELETED};
    for (size_t i = 0; i < countof(removals); i++) {
        struct told told = race(*state, removals[i], RECORD, false);
        assert_false(told.resumed || told.not_found || told.caught_up);
    }
    struct told told = race(*state, EVENTS, RECORD, false);
    assert_true(told.resumed && told.first && told.caught_up);
}

static void test_hub_removal_before_or_between_blocks_is_not_found(void **state)
{
    static const enum removal_kind removals[] = {EXPIRED, DELETED};
    for (size_t i = 0; i < countof(removals); i++) {
        for (enum place place = FIRST_BLOCKS; place <= MORE_BLOCKS; place++) {
            for (int answered = 0; answered < 2; answered++) {
                struct told told = race(*state, removals[i], place, answered);
                assert_true(told.resumed && told.not_found && !told.caught_up);
                if (place == FIRST_BLOCKS)
                    assert_int_equal(told.last, 0);
                else
                    assert_in_range(told.last, 1, HEAD - 1);
            }
        }
    }
}

/* Events that are being read stay: quotas take others. */
static void test_hub_events_that_are_read_stay(void **state)
{
    for (int answered = 0; answered < 2; answered++) {
        struct told told = race(*state, EVENTS, MORE_BLOCKS, answered);
        assert_true(told.resumed && told.caught_up && !told.not_found);
        assert_int_equal(told.last, HEAD);
    }
}

/* The commit is on disk, and the hub has not been told yet: blocks are asked for in between. */
static void test_hub_blocks_that_go_before_the_removal_is_told_are_not_found(void **state)
{
    struct kit *k = *state;
    begin(k, EXPIRED);
    struct client *c = client_new(k, "ann");
    char id[32];
    finish(k, c, "c", N_TOKENS, id);
    client_free(c);
    begin(k, EXPIRED);
    pass(k, 0);
    c = client_new(k, "ann");
    client_line(c);
    k->hub.clock.now_ms += DAY + TICK;
    k->hub.clock.wall_ms += DAY + TICK;
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'resume','id':'q','conversation_id':'c','task_id':'%s'}"), id);
    session_receive(&c->session,
                    str_of(line)); /* its record is asked for before the removal is staged */
    step_to(k, QUERY_TASK);
    kit_step(k);
    step_to(k, QUERY_BLOCKS);
    assert_true(store_inline_hold(k->inline_store, false));
    for (int i = 0; i < 50 && !store_inline_apply(k->inline_store); i++) {
        store_inline_step_query(k->inline_store); /* the collector's */
        kit_turn(k);
    }
    store_inline_release(k->inline_store);
    assert_true(store_inline_step_query(k->inline_store)); /* what the commit took is not there … */
    kit_turn(k);
    kit_settle(k); /* … and now the hub is told of the commit */
    struct told told = listen(c, id);
    assert_true(told.resumed && told.not_found && !told.caught_up);
    assert_int_equal(k->hub.stats.damages, 0);
    client_free(c);
}

/* A follower that opened the conversation, and reads slowly: the cache has its blocks no more. */
static void test_hub_removal_under_a_follower_is_not_found(void **state)
{
    struct kit *k = *state;
    begin(k, EXPIRED);
    struct client *c = client_new(k, "ann"), *slow = client_new(k, "ann");
    client_say(slow, json("{'type':'open','id':'o','conversation_id':'c','follow':true}"));
    client_await(slow, json("'conversation'"));
    slow->frozen = true;
    char id[32];
    finish(k, c, "c", N_TOKENS, id);
    struct stream *s = hub_find_stream(&k->hub, STR("ann"), STR("c"), str_of(id));
    block_cache_drop(&k->hub.cache, s);
    slow->frozen = false;
    session_wake(&slow->session);
    step_to(k, QUERY_BLOCKS);
    assert_true(store_inline_hold(k->inline_store, false));
    pass(k, DAY + TICK);
    store_inline_release(k->inline_store);
    kit_settle(k);
    const char *line = client_await(slow, json("{'type':'error','code':'not_found'"));
    assert_non_null(strstr(line, id));
    assert_int_equal(k->hub.stats.damages, 0);
    client_free(c);
    client_free(slow);
}

/* Events that the record still has, but not the store, are damaged: they are reported as before. */
static void test_hub_blocks_that_are_missing_are_damage(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[32];
    finish(k, c, "c", 3, id);
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    client_line(c);
    struct client *other = client_new(k, "ann");
    client_ask(other, "task", "c", id, "");
    client_free(other);
    struct batch *b = batch_new();
    /* As if somebody had taken the blocks alone: the head says that there are more. */
    struct answer a;
    assert_int_equal(store_memory_ops.query(k->store,
                                            &(struct query){.kind = QUERY_TASK,
                                                            .owner = STR("ann"),
                                                            .conversation_id = STR("c"),
                                                            .task_id = str_of(id)},
                                            &a),
                     0);
    struct task_state state_of = a.tasks[0].state;
    state_of.head += 5;
    batch_put(b, &(struct op){.kind = OP_TASK_SET, .task_key = a.tasks[0].key, .state = &state_of});
    assert_int_equal(store_memory_ops.commit(k->store, b), 0);
    batch_free(b);
    answer_done(&a);
    client_ask(c, "resume", "c", id, "");
    client_await(c, json("'seq':7,"));
    const char *line = client_line(c);
    assert_non_null(strstr(line, json("{'type':'error','code':'internal'")));
    assert_non_null(strstr(line, id));
    client_expect_nothing(c);
    assert_int_equal(k->damaged_at, 8);
    assert_int_equal(k->hub.stats.damages, 1);
    client_free(c);
}

/* --- records that are out of date ------------------------------------------------------------- */

static void ask_stale(struct client *c, const char *verb, const char *id)
{
    if (strcmp(verb, "chat") == 0)
        client_say(c, json("{'type':'chat','id':'q','conversation_id':'c','message':'hi',"
                           "'request_key':'k'}"));
    else
        client_ask(c, verb, "c", id,
                   strcmp(verb, "respond") == 0 ? json(",'input_id':'i','answer':'x'") : "");
}

/* The first may be from before the task's end; the second was requested after it. */
static void test_hub_record_that_stays_out_of_date_is_damage(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'hi','request_key':'k'}"));
    char id[32];
    snprintf(id, sizeof id, "%s", line_field(client_await(c, json("'started'")), "task_id"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    client_line(c);
    static const char *const verbs[] = {"resume", "task", "respond", "chat"};
    for (size_t i = 0; i < countof(verbs); i++) {
        kit_stale = 1; /* read again, and good */
        ask_stale(c, verbs[i], id);
        assert_int_equal(kit_stale, 0);
        const char *line = client_line(c);
        assert_non_null(strstr(line, json("'id':'q'")));
        assert_null(strstr(line, json("'internal'")));
        kit_settle(k);
        while (*client_line(c))
            ;
        uint64_t damages = k->hub.stats.damages;
        unsigned reads = kit_passed[KIT_READ];
        kit_stale = 1000;
        k->bounded = true; /* else an answer that never comes would be waited for */
        k->steps_left = 20;
        ask_stale(c, verbs[i], id);
        client_expect(c, json("{'type':'error','id':'q','code':'internal'"));
        client_expect_nothing(c);
        assert_int_equal(kit_passed[KIT_READ] - reads, 2);
        assert_int_equal(k->hub.stats.damages - damages, 1);
        k->bounded = false;
        kit_stale = 0;
    }
    client_free(c);
}

/* A list is read, and one of its tasks ends before it is told: nobody who saw the end sees it
 * live. */
static void test_hub_list_is_no_older_than_an_end_that_was_seen(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *other = client_new(k, "ann");
    client_start(c, "c", "hi");
    client_line(other);
    session_receive(&other->session,
                    str_of(json("{'type':'tasks','id':'q','conversation_id':'c'}")));
    assert_true(store_inline_hold(k->inline_store, true));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, "task.completed");
    kit_pass(k, 1000);
    store_inline_release(k->inline_store);
    kit_settle(k);
    const char *line = client_line(other);
    assert_non_null(strstr(line, json("{'type':'tasks','id':'q'")));
    assert_non_null(strstr(line, json("'status':'completed'")));
    client_free(c);
    client_free(other);
}

/* Unreadable events stay unreadable: they are not requested again and again. */
static void test_hub_record_that_is_damaged_is_not_asked_for_ever(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'watch'}"));
    client_start(c, "c", "hi");
    client_await(c, "conversation_changed");
    store_inline_fail_queries(k->inline_store, 100000, STORE_CORRUPT);
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'x',"
                       "'background':true,'notify_on_complete':true}"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    kit_pass(k, 1000);
    unsigned asked = store_inline_failed(k->inline_store);
    assert_true(asked > 0);
    for (int i = 0; i < 100; i++)
        kit_pass(k, 200);
    assert_int_equal(store_inline_failed(k->inline_store), asked);
    store_inline_fail_queries(k->inline_store, 0, STORE_OK);
    client_free(c);
}

/* Nor is a store that cannot be read asked for ever: the reader is told, and may come again. */
static void test_hub_events_that_stay_unreadable_are_overloaded(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[32];
    finish(k, c, "c", 3, id);
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    client_line(c);
    char line[256];
    snprintf(line, sizeof line,
             json("{'type':'resume','id':'q','conversation_id':'c','task_id':'%s'}"), id);
    session_receive(&c->session, str_of(line));
    step_to(k, QUERY_BLOCKS);
    store_inline_fail_queries(k->inline_store, 100000, STORE_IO);
    kit_settle(k);
    client_await(c, json("'resumed'"));
    for (msec_t waited = 0; waited < 29000; waited += 1000)
        kit_pass(k, 1000);
    client_expect_nothing(c);
    for (int i = 0; i < 3; i++)
        kit_pass(k, 1000);
    client_expect(c, json("{'type':'error','code':'overloaded'"));
    client_expect_nothing(c);
    assert_int_equal(k->hub.stats.damages, 0);
    store_inline_fail_queries(k->inline_store, 0, STORE_OK);
    client_ask(c, "resume", "c", id, "");
    client_await(c, "task.completed");
    client_free(c);
}

/* --- reading on ------------------------------------------------------------------------------- */

static bool has_query(struct kit *k)
{
    bool has = store_inline_hold(k->inline_store, false);
    if (has)
        store_inline_release(k->inline_store);
    return has;
}

/* And what could not be read before it was needed is asked for again when it is, at once. */
static void test_hub_reader_gets_the_next_blocks_before_it_needs_them(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char id[32], line[256];
    finish(k, c, "c", N_TOKENS, id);
    client_free(c);
    kit_crash(k);
    for (unsigned failures = 0; failures < 2; failures++) {
        c = client_new(k, "ann");
        client_line(c);
        snprintf(line, sizeof line,
                 json("{'type':'resume','id':'q','conversation_id':'c','task_id':'%s'}"), id);
        session_receive(&c->session, str_of(line));
        step_to(k, QUERY_BLOCKS);
        c->frozen = true;
        kit_step(k);
        while (!has_query(k)) {
            assert_true(session_fill(&c->session, &c->got, MAX_MESSAGE_OUT));
            buf_putc(&c->got, '\n');
        }
        assert_true(session_has_output(&c->session));
        assert_int_equal(store_inline_next(k->inline_store), QUERY_BLOCKS);
        store_inline_fail_queries(k->inline_store, failures, STORE_IO);
        c->frozen = false;
        session_wake(&c->session);
        kit_settle(k);
        assert_true(listen(c, id).caught_up);
        client_free(c);
        kit_crash(k);
    }
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hub_removal_between_the_record_and_its_blocks_is_not_found),
        TEST(test_hub_removal_before_the_record_is_read_is_not_found),
        TEST(test_hub_removal_before_or_between_blocks_is_not_found),
        TEST(test_hub_events_that_are_read_stay),
        TEST(test_hub_blocks_that_go_before_the_removal_is_told_are_not_found),
        TEST(test_hub_removal_under_a_follower_is_not_found),
        TEST(test_hub_blocks_that_are_missing_are_damage),
        TEST(test_hub_record_that_stays_out_of_date_is_damage),
        TEST(test_hub_list_is_no_older_than_an_end_that_was_seen),
        TEST(test_hub_record_that_is_damaged_is_not_asked_for_ever),
        TEST(test_hub_events_that_stay_unreadable_are_overloaded),
        TEST(test_hub_reader_gets_the_next_blocks_before_it_needs_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
