/* From a data directory with SQLite to PostgreSQL, and back: row by row and file by file, in one
 * transaction, and then every row is compared with its original, and the bytes of every file with
 * their hash, before that ends.  Nobody uses either meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/outbox.h"
#include "gateway/store/data_dir.h"
#include "gateway/store/file_check.h"
#include "gateway/store/store_pg_import.h"

#define COLUMNS_MAX 64
#define OUTBOX_BODY 4 /* its column, which names the owner */

/* A table that both have.  SQLite's checksums are made anew: they are of the same cells. */
struct copied {
    const char *name, *columns, *order;
    const char *blobs; /* the columns that are BLOBs in SQLite */
    int owner;         /* the column that gives PostgreSQL's slot; -1: it has none */
    bool has_sum;      /* SQLite: crc, of these columns */
    const char *sums;
    const char *unpacked; /* the columns as SQLite gives them, if their bytes may be packed */
};
#define SUM(table, columns) "UPDATE " table " SET crc = row_crc(" columns ")"
#define WHOLE(table, columns, order, blobs, owner)            \
    {                                                         \
        table, columns, order, blobs, owner, true, NULL, NULL \
    }
static const struct copied copied[] = {
    {"inputs", "task_key" SQL_TASK_INPUT, "task_key", "", -1, false, NULL, NULL},
    {"tasks", SQL_TASK_FIXED SQL_TASK_STATE SQL_TASK_LONG, "task_key", "", 0, false,
     "UPDATE tasks SET fixed_crc = row_crc(" SQL_TASK_FIXED "), state_crc = row_crc("
     "task_key" SQL_TASK_STATE "), long_crc = row_crc(task_key" SQL_TASK_LONG "), input_crc = "
     "(SELECT row_crc(task_key" SQL_TASK_INPUT ") FROM inputs i WHERE i.task_key = "
     "tasks.task_key)",
     NULL},
    WHOLE("conversations", SQL_CONVERSATION, "owner, conversation_id", "", -1),
    WHOLE("messages", SQL_MESSAGE, "owner, conversation_id, message_id", "", -1),
    WHOLE("contexts", "task_key, context", "task_key", "", -1),
    WHOLE("runs", "task_key, mark", "task_key", "", -1),
    WHOLE("notes", "task_key, number, seq, bytes", "task_key, number", "bytes", -1),
    WHOLE("inbox", "task_key, position, line", "task_key, position", "line", -1),
    WHOLE("request_keys", "owner, key, conversation_id, task_id, created_at", "owner, key", "", -1),
    WHOLE("notices", "key, silent, owner, conversation_id, agent, text, source", "key", "", 2),
    WHOLE("outbox", "key, hook, id, at, body", "key", "", OUTBOX_BODY),
    WHOLE("revocations", "owner, until", "owner", "", 0),
    WHOLE("usage", "owner, bytes", "owner", "", 0),
    WHOLE("garbage", "task_key, owner, keeps_record", "task_key", "", -1),
    WHOLE("files", SQL_FILE, "owner, conversation_id, file_id", "", 0),
    WHOLE("file_uses", "owner, conversation_id, task_id, file_id",
          "owner, conversation_id, task_id, file_id", "", -1),
    {"blocks", "task_key, first, last, bytes", "task_key, first", "bytes", -1, true, NULL,
     "task_key, first, last, raw_lines(bytes)"},
};

static bool pg_does(struct transfer *t, const char *sql)
{
    PGresult *r = PQexec(t->pg.pg, sql);
    bool good = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    PQclear(r);
    return good || postgres_fails(t, sql);
}

static int64_t pg_count(struct transfer *t, const char *sql)
{
    PGresult *r = PQexec(t->pg.pg, sql);
    bool good = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    int64_t n = good ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : -1;
    PQclear(r);
    return n;
}

static bool sqlite_does(struct transfer *t, const char *sql)
{
    return sqlite3_exec(t->sqlite.db, sql, NULL, NULL, NULL) == SQLITE_OK || sqlite_fails(t, sql);
}

/* --- writing ---------------------------------------------------------------------------------- */

static bool is_blob(const struct copied *c, const char *column)
{
    return *c->blobs && strcmp(c->blobs, column) == 0;
}

static int bind_cell(sqlite3_stmt *stmt, int at, const struct cell *c, bool blob)
{
    switch (c->type) {
    case CELL_NONE: return sqlite3_bind_null(stmt, at);
    case CELL_INT: return sqlite3_bind_int64(stmt, at, c->n);
    case CELL_REAL: return sqlite3_bind_double(stmt, at, c->real);
    case CELL_BYTES: break;
    }
    return blob ? sqlite3_bind_blob64(stmt, at, c->bytes.p, c->bytes.n, SQLITE_STATIC)
                : sqlite3_bind_text64(stmt, at, c->bytes.p, c->bytes.n, SQLITE_STATIC, SQLITE_UTF8);
}

static bool put_in_sqlite(struct transfer *t, const struct copied *c, const struct rows *from,
                          sqlite3_stmt *insert)
{
    for (int i = 0; i < from->n; i++) {
        struct cell cell = rows_cell(from, i);
        if (bind_cell(insert, i + 1, &cell, is_blob(c, PQfname(from->result, i))) != SQLITE_OK)
            return sqlite_fails(t, c->name);
    }
    bool good = sqlite3_step(insert) == SQLITE_DONE;
    sqlite3_reset(insert);
    return good || sqlite_fails(t, c->name);
}

static uint64_t real_bits(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

#define PLUS_ONE_OF(type, name) +1
static bool put_in_postgres(struct transfer *t, const struct copied *c, const struct rows *from)
{
    static const int one = 1;
    const char *values[COLUMNS_MAX];
    int lengths[COLUMNS_MAX], formats[COLUMNS_MAX], n = 0;
    char numbers[COLUMNS_MAX][8];
    int owner = c->owner;
    if (strcmp(c->name, "tasks") == 0) /* behind the key and the fixed numbers */
        owner = 1 TASK_FIXED_NUMBERS(PLUS_ONE_OF);
    ASSERT(from->n < COLUMNS_MAX);
    for (int i = 0; i < from->n; i++, n++) {
        struct cell cell = rows_cell(from, i);
        transfer_big(numbers[n], cell.type == CELL_REAL ? real_bits(cell.real) : (uint64_t)cell.n);
        bool number = cell.type == CELL_INT || cell.type == CELL_REAL;
        values[n] = cell.type == CELL_NONE ? NULL : number ? numbers[n] : cell.bytes.p;
        lengths[n] = number ? 8 : (int)cell.bytes.n;
        formats[n] = one;
    }
    if (c->owner >= 0) {
        ASSERT(owner < n);
        struct str text = {values[owner], (size_t)lengths[owner]};
        transfer_big(numbers[n], c->owner == OUTBOX_BODY ? outbox_slot(text) : slot_of(text));
        values[n] = numbers[n];
        lengths[n] = 8;
        formats[n++] = one;
    }
    PGresult *r = PQexecPrepared(t->pg.pg, c->name, n, values, lengths, formats, 1);
    bool good = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return good || postgres_fails(t, c->name);
}

/* --- a table ---------------------------------------------------------------------------------- */

static void select_of(const struct copied *c, bool sqlite, struct buf *ret)
{
    const char *columns = sqlite && c->unpacked ? c->unpacked : c->columns;
    buf_putf(ret, "SELECT %s FROM %s ORDER BY %s", columns, c->name, c->order);
    buf_putc(ret, 0);
}

static void put_numbers(struct buf *ret, int n, char mark)
{
    for (int i = 1; i <= n; i++)
        buf_putf(ret, "%s%c%d", i > 1 ? ", " : "", mark, i);
}

static void insert_into(const struct copied *c, bool postgres, struct buf *ret)
{
    int n = 1;
    for (const char *p = c->columns; *p; p++)
        n += *p == ',';
    bool slot = postgres && c->owner >= 0, sum = !postgres && c->has_sum;
    buf_putf(ret, "INSERT INTO %s (%s%s) VALUES (", c->name, c->columns,
             slot  ? ", slot"
             : sum ? ", crc"
                   : "");
    put_numbers(ret, n + slot, postgres ? '$' : '?');
    if (sum) {
        buf_puts(ret, ", row_crc(");
        put_numbers(ret, n, '?');
        buf_puts(ret, ")");
    }
    buf_puts(ret, ")");
    buf_putc(ret, 0);
}

static bool prepare_insert(struct transfer *t, const struct copied *c, sqlite3_stmt **ret)
{
    struct buf sql = {0};
    bool good;
    insert_into(c, !t->back, &sql);
    if (t->back) {
        good = sqlite3_prepare_v2(t->sqlite.db, sql.bytes, -1, ret, NULL) == SQLITE_OK ||
               sqlite_fails(t, sql.bytes);
    } else {
        PGresult *r = PQprepare(t->pg.pg, c->name, sql.bytes, 0, NULL);
        good = PQresultStatus(r) == PGRES_COMMAND_OK;
        PQclear(r);
        good = good || postgres_fails(t, sql.bytes);
    }
    buf_done(&sql);
    return good;
}

static bool copy_table(struct transfer *t, const struct copied *c)
{
    struct rows from;
    struct buf sql = {0};
    sqlite3_stmt *insert = NULL;
    select_of(c, !t->back, &sql);
    bool good = prepare_insert(t, c, &insert);
    if (good && rows_open(&from, t, !t->back, sql.bytes)) {
        while (good && rows_next(&from)) {
            good = t->back ? put_in_sqlite(t, c, &from, insert) : put_in_postgres(t, c, &from);
            t->rows++;
        }
        good = rows_close(&from, c->name) && good;
    } else {
        good = false;
    }
    sqlite3_finalize(insert);
    buf_done(&sql);
    return good && (!t->back || !c->sums || sqlite_does(t, c->sums));
}

static bool is_same_cell(struct cell a, struct cell b)
{
    return a.type == b.type && a.n == b.n && real_bits(a.real) == real_bits(b.real) &&
           (a.type != CELL_BYTES || str_eq(a.bytes, b.bytes));
}

/* Both in the order of their keys: the first difference ends it. */
static bool compare_rows(struct transfer *t, const char *name, struct rows *a, struct rows *b)
{
    for (int64_t row = 1;; row++) {
        bool one = rows_next(a), other = rows_next(b);
        if (!one && !other)
            return true;
        bool same = one && other && a->n == b->n;
        for (int i = 0; same && i < a->n; i++)
            same = is_same_cell(rows_cell(a, i), rows_cell(b, i));
        if (!same) {
            char text[96];
            snprintf(text, sizeof text, "row %lld of %s is not as it was", (long long)row, name);
            t->say(t->arg, true, text);
            return false;
        }
    }
}

static bool compare_selects(struct transfer *t, const char *name, const char *sqlite,
                            const char *postgres)
{
    struct rows a, b;
    if (!rows_open(&a, t, true, sqlite))
        return false;
    bool good = rows_open(&b, t, false, postgres);
    if (good) {
        good = compare_rows(t, name, &a, &b);
        good = rows_close(&b, name) && good;
    }
    return rows_close(&a, name) && good;
}

static bool compare_table(struct transfer *t, const struct copied *c)
{
    struct buf here = {0}, there = {0};
    select_of(c, true, &here);
    select_of(c, false, &there);
    bool good = compare_selects(t, c->name, here.bytes, there.bytes);
    buf_done(&here);
    buf_done(&there);
    return good;
}

/* --- the journal, and what else a start needs ------------------------------------------------- */

#define JOURNAL_HERE "SELECT raw_row(bytes) FROM journal ORDER BY row"
#define JOURNAL_THERE "SELECT bytes FROM journal ORDER BY incarnation, n"

static bool copy_journal(struct transfer *t)
{
    static const struct copied here = {"journal", "row, bytes", "row", "bytes",
                                       -1,        true,         NULL,  NULL};
    struct rows from;
    PGresult *r = NULL;
    sqlite3_stmt *insert = NULL;
    bool good = t->back ? prepare_insert(t, &here, &insert)
                        : (r = PQprepare(t->pg.pg, "journal",
                                         "INSERT INTO journal (incarnation, n, bytes) "
                                         "VALUES (1, $1, $2)",
                                         0, NULL)) != NULL;
    PQclear(r);
    if (!good || !rows_open(&from, t, !t->back, t->back ? JOURNAL_THERE : JOURNAL_HERE))
        return false;
    for (int64_t row = 1; good && rows_next(&from); row++, t->rows++) {
        struct cell bytes = rows_cell(&from, 0);
        if (t->back) {
            good = sqlite3_bind_int64(insert, 1, row) == SQLITE_OK &&
                   bind_cell(insert, 2, &bytes, true) == SQLITE_OK &&
                   sqlite3_step(insert) == SQLITE_DONE;
            sqlite3_reset(insert);
            good = good || sqlite_fails(t, "journal");
            continue;
        }
        char number[8];
        const char *values[] = {number, bytes.bytes.p};
        const int lengths[] = {8, (int)bytes.bytes.n}, formats[] = {1, 1};
        transfer_big(number, (uint64_t)row);
        r = PQexecPrepared(t->pg.pg, "journal", 2, values, lengths, formats, 1);
        good = PQresultStatus(r) == PGRES_COMMAND_OK || postgres_fails(t, "journal");
        PQclear(r);
    }
    good = rows_close(&from, "journal") && good;
    sqlite3_finalize(insert);
    return good;
}

/* The newest id: in marks, and in the row of the cluster.  The journal there is no node's: the
 * first one takes it. */
static bool newest_to_postgres(struct transfer *t)
{
    struct rows marks;
    if (!rows_open(&marks, t, true, "SELECT newest_id FROM marks"))
        return false;
    bool good = rows_next(&marks);
    struct cell id = good ? rows_cell(&marks, 0) : (struct cell){.type = CELL_NONE};
    const char *values[] = {id.bytes.p};
    const int lengths[] = {(int)id.bytes.n}, formats[] = {1};
    PGresult *r = PQexecParams(t->pg.pg, "UPDATE cluster SET newest_id = $1", 1, NULL, values,
                               lengths, formats, 1);
    good = good && PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    if (!good)
        (void)postgres_fails(t, "the newest id");
    return rows_close(&marks, "marks") && good;
}

static bool newest_to_sqlite(struct transfer *t)
{
    struct rows nodes;
    sqlite3_stmt *stmt = NULL;
    if (!rows_open(&nodes, t, false,
                   "SELECT newest_id FROM nodes UNION ALL SELECT newest_id FROM cluster "
                   "ORDER BY newest_id DESC LIMIT 1"))
        return false;
    bool found = rows_next(&nodes);
    struct cell id = found ? rows_cell(&nodes, 0) : (struct cell){.type = CELL_NONE};
    if (!found)
        id = (struct cell){CELL_BYTES, 0, 0, STR("")};
    bool good = sqlite3_prepare_v2(t->sqlite.db,
                                   "UPDATE marks SET newest_id = ?1, next_key = 1 + max("
                                   "(SELECT coalesce(max(task_key), 0) FROM tasks),"
                                   "(SELECT coalesce(max(key), 0) FROM notices),"
                                   "(SELECT coalesce(max(key), 0) FROM outbox))",
                                   -1, &stmt, NULL) == SQLITE_OK &&
                bind_cell(stmt, 1, &id, false) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_DONE;
    sqlite3_finalize(stmt);
    good = good || sqlite_fails(t, "marks");
    good = rows_close(&nodes, "nodes") && good;
    return good && sqlite_does(t, SUM("marks", "next_key, newest_id"));
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool transfer_all(struct transfer *t)
{
    bool good = true;
    for (size_t i = 0; i < countof(copied) && good; i++)
        good = copy_table(t, &copied[i]);
    if (good && !t->back) /* those name their task instead of the owner */
        good = pg_does(t, "UPDATE outbox o SET slot = t.slot FROM tasks t WHERE o.hook = "
                          "'\\x0168656c64' AND t.task_key = "
                          "(convert_from(o.body, 'UTF8')::json->>'task_key')::bigint");
    good = good && copy_journal(t);
    good = good && (t->back ? newest_to_sqlite(t) : newest_to_postgres(t));
    for (size_t i = 0; i < countof(copied) && good; i++)
        good = compare_table(t, &copied[i]);
    return good && compare_selects(t, "journal", JOURNAL_HERE, JOURNAL_THERE) && transfer_files(t);
}

static bool reach_server(struct transfer *t, const struct store_pg_options *o)
{
    char error[STORE_ERROR_TEXT] = "";
    if (!pg_conn_open(&t->pg, o, "holdfast import"))
        return transfer_fails(t, "the server", t->pg.error);
    if (pg_schema_migrate(&t->pg, error) < 0)
        return transfer_fails(t, "the server", error);
    if (PQexitPipelineMode(t->pg.pg) != 1 || PQsetnonblocking(t->pg.pg, 0) != 0)
        return postgres_fails(t, "the server");
    return pg_does(t, "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0;"
                      "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM cluster FOR UPDATE");
}

static bool server_is_free(struct transfer *t)
{
    if (pg_count(t, "SELECT count(*) FROM nodes WHERE state < 2") != 0)
        return transfer_fails(t, "the server", "a gateway has the store there: stop it first");
    if (!t->back && pg_count(t, "SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM "
                                "conversations) + (SELECT count(*) FROM nodes)") != 0)
        return transfer_fails(t, "the server", "there is a store already: take an empty database");
    return true;
}

static bool transfer_within(struct transfer *t, const struct store_pg_options *o, const char *path)
{
    if (sql_conn_open(&t->sqlite, path, !t->back) < 0)
        return transfer_fails(t, path, t->sqlite.error);
    if (sql_raw_register(t->sqlite.db) != SQLITE_OK)
        return sqlite_fails(t, path);
    bool good = reach_server(t, o) && server_is_free(t) &&
                sqlite_does(t, t->back ? "BEGIN IMMEDIATE" : "BEGIN") && transfer_all(t);
    if (good && t->back) /* the other side changed nothing */
        good = sqlite_does(t, "COMMIT") && pg_does(t, "ROLLBACK");
    else if (good)
        good = pg_does(t, "COMMIT") && sqlite_does(t, "COMMIT");
    return good;
}

static int version_of(struct transfer *t, const char *path)
{
    struct rows rows;
    int version = -1;
    if (sql_conn_open(&t->sqlite, path, true) == STORE_OK &&
        rows_open(&rows, t, true, "PRAGMA user_version")) {
        if (rows_next(&rows))
            version = (int)rows_cell(&rows, 0).n;
        (void)rows_close(&rows, path);
    }
    sql_conn_close(&t->sqlite);
    return version;
}

static bool transfer_end(struct transfer *t, bool good)
{
    char text[128];
    sql_conn_close(&t->sqlite);
    pg_conn_close(&t->pg);
    snprintf(text, sizeof text, "%lld rows, each the same on both sides", (long long)t->rows);
    if (good)
        t->say(t->arg, false, text);
    snprintf(text, sizeof text, "%lld files of %lld bytes, each with its hash", (long long)t->files,
             (long long)t->bytes);
    if (good && t->files > 0)
        t->say(t->arg, false, text);
    return good;
}

bool store_pg_import(const struct store_pg_options *o, const char *dir, store_pg_say_fn say,
                     void *arg)
{
    struct transfer t = {.dir = dir, .say = say, .arg = arg};
    struct data_dir d;
    char error[DATA_DIR_ERROR];
    if (!data_dir_look(dir, &d, error))
        return transfer_fails(&t, dir, error);
    bool good = !d.in_use || transfer_fails(&t, dir, "a gateway uses it: stop it first");
    if (good && version_of(&t, d.database) != schema_version)
        good = transfer_fails(&t, dir, "it is of another version: start this gateway on it once");
    good = good && transfer_within(&t, o, d.database);
    data_dir_leave(&d);
    return transfer_end(&t, good);
}

bool store_pg_export(const struct store_pg_options *o, const char *dir, store_pg_say_fn say,
                     void *arg)
{
    struct transfer t = {.dir = dir, .back = true, .say = say, .arg = arg};
    struct store_sqlite_options options = {.dir = dir, .power = true};
    struct store_sqlite *made = NULL;
    char error[STORE_ERROR_TEXT] = "";
    struct buf path = {0}, files = {0};
    buf_putf(&path, "%s/holdfast.db", dir);
    buf_putc(&path, 0);
    buf_putf(&files, "%s/files", dir);
    buf_putc(&files, 0);
    bool good = (access(path.bytes, F_OK) != 0 && access(files.bytes, F_OK) != 0) ||
                transfer_fails(&t, dir, "there is a store already: take an empty directory");
    if (good && store_sqlite_open(&options, &made, error) < 0)
        good = transfer_fails(&t, dir, error);
    store_sqlite_ops.close(made); /* its tables are there */
    good = good && transfer_within(&t, o, path.bytes);
    if (!good && made) {
        (void)unlink(path.bytes);
        file_copy_remove(files.bytes);
    }
    buf_done(&path);
    buf_done(&files);
    return transfer_end(&t, good);
}
