/* The store on PostgreSQL where it differs from the others: commits whose outcome is not known, and
 * more than one process that wants the store.  The schedules are those of a network: bytes are lost
 * between us and the server, on either way, at once or half. */
#include <time.h>

#include "tests/contract/store_kit.h"

#ifdef HOLDFAST_POSTGRES
#include "gateway/store/store_pg_private.h"
#include "tests/contract/pg_proxy.h"
#include "tests/contract/store_world.h"

#define LEASE_S 1

struct world {
    struct fixture *f; /* through the proxy */
    struct pg_proxy *proxy;
    char url[512];
    uint64_t number, random;
};

static struct store_pg *store_of(struct world *w)
{
    return w->f->store;
}

static int try_open(const char *url, const char *node, const char *dir, struct store_pg **ret,
                    char error[STORE_ERROR_TEXT])
{
    struct store_pg_options o = {.url = url, .node = node, .dir = dir, .lease_s = LEASE_S};
    return store_pg_open(&o, ret, error);
}

static struct store_pg *open_pg(const char *url, const char *node, const char *dir)
{
    char error[STORE_ERROR_TEXT] = "";
    struct store_pg *s = NULL;
    if (try_open(url, node, dir, &s, error) < 0)
        fail_msg("%s", error);
    return s;
}

static int setup(void **state)
{
    struct world *w = xcalloc(sizeof *w);
    char folder[128] = "";
    assert_int_equal(sscanf(pg_kit_server(), "host=%127s", folder), 1);
    pg_kit_empty();
    w->proxy = pg_proxy_new(folder);
    snprintf(w->url, sizeof w->url,
             "host=%s port=5432 user=holdfast dbname=postgres options='-c search_path=%s'",
             w->proxy->folder, pg_kit_schema());
    const char *seed = getenv("SEED");
    w->random = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    w->f = xcalloc(sizeof *w->f);
    w->f->postgres = true;
    w->f->ops = &store_pg_ops;
    w->f->batch = batch_new();
    w->f->store = open_pg(w->url, "one", NULL);
    w->f->reader = w->f->ops->reader_open(w->f->store);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    kit_free(w->f);
    pg_proxy_free(w->proxy);
    free(w);
    return 0;
}

static unsigned pick(struct world *w, unsigned n)
{
    return (unsigned)(t_random(&w->random) % n);
}

static void shut_store(struct world *w)
{
    store_pg_ops.close(w->f->store);
    w->f->store = NULL;
}

/* As a process that was killed: it says nothing to anybody any more. */
static void crash(struct store_pg *s)
{
    pg_conn_close(&s->writer);
    s->fenced = true;
    store_pg_ops.close(s);
}

static int send_again(struct world *w)
{
    w->f->batch->number = w->number;
    return w->f->ops->commit(w->f->store, w->f->batch);
}

/* Sends the batch, unchanged, until its outcome is known. */
static int settle(struct world *w)
{
    int status = send_again(w);
    for (int i = 0; i < 100 && (status == STORE_UNKNOWN || status == STORE_BUSY); i++)
        status = send_again(w);
    batch_free(w->f->batch);
    w->f->batch = batch_new();
    return status;
}

/* --- outcomes --------------------------------------------------------------------------------- */

static void begin_task(struct world *w)
{
    w->number = 1;
    put_task(w->f, 7, "ann", "c", "t");
    put_lines(w->f, 7, 1, 3);
    assert_int_equal(settle(w), STORE_OK);
    w->number++;
    put_lines(w->f, 7, 4, 6); /* one request: a message would ask for its place first */
}

static void expect_lines(struct world *w, uint64_t last)
{
    assert_lines(ask(w->f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, last);
    put_lines(w->f, 7, last + 1, last + 1); /* and it goes on */
    w->number++;
    assert_int_equal(settle(w), STORE_OK);
    assert_lines(ask(w->f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, last + 1);
}

static void test_answer_that_is_lost_was_a_commit(void **state)
{
    struct world *w = *state;
    begin_task(w);
    pg_proxy_lose(w->proxy, LOSE_ANSWER);
    assert_int_equal(send_again(w), STORE_UNKNOWN);
    assert_int_equal(settle(w), STORE_OK);
    expect_lines(w, 6);
}

static void test_request_that_is_lost_is_sent_again(void **state)
{
    struct world *w = *state;
    begin_task(w);
    pg_proxy_lose(w->proxy, LOSE_REQUEST);
    assert_int_equal(send_again(w), STORE_UNKNOWN);
    assert_int_equal(settle(w), STORE_OK);
    expect_lines(w, 6);
}

/* The server has a part of the pipeline, waits for the rest and holds the node's row; none of its
 * own time-outs ends that soon. */
static void test_half_a_pipeline_does_not_keep_the_row(void **state)
{
    struct world *w = *state;
    begin_task(w);
    store_of(w)->writer.answer_ms = 500;
    pg_proxy_lose(w->proxy, LOSE_HALF);
    assert_int_equal(send_again(w), STORE_UNKNOWN); /* the next connection has time again */
    assert_int_equal(settle(w), STORE_OK);
    expect_lines(w, 6);
}

static void test_given_up_is_void_and_cannot_come_later(void **state)
{
    struct world *w = *state;
    begin_task(w);
    pg_proxy_lose(w->proxy, LOSE_REQUEST);
    assert_int_equal(send_again(w), STORE_UNKNOWN);
    w->f->batch->give_up = true;
    pg_proxy_lose(w->proxy, LOSE_REQUEST); /* the question is lost too */
    assert_int_equal(send_again(w), STORE_UNKNOWN);
    assert_int_equal(settle(w), STORE_VOID);
    assert_string_equal(pg_kit_sql("SELECT max(batch) FROM nodes WHERE state = 0"), "-2");
    put_lines(w->f, 7, 4, 4); /* the numbers of what was given up are free */
    w->number++;
    assert_int_equal(settle(w), STORE_OK);
    expect_lines(w, 4);
}

static void test_given_up_too_late_was_committed(void **state)
{
    struct world *w = *state;
    begin_task(w);
    pg_proxy_lose(w->proxy, LOSE_ANSWER);
    assert_int_equal(send_again(w), STORE_UNKNOWN);
    w->f->batch->give_up = true;
    assert_int_equal(settle(w), STORE_OK);
    expect_lines(w, 6);
}

/* The void itself: both of its outcomes, unknown at first. */
static void test_void_whose_answer_is_lost_is_known_later(void **state)
{
    struct world *w = *state;
    begin_task(w);
    pg_proxy_lose(w->proxy, LOSE_REQUEST);
    assert_int_equal(send_again(w), STORE_UNKNOWN);
    w->f->batch->give_up = true;
    w->f->batch->number = w->number;
    assert_int_equal(pg_writer_open(store_of(w)), STORE_OK);
    pg_proxy_lose(w->proxy, LOSE_ANSWER);
    int status = w->f->ops->commit(w->f->store, w->f->batch);
    assert_true(status == STORE_UNKNOWN || status == STORE_VOID);
    assert_int_equal(settle(w), STORE_VOID);
    expect_lines(w, 3);
}

/* Each batch meets one loss or none: whatever was put is there, once. */
static void test_random_losses_apply_each_batch_once(void **state)
{
    struct world *w = *state;
    uint64_t next = 1, seed = w->random;
    char id[16];
    put_task(w->f, 7, "ann", "c", "t");
    for (unsigned i = 1; i <= 60; i++) {
        w->number = i;
        snprintf(id, sizeof id, "m%04u", i);
        put_message(w->f, "ann", "c", id, "once");
        unsigned n = 1 + pick(w, 5);
        put_lines(w->f, 7, next, next + n - 1);
        next += n;
        static const enum pg_loss losses[] = {LOSE_NOTHING, LOSE_NOTHING, LOSE_REQUEST,
                                              LOSE_ANSWER};
        pg_proxy_lose(w->proxy, losses[pick(w, countof(losses))]);
        if (settle(w) != STORE_OK)
            fail_msg("batch %u, SEED=%llu", i, (unsigned long long)seed);
        pg_proxy_lose(w->proxy, LOSE_NOTHING);
    }
    struct query q = about(QUERY_MESSAGES, "ann", "c");
    assert_int_equal(ask(w->f, q)->n_messages, 60);
    assert_lines(ask(w->f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, next - 1);
}

/* The server ends our connections: what was asked is asked again, on new ones. */
static void test_connections_that_were_ended_come_back(void **state)
{
    struct world *w = *state;
    static const char end[] =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name LIKE 'holdfast/%' AND pid <> pg_backend_pid()";
    char sql[256];
    begin_task(w);
    assert_int_equal(ask(w->f, about(QUERY_LIVE, NULL, NULL))->n_tasks, 1);
    snprintf(sql, sizeof sql, "%s AND application_name = '%s'", end, store_of(w)->name);
    assert_string_equal(pg_kit_sql(sql), "2");
    assert_int_equal(ask(w->f, about(QUERY_LIVE, NULL, NULL))->n_tasks, 1);
    assert_int_equal(settle(w), STORE_OK);
    expect_lines(w, 6);
}

/* --- more than one ---------------------------------------------------------------------------- */

static void test_whoever_was_replaced_commits_nothing(void **state)
{
    struct world *w = *state;
    struct store_pg *two = NULL;
    begin_task(w);
    two = open_pg(pg_kit_url(), "one", NULL);       /* nothing beats: it waits for the lease */
    assert_int_equal(send_again(w), STORE_UNKNOWN); /* its backend was ended */
    assert_int_equal(send_again(w), STORE_FENCED);
    assert_true(store_pg_is_fenced(store_of(w)));
    assert_int_equal(settle(w), STORE_FENCED);
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM messages"), "0");
    assert_true(two->marks.next_key > store_of(w)->marks.next_key);
    store_pg_ops.close(two);
}

/* … and learns it between two commits as well. */
static void test_whoever_was_replaced_learns_it_by_its_beat(void **state)
{
    struct world *w = *state;
    struct store_pg *two = open_pg(pg_kit_url(), "one", NULL);
    for (int i = 0; i < 1000 && !store_pg_is_fenced(store_of(w)); i++) {
        uv_sleep(10); /* a beat is due every fifth of a lease: time is its subject */
        w->f->ops->idle(w->f->store);
    }
    assert_true(store_pg_is_fenced(store_of(w)));
    store_pg_ops.close(two);
}

struct rival {
    struct world *w;
    atomic_bool done;
    int status;
    char error[STORE_ERROR_TEXT];
};

static void rival_run(void *arg)
{
    struct rival *r = arg;
    struct store_pg *s = NULL;
    r->status = try_open(pg_kit_url(), "one", NULL, &s, r->error);
    atomic_store(&r->done, true);
    store_pg_ops.close(s);
}

static void test_another_of_our_name_is_refused_while_we_beat(void **state)
{
    struct world *w = *state;
    struct rival r = {.w = w};
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, rival_run, &r), 0);
    while (!atomic_load(&r.done)) {
        w->f->ops->idle(w->f->store);
        uv_sleep(1);
    }
    uv_thread_join(&thread);
    assert_int_equal(r.status, STORE_BUSY);
    assert_non_null(strstr(r.error, "another gateway, \"one\", serves this database"));
    begin_task(w);
    assert_int_equal(settle(w), STORE_OK);
}

/* The same data directory: its lock proves that nobody is left, so nobody waits. */
static void test_same_directory_waits_for_no_lease(void **state)
{
    struct world *w = *state;
    char dir[] = "/tmp/holdfast-test-XXXXXX", error[STORE_ERROR_TEXT] = "";
    struct store_pg *again = NULL;
    shut_store(w);
    w->f->ops->reader_close(w->f->reader);
    w->f->reader = NULL;
    assert_non_null(mkdtemp(dir));
    struct store_pg_options o = {.url = pg_kit_url(), .node = "three", .dir = dir, .lease_s = 3600};
    assert_int_equal(store_pg_open(&o, &again, error), STORE_OK);
    struct store_pg *second = NULL;
    assert_int_equal(store_pg_open(&o, &second, error), STORE_BUSY);
    assert_non_null(strstr(error, "is in use"));
    crash(again);
    assert_int_equal(store_pg_open(&o, &again, error), STORE_OK); /* not an hour later */
    store_pg_ops.close(again);
    dir_remove(dir);
}

/* A backup that was restored, or a failover that lost the last batches. */
static void test_lost_tail_ends_the_process(void **state)
{
    struct world *w = *state;
    begin_task(w);
    assert_int_equal(settle(w), STORE_OK);
    pg_kit_sql("UPDATE nodes SET batch = 1 WHERE state = 0");
    w->number++;
    put_lines(w->f, 7, 7, 7);
    assert_int_equal(send_again(w), STORE_FENCED);
    char why[STORE_ERROR_TEXT];
    store_pg_last_error(store_of(w), why);
    assert_non_null(strstr(why, "has lost batches"));
}

/* --- the schema ------------------------------------------------------------------------------- */

/* A gateway of today on a store of yesterday: columns of the tables in proto/record.h. */
static void test_columns_that_are_missing_are_added(void **state)
{
    struct world *w = *state;
    begin_task(w);
    assert_int_equal(settle(w), STORE_OK);
    shut_store(w);
    pg_kit_sql("ALTER TABLE tasks DROP COLUMN retracted, DROP COLUMN waits;"
               "ALTER TABLE inputs DROP COLUMN metadata");
    w->f->store = open_pg(w->url, "one", NULL);
    ((struct pg_reader *)w->f->reader)->store = w->f->store;
    assert_int_equal(ask(w->f, about_task("ann", "c", "t"))->tasks[0].waits, 0);
}

/* Behind a dump a start gives up in a second, and nobody's batch waits behind it. */
static void test_schema_does_not_wait_behind_a_dump(void **state)
{
    struct world *w = *state;
    char error[STORE_ERROR_TEXT] = "";
    struct store_pg *two = NULL;
    begin_task(w);
    assert_int_equal(settle(w), STORE_OK);
    pg_kit_sql("ALTER TABLE tasks DROP COLUMN retracted");
    PGconn *dump = PQconnectdb(pg_kit_url());
    PQclear(PQexec(dump, "BEGIN; LOCK TABLE tasks IN ACCESS SHARE MODE"));
    assert_true(try_open(pg_kit_url(), "two", NULL, &two, error) < 0);
    assert_non_null(strstr(error, "lock timeout"));
    w->number++;
    put_lines(w->f, 7, 7, 7);
    assert_int_equal(settle(w), STORE_OK);
    PQfinish(dump);
    two = open_pg(pg_kit_url(), "two", NULL);
    store_pg_ops.close(two);
}

/* An older gateway's tables, made by its scripts, with the rows that it would have had. */
static void write_old_schema(int version)
{
    char sql[256];
    snprintf(sql, sizeof sql, "DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s", pg_kit_schema(),
             pg_kit_schema());
    pg_kit_sql(sql);
    for (int i = 0; i < version; i++) {
        pg_kit_sql(pg_scripts[i].tables);
        pg_kit_sql(pg_columns);
        if (pg_scripts[i].indexes)
            pg_kit_sql(pg_scripts[i].indexes);
    }
    pg_kit_sql("ALTER TABLE tasks DROP COLUMN retracted"); /* which came later */
    pg_kit_sql(
        "DO $$ DECLARE t text; c text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE "
        "schemaname = current_schema() LOOP EXECUTE 'DELETE FROM ' || t; "
        "SELECT string_agg(quote_ident(a.column_name), ', ') INTO c FROM information_schema.columns a "
        "JOIN information_schema.columns b USING (table_name, column_name) WHERE a.table_name = t "
        "AND a.table_schema = current_schema() AND b.table_schema = 'world_of_today'; "
        "EXECUTE format('INSERT INTO %I (%s) SELECT %s FROM world_of_today.%I', t, c, c, t); "
        "END LOOP; END $$");
    snprintf(sql, sizeof sql, "UPDATE cluster SET schema_version = %d", version);
    pg_kit_sql(sql);
}

/* The questions of store_world.h have the same answers, and what is new is taken. */
static void test_every_older_schema_becomes_this_one(void **state)
{
    struct world *w = *state;
    struct buf truth[WORLD_QUERIES] = {0}, got = {0};
    char sql[256];
    kit_shut(w->f);
    kit_open(w->f);
    world_make(w->f);
    world_end(w->f, WORLD_ENDED, 300, NULL); /* the column is dropped */
    commit(w->f);
    for (size_t i = 0; i < WORLD_QUERIES; i++)
        (void)world_ask(w->f, &world_queries[i], &truth[i]);
    kit_shut(w->f);
    snprintf(
        sql, sizeof sql,
        "DROP SCHEMA IF EXISTS world_of_today CASCADE; ALTER SCHEMA %s RENAME TO world_of_today",
        pg_kit_schema());
    pg_kit_sql(sql);
    for (int version = 1; version < pg_schema_version; version++) {
        write_old_schema(version);
        kit_open(w->f);
        for (size_t i = 0; i < WORLD_QUERIES; i++) {
            buf_clear(&got);
            (void)world_ask(w->f, &world_queries[i], &got);
            if (!str_eq(buf_str(&got), buf_str(&truth[i])))
                print_error("version %d, query %zu:\n%.*s\nnot\n%.*s", version, i, (int)got.len,
                            got.bytes, (int)truth[i].len, truth[i].bytes);
            assert_true(str_eq(buf_str(&got), buf_str(&truth[i])));
        }
        put_task(w->f, 9000 + version, "ann", "c-new", world_id(9000 + version));
        put_conversation(w->f, "ann", "c-new", "pinned", false, 2000);
        w->f->batch->ops[w->f->batch->n_ops - 1].flags_set = CONVERSATION_PINNED;
        commit(w->f);
        struct query q = {.kind = QUERY_OWNED, .owner = STR("ann")};
        assert_int_equal(ask(w->f, q)->n_tasks, 1);
        assert_int_equal(
            ask(w->f, about(QUERY_CONVERSATION, "ann", "c-new"))->conversations[0].flags,
            CONVERSATION_PINNED);
        kit_shut(w->f);
    }
    pg_kit_sql("DROP SCHEMA world_of_today CASCADE");
    for (size_t i = 0; i < WORLD_QUERIES; i++)
        buf_done(&truth[i]);
    buf_done(&got);
    kit_open(w->f);
}

static void test_newer_format_is_refused(void **state)
{
    (void)state;
    char error[STORE_ERROR_TEXT] = "";
    struct store_pg *two = NULL;
    pg_kit_sql("UPDATE cluster SET format = 2");
    int status = try_open(pg_kit_url(), "two", NULL, &two, error);
    pg_kit_sql("UPDATE cluster SET format = 1");
    assert_int_equal(status, STORE_IO);
    assert_non_null(strstr(error, "a newer one wrote it"));
}

/* A role's defaults that would lose what is acknowledged, or abort each batch. */
static void test_defaults_of_a_role_do_not_count(void **state)
{
    struct world *w = *state;
    char url[700];
    shut_store(w);
    snprintf(url, sizeof url,
             "%s options='-c search_path=%s -c synchronous_commit=off -c "
             "default_transaction_isolation=serializable'",
             pg_kit_server(), pg_kit_schema());
    w->f->store = open_pg(url, "one", NULL);
    ((struct pg_reader *)w->f->reader)->store = w->f->store;
    begin_task(w);
    assert_int_equal(settle(w), STORE_OK);
    pg_kit_sql("CREATE FUNCTION says() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
               "IF current_setting('synchronous_commit') <> 'on' OR "
               "current_setting('transaction_isolation') <> 'read committed' "
               "THEN RAISE 'no'; END IF; RETURN NEW; END $$;"
               "CREATE TRIGGER says BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION says()");
    w->number++;
    put_lines(w->f, 7, 7, 7);
    int status = settle(w);
    pg_kit_sql("DROP TRIGGER says ON journal; DROP FUNCTION says()");
    assert_int_equal(status, STORE_OK);
}

/* Questions about all owners may be about some slots alone. */
static void test_slots_are_asked_for(void **state)
{
    struct world *w = *state;
    struct slots anns = {0}, bobs = {0};
    slots_add(&anns, slot_of(STR("ann")));
    slots_add(&bobs, slot_of(STR("bob")));
    assert_int_not_equal(slot_of(STR("ann")), slot_of(STR("bob")));
    put_task(w->f, 1, "ann", "c", "t1");
    put_task(w->f, 2, "bob", "c", "t2");
    put_lines(w->f, 1, 1, 2);
    put_lines(w->f, 2, 1, 3);
    put_notice(w->f, 3, "ann", "c", false);
    commit(w->f);
    struct query q = {.kind = QUERY_LIVE, .slots = &bobs};
    assert_int_equal(ask(w->f, q)->n_tasks, 1);
    assert_str(w->f->answer.tasks[0].owner, "bob");
    q = (struct query){.kind = QUERY_TAILS, .slots = &anns};
    assert_int_equal(ask(w->f, q)->n_blocks, 1);
    assert_int_equal(w->f->answer.blocks[0]->task_key, 1);
    q = (struct query){.kind = QUERY_NOTICES, .slots = &bobs};
    assert_int_equal(ask(w->f, q)->n_notices, 0);
    q.slots = NULL;
    assert_int_equal(ask(w->f, q)->n_notices, 1);
}

// clang-format off
#define TEST(test) {#test, test, setup, teardown, "postgres"}
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answer_that_is_lost_was_a_commit),
        TEST(test_request_that_is_lost_is_sent_again),
        TEST(test_half_a_pipeline_does_not_keep_the_row),
        TEST(test_given_up_is_void_and_cannot_come_later),
        TEST(test_given_up_too_late_was_committed),
        TEST(test_void_whose_answer_is_lost_is_known_later),
        TEST(test_random_losses_apply_each_batch_once),
        TEST(test_connections_that_were_ended_come_back),
        TEST(test_whoever_was_replaced_commits_nothing),
        TEST(test_whoever_was_replaced_learns_it_by_its_beat),
        TEST(test_another_of_our_name_is_refused_while_we_beat),
        TEST(test_same_directory_waits_for_no_lease),
        TEST(test_lost_tail_ends_the_process),
        TEST(test_columns_that_are_missing_are_added),
        TEST(test_schema_does_not_wait_behind_a_dump),
        TEST(test_every_older_schema_becomes_this_one),
        TEST(test_newer_format_is_refused),
        TEST(test_defaults_of_a_role_do_not_count),
        TEST(test_slots_are_asked_for),
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
