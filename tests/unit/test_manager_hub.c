/* Rows of the task manager that are rules of the domain: ids, outcomes, the order of a start, and
 * what a failing store does to tasks. */
#include "tests/support/hub_kit.h"

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

static void on_ready(void *arg, int status)
{
    assert_int_equal(status, 0);
    *(bool *)arg = true;
}

/* As a crash and a start would; the hub is restored, but nothing has been carried out yet. */
static void restart(struct kit *k, bool *ready)
{
    kit_close_hub(k);
    kit_open_hub(k);
    *ready = false;
    hub_restore(&k->hub, on_ready, ready);
}

/* The state on disk, read past the hub. */
static struct task_record *stored(struct kit *k, const char *task, struct answer *answer)
{
    *answer = (struct answer){0};
    void *reader = store_memory_ops.reader_open(k->store);
    struct query q = {.kind = QUERY_TASK,
                      .owner = STR("ann"),
                      .conversation_id = STR("c"),
                      .task_id = str_of(task)};
    int status = store_memory_ops.query(reader, &q, answer);
    store_memory_ops.reader_close(reader);
    return status == STORE_OK ? answer->tasks : NULL;
}

static enum task_status stored_status(struct kit *k, const char *task)
{
    struct answer answer;
    const struct task_record *record = stored(k, task, &answer);
    assert_non_null(record);
    enum task_status status = record->state.status;
    answer_done(&answer);
    return status;
}

static const char *shown(struct client *c, const char *task)
{
    client_ask(c, "task", "c", task, "");
    return client_await(c, json("{'type':'task','id':'q'"));
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        n++;
    return n;
}

static void test_a03_each_outcome_has_its_status(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "succeeds with nothing");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    const char *line = shown(c, task);
    assert_non_null(strstr(line, json("'status':'completed'")));
    assert_null(strstr(line, json("'error'")));

    task = client_start(c, "c", "fails");
    run_end(k, kit_run(k, 1), RUN_FAILED, "err");
    line = shown(c, task);
    assert_non_null(strstr(line, json("'status':'failed'")));
    assert_non_null(strstr(line, "err"));
    assert_null(strstr(line, json("'result'")));

    task = client_start(c, "c", "is cancelled");
    client_ask(c, "cancel", "c", task, "");
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    line = shown(c, task);
    assert_non_null(strstr(line, json("'status':'cancelled'")));
    assert_null(strstr(line, json("'result'")));
    client_free(c);
}

/* The agent's side of a cancel: not set, set once, and never by a client that merely goes. */
static void test_a20_cancel_reaches_the_agent_once(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *d = client_new(k, "ann");
    const char *task = client_start(c, "c", "waits");
    assert_int_equal(kit_run(k, 0)->cancels, 0);
    assert_null(strstr(shown(d, task), "cancel_requested_at"));
    client_free(c);
    kit_settle(k);
    assert_int_equal(kit_run(k, 0)->cancels, 0);
    client_ask(d, "cancel", "c", task, "");
    client_await(d, json("'cancelled':1,"));
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    assert_non_null(strstr(shown(d, task), "cancel_requested_at"));
    client_ask(d, "cancel", "c", task, "");
    client_await(d, json("'cancelled':0,"));
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(d);
}

/* The clock stands still: all of these are made within one millisecond. */
static void test_a27_ids_grow_within_one_millisecond(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char last[32] = "";
    for (size_t i = 0; i < 30; i++) {
        const char *task = client_start(c, "c", "hi");
        assert_int_equal(strlen(task), TASK_ID_LEN);
        assert_true(strcmp(last, task) < 0);
        snprintf(last, sizeof last, "%s", task);
    }
    for (size_t i = 0; i < 30; i++)
        run_end(k, kit_run(k, i), RUN_DONE, "");
    client_free(c);
}

/* Nor does an id come again when the clock was set back while the gateway was down. */
static void test_a32_ids_go_on_behind_the_newest_after_a_restart(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char old[2][32];
    for (size_t i = 0; i < countof(old); i++) {
        snprintf(old[i], sizeof old[i], "%s", client_start(c, "c", "hi"));
        run_end(k, kit_run(k, i), RUN_DONE, "");
    }
    client_free(c);
    bool ready;
    kit_close_hub(k);
    k->hub.clock.wall_ms -= 24 * 3600 * 1000;
    kit_open_hub(k);
    hub_restore(&k->hub, on_ready, &ready);
    kit_settle(k);
    assert_true(ready);
    c = client_new(k, "ann");
    const char *new = client_start(c, "c", "hi");
    assert_true(strcmp(old[0], old[1]) < 0 && strcmp(old[1], new) < 0);
    client_say(c, json("{'type':'tasks','id':'t','conversation_id':'c'}"));
    assert_int_equal(count_of(client_await(c, json("'id':'t'")), json("'task_id'")), 3);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    client_free(c);
}

/* The order of a start, a step of the store at a time: no agent runs before what the last process
 * left is repaired, on disk. */
static void test_a53_restore_comes_before_the_first_start(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char ran[32], waits[32];
    snprintf(ran, sizeof ran, "%s", client_start(c, "c", "ran"));
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'half'}}"));
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'waits',"
                       "'when_busy':'enqueue'}"));
    snprintf(waits, sizeof waits, "%s", line_field(client_await(c, json("'started'")), "task_id"));
    client_free(c);
    bool ready;
    restart(k, &ready);
    assert_int_equal(stored_status(k, ran), STATUS_RUNNING);
    for (int quiet = 0; quiet < 2;) {
        kit_turn(k);
        if (k->n_runs > 1)
            assert_int_equal(stored_status(k, ran), STATUS_FAILED);
        if (ready)
            assert_int_equal(stored_status(k, ran), STATUS_FAILED);
        quiet = store_inline_step(k->inline_store) ? 0 : quiet + 1;
    }
    assert_true(ready);
    assert_int_equal(k->n_runs, 2);
    assert_string_equal(kit_run(k, 1)->input, "waits");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_int_equal(stored_status(k, waits), STATUS_COMPLETED);
}

/* A start with nothing to repair writes nothing, and starts nothing. */
static void test_a52_start_changes_nothing(void **state)
{
    struct kit *k = *state;
    bool ready;
    restart(k, &ready);
    kit_settle(k);
    assert_true(ready);
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    struct buf before = {0};
    buf_puts(&before, shown(c, task));
    client_free(c);
    restart(k, &ready);
    kit_settle(k);
    assert_true(ready);
    assert_int_equal(k->n_runs, 1);
    c = client_new(k, "ann");
    assert_string_equal(shown(c, task), before.bytes);
    buf_done(&before);
    client_free(c);
}

/* A task that cannot be recorded does not start, and leaves no trace. */
static void test_a80_chat_that_cannot_be_recorded_starts_nothing(void **state)
{
    struct kit *k = *state;
    k->hub.journal.retry_ms = 1000;
    struct client *c = client_new(k, "ann");
    client_await(c, "welcome");
    store_inline_fail_commits(k->inline_store, 1000, STORE_IO);
    client_say(c, json("{'type':'chat','id':'1','conversation_id':'c','message':'a'}"));
    client_expect_nothing(c); /* it may still go well */
    client_say(c, json("{'type':'chat','id':'2','conversation_id':'c','message':'b'}"));
    for (int i = 0; i < 10; i++)
        kit_pass(k, 1000);
    for (int i = 0; i < 2; i++) {
        const char *line = client_line(c);
        assert_non_null(strstr(line, json("'code':'overloaded'")));
        assert_non_null(strstr(line, json("'retry_after_ms':")));
    }
    client_expect_nothing(c);
    assert_int_equal(k->n_runs, 0);
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    kit_pass(k, 2000);
    client_say(c, json("{'type':'tasks','id':'t','conversation_id':'c'}"));
    client_await(c, json("{'type':'tasks','id':'t','tasks':[],'more':false}"));
    client_free(c);
}

/* The same for a child: its agent never runs, and no list shows it. */
static void test_a81_child_that_cannot_be_recorded_starts_nothing(void **state)
{
    struct kit *k = *state;
    k->hub.journal.retry_ms = 1000;
    struct client *c = client_new(k, "ann");
    char parent[32];
    snprintf(parent, sizeof parent, "%s", client_start(c, "c", "parent"));
    store_inline_fail_commits(k->inline_store, 1000, STORE_IO);
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'call':'spawn','call_id':'s','input':'kid'}"));
    for (int i = 0; i < 10; i++)
        kit_pass(k, 1000);
    assert_int_equal(k->n_runs, 1);
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    kit_pass(k, 2000);
    assert_int_equal(k->n_runs, 1);
    client_say(c, json("{'type':'tasks','id':'t','conversation_id':'c'}"));
    const char *list = client_await(c, json("'id':'t'"));
    assert_int_equal(count_of(list, json("'task_id'")), 1);
    assert_non_null(strstr(list, parent));
    assert_non_null(strstr(list, json("'code':'internal'"))); /* it had said what is now lost */
    assert_true(r->freed);
    client_free(c);
}

/* An end that cannot be written is tried until it can, and told to nobody before. */
static void test_a83_end_that_cannot_be_written_is_told_when_it_is(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *d = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    client_await(c, "task.started");
    client_await(d, "welcome");
    store_inline_fail_commits(k->inline_store, 6, STORE_FULL);
    run_say(k, kit_run(k, 0), json("{'event':'result','data':{'x':1}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    unsigned failures = 0;
    while (!hub_can_write(&k->hub) && failures < 20) {
        client_expect_nothing(c);
        assert_int_equal(stored_status(k, task), STATUS_RUNNING);
        assert_non_null(strstr(shown(d, task), json("'status':'running'")));
        failures++;
        kit_pass(k, 1000);
    }
    assert_true(failures >= 2);
    client_await(c, "task.completed");
    assert_non_null(strstr(shown(d, task), json("'status':'completed'")));
    assert_non_null(strstr(shown(d, task), json("'result':{'x':1}")));
    assert_int_equal(k->hub.journal.n_failures[OPERATION_TASK_COMPLETION], 6);
    client_expect_nothing(c); /* once */
    client_free(c);
    client_free(d);
}

/* Nor is a parent told of the end of its child before. */
static void test_a83_parent_is_told_of_an_end_when_it_is_written(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "parent");
    struct run *parent = kit_run(k, 0);
    run_say(k, parent, json("{'call':'spawn','call_id':'s','input':'kid'}"));
    store_inline_fail_commits(k->inline_store, 3, STORE_BUSY);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_false(hub_can_write(&k->hub));
    assert_null(strstr(parent->delivered.bytes, json("'from':'child'")));
    for (int i = 0; i < 5; i++)
        kit_pass(k, 1000);
    assert_int_equal(count_of(parent->delivered.bytes, json("'from':'child'")), 1);
    run_end(k, parent, RUN_DONE, "");
    client_free(c);
}

/* An inbox is bounded, and the end of a child fits nevertheless. */
static void test_a72_inbox_is_bounded_and_the_end_of_a_child_fits(void **state)
{
    struct kit *k = *state; /* its inboxes hold 10 messages */
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "parent");
    struct run *parent = kit_run(k, 0);
    run_say(k, parent, json("{'call':'spawn','call_id':'s','input':'kid'}"));
    buf_clear(&parent->delivered);
    parent->full = true;
    for (int i = 0; i < 10; i++) {
        client_ask(c, "send", "c", task, json(",'content':'x'"));
        client_await(c, json("{'type':'ok','id':'q'}"));
    }
    client_ask(c, "send", "c", task, json(",'content':'one too many'"));
    client_await(c, json("'code':'overloaded'"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    parent->full = false;
    kit_pass(k, 1000);
    assert_int_equal(count_of(parent->delivered.bytes, json("'from':'user','content':'x'")), 10);
    assert_int_equal(count_of(parent->delivered.bytes, json("'from':'child'")), 1);
    assert_null(strstr(parent->delivered.bytes, "one too many"));
    run_end(k, parent, RUN_DONE, "");
    client_free(c);
}

/* A conversation of which nothing is live is not in memory. */
static void test_w04_conversation_that_was_read_is_forgotten(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'hi',"
                       "'background':true}"));
    char ack[160];
    snprintf(ack, sizeof ack, json("{'type':'ack','conversation_id':'c','task_ids':['%s']}"),
             line_field(client_await(c, json("'started'")), "task_id"));
    assert_int_equal(k->hub.conversations.n, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_say(c, json("{'type':'results','conversation_id':'c'}"));
    client_await(c, json("{'type':'results','results':[{'task_id'"));
    client_say(c, ack);
    client_await(c, json("'acked':1"));
    client_say(c, json("{'type':'results','conversation_id':'c'}"));
    client_await(c, json("{'type':'results','results':[],'more':false}"));
    client_free(c);
    kit_settle(k);
    assert_int_equal(k->hub.conversations.n, 0);
    assert_int_equal(k->hub.owners.n, 0);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_a03_each_outcome_has_its_status),
        HUB_TEST(test_a20_cancel_reaches_the_agent_once),
        HUB_TEST(test_a27_ids_grow_within_one_millisecond),
        HUB_TEST(test_a32_ids_go_on_behind_the_newest_after_a_restart),
        HUB_TEST(test_a52_start_changes_nothing),
        HUB_TEST(test_a53_restore_comes_before_the_first_start),
        HUB_TEST(test_a72_inbox_is_bounded_and_the_end_of_a_child_fits),
        HUB_TEST(test_a80_chat_that_cannot_be_recorded_starts_nothing),
        HUB_TEST(test_a81_child_that_cannot_be_recorded_starts_nothing),
        HUB_TEST(test_a83_end_that_cannot_be_written_is_told_when_it_is),
        HUB_TEST(test_a83_parent_is_told_of_an_end_when_it_is_written),
        HUB_TEST(test_w04_conversation_that_was_read_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
