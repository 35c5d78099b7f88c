/* Properties of the SQLite store alone: files, locks, versions, a WAL, a journal to cut, a disk
 * that fills. */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "gateway/store/store_sqlite_private.h"
#include "tests/contract/store_kit.h"

static int setup(void **state)
{
    *state = kit_new(true);
    return 0;
}

static int teardown(void **state)
{
    kit_free(*state);
    return 0;
}

static const char *path_in(const char *dir, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int64_t number(struct fixture *f, const char *sql)
{
    struct store_sqlite *s = f->store;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(s->writer.db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return n;
}

static void run_sql(struct fixture *f, const char *sql)
{
    struct store_sqlite *s = f->store;
    assert_int_equal(sql_conn_exec(&s->writer, sql), STORE_OK);
}

static int open_again(const char *dir, char *ret_error)
{
    struct store_sqlite_options options = {.dir = dir};
    struct store_sqlite *s = NULL;
    int status = store_sqlite_open(&options, &s, ret_error);
    if (status == STORE_OK)
        store_sqlite_ops.close(s);
    return status;
}

/* --- files ------------------------------------------------------------------------------------ */

static void test_files_are_the_operators_alone(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm",
                                        "lock"};
    struct stat st;
    char dir[128], error[STORE_ERROR_TEXT];
    commit(f);
    for (size_t i = 0; i < countof(names); i++) {
        assert_int_equal(stat(path_in(f->dir, names[i]), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    snprintf(dir, sizeof dir, "%s/a/b", f->dir);
    assert_int_equal(open_again(dir, error), STORE_OK);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    dir_remove(dir);
    dir_remove(path_in(f->dir, "a"));
}

static unsigned mode_of(const char *dir)
{
    struct stat st;
    assert_int_equal(stat(dir, &st), 0);
    return st.st_mode & 07777;
}

static void test_directory_that_is_open_to_others_is_closed_or_refused(void **state)
{
    struct fixture *f = *state;
    char dir[128], error[STORE_ERROR_TEXT];
    snprintf(dir, sizeof dir, "%s/open", f->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (int i = 0; i < 2; i++) { /* empty, and with a store in it */
        assert_int_equal(chmod(dir, 0755), 0);
        assert_int_equal(open_again(dir, error), STORE_OK);
        assert_int_equal(mode_of(dir), 0700);
    }
    dir_remove(dir);

    assert_int_equal(mkdir(dir, 0700), 0); /* somebody else's */
    close(open(path_in(dir, "letters"), O_CREAT | O_WRONLY, 0600));
    assert_int_equal(chmod(dir, 0750), 0);
    assert_int_equal(open_again(dir, error), STORE_IO);
    assert_non_null(strstr(error, dir));
    assert_non_null(strstr(error, "(0750): chmod 700 it"));
    assert_int_equal(mode_of(dir), 0750);
    assert_int_equal(access(path_in(dir, "holdfast.db"), F_OK), -1);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(open_again(dir, error), STORE_OK);
    dir_remove(dir);
}

static void test_directory_that_cannot_be_made_is_named(void **state)
{
    char error[STORE_ERROR_TEXT] = "";
    (void)state;
    assert_true(open_again("/proc/none/here", error) < 0);
    assert_non_null(strstr(error, "/proc/none/here"));
    assert_true(open_again("/dev/null", error) < 0);
    assert_non_null(strstr(error, "/dev/null"));
}

static void test_file_that_is_no_database_is_refused(void **state)
{
    struct fixture *f = *state;
    char error[STORE_ERROR_TEXT] = "", junk[8192];
    kit_shut(f);
    memset(junk, 'j', sizeof junk);
    int fd = open(path_in(f->dir, "holdfast.db"), O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    close(fd);
    assert_int_equal(open_again(f->dir, error), STORE_CORRUPT);
    assert_non_null(strstr(error, "holdfast.db"));
    unlink(path_in(f->dir, "holdfast.db"));
    kit_open(f);
}

/* The files as a kill -9 in this moment would leave them. */
static void test_copy_of_the_files_has_all_that_was_committed(void **state)
{
    struct fixture *f = *state;
    struct fixture copy = {.batch = batch_new()};
    char command[512];
    put_task(f, 1, "o", "c", "t1");
    commit(f);
    for (uint64_t seq = 1; seq < 50; seq += 7) {
        put_lines(f, 1, seq, seq + 6);
        if (seq == 22)
            put_seal(f, 1, 1, 28);
        commit(f);
    }
    snprintf(copy.dir, sizeof copy.dir, "%.50s/copy", f->dir);
    snprintf(command, sizeof command, "mkdir %s && cp %s/holdfast.* %s/", copy.dir, f->dir,
             copy.dir);
    assert_int_equal(system(command), 0);
    kit_open(&copy);
    assert_lines(ask(&copy, (struct query){.kind = QUERY_BLOCKS, .task_key = 1}), 0, 1, 1, 28);
    assert_lines(ask(&copy, (struct query){.kind = QUERY_TAILS}), 0, 1, 29, 49);
    kit_shut(&copy);
    batch_free(copy.batch);
    dir_remove(copy.dir);
}

/* --- versions --------------------------------------------------------------------------------- */

static void test_migrations_go_forward_one_by_one(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite *s = f->store;
    char error[STORE_ERROR_TEXT] = "", from[STORE_ERROR_TEXT];
    const char *scripts[16];
    int n = schema_version;
    memcpy(scripts, schema_scripts, (size_t)n * sizeof *scripts);
    scripts[n] = "CREATE TABLE two (x); INSERT INTO two VALUES (2)";
    scripts[n + 1] = "UPDATE two SET x = x + 1";
    scripts[n + 2] = "INSERT INTO two VALUES (9); SELECT * FROM missing";
    put_task(f, 1, "o", "c", "t1");
    commit(f);
    assert_int_equal(number(f, "PRAGMA user_version"), schema_version);
    assert_int_equal(sql_schema_migrate(&s->writer, scripts, n + 2, error), STORE_OK);
    assert_int_equal(number(f, "SELECT x FROM two"), 3);
    assert_int_equal(sql_schema_migrate(&s->writer, scripts, n + 2, error),
                     STORE_OK); /* nothing to do */
    assert_int_equal(number(f, "SELECT x FROM two"), 3);

    assert_true(sql_schema_migrate(&s->writer, scripts, n + 3, error) <
                0); /* all of a script or nothing */
    snprintf(from, sizeof from, "version %d", n + 3);
    assert_non_null(strstr(error, from));
    assert_non_null(strstr(error, "missing"));
    assert_int_equal(number(f, "PRAGMA user_version"), n + 2);
    assert_int_equal(number(f, "SELECT count(*) FROM two"), 1);

    kit_shut(f);
    assert_true(open_again(f->dir, error) < 0);
    snprintf(from, sizeof from, "schema version %d; this gateway knows versions up to %d", n + 2,
             n);
    assert_non_null(strstr(error, from));
    dir_remove(f->dir);
    kit_open(f);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void commit_lines(struct fixture *f, int64_t tasks, uint64_t *next)
{
    for (int64_t key = 1; key <= tasks; key++)
        put_lines(f, key, *next, *next + 9);
    *next += 10;
    commit(f);
    f->ops->idle(f->store);
}

static void test_wal_stays_near_its_limit(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1, most = 0;
    for (int64_t key = 1; key <= 20; key++) {
        char id[16];
        snprintf(id, sizeof id, "t%d", (int)key);
        put_task(f, key, "o", "c", id);
    }
    commit(f);
    for (int i = 0; i < 1500; i++) {
        commit_lines(f, 20, &next);
        if (store_sqlite_wal_bytes(f->store) > most)
            most = store_sqlite_wal_bytes(f->store);
    }
    assert_in_range(most, 1 << 20, (16 << 20) + (256 << 10)); /* twice the limit, and a commit */
}

static bool thread_is_done(struct store_sqlite *s)
{
    uv_mutex_lock(&s->lock);
    bool done = s->checkpoint == CHECKPOINT_READY;
    uv_mutex_unlock(&s->lock);
    return done;
}

/* The writer's stage is for the few frames that come meanwhile. */
static void test_thread_copies_the_wal_without_the_writer(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite *s = f->store;
    struct stat st;
    s->wal_limit = 64;
    put_task(f, 1, "o", "c", "t1");
    put_lines(f, 1, 1, 20000);
    commit(f);
    while (!thread_is_done(s))
        sched_yield();
    assert_int_equal(stat(s->path, &st), 0);
    int64_t bytes = number(f, "PRAGMA page_count") * number(f, "PRAGMA page_size");
    assert_in_range(bytes, 64 * 4096, 1 << 30);
    assert_int_equal(st.st_size, bytes);
}

/* A check or copy beside a gateway holds an old state for long: commits continue, and
 * the WAL begins anew when it has gone. */
static void test_old_reader_stops_no_commit(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite *s = f->store;
    struct sql_conn old;
    uint64_t next = 1;
    s->wal_limit = 64;
    put_task(f, 1, "o", "c", "t1");
    commit(f);
    assert_int_equal(sql_conn_open(&old, s->path, true), STORE_OK);
    assert_int_equal(sql_conn_exec(&old, "BEGIN; SELECT count(*) FROM tasks"), STORE_OK);
    while (store_sqlite_wal_bytes(s) < 10 * 64 * 4096)
        commit_lines(f, 1, &next);
    assert_int_equal(sql_conn_exec(&old, "COMMIT"), STORE_OK);
    sql_conn_close(&old);
    while (store_sqlite_wal_bytes(s) >= 64 * 4096)
        commit_lines(f, 1, &next);
    assert_lines(ask(f, (struct query){.kind = QUERY_TAILS}), 0, 1, 1, next - 1);
}

static void test_journal_is_cut_behind_the_oldest_tail(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t2");
    put_task(f, 3, "o", "c", "t3");
    put_lines(f, 3, 1, 1);
    commit(f);
    for (int i = 0; i < 300; i++)
        commit_lines(f, 2, &next);
    assert_true(number(f, "SELECT count(*) FROM journal") > 300); /* task 3 pins it */
    put_delete(f, "o", "never");
    put_seal(f, 3, 1, 1);
    put_seal(f, 1, 1, next - 1);
    put_seal(f, 2, 1, next - 1);
    commit(f);
    int64_t rows = number(f, "SELECT count(*) FROM journal"), before;
    do {
        before = rows;
        commit_lines(f, 2, &next);
        rows = number(f, "SELECT count(*) FROM journal");
        assert_true(before - rows <= 50 + 3); /* bounded work */
    } while (rows < before);
    assert_in_range(rows, 1, 64);
    kit_reopen(f);
    commit_lines(f, 2, &next);
    struct answer *a = ask(f, (struct query){.kind = QUERY_TAILS});
    assert_int_equal(a->n_blocks, 2);
}

/* Late lines of a task that the same batch deletes must not pin the journal. */
static void test_deleted_tasks_do_not_pin_the_journal(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 1;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "gone", "t2");
    put_lines(f, 2, 1, 5);
    commit(f);
    put_lines(f, 2, 6, 6);
    put_delete(f, "o", "gone");
    put_lines(f, 2, 7, 7);
    commit(f);
    for (int i = 0; i < 100; i++) {
        commit_lines(f, 1, &next);
        put_seal(f, 1, next - 10, next - 1);
        commit(f);
    }
    assert_in_range(number(f, "SELECT count(*) FROM journal"), 0, 64);
}

/* F12: lines of which a block had been made, and then removed, lie dead in the journal; they do not
 * come back as a tail, nor as a gap. */
static void test_journal_does_not_bring_removed_events_back(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_lines(f, 1, 1, 2);
    commit(f);
    put_seal(f, 1, 1, 252);
    commit(f);
    put_lines(f, 1, 253, 254);
    commit(f);
    put_seal(f, 1, 253, 254);
    commit(f);
    assert_true(number(f, "SELECT count(*) FROM journal") > 0);
    run_sql(f, "DELETE FROM blocks");
    run_sql(f, "UPDATE tasks SET first = 255, head = 254");
    kit_reopen(f);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_TAILS})->n_blocks, 0);
}

static void test_garbage_goes_in_pieces(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t2");
    put_task(f, 3, "o", "stays", "t3");
    put_inbox(f, 1, 1, "x");
    for (uint64_t seq = 1; seq <= 300; seq++)
        put_seal(f, 1, seq, seq);
    put_seal(f, 3, 1, 1);
    commit(f);
    put_delete(f, "o", "c");
    commit(f);
    assert_int_equal(number(f, "SELECT count(*) FROM blocks"), 301); /* not now */
    int64_t left = 301;
    for (int i = 0; left > 1; i++) {
        if (i == 2)
            kit_reopen(f);
        f->ops->idle(f->store);
        int64_t now = number(f, "SELECT count(*) FROM blocks");
        assert_in_range(left - now, 1, 64);
        left = now;
    }
    f->ops->idle(f->store);
    assert_int_equal(number(f, "SELECT count(*) FROM garbage"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM inputs"), 1);
    assert_int_equal(number(f, "SELECT count(*) FROM inbox"), 0);
    assert_lines(ask(f, (struct query){.kind = QUERY_BLOCKS, .task_key = 3}), 0, 3, 1, 1);
}

/* --- failures --------------------------------------------------------------------------------- */

static void test_full_disk_changes_nothing_and_passes(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite *s = f->store;
    char limit[64], error[STORE_ERROR_TEXT];
    uint64_t next = 1;
    put_task(f, 1, "o", "c", "t1");
    commit(f);
    snprintf(limit, sizeof limit, "PRAGMA max_page_count = %lld",
             (long long)number(f, "PRAGMA page_count") + 20);
    run_sql(f, limit);
    int status = STORE_OK;
    for (int i = 0; i < 500 && status == STORE_OK; i++) {
        put_lines(f, 1, next, next + 19);
        status = commit_status(f);
        if (status == STORE_OK)
            next += 20;
    }
    assert_int_equal(status, STORE_FULL);
    store_sqlite_last_error(s, error);
    assert_non_null(strstr(error, "full"));
    for (int i = 0; i < 3; i++) {
        put_lines(f, 1, next, next + 19);
        put_task(f, 7, "o", "c", "t7");
        assert_int_equal(commit_status(f), STORE_FULL);
    }
    assert_lines(ask(f, (struct query){.kind = QUERY_TAILS}), 0, 1, 1, next - 1);
    f->ops->idle(f->store);

    run_sql(f, "PRAGMA max_page_count = 1000000");
    put_lines(f, 1, next, next + 19);
    put_task(f, 7, "o", "c", "t7");
    commit(f);
    kit_reopen(f);
    assert_lines(ask(f, (struct query){.kind = QUERY_TAILS}), 0, 1, 1, next + 19);
}

static void test_lock_held_by_another_program_is_busy(void **state)
{
    struct fixture *f = *state;
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(path_in(f->dir, "holdfast.db"), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    put_task(f, 1, "o", "c", "t1");
    int status = commit_status(f);
    sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(other);
    assert_int_equal(status, STORE_BUSY);
    put_task(f, 1, "o", "c", "t1");
    commit(f);
}

static void test_record_that_makes_no_sense_is_corrupt(void **state)
{
    struct fixture *f = *state;
    struct query q = {
        .kind = QUERY_TASK, .owner = STR("o"), .conversation_id = STR("c"), .task_id = STR("t1")};
    put_task(f, 1, "o", "c", "t1");
    put_lines(f, 1, 1, 1);
    commit(f);
    run_sql(f, "UPDATE tasks SET status = 9");
    assert_int_equal(ask_status(f, q), STORE_CORRUPT);
    assert_int_equal(f->answer.n_tasks, 0);
    run_sql(f, "UPDATE tasks SET status = 1");
    assert_int_equal(ask_status(f, q), STORE_OK);
    run_sql(f, "UPDATE journal SET bytes = x'ff'");
    assert_int_equal(ask_status(f, (struct query){.kind = QUERY_TAILS}), STORE_CORRUPT);
    char error[STORE_ERROR_TEXT];
    kit_shut(f);
    assert_int_equal(open_again(f->dir, error), STORE_CORRUPT);
    dir_remove(f->dir);
    kit_open(f);
}

static void test_role_or_version_that_there_is_not_is_corrupt(void **state)
{
    struct fixture *f = *state;
    struct query q = {.kind = QUERY_MESSAGES,
                      .owner = STR("o"),
                      .conversation_id = STR("c"),
                      .limit = 10,
                      .max_bytes = 1000};
    static const char sum[] =
        "UPDATE messages SET crc = row_crc(owner, conversation_id, message_id, "
        "task_id, role, partial, created_at, content)";
    put_message(f, "o", "c", "m", "x");
    commit(f);
    assert_int_equal(ask_status(f, q), STORE_OK);
    run_sql(f, "UPDATE messages SET role = 3"); /* the checksum is wrong … */
    assert_int_equal(ask_status(f, q), STORE_CORRUPT);
    run_sql(f, sum); /* … or right: a fault of ours */
    assert_int_equal(ask_status(f, q), STORE_CORRUPT);
    run_sql(f, "UPDATE messages SET role = -1");
    run_sql(f, sum);
    assert_int_equal(ask_status(f, q), STORE_CORRUPT);
    run_sql(f, "PRAGMA user_version = -1");
    char error[STORE_ERROR_TEXT];
    kit_shut(f);
    assert_int_equal(open_again(f->dir, error), STORE_CORRUPT);
    assert_non_null(strstr(error, "version -1"));
    dir_remove(f->dir);
    kit_open(f);
}

static void test_durability_power_syncs_each_commit(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(number(f, "PRAGMA synchronous"), 1);
    f->power = true;
    kit_reopen(f);
    assert_int_equal(number(f, "PRAGMA synchronous"), 2);
    assert_int_equal(number(f, "PRAGMA secure_delete"), 0);
    commit(f);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_files_are_the_operators_alone),
        TEST(test_directory_that_is_open_to_others_is_closed_or_refused),
        TEST(test_directory_that_cannot_be_made_is_named),
        TEST(test_file_that_is_no_database_is_refused),
        TEST(test_copy_of_the_files_has_all_that_was_committed),
        TEST(test_migrations_go_forward_one_by_one),
        TEST(test_wal_stays_near_its_limit),
        TEST(test_thread_copies_the_wal_without_the_writer),
        TEST(test_old_reader_stops_no_commit),
        TEST(test_journal_is_cut_behind_the_oldest_tail),
        TEST(test_deleted_tasks_do_not_pin_the_journal),
        TEST(test_journal_does_not_bring_removed_events_back),
        TEST(test_garbage_goes_in_pieces),
        TEST(test_full_disk_changes_nothing_and_passes),
        TEST(test_lock_held_by_another_program_is_busy),
        TEST(test_record_that_makes_no_sense_is_corrupt),
        TEST(test_role_or_version_that_there_is_not_is_corrupt),
        TEST(test_durability_power_syncs_each_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
