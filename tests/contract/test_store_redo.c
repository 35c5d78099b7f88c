/* A server that is another one than before and has lost batches: what a node had is sent again, and
 * what cannot be raises the epoch.  The loss is the rows as they were some batches ago; that the
 * server is another one is told to the node by the history that it remembers. */
#include "tests/contract/store_kit.h"

#ifdef HOLDFAST_POSTGRES
#include "gateway/store/store_pg_private.h"

#define LEASE_S 1

static struct store_pg *open_redo(const char *node, size_t bytes)
{
    char error[STORE_ERROR_TEXT] = "";
    struct store_pg *s = NULL;
    struct store_pg_options o = {
        .url = pg_kit_url(), .node = node, .lease_s = LEASE_S, .redo_bytes = bytes};
    if (store_pg_open(&o, &s, error) < 0)
        fail_msg("%s", error);
    return s;
}

static struct store_pg *open_first(void)
{
    struct store_pg *s = open_redo("one", 1 << 20);
    pg_kit_sql("UPDATE cluster SET store_epoch = 1");
    return s;
}

static int setup(void **state)
{
    return node_setup(state, open_first);
}

static struct store_pg *store_of(struct fixture *f)
{
    return f->store;
}

/* --- losing ----------------------------------------------------------------------------------- */

#define EACH_TABLE(statements)                                                                      \
    "DO $$ DECLARE t text; c text := current_schema() || '_copy'; BEGIN FOR t IN SELECT tablename " \
    "FROM pg_tables WHERE schemaname = current_schema() LOOP " statements " END LOOP; END $$"

static void remember(void)
{
    pg_kit_sql(
        "DO $$ BEGIN PERFORM set_config('client_min_messages', 'error', true); EXECUTE 'DROP SCHEMA IF "
        "EXISTS ' || current_schema() || '_copy CASCADE'; EXECUTE 'CREATE SCHEMA ' || "
        "current_schema() || '_copy'; END $$");
    pg_kit_sql(EACH_TABLE("EXECUTE format('CREATE TABLE %I.%I AS TABLE %I', c, t, t);"));
}

static void lose_rows(void)
{
    pg_kit_sql(EACH_TABLE("EXECUTE format('DELETE FROM %I', t);"
                          "EXECUTE format('INSERT INTO %I SELECT * FROM %I.%I', t, c, t);"));
    pg_kit_sql("DO $$ BEGIN PERFORM set_config('client_min_messages', 'error', true); "
               "EXECUTE 'DROP SCHEMA ' || current_schema() || '_copy CASCADE'; END $$");
}

/* To that node the server is another one than before. */
static void meet_another(struct store_pg *s)
{
    char sql[128];
    pg_conn_close(&s->writer);
    uv_mutex_lock(&s->lock);
    snprintf(s->history, sizeof s->history, "before");
    uv_mutex_unlock(&s->lock);
    snprintf(sql, sizeof sql, "UPDATE nodes SET history = 'before' WHERE incarnation = %lld",
             (long long)s->incarnation);
    pg_kit_sql(sql);
}

static const char *epoch(void)
{
    return pg_kit_sql("SELECT store_epoch > 1 FROM cluster");
}

static void put_numbered(struct fixture *f, uint64_t number)
{
    f->batch->number = number;
}

static int commit_as(struct fixture *f, uint64_t number)
{
    put_numbered(f, number);
    return commit_status(f);
}

static void begin(struct fixture *f)
{
    put_task(f, 7, "ann", "c", "t1");
    put_lines(f, 7, 1, 3);
    assert_int_equal(commit_as(f, 1), STORE_OK);
}

/* A message, a block, lines. */
static void three_batches(struct fixture *f)
{
    put_message(f, "ann", "c", "m1", "hi");
    put_lines(f, 7, 4, 5);
    assert_int_equal(commit_as(f, 2), STORE_OK);
    put_seal(f, 7, 1, 6);
    assert_int_equal(commit_as(f, 3), STORE_OK);
    put_lines(f, 7, 7, 9);
    assert_int_equal(commit_as(f, 4), STORE_OK);
}

/* --- sent again ------------------------------------------------------------------------------- */

static void expect_three(struct fixture *f)
{
    assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 7, 10);
    assert_string_equal(pg_kit_sql("SELECT first || '-' || last FROM blocks"), "1-6");
    assert_string_equal(pg_kit_sql("SELECT convert_from(content, 'UTF8') FROM messages"), "hi");
    assert_string_equal(epoch(), "f");
}

static void test_lost_batches_are_sent_again(void **state)
{
    struct fixture *f = *state;
    begin(f);
    remember();
    three_batches(f);
    lose_rows();
    assert_string_equal(pg_kit_sql("SELECT batch FROM nodes"), "1");
    meet_another(store_of(f));
    put_lines(f, 7, 10, 10);
    assert_int_equal(commit_as(f, 5), STORE_OK);
    expect_three(f);
    assert_int_equal(store_pg_redone(store_of(f)), 3);
}

/* Without a batch of its own: the store does it alone. */
static void test_idle_store_sends_them_again(void **state)
{
    struct fixture *f = *state;
    begin(f);
    remember();
    three_batches(f);
    lose_rows();
    meet_another(store_of(f));
    f->ops->idle(f->store);
    assert_string_equal(pg_kit_sql("SELECT batch FROM nodes"), "4");
    put_lines(f, 7, 10, 10);
    assert_int_equal(commit_as(f, 5), STORE_OK);
    expect_three(f);
}

/* Part of the tail is there, and a number between was given up. */
static void test_what_is_there_is_not_sent_again(void **state)
{
    struct fixture *f = *state;
    begin(f);
    put_lines(f, 7, 4, 4);
    assert_int_equal(commit_as(f, 2), STORE_OK);
    remember();
    f->batch->give_up = true;
    assert_int_equal(commit_as(f, 3), STORE_VOID);
    put_lines(f, 7, 5, 5);
    assert_int_equal(commit_as(f, 4), STORE_OK);
    lose_rows();
    meet_another(store_of(f));
    put_lines(f, 7, 6, 6);
    assert_int_equal(commit_as(f, 5), STORE_OK);
    assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 6);
    assert_int_equal(store_pg_redone(store_of(f)), 2);
    assert_string_equal(epoch(), "f");
}

/* Nothing was lost: a synchronous failover orphans nobody. */
static void test_another_server_that_has_all_costs_nothing(void **state)
{
    struct fixture *f = *state;
    begin(f);
    three_batches(f);
    meet_another(store_of(f));
    put_lines(f, 7, 10, 10);
    assert_int_equal(commit_as(f, 5), STORE_OK);
    expect_three(f);
    assert_int_equal(store_pg_redone(store_of(f)), 0);
}

/* Two losses one after the other; tails of any length. */
static void test_random_losses_lose_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t random = t_seed(), n = 1, line = 3;
    begin(f);
    for (unsigned round = 0; round < 12; round++) {
        remember();
        for (unsigned i = (unsigned)t_below(&random, 6); i > 0; i--) {
            f->batch->give_up = t_below(&random, 4) == 0;
            if (!f->batch->give_up)
                put_lines(f, 7, line + 1, line + 1);
            line += !f->batch->give_up;
            int status = commit_as(f, ++n);
            assert_true(status == STORE_OK || status == STORE_VOID);
        }
        lose_rows();
        meet_another(store_of(f));
        f->ops->idle(f->store);
        assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, line);
    }
    assert_string_equal(epoch(), "f");
}

/* Those that were given in what is lost are not given again, whatever the server's clock says. */
static void test_numbers_of_a_lost_tail_are_not_given_again(void **state)
{
    struct fixture *f = *state;
    int64_t next = 0;
    begin(f);
    remember();
    pg_kit_sql("UPDATE cluster SET last_number = last_number + 100000000"); /* a clock ahead */
    struct store_pg *two = open_redo("two", 1 << 20);
    int64_t given = two->incarnation;
    lose_rows();
    pg_kit_sql("DELETE FROM nodes"); /* it is the only one that knows */
    pg_conn_close(&two->writer);
    snprintf(two->history, sizeof two->history, "before");
    assert_int_equal(pg_writer_open(two), STORE_OK);
    assert_int_equal(pg_history_settle(two), STORE_FENCED);
    assert_int_equal(pg_number_take(&two->writer, &next), STORE_OK);
    assert_true(next > given);
    store_pg_ops.close(two);
}

/* A connection to another server than the writer's answers nothing, and the writer looks. */
static void test_readers_of_another_server_answer_nothing(void **state)
{
    struct fixture *f = *state;
    begin(f);
    snprintf(store_of(f)->history, sizeof store_of(f)->history, "before");
    atomic_fetch_add(&store_of(f)->generation, 1); /* the reader connects */
    assert_int_equal(ask_status(f, about(QUERY_TAILS, NULL, NULL)), STORE_IO);
    f->ops->idle(f->store);
    assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 3);
}

/* --- what cannot be sent again ---------------------------------------------------------------- */

static void expect_end(struct fixture *f)
{
    assert_string_equal(epoch(), "t");
    assert_true(store_pg_is_fenced(f->store));
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM nodes WHERE state < 2"), "0");
    char why[STORE_ERROR_TEXT];
    store_pg_last_error(store_of(f), why);
    assert_non_null(strstr(why, "has lost batches"));
}

static void test_too_few_kept_raise_the_epoch(void **state)
{
    struct fixture *f = *state;
    store_of(f)->redo.most = 900; /* bytes: one batch or two */
    begin(f);
    remember();
    three_batches(f);
    lose_rows();
    meet_another(store_of(f));
    put_lines(f, 7, 10, 10);
    assert_int_equal(commit_as(f, 5), STORE_FENCED);
    expect_end(f);
}

static void test_node_that_joined_there_raises_the_epoch(void **state)
{
    struct fixture *f = *state;
    begin(f);
    pg_kit_sql("DELETE FROM nodes");
    meet_another(store_of(f));
    put_lines(f, 7, 4, 4);
    assert_int_equal(commit_as(f, 2), STORE_FENCED);
    expect_end(f);
}

/* Taken over on the new server, as usual: no loss. */
static void test_taken_over_meanwhile_is_no_loss(void **state)
{
    struct fixture *f = *state;
    begin(f);
    pg_kit_sql("UPDATE nodes SET state = 2");
    meet_another(store_of(f));
    put_lines(f, 7, 4, 4);
    assert_int_equal(commit_as(f, 2), STORE_FENCED);
    assert_string_equal(epoch(), "f");
}

/* --- several ---------------------------------------------------------------------------------- */

static void turns(void *arg)
{
    store_pg_turned(arg);
}

static void wait_for(const char *sql, const char *wanted)
{
    for (int i = 0; i < 6000 && strcmp(pg_kit_sql(sql), wanted) != 0; i++)
        uv_sleep(10);
    assert_string_equal(pg_kit_sql(sql), wanted);
}

static void crash(struct store_pg *s)
{
    pg_conn_close(&s->writer);
    s->fenced = true;
    store_pg_ops.close(s);
}

/* Nothing is acknowledged or answered before the other one has said what it had. */
static void test_each_waits_for_the_others(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_redo("two", 1 << 20);
    begin(f);
    meet_another(store_of(f));
    meet_another(two);
    put_lines(f, 7, 4, 4);
    put_numbered(f, 2);
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_BUSY);
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_BUSY);
    assert_int_equal(ask_status(f, about(QUERY_TAILS, NULL, NULL)), STORE_IO);
    assert_int_equal(pg_writer_open(two), STORE_OK);
    assert_int_equal(pg_history_settle(two), STORE_OK); /* the first one has said it */
    assert_int_equal(commit_as(f, 2), STORE_OK);
    assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 4);
    assert_string_equal(epoch(), "f");
    store_pg_ops.close(two);
}

/* One that is gone has said nothing: whoever takes it over raises the epoch, and goes on. */
static void test_whoever_is_silent_is_taken_over_and_raises_it(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_redo("two", 1 << 20);
    begin(f);
    meet_another(two);
    crash(two);
    meet_another(store_of(f));
    put_lines(f, 7, 4, 4);
    put_numbered(f, 2);
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_BUSY);
    store_pg_watch(store_of(f), turns, f->store);
    wait_for("SELECT count(*) FROM nodes", "1");
    assert_string_equal(epoch(), "t");
    assert_int_equal(f->ops->commit(f->store, f->batch),
                     STORE_BUSY); /* the loop has seen nothing */
    struct store_view *v = xcalloc(sizeof *v);
    for (int i = 0; i < 6000 && v->agreed == 0; i++, uv_sleep(10))
        store_pg_view(f->store, v);
    assert_true(v->epoch > 1); /* with it comes what to tell */
    store_pg_agreed(f->store, v->agreed);
    free(v);
    assert_int_equal(commit_as(f, 2), STORE_OK);
}

static atomic_uint n_rounds;

static void counts(void *arg)
{
    store_pg_turned(arg);
    atomic_fetch_add(&n_rounds, 1);
}

static void wait_for_nodes(struct store_pg *s, size_t n)
{
    struct store_view *v = xcalloc(sizeof *v);
    for (int i = 0; i < 6000 && v->n != n; i++, uv_sleep(10))
        store_pg_view(s, v);
    assert_int_equal(v->n, n);
    free(v);
}

/* A node that joined in what was lost, and is gone as well: whoever knew of it says so, though the
 * thread that watches has met the new server before the one that commits. */
static void test_what_was_known_is_compared_first(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_redo("two", 1 << 20);
    begin(f);
    store_pg_watch(two, turns, two);
    store_pg_watch(store_of(f), counts, f->store);
    wait_for_nodes(store_of(f), 2);
    meet_another(store_of(f));
    crash(two);
    pg_kit_sql("DELETE FROM beats WHERE incarnation <> (SELECT min(incarnation) FROM nodes);"
               "DELETE FROM nodes WHERE incarnation <> (SELECT min(incarnation) FROM nodes)");
    unsigned seen = atomic_load(&n_rounds);
    for (int i = 0; i < 6000 && atomic_load(&n_rounds) < seen + 3; i++)
        uv_sleep(10);
    put_lines(f, 7, 4, 4);
    put_numbered(f, 2);
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_BUSY); /* the others are asked */
    assert_string_equal(epoch(), "t");
}

static bool claim_is_noted(struct store_pg *s)
{
    uv_mutex_lock(&s->lock);
    bool noted = s->claimed > 0;
    uv_mutex_unlock(&s->lock);
    return noted;
}

/* It had slots that these tables do not give it: a claim that was lost. */
static void test_lost_claim_raises_the_epoch(void **state)
{
    struct fixture *f = *state;
    begin(f);
    store_pg_watch(store_of(f), turns, f->store);
    pg_kit_sql("UPDATE cluster SET last_number = last_number + 1;"
               "UPDATE slots SET incarnation = NULL, moved = (SELECT last_number FROM cluster) "
               "WHERE slot = 5");
    wait_for("SELECT count(*) FROM slots WHERE incarnation IS NULL", "0");
    for (int i = 0; i < 6000 && !claim_is_noted(store_of(f)); i++)
        uv_sleep(10);
    pg_kit_sql("UPDATE slots SET incarnation = NULL, moved = 0 WHERE slot = 5");
    meet_another(store_of(f));
    put_lines(f, 7, 4, 4);
    put_numbered(f, 2);
    int status = f->ops->commit(f->store, f->batch);
    assert_int_equal(status, STORE_FENCED);
    expect_end(f);
}

/* A start under the name of one that lived on the server before. */
static void test_start_in_its_place_raises_the_epoch(void **state)
{
    struct fixture *f = *state;
    begin(f);
    meet_another(store_of(f));
    store_of(f)->fenced = true;
    struct store_pg *again = open_redo("one", 1 << 20); /* when its lease is over */
    assert_string_equal(epoch(), "t");
    store_pg_ops.close(again);
}

// clang-format off
#define TEST(test) {#test, test, setup, each_teardown, "postgres"}
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lost_batches_are_sent_again),
        TEST(test_idle_store_sends_them_again),
        TEST(test_what_is_there_is_not_sent_again),
        TEST(test_another_server_that_has_all_costs_nothing),
        TEST(test_random_losses_lose_nothing),
        TEST(test_numbers_of_a_lost_tail_are_not_given_again),
        TEST(test_readers_of_another_server_answer_nothing),
        TEST(test_too_few_kept_raise_the_epoch),
        TEST(test_node_that_joined_there_raises_the_epoch),
        TEST(test_taken_over_meanwhile_is_no_loss),
        TEST(test_each_waits_for_the_others),
        TEST(test_whoever_is_silent_is_taken_over_and_raises_it),
        TEST(test_what_was_known_is_compared_first),
        TEST(test_lost_claim_raises_the_epoch),
        TEST(test_start_in_its_place_raises_the_epoch),
    };
    return kit_run_all(tests, countof(tests));
}

#else

int main(void)
{
    print_message("skipped: built without libpq\n");
    return 0;
}

#endif
