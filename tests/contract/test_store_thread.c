/* The port that threads carry: on SQLite, and on a backend that can be held and counted. */
#include <stdatomic.h>

#include "gateway/store/store_thread.h"
#include "tests/contract/store_kit.h"

/* --- a slow backend --------------------------------------------------------------------------- */

/* Answers QUERY_TASKS with as many empty tasks as limit says, once the gate is open. */
struct slow {
    uv_mutex_t lock;
    uv_cond_t opened;
    bool open;
    int status;
    unsigned commits, idles, readers, now, most; /* queries at the same time */
};

static void pass_gate(struct slow *s)
{
    while (!s->open)
        uv_cond_wait(&s->opened, &s->lock);
}

static int slow_commit(void *store, const struct batch *batch)
{
    struct slow *s = store;
    (void)batch;
    uv_mutex_lock(&s->lock);
    pass_gate(s);
    s->commits++;
    int status = s->status;
    uv_mutex_unlock(&s->lock);
    return status;
}

static int slow_start(void *store, struct store_start *ret)
{
    (void)store;
    *ret = (struct store_start){.next_key = 1};
    return STORE_OK;
}

static void *slow_reader_open(void *store)
{
    struct slow *s = store;
    uv_mutex_lock(&s->lock);
    s->readers++;
    uv_mutex_unlock(&s->lock);
    return s->readers > 4 ? NULL : s;
}

static void slow_reader_close(void *reader)
{
    struct slow *s = reader;
    uv_mutex_lock(&s->lock);
    s->readers--;
    uv_mutex_unlock(&s->lock);
}

static int slow_query(void *reader, const struct query *query, struct answer *ret)
{
    struct slow *s = reader;
    uv_mutex_lock(&s->lock);
    if (++s->now > s->most)
        s->most = s->now;
    pass_gate(s);
    s->now--;
    int status = s->status;
    uv_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < query->limit; i++)
        answer_add_task(ret)->owner = arena_str(&ret->chunks, query->owner);
    return status;
}

static void slow_idle(void *store)
{
    struct slow *s = store;
    uv_mutex_lock(&s->lock);
    s->idles++;
    uv_mutex_unlock(&s->lock);
}

static const struct store_ops slow_ops = {.name = "slow",
                                          .commit = slow_commit,
                                          .start = slow_start,
                                          .reader_open = slow_reader_open,
                                          .reader_close = slow_reader_close,
                                          .query = slow_query,
                                          .idle = slow_idle};

static void slow_open_gate(struct slow *s)
{
    uv_mutex_lock(&s->lock);
    s->open = true;
    uv_cond_broadcast(&s->opened);
    uv_mutex_unlock(&s->lock);
}

/* --- fixture ---------------------------------------------------------------------------------- */

/* Results of the callbacks, which assert nothing, the test does. */
struct seen {
    unsigned commits, queries, tasks, inside;
    int commit_status, query_status;
    size_t n_blocks;
    bool wrong_thread;
};

struct stage {
    uv_loop_t loop;
    uv_thread_t loop_thread;
    struct slow slow;
    struct fixture *sqlite; /* NULL for the slow one */
    struct store_thread *thread;
    struct store_port *port;
    struct seen seen;
    unsigned inside; /* a port call is on the stack */
    bool closed;
    bool ask_again; /* each answer asks once more */
};

static void on_closed(void *arg)
{
    ((struct stage *)arg)->closed = true;
}

static void note_thread(struct stage *st)
{
    uv_thread_t self = uv_thread_self();
    if (!uv_thread_equal(&self, &st->loop_thread))
        st->seen.wrong_thread = true;
    st->seen.inside += st->inside;
}

static void on_commit(void *arg, struct batch *batch, int status)
{
    struct stage *st = arg;
    note_thread(st);
    st->seen.commits++;
    st->seen.commit_status = status;
    batch_free(batch);
}

static void ask_port(struct stage *st, struct query q);

static void on_query(void *arg, int status, struct answer *answer)
{
    struct stage *st = arg;
    note_thread(st);
    st->seen.queries++;
    st->seen.query_status = status;
    st->seen.tasks += (unsigned)answer->n_tasks;
    st->seen.n_blocks = answer->n_blocks;
    if (st->ask_again) {
        st->ask_again = false;
        ask_port(st, (struct query){.kind = QUERY_TASKS});
        st->port->commit(st->port, batch_new(), on_commit, st);
    }
}

static void ask_port(struct stage *st, struct query q)
{
    st->inside++;
    st->port->query(st->port, &q, on_query, st);
    st->inside--;
}

static void commit_port(struct stage *st, struct batch *batch)
{
    st->inside++;
    st->port->commit(st->port, batch, on_commit, st);
    st->inside--;
}

/* Turns the loop until so many callbacks have come. */
static void wait_for(struct stage *st, unsigned commits, unsigned queries)
{
    while (st->seen.commits < commits || st->seen.queries < queries)
        uv_run(&st->loop, UV_RUN_ONCE);
}

static void stage_close(struct stage *st)
{
    if (!st->thread)
        return;
    store_thread_close(st->thread, on_closed, st);
    st->thread = NULL;
}

static int stage_open(void **state, bool sqlite)
{
    struct stage *st = xcalloc(sizeof *st);
    *state = st;
    assert_int_equal(uv_loop_init(&st->loop), 0);
    st->loop_thread = uv_thread_self();
    uv_mutex_init(&st->slow.lock);
    uv_cond_init(&st->slow.opened);
    if (sqlite)
        st->sqlite = kit_new(true);
    assert_int_equal(store_thread_open(&st->loop, sqlite ? st->sqlite->ops : &slow_ops,
                                       sqlite ? st->sqlite->store : &st->slow, 2, &st->thread),
                     STORE_OK);
    st->port = store_thread_port(st->thread);
    return 0;
}

static int setup_slow(void **state)
{
    return stage_open(state, false);
}

static int setup_sqlite(void **state)
{
    return stage_open(state, true);
}

static int teardown(void **state)
{
    struct stage *st = *state;
    slow_open_gate(&st->slow);
    stage_close(st);
    uv_run(&st->loop, UV_RUN_DEFAULT);
    assert_true(st->closed);
    assert_int_equal(uv_loop_close(&st->loop), 0);
    assert_int_equal(st->slow.readers, 0);
    if (st->sqlite)
        kit_free(st->sqlite);
    uv_cond_destroy(&st->slow.opened);
    uv_mutex_destroy(&st->slow.lock);
    free(st);
    return 0;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_answers_come_on_the_loop_never_from_inside(void **state)
{
    struct stage *st = *state;
    slow_open_gate(&st->slow);
    for (unsigned i = 1; i <= 200; i++) {
        char owner[16] = "somebody"; /* the query is copied */
        commit_port(st, batch_new());
        ask_port(st, (struct query){.kind = QUERY_TASKS, .owner = str_of(owner), .limit = 3});
        memset(owner, 0, sizeof owner);
        wait_for(st, i, i);
    }
    assert_int_equal(st->seen.inside, 0);
    assert_false(st->seen.wrong_thread);
    assert_int_equal(st->seen.tasks, 600);
    assert_int_equal(st->seen.commit_status, STORE_OK);
}

static void test_statuses_pass_unchanged(void **state)
{
    struct stage *st = *state;
    st->slow.status = STORE_FULL;
    slow_open_gate(&st->slow);
    commit_port(st, batch_new());
    ask_port(st, (struct query){.kind = QUERY_TASKS});
    wait_for(st, 1, 1);
    assert_int_equal(st->seen.commit_status, STORE_FULL);
    assert_int_equal(st->seen.query_status, STORE_FULL);
    assert_int_equal(st->slow.commits, 1); /* nothing is tried again here */
}

static void test_queries_run_beside_a_commit_and_each_other(void **state)
{
    struct stage *st = *state;
    commit_port(st, batch_new());
    for (int i = 0; i < 10; i++)
        ask_port(st, (struct query){.kind = QUERY_TASKS, .limit = 1});
    for (bool both = false; !both;) {
        uv_mutex_lock(&st->slow.lock);
        both = st->slow.now == 2;
        uv_mutex_unlock(&st->slow.lock);
    }
    slow_open_gate(&st->slow);
    wait_for(st, 1, 10);
    assert_int_equal(st->slow.most, 2); /* as many as there are readers */
    assert_int_equal(st->seen.tasks, 10);
}

/* More than may wait unfetched, while the loop does not turn. */
static void test_many_answers_are_drained_whole(void **state)
{
    struct stage *st = *state;
    slow_open_gate(&st->slow);
    for (int i = 0; i < 5000; i++)
        ask_port(st, (struct query){.kind = QUERY_TASKS, .limit = 1});
    wait_for(st, 0, 5000);
    assert_int_equal(st->seen.tasks, 5000);
}

static void test_queue_that_is_full_answers_busy(void **state)
{
    struct stage *st = *state;
    for (int i = 0; i < STORE_QUEUE_MAX + 10; i++)
        ask_port(st, (struct query){.kind = QUERY_TASKS, .limit = 1});
    wait_for(st, 0, 1);
    assert_int_equal(st->seen.query_status, STORE_BUSY);
    slow_open_gate(&st->slow);
    wait_for(st, 0, STORE_QUEUE_MAX + 10);
    assert_in_range(st->seen.tasks, STORE_QUEUE_MAX, STORE_QUEUE_MAX + 2); /* two were taken out */
}

/* One callback for each, though the loop turns no more; what callbacks ask then gets an error. */
static void test_close_finishes_what_is_under_way(void **state)
{
    struct stage *st = *state;
    commit_port(st, batch_new());
    for (int i = 0; i < 1000; i++)
        ask_port(st, (struct query){.kind = QUERY_TASKS, .limit = 1});
    st->ask_again = true;
    slow_open_gate(&st->slow);
    stage_close(st);
    assert_int_equal(st->seen.commits, 2);
    assert_int_equal(st->seen.queries, 1001);
    assert_int_equal(st->seen.tasks, 1000);
    assert_int_equal(st->slow.commits, 1);
    assert_int_equal(st->seen.commit_status, STORE_IO);
    assert_int_equal(st->slow.readers, 0);
    assert_false(st->closed); /* the loop closes the handle */
}

static void test_housekeeping_comes_also_without_commits(void **state)
{
    struct stage *st = *state;
    slow_open_gate(&st->slow);
    for (unsigned idles = 0; idles < 3;) {
        uv_mutex_lock(&st->slow.lock);
        idles = st->slow.idles;
        uv_mutex_unlock(&st->slow.lock);
        uv_sleep(10);
    }
    assert_int_equal(st->slow.commits, 0);
}

static void test_open_that_fails_leaves_nothing(void **state)
{
    struct stage *st = *state;
    struct store_thread *t = NULL;
    assert_int_equal(store_thread_open(&st->loop, &slow_ops, &st->slow, 9, &t), STORE_IO);
    assert_null(t);
    st->slow.readers = 2; /* the one refused was counted */
}

/* A reader sees what was committed before it was asked; blocks may be kept. */
static void test_sqlite_reads_what_it_has_written(void **state)
{
    struct stage *st = *state;
    struct fixture *f = st->sqlite;
    put_task(f, 1, "o", "c", "t1");
    for (unsigned i = 1; i <= 300; i++) {
        put_lines(f, 1, 2 * i - 1, 2 * i - 1);
        put_seal(f, 1, 2 * i - 1, 2 * i);
        commit_port(st, f->batch);
        f->batch = batch_new();
        wait_for(st, i, 0);
        ask_port(st, (struct query){.kind = QUERY_BLOCKS, .task_key = 1});
        if (i % 3 == 0) /* else the next commit runs beside it */
            wait_for(st, i, i);
        ask_port(st, (struct query){.kind = QUERY_TAILS});
        ask_port(st, (struct query){.kind = QUERY_LIVE});
        wait_for(st, i, 3 * i);
    }
    ask_port(st, (struct query){.kind = QUERY_BLOCKS, .task_key = 1});
    wait_for(st, 300, 901);
    assert_int_equal(st->seen.n_blocks, 300);
    assert_int_equal(st->seen.commit_status, STORE_OK);
    assert_false(st->seen.wrong_thread);
}

/* Checkpoints, readers and the writer at once, beyond the limit of the WAL. */
static void test_sqlite_under_load_stays_bounded(void **state)
{
    struct stage *st = *state;
    struct fixture *f = st->sqlite;
    uint64_t most = 0;
    put_task(f, 1, "o", "c", "t1");
    for (unsigned i = 1; i <= 400; i++) {
        uint64_t first = (uint64_t)(i - 1) * 500 + 1;
        put_seal(f, 1, first, first + 499);
        commit_port(st, f->batch);
        f->batch = batch_new();
        for (int k = 0; k < 4; k++)
            ask_port(st, (struct query){.kind = QUERY_BLOCKS,
                                        .task_key = 1,
                                        .after = first / 2,
                                        .max_bytes = 256 * 1024});
        wait_for(st, i, 0);
        if (store_sqlite_wal_bytes(f->store) > most)
            most = store_sqlite_wal_bytes(f->store);
    }
    wait_for(st, 400, 1600);
    assert_int_equal(st->seen.query_status, STORE_OK);
    assert_in_range(most, 4 << 20, 64 << 20);
}

#define SLOW(test) cmocka_unit_test_setup_teardown(test, setup_slow, teardown)
#define SQLITE(test) cmocka_unit_test_setup_teardown(test, setup_sqlite, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SLOW(test_answers_come_on_the_loop_never_from_inside),
        SLOW(test_statuses_pass_unchanged),
        SLOW(test_queries_run_beside_a_commit_and_each_other),
        SLOW(test_many_answers_are_drained_whole),
        SLOW(test_queue_that_is_full_answers_busy),
        SLOW(test_close_finishes_what_is_under_way),
        SLOW(test_housekeeping_comes_also_without_commits),
        SLOW(test_open_that_fails_leaves_nothing),
        SQLITE(test_sqlite_reads_what_it_has_written),
        SQLITE(test_sqlite_under_load_stays_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
