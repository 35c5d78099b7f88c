/* A node's start beside whoever rescues what an earlier process of its name left. */
#include "tests/contract/store_kit.h"

#ifdef HOLDFAST_POSTGRES
#include "gateway/store/store_pg_private.h"

static int open_node(const char *url, const char *node, struct store_pg **ret,
                     char error[STORE_ERROR_TEXT])
{
    struct store_pg_options o = {.url = url, .node = node, .lease_s = 1};
    return store_pg_open(&o, ret, error);
}

static struct store_pg *open_first(void)
{
    char error[STORE_ERROR_TEXT] = "";
    struct store_pg *s = NULL;
    if (open_node(pg_kit_url(), "one", &s, error) < 0)
        fail_msg("%s", error);
    return s;
}

static int setup(void **state)
{
    return node_setup(state, open_first);
}

static int64_t die(struct fixture *f)
{
    struct store_pg *one = f->store;
    one->fenced = true;
    pg_kit_sql("UPDATE nodes SET state = 2; UPDATE beats SET dead = 1");
    return one->incarnation;
}

static void expect_done(PGconn *pg, const char *sql)
{
    PGresult *r = PQexec(pg, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    PQclear(r);
}

struct other_thread {
    struct store_pg *s;
    int64_t incarnation;
    int status;
    char url[512], error[STORE_ERROR_TEXT];
};

static void rescue(void *arg)
{
    struct other_thread *o = arg;
    o->status = pg_rescue(&o->s->writer, o->incarnation);
}

static void start(void *arg)
{
    struct other_thread *o = arg;
    o->status = open_node(o->url, "one", &o->s, o->error);
}

/* The session does as a start: it has the cluster's row, and then takes the dead node's. */
static void test_rescue_waits_for_a_start_without_a_ring(void **state)
{
    struct other_thread o = {.incarnation = die(*state)};
    uv_thread_t thread;
    char sql[96];
    assert_int_equal(open_node(pg_kit_url(), "two", &o.s, o.error), STORE_OK);
    PGconn *pg = pg_kit_session("BEGIN; SELECT 1 FROM cluster FOR UPDATE");
    assert_int_equal(uv_thread_create(&thread, rescue, &o), 0);
    pg_kit_wait_behind(pg);
    snprintf(sql, sizeof sql, "DELETE FROM nodes WHERE incarnation = %lld",
             (long long)o.incarnation);
    expect_done(pg, sql);
    expect_done(pg, "COMMIT");
    PQfinish(pg);
    uv_thread_join(&thread);
    assert_int_equal(o.status, STORE_NOT_FOUND);
    store_pg_ops.close(o.s);
}

/* The session closes a ring, and never looks for one: the server ends the start's transaction. */
static void test_start_that_the_server_ends_for_a_lock_goes_on(void **state)
{
    struct other_thread o = {.status = 1};
    uv_thread_t thread;
    (void)die(*state);
    snprintf(o.url, sizeof o.url, "%s", pg_kit_url());
    PGconn *pg = pg_kit_session("SET deadlock_timeout = '1h'; BEGIN; "
                                "SELECT 1 FROM nodes FOR UPDATE");
    assert_int_equal(uv_thread_create(&thread, start, &o), 0);
    pg_kit_wait_behind(pg);
    expect_done(pg, "UPDATE cluster SET last_number = last_number + 1");
    expect_done(pg, "COMMIT");
    PQfinish(pg);
    uv_thread_join(&thread);
    if (o.status < 0)
        fail_msg("%s", o.error);
    pg_kit_wait_for("SELECT count(*) FROM nodes WHERE state = 0", "1");
    store_pg_ops.close(o.s);
}

// clang-format off
#define TEST(test) {#test, test, setup, each_teardown, "postgres"}
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rescue_waits_for_a_start_without_a_ring),
        TEST(test_start_that_the_server_ends_for_a_lock_goes_on),
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
