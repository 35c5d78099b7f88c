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

/* A row's sum is of what it had then. */
static void write_old_sums(sqlite3 *db, int version)
{
    static const struct {
        int first, last;
        const char *sql;
    } sums[] = {
        {6, 12, "UPDATE blocks SET crc = row_crc(task_key, first, last, bytes)"},
        {6, 12, "UPDATE journal SET crc = row_crc(row, bytes)"},
        {6, 6,
         "UPDATE conversations SET crc = row_crc(owner, conversation_id, title, agent, "
         "updated_at, notices)"},
        {6, 7,
         "UPDATE tasks SET long_crc = row_crc(task_key, output, result, undelivered, "
         "answers)"},
        {7, 8,
         "UPDATE conversations SET crc = row_crc(owner, conversation_id, title, agent, "
         "updated_at, notices, unlisted)"},
        {9, 10,
         "UPDATE conversations SET crc = row_crc(owner, conversation_id, title, agent, "
         "updated_at, notices, unlisted, tip, tip_task)"},
        {6, 8,
         "UPDATE tasks SET fixed_crc = row_crc(task_key, type, notify_on_complete, waits, "
         "created_at, owner, conversation_id, task_id, agent, name, description, "
         "parent_task_id, parent_run_id, parent_call_id, parent_agent_id, ancestors)"},
        {6, 8,
         "UPDATE messages SET crc = row_crc(owner, conversation_id, message_id, task_id, "
         "role, partial, created_at, content)"},
        {6, 9,
         "UPDATE tasks SET input_crc = (SELECT row_crc(i.task_key, i.input, i.metadata) FROM "
         "inputs i WHERE i.task_key = tasks.task_key) WHERE input_crc IS NOT NULL"},
    };
    for (size_t i = 0; i < countof(sums); i++)
        if (version >= sums[i].first && version <= sums[i].last)
            run(db, sums[i].sql);
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
    assert_int_equal(sql_raw_register(db), SQLITE_OK);
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
        if (strcmp(tables[i], "blocks") == 0)
            run(db, "UPDATE blocks SET bytes = raw_lines(bytes)");
        if (strcmp(tables[i], "journal") == 0)
            run(db, "UPDATE journal SET bytes = raw_row(bytes)");
        free(columns);
        free(tables[i]);
    }
    write_old_sums(db, version);
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

/* It takes what is new, too. */
static void put_what_is_new(struct fixture *f)
{
    struct task_record t = task_of(50, "alice", "c-one", world_id(50));
    t.context = STR("[]");
    t.parts = str_of(json("[{'type':'text','text':'a'},{'type':'text','text':'b'}]"));
    put_record(f, t);
    put_mark(f, 50, 17);
    put_note(f, 50, NOTE_FIRST, 1, "a note");
    put_file(f, "alice", "c-one", str_of(world_id(60)), "blob", "try", 9, 2000);
    put_conversation(f, "alice", "c-new", "hidden", false, 2000);
    f->batch->ops[f->batch->n_ops - 1].unlisted = true;
    f->batch->ops[f->batch->n_ops - 1].flags_set = CONVERSATION_PINNED;
    put_conversation(f, "alice", "c-one", NULL, false, 0);
    f->batch->ops[f->batch->n_ops - 1].flags_set = CONVERSATION_ARCHIVED;
    commit(f);
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
        put_what_is_new(f);
        assert_int_equal(
            ask(f, about(QUERY_CONVERSATION, "alice", "c-new"))->conversations[0].flags,
            CONVERSATION_PINNED);
        assert_int_equal(
            ask(f, about(QUERY_CONVERSATION, "alice", "c-one"))->conversations[0].flags,
            CONVERSATION_ARCHIVED);
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

static void say(struct fixture *f, const char *id, const char *task, enum message_role role)
{
    struct message_record m = {
        .message_id = str_of(id), .task_id = str_of(task), .content = str_of(id), .role = role};
    batch_put(f->batch, &(struct op){.kind = OP_MESSAGE,
                                     .owner = STR("o"),
                                     .conversation_id = STR("c"),
                                     .message = &m,
                                     .place = role == ROLE_ASSISTANT ? PLACE_ANSWER : PLACE_TIP});
}

#define AT_WORK "01000000000000000000000005"

/* Tasks that ran side by side, one without an answer, and one still at work; another owner's
 * conversation of the same name. */
static void make_conversation(struct fixture *f)
{
    struct task_record t = task_of(5, "o", "c", AT_WORK);
    t.state.status = STATUS_PENDING;
    put_record(f, t);
    world_lines(f, OP_LINES, 5, 1, 1, 0);
    say(f, "m1", "t1", ROLE_USER);
    say(f, "m2", "t2", ROLE_USER);
    say(f, "m3", "t2", ROLE_ASSISTANT);
    say(f, "m4", "t1", ROLE_ASSISTANT);
    say(f, "m5", "t3", ROLE_USER);
    say(f, "m6", NULL, ROLE_SYSTEM);
    say(f, "m7", "t4", ROLE_USER);
    say(f, "m8", AT_WORK, ROLE_USER);
    say(f, "m9", "t4", ROLE_ASSISTANT);
    put_message(f, "p", "c", "m0", "x");
    commit(f);
}

static void assert_straight(struct fixture *f, const char *expected, const char *task)
{
    struct query q = about(QUERY_PATH, "o", "c");
    struct buf path = {0};
    q.siblings = true;
    const struct answer *a = ask(f, q);
    for (size_t i = 0; i < a->n_messages; i++) {
        buf_putstr(&path, a->messages[i].message_id);
        assert_null(a->messages[i].siblings.p);
        assert_true(i == 0 ? !a->messages[i].parent_id.p
                           : str_eq(a->messages[i].parent_id, a->messages[i - 1].message_id));
    }
    assert_string_equal(path.bytes, expected);
    buf_done(&path);
    if (task)
        assert_str(a->tip_task, task);
    else
        assert_null(a->tip_task.p);
}

static void test_older_conversation_is_one_straight_branch(void **state)
{
    struct fixture *f = *state;
    char new_path[128], path[128];
    make_conversation(f);
    kit_shut(f);
    snprintf(new_path, sizeof new_path, "%s.new.db", f->dir);
    snprintf(path, sizeof path, "%s/holdfast.db", f->dir);
    assert_int_equal(rename(path, new_path), 0);
    for (int version = 1; version < 9; version++) {
        (void)unlink(path);
        write_old(path, new_path, version);
        kit_open(f);
        assert_straight(f, "m1m4m2m3m5m6m7m9m8", AT_WORK);
        say(f, "n1", "t6", ROLE_USER); /* behind the one that is still at work */
        say(f, "n2", AT_WORK, ROLE_ASSISTANT);
        commit(f);
        assert_straight(f, "m1m4m2m3m5m6m7m9m8n2n1", "t6");
        assert_sound(path);
        kit_shut(f);
    }
    (void)unlink(new_path);
    kit_open(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_older_conversation_is_one_straight_branch, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_every_older_version_becomes_this_one, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
