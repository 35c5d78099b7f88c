/* A disk that takes long over a checkpoint, or fails it: commits go on or wait, nothing is lost,
 * and nobody waits for ever, at the end neither. */
#include "gateway/store/store_sqlite_private.h"
#include "gateway/store/store_thread.h"
#include "tests/contract/disk_kit.h"
#include "tests/contract/store_kit.h"

#define LIMIT 64    /* frames of the WAL; at twice as many the writer waits for the thread */
#define A_COMMIT 16 /* frames, more than one of these here has */
#define A_WHILE_NS (50 * 1000 * 1000) /* in which nothing may happen: the time itself */

/* --- the disk --------------------------------------------------------------------------------- */

/* Writes to the database: with a WAL only checkpoints make them. */
static struct {
    uv_mutex_t lock; /* of what follows */
    uv_cond_t changed;
    bool held, broken;
    unsigned waiting, failed;
} disk;

static int disk_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    uv_mutex_lock(&disk.lock);
    disk.waiting++;
    uv_cond_broadcast(&disk.changed);
    while (disk.held)
        uv_cond_wait(&disk.changed, &disk.lock);
    disk.waiting--;
    bool fails = disk.broken;
    disk.failed += fails;
    uv_mutex_unlock(&disk.lock);
    return fails ? SQLITE_IOERR_WRITE : disk_real->xWrite(file, bytes, n, at);
}

static void disk_replace(sqlite3_io_methods *methods)
{
    methods->xWrite = disk_write;
}

static void disk_set(bool held, bool broken)
{
    uv_mutex_lock(&disk.lock);
    disk.held = held;
    disk.broken = broken;
    uv_cond_broadcast(&disk.changed);
    uv_mutex_unlock(&disk.lock);
}

static void disk_await_writer(void)
{
    uv_mutex_lock(&disk.lock);
    while (!disk.waiting)
        uv_cond_wait(&disk.changed, &disk.lock);
    uv_mutex_unlock(&disk.lock);
}

/* --- fixture ---------------------------------------------------------------------------------- */

/* How long the next checkpoint waits at least, after one that failed. */
static void pause_by(struct fixture *f, uint64_t ns)
{
    ((struct store_sqlite *)f->store)->checkpoint_pause_ns = ns;
}

static int setup(void **state)
{
    disk.failed = 0;
    uv_mutex_init(&disk.lock);
    uv_cond_init(&disk.changed);
    disk_begin(SQLITE_OPEN_MAIN_DB, disk_replace);
    struct fixture *f = kit_new(true);
    ((struct store_sqlite *)f->store)->wal_limit = LIMIT;
    pause_by(f, 0);
    put_task(f, 1, "o", "c", "t1");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    disk_set(false, false);
    kit_free(*state);
    disk_end();
    uv_cond_destroy(&disk.changed);
    uv_mutex_destroy(&disk.lock);
    return 0;
}

static uint64_t frames(struct fixture *f)
{
    return store_sqlite_wal_bytes(f->store) / 4096;
}

static void commit_more(struct fixture *f, uint64_t *next)
{
    put_lines(f, 1, *next, *next + 9);
    *next += 10;
    commit(f);
}

static void assert_all(struct fixture *f, uint64_t next)
{
    assert_lines(ask(f, (struct query){.kind = QUERY_TAILS}), 0, 1, 1, next - 1);
}

/* A step that may wait, on a thread of its own. */
struct step {
    struct fixture *f;
    void (*run)(struct step *step);
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t ended;
    bool done;
};

static void run_step(void *arg)
{
    struct step *step = arg;
    step->run(step);
    uv_mutex_lock(&step->lock);
    step->done = true;
    uv_cond_signal(&step->ended);
    uv_mutex_unlock(&step->lock);
}

static void step_begin(struct step *step)
{
    uv_mutex_init(&step->lock);
    uv_cond_init(&step->ended);
    assert_int_equal(uv_thread_create(&step->thread, run_step, step), 0);
}

static bool step_ends_soon(struct step *step)
{
    uv_mutex_lock(&step->lock);
    while (!step->done && uv_cond_timedwait(&step->ended, &step->lock, A_WHILE_NS) == 0)
        ;
    bool done = step->done;
    uv_mutex_unlock(&step->lock);
    return done;
}

static void step_join(struct step *step)
{
    uv_thread_join(&step->thread);
    uv_cond_destroy(&step->ended);
    uv_mutex_destroy(&step->lock);
}

static void be_idle(struct step *step)
{
    step->f->ops->idle(step->f->store);
}

static void shut(struct step *step)
{
    kit_shut(step->f);
}

/* The thread is in the middle of a checkpoint. */
static void hold_checkpoint(struct fixture *f, uint64_t *next)
{
    disk_set(true, false);
    while (frames(f) < LIMIT)
        commit_more(f, next);
    disk_await_writer();
}

/* --- the tests -------------------------------------------------------------------------------- */

/* The writer waits at twice the limit, and that is when the disk refuses. */
static void test_checkpoint_that_fails_while_it_is_waited_for(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1;
    hold_checkpoint(f, &next);
    while (frames(f) < 2 * LIMIT)
        commit_more(f, &next);
    struct step idle = {.f = f, .run = be_idle};
    step_begin(&idle);
    bool waited = !step_ends_soon(&idle);
    disk_set(false, true);
    step_join(&idle);
    assert_true(waited);
    assert_true(disk.failed >= 1);
    /* The zeros that let the database grow fail before a page does (store_sqlite_grow.h). */
    assert_in_range(store_sqlite_checkpoint_failures(f->store), 1, disk.failed);
    assert_true(store_sqlite_checkpoints_fail(f->store));
    char why[STORE_ERROR_TEXT];
    store_sqlite_last_error(f->store, why);
    assert_true(strncmp(why, "disk I/O error", 14) == 0 && strstr(why, "(778)")); /* IOERR_WRITE */
    for (int i = 0; i < 20; i++) { /* it is tried again, and fails */
        commit_more(f, &next);
        f->ops->idle(f->store);
    }
    assert_true(frames(f) > 2 * LIMIT);
    assert_all(f, next);
    disk_set(false, false);
    while (frames(f) >= LIMIT) { /* until it begins anew */
        commit_more(f, &next);
        f->ops->idle(f->store);
    }
    assert_false(store_sqlite_checkpoints_fail(f->store));
    kit_reopen(f);
    assert_all(f, next);
}

/* It may have written all but the last page: that must not be done again after each commit. */
static void test_checkpoint_that_failed_is_put_off(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1;
    pause_by(f, 3600 * 1000000000ull);
    disk_set(false, true);
    while (!store_sqlite_checkpoints_fail(f->store)) {
        commit_more(f, &next);
        f->ops->idle(f->store);
    }
    for (int i = 0; i < 50 || frames(f) <= 2 * LIMIT; i++) { /* and no commit waits for one */
        commit_more(f, &next);
        f->ops->idle(f->store);
    }
    assert_int_equal(store_sqlite_checkpoint_failures(f->store), 1);
    assert_all(f, next);
}

static void test_long_checkpoint_stops_no_commit_below_twice_the_limit(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1;
    hold_checkpoint(f, &next);
    while (frames(f) < 2 * LIMIT - A_COMMIT) {
        commit_more(f, &next);
        f->ops->idle(f->store);
    }
    assert_all(f, next);
    disk_set(false, false);
}

static void test_close_waits_for_a_long_checkpoint_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1;
    hold_checkpoint(f, &next);
    struct step close = {.f = f, .run = shut};
    step_begin(&close);
    bool waited = !step_ends_soon(&close);
    disk_set(false, false);
    step_join(&close);
    assert_true(waited);
    kit_open(f);
    assert_all(f, next);
}

/* A disk that fails to the last: what the WAL has is the next gateway's. */
static void test_close_while_the_disk_fails_loses_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1;
    hold_checkpoint(f, &next);
    disk_set(false, true);
    kit_shut(f);
    disk_set(false, false);
    kit_open(f);
    assert_all(f, next);
}

static void on_commit(void *arg, struct batch *batch, int status)
{
    unsigned *committed = arg;
    *committed += status == STORE_OK;
    batch_free(batch);
}

static void submit(struct fixture *f, struct store_port *port, uint64_t *next, unsigned *committed)
{
    put_lines(f, 1, *next, *next + 9);
    *next += 10;
    port->commit(port, f->batch, on_commit, committed);
    f->batch = batch_new();
}

static void await_commits(uv_loop_t *loop, const unsigned *committed, unsigned n)
{
    while (*committed < n)
        uv_run(loop, UV_RUN_ONCE);
}

static void release_in_a_while(struct step *step)
{
    (void)step;
    struct timespec pause = {.tv_nsec = A_WHILE_NS};
    nanosleep(&pause, NULL);
    disk_set(false, false);
}

/* The writer waits for the checkpoint, a batch for the writer, and the close for both. */
static void test_close_of_the_thread_behind_a_checkpoint_commits_what_it_has(void **state)
{
    struct fixture *f = *state;
    uv_loop_t loop;
    struct store_thread *t = NULL;
    uint64_t next = 1;
    unsigned submitted = 0, committed = 0;
    uv_loop_init(&loop);
    assert_int_equal(store_thread_open(&loop, f->ops, f->store, 1, &t), STORE_OK);
    disk_set(true, false);
    while (frames(f) < 2 * LIMIT) {
        submit(f, store_thread_port(t), &next, &committed);
        await_commits(&loop, &committed, ++submitted);
    }
    disk_await_writer();
    submit(f, store_thread_port(t), &next, &committed);
    struct step release = {.run = release_in_a_while};
    step_begin(&release);
    store_thread_close(t, NULL, NULL);
    step_join(&release);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    assert_int_equal(committed, submitted + 1);
    assert_all(f, next);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_checkpoint_that_fails_while_it_is_waited_for),
        TEST(test_checkpoint_that_failed_is_put_off),
        TEST(test_long_checkpoint_stops_no_commit_below_twice_the_limit),
        TEST(test_close_waits_for_a_long_checkpoint_and_loses_nothing),
        TEST(test_close_while_the_disk_fails_loses_nothing),
        TEST(test_close_of_the_thread_behind_a_checkpoint_commits_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
