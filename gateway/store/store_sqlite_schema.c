/* The schema, and the migration of a database from an older version.
 *
 * To change it: never edit a script that was released; append one that turns the last version into
 * the next; old gateways then refuse the database by its version.  Enumerations (task_status,
 * task_type, task_error, message_role) are stored as their numbers: new values go to the end.
 */
#include <stdio.h>

#include "gateway/base/log.h"
#include "gateway/store/store_sqlite_private.h"

_Static_assert(STATUS_PENDING == 0 && STATUS_RUNNING == 1 && STATUS_COMPLETED == 2 &&
                   STATUS_FAILED == 3 && STATUS_CANCELLED == 4,
               "stored as numbers");
_Static_assert(TYPE_CHAT == 0 && TYPE_BACKGROUND == 1 && TYPE_CHILD == 2 && TYPE_NOTICE == 3,
               "stored as numbers");
_Static_assert(ROLE_USER == 0 && ROLE_ASSISTANT == 1 && ROLE_SYSTEM == 2, "stored as numbers");
_Static_assert(TASK_OK == 0 && TASK_AGENT_ERROR == 1 && TASK_INTERNAL == 7, "stored as numbers");

/* A task's row is rewritten at each change of its state, so its long and constant part has a table
 * of its own, inputs.  The journal's format is in store_sqlite_journal.c.  Blocks are appended by
 * rowid and found by a small index: WITHOUT ROWID took a quarter longer per commit, pages of 8 and
 * 16 KiB wrote a fifth and two thirds more. */
static const char version_1[] =
    "CREATE TABLE marks (next_key INTEGER NOT NULL, newest_id TEXT NOT NULL);"
    "INSERT INTO marks VALUES (1, '');"

    "CREATE TABLE conversations (owner TEXT NOT NULL, conversation_id TEXT NOT NULL, title TEXT,"
    " agent TEXT, updated_at INTEGER NOT NULL, notices INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY (owner, conversation_id)) WITHOUT ROWID;"
    "CREATE INDEX conversations_changed ON conversations (owner, updated_at, conversation_id);"

    "CREATE TABLE messages (owner TEXT NOT NULL, conversation_id TEXT NOT NULL,"
    " message_id TEXT NOT NULL, task_id TEXT, role INTEGER NOT NULL, partial INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL, content TEXT,"
    " UNIQUE (owner, conversation_id, message_id));"

    "CREATE TABLE tasks (task_key INTEGER PRIMARY KEY, type INTEGER NOT NULL,"
    " notify_on_complete INTEGER NOT NULL, waits INTEGER NOT NULL, created_at INTEGER NOT NULL,"
    " owner TEXT NOT NULL,"
    " conversation_id TEXT NOT NULL, task_id TEXT NOT NULL, agent TEXT, name TEXT,"
    " description TEXT, parent_task_id TEXT, parent_run_id TEXT, parent_call_id TEXT,"
    " parent_agent_id TEXT, ancestors TEXT, status INTEGER NOT NULL, error INTEGER NOT NULL, progress REAL,"
    " first INTEGER NOT NULL, head INTEGER NOT NULL, cancel_requested_at INTEGER NOT NULL,"
    " started_at INTEGER NOT NULL, completed_at INTEGER NOT NULL,"
    " output_truncated INTEGER NOT NULL, acked INTEGER NOT NULL, error_message TEXT,"
    " waiting_for TEXT, output TEXT, result TEXT, undelivered TEXT, answers TEXT,"
    " UNIQUE (owner, conversation_id, task_id));"
    "CREATE INDEX tasks_live ON tasks (task_key) WHERE status < 2;"
    "CREATE INDEX tasks_live_in ON tasks (owner, conversation_id, task_id) WHERE status < 2;"
    "CREATE INDEX tasks_results ON tasks (owner, conversation_id, task_id)"
    " WHERE type = 1 AND status >= 2 AND acked = 0;"
    "CREATE TABLE inputs (task_key INTEGER PRIMARY KEY, input TEXT, metadata TEXT);"

    "CREATE TABLE request_keys (owner TEXT NOT NULL, key TEXT NOT NULL,"
    " conversation_id TEXT NOT NULL, task_id TEXT NOT NULL, created_at INTEGER NOT NULL,"
    " PRIMARY KEY (owner, key)) WITHOUT ROWID;"
    "CREATE INDEX request_keys_of ON request_keys (owner, conversation_id);"

    "CREATE TABLE journal (row INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
    "CREATE TABLE blocks (task_key INTEGER NOT NULL, first INTEGER NOT NULL,"
    " last INTEGER NOT NULL, bytes BLOB NOT NULL, UNIQUE (task_key, first));"
    "CREATE TABLE inbox (task_key INTEGER NOT NULL, position INTEGER NOT NULL,"
    " line BLOB NOT NULL, PRIMARY KEY (task_key, position)) WITHOUT ROWID;"
    "CREATE TABLE notices (key INTEGER PRIMARY KEY, silent INTEGER NOT NULL, owner TEXT NOT NULL,"
    " conversation_id TEXT NOT NULL, agent TEXT, text TEXT);"
    "CREATE INDEX notices_of ON notices (owner, conversation_id);"
    /* Tasks whose rows are gone, but whose blocks, input and inbox are not removed yet. */
    "CREATE TABLE garbage (task_key INTEGER PRIMARY KEY);";

/* task_record_cost as it was until version 10. */
#define TASK_2_COST                                                                                           \
    "(1024 + (1 + (t.type IN (0, 3))) * (" SQL_BYTES("i.input") " + " SQL_BYTES("t.output") ") + " SQL_BYTES( \
        "i.metadata") " + " SQL_BYTES("t.result") " + " SQL_BYTES("t.undelivered") " + " SQL_BYTES("t.answers") ")"
/* Retention: owners' usage, what is removed next, and rows that go with their task. */
static const char version_2[] =
    "CREATE TABLE usage (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO usage SELECT owner, sum(bytes) FROM ("
    "SELECT t.owner AS owner, " TASK_2_COST " AS bytes FROM tasks t" SQL_WITH_INPUT
    "WHERE t.status >= 2 UNION ALL "
    "SELECT t.owner, length(b.bytes) FROM tasks t JOIN blocks b ON b.task_key = t.task_key) "
    "GROUP BY owner;"
    "CREATE INDEX tasks_ended ON tasks (completed_at) WHERE status >= 2;"
    "CREATE INDEX tasks_ended_of ON tasks (owner) WHERE status >= 2;"
    "CREATE INDEX tasks_with_events_of ON tasks (owner) WHERE status >= 2 AND first <= head;"
    "CREATE INDEX messages_of_task ON messages (task_id);"
    "DROP INDEX request_keys_of;"
    "CREATE INDEX request_keys_of_task ON request_keys (owner, conversation_id, task_id);"
    /* The owner in whose usage the blocks still count, NULL for none; whether the task itself
     * stays. */
    "ALTER TABLE garbage ADD COLUMN owner TEXT;"
    "ALTER TABLE garbage ADD COLUMN keeps_record INTEGER NOT NULL DEFAULT 0;";

/* Owners who are revoked, until a time in Unix ms. */
static const char version_3[] = "CREATE TABLE revocations (owner TEXT PRIMARY KEY, "
                                "until INTEGER NOT NULL) WITHOUT ROWID;";

/* Reports to other servers that are not delivered yet. */
static const char version_4[] =
    "CREATE TABLE outbox (key INTEGER PRIMARY KEY, hook TEXT NOT NULL, id TEXT NOT NULL,"
    " at INTEGER NOT NULL, body TEXT NOT NULL);"
    "CREATE INDEX outbox_of ON outbox (hook);";

/* The process that a notice reports: NULL for a task's, and for those of older gateways. */
static const char version_5[] = "ALTER TABLE notices ADD COLUMN source TEXT;";

/* A checksum for each row (store_sqlite_crc.c).  A task's are before its long columns, where lists
 * do not go, so its table is created anew.  All rows are rewritten, once: 370 MB took six seconds,
 * and as much room in the WAL. */
#define TASK_6_FIXED                                                                                        \
    "task_key, type, notify_on_complete, waits, created_at, owner, conversation_id, task_id, agent, name, " \
    "description, parent_task_id, parent_run_id, parent_call_id, parent_agent_id, ancestors"
#define TASK_6_STATE                                                                        \
    "status, error, progress, first, head, cancel_requested_at, started_at, completed_at, " \
    "output_truncated, acked, error_message, waiting_for"
#define TASK_6_LONG "output, result, undelivered, answers"
#define WITH_CRC(table, columns)                    \
    "ALTER TABLE " table " ADD COLUMN crc INTEGER;" \
    "UPDATE " table " SET crc = row_crc(" columns ");"
static const char version_6[] =
    "CREATE TABLE tasks_6 (task_key INTEGER PRIMARY KEY, type INTEGER NOT NULL,"
    " notify_on_complete INTEGER NOT NULL, waits INTEGER NOT NULL, created_at INTEGER NOT NULL,"
    " owner TEXT NOT NULL,"
    " conversation_id TEXT NOT NULL, task_id TEXT NOT NULL, agent TEXT, name TEXT,"
    " description TEXT, parent_task_id TEXT, parent_run_id TEXT, parent_call_id TEXT,"
    " parent_agent_id TEXT, ancestors TEXT, fixed_crc INTEGER, input_crc INTEGER,"
    " status INTEGER NOT NULL, error INTEGER NOT NULL, progress REAL,"
    " first INTEGER NOT NULL, head INTEGER NOT NULL, cancel_requested_at INTEGER NOT NULL,"
    " started_at INTEGER NOT NULL, completed_at INTEGER NOT NULL,"
    " output_truncated INTEGER NOT NULL, acked INTEGER NOT NULL, error_message TEXT,"
    " waiting_for TEXT, state_crc INTEGER, long_crc INTEGER,"
    " output TEXT, result TEXT, undelivered TEXT, answers TEXT,"
    " UNIQUE (owner, conversation_id, task_id));"
    "INSERT INTO tasks_6 (" TASK_6_FIXED ", fixed_crc, input_crc, " TASK_6_STATE
    ", state_crc, long_crc, " TASK_6_LONG ") SELECT " TASK_6_FIXED ", row_crc(" TASK_6_FIXED "),"
    " (SELECT row_crc(i.task_key, i.input, i.metadata) FROM inputs i WHERE i.task_key = tasks.task_key), " TASK_6_STATE
    ", row_crc(task_key, " TASK_6_STATE "), row_crc(task_key, " TASK_6_LONG "), " TASK_6_LONG
    " FROM tasks ORDER BY task_key;"
    "DROP TABLE tasks; ALTER TABLE tasks_6 RENAME TO tasks;"
    "CREATE INDEX tasks_live ON tasks (task_key) WHERE status < 2;"
    "CREATE INDEX tasks_live_in ON tasks (owner, conversation_id, task_id) WHERE status < 2;"
    "CREATE INDEX tasks_results ON tasks (owner, conversation_id, task_id)"
    " WHERE type = 1 AND status >= 2 AND acked = 0;"
    "CREATE INDEX tasks_ended ON tasks (completed_at) WHERE status >= 2;"
    "CREATE INDEX tasks_ended_of ON tasks (owner) WHERE status >= 2;"
    "CREATE INDEX tasks_with_events_of ON tasks (owner) WHERE status >= 2 AND first <= head;"
    // clang-format off
    WITH_CRC("marks", "next_key, newest_id")
    WITH_CRC("conversations", "owner, conversation_id, title, agent, updated_at, notices")
    WITH_CRC("messages",
             "owner, conversation_id, message_id, task_id, role, partial, created_at, content")
    WITH_CRC("request_keys", "owner, key, conversation_id, task_id, created_at")
    WITH_CRC("journal", "row, bytes")
    /* Before the bytes: after them, reading it would go through all of a block's pages. */
    "ALTER TABLE blocks RENAME COLUMN bytes TO crc; ALTER TABLE blocks ADD COLUMN bytes BLOB;"
    "UPDATE blocks SET bytes = crc, crc = row_crc(task_key, first, last, crc);"
    WITH_CRC("inbox", "task_key, position, line")
    WITH_CRC("notices", "key, silent, owner, conversation_id, agent, text, source")
    WITH_CRC("garbage", "task_key, owner, keeps_record")
    WITH_CRC("usage", "owner, bytes")
    WITH_CRC("revocations", "owner, until")
    WITH_CRC("outbox", "key, hook, id, at, body");
// clang-format on

/* Contexts of chats, which replace the history; and conversations that no list shows, of which an
 * owner may have many more than of others. */
static const char version_7[] =
    "CREATE TABLE contexts (task_key INTEGER PRIMARY KEY, context TEXT, crc INTEGER);"
    "ALTER TABLE conversations ADD COLUMN unlisted INTEGER NOT NULL DEFAULT 0;"
    "UPDATE conversations SET crc = row_crc(owner, conversation_id, title, agent, updated_at, "
    "notices, unlisted) WHERE crc IS row_crc(owner, conversation_id, title, agent, updated_at, "
    "notices);"
    "DROP INDEX conversations_changed;"
    "CREATE INDEX conversations_changed ON conversations (owner, updated_at, conversation_id) "
    "WHERE unlisted = 0;";

/* Tasks that go on over a restart: how far each agent was read, what its adapter must know again,
 * and what was withdrawn of its text.  All rows of tasks are rewritten, for their sums. */
#define LONG_7 "task_key, output, result, undelivered, answers"
static const char version_8[] =
    "CREATE TABLE runs (task_key INTEGER PRIMARY KEY, mark INTEGER NOT NULL, crc INTEGER);"
    "CREATE TABLE notes (task_key INTEGER NOT NULL, number INTEGER NOT NULL,"
    " seq INTEGER NOT NULL, bytes BLOB NOT NULL, crc INTEGER,"
    " PRIMARY KEY (task_key, number)) WITHOUT ROWID;"
    "ALTER TABLE tasks ADD COLUMN retracted TEXT;"
    "UPDATE tasks SET long_crc = row_crc(" LONG_7 ", retracted) "
    "WHERE long_crc IS row_crc(" LONG_7 ");";

/* Messages are a tree; what was there is one straight branch, in which an answer stands right after
 * its question.  Without the table straight, each message would be looked for among all. */
#define MESSAGE_6 "owner, conversation_id, message_id, task_id, role, partial, created_at, content"
#define CONVERSATION_7 "owner, conversation_id, title, agent, updated_at, notices, unlisted"
static const char version_9[] =
    "ALTER TABLE tasks ADD COLUMN question_id TEXT;"
    "UPDATE tasks SET fixed_crc = row_crc(" TASK_6_FIXED ", NULL) "
    "WHERE fixed_crc IS row_crc(" TASK_6_FIXED ");"
    "CREATE INDEX tasks_of_question ON tasks (question_id) WHERE question_id IS NOT NULL;"
    "CREATE TABLE straight (message INTEGER PRIMARY KEY, above TEXT, awaits TEXT, ends INTEGER);"
    "INSERT INTO straight SELECT m.at, lag(m.message_id) OVER path,"
    " CASE WHEN lag(m.role) OVER path <> 1 AND m.role <> 1 THEN lag(m.task_id) OVER path END,"
    " lead(m.message_id) OVER path IS NULL FROM ("
    "SELECT m.rowid AS at, m.owner, m.conversation_id, m.message_id, m.task_id, m.role,"
    " CASE WHEN m.role = 1 THEN coalesce((SELECT min(q.message_id)"
    " FROM messages q INDEXED BY messages_of_task WHERE q.task_id = m.task_id AND"
    " q.owner = m.owner AND q.conversation_id = m.conversation_id AND q.role <> 1 AND"
    " q.message_id < m.message_id), m.message_id) ELSE m.message_id END AS place FROM messages m) m"
    " WINDOW path AS (PARTITION BY m.owner, m.conversation_id ORDER BY m.place, m.message_id);"
    "ALTER TABLE messages ADD COLUMN parent_id TEXT;"
    "ALTER TABLE messages ADD COLUMN behind TEXT;"
    "UPDATE messages SET parent_id = above, behind = awaits, crc = CASE WHEN"
    " crc IS row_crc(" MESSAGE_6 ") THEN row_crc(" MESSAGE_6 ", above, awaits) ELSE crc END"
    " FROM straight WHERE message = messages.rowid;"
    "CREATE INDEX messages_under ON messages (parent_id) WHERE parent_id IS NOT NULL;"
    "CREATE INDEX messages_first ON messages (owner, conversation_id) WHERE parent_id IS NULL;"
    "CREATE INDEX messages_behind ON messages (behind) WHERE behind IS NOT NULL;"
    "ALTER TABLE conversations ADD COLUMN tip TEXT;"
    "ALTER TABLE conversations ADD COLUMN tip_task TEXT;"
    "UPDATE conversations SET crc = row_crc(" CONVERSATION_7 ", NULL, NULL) "
    "WHERE crc IS row_crc(" CONVERSATION_7 ");"
    "UPDATE conversations SET tip = last, tip_task = its_task, crc = CASE WHEN"
    " crc IS row_crc(" CONVERSATION_7 ", NULL, NULL) THEN row_crc(" CONVERSATION_7
    ", last, its_task)"
    " ELSE crc END FROM (SELECT m.owner AS whose, m.conversation_id AS its_id, m.message_id AS last,"
    " CASE WHEN m.role <> 1 THEN m.task_id END AS its_task FROM straight JOIN messages m"
    " ON m.rowid = message WHERE ends) WHERE whose = owner AND its_id = conversation_id;"
    "DROP TABLE straight;";

/* Files, and the tasks that name them.  Their bytes lie in a folder, by blob (file_folder.h). */
static const char version_10[] =
    "CREATE TABLE files (owner TEXT NOT NULL, conversation_id TEXT NOT NULL,"
    " file_id TEXT NOT NULL, name TEXT NOT NULL, media_type TEXT NOT NULL, sha256 TEXT NOT NULL,"
    " blob TEXT NOT NULL, upload TEXT, size INTEGER NOT NULL, created_at INTEGER NOT NULL,"
    " state INTEGER NOT NULL, crc INTEGER,"
    " PRIMARY KEY (owner, conversation_id, file_id)) WITHOUT ROWID;"
    "CREATE INDEX files_of_blob ON files (blob, state);"
    "CREATE INDEX files_of_upload ON files (owner, conversation_id, upload)"
    " WHERE upload IS NOT NULL;"
    "CREATE INDEX files_new ON files (created_at) WHERE state = 0;"
    "CREATE INDEX files_gone ON files (blob) WHERE state = 2;"
    "CREATE INDEX files_size ON files (size);"
    "CREATE TABLE file_uses (owner TEXT NOT NULL, conversation_id TEXT NOT NULL,"
    " task_id TEXT NOT NULL, file_id TEXT NOT NULL, crc INTEGER,"
    " PRIMARY KEY (owner, conversation_id, task_id, file_id)) WITHOUT ROWID;"
    "CREATE INDEX file_uses_of ON file_uses (owner, conversation_id, file_id);"
    /* The parts of an input that is more than one text. */
    "ALTER TABLE inputs ADD COLUMN parts TEXT;"
    "UPDATE tasks SET input_crc = (SELECT row_crc(i.task_key, i.input, i.metadata, NULL) "
    "FROM inputs i WHERE i.task_key = tasks.task_key) WHERE input_crc IS "
    "(SELECT row_crc(i.task_key, i.input, i.metadata) FROM inputs i "
    "WHERE i.task_key = tasks.task_key) AND input_crc IS NOT NULL;";

/* Conversations that are pinned or put away (enum conversation_flag). */
#define CONVERSATION_9 CONVERSATION_7 ", tip, tip_task"
static const char version_11[] =
    "ALTER TABLE conversations ADD COLUMN flags INTEGER NOT NULL DEFAULT 0;"
    "UPDATE conversations SET crc = row_crc(" CONVERSATION_9 ", 0) "
    "WHERE crc IS row_crc(" CONVERSATION_9 ");"
    "CREATE INDEX messages_newest ON messages (owner, message_id);"; /* for a search */

/* An owner's tasks of all conversations, for who watches their events. */
static const char version_12[] = "CREATE INDEX tasks_of_owner ON tasks (owner, task_id);";

/* Lines are packed (proto/line_pack.h), which an older gateway would take for damage. */
static const char version_13[] = "";

const char *const schema_scripts[] = {version_1,  version_2,  version_3, version_4, version_5,
                                      version_6,  version_7,  version_8, version_9, version_10,
                                      version_11, version_12, version_13};
const int schema_version = (int)countof(schema_scripts);

static int version_read(struct sql_conn *conn, int *ret)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(conn->db, "PRAGMA user_version", -1, &stmt, NULL);
    struct sql_call c = {.conn = conn, .stmt = stmt, .rc = rc};
    if (sql_step(&c))
        *ret = (int)sql_col_int(&c, 0);
    int status = sql_end(&c);
    sqlite3_finalize(stmt);
    return status;
}

static int migrate_one(struct sql_conn *conn, const char *script, int to)
{
    char done[64];
    snprintf(done, sizeof done, "PRAGMA user_version = %d", to);
    int status = sql_run_plain(conn, STMT_BEGIN);
    if (status == STORE_OK)
        status = sql_conn_exec(conn, script);
    if (status == STORE_OK)
        status = sql_conn_exec(conn, done);
    if (status == STORE_OK)
        status = sql_run_plain(conn, STMT_COMMIT);
    if (status < 0 && !sqlite3_get_autocommit(conn->db)) {
        char why[STORE_ERROR_TEXT];
        memcpy(why, conn->error, sizeof why);
        (void)sql_run_plain(conn, STMT_ROLLBACK); /* the first failure is the one to report */
        memcpy(conn->error, why, sizeof why);
    }
    return status;
}

int sql_schema_migrate(struct sql_conn *conn, const char *const *scripts, int n,
                       char ret_error[STORE_ERROR_TEXT])
{
    int version = 0;
    int status = version_read(conn, &version);
    if (status == STORE_OK && version < 0) {
        snprintf(ret_error, STORE_ERROR_TEXT, "the database has schema version %d: it is damaged",
                 version);
        return STORE_CORRUPT;
    }
    if (status == STORE_OK && version > n) {
        snprintf(ret_error, STORE_ERROR_TEXT,
                 "the database has schema version %d; this gateway knows versions up to %d: a "
                 "newer one wrote it",
                 version, n);
        return STORE_IO;
    }
    if (status == STORE_OK && version > 0 && version < n) /* this may take a while */
        log_event(LEVEL_INFO, "store", "migrates", LOG_INT("from", version), LOG_INT("to", n));
    for (; status == STORE_OK && version < n; version++)
        status = migrate_one(conn, scripts[version], version + 1);
    if (status < 0)
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot migrate the schema to version %d: %.180s", n,
                 conn->error);
    return status;
}
