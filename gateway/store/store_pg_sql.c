/* All SQL but the schema's.  Every list is bounded by the server, in rows and in bytes: a reader
 * takes what has room, and there is no way to stop a server that has begun to send. */
#include "gateway/store/store_pg_private.h"

/* --- tasks ------------------------------------------------------------------------------------ */

#define VALUE(name) ", ?"
#define VALUE_OF(type, name) VALUE(name)
#define FIXED_VALUES TASK_FIXED_NUMBERS(VALUE_OF) TASK_NAMES(VALUE) TASK_FIXED_TEXTS(VALUE)
#define STATE_VALUES TASK_STATE_NUMBERS(VALUE_OF, VALUE) TASK_STATE_TEXTS(VALUE)
#define LONG_VALUES TASK_LONG_TEXTS(VALUE)
#define INPUT_VALUES TASK_INPUT_TEXTS(VALUE)
#define OF_ENDED(name) ", u." #name
#define OF_ENDED_N(type, name) OF_ENDED(name)
#define OF_STATE \
    TASK_STATE_NUMBERS(OF_ENDED_N, OF_ENDED) TASK_STATE_TEXTS(OF_ENDED) TASK_LONG_TEXTS(OF_ENDED)
#define INPUT_NEW_OF(name) ", " #name " = excluded." #name

/* In the order of the reader: ROW_… in store_pg_read.c. */
#define OF_TASK(name) ", t." #name
#define OF_TASK_N(type, name) OF_TASK(name)
#define OF_INPUT(name) ", i." #name
#define NOTHING(name) ", NULL::bytea"
#define COLUMNS(rest)                                                                        \
    "t.task_key" TASK_FIXED_NUMBERS(OF_TASK_N) TASK_NAMES(OF_TASK) TASK_FIXED_TEXTS(OF_TASK) \
        TASK_STATE_NUMBERS(OF_TASK_N, OF_TASK) TASK_STATE_TEXTS(OF_TASK) rest
#define FULL COLUMNS(TASK_LONG_TEXTS(OF_TASK) TASK_INPUT_TEXTS(OF_INPUT) ", 1")
#define BRIEF COLUMNS(TASK_LONG_TEXTS(NOTHING) TASK_INPUT_TEXTS(NOTHING) ", 0")
#define ENDED                                                                                       \
    BRIEF                                                                                           \
    ", CASE WHEN t.first > t.head THEN 0 ELSE "                                                     \
    "(SELECT coalesce(sum(octet_length(b.bytes)), 0) FROM blocks b WHERE b.task_key = t.task_key) " \
    "END::bigint"
#define LIVE                                                                      \
    FULL ", coalesce((SELECT b.last FROM blocks b WHERE b.task_key = t.task_key " \
         "ORDER BY b.first DESC LIMIT 1), 0), x.context, m.mark, "                \
         "(SELECT 1 FROM inbox i WHERE i.task_key = t.task_key LIMIT 1)"
#define WITH_INPUT " LEFT JOIN inputs i ON i.task_key = t.task_key "
#define WITH_RUN                                       \
    "LEFT JOIN contexts x ON x.task_key = t.task_key " \
    "LEFT JOIN runs m ON m.task_key = t.task_key "
#define IN_CONVERSATION "t.owner = ? AND t.conversation_id = ? AND t.task_id < ?"
/* Only types chat and notice, when the parameter is 1. */
#define TURNS " AND (? = 0 OR t.type IN (0, 3))"

#define BYTES(column) "coalesce(octet_length(" column "), 0)"
/* task_record_cost of tasks t and inputs i. */
#define COST                                                                                           \
    "(1024 + (1 + (t.type IN (0, 3))::int) * (" BYTES("i.input") " + " BYTES("t.output") ") + " BYTES( \
        "i.metadata") " + " BYTES("i.parts") " + " BYTES("t.result") " + " BYTES("t.undelivered") " + " BYTES("t.answers") ")::bigint"
_Static_assert(TASK_ROW_BYTES == 1024 && TYPE_CHAT == 0 && TYPE_NOTICE == 3, "COST has them");

/* The most of a list that a reader may take: so many rows, by that order, and then those before
 * which there are at most so many bytes; and always the second, which says that there is one.  The
 * length of a long value is known without reading it. */
#define LIMITED(order) " ORDER BY " order " LIMIT ?"
#define WITHIN(columns, size, from, order)                                          \
    "SELECT * FROM (SELECT " columns ", sum(" size ") OVER w - (" size              \
    ") AS before, row_number() OVER w AS nth " from " WINDOW w AS (ORDER BY " order \
    " ROWS UNBOUNDED PRECEDING) ORDER BY " order " LIMIT ?) p WHERE before <= ? OR nth <= 2"
#define FULL_SIZE                                                                              \
    BYTES("t.output")                                                                          \
    " + " BYTES("t.result") " + " BYTES("t.undelivered") " + " BYTES("t.answers") " + " BYTES( \
        "i.input") " + " BYTES("i.metadata") " + " BYTES("i.parts")
#define SLOTS_OF(table, n) " AND (?::bytea IS NULL OR get_bit(?" n ", " table ".slot) = 1)"
#define SLOTS(table) SLOTS_OF(table, "1")
#define SLOTS_2(table) SLOTS_OF(table, "2")

#define CONVERSATION                                                                    \
    "SELECT c.conversation_id, c.title, c.agent, c.updated_at, c.notices, c.unlisted, " \
    "c.flags, "                                                                         \
    "(SELECT count(*) FROM tasks t WHERE t.status < 2 AND t.owner = c.owner "           \
    "AND t.conversation_id = c.conversation_id) FROM conversations c "

#define HERE " WHERE owner = $1 AND conversation_id = $2"
#define MESSAGE(m)                                                                                 \
    m ".message_id, " m ".task_id, " m ".role, " m ".partial, " m ".created_at, " m ".content, " m \
      ".parent_id"
/* Those of a user's message: its task's.  Behind all others, and found by its name. */
#define MESSAGE_PARTS(m, conversation)                                                         \
    ", CASE WHEN " m ".role = 0 THEN (SELECT i.parts FROM tasks t JOIN inputs i ON "           \
    "i.task_key = t.task_key WHERE t.owner = $1 AND t.conversation_id = " conversation " AND " \
    "t.task_id = " m ".task_id) END AS parts"
_Static_assert(ROLE_USER == 0, "MESSAGE_PARTS has it");
#define COUNTS(p) "($4 = 0 OR " p ".created_at <= $4)"
#define SIBLINGS(parent)                                                                          \
    "(SELECT string_agg(x.message_id, ' '::bytea ORDER BY x.message_id) FROM (SELECT message_id " \
    "FROM messages" HERE " AND parent_id IS NOT DISTINCT FROM " parent                            \
    " ORDER BY message_id DESC LIMIT 256) x)"
_Static_assert(MAX_SIBLINGS == 256, "SIBLINGS has it");

#define OF_CONVERSATION(x, owner, conversation) \
    " WHERE " x ".owner = " owner " AND " x ".conversation_id = " conversation
/* The question of a task: the first one of several messages. */
#define QUESTION_OF(owner, conversation, task)                                               \
    "coalesce((SELECT x.question_id FROM tasks x" OF_CONVERSATION(                           \
        "x", owner, conversation) " AND x.task_id = " task                                   \
                                  "), (SELECT x.message_id FROM messages x" OF_CONVERSATION( \
                                      "x", owner, conversation) " AND x.task_id = " task     \
                                                                " AND x.role <> 1 "          \
                                                                "ORDER BY x.message_id LIMIT 1))"
#define FILE_VALUES FILE_NAMES(VALUE) FILE_TEXTS(VALUE) FILE_NUMBERS(VALUE_OF)
#define ASK_FILE(shares) "SELECT state" PG_FILE ", " shares " FROM files f WHERE "
_Static_assert(TASK_ROW_BYTES == 1024, "file_record_cost");
#define USAGE_ADD "ON CONFLICT (owner) DO UPDATE SET bytes = usage.bytes + excluded.bytes"
/* Found by their keys, and not among all that have ended (OFFSET). */
#define THOSE_ENDED \
    "(SELECT * FROM tasks WHERE task_key = ANY(?) OFFSET 0) t" WITH_INPUT "WHERE t.status >= 2"
#define GARBAGE_WHOLE "ON CONFLICT (task_key) DO UPDATE SET keeps_record = 0"

#define HISTORY                                                                                       \
    "(SELECT convert_to(system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8), " \
    "'UTF8') FROM pg_control_system())"
#define SECONDS_NOW "extract(epoch FROM clock_timestamp())::bigint - 1735689600" /* since 2025 */
#define NOW_MS "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
#define CHUNKS(table, name)                                                        \
    "SELECT t.size, c.place, c.bytes FROM " table " t LEFT JOIN file_chunks c ON " \
    "c.id = t.id AND c.place >= ?2 AND c.place < ?3 WHERE t." name " = ?1 ORDER BY c.place"
/* Where the slot is not another node's, which is locked first. */
#define DROPPED(table, name)                                                                  \
    "WITH h AS MATERIALIZED (SELECT s.slot FROM slots s JOIN " table " t ON t.slot = s.slot " \
    "WHERE t." name                                                                           \
    " = ? AND coalesce(s.incarnation, ?) = ?2 FOR SHARE OF s), d AS (DELETE FROM " table      \
    " t USING h WHERE t." name " = ?1 AND t.slot = h.slot RETURNING t.id) "                   \
    "DELETE FROM file_chunks c USING d WHERE c.id = d.id"

static const char *const texts[PG_COUNT] = {
    [PG_BEGIN] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    [PG_SNAPSHOT] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    [PG_COMMIT] = "COMMIT",
    [PG_ROLLBACK] = "ROLLBACK",

    /* --- the node ------------------------------------------------------------------------ */

    /* Divides by zero, which ends the transaction, when the row is not as we left it.  The
     * setting counts until the transaction's end, whatever the role's default is. */
    [PG_FENCE] = "WITH f AS (UPDATE nodes SET batch = ?, newest_id = ? WHERE incarnation = ? AND "
                 "life = ? AND batch = ? AND state < 2 RETURNING 1) "
                 "SELECT 1 / count(*), set_config('synchronous_commit', 'on', true) FROM f",
    /* A write, so that its commit waits for everything before it, and for the row's lock. */
    [PG_READ_BACK] = "UPDATE nodes SET looked_at = now() WHERE incarnation = ? AND life = ? AND "
                     "state < 2 RETURNING batch, newest_id",
    [PG_VOID] = "UPDATE nodes SET batch = ? WHERE incarnation = ? AND life = ? AND batch = ? AND "
                "state < 2 RETURNING 1",
    /* Ends backends of that name; gives the number of those that are still there.  Materialized:
     * nobody else's may be ended, in whatever order the conditions are looked at. */
    [PG_END_BACKENDS] =
        "WITH p AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND datname = current_database() AND application_name = convert_from(?, 'UTF8') AND "
        "(? = 0 OR pid = ?2)) SELECT count(*) FROM p WHERE NOT pg_terminate_backend(pid, 5000)",
    [PG_CLUSTER_LOCK] = "SELECT schema_version FROM cluster FOR UPDATE",
    /* Never given before, also not in a tail that a failover lost. */
    [PG_CLUSTER_NUMBER] = "UPDATE cluster SET last_number = greatest(last_number + 1, " SECONDS_NOW
                          ") RETURNING last_number",
    /* A promoted standby's log has a timeline of its own; pg_control_checkpoint would show the old
     * one until its next checkpoint. */
    [PG_HISTORY] = "SELECT " HISTORY,
    [PG_HISTORY_NOTE] =
        "UPDATE cluster c SET history = n.history, "
        "store_epoch = CASE WHEN n.kept THEN c.store_epoch ELSE n.number END, "
        "last_number = CASE WHEN n.kept THEN c.last_number ELSE n.number END FROM "
        "(SELECT h.history, k.history = '' OR ? = 1 AS kept, "
        "greatest(k.last_number + 1, " SECONDS_NOW ") AS number FROM cluster k, "
        "(SELECT " HISTORY " AS history) h) n "
        "WHERE c.history <> n.history RETURNING CASE WHEN n.kept THEN 0 ELSE n.number END",
    [PG_HISTORY_OF_NODE] = "UPDATE nodes SET history = ? WHERE incarnation = ? AND life = ?",
    [PG_HISTORY_KEEP] = "UPDATE cluster SET history = ?, last_number = greatest(last_number, ?), "
                        "store_epoch = greatest(store_epoch, ?)",
    /* One of an older program says nothing, and is not waited for. */
    [PG_UNCONFIRMED] = "SELECT count(*) FROM nodes WHERE state < 2 AND history NOT IN ('', ?)",
    [PG_INCARNATIONS] = "SELECT incarnation FROM nodes",
    [PG_SLOT_MOVED] = "SELECT moved FROM slots WHERE slot = ?",
    [PG_ROW_EXISTS] = "SELECT 1 FROM nodes WHERE incarnation = ? AND life = ?",
    /* The parameter is a number that was given, as somebody knows. */
    [PG_REWOUND] =
        "UPDATE cluster SET last_number = n.number, store_epoch = n.number FROM "
        "(SELECT greatest(last_number + 1, ? + 1, " SECONDS_NOW ") AS number FROM cluster) n",
    [PG_NODES] =
        "SELECT n.incarnation, n.node, n.place, n.newest_id, b.beat, n.state, n.life, n.link, "
        "n.version, (SELECT store_epoch FROM cluster), n.history, b.load, " NOW_MS
        " FROM nodes n JOIN beats b ON b.incarnation = n.incarnation "
        "ORDER BY n.incarnation LIMIT 65",
    [PG_NODE_DEAD] = "UPDATE nodes SET state = 2 WHERE incarnation = ? AND state < 2 "
                     "RETURNING (history NOT IN ('', ?))::int",
    [PG_BEAT_DEAD] =
        "UPDATE beats SET dead = 1 WHERE incarnation = ? AND beat = ? AND dead = 0 RETURNING 1",
    [PG_NODE_HOLD] = "SELECT 1 FROM nodes WHERE incarnation = ? AND state = 2 FOR UPDATE",
    [PG_NODE_FORGET] = "DELETE FROM nodes WHERE incarnation = ?",
    [PG_BEAT_FORGET] = "DELETE FROM beats WHERE incarnation = ?",
    [PG_NODE_NEW] =
        "INSERT INTO nodes (incarnation, node, life, place, batch, newest_id, state, version, history) "
        "VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)",
    [PG_NODE_LINK] = "UPDATE nodes SET link = ? WHERE incarnation = ? AND life = ?",
    [PG_NODE_GOES] = "UPDATE nodes SET state = 1 WHERE incarnation = ? AND life = ? AND state = 0",
    [PG_BEAT_NEW] = "INSERT INTO beats (incarnation, beat, dead) VALUES (?, 0, 0)",
    [PG_BEAT] = "UPDATE beats SET beat = beat + 1, load = ? WHERE incarnation = ? AND dead = 0 "
                "RETURNING 1",
    [PG_NODE_LEAVE] = "WITH b AS (UPDATE beats SET dead = 1 WHERE incarnation = ?) "
                      "UPDATE nodes SET state = 2 WHERE incarnation = ?1 AND life = ?",

    /* --- slots --------------------------------------------------------------------------- */

    [PG_SLOTS_SINCE] = "SELECT slot, coalesce(incarnation, 0), moved FROM slots WHERE moved > ?",
    [PG_SLOTS_CLAIM] =
        "UPDATE slots SET incarnation = ?, moved = ? WHERE slot IN (SELECT slot FROM slots WHERE "
        "incarnation IS NULL ORDER BY slot LIMIT ? FOR UPDATE SKIP LOCKED) RETURNING slot",
    [PG_SLOTS_RELEASE] =
        "UPDATE slots SET incarnation = NULL, moved = ? WHERE incarnation = ? AND slot = ANY(?)",
    [PG_SLOTS_PASS] = "UPDATE slots SET incarnation = ?, moved = ? WHERE incarnation = ?",
    [PG_SLOTS_FREE] = "UPDATE slots SET incarnation = NULL, moved = ? WHERE incarnation = ?",
    /* The newest of all records: rows of nodes that are gone leave theirs in the cluster's. */
    [PG_NEWEST_ID] = "SELECT greatest((SELECT newest_id FROM cluster), "
                     "(SELECT newest_id FROM nodes ORDER BY newest_id DESC LIMIT 1))",
    [PG_NEWEST_ID_KEEP] = "UPDATE cluster SET newest_id = greatest(newest_id, "
                          "(SELECT newest_id FROM nodes WHERE incarnation = ?))",
    [PG_STANDBYS] = "SELECT convert_to(current_setting('synchronous_standby_names'), 'UTF8')",
    [PG_NAME_SET] = "SELECT set_config('application_name', convert_from(?, 'UTF8'), false)",
    /* Keys begin with a number: no later one may be below those that there are, also when a clock
     * of the server's was set back by years. */
    [PG_NUMBER_RAISE] = "UPDATE cluster SET last_number = greatest(last_number, "
                        "greatest((SELECT coalesce(max(task_key), 0) FROM tasks), "
                        "(SELECT coalesce(max(key), 0) FROM notices), "
                        "(SELECT coalesce(max(key), 0) FROM outbox)) >> 32)",

    /* --- writes -------------------------------------------------------------------------- */

    [PG_TASK_NEW] = "INSERT INTO tasks (task_key, slot" PG_TASK_FIXED PG_TASK_STATE PG_TASK_LONG
                    ") VALUES (?, ?" FIXED_VALUES STATE_VALUES LONG_VALUES ")",
    [PG_INPUT_NEW] =
        "INSERT INTO inputs (task_key" PG_TASK_INPUT ") VALUES (?" INPUT_VALUES
        ") ON CONFLICT (task_key) DO UPDATE SET task_key = excluded.task_key" TASK_INPUT_TEXTS(
            INPUT_NEW_OF),
    [PG_CONTEXT_NEW] = "INSERT INTO contexts (task_key, context) VALUES (?, ?)",
    [PG_CONTEXT_GONE] = "DELETE FROM contexts WHERE task_key = ANY(?)",
    [PG_TASK_SET] = "UPDATE tasks SET (task_key" PG_TASK_STATE PG_TASK_LONG
                    ") = (?" STATE_VALUES LONG_VALUES ") WHERE task_key = ?1",
    [PG_TASKS_SET] = "UPDATE tasks t SET (task_key" PG_TASK_STATE PG_TASK_LONG
                     ") = (u.task_key" OF_STATE ") FROM unnest(?" STATE_VALUES LONG_VALUES
                     ") AS u (task_key" PG_TASK_STATE PG_TASK_LONG ") "
                     "WHERE t.task_key = u.task_key",
    [PG_TASKS_EXIST] = "SELECT task_key AS there FROM tasks WHERE task_key = ANY(?)",
    /* A seal's lines, in the usage too. */
    [PG_BLOCK_NEW] =
        "WITH t AS (SELECT owner, slot FROM tasks WHERE task_key = ?), "
        "b AS (INSERT INTO blocks (task_key, first, last, bytes) SELECT ?1, ?, ?, ? FROM t) "
        "INSERT INTO usage (owner, slot, bytes) SELECT owner, slot, octet_length(?4) FROM t " USAGE_ADD,
    /* The same for those of many tasks; dearer for one. */
    [PG_BLOCKS_NEW] =
        "WITH b AS MATERIALIZED (SELECT u.*, t.owner, t.slot FROM "
        "unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bytea[]) "
        "AS u (task_key, first, last, bytes) JOIN tasks t ON t.task_key = u.task_key), "
        "n AS (INSERT INTO blocks (task_key, first, last, bytes) "
        "SELECT task_key, first, last, bytes FROM b) INSERT INTO usage (owner, slot, bytes) "
        "SELECT owner, slot, sum(octet_length(bytes)) FROM b GROUP BY owner, slot " USAGE_ADD,
    [PG_CONVERSATION_ENSURE] =
        "INSERT INTO conversations (owner, conversation_id, updated_at, notices, unlisted) "
        "VALUES (?, ?, ?, 0, 0) ON CONFLICT DO NOTHING",
    [PG_CONVERSATION_SET] =
        "INSERT INTO conversations AS c (owner, conversation_id, title, agent, updated_at, notices, "
        "unlisted, flags) VALUES (?, ?, ?, ?, ?, (?::bigint = 2)::int, ?, ?) "
        "ON CONFLICT (owner, conversation_id) DO UPDATE SET title = CASE WHEN ?::bigint = 1 OR "
        "(?9 = 2 AND c.flags & 4 = 0) THEN coalesce(?3, c.title) ELSE coalesce(c.title, ?3) END, "
        "agent = coalesce(?4, c.agent), updated_at = coalesce(nullif(?5, 0), c.updated_at), "
        "notices = CASE ?6 WHEN 0 THEN c.notices WHEN 1 THEN 0 ELSE c.notices + 1 END, "
        "flags = (c.flags & ~?::bigint) | ?8",
    [PG_TITLE_SET] = "UPDATE conversations SET title = $3, flags = flags | 8" HERE
                     " AND title IS NOT DISTINCT FROM $4 AND flags & 12 = 0",
    [PG_MESSAGE_NEW] = "INSERT INTO messages (owner, conversation_id, message_id, task_id, role, "
                       "partial, created_at, content, parent_id, behind) "
                       "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",

    /* --- the tree ------------------------------------------------------------------------ */

    [PG_TIP] = "SELECT tip, tip_task FROM conversations" HERE,
    [PG_TIP_SET] = "UPDATE conversations SET tip = $3, tip_task = $4" HERE,
    [PG_PLACE] = "SELECT parent_id, behind FROM messages" HERE " AND message_id = $3",
    /* The first one of several messages of a task, in all of these. */
    [PG_QUESTION_OF] = "SELECT " QUESTION_OF("$1", "$2", "$3"),
    /* All that placing an answer asks, of many: the conversation's tip, its question, and whether
     * that is there and has no answer yet. */
    [PG_ANSWER_PLACES] =
        "SELECT q.nth, c.tip, c.tip_task, q.id, "
        "EXISTS (SELECT 1 FROM messages m WHERE m.owner = q.owner AND "
        "m.conversation_id = q.conversation_id AND m.message_id = q.id) AND "
        "NOT EXISTS (SELECT 1 FROM messages m WHERE m.owner = q.owner AND "
        "m.conversation_id = q.conversation_id AND m.parent_id = q.id) FROM "
        "(SELECT u.*, " QUESTION_OF(
            "u.owner", "u.conversation_id",
            "u.task_id") " AS id FROM "
                         "unnest(?::bigint[], ?::bytea[], ?::bytea[], ?::bytea[]) "
                         "AS u (nth, owner, conversation_id, task_id) OFFSET 0) q LEFT JOIN conversations c ON "
                         "c.owner = q.owner AND c.conversation_id = q.conversation_id ORDER BY q.nth",
    [PG_ANSWER_OF] = "SELECT message_id FROM messages" HERE " AND task_id = $3 AND role = 1 "
                     "ORDER BY message_id LIMIT 1",
    [PG_ANSWERER_OF] = "SELECT task_id FROM (SELECT task_id FROM messages" HERE
                       " AND message_id = $3 UNION ALL SELECT task_id FROM tasks" HERE
                       " AND question_id = $3) x WHERE task_id IS NOT NULL AND NOT EXISTS "
                       "(SELECT 1 FROM messages" HERE " AND message_id = $3 AND role = 1) "
                       "ORDER BY task_id DESC LIMIT 1",
    [PG_CHILDREN] = "SELECT message_id FROM messages" HERE " AND parent_id = $3 "
                    "ORDER BY message_id DESC LIMIT $4",
    [PG_FIRST_ONES] = "SELECT message_id FROM messages" HERE " AND parent_id IS NULL AND "
                      "$3::bytea IS NULL ORDER BY message_id DESC LIMIT $4",
    [PG_COME_BETWEEN] = "UPDATE messages SET parent_id = $4, behind = NULL" HERE
                        " AND behind = $3 AND parent_id = $5",
    [PG_CHILDREN_MOVE] =
        "UPDATE messages SET parent_id = $4, behind = $5" HERE " AND parent_id = $3",
    [PG_HEIR_OF] = "SELECT task_id FROM tasks" HERE " AND question_id = $3 AND task_id <> $4 "
                   "ORDER BY task_id LIMIT 1",
    [PG_MESSAGE_PASS] = "UPDATE messages SET task_id = $4" HERE " AND message_id = $3",
    [PG_MESSAGE_DELETE] = "DELETE FROM messages" HERE " AND message_id = $3",
    [PG_MESSAGE_OF_TASK] = "SELECT message_id, parent_id, behind, role FROM messages" HERE
                           " AND task_id = $3 ORDER BY message_id LIMIT 1",
    /* --- files --------------------------------------------------------------------------- */

    [PG_FILE_PUT] = "INSERT INTO files (state, slot" PG_FILE ") VALUES (0, ?" FILE_VALUES ")",
    [PG_FILE_COUNT] = "INSERT INTO usage (owner, slot, bytes) VALUES (?, ?, ?) " USAGE_ADD,
    [PG_FILE_USE] =
        "WITH f AS (UPDATE files SET state = 1" HERE " AND file_id = $4 AND state < 2 RETURNING 1) "
        "INSERT INTO file_uses (owner, conversation_id, task_id, file_id) "
        "SELECT $1, $2, $3, $4 FROM f ON CONFLICT DO NOTHING",
#define FILES_LESS                                                                            \
    " RETURNING owner, 1024 + size AS bytes) UPDATE usage SET bytes = usage.bytes - g.bytes " \
    "FROM (SELECT owner, sum(bytes)::bigint AS bytes FROM f GROUP BY owner) g "               \
    "WHERE usage.owner = g.owner"
    /* Not another node's. */
    [PG_FILES_EXPIRE] =
        "WITH f AS (UPDATE files SET state = 2 WHERE state = 0 AND created_at < ? AND slot IN "
        "(SELECT slot FROM slots WHERE coalesce(incarnation, ?) = ?2)" FILES_LESS,
    [PG_FILES_REMOVE] = "DELETE FROM files WHERE state = 2 AND blob = ?",
    [PG_FILES_DELETE] = "WITH f AS (UPDATE files SET state = 2" HERE " AND state < 2" FILES_LESS,
    [PG_FILE_USES_DELETE] = "DELETE FROM file_uses" HERE,
    /* Those that only this task names. */
    [PG_TASK_FILES_DELETE] =
        "WITH f AS (UPDATE files SET state = 2" HERE " AND state < 2 AND file_id IN "
        "(SELECT u.file_id FROM file_uses u WHERE u.owner = $1 AND u.conversation_id = $2 AND "
        "u.task_id = $3 AND NOT EXISTS (SELECT 1 FROM file_uses v WHERE v.owner = $1 AND "
        "v.conversation_id = $2 AND v.file_id = u.file_id AND v.task_id <> $3))" FILES_LESS,
    [PG_TASK_FILE_USES_DELETE] = "DELETE FROM file_uses" HERE " AND task_id = $3",
    [PG_HAS_ENDED] = "SELECT 1 FROM tasks WHERE task_key = ? AND status >= 2",

    [PG_KEY_SET] = "INSERT INTO request_keys (owner, key, conversation_id, task_id, created_at) "
                   "VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, key) DO UPDATE SET "
                   "conversation_id = excluded.conversation_id, task_id = excluded.task_id, "
                   "created_at = excluded.created_at",
    [PG_ACK] = "UPDATE tasks SET acked = 1 WHERE owner = ? AND conversation_id = ? AND task_id = ?",
    [PG_INBOX_PUT] = "INSERT INTO inbox (task_key, position, line) SELECT ?, ?, ? "
                     "WHERE EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1)",
    [PG_INBOX_TAKE] = "DELETE FROM inbox WHERE task_key = ? AND position BETWEEN ? AND ?",
    [PG_MARK_SET] = "INSERT INTO runs (task_key, mark) SELECT ?, ? "
                    "WHERE EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1) "
                    "ON CONFLICT (task_key) DO UPDATE SET mark = excluded.mark",
    [PG_MARK_GONE] = "DELETE FROM runs WHERE task_key = ANY(?)",
    [PG_NOTE_SET] = "INSERT INTO notes (task_key, number, seq, bytes) SELECT ?, ?, ?, ? "
                    "WHERE EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1) "
                    "ON CONFLICT (task_key, number) DO UPDATE SET seq = excluded.seq, "
                    "bytes = excluded.bytes",
    [PG_NOTES_GONE] = "DELETE FROM notes WHERE task_key = ANY(?)",
    [PG_NOTICE_PUT] =
        "INSERT INTO notices (key, slot, silent, owner, conversation_id, agent, text, "
        "source) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [PG_NOTICE_TAKE] = "DELETE FROM notices WHERE key = ?",
    [PG_OUTBOX_PUT] =
        "INSERT INTO outbox (key, slot, hook, id, at, body) VALUES (?, ?, ?, ?, ?, ?)",
    [PG_OUTBOX_TAKE] = "DELETE FROM outbox WHERE key = ?",
    [PG_REVOKE] = "INSERT INTO revocations (owner, slot, until) VALUES (?, ?, ?) "
                  "ON CONFLICT (owner) DO UPDATE SET until = excluded.until",
    [PG_UNREVOKE] = "DELETE FROM revocations WHERE owner = ?",

    /* --- retention ----------------------------------------------------------------------- */

    [PG_USAGE_ENDED] = "INSERT INTO usage (owner, slot, bytes) SELECT t.owner, t.slot, sum(" COST
                       ") FROM " THOSE_ENDED " GROUP BY t.owner, t.slot " USAGE_ADD,
    /* The tasks first: from the usage on, all of every owner's would be looked at. */
    [PG_USAGE_FORGET] =
        "WITH f AS MATERIALIZED (SELECT t.owner, sum(" COST ") AS bytes FROM " THOSE_ENDED
        " GROUP BY t.owner) "
        "UPDATE usage SET bytes = usage.bytes - f.bytes FROM f WHERE usage.owner = f.owner",
    [PG_USAGE_FORGET_ALL] =
        "UPDATE usage SET bytes = usage.bytes - f.bytes FROM "
        "(SELECT coalesce(sum(" COST "), 0)::bigint AS bytes FROM tasks t" WITH_INPUT
        "WHERE t.owner = ? AND t.conversation_id = ? AND "
        "t.status >= 2) f WHERE usage.owner = ?1",
    [PG_GARBAGE_ADD] = "INSERT INTO garbage (task_key, owner, keeps_record) "
                       "SELECT task_key, owner, 0 FROM tasks "
                       "WHERE owner = ? AND conversation_id = ? " GARBAGE_WHOLE,
    [PG_TASKS_DELETE] =
        "DELETE FROM tasks WHERE owner = ? AND conversation_id = ? RETURNING task_key AS gone",
    [PG_MESSAGES_DELETE] = "DELETE FROM messages WHERE owner = ? AND conversation_id = ?",
    [PG_KEYS_DELETE] = "DELETE FROM request_keys WHERE owner = ? AND conversation_id = ?",
    [PG_NOTICES_DELETE] = "DELETE FROM notices WHERE owner = ? AND conversation_id = ?",
    [PG_CONVERSATION_DELETE] = "DELETE FROM conversations WHERE owner = ? AND conversation_id = ?",
    /* For a task that has ended alone: otherwise nothing happens, nor to the usage. */
    [PG_EVENTS_REMOVE] =
        "WITH t AS (UPDATE tasks SET first = head + 1 WHERE task_key = ? AND status >= 2 "
        "RETURNING task_key), g AS (INSERT INTO garbage (task_key, keeps_record) "
        "SELECT task_key, 1 FROM t ON CONFLICT DO NOTHING), "
        "u AS (UPDATE usage SET bytes = bytes - ? WHERE owner = ? AND EXISTS (SELECT 1 FROM t)) "
        "SELECT task_key AS gone FROM t",
    [PG_TASK_REMOVE] =
        "WITH f AS (SELECT " COST " AS bytes FROM tasks t" WITH_INPUT
        "WHERE t.task_key = ? AND t.status >= 2), "
        "t AS (DELETE FROM tasks WHERE task_key = ?1 AND status >= 2 RETURNING task_key), "
        "g AS (INSERT INTO garbage (task_key, keeps_record) SELECT task_key, 0 FROM t " GARBAGE_WHOLE
        "), "
        "k AS (DELETE FROM request_keys WHERE owner = ? AND conversation_id = ? AND "
        "task_id = ? AND EXISTS (SELECT 1 FROM t)), "
        "u AS (UPDATE usage SET bytes = usage.bytes - f.bytes - ? FROM f WHERE usage.owner = ?2) "
        "SELECT task_key AS gone FROM t",
    [PG_USAGE_LESS] = "UPDATE usage SET bytes = bytes - ? WHERE owner = ?",
    [PG_USAGE_NONE] = "DELETE FROM usage WHERE owner = ? AND bytes <= 0",
/* A conversation in which only messages without a task are left. */
#define IS_EMPTY                                                                                \
    " WHERE owner = ? AND conversation_id = ? AND EXISTS (SELECT 1 FROM conversations c WHERE " \
    "c.owner = ?1 AND c.conversation_id = ?2 AND c.updated_at < ?) AND NOT EXISTS "             \
    "(SELECT 1 FROM tasks t WHERE t.owner = ?1 AND t.conversation_id = ?2) AND NOT EXISTS "     \
    "(SELECT 1 FROM notices n WHERE n.owner = ?1 AND n.conversation_id = ?2)"
    [PG_EMPTY_MESSAGES_DELETE] = "DELETE FROM messages" IS_EMPTY,
    [PG_EMPTY_CONVERSATION_DELETE] = "DELETE FROM conversations" IS_EMPTY,
    [PG_GARBAGE_FIRST] =
        "SELECT task_key, owner, keeps_record FROM garbage ORDER BY task_key LIMIT 1 "
        "FOR UPDATE SKIP LOCKED",
    [PG_GARBAGE_BLOCKS] =
        "WITH d AS (DELETE FROM blocks WHERE task_key = ? AND first <= coalesce((SELECT first FROM "
        "blocks WHERE task_key = ?1 ORDER BY first LIMIT 1 OFFSET ? - 1), 9223372036854775807) "
        "RETURNING octet_length(bytes) AS n) SELECT count(*), coalesce(sum(n), 0)::bigint FROM d",
    [PG_GARBAGE_INPUT] = "DELETE FROM inputs WHERE task_key = ANY(?)",
    [PG_GARBAGE_INBOX] = "DELETE FROM inbox WHERE task_key = ANY(?)",
    [PG_GARBAGE_DONE] = "DELETE FROM garbage WHERE task_key = ANY(?)",

    /* --- the journal --------------------------------------------------------------------- */

    [PG_JOURNAL_PUT] = "INSERT INTO journal (incarnation, n, bytes) VALUES (?, ?, ?)",
    [PG_JOURNAL_CUT] = "DELETE FROM journal WHERE incarnation = ? AND n >= ? AND n < ?",
    [PG_JOURNAL_ROWS] =
        "SELECT n, bytes FROM journal WHERE incarnation = ? AND n > ? ORDER BY n LIMIT ?",
    [PG_JOURNAL_GONE] = "DELETE FROM journal WHERE incarnation = ?",
    /* Rows of no node that there is become ours, before all that we write: their numbers are
     * below 0. */
    [PG_JOURNAL_INHERIT] =
        "UPDATE journal j SET incarnation = ?, n = o.n FROM (SELECT incarnation, n AS was, "
        "row_number() OVER (ORDER BY incarnation, n) - 1 - count(*) OVER () AS n FROM journal l "
        "WHERE NOT EXISTS (SELECT 1 FROM nodes d WHERE d.incarnation = l.incarnation)) o "
        "WHERE j.incarnation = o.incarnation AND j.n = o.was",
    /* The last line that is or was in blocks: for the journal, removed events are as dead as
     * those. */
    [PG_SEALED] = "SELECT t.task_key, greatest(t.first - 1, coalesce((SELECT b.last FROM blocks b "
                  "WHERE b.task_key = t.task_key ORDER BY b.first DESC LIMIT 1), 0)), t.slot "
                  "FROM tasks t WHERE t.task_key = ANY(?)",

    /* --- questions ----------------------------------------------------------------------- */

    [PG_ASK_TASK] = "SELECT " FULL " FROM tasks t" WITH_INPUT
                    "WHERE t.owner = ? AND t.conversation_id = ? AND t.task_id = ?",
    [PG_ASK_KEY] = "SELECT " FULL " FROM request_keys k JOIN tasks t ON t.owner = k.owner AND "
                   "t.conversation_id = k.conversation_id AND t.task_id = k.task_id" WITH_INPUT
                   "WHERE k.owner = ? AND k.key = ?",
    [PG_ASK_TASKS] =
        "SELECT " BRIEF " FROM tasks t WHERE " IN_CONVERSATION TURNS LIMITED("t.task_id DESC"),
    [PG_ASK_TASKS_STATUS] = "SELECT " BRIEF " FROM tasks t WHERE " IN_CONVERSATION
                            " AND t.status = ?" TURNS LIMITED("t.task_id DESC"),
    [PG_ASK_TASKS_LIVE] = "SELECT " BRIEF " FROM tasks t WHERE t.status < 2 AND " IN_CONVERSATION
                          " AND t.status = ?" TURNS LIMITED("t.task_id DESC"),
    [PG_ASK_OWNED] =
        "SELECT " BRIEF " FROM tasks t WHERE t.owner = ? AND t.task_id >= ?" LIMITED("t.task_id"),
    [PG_ASK_OWNED_LIVE] = "SELECT " BRIEF " FROM tasks t WHERE t.status < 2 AND t.owner = ? AND "
                          "t.task_id >= ?" LIMITED("t.task_id"),
    [PG_ASK_OWNED_NEWEST] =
        "SELECT " BRIEF " FROM tasks t WHERE t.owner = ? ORDER BY t.task_id DESC LIMIT 1",
    [PG_ASK_RESULTS] =
        WITHIN(FULL, FULL_SIZE,
               "FROM tasks t" WITH_INPUT
               "WHERE t.type = 1 AND t.status >= 2 AND t.acked = 0 AND " IN_CONVERSATION,
               "t.task_id DESC"),
    [PG_ASK_LIVE] = WITHIN(LIVE, FULL_SIZE " + " BYTES("x.context"),
                           "FROM tasks t" WITH_INPUT WITH_RUN
                           "WHERE t.status < 2" SLOTS("t") " AND t.task_key > ?",
                           "t.task_key"),
    [PG_ASK_MESSAGES] = WITHIN(MESSAGE("m") MESSAGE_PARTS("m", "$2"), BYTES("m.content"),
                               "FROM messages m WHERE m.owner = ? AND m.conversation_id = ? AND "
                               "m.message_id < ?",
                               "m.message_id DESC"),
    [PG_ASK_MESSAGE] = "SELECT " MESSAGE("m") MESSAGE_PARTS("m", "$2") " FROM messages m" HERE
                                                                       " AND message_id = $3",
    [PG_ASK_BRIEF] = "SELECT " BRIEF " FROM tasks t" HERE " AND task_id = $3",
    /* Upwards from a message: as far as a reader may take, and one more.  taken and before: the
     * messages below it that count, and their bytes. */
    [PG_ASK_PATH] = "WITH RECURSIVE path AS (SELECT " MESSAGE(
        "m") ", 0::bigint AS taken, 0::bigint AS before "
             "FROM messages m" HERE
             " AND m.message_id = $3 UNION ALL SELECT " MESSAGE("m") ", p.taken + " COUNTS("p") "::int, p.before + CASE WHEN " COUNTS(
                 "p") " THEN " BYTES("p.content") " ELSE 0 END FROM path p JOIN messages m ON m.owner = $1 AND "
                                                  "m.conversation_id = $2 AND m.message_id = p.parent_id "
                                                  "WHERE p.taken < $6 AND (p.before <= $7 OR p.taken < 2)) "
                                                  "SELECT " MESSAGE("p") ", CASE WHEN $5 = 1 THEN " SIBLINGS(
                                                      "p.parent_id") " END" MESSAGE_PARTS("p",
                                                                                          "$2") " FROM path p",
    [PG_ASK_CONVERSATION] = CONVERSATION "WHERE c.owner = ? AND c.conversation_id = ?",
    [PG_ASK_CONVERSATIONS] =
        CONVERSATION "WHERE c.owner = ? AND c.unlisted = 0 AND (c.flags & ?) = ?" LIMITED(
            "c.updated_at DESC, c.conversation_id DESC"),
    [PG_ASK_CONVERSATIONS_BEFORE] = CONVERSATION
    "WHERE c.owner = ? AND c.unlisted = 0 AND (c.flags & ?) = ? AND (c.updated_at, c.conversation_id) < "
    "(SELECT b.updated_at, b.conversation_id FROM conversations b "
    "WHERE b.owner = ?1 AND b.conversation_id = ?)" LIMITED(
        "c.updated_at DESC, c.conversation_id DESC"),
    [PG_ASK_SEARCH] = WITHIN(
        MESSAGE("m") ", m.conversation_id" MESSAGE_PARTS("m", "m.conversation_id"),
        BYTES("m.content"),
        "FROM messages m WHERE m.owner = ? AND m.message_id < ? AND EXISTS (SELECT 1 FROM conversations c "
        "WHERE c.owner = ?1 AND c.conversation_id = m.conversation_id AND c.unlisted = 0)",
        "m.message_id DESC"),
    /* Removed events disappear at once, even while their blocks wait to be collected. */
    [PG_ASK_BLOCKS] =
        WITHIN("b.first, b.last, b.bytes", "octet_length(b.bytes)",
               "FROM blocks b WHERE b.task_key = ? AND b.last > ? AND b.first >= "
               "coalesce((SELECT a.first FROM blocks a WHERE a.task_key = ?1 AND a.first <= ?2 + 1 "
               "ORDER BY a.first DESC LIMIT 1), 0) AND "
               "b.last >= (SELECT t.first FROM tasks t WHERE t.task_key = ?1)",
               "b.first"),
    [PG_ASK_INBOX] = WITHIN("x.position, x.position AS last, x.line", "octet_length(x.line)",
                            "FROM inbox x WHERE x.task_key = ? AND x.position > ? AND "
                            "EXISTS (SELECT 1 FROM tasks t WHERE t.task_key = ?1)",
                            "x.position"),
    [PG_ASK_NOTES] = WITHIN("x.number, x.seq, x.bytes", "octet_length(x.bytes)",
                            "FROM notes x WHERE x.task_key = ? AND x.number > ? AND "
                            "EXISTS (SELECT 1 FROM tasks t WHERE t.task_key = ?1)",
                            "x.number"),
    [PG_ASK_NOTICES] =
        WITHIN("n.key, n.silent, n.owner, n.conversation_id, n.agent, n.text, n.source",
               BYTES("n.text"), "FROM notices n WHERE true" SLOTS("n") " AND n.key > ?", "n.key"),
    [PG_ASK_EXPIRED] = "SELECT " ENDED " FROM tasks t WHERE t.status >= 2" SLOTS(
        "t") " AND t.completed_at < ?" LIMITED("t.completed_at, t.task_key"),
    [PG_ASK_OLDEST] = "SELECT " ENDED " FROM tasks t WHERE t.status >= 2 AND t.owner = ? AND "
                      "t.completed_at < ?" LIMITED("t.task_key"),
    [PG_ASK_OLDEST_EVENTS] = "SELECT " ENDED " FROM tasks t WHERE t.status >= 2 AND "
                             "t.first <= t.head AND t.owner = ?" LIMITED("t.task_key"),
    [PG_ASK_USAGE] = "SELECT owner, bytes FROM usage WHERE owner = ? AND bytes > 0",
    /* The bytes that are stored, not what the server's files take: those shrink later, or never. */
    [PG_ASK_SIZE] =
        "SELECT NULL::bytea, coalesce(sum(bytes), 0)::bigint FROM usage u WHERE true" SLOTS("u"),
    [PG_ASK_FULL] = "SELECT owner, bytes FROM usage u WHERE true" SLOTS(
        "u") " AND bytes > ? AND "
             "owner >= coalesce(?, '\\x'::bytea) AND owner IS DISTINCT FROM ?3" LIMITED("owner"),
    [PG_ASK_OUTBOX] =
        WITHIN("o.key, o.hook, o.id, o.at, o.body, o.slot", "octet_length(o.body)",
               "FROM outbox o WHERE o.hook = ?" SLOTS_2("o") " AND o.key > ?", "o.key"),
    [PG_ASK_REVOKED] = "SELECT owner, until FROM revocations r WHERE true" SLOTS(
        "r") " AND owner >= coalesce(?, '\\x'::bytea) AND owner IS DISTINCT FROM ?2" LIMITED("owner"),
    [PG_ASK_FILE] = ASK_FILE("0") "owner = ? AND conversation_id = ? AND file_id = ? AND state < 2",
    [PG_ASK_UPLOAD] =
        ASK_FILE("0") "owner = ? AND conversation_id = ? AND upload = ? AND state < 2 LIMIT 1",
    [PG_ASK_BLOB] = ASK_FILE("0") "blob = ? AND state < 2 LIMIT 1",
    [PG_ASK_FILES_GONE] =
        "SELECT DISTINCT ON (blob) state" PG_FILE ", EXISTS (SELECT 1 FROM files o WHERE "
        "o.blob = f.blob AND o.state < 2)::int FROM files f WHERE state = 2" SLOTS(
            "f") " ORDER BY blob LIMIT ?",

    /* --- the bytes of files ---------------------------------------------------------------- */

    /* Divides by zero when the slot is another node's. */
    [PG_BYTES_HOLD] = "SELECT 1 / count(*) FROM (SELECT slot FROM slots WHERE slot = ? AND "
                      "coalesce(incarnation, ?) = ?2 FOR SHARE) h",
    [PG_PART_SIZE] = "SELECT size FROM file_parts WHERE part = ?",
    /* The same when the part does not end where the bytes begin. */
    [PG_PART_GROW] =
        "WITH p AS (INSERT INTO file_parts AS f (part, owner_group, slot, size, written_at) VALUES "
        "(?, ?, ?, ?, " NOW_MS ") ON CONFLICT (part) DO UPDATE SET size = f.size + excluded.size, "
        "written_at = excluded.written_at WHERE f.size = ? RETURNING size) "
        "SELECT 1 / count(*) FROM p WHERE size = ?4 + ?5",
    [PG_CHUNK_PUT] = "INSERT INTO file_chunks (id, place, bytes) SELECT id, ?2, ?3 FROM file_parts "
                     "WHERE part = ?1",
    [PG_PART_READ] = CHUNKS("file_parts", "part"),
    [PG_BLOB_KEEP] =
        "INSERT INTO file_blobs (blob, slot, id, size) SELECT ?2, ?3, coalesce(p.id, "
        "nextval('file_parts_id_seq')), coalesce(p.size, 0) FROM (SELECT 1) one LEFT JOIN "
        "file_parts p ON p.part = ?1 ON CONFLICT DO NOTHING",
    /* The blob was there before: the bytes that came again go. */
    [PG_PART_FORGET_TWICE] =
        "DELETE FROM file_chunks c USING file_parts p WHERE p.part = ? AND c.id = p.id AND NOT "
        "EXISTS (SELECT 1 FROM file_blobs b WHERE b.blob = ? AND b.id = p.id)",
    [PG_PART_FORGET] = "DELETE FROM file_parts WHERE part = ?",
    [PG_PART_DROP] = DROPPED("file_parts", "part"),
    [PG_PARTS_OF] = "SELECT count(*), coalesce(sum(size), 0)::bigint FROM file_parts WHERE "
                    "owner_group = ?",
    [PG_PARTS_SWEEP] =
        "WITH p AS (DELETE FROM file_parts WHERE slot IN (SELECT slot FROM slots WHERE "
        "coalesce(incarnation, ?) = ?1) AND (written_at < ? OR (?3 <> 0 AND position('/" FILE_PART_ONCE
        "'::bytea IN part) > 0)) RETURNING id) DELETE FROM file_chunks c USING p WHERE c.id = p.id",
    [PG_BLOB_READ] = CHUNKS("file_blobs", "blob"),
    [PG_BLOB_DROP] = DROPPED("file_blobs", "blob"),
    [PG_BLOBS_LIST] =
        "SELECT blob FROM file_blobs WHERE blob >= ? AND blob < ?1 || 'g'::bytea AND slot IN "
        "(SELECT slot FROM slots WHERE coalesce(incarnation, ?2) = ?2)",
};

const char *pg_sql(enum pg_stmt stmt)
{
    return texts[stmt];
}
