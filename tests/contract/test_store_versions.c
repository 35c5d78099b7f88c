/* A database that an older gateway wrote answers as if this one had written it, and is sound. */
#include <sqlite3.h>

#include "gateway/store/store_check.h"
#include "gateway/store/store_sqlite_private.h"
#include "tests/contract/store_world.h"

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

static void run(sqlite3 *db, const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
}

/* Each text of the query's only row or rows; the caller frees them. */
static size_t texts_of(sqlite3 *db, const char *sql, char **ret, size_t max)
{
    sqlite3_stmt *stmt = NULL;
    size_t n = 0;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (n < max && sqlite3_step(stmt) == SQLITE_ROW)
        ret[n++] = xstrdup(str_of((const char *)sqlite3_column_text(stmt, 0)));
    sqlite3_finalize(stmt);
    return n;
}

/* The rows of the new database in the tables of an older one: what it had of columns, they had the
 * same meaning. */
static void write_old(const char *old_path, const char *new_path, int version)
{
    struct buf sql = {0};
    sqlite3 *db;
    char *tables[32], *columns = NULL;
    assert_int_equal(sqlite3_open(old_path, &db), SQLITE_OK);
    assert_int_equal(sql_crc_register(db), SQLITE_OK);
    for (int i = 0; i < version; i++)
        run(db, schema_scripts[i]);
    buf_putf(&sql, "ATTACH '%s' AS new", new_path);
    run(db, sql.bytes);
    run(db, "DELETE FROM marks");
    size_t n = texts_of(db, "SELECT name FROM main.sqlite_master WHERE type = 'table'", tables, 32);
    assert_true(n > 8);
    for (size_t i = 0; i < n; i++) {
        buf_clear(&sql);
        buf_putf(&sql, "SELECT group_concat(name, ', ') FROM pragma_table_info('%s', 'main')",
                 tables[i]);
        assert_int_equal(texts_of(db, sql.bytes, &columns, 1), 1);
        buf_clear(&sql);
        buf_putf(&sql, "INSERT INTO main.%s (%s) SELECT %s FROM new.%s", tables[i], columns,
                 columns, tables[i]);
        run(db, sql.bytes);
        free(columns);
        free(tables[i]);
    }
    if (version == 6) /* the sum is of what a conversation had then */
        run(db, "UPDATE conversations SET crc = row_crc(owner, conversation_id, title, agent, "
                "updated_at, notices)");
    if (version == 6 || version == 7)
        run(db, "UPDATE tasks SET long_crc = row_crc(task_key, output, result, undelivered, "
                "answers)");
    if (version >= 6) /* an input had no parts */
        run(db,
            "UPDATE tasks SET input_crc = (SELECT row_crc(i.task_key, i.input, i.metadata) FROM "
            "inputs i WHERE i.task_key = tasks.task_key) WHERE input_crc IS NOT NULL");
    buf_clear(&sql);
    buf_putf(&sql, "PRAGMA user_version = %d", version);
    run(db, sql.bytes);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    buf_done(&sql);
}

/* The version that brought what the query is about; before it there was none. */
static int since(enum query_kind kind)
{
    return kind == QUERY_NOTES ? 8 : kind == QUERY_REVOKED ? 3 : kind == QUERY_OUTBOX ? 4 : 1;
}

static void compare(struct fixture *f, const struct buf *truth, int version)
{
    for (size_t i = 0; i < WORLD_QUERIES; i++) {
        struct buf got = {0};
        if (version == 1 && world_queries[i].kind == QUERY_FULL)
            continue; /* there, blocks that wait to be collected are nobody's */
        (void)world_ask(f, &world_queries[i], &got);
        bool was_there = since(world_queries[i].kind) <= version;
        bool same =
            str_eq(buf_str(&got), was_there ? buf_str(&truth[i]) : STR("status 0 more 0\n"));
        if (!same)
            print_error("version %d, query %zu:\n%.*s", version, i, (int)got.len, got.bytes);
        buf_done(&got);
        assert_true(same);
    }
}

static void assert_sound(const char *database)
{
    struct store_check check;
    store_check(database, false, true, &check);
    size_t n = check.n_faults;
    if (n)
        print_error("%.*s", (int)check.faults.len, check.faults.bytes);
    store_check_done(&check);
    assert_int_equal(n, 0);
}

static const struct task_record *newest_live(struct fixture *f)
{
    const struct answer *a = ask(f, (struct query){.kind = QUERY_LIVE});
    return &a->tasks[a->n_tasks - 1];
}

static void test_every_older_version_becomes_this_one(void **state)
{
    struct fixture *f = *state;
    struct buf truth[WORLD_QUERIES] = {0};
    char new_path[128], path[128];
    world_make(f);
    world_end(f, WORLD_ENDED, 300, NULL); /* nobody had these two then */
    put_mark(f, WORLD_RUNNING, 0);
    put_delete(f, "carol", "c-files"); /* nor files */
    batch_put(f->batch, &(struct op){.kind = OP_FILES_REMOVE, .key = STR("blob")});
    batch_put(f->batch, &(struct op){.kind = OP_FILES_REMOVE, .key = STR("gone")});
    commit(f);
    for (size_t i = 0; i < WORLD_QUERIES; i++)
        (void)world_ask(f, &world_queries[i], &truth[i]);
    kit_shut(f);
    snprintf(new_path, sizeof new_path, "%s.new.db", f->dir);
    snprintf(path, sizeof path, "%s/holdfast.db", f->dir);
    assert_int_equal(rename(path, new_path), 0);
    for (int version = 1; version < schema_version; version++) {
        (void)unlink(path);
        write_old(path, new_path, version);
        kit_open(f);
        compare(f, truth, version);
        assert_sound(path);
        kit_reopen(f); /* and is left alone by the next start */
        compare(f, truth, version);
        struct task_record t = task_of(50, "alice", "c-one", world_id(50));
        t.context = STR("[]");
        t.parts = str_of(json("[{'type':'text','text':'a'},{'type':'text','text':'b'}]"));
        put_record(f, t); /* it takes what is new, too */
        put_mark(f, 50, 17);
        put_note(f, 50, NOTE_FIRST, 1, "a note");
        put_file(f, "alice", "c-one", str_of(world_id(60)), "blob", "try", 9, 2000);
        put_conversation(f, "alice", "c-new", "hidden", false, 2000);
        f->batch->ops[f->batch->n_ops - 1].unlisted = true;
        commit(f);
        assert_true(ask(f, about(QUERY_CONVERSATION, "alice", "c-new"))->conversations[0].unlisted);
        assert_non_null(newest_live(f)->context.p);
        assert_int_equal(newest_live(f)->mark, 17);
        assert_int_equal(ask(f, (struct query){.kind = QUERY_BLOB, .key = STR("blob")})->n_files,
                         1);
        put_delete(f, "alice", "c-new");
        put_ack(f, "alice", "c-one", world_id(WORLD_RESULT));
        put_delete(f, "alice", "c-one");
        commit(f);
        for (int i = 0; i < 20; i++)
            f->ops->idle(f->store);
        assert_sound(path);
        kit_shut(f);
    }
    (void)unlink(new_path);
    for (size_t i = 0; i < WORLD_QUERIES; i++)
        buf_done(&truth[i]);
    kit_open(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_older_version_becomes_this_one, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
