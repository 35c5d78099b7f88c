/* The schema.  It changes additively alone, so that an older gateway goes on beside a newer one: a
 * script is never edited once it was released, a new one is appended; and columns of tasks and
 * inputs come from the tables of proto/record.h: those that are missing are added. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"

#define FORMAT 1 /* of journal rows and blocks: what an older gateway must be able to take over */
#define MIGRATION_MS 60000

/* The journal and the blocks hold bytes that were compressed by nobody and are read as a whole:
 * EXTERNAL keeps the server from trying.  Journal rows live for seconds. */
static const char script_1[] =
    "CREATE TABLE cluster (one bigint PRIMARY KEY DEFAULT 1 CHECK (one = 1),"
    " schema_version bigint NOT NULL, format bigint NOT NULL, store_epoch bigint NOT NULL,"
    " last_number bigint NOT NULL);"
    "INSERT INTO cluster VALUES (1, 0, 1, 1, 0);"
    "CREATE TABLE nodes (incarnation bigint PRIMARY KEY, node bytea NOT NULL, life bytea NOT NULL,"
    " place bytea NOT NULL, batch bigint NOT NULL, newest_id bytea NOT NULL, state bigint NOT NULL,"
    " looked_at timestamptz) WITH (fillfactor = 20);"
    "CREATE TABLE beats (incarnation bigint PRIMARY KEY, beat bigint NOT NULL,"
    " dead bigint NOT NULL) WITH (fillfactor = 20);"

    "CREATE TABLE journal (incarnation bigint NOT NULL, n bigint NOT NULL, bytes bytea NOT NULL,"
    " PRIMARY KEY (incarnation, n)) WITH (autovacuum_vacuum_scale_factor = 0,"
    " autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1,"
    " autovacuum_analyze_threshold = 100000);"
    "ALTER TABLE journal ALTER bytes SET STORAGE EXTERNAL;"
    "CREATE TABLE blocks (task_key bigint NOT NULL, first bigint NOT NULL, last bigint NOT NULL,"
    " bytes bytea NOT NULL, PRIMARY KEY (task_key, first));"
    "ALTER TABLE blocks ALTER bytes SET STORAGE EXTERNAL;"

    "CREATE TABLE conversations (owner bytea NOT NULL, conversation_id bytea NOT NULL,"
    " title bytea, agent bytea, updated_at bigint NOT NULL, notices bigint NOT NULL,"
    " unlisted bigint NOT NULL, tip bytea, tip_task bytea, PRIMARY KEY (owner, conversation_id));"
    "CREATE INDEX conversations_changed ON conversations (owner, updated_at, conversation_id)"
    " WHERE unlisted = 0;"
    "CREATE TABLE messages (owner bytea NOT NULL, conversation_id bytea NOT NULL,"
    " message_id bytea NOT NULL, task_id bytea, role bigint NOT NULL, partial bigint NOT NULL,"
    " created_at bigint NOT NULL, content bytea, parent_id bytea, behind bytea,"
    " PRIMARY KEY (owner, conversation_id, message_id));"
    "CREATE INDEX messages_of_task ON messages (task_id);"
    "CREATE INDEX messages_under ON messages (parent_id) WHERE parent_id IS NOT NULL;"
    "CREATE INDEX messages_first ON messages (owner, conversation_id, message_id)"
    " WHERE parent_id IS NULL;"
    "CREATE INDEX messages_behind ON messages (behind) WHERE behind IS NOT NULL;"

    "CREATE TABLE tasks (task_key bigint PRIMARY KEY, slot bigint NOT NULL);"
    "CREATE TABLE inputs (task_key bigint PRIMARY KEY);"
    "CREATE TABLE contexts (task_key bigint PRIMARY KEY, context bytea);"
    "CREATE TABLE runs (task_key bigint PRIMARY KEY, mark bigint NOT NULL);"
    "CREATE TABLE notes (task_key bigint NOT NULL, number bigint NOT NULL, seq bigint NOT NULL,"
    " bytes bytea NOT NULL, PRIMARY KEY (task_key, number));"
    "CREATE TABLE inbox (task_key bigint NOT NULL, position bigint NOT NULL, line bytea NOT NULL,"
    " PRIMARY KEY (task_key, position));"
    "CREATE TABLE request_keys (owner bytea NOT NULL, key bytea NOT NULL,"
    " conversation_id bytea NOT NULL, task_id bytea NOT NULL, created_at bigint NOT NULL,"
    " PRIMARY KEY (owner, key));"
    "CREATE INDEX request_keys_of_task ON request_keys (owner, conversation_id, task_id);"
    "CREATE TABLE notices (key bigint PRIMARY KEY, slot bigint NOT NULL, silent bigint NOT NULL,"
    " owner bytea NOT NULL, conversation_id bytea NOT NULL, agent bytea, text bytea, source bytea);"
    "CREATE INDEX notices_of ON notices (owner, conversation_id);"
    "CREATE TABLE outbox (key bigint PRIMARY KEY, hook bytea NOT NULL, id bytea NOT NULL,"
    " at bigint NOT NULL, body bytea NOT NULL);"
    "CREATE INDEX outbox_of ON outbox (hook, key);"
    "CREATE TABLE revocations (owner bytea PRIMARY KEY, slot bigint NOT NULL,"
    " until bigint NOT NULL);"
    "CREATE TABLE usage (owner bytea PRIMARY KEY, slot bigint NOT NULL, bytes bigint NOT NULL)"
    " WITH (fillfactor = 70);"
    /* state: see enum file_state. */
    "CREATE TABLE files (state bigint NOT NULL, slot bigint NOT NULL);"
    "CREATE TABLE file_uses (owner bytea NOT NULL, conversation_id bytea NOT NULL,"
    " task_id bytea NOT NULL, file_id bytea NOT NULL,"
    " PRIMARY KEY (owner, conversation_id, task_id, file_id));"
    "CREATE INDEX file_uses_of ON file_uses (owner, conversation_id, file_id);"
    /* Tasks whose rows are gone, but whose blocks, input and inbox are not removed yet; the owner
     * in whose usage the blocks still count, NULL for none; whether the task itself stays. */
    "CREATE TABLE garbage (task_key bigint PRIMARY KEY, owner bytea,"
    " keeps_record bigint NOT NULL);";

/* Behind the columns, which they name. */
static const char indexes_1[] =
    "CREATE UNIQUE INDEX files_of ON files (owner, conversation_id, file_id);"
    "CREATE INDEX files_of_blob ON files (blob, state);"
    "CREATE INDEX files_of_upload ON files (owner, conversation_id, upload)"
    " WHERE upload IS NOT NULL;"
    "CREATE INDEX files_new ON files (created_at) WHERE state = 0;"
    "CREATE INDEX files_gone ON files (blob) WHERE state = 2;"
    "CREATE UNIQUE INDEX tasks_of ON tasks (owner, conversation_id, task_id);"
    "CREATE INDEX tasks_of_question ON tasks (question_id) WHERE question_id IS NOT NULL;"
    "CREATE INDEX tasks_live ON tasks (task_key) WHERE status < 2;"
    "CREATE INDEX tasks_live_in ON tasks (owner, conversation_id, task_id) WHERE status < 2;"
    "CREATE INDEX tasks_results ON tasks (owner, conversation_id, task_id)"
    " WHERE type = 1 AND status >= 2 AND acked = 0;"
    "CREATE INDEX tasks_ended ON tasks (completed_at, task_key) WHERE status >= 2;"
    "CREATE INDEX tasks_ended_of ON tasks (owner, task_key) WHERE status >= 2;"
    "CREATE INDEX tasks_with_events_of ON tasks (owner, task_key)"
    " WHERE status >= 2 AND first <= head;";

/* Several nodes: where each is, who is the home of a slot, and since when; and the newest id of the
 * nodes whose rows are gone.  Entries of the outbox from before have one home, that of slot 0. */
static const char script_2[] = "ALTER TABLE cluster ADD COLUMN newest_id bytea NOT NULL DEFAULT '';"
                               "ALTER TABLE nodes ADD COLUMN link bytea NOT NULL DEFAULT '',"
                               " ADD COLUMN version bytea NOT NULL DEFAULT '';"
                               "CREATE TABLE slots (slot bigint PRIMARY KEY, incarnation bigint,"
                               " moved bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);"
                               "INSERT INTO slots (slot) SELECT generate_series(0, 4095);"
                               "CREATE INDEX slots_moved ON slots (moved);"
                               "ALTER TABLE outbox ADD COLUMN slot bigint NOT NULL DEFAULT 0";
_Static_assert(N_SLOTS == 4096, "script_2 has it");

/* enum conversation_flag; and the index of a search. */
static const char script_3[] =
    "ALTER TABLE conversations ADD COLUMN IF NOT EXISTS flags bigint NOT NULL DEFAULT 0;"
    "CREATE INDEX IF NOT EXISTS messages_newest ON messages (owner, message_id);";

/* The bytes of files.  A part and the blob that it becomes have one id, so keeping moves none. */
static const char script_6[] =
    "CREATE TABLE file_parts (part bytea PRIMARY KEY, owner_group bytea NOT NULL,"
    " slot bigint NOT NULL, id bigserial NOT NULL, size bigint NOT NULL,"
    " written_at bigint NOT NULL);"
    "CREATE INDEX file_parts_of ON file_parts (owner_group);"
    "CREATE TABLE file_blobs (blob bytea PRIMARY KEY, slot bigint NOT NULL, id bigint NOT NULL,"
    " size bigint NOT NULL);"
    "CREATE TABLE file_chunks (id bigint NOT NULL, place bigint NOT NULL, bytes bytea NOT NULL,"
    " PRIMARY KEY (id, place));"
    "ALTER TABLE file_chunks ALTER bytes SET STORAGE EXTERNAL;";

/* The history that the server's log belongs to. */
static const char script_5[] =
    "ALTER TABLE cluster ADD COLUMN IF NOT EXISTS history bytea NOT NULL DEFAULT '';";

/* An owner's tasks of all conversations, for who watches their events. */
static const char script_7[] =
    "CREATE INDEX IF NOT EXISTS tasks_of_owner ON tasks (owner, task_id);";

/* The one that a node has said it is on. */
static const char script_8[] =
    "ALTER TABLE nodes ADD COLUMN IF NOT EXISTS history bytea NOT NULL DEFAULT '';";

/* Each node's load: store_nodes.h. */
static const char script_9[] =
    "ALTER TABLE beats ADD COLUMN IF NOT EXISTS load bigint NOT NULL DEFAULT 0;";

const struct pg_script pg_scripts[] = {{script_1, indexes_1}, {script_2, NULL}, {script_3, NULL},
                                       {script_6, NULL},      {script_5, NULL}, {script_7, NULL},
                                       {script_8, NULL},      {script_9, NULL}};
const int pg_schema_version = (int)countof(pg_scripts);

/* --- columns ---------------------------------------------------------------------------------- */

#define ADD(table, name, type) "ALTER TABLE " table " ADD COLUMN IF NOT EXISTS " name " " type ";"
#define TASK_NUMBER(type, name) ADD("tasks", #name, "bigint NOT NULL DEFAULT 0")
#define TASK_REAL(name) ADD("tasks", #name, "double precision NOT NULL DEFAULT 0")
#define TASK_TEXT(name) ADD("tasks", #name, "bytea")
#define TASK_KEY_TEXT(name) ADD("tasks", #name, "bytea NOT NULL")
#define INPUT_TEXT(name) ADD("inputs", #name, "bytea")
#define FILE_NUMBER(type, name) ADD("files", #name, "bigint NOT NULL DEFAULT 0")
#define FILE_TEXT(name) ADD("files", #name, "bytea")
#define FILE_KEY_TEXT(name) ADD("files", #name, "bytea NOT NULL")

const char pg_columns[] = TASK_FIXED_NUMBERS(TASK_NUMBER) TASK_NAMES(TASK_KEY_TEXT)
    TASK_FIXED_TEXTS(TASK_TEXT) TASK_STATE_NUMBERS(TASK_NUMBER, TASK_REAL)
        TASK_STATE_TEXTS(TASK_TEXT) TASK_LONG_TEXTS(TASK_TEXT) TASK_INPUT_TEXTS(INPUT_TEXT)
            FILE_NAMES(FILE_KEY_TEXT) FILE_TEXTS(FILE_TEXT) FILE_NUMBERS(FILE_NUMBER);

/* How many columns of these tables are ours: the server is asked first, so that a start does
 * not lock the tables for nothing. */
#define ONE(name) +1
#define ONE_OF(type, name) +1
#define N_COLUMNS                                                                     \
    (2 TASK_FIXED_NUMBERS(ONE_OF) TASK_NAMES(ONE) TASK_FIXED_TEXTS(ONE)               \
         TASK_STATE_NUMBERS(ONE_OF, ONE) TASK_STATE_TEXTS(ONE) TASK_LONG_TEXTS(ONE) + \
     1 TASK_INPUT_TEXTS(ONE) + 2 FILE_NAMES(ONE) FILE_TEXTS(ONE) FILE_NUMBERS(ONE_OF))
#define NAMED(name) ",'" #name "'"
#define NAMED_OF(type, name) NAMED(name)
static const char count_columns[] =
    "SELECT count(*) FROM pg_attribute WHERE NOT attisdropped AND attnum > 0 AND "
    "(attrelid = 'tasks'::regclass AND attname IN ('task_key', 'slot'" TASK_FIXED_NUMBERS(
        NAMED_OF) TASK_NAMES(NAMED) TASK_FIXED_TEXTS(NAMED) TASK_STATE_NUMBERS(NAMED_OF, NAMED)
        TASK_STATE_TEXTS(NAMED) TASK_LONG_TEXTS(
            NAMED) ") OR "
                   "attrelid = 'inputs'::regclass AND attname IN ('task_key'" TASK_INPUT_TEXTS(
                       NAMED) ") OR "
                              "attrelid = 'files'::regclass AND attname IN ('state', 'slot'" FILE_NAMES(
                                  NAMED) FILE_TEXTS(NAMED) FILE_NUMBERS(NAMED_OF) "))";

/* --- migrating -------------------------------------------------------------------------------- */

/* Outside of pipelines: scripts of several statements. */
static int schema_number(struct pg_conn *conn, const char *sql, int64_t *ret)
{
    PGresult *r = PQexec(conn->pg, sql);
    bool good = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    if (good && !PQgetisnull(r, 0, 0))
        *ret = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    if (!good)
        snprintf(conn->error, sizeof conn->error, "%.220s", PQerrorMessage(conn->pg));
    PQclear(r);
    return good ? STORE_OK : STORE_IO;
}

static int schema_write(struct pg_conn *conn, int64_t version)
{
    char done[96];
    snprintf(done, sizeof done, "UPDATE cluster SET schema_version = greatest(schema_version, %d)",
             (int)countof(pg_scripts));
    int status = STORE_OK;
    for (; version < (int64_t)countof(pg_scripts) && status == STORE_OK; version++) {
        status = pg_conn_exec(conn, pg_scripts[version].tables);
        if (status == STORE_OK)
            status = pg_conn_exec(conn, pg_columns);
        if (status == STORE_OK && pg_scripts[version].indexes)
            status = pg_conn_exec(conn, pg_scripts[version].indexes);
    }
    if (status == STORE_OK)
        status = pg_conn_exec(conn, pg_columns);
    return status == STORE_OK ? pg_conn_exec(conn, done) : status;
}

static int schema_look(struct pg_conn *conn, int64_t *ret_version, int64_t *ret_columns)
{
    int64_t exists = 0;
    int status = schema_number(conn, "SELECT (to_regclass('cluster') IS NOT NULL)::int", &exists);
    if (status == STORE_OK && exists)
        status = schema_number(conn, "SELECT schema_version FROM cluster", ret_version);
    if (status == STORE_OK && *ret_version > 0)
        status = schema_number(conn, count_columns, ret_columns);
    int64_t format = 1;
    if (status == STORE_OK && exists)
        status = schema_number(conn, "SELECT format FROM cluster", &format);
    if (status == STORE_OK && format > FORMAT) {
        snprintf(conn->error, sizeof conn->error,
                 "the store's format is %d, and this gateway knows %d: a newer one wrote it",
                 (int)format, FORMAT);
        return STORE_IO;
    }
    return status;
}

static bool is_up_to_date(int64_t version, int64_t n)
{
    return version >= (int64_t)countof(pg_scripts) && n >= N_COLUMNS;
}

/* When two start at once, the second waits for the first, and finds it done.  Tables are not
 * waited for: behind a dump that has one, everybody's batches would wait too. */
static int schema_bring_up(struct pg_conn *conn)
{
    int64_t version = 0, n = 0;
    int status = pg_conn_exec(conn, "BEGIN; SET LOCAL client_min_messages = error;"
                                    "SET LOCAL lock_timeout = 30000;"
                                    "SELECT pg_advisory_xact_lock(hashtext(current_schema()), 1);"
                                    "SET LOCAL lock_timeout = 1000");
    if (status == STORE_OK)
        status = schema_look(conn, &version, &n);
    if (status == STORE_OK && !is_up_to_date(version, n)) {
        if (version > 0)
            log_event(LEVEL_INFO, "store", "migrates", LOG_INT("from", version),
                      LOG_INT("to", (int64_t)countof(pg_scripts)));
        status = schema_write(conn, version);
    }
    int end = pg_conn_exec(conn, status == STORE_OK ? "COMMIT" : "ROLLBACK");
    return status < 0 ? status : end;
}

int pg_schema_migrate(struct pg_conn *conn, char ret_error[STORE_ERROR_TEXT])
{
    if (!pg_conn_is_open(conn) || PQexitPipelineMode(conn->pg) != 1)
        return STORE_IO;
    int64_t version = 0, n = 0;
    int answer_ms = conn->answer_ms;
    conn->answer_ms = MIGRATION_MS;
    int status = PQsetnonblocking(conn->pg, 0) == 0 ? STORE_OK : STORE_IO;
    if (status == STORE_OK)
        status = pg_conn_exec(conn, "SET statement_timeout = 60000");
    if (status == STORE_OK)
        status = schema_look(conn, &version, &n);
    if (status == STORE_OK && !is_up_to_date(version, n))
        status = schema_bring_up(conn);
    if (status < 0)
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot bring the schema up to date: %.190s",
                 conn->error);
    if (status == STORE_OK)
        status = pg_conn_exec(conn, "SET statement_timeout = 10000");
    conn->answer_ms = answer_ms;
    if (pg_conn_is_open(conn) &&
        (PQsetnonblocking(conn->pg, 1) != 0 || PQenterPipelineMode(conn->pg) != 1))
        status = STORE_IO;
    return status;
}
