/* A store behind a network: commits whose outcome is not known, and a store that is another
 * process's now.  The memory store refuses a task that it has, so what is applied twice is seen. */
#include "tests/support/hub_kit.h"

#define TOKEN(text) json("{'event':'token','data':{'text':'" text "'}}")

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

static void pass_seconds(struct kit *k, int n)
{
    for (int i = 0; i < n; i++)
        kit_pass(k, 1000);
}

/* The line without the kit's way to settle, which would run through all retries. */
static void say_unsettled(struct kit *k, const char *line)
{
    struct run *r = kit_run(k, k->n_runs - 1);
    r->events->on_line(r->task, str_of(line));
    kit_turn(k);
    kit_step(k);
    kit_turn(k);
}

/* Committed, and nobody knows: nobody is told, until the same batch says so; it is there once. */
static void test_hub_unknown_start_is_told_once(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_await(c, json("'welcome'"));
    kit_unknown = 2;
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'hi'}"));
    client_expect_nothing(c);
    assert_int_equal(k->n_runs, 0);
    for (int i = 0; i < 5; i++) /* the client's patience is longer than this */
        kit_pass(k, 100);
    client_await(c, json("'started'"));
    assert_int_equal(k->n_runs, 1);
    client_free(c);
}

static void test_hub_unknown_lines_are_dense_either_way(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    run_say(k, kit_run(k, 0), TOKEN("one"));
    client_await(c, json("'seq':3,"));

    kit_unknown = 2; /* applied, but its answer is lost, twice */
    say_unsettled(k, TOKEN("two"));
    assert_int_equal(kit_unknown, 1);
    client_expect_nothing(c);
    pass_seconds(k, 3);
    client_expect(c, json("'seq':4,"));
    client_expect_nothing(c);

    store_inline_fail_commits(k->inline_store, 2, STORE_UNKNOWN); /* not applied */
    say_unsettled(k, TOKEN("three"));
    client_expect_nothing(c);
    pass_seconds(k, 3);
    client_expect(c, json("'seq':5,"));
    client_expect_nothing(c);
    assert_true(k->hub.journal.n_unknown >= 4);
    assert_true(hub_can_write(&k->hub));
    client_free(c);
}

/* Patience is over, but not before the outcome is known: what was committed is not a loss. */
static void test_hub_unknown_is_not_given_up_when_it_was_committed(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    kit_unknown = 1;
    say_unsettled(k, TOKEN("kept"));
    store_inline_fail_commits(k->inline_store, 100, STORE_UNKNOWN); /* it cannot be reached */
    pass_seconds(k, 60);
    assert_true(k->hub.journal.flying->give_up);
    client_await(c, json("'seq':2,"));
    client_expect_nothing(c);
    assert_false(kit_run(k, 0)->freed);

    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    pass_seconds(k, 5);
    assert_non_null(strstr(client_await(c, "kept"), json("'seq':3,")));
    run_say(k, kit_run(k, 0), TOKEN("more"));
    assert_non_null(strstr(client_await(c, "more"), json("'seq':4,")));
    client_free(c);
}

/* … and what was not, and cannot be any more, is: its number is void. */
static void test_hub_unknown_is_given_up_when_it_is_void(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    store_inline_fail_commits(k->inline_store, 100, STORE_UNKNOWN);
    say_unsettled(k, TOKEN("unheard"));
    pass_seconds(k, 60);
    assert_false(kit_run(k, 0)->freed);
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    pass_seconds(k, 5);
    assert_true(kit_run(k, 0)->freed);
    assert_non_null(strstr(client_await(c, "task.failed"), json("'code':'internal'")));
    assert_null(strstr(c->got.bytes, json("'event':'token'"))); /* the failure has its text alone */
    client_start(c, "d", "hi");                                 /* numbers go on behind it */
    client_free(c);
}

static void test_hub_numbers_go_on_over_a_restart(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    uint64_t last = k->hub.journal.last_number;
    assert_true(last > 0);
    client_free(c);
    kit_crash(k);
    assert_true(k->hub.journal.last_number > last); /* the repair was committed */
    c = client_new(k, "ann");
    client_start(c, "d", "hi");
    client_free(c);
}

/* Another process has the store: nothing is said any more, whatever happens, also at the end. */
static void fence(struct kit *k, struct client *c)
{
    size_t told = c->got.len;
    uint64_t commits = k->hub.journal.n_commits;
    pass_seconds(k, 100);
    say_unsettled(k, TOKEN("later"));
    pass_seconds(k, 100);
    assert_int_equal(k->n_fenced, 1);
    assert_int_equal(k->hub.journal.n_commits, commits);
    assert_int_equal(c->got.len, told);
    client_free(c);
}

static void test_hub_fenced_is_silent(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    client_line(c);
    store_inline_fail_commits(k->inline_store, 1, STORE_FENCED);
    run_say(k, kit_run(k, 0), TOKEN("unseen"));
    fence(k, c);
}

/* A request waits for a batch in doubt; then the process learns that it is no home any more. */
static void test_hub_fenced_in_doubt_is_silent(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    kit_unknown = 1;
    say_unsettled(k, TOKEN("unseen"));
    client_ask(c, "cancel", "c", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "");
    store_inline_fail_commits(k->inline_store, 1, STORE_FENCED);
    kit_pass(k, 100);
    fence(k, c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_unknown_start_is_told_once),
        TEST(test_hub_unknown_lines_are_dense_either_way),
        TEST(test_hub_unknown_is_not_given_up_when_it_was_committed),
        TEST(test_hub_unknown_is_given_up_when_it_is_void),
        TEST(test_hub_numbers_go_on_over_a_restart),
        TEST(test_hub_fenced_is_silent),
        TEST(test_hub_fenced_in_doubt_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
