/* Connections, and all SQL but the schema's and store_check's. */
#include <errno.h>
#include <stdio.h>

#include "gateway/store/store_sqlite_private.h"

#define BUSY_MS 3000 /* how long to wait for an operator's shell that writes (F38) */

/* A task's values, as parameters by name: SQLite numbers them by first use. */
#define VALUE(name) ", :" #name
#define VALUE_OF(type, name) VALUE(name)
#define FIXED_VALUES \
    ":task_key" TASK_FIXED_NUMBERS(VALUE_OF) TASK_NAMES(VALUE) TASK_FIXED_TEXTS(VALUE)
#define STATE_VALUES TASK_STATE_NUMBERS(VALUE_OF, VALUE) TASK_STATE_TEXTS(VALUE)
#define LONG_VALUES TASK_LONG_TEXTS(VALUE)
#define INPUT_VALUES TASK_INPUT_TEXTS(VALUE)

/* A change to a damaged row leaves its checksum wrong. */
#define CRC_IF_SOUND(crc, old, new) \
    crc " = CASE WHEN " crc " IS row_crc(" old ") THEN row_crc(" new ") ELSE " crc " END"
/* For a state in which some columns change: "1 AS acked". */
#define STATE_CRC(changes)                                                         \
    "state_crc = CASE WHEN state_crc IS row_crc(task_key" SQL_TASK_STATE ") THEN " \
    "(SELECT row_crc(task_key" SQL_TASK_STATE ") FROM (SELECT " changes ")) "      \
    "ELSE state_crc END"
#define OF_CONVERSATION " WHERE owner = ?1 AND conversation_id = ?2"
#define MESSAGE_CRC(place)                                                                  \
    CRC_IF_SOUND("crc", SQL_MESSAGE,                                                        \
                 "owner, conversation_id, message_id, task_id, role, partial, created_at, " \
                 "content, " place)
#define USAGE_BY(change)                                                \
    "bytes = usage.bytes " change                                       \
    ", crc = CASE WHEN usage.crc IS row_crc(usage.owner, usage.bytes) " \
    "THEN row_crc(usage.owner, usage.bytes " change ") ELSE usage.crc END"
#define FILE_CRC(state)  \
    CRC_IF_SOUND(        \
        "crc", SQL_FILE, \
        "owner, conversation_id, file_id, name, media_type, sha256, blob, upload, size, created_at, " state)
#define FILES_IN "owner = ?1 AND conversation_id = ?2 AND state < 2"
/* Only that task names them. */
#define FILES_OF_TASK                                                                              \
    "file_id IN (SELECT u.file_id FROM file_uses u WHERE u.owner = ?1 AND u.conversation_id = ?2 " \
    "AND u.task_id = ?3 AND NOT EXISTS (SELECT 1 FROM file_uses v WHERE v.owner = ?1 AND "         \
    "v.conversation_id = ?2 AND v.file_id = u.file_id AND v.task_id <> ?3))"
#define ASK_FILE "SELECT " SQL_FILE ", crc, 0 FROM files WHERE "
#define SUMMED(values) values ", row_crc(" values ")"

#define GARBAGE_WHOLE                                                       \
    "ON CONFLICT (task_key) DO UPDATE SET keeps_record = 0, " CRC_IF_SOUND( \
        "crc", "task_key, owner, keeps_record", "task_key, owner, 0")

/* A task in the order of the reader: ROW_… in store_sqlite_read.c. */
#define OF_TASK(name) ", t." #name
#define OF_TASK_N(type, name) OF_TASK(name)
#define OF_INPUT(name) ", i." #name
#define NOTHING(name) ", NULL"
#define COLUMNS(rest)                                                                    \
    "t.task_key" TASK_FIXED_NUMBERS(OF_TASK_N) TASK_NAMES(OF_TASK)                       \
        TASK_FIXED_TEXTS(OF_TASK) ", t.fixed_crc" TASK_STATE_NUMBERS(OF_TASK_N, OF_TASK) \
            TASK_STATE_TEXTS(OF_TASK) ", t.state_crc" rest
#define FULL \
    COLUMNS(TASK_LONG_TEXTS(OF_TASK) ", t.long_crc" TASK_INPUT_TEXTS(OF_INPUT) ", t.input_crc, 1")
#define BRIEF COLUMNS(TASK_LONG_TEXTS(NOTHING) ", NULL" TASK_INPUT_TEXTS(NOTHING) ", NULL, 0")
#define ENDED                                   \
    BRIEF                                       \
    ", CASE WHEN t.first > t.head THEN 0 ELSE " \
    "(SELECT coalesce(sum(" SQL_BLOCK_SIZE      \
    "), 0) FROM blocks b WHERE b.task_key = t.task_key) END"
#define LIVE                                                                      \
    FULL ", coalesce((SELECT b.last FROM blocks b WHERE b.task_key = t.task_key " \
         "ORDER BY b.first DESC LIMIT 1), 0), x.context, x.crc, m.mark, m.crc"
#define WITH_INPUT SQL_WITH_INPUT
#define WITH_RUN                                       \
    "LEFT JOIN contexts x ON x.task_key = t.task_key " \
    "LEFT JOIN runs m ON m.task_key = t.task_key "
#define IN_CONVERSATION "t.owner = ?1 AND t.conversation_id = ?2 AND t.task_id < ?3"
/* Only types chat and notice, when the parameter is 1. */
#define TURNS(parameter) " AND (" parameter " = 0 OR t.type IN (0, 3))"
#define NEWEST_FIRST " ORDER BY t.task_id DESC"
#define CONVERSATION                                                                 \
    "SELECT c.owner, c.conversation_id, c.title, c.agent, c.updated_at, c.notices, " \
    "c.unlisted, c.tip, c.tip_task, c.flags, c.crc, "                                \
    "(SELECT count(*) FROM tasks t INDEXED BY tasks_live_in WHERE t.status < 2 "     \
    "AND t.owner = c.owner AND t.conversation_id = c.conversation_id) FROM conversations c "

/* The effect of STMT_CONVERSATION_SET on a conversation. */
/* ?6: 1 with force, 2 unless the owner gave the title (CONVERSATION_NAMED). */
#define SET_TITLE                                       \
    "CASE WHEN ?6 = 1 OR (?6 = 2 AND (flags & 4) = 0) " \
    "THEN coalesce(?3, title) ELSE coalesce(title, ?3) END"
#define SET_AGENT "coalesce(?4, agent)"
#define SET_UPDATED "CASE WHEN ?5 THEN ?5 ELSE updated_at END"
#define SET_FLAGS "(flags & ~?10) | ?9"
#define SET_NOTICES "CASE ?7 WHEN 0 THEN notices WHEN 1 THEN 0 ELSE notices + 1 END"

static const char *const sql[STMT_COUNT] = {
    [STMT_BEGIN] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
    [STMT_ROLLBACK] = "ROLLBACK",
    [STMT_SNAPSHOT] = "BEGIN",
    [STMT_DATA_VERSION] = "PRAGMA data_version",
    [STMT_MARKS] = "SELECT next_key, newest_id, crc FROM marks",
    [STMT_MARKS_SET] = "UPDATE marks SET (next_key, newest_id, crc) = (" SUMMED("?1,?2") ")",

    [STMT_TASK_NEW] = "INSERT INTO tasks (" SQL_TASK_FIXED ", fixed_crc" SQL_TASK_STATE
                      ", state_crc" SQL_TASK_LONG ", long_crc, input_crc) "
                      "VALUES (" SUMMED(FIXED_VALUES) STATE_VALUES
    ", row_crc(:task_key" STATE_VALUES ")" LONG_VALUES ", row_crc(:task_key" LONG_VALUES
    "), CASE WHEN "
    "coalesce(NULL" INPUT_VALUES ") IS NOT NULL "
    "THEN row_crc(:task_key" INPUT_VALUES ") END)",
    [STMT_INPUT_NEW] = "INSERT OR REPLACE INTO inputs (task_key" SQL_TASK_INPUT ") "
                       "VALUES (:task_key" INPUT_VALUES ")",
    [STMT_CONTEXT_NEW] =
        "INSERT INTO contexts (task_key, context, crc) VALUES (" SUMMED("?1,?2") ")",
    [STMT_CONTEXT_GONE] = "DELETE FROM contexts WHERE task_key = ?",
    [STMT_TASK_SET] =
        "UPDATE tasks SET (state_crc" SQL_TASK_STATE ", long_crc" SQL_TASK_LONG
        ") = (row_crc(:task_key" STATE_VALUES ")" STATE_VALUES ", row_crc(:task_key" LONG_VALUES
        ")" LONG_VALUES ") WHERE task_key = :task_key",
    [STMT_TASK_EXISTS] = "SELECT 1 FROM tasks WHERE task_key = ?",
    [STMT_BLOCK_NEW] = "INSERT INTO blocks (task_key, first, last, bytes, crc) VALUES (" SUMMED(
        "?1,?2,?3,?4") " | (?5 << 32))",
    [STMT_CONVERSATION_ENSURE] =
        "INSERT INTO conversations (owner, conversation_id, updated_at, crc) "
        "VALUES (?1,?2,?3, row_crc(?1,?2,NULL,NULL,?3,0,0,NULL,NULL,0)) ON CONFLICT DO NOTHING",
    [STMT_CONVERSATION_SET] =
        "INSERT INTO conversations (owner, conversation_id, title, agent, updated_at, notices, unlisted, "
        "flags, crc) VALUES (?1,?2,?3,?4,?5,?7 = 2,?8,?9, row_crc(?1,?2,?3,?4,?5,?7 = 2,?8,NULL,NULL,?9)) "
        "ON CONFLICT (owner, conversation_id) DO UPDATE SET title = " SET_TITLE
        ", agent = " SET_AGENT ", updated_at = " SET_UPDATED ", notices = " SET_NOTICES
        ", flags = " SET_FLAGS
        ", " CRC_IF_SOUND("crc", SQL_CONVERSATION,
                          "owner, conversation_id, " SET_TITLE ", " SET_AGENT ", " SET_UPDATED
                          ", " SET_NOTICES ", unlisted, tip, tip_task, " SET_FLAGS),
    /* Unless its owner, an agent or a model gave it (CONVERSATION_NAMED, CONVERSATION_TITLED). */
    [STMT_TITLE_SET] = "UPDATE conversations SET title = ?3, flags = flags | 8, " CRC_IF_SOUND(
        "crc", SQL_CONVERSATION,
        "owner, conversation_id, ?3, agent, updated_at, notices, unlisted, tip, tip_task, flags | 8")
        OF_CONVERSATION " AND title IS ?4 AND (flags & 12) = 0",
    [STMT_MESSAGE_NEW] = "INSERT INTO messages (" SQL_MESSAGE
                         ", crc) VALUES (" SUMMED("?1,?2,?3,?4,?5,?6,?7,?8,?9,?10") ")",
    [STMT_TIP] = "SELECT " SQL_CONVERSATION
                 ", crc FROM conversations WHERE owner = ? AND conversation_id = ?",
    [STMT_TIP_SET] = "UPDATE conversations SET tip = ?3, tip_task = ?4, " CRC_IF_SOUND(
        "crc", SQL_CONVERSATION,
        "owner, conversation_id, title, agent, updated_at, notices, unlisted, ?3, ?4, flags")
        OF_CONVERSATION,
    [STMT_PLACE] = "SELECT parent_id, behind FROM messages" OF_CONVERSATION " AND message_id = ?3",
    /* The first one of several messages of a task, in all of these. */
    [STMT_QUESTION_OF] =
        "SELECT coalesce((SELECT question_id FROM tasks" OF_CONVERSATION " AND task_id = ?3), "
        "(SELECT min(message_id) FROM messages INDEXED BY messages_of_task" OF_CONVERSATION
        " AND task_id = ?3 AND role <> 1))",
    [STMT_ANSWER_OF] =
        "SELECT min(message_id) FROM messages INDEXED BY messages_of_task" OF_CONVERSATION
        " AND task_id = ?3 AND role = 1",
    [STMT_ANSWERER_OF] =
        "SELECT max(task_id) FROM (SELECT task_id FROM messages" OF_CONVERSATION
        " AND message_id = ?3 UNION ALL SELECT task_id FROM tasks INDEXED BY tasks_of_question" OF_CONVERSATION
        " AND question_id = ?3) WHERE NOT EXISTS (SELECT 1 FROM messages" OF_CONVERSATION
        " AND message_id = ?3 AND role = 1)",
    [STMT_CHILDREN] = "SELECT message_id FROM messages INDEXED BY messages_under" OF_CONVERSATION
                      " AND parent_id = ?3 ORDER BY message_id DESC LIMIT ?4",
    [STMT_FIRST_ONES] = "SELECT message_id FROM messages INDEXED BY messages_first" OF_CONVERSATION
                        " AND parent_id IS NULL ORDER BY message_id DESC LIMIT ?4",
    [STMT_COME_BETWEEN] =
        "UPDATE messages INDEXED BY messages_behind SET parent_id = ?4, behind = NULL, " MESSAGE_CRC(
            "?4, NULL") OF_CONVERSATION " AND behind = ?3 AND parent_id = ?5",
    [STMT_CHILDREN_MOVE] =
        "UPDATE messages INDEXED BY messages_under SET parent_id = ?4, "
        "behind = ?5, " MESSAGE_CRC("?4, ?5") OF_CONVERSATION " AND parent_id = ?3",
    [STMT_HEIR_OF] = "SELECT min(task_id) FROM tasks INDEXED BY tasks_of_question" OF_CONVERSATION
                     " AND question_id = ?3 AND task_id <> ?4",
    [STMT_MESSAGE_PASS] = "UPDATE messages SET task_id = ?4, " CRC_IF_SOUND(
        "crc", SQL_MESSAGE,
        "owner, conversation_id, message_id, ?4, role, partial, created_at, "
        "content, parent_id, behind") OF_CONVERSATION " AND message_id = ?3",
    [STMT_MESSAGE_DELETE] = "DELETE FROM messages" OF_CONVERSATION " AND message_id = ?3",
    [STMT_MESSAGE_OF_TASK] =
        "SELECT message_id, parent_id, behind, role FROM messages INDEXED BY messages_of_task" OF_CONVERSATION
        " AND task_id = ?3 ORDER BY message_id LIMIT 1",
    [STMT_KEY_SET] = "INSERT OR REPLACE INTO request_keys (owner, key, conversation_id, task_id, "
                     "created_at, crc) VALUES (" SUMMED("?1,?2,?3,?4,?5") ")",
    [STMT_ACK] = "UPDATE tasks SET acked = 1, " STATE_CRC(
        "1 AS acked") " WHERE owner = ? AND conversation_id = ? AND task_id = ?",
    [STMT_INBOX_PUT] = "INSERT INTO inbox (task_key, position, line, crc) SELECT " SUMMED(
        "?1,?2,?3") " WHERE EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1)",
    [STMT_INBOX_TAKE] = "DELETE FROM inbox WHERE task_key = ? AND position BETWEEN ? AND ?",
    [STMT_MARK_SET] = "INSERT OR REPLACE INTO runs (task_key, mark, crc) SELECT " SUMMED(
        "?1,?2") " WHERE EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1)",
    [STMT_MARK_GONE] = "DELETE FROM runs WHERE task_key = ?",
    [STMT_NOTE_SET] =
        "INSERT OR REPLACE INTO notes (task_key, number, seq, bytes, crc) SELECT " SUMMED(
            "?1,?2,?3,?4") " WHERE EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1)",
    [STMT_NOTES_GONE] = "DELETE FROM notes WHERE task_key = ?",

    [STMT_NOTICE_PUT] =
        "INSERT INTO notices (key, silent, owner, conversation_id, agent, text, source, crc) "
        "VALUES (" SUMMED("?1,?2,?3,?4,?5,?6,?7") ")",
    [STMT_NOTICE_TAKE] = "DELETE FROM notices WHERE key = ?",

    [STMT_TASK_KEYS] = "SELECT task_key FROM tasks WHERE owner = ? AND conversation_id = ?",
    [STMT_GARBAGE_ADD] = "INSERT INTO garbage (task_key, owner, keeps_record, crc) "
                         "SELECT task_key, owner, 0, row_crc(task_key, owner, 0) FROM tasks "
                         "WHERE owner = ? AND conversation_id = ? " GARBAGE_WHOLE,
    [STMT_TASKS_DELETE] = "DELETE FROM tasks WHERE owner = ? AND conversation_id = ?",
    [STMT_MESSAGES_DELETE] = "DELETE FROM messages WHERE owner = ? AND conversation_id = ?",
    [STMT_KEYS_DELETE] = "DELETE FROM request_keys WHERE owner = ? AND conversation_id = ?",
    [STMT_NOTICES_DELETE] = "DELETE FROM notices WHERE owner = ? AND conversation_id = ?",
    [STMT_CONVERSATION_DELETE] =
        "DELETE FROM conversations WHERE owner = ? AND conversation_id = ?",
    [STMT_OUTBOX_PUT] =
        "INSERT INTO outbox (key, hook, id, at, body, crc) VALUES (" SUMMED("?1,?2,?3,?4,?5") ")",
    [STMT_OUTBOX_TAKE] = "DELETE FROM outbox WHERE key = ?",
    [STMT_REVOKE] =
        "INSERT OR REPLACE INTO revocations (owner, until, crc) VALUES (" SUMMED("?1,?2") ")",
    [STMT_UNREVOKE] = "DELETE FROM revocations WHERE owner = ?",
    [STMT_FILE_PUT] = "INSERT INTO files (" SQL_FILE
                      ", crc) VALUES (" SUMMED("?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,0") ")",
    [STMT_FILE_COUNT] = "INSERT INTO usage (owner, bytes, crc) VALUES (?1, ?2, row_crc(?1, ?2)) "
                        "ON CONFLICT (owner) DO UPDATE SET " USAGE_BY("+ excluded.bytes"),
    [STMT_FILE_USE] =
        "INSERT OR IGNORE INTO file_uses (owner, conversation_id, task_id, file_id, "
        "crc) SELECT " SUMMED(
            "?1,?2,?3,?4") " WHERE EXISTS (SELECT 1 FROM files "
                           "WHERE owner = ?1 AND conversation_id = ?2 AND file_id = ?4 AND state < 2)",
    [STMT_FILE_USED] = "UPDATE files SET state = 1, " FILE_CRC(
        "1") " WHERE owner = ?1 AND "
             "conversation_id = ?2 AND file_id = ?3 AND state = 0",
    [STMT_FILES_EXPIRE_COUNT] =
        "UPDATE usage SET " USAGE_BY("- f.bytes") " FROM (SELECT owner, sum(" SQL_FILE_COST
                                                  ") AS bytes FROM files INDEXED BY files_new "
                                                  "WHERE state = 0 AND created_at < ?1 "
                                                  "GROUP BY owner) f WHERE usage.owner = f.owner",
    [STMT_FILES_EXPIRE] = "UPDATE files INDEXED BY files_new SET state = 2, " FILE_CRC(
        "2") " WHERE state = 0 AND created_at < ?1",
    [STMT_FILES_REMOVE] = "DELETE FROM files INDEXED BY files_gone WHERE state = 2 AND blob = ?1",
    [STMT_FILES_DELETE_COUNT] =
        "UPDATE usage SET " USAGE_BY("- f.bytes") " FROM (SELECT coalesce(sum(" SQL_FILE_COST
                                                  "), 0) AS bytes FROM files WHERE " FILES_IN ") f "
                                                  "WHERE usage.owner = ?1",
    [STMT_FILES_DELETE] = "UPDATE files SET state = 2, " FILE_CRC("2") " WHERE " FILES_IN,
    [STMT_FILE_USES_DELETE] = "DELETE FROM file_uses WHERE owner = ?1 AND conversation_id = ?2",
    [STMT_TASK_FILES_COUNT] =
        "UPDATE usage SET " USAGE_BY("- f.bytes") " FROM (SELECT coalesce(sum(" SQL_FILE_COST
                                                  "), 0) AS bytes FROM files WHERE " FILES_IN
                                                  " AND " FILES_OF_TASK ") f "
                                                  "WHERE usage.owner = ?1",
    [STMT_TASK_FILES_DELETE] =
        "UPDATE files SET state = 2, " FILE_CRC("2") " WHERE " FILES_IN " AND " FILES_OF_TASK,
    [STMT_TASK_FILE_USES_DELETE] =
        "DELETE FROM file_uses WHERE owner = ?1 AND conversation_id = ?2 AND task_id = ?3",
    [STMT_USAGE_ENDED] =
        "INSERT INTO usage (owner, bytes, crc) SELECT owner, bytes, row_crc(owner, bytes) "
        "FROM (SELECT t.owner AS owner, " SQL_TASK_COST " AS bytes FROM tasks t" WITH_INPUT
        "WHERE t.task_key = ?) WHERE true "
        "ON CONFLICT (owner) DO UPDATE SET " USAGE_BY("+ excluded.bytes"),
    [STMT_USAGE_FORGET] =
        "UPDATE usage SET " USAGE_BY("- f.bytes") " FROM (SELECT t.owner AS owner, " SQL_TASK_COST
                                                  " AS bytes FROM tasks t" WITH_INPUT
                                                  "WHERE t.task_key = ? AND t.status >= 2) f "
                                                  "WHERE usage.owner = f.owner",
    [STMT_USAGE_FORGET_ALL] = "UPDATE usage SET " USAGE_BY(
        "- f.bytes") " FROM (SELECT coalesce(sum(" SQL_TASK_COST "), 0) AS bytes "
                     "FROM tasks t" WITH_INPUT
                     "WHERE t.owner = ?1 AND t.conversation_id = ?2 AND t.status >= 2) f WHERE usage.owner = ?1",
    [STMT_USAGE_SEALED] =
        "INSERT INTO usage (owner, bytes, crc) SELECT owner, ?2, row_crc(owner, ?2) FROM tasks "
        "WHERE task_key = ?1 "
        "ON CONFLICT (owner) DO UPDATE SET " USAGE_BY("+ excluded.bytes"),
    [STMT_USAGE_LESS] = "UPDATE usage SET " USAGE_BY("- ?2") " WHERE owner = ?1",
    [STMT_USAGE_NONE] = "DELETE FROM usage WHERE owner = ? AND bytes <= 0",
    [STMT_USAGE_DAMAGED] = "SELECT 1 FROM usage WHERE crc IS NOT row_crc(owner, bytes) LIMIT 1",
    [STMT_USAGE_CLEAR] = "DELETE FROM usage",
    [STMT_USAGE_COUNT] =
        "INSERT INTO usage (owner, bytes, crc) SELECT owner, bytes, row_crc(owner, bytes) "
        "FROM (SELECT owner, sum(bytes) AS bytes FROM (" SQL_USAGE_PARTS ") GROUP BY owner)",
    [STMT_HAS_ENDED] = "SELECT 1 FROM tasks WHERE task_key = ? AND status >= 2",
    [STMT_GARBAGE_EVENTS] =
        "INSERT OR IGNORE INTO garbage (task_key, keeps_record, crc) VALUES (?1, 1, row_crc(?1, NULL, 1))",
    [STMT_GARBAGE_TASK] =
        "INSERT INTO garbage (task_key, crc) VALUES (?1, row_crc(?1, NULL, 0)) " GARBAGE_WHOLE,
    [STMT_TASK_EMPTY] =
        "UPDATE tasks SET first = head + 1, " STATE_CRC("head + 1 AS first") " WHERE task_key = ?",
    [STMT_TASK_DELETE] = "DELETE FROM tasks WHERE task_key = ?",
    [STMT_TASK_KEYS_DELETE] = "DELETE FROM request_keys INDEXED BY request_keys_of_task "
                              "WHERE owner = ? AND conversation_id = ? AND task_id = ?",
    [STMT_CONVERSATION_EMPTY] =
        "SELECT 1 FROM conversations WHERE owner = ?1 AND conversation_id = ?2 AND "
        "updated_at < ?3 "
        "AND NOT EXISTS (SELECT 1 FROM tasks WHERE owner = ?1 AND conversation_id = ?2) "
        "AND NOT EXISTS (SELECT 1 FROM notices WHERE owner = ?1 AND conversation_id = ?2)",
    [STMT_GARBAGE_FIRST] = "SELECT task_key, owner, keeps_record FROM garbage WHERE crc IS "
                           "row_crc(task_key, owner, keeps_record) ORDER BY task_key LIMIT 1",
    [STMT_GARBAGE_BLOCKS] =
        "DELETE FROM blocks WHERE task_key = ?1 AND first <= coalesce((SELECT first FROM blocks "
        "WHERE task_key = ?1 ORDER BY first LIMIT 1 OFFSET ?2 - 1), 9223372036854775807) "
        "RETURNING " SQL_BLOCK_SIZE,
    [STMT_GARBAGE_INPUT] = "DELETE FROM inputs WHERE task_key = ?",
    [STMT_GARBAGE_INBOX] = "DELETE FROM inbox WHERE task_key = ?",
    [STMT_GARBAGE_DONE] = "DELETE FROM garbage WHERE task_key = ?",

    [STMT_JOURNAL_BOUNDS] = "SELECT min(row), max(row) FROM journal",
    [STMT_JOURNAL_PUT] = "INSERT INTO journal (row, bytes, crc) VALUES (" SUMMED("?1,?2") ")",
    [STMT_JOURNAL_CUT] = "DELETE FROM journal WHERE row < ?",
    [STMT_JOURNAL_ROWS] = "SELECT row, bytes, crc FROM journal ORDER BY row",
    /* The last line that is or was in blocks: for the journal, removed events are as dead as
     * those. */
    [STMT_SEALED] = "SELECT max(first - 1, coalesce((SELECT last FROM blocks WHERE task_key = ?1 "
                    "ORDER BY first DESC LIMIT 1), 0)) FROM tasks WHERE task_key = ?1",

    [STMT_ASK_TASK] = "SELECT " FULL " FROM tasks t" WITH_INPUT
                      "WHERE t.owner = ? AND t.conversation_id = ? AND t.task_id = ?",
    [STMT_ASK_KEY] =
        "SELECT " FULL " FROM request_keys k CROSS JOIN tasks t ON t.owner = k.owner AND "
        "t.conversation_id = k.conversation_id AND t.task_id = k.task_id" WITH_INPUT
        "WHERE k.owner = ? AND k.key = ?",
    [STMT_ASK_KEY_ROW] = "SELECT owner, key, conversation_id, task_id, created_at, crc "
                         "FROM request_keys WHERE owner = ? AND key = ?",
    [STMT_ASK_TASKS] =
        "SELECT " BRIEF " FROM tasks t WHERE " IN_CONVERSATION TURNS("?4") NEWEST_FIRST,
    [STMT_ASK_TASKS_STATUS] = "SELECT " BRIEF " FROM tasks t WHERE " IN_CONVERSATION
                              " AND t.status = ?4" TURNS("?5") NEWEST_FIRST,
    [STMT_ASK_TASKS_LIVE] =
        "SELECT " BRIEF " FROM tasks t INDEXED BY tasks_live_in WHERE "
        "t.status < 2 AND " IN_CONVERSATION " AND t.status = ?4" TURNS("?5") NEWEST_FIRST,
    [STMT_ASK_OWNED] = "SELECT " BRIEF " FROM tasks t INDEXED BY tasks_of_owner "
                       "WHERE t.owner = ? AND t.task_id >= ? ORDER BY t.task_id",
    [STMT_ASK_OWNED_LIVE] =
        "SELECT " BRIEF " FROM tasks t INDEXED BY tasks_live_in WHERE t.status < 2 AND "
        "t.owner = ? AND t.task_id >= ? ORDER BY t.task_id",
    [STMT_ASK_OWNED_NEWEST] = "SELECT " BRIEF " FROM tasks t INDEXED BY tasks_of_owner "
                              "WHERE t.owner = ? ORDER BY t.task_id DESC LIMIT 1",
    [STMT_ASK_RESULTS] =
        "SELECT " FULL " FROM tasks t INDEXED BY tasks_results" WITH_INPUT
        "WHERE t.type = 1 AND t.status >= 2 AND t.acked = 0 AND " IN_CONVERSATION NEWEST_FIRST,
    [STMT_ASK_LIVE] = "SELECT " LIVE " FROM tasks t INDEXED BY tasks_live" WITH_INPUT WITH_RUN
                      "WHERE t.status < 2 AND t.task_key > ? ORDER BY t.task_key",
    [STMT_ASK_MESSAGES] =
        "SELECT " SQL_MESSAGE ", crc FROM messages "
        "WHERE owner = ? AND conversation_id = ? AND message_id < ? ORDER BY message_id DESC",
    [STMT_ASK_MESSAGE] =
        "SELECT " SQL_MESSAGE ", crc FROM messages" OF_CONVERSATION " AND message_id = ?3",
    [STMT_ASK_BRIEF] = "SELECT " BRIEF " FROM tasks t WHERE t.owner = ? AND t.conversation_id = ? "
                       "AND t.task_id = ?",
    [STMT_ASK_PARTS] =
        "SELECT i.parts, t.input_crc IS row_crc(i.task_key, i.input, i.metadata, i.parts) "
        "FROM tasks t CROSS JOIN inputs i ON i.task_key = t.task_key "
        "WHERE t.owner = ? AND t.conversation_id = ? AND t.task_id = ? AND i.parts IS NOT NULL",
    [STMT_ASK_CONVERSATION] = CONVERSATION "WHERE c.owner = ? AND c.conversation_id = ?",
    [STMT_ASK_CONVERSATIONS] = CONVERSATION
    "WHERE c.owner = ?1 AND c.unlisted = 0 AND (c.flags & ?2) = ?3 ORDER BY c.updated_at DESC, c.conversation_id DESC",
    [STMT_ASK_CONVERSATIONS_BEFORE] = CONVERSATION
    "WHERE c.owner = ?1 AND c.unlisted = 0 AND (c.flags & ?2) = ?3 AND "
    "(c.updated_at, c.conversation_id) < (SELECT updated_at, conversation_id FROM conversations "
    "WHERE owner = ?1 AND conversation_id = ?4) "
    "ORDER BY c.updated_at DESC, c.conversation_id DESC",
    [STMT_ASK_SEARCH] =
        "SELECT " SQL_MESSAGE ", crc FROM messages m INDEXED BY messages_newest "
        "WHERE owner = ?1 AND message_id < ?2 AND EXISTS (SELECT 1 FROM conversations c "
        "WHERE c.owner = ?1 AND c.conversation_id = m.conversation_id AND c.unlisted = 0) "
        "ORDER BY message_id DESC",
    /* Removed events disappear at once, even while their blocks wait to be collected. */
    [STMT_ASK_BLOCKS] =
        "SELECT rowid, first, last, " SQL_BLOCK_SIZE
        ", crc FROM blocks WHERE task_key = ?1 AND last > ?2 AND first >= "
        "coalesce((SELECT first FROM blocks WHERE task_key = ?1 AND first <= ?2 + 1 "
        "ORDER BY first DESC LIMIT 1), 0) AND "
        "last >= (SELECT first FROM tasks WHERE task_key = ?1) ORDER BY first",
    [STMT_ASK_INBOX] = "SELECT task_key, position, line, crc FROM inbox WHERE task_key = ?1 AND "
                       "position > ?2 AND EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1) "
                       "ORDER BY position",
    [STMT_ASK_NOTES] = "SELECT task_key, number, seq, bytes, crc FROM notes WHERE task_key = ?1 "
                       "AND number > ?2 AND EXISTS (SELECT 1 FROM tasks WHERE task_key = ?1) "
                       "ORDER BY number",
    [STMT_ASK_NOTICES] =
        "SELECT key, silent, owner, conversation_id, agent, text, source, crc FROM notices "
        "WHERE key > ? ORDER BY key",
    [STMT_ASK_EXPIRED] = "SELECT " ENDED " FROM tasks t INDEXED BY tasks_ended "
                         "WHERE t.status >= 2 AND t.completed_at < ?1 "
                         "ORDER BY t.completed_at, t.task_key",
    [STMT_ASK_OLDEST] = "SELECT " ENDED " FROM tasks t INDEXED BY tasks_ended_of WHERE "
                        "t.status >= 2 AND t.owner = ?1 AND t.completed_at < ?2 "
                        "ORDER BY t.task_key",
    [STMT_ASK_OLDEST_EVENTS] = "SELECT " ENDED " FROM tasks t INDEXED BY tasks_with_events_of "
                               "WHERE t.status >= 2 AND t.first <= t.head AND t.owner = ?1 "
                               "ORDER BY t.task_key",
    [STMT_ASK_USAGE] = "SELECT owner, bytes, crc FROM usage WHERE owner = ? AND bytes > 0",
    [STMT_ASK_OUTBOX] = "SELECT key, hook, id, at, body, crc FROM outbox INDEXED BY outbox_of "
                        "WHERE hook = ? AND key > ? ORDER BY key",
    [STMT_ASK_REVOKED] = "SELECT owner, until, crc FROM revocations WHERE owner >= ?1 AND "
                         "owner IS NOT ?2 ORDER BY owner",
    [STMT_ASK_FILE] = ASK_FILE "owner = ? AND conversation_id = ? AND file_id = ? AND state < 2",
    [STMT_ASK_UPLOAD] =
        ASK_FILE "owner = ? AND conversation_id = ? AND upload = ? AND state < 2 LIMIT 1",
    [STMT_ASK_BLOB] = ASK_FILE "blob = ? AND state < 2 LIMIT 1",
    [STMT_ASK_FILES_GONE] =
        "SELECT " SQL_FILE ", crc, EXISTS (SELECT 1 FROM files o WHERE o.blob = files.blob AND "
        "o.state < 2) FROM files INDEXED BY files_gone WHERE state = 2 GROUP BY blob ORDER BY blob",
    [STMT_ASK_SIZE] = "SELECT NULL, (p.page_count - f.freelist_count) * s.page_size + (SELECT "
                      "coalesce(sum(size), 0) FROM files INDEXED BY files_size), NULL FROM "
                      "pragma_page_count p, pragma_freelist_count f, pragma_page_size s",
    [STMT_ASK_FULL] =
        "SELECT owner, bytes, crc FROM usage WHERE bytes > ?1 AND owner >= ?2 AND owner IS NOT ?3 ORDER BY owner",
};

/* --- errors ----------------------------------------------------------------------------------- */

static int map_err(sqlite3 *db, int rc)
{
    int system = db ? sqlite3_system_errno(db) : 0;
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return STORE_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return STORE_BUSY;
    case SQLITE_FULL: return STORE_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return STORE_CORRUPT;
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH: return STORE_REFUSED;
    case SQLITE_IOERR:
        return system == ENOSPC || system == EDQUOT || system == EFBIG ? STORE_FULL : STORE_IO;
    default: return STORE_IO;
    }
}

int sql_conn_failed(struct sql_conn *conn, int rc)
{
    /* "disk I/O error" does not say that the disk is full. */
    bool systems = (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN;
    int system = conn->db && systems ? sqlite3_system_errno(conn->db) : 0;
    snprintf(conn->error, sizeof conn->error, "%s%s%s (%d)",
             conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc), system ? ": " : "",
             system ? strerror(system) : "", rc);
    return map_err(conn->db, rc);
}

/* --- connections ------------------------------------------------------------------------------ */

int sql_conn_open(struct sql_conn *conn, const char *path, bool read_only)
{
    int flags = (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    *conn = (struct sql_conn){0};
    int rc = sqlite3_open_v2(path, &conn->db, flags, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(conn->db, BUSY_MS);
    if (rc == SQLITE_OK)
        rc = sql_crc_register(conn->db);
    return rc == SQLITE_OK ? STORE_OK : sql_conn_failed(conn, rc);
}

void sql_conn_close(struct sql_conn *conn)
{
    for (size_t i = 0; i < STMT_COUNT; i++)
        sqlite3_finalize(conn->stmts[i]);
    int rc = sqlite3_close(conn->db);
    ASSERT(rc == SQLITE_OK);
    conn->db = NULL;
    memset(conn->stmts, 0, sizeof conn->stmts);
}

int sql_conn_exec(struct sql_conn *conn, const char *script)
{
    int rc = sqlite3_exec(conn->db, script, NULL, NULL, NULL);
    return rc == SQLITE_OK ? STORE_OK : sql_conn_failed(conn, rc);
}

/* --- calls ------------------------------------------------------------------------------------ */

struct sql_call sql_begin(struct sql_conn *conn, enum stmt stmt)
{
    struct sql_call c = {.conn = conn, .rc = SQLITE_OK};
    if (!conn->stmts[stmt])
        c.rc = sqlite3_prepare_v3(conn->db, sql[stmt], -1, SQLITE_PREPARE_PERSISTENT,
                                  &conn->stmts[stmt], NULL);
    c.stmt = conn->stmts[stmt];
    return c;
}

/* All bound memory outlives the call, so it is static to SQLite. */
void sql_text(struct sql_call *c, struct str s)
{
    c->at++;
    if (c->rc == SQLITE_OK)
        c->rc = s.p ? sqlite3_bind_text64(c->stmt, c->at, s.p, s.n, SQLITE_STATIC, SQLITE_UTF8)
                    : sqlite3_bind_null(c->stmt, c->at);
}

void sql_blob(struct sql_call *c, struct str s)
{
    c->at++;
    if (c->rc == SQLITE_OK)
        c->rc = sqlite3_bind_blob64(c->stmt, c->at, s.p ? s.p : "", s.n, SQLITE_STATIC);
}

void sql_last(struct sql_call *c)
{
    sql_blob(c, STR("")); /* any blob sorts after any text */
}

void sql_int(struct sql_call *c, int64_t n)
{
    c->at++;
    if (c->rc == SQLITE_OK)
        c->rc = sqlite3_bind_int64(c->stmt, c->at, n);
}

void sql_real(struct sql_call *c, double n)
{
    c->at++;
    if (c->rc == SQLITE_OK)
        c->rc = sqlite3_bind_double(c->stmt, c->at, n);
}

bool sql_step(struct sql_call *c)
{
    if (c->rc == SQLITE_OK || c->rc == SQLITE_ROW)
        c->rc = sqlite3_step(c->stmt);
    return c->rc == SQLITE_ROW;
}

int sql_end(struct sql_call *c)
{
    bool good = c->rc == SQLITE_OK || c->rc == SQLITE_ROW || c->rc == SQLITE_DONE;
    int status = good ? STORE_OK : sql_conn_failed(c->conn, c->rc);
    sqlite3_reset(c->stmt); /* repeats the step's error, which is noted already */
    return status;
}

int sql_run(struct sql_call *c)
{
    while (sql_step(c))
        ;
    return sql_end(c);
}

struct str sql_col(const struct sql_call *c, int column)
{
    int type = sqlite3_column_type(c->stmt, column);
    if (type == SQLITE_NULL)
        return STR_NULL;
    const void *p = type == SQLITE_BLOB ? sqlite3_column_blob(c->stmt, column)
                                        : (const void *)sqlite3_column_text(c->stmt, column);
    size_t n = (size_t)sqlite3_column_bytes(c->stmt, column);
    return (struct str){p ? p : "", n};
}

int64_t sql_col_int(const struct sql_call *c, int column)
{
    return sqlite3_column_int64(c->stmt, column);
}
