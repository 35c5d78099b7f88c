/* The invariants of a database, checked from outside.
 *
 * Design.  One read transaction.  Tasks, blocks and unsealed tails are walked together, in the
 * order of their task keys: a task's blocks and then its tail must be dense (promise 1), begin no
 * later than its first kept event, and end at its head.  A live task's record may be older than its
 * lines.  And each row must be as it was written: without full, only short rows are summed.  SQL
 * that only this file needs is written here, not in the table of store_sqlite_conn.c. */
#include "gateway/store/store_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "gateway/store/store_sqlite_private.h"
#include "proto/event.h"
#include "proto/line_pack.h"

#define MAX_FAULTS_TOLD 100
#define FUTURE_MS 86400000 /* clocks may have been set back */

struct walk {
    struct store_check *out;
    struct sql_conn *conn;
    bool full;
    struct sql_call blocks; /* at the first block that was not checked yet */
    struct buf lines;       /* of the one that is being checked */
    bool has_block;
    struct tails tails;
    size_t next_tail;
    int64_t now_ms;
};

/* The walk's current task, and what its lines were found to be. */
struct subject {
    int64_t key;
    char task_id[TASK_ID_LEN + 1];
    enum task_status status;
    uint64_t first, head;
    uint64_t from, to; /* existing lines; 0: none */
    bool has_hole;
    bool ends; /* full: the last line is a terminal event */
};

void store_check_fault(struct store_check *out, const char *format, ...)
{
    char text[512];
    va_list args;
    if (out->n_faults++ >= MAX_FAULTS_TOLD)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *at = text; *at; at++) /* a damaged name may contain anything */
        *at = (unsigned char)*at < ' ' ? '?' : *at;
    buf_putf(&out->faults, "%s\n", text);
}

/* --- asking ----------------------------------------------------------------------------------- */

static struct sql_call check_ask(struct sql_conn *conn, const char *text)
{
    struct sql_call c = {.conn = conn};
    c.rc = sqlite3_prepare_v2(conn->db, text, -1, &c.stmt, NULL);
    return c;
}

static int ask_end(struct sql_call *c)
{
    int status = sql_end(c);
    sqlite3_finalize(c->stmt);
    return status;
}

static bool ask_number(struct walk *w, const char *text, int64_t *ret)
{
    struct sql_call c = check_ask(w->conn, text);
    if (sql_step(&c))
        *ret = sql_col_int(&c, 0);
    if (ask_end(&c) == STORE_OK)
        return true;
    store_check_fault(w->out, "the database cannot be read: %s", w->conn->error);
    return false;
}

static void put_uri(struct buf *out, const char *path)
{
    buf_puts(out, "file:");
    for (; *path; path++) {
        if (strchr("%?#", *path))
            buf_putf(out, "%%%02x", (unsigned char)*path);
        else
            buf_putc(out, *path);
    }
    buf_puts(out, "?immutable=1");
}

/* A database that nobody uses is opened without a lock and without a log, which would be created in
 * the directory. */
int store_check_open(struct sql_conn *conn, const char *database, bool is_still)
{
    if (!is_still)
        return sql_conn_open(conn, database, true);
    struct buf uri = {0};
    *conn = (struct sql_conn){0};
    put_uri(&uri, database);
    int rc = sqlite3_open_v2(uri.bytes, &conn->db,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE, NULL);
    buf_done(&uri);
    if (rc == SQLITE_OK)
        rc = sql_crc_register(conn->db);
    if (rc == SQLITE_OK)
        return STORE_OK;
    snprintf(conn->error, sizeof conn->error, "%s", sqlite3_errstr(rc));
    return STORE_IO;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void check_line(struct walk *w, struct subject *t, uint64_t seq, struct str line)
{
    struct event_parts parts;
    if (!event_line_split(line, &parts) ||
        memcmp(line.p + sizeof(EVENT_PREFIX) - 1, t->task_id, TASK_ID_LEN) != 0)
        store_check_fault(w->out, "task %s: event %" PRIu64 " is not a line of this task",
                          t->task_id, seq);
    else if (parts.seq != seq)
        store_check_fault(w->out, "task %s: event %" PRIu64 " has the number %" PRIu64, t->task_id,
                          seq, parts.seq);
    else if (t->ends)
        store_check_fault(w->out, "task %s: event %" PRIu64 " comes after its end", t->task_id,
                          seq);
    else
        t->ends = event_is_terminal(parts.event);
}

static void check_lines(struct walk *w, struct subject *t, uint64_t first, uint64_t last,
                        struct str lines)
{
    uint64_t seq = first;
    for (; lines.n > 0; seq++) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        size_t n = newline ? (size_t)(newline - lines.p) + 1 : lines.n;
        if (seq <= last)
            check_line(w, t, seq, (struct str){lines.p, n});
        lines.p += n;
        lines.n -= n;
    }
    if (seq != last + 1)
        store_check_fault(w->out,
                          "task %s: the events %" PRIu64 " to %" PRIu64 " are %" PRIu64 " lines",
                          t->task_id, first, last, seq - first);
}

static void take_run(struct walk *w, struct subject *t, uint64_t first, uint64_t last,
                     struct str lines)
{
    if (first == 0 || last < first) {
        store_check_fault(w->out,
                          "task %s: a block claims to hold the events %" PRIu64 " to %" PRIu64,
                          t->task_id, first, last);
        return;
    }
    if (t->to && first > t->to + 1)
        store_check_fault(w->out, "task %s: the events %" PRIu64 " to %" PRIu64 " are missing",
                          t->task_id, t->to + 1, first - 1);
    if (t->to && first <= t->to)
        store_check_fault(w->out, "task %s: the events from %" PRIu64 " exist twice", t->task_id,
                          first);
    t->has_hole = t->has_hole || (t->to && first != t->to + 1);
    if (!t->from)
        t->from = first;
    t->to = last;
    w->out->n_events += last - first + 1;
    if (w->full)
        check_lines(w, t, first, last, lines);
}

static bool check_unpacks(struct walk *w, struct str bytes, int64_t crc, uint32_t sum)
{
    size_t size = sql_block_is_packed(crc) ? (size_t)(crc >> 32) : bytes.n;
    buf_clear(&w->lines);
    return sql_block_is_sound(bytes, size, crc, sum) && line_unpack_to(&w->lines, bytes);
}

/* A block that is not as it was written in some part: nothing that it says about itself counts. */
static bool check_block(struct walk *w, const struct subject *t)
{
    if (!w->full || check_unpacks(w, sql_col(&w->blocks, 3), sql_col_int(&w->blocks, 4),
                                  sql_row_crc(&w->blocks, 0, 0, 3)))
        return true;
    store_check_fault(w->out,
                      "task %s: its events %" PRId64 " to %" PRId64 " are not as they were written",
                      t->task_id, sql_col_int(&w->blocks, 1), sql_col_int(&w->blocks, 2));
    return false;
}

static void check_take_lines(struct walk *w, struct subject *t)
{
    /* Blocks that belong to no task are counted elsewhere. */
    while (w->has_block && sql_col_int(&w->blocks, 0) <= t->key) {
        if (sql_col_int(&w->blocks, 0) == t->key && check_block(w, t))
            take_run(w, t, (uint64_t)sql_col_int(&w->blocks, 1),
                     (uint64_t)sql_col_int(&w->blocks, 2), buf_str(&w->lines));
        w->has_block = sql_step(&w->blocks);
    }
    while (w->next_tail < w->tails.n && w->tails.at[w->next_tail]->task_key <= t->key) {
        const struct block *b = w->tails.at[w->next_tail++];
        if (b->task_key == t->key)
            take_run(w, t, b->first, b->last, (struct str){b->bytes, b->len});
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

static void check_extent(struct walk *w, const struct subject *t)
{
    bool ended = status_is_terminal(t->status);
    if (!t->to && t->first == t->head + 1)
        return; /* retention has removed all of it */
    if (!t->to) {
        store_check_fault(w->out, "task %s: none of its %" PRIu64 " events exists", t->task_id,
                          t->head);
        return;
    }
    if (t->from > t->first)
        store_check_fault(w->out,
                          "task %s: its first events, %" PRIu64 " to %" PRIu64 ", are missing",
                          t->task_id, t->first, t->from - 1);
    if (t->to < t->head)
        store_check_fault(w->out,
                          "task %s: its last events, %" PRIu64 " to %" PRIu64 ", are missing",
                          t->task_id, t->to + 1, t->head);
    if (ended && t->to > t->head)
        store_check_fault(w->out,
                          "task %s: it ended with event %" PRIu64 ", and has more, up to %" PRIu64,
                          t->task_id, t->head, t->to);
    if (w->full && ended && t->to == t->head && !t->has_hole && !t->ends)
        store_check_fault(w->out, "task %s: it has ended, but its last event is not terminal",
                          t->task_id);
    if (w->full && !ended && t->ends)
        store_check_fault(w->out, "task %s: its events have an end, but it is %s", t->task_id,
                          status_name(t->status));
}

/* The row's times, columns 6 to 8: created, started, completed. */
static void check_times(struct walk *w, const struct subject *t, const struct sql_call *row)
{
    int64_t created = sql_col_int(row, 6), started = sql_col_int(row, 7);
    int64_t completed = sql_col_int(row, 8);
    bool ended = status_is_terminal(t->status);
    if (created <= 0 || created > w->now_ms + FUTURE_MS)
        store_check_fault(w->out,
                          "task %s: it was created at %" PRId64 ", which is not in the past",
                          t->task_id, created);
    if (t->status == STATUS_RUNNING && !started)
        store_check_fault(w->out, "task %s: it runs, but was never started", t->task_id);
    if (t->status == STATUS_PENDING && started)
        store_check_fault(w->out, "task %s: it is pending, but was started", t->task_id);
    if (ended != (completed != 0))
        store_check_fault(w->out, "task %s: it is %s, but has %s time of its end", t->task_id,
                          status_name(t->status), completed ? "a" : "no");
}

/* The columns of tasks_text. */
static void check_task(struct walk *w, const struct sql_call *row)
{
    struct str id = sql_col(row, 1);
    int64_t status = sql_col_int(row, 2), type = sql_col_int(row, 3);
    struct subject t = {.key = sql_col_int(row, 0),
                        .status = (enum task_status)status,
                        .first = (uint64_t)sql_col_int(row, 4),
                        .head = (uint64_t)sql_col_int(row, 5)};
    w->out->n_tasks++;
    if (id.n != TASK_ID_LEN) {
        store_check_fault(w->out, "the task with key %" PRId64 " has no id", t.key);
        return;
    }
    memcpy(t.task_id, id.p, TASK_ID_LEN);
    if (status < STATUS_PENDING || status > STATUS_CANCELLED || type < TYPE_CHAT ||
        type > TYPE_NOTICE) {
        store_check_fault(w->out, "task %s: status %" PRId64 " or type %" PRId64 " is unknown",
                          t.task_id, status, type);
        return;
    }
    w->out->n_live += !status_is_terminal(t.status);
    check_take_lines(w, &t);
    check_extent(w, &t);
    check_times(w, &t, row);
}

static const char tasks_text[] = "SELECT task_key, task_id, status, type, first, head, created_at, "
                                 "started_at, completed_at FROM tasks ORDER BY task_key";
static const char blocks_text[] =
    "SELECT task_key, first, last, NULL FROM blocks ORDER BY task_key, first";
static const char blocks_full_text[] =
    "SELECT task_key, first, last, bytes, crc FROM blocks ORDER BY task_key, first";

static void check_tasks(struct walk *w)
{
    if (sql_tails_load(w->conn, &w->tails) < 0)
        store_check_fault(w->out, "the journal cannot be read: %s", w->conn->error);
    w->out->n_tails = (int64_t)w->tails.n;
    w->blocks = check_ask(w->conn, w->full ? blocks_full_text : blocks_text);
    w->has_block = sql_step(&w->blocks);
    struct sql_call tasks = check_ask(w->conn, tasks_text);
    while (sql_step(&tasks))
        check_task(w, &tasks);
    int status = ask_end(&tasks), end = ask_end(&w->blocks);
    if (status < 0 || end < 0)
        store_check_fault(w->out, "the tasks cannot be read: %s", w->conn->error);
    tails_done(&w->tails);
    buf_done(&w->lines);
}

/* --- the rest --------------------------------------------------------------------------------- */

/* Each counts rows that must not exist. */
static const struct {
    const char *text, *what;
} counts[] = {
    {"SELECT count(*) FROM blocks WHERE task_key NOT IN (SELECT task_key FROM tasks) AND "
     "task_key NOT IN (SELECT task_key FROM garbage)",
     "blocks of events belong to no task"},
    {"SELECT count(*) FROM inbox WHERE task_key NOT IN (SELECT task_key FROM tasks) AND "
     "task_key NOT IN (SELECT task_key FROM garbage)",
     "messages wait for a task that does not exist"},
    {"SELECT count(*) FROM contexts WHERE task_key NOT IN (SELECT task_key FROM tasks WHERE "
     "status < 2) AND task_key NOT IN (SELECT task_key FROM garbage)",
     "contexts belong to no live task"},
    {"SELECT count(*) FROM (SELECT task_key FROM runs UNION ALL SELECT task_key FROM notes) WHERE "
     "task_key NOT IN (SELECT task_key FROM tasks WHERE status < 2) AND task_key NOT IN "
     "(SELECT task_key FROM garbage)",
     "marks and notes belong to no live task"},
    {"SELECT count(*) FROM tasks WHERE task_key >= (SELECT next_key FROM marks)",
     "tasks have a key that would be assigned again"},
    {"SELECT count(*) FROM tasks WHERE task_id > (SELECT newest_id FROM marks)",
     "tasks have an id that is newer than the newest"},
    {"SELECT count(*) FROM file_uses u WHERE NOT EXISTS (SELECT 1 FROM files f WHERE f.owner = "
     "u.owner AND f.conversation_id = u.conversation_id AND f.file_id = u.file_id AND f.state = 1)",
     "files that tasks name do not exist"},
    {"SELECT count(*) FROM files f WHERE f.state = 1 AND NOT EXISTS (SELECT 1 FROM file_uses u "
     "WHERE u.owner = f.owner AND u.conversation_id = f.conversation_id AND u.file_id = f.file_id)",
     "files are kept for no task"},
    {"SELECT 1 - count(*) FROM marks", "rows of marks are missing"},
};

/* Reads the size of every block. */
static const char wrong_usage[] =
    "SELECT count(*) FROM (SELECT owner FROM (" SQL_USAGE_PARTS
    " UNION ALL SELECT owner, -bytes FROM usage) GROUP BY owner HAVING sum(bytes) <> 0)";

static void check_usage(struct walk *w)
{
    int64_t n = 0;
    if (ask_number(w, wrong_usage, &n) && n != 0)
        store_check_fault(w->out,
                          "%" PRId64 " owners have more or less in the store than it counts", n);
}

/* Each gives a sentence for a row that is not as it was written; blocks are checked during the
 * walk. */
#define NOT_AS_WRITTEN " is not as it was written' FROM "
#define WRONG(table, columns) table " WHERE crc IS NOT row_crc(" columns ")"
static const struct {
    bool full;
    const char *text;
} sums[] = {
    {false, "SELECT 'task ' || task_id || ': its record" NOT_AS_WRITTEN
            "tasks WHERE fixed_crc IS NOT row_crc(" SQL_TASK_FIXED
            ") OR state_crc IS NOT row_crc(task_key" SQL_TASK_STATE ")"},
    {true, "SELECT 'task ' || task_id || ': its output, or what else it ended with," NOT_AS_WRITTEN
           "tasks WHERE long_crc IS NOT row_crc(task_key" SQL_TASK_LONG ")"},
    {true,
     "SELECT 'task ' || t.task_id || ': its input" NOT_AS_WRITTEN "tasks t" SQL_WITH_INPUT
     "WHERE t.input_crc IS NOT CASE WHEN i.input IS NOT NULL OR i.metadata IS NOT NULL OR i.parts IS NOT NULL "
     "THEN row_crc(t.task_key, i.input, i.metadata, i.parts) END"},
    {true, "SELECT 'the context of the task with key ' || task_key || '" NOT_AS_WRITTEN WRONG(
               "contexts", "task_key, context")},
    {true,
     "SELECT 'message ' || message_id || ' of conversation ' || conversation_id || '" NOT_AS_WRITTEN
         WRONG("messages", SQL_MESSAGE)},
    {false, "SELECT 'conversation ' || conversation_id || '" NOT_AS_WRITTEN WRONG(
                "conversations", SQL_CONVERSATION)},
    {false, "SELECT 'the request key of task ' || task_id || '" NOT_AS_WRITTEN WRONG(
                "request_keys", "owner, key, conversation_id, task_id, created_at")},
    {false, "SELECT 'the row of marks" NOT_AS_WRITTEN WRONG("marks", "next_key, newest_id")},
    {false,
     "SELECT 'row ' || row || ' of the journal" NOT_AS_WRITTEN WRONG("journal", "row, bytes")},
    {false,
     "SELECT 'message ' || position || ' for the task with key ' || task_key || '" NOT_AS_WRITTEN
         WRONG("inbox", "task_key, position, line")},
    {false,
     "SELECT 'how far the agent of the task with key ' || task_key || ' was read" NOT_AS_WRITTEN
         WRONG("runs", "task_key, mark")},
    {true,
     "SELECT 'note ' || number || ' of the task with key ' || task_key || '" NOT_AS_WRITTEN WRONG(
         "notes", "task_key, number, seq, bytes")},
    {false, "SELECT 'notice ' || key || '" NOT_AS_WRITTEN WRONG(
                "notices", "key, silent, owner, conversation_id, agent, text, source")},
    {false, "SELECT 'that the task with key ' || task_key || ' was removed" NOT_AS_WRITTEN WRONG(
                "garbage", "task_key, owner, keeps_record")},
    {false, "SELECT 'what owner ' || owner || ' has in the store" NOT_AS_WRITTEN WRONG(
                "usage", "owner, bytes")},
    {false, "SELECT 'that owner ' || owner || ' is revoked" NOT_AS_WRITTEN WRONG("revocations",
                                                                                 "owner, until")},
    {false, "SELECT 'file ' || file_id || '" NOT_AS_WRITTEN WRONG("files", SQL_FILE)},
    {false, "SELECT 'that task ' || task_id || ' names file ' || file_id || '" NOT_AS_WRITTEN WRONG(
                "file_uses", "owner, conversation_id, task_id, file_id")},
    {false, "SELECT 'message ' || key || ' of the outbox" NOT_AS_WRITTEN WRONG(
                "outbox", "key, hook, id, at, body")},
};

static void check_sums(struct walk *w)
{
    for (size_t i = 0; i < countof(sums); i++) {
        if (sums[i].full && !w->full)
            continue;
        struct sql_call c = check_ask(w->conn, sums[i].text);
        while (sql_step(&c)) {
            struct str said = sql_col(&c, 0);
            if (!said.p) /* a name is missing */
                said = STR("a row is not as it was written");
            store_check_fault(w->out, "%.*s", (int)said.n, said.p);
        }
        if (ask_end(&c) < 0)
            store_check_fault(w->out, "the database cannot be read: %s", w->conn->error);
    }
}

static void check_counts(struct walk *w)
{
    for (size_t i = 0; i < countof(counts); i++) {
        int64_t n = 0;
        if (ask_number(w, counts[i].text, &n) && n != 0)
            store_check_fault(w->out, "%" PRId64 " %s", n, counts[i].what);
    }
    if (ask_number(w, "SELECT count(*) FROM conversations", &w->out->n_conversations))
        (void)ask_number(w, "SELECT count(*) FROM blocks", &w->out->n_blocks);
}

/* SQLite's own check: a row "ok", or one for each fault. */
static void check_pages(struct walk *w)
{
    struct sql_call c =
        check_ask(w->conn, w->full ? "PRAGMA integrity_check" : "PRAGMA quick_check");
    while (sql_step(&c)) {
        struct str said = sql_col(&c, 0);
        if (!str_eq(said, STR("ok")))
            store_check_fault(w->out, "SQLite says: %.*s", (int)said.n, said.p ? said.p : "");
    }
    if (ask_end(&c) < 0)
        store_check_fault(w->out, "SQLite cannot check the database: %s", w->conn->error);
}

static bool check_version(struct walk *w)
{
    if (!ask_number(w, "PRAGMA user_version", &w->out->version))
        return false;
    if (w->out->version > schema_version)
        store_check_fault(w->out,
                          "the schema has version %" PRId64
                          ", and this program knows up to %d: a newer gateway wrote it",
                          w->out->version, schema_version);
    else if (w->out->version <= 0)
        store_check_fault(w->out,
                          "the database is not a gateway's, or its first start was interrupted");
    return w->out->version == schema_version; /* an older one is migrated at the next start */
}

void store_check(const char *database, bool is_still, bool full, struct store_check *ret)
{
    struct sql_conn conn;
    struct walk w = {.out = ret, .conn = &conn, .full = full};
    *ret = (struct store_check){0};
    w.now_ms = (int64_t)time(NULL) * 1000;
    if (store_check_open(&conn, database, is_still) < 0) {
        store_check_fault(ret, "the database cannot be opened: %s", conn.error);
    } else {
        (void)sql_conn_exec(&conn,
                            "BEGIN"); /* a failure here also happens below, and is reported there */
        bool known = check_version(&w);
        check_pages(&w);
        if (known) {
            check_tasks(&w);
            check_counts(&w);
            check_sums(&w);
            if (full)
                check_usage(&w);
        }
        (void)sql_conn_exec(&conn, "COMMIT");
    }
    sql_conn_close(&conn);
    if (ret->n_faults > MAX_FAULTS_TOLD)
        buf_putf(&ret->faults, "… and %zu more\n", ret->n_faults - MAX_FAULTS_TOLD);
}

void store_check_done(struct store_check *c)
{
    buf_done(&c->faults);
}

int store_copy(const char *database, bool is_still, const char *to, struct buf *ret_error)
{
    struct sql_conn conn;
    int status = store_check_open(&conn, database, is_still);
    if (status == STORE_OK) {
        struct sql_call c = check_ask(&conn, "VACUUM INTO ?");
        sql_text(&c, str_of(to));
        while (sql_step(&c))
            ;
        status = ask_end(&c);
    }
    if (status < 0)
        buf_puts(ret_error, conn.error);
    sql_conn_close(&conn);
    return status;
}
