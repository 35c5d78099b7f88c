/* store_sqlite_private -- what the parts of the SQLite store share; no other file includes it.
 *
 * Shape:    sql_conn is a connection with its prepared statements (store_sqlite_conn.c holds the
 *           table of all SQL); sql_call is one use of a statement; journal holds the unsealed lines
 *           (store_sqlite_journal.c).
 * Thread:   a sql_conn and all on it: one at a time.
 * Errors:   enum store_error, mapped from SQLite's in one place, sql_conn_failed.
 */
#ifndef GATEWAY_STORE_STORE_SQLITE_PRIVATE_H
#define GATEWAY_STORE_STORE_SQLITE_PRIVATE_H

#include <sqlite3.h>
#include <stdatomic.h>
#include <uv.h>

#include "gateway/store/journal_tails.h"
#include "gateway/store/message_tree.h"
#include "gateway/store/store_lock.h"
#include "gateway/store/store_sqlite.h"
#include "gateway/store/store_sqlite_ahead.h"
#include "gateway/store/store_sqlite_gather.h"
#include "gateway/store/store_sqlite_grow.h"

/* --- connections ------------------------------------------------------------------------------ */

enum stmt {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_ROLLBACK,
    STMT_SNAPSHOT, /* begins a read transaction over several statements */
    STMT_DATA_VERSION,
    STMT_MARKS,
    STMT_MARKS_SET,
    STMT_TASK_NEW,
    STMT_INPUT_NEW,
    STMT_CONTEXT_NEW,
    STMT_CONTEXT_GONE,
    STMT_TASK_SET,
    STMT_TASK_EXISTS,
    STMT_BLOCK_NEW,
    STMT_CONVERSATION_ENSURE,
    STMT_CONVERSATION_SET,
    STMT_TITLE_SET,
    STMT_MESSAGE_NEW,
    STMT_TIP,
    STMT_TIP_SET,
    STMT_PLACE,
    STMT_QUESTION_OF,
    STMT_ANSWER_OF,
    STMT_ANSWERER_OF,
    STMT_CHILDREN,
    STMT_FIRST_ONES,
    STMT_COME_BETWEEN,
    STMT_CHILDREN_MOVE,
    STMT_HEIR_OF,
    STMT_MESSAGE_PASS,
    STMT_MESSAGE_DELETE,
    STMT_MESSAGE_OF_TASK,
    STMT_KEY_SET,
    STMT_ACK,
    STMT_INBOX_PUT,
    STMT_INBOX_TAKE,
    STMT_MARK_SET,
    STMT_MARK_GONE,
    STMT_NOTE_SET,
    STMT_NOTES_GONE,
    STMT_NOTICE_PUT,
    STMT_NOTICE_TAKE,
    STMT_TASK_KEYS,
    STMT_GARBAGE_ADD,
    STMT_TASKS_DELETE,
    STMT_MESSAGES_DELETE,
    STMT_KEYS_DELETE,
    STMT_NOTICES_DELETE,
    STMT_CONVERSATION_DELETE,
    STMT_OUTBOX_PUT,
    STMT_OUTBOX_TAKE,
    STMT_REVOKE,
    STMT_UNREVOKE,
    STMT_FILE_PUT,
    STMT_FILE_COUNT,
    STMT_FILE_USE,
    STMT_FILE_USED,
    STMT_FILES_EXPIRE_COUNT,
    STMT_FILES_EXPIRE,
    STMT_FILES_REMOVE,
    STMT_FILES_DELETE_COUNT,
    STMT_FILES_DELETE,
    STMT_FILE_USES_DELETE,
    STMT_TASK_FILES_COUNT,
    STMT_TASK_FILES_DELETE,
    STMT_TASK_FILE_USES_DELETE,
    STMT_USAGE_ENDED,
    STMT_USAGE_FORGET,
    STMT_USAGE_FORGET_ALL,
    STMT_USAGE_SEALED,
    STMT_USAGE_LESS,
    STMT_USAGE_NONE,
    STMT_USAGE_DAMAGED,
    STMT_USAGE_CLEAR,
    STMT_USAGE_COUNT,
    STMT_HAS_ENDED,
    STMT_GARBAGE_EVENTS,
    STMT_GARBAGE_TASK,
    STMT_TASK_EMPTY,
    STMT_TASK_DELETE,
    STMT_TASK_KEYS_DELETE,
    STMT_CONVERSATION_EMPTY,
    STMT_GARBAGE_FIRST,
    STMT_GARBAGE_BLOCKS,
    STMT_GARBAGE_INPUT,
    STMT_GARBAGE_INBOX,
    STMT_GARBAGE_DONE,
    STMT_JOURNAL_BOUNDS,
    STMT_JOURNAL_PUT,
    STMT_JOURNAL_CUT,
    STMT_JOURNAL_ROWS,
    STMT_SEALED,
    STMT_ASK_TASK,
    STMT_ASK_KEY,
    STMT_ASK_KEY_ROW,
    STMT_ASK_TASKS,
    STMT_ASK_TASKS_STATUS,
    STMT_ASK_TASKS_LIVE,
    STMT_ASK_OWNED,
    STMT_ASK_OWNED_LIVE,
    STMT_ASK_OWNED_NEWEST,
    STMT_ASK_RESULTS,
    STMT_ASK_LIVE,
    STMT_ASK_MESSAGES,
    STMT_ASK_MESSAGE,
    STMT_ASK_BRIEF,
    STMT_ASK_CONVERSATION,
    STMT_ASK_CONVERSATIONS,
    STMT_ASK_CONVERSATIONS_BEFORE,
    STMT_ASK_SEARCH,
    STMT_ASK_BLOCKS,
    STMT_ASK_INBOX,
    STMT_ASK_NOTES,
    STMT_ASK_NOTICES,
    STMT_ASK_EXPIRED,
    STMT_ASK_OLDEST,
    STMT_ASK_OLDEST_EVENTS,
    STMT_ASK_USAGE,
    STMT_ASK_SIZE,
    STMT_ASK_FULL,
    STMT_ASK_REVOKED,
    STMT_ASK_OUTBOX,
    STMT_ASK_PARTS,
    STMT_ASK_FILE,
    STMT_ASK_UPLOAD,
    STMT_ASK_BLOB,
    STMT_ASK_FILES_GONE,
    STMT_COUNT
};

struct sql_conn {
    sqlite3 *db;
    sqlite3_stmt *stmts[STMT_COUNT]; /* NULL until first used */
    char error[STORE_ERROR_TEXT];    /* SQLite's message for the last failure */
};

int sql_conn_open(struct sql_conn *conn, const char *path, bool read_only);
void sql_conn_close(struct sql_conn *conn); /* a zeroed one is allowed */
int sql_conn_exec(struct sql_conn *conn, const char *script);
int sql_conn_failed(struct sql_conn *conn, int rc); /* SQLite's message; what rc means */

/* One use of a statement: begin, bind in order, step or run, end.  After a failure the rest does
 * nothing, and end (or run) returns it. */
struct sql_call {
    struct sql_conn *conn;
    sqlite3_stmt *stmt;
    int at; /* last parameter bound */
    int rc; /* SQLite's */
};

struct sql_call sql_begin(struct sql_conn *conn, enum stmt stmt);
void sql_text(struct sql_call *c, struct str s); /* absent becomes NULL */
void sql_blob(struct sql_call *c, struct str s);
void sql_int(struct sql_call *c, int64_t n);
void sql_real(struct sql_call *c, double n);
void sql_last(struct sql_call *c); /* sorts after every text */
bool sql_step(struct sql_call *c); /* true for a row */
int sql_end(struct sql_call *c);
int sql_run(struct sql_call *c); /* all steps, and end */

/* Columns of a call's current row; valid until the next step. */
struct str sql_col(const struct sql_call *c, int column); /* text or blob */
int64_t sql_col_int(const struct sql_call *c, int column);

static inline int sql_run_plain(struct sql_conn *conn, enum stmt stmt)
{
    struct sql_call c = sql_begin(conn, stmt);
    return sql_run(&c);
}

/* --- checksums -------------------------------------------------------------------------------- */

/* Each row has the CRC-32C of its cells, with their types and lengths, and of its key, so that a
 * row in another's place is as wrong as one with a changed bit.  SQL calls it row_crc(…); nothing
 * in the schema does, so any shell can read the database.  A row that exists but is not as it was
 * written is damage (STORE_CORRUPT). */
uint32_t sql_crc_int(uint32_t crc, int64_t n);
uint32_t sql_crc_blob(uint32_t crc, const void *bytes, size_t n);
uint32_t sql_row_crc(const struct sql_call *c, uint32_t crc, int from,
                     int to); /* of columns, both included */
/* Whether the column after these holds their sum, which starts from crc. */
bool sql_is_sound(const struct sql_call *c, uint32_t crc, int from, int to);
/* A block's lines are packed, and the column has their size; or they stand as they are. */
static inline bool sql_block_is_packed(int64_t crc)
{
    return crc >> 32 != 0;
}
/* Whether the bytes of a block may be lines of that size, packed or not, by its column crc and the
 * sum of the columns before that. */
bool sql_block_is_sound(struct str bytes, size_t size, int64_t crc, uint32_t sum);
/* Notes what is damaged, and returns STORE_CORRUPT. */
int sql_conn_damaged(struct sql_conn *conn, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int sql_crc_register(sqlite3 *db); /* row_crc, for this connection; SQLite's code */

/* For this connection, raw_lines(…) of a block's bytes, and raw_row(…) of a row of the journal: the
 * same with lines that are not packed.  SQLite's code; in store_sqlite_raw.c. */
int sql_raw_register(sqlite3 *db);

/* --- schema ----------------------------------------------------------------------------------- */

/* The columns of a task's row, in the order in which the reader takes them and the writer binds
 * them.  Each of the three groups has its own checksum: the first is never written again; lists
 * read the second; the third is long, and lists do not read it, so they never touch its overflow
 * pages.  All three cover the task's key. */
#define SQL_NAME(name) ", " #name
#define SQL_NAME_OF(type, name) SQL_NAME(name)
#define SQL_TASK_FIXED \
    "task_key" TASK_FIXED_NUMBERS(SQL_NAME_OF) TASK_NAMES(SQL_NAME) TASK_FIXED_TEXTS(SQL_NAME)
/* These follow other columns: each begins with a comma. */
#define SQL_TASK_STATE TASK_STATE_NUMBERS(SQL_NAME_OF, SQL_NAME) TASK_STATE_TEXTS(SQL_NAME)
#define SQL_TASK_LONG TASK_LONG_TEXTS(SQL_NAME)
#define SQL_TASK_INPUT TASK_INPUT_TEXTS(SQL_NAME)

/* task_record_cost of tasks t and inputs i. */
#define SQL_BYTES(column) "coalesce(length(CAST(" column " AS BLOB)), 0)"
#define SQL_TASK_COST                                                                                                                       \
    "(1024 + (1 + (t.type IN (0, 3))) * (" SQL_BYTES("i.input") " + " SQL_BYTES("t.output") ") + " SQL_BYTES("i.metadata") " + " SQL_BYTES( \
        "i.parts") " + " SQL_BYTES("t.result") " + " SQL_BYTES("t.undelivered") " + " SQL_BYTES("t.answers") ")"
_Static_assert(TASK_ROW_BYTES == 1024 && TYPE_CHAT == 0 && TYPE_NOTICE == 3,
               "SQL_TASK_COST has them");
/* The state of a file: new, named by a task, gone. */
#define SQL_FILE_COST "(1024 + size)" /* file_record_cost */
#define SQL_FILE \
    "owner, conversation_id, file_id, name, media_type, sha256, blob, upload, size, created_at, state"
/* The bytes of a block's lines.  Where they are packed, their size stands above the 32 bits of the
 * checksum: there it can be read without the pages of the bytes, also in rows of older gateways. */
#define SQL_BLOCK_SIZE "coalesce(nullif(crc >> 32, 0), length(bytes))"
#define SQL_BLOCK_SIZE_OF_B "coalesce(nullif(b.crc >> 32, 0), length(b.bytes))" /* of blocks b */
/* Rows of owner, bytes: each owner's usage, in parts; reads the size of every block. */
#define SQL_USAGE_PARTS                                                                         \
    "SELECT t.owner AS owner, " SQL_TASK_COST " AS bytes FROM tasks t" SQL_WITH_INPUT           \
    "WHERE t.status >= 2 UNION ALL SELECT t.owner, " SQL_BLOCK_SIZE_OF_B                        \
    " FROM tasks t JOIN blocks b ON "                                                           \
    "b.task_key = t.task_key WHERE t.task_key NOT IN (SELECT task_key FROM garbage) UNION ALL " \
    "SELECT g.owner, " SQL_BLOCK_SIZE_OF_B                                                      \
    " FROM garbage g JOIN blocks b ON b.task_key = g.task_key "                                 \
    "WHERE g.owner IS NOT NULL UNION ALL SELECT owner, " SQL_FILE_COST                          \
    " FROM files WHERE state < 2"
/* The columns under a conversation's checksum, and under a message's. */
#define SQL_CONVERSATION \
    "owner, conversation_id, title, agent, updated_at, notices, unlisted, tip, tip_task, flags"
#define SQL_MESSAGE \
    "owner, conversation_id, message_id, task_id, role, partial, created_at, content, parent_id, behind"
enum { /* their places in a row, from which the checksum follows */
       COL_MESSAGE_ID = 2,
       COL_MESSAGE_TASK,
       COL_MESSAGE_ROLE,
       COL_MESSAGE_PARTIAL,
       COL_MESSAGE_CREATED,
       COL_MESSAGE_CONTENT,
       COL_MESSAGE_PARENT,
       COL_MESSAGE_BEHIND
};
#define SQL_WITH_INPUT " LEFT JOIN inputs i ON i.task_key = t.task_key "

/* Brings the database to version n by scripts[version..n-1], each in its own transaction. */
int sql_schema_migrate(struct sql_conn *conn, const char *const *scripts, int n,
                       char ret_error[STORE_ERROR_TEXT]);
extern const char *const schema_scripts[];
extern const int schema_version;

/* --- journal ---------------------------------------------------------------------------------- */

struct sqlite_journal {
    struct sql_conn *conn;
    struct journal_tails tails;
    int64_t first_row, next_row; /* rows that may exist: first_row .. next_row - 1 */

    /* The current transaction's state; sqlite_journal_rollback undoes it, sqlite_journal_commit
     * keeps it. */
    int64_t batch_row; /* id of the row being filled */
    struct buf row;
    int64_t cut_to;
};

int sqlite_journal_open(struct sqlite_journal *j, struct sql_conn *conn);
void sqlite_journal_close(struct sqlite_journal *j);
bool sqlite_journal_has(const struct sqlite_journal *j, int64_t task_key); /* as committed */
int sqlite_journal_lines(struct sqlite_journal *j, int64_t task_key, uint64_t first, uint64_t last,
                         struct str bytes);
void sqlite_journal_drop(struct sqlite_journal *j,
                         int64_t task_key);          /* the task's lines so far are dead */
int sqlite_journal_finish(struct sqlite_journal *j); /* the last step before COMMIT */
void sqlite_journal_commit(struct sqlite_journal *j);
void sqlite_journal_rollback(struct sqlite_journal *j);

/* All unsealed lines in a reader's view; ret is set only by success. */
int sql_tails_load(struct sql_conn *conn, struct tails *ret);

#define PACKED_KEPT (256u * 1024) /* room for lines that are packed; a longer line's goes again */

/* --- the store -------------------------------------------------------------------------------- */

enum checkpoint { CHECKPOINT_NONE, CHECKPOINT_ASKED, CHECKPOINT_READY, CHECKPOINT_STOP };

struct store_sqlite {
    struct sql_conn writer;
    struct sql_gather gather; /* the writer's */
    struct sqlite_journal journal;
    struct store_start marks, new_marks; /* as committed; as in the current transaction */
    bool deletes;                        /* the current transaction deletes tasks */
    bool has_garbage;
    struct buf packed; /* the lines that are being written */
    char *path;        /* the database's */
    struct store_lock held;

    size_t wal_limit; /* frames */
    _Atomic uint64_t wal_frames, checkpoint_failures;
    atomic_bool checkpoints_fail; /* the last one did */
    uint64_t checkpoint_pause_ns; /* minimum, after one that failed */

    uv_mutex_t lock;        /* for the members below */
    uv_cond_t wake, copied; /* the thread's; the writer's, when it waits for the thread */
    enum checkpoint checkpoint;
    uint64_t checkpoint_not_before; /* by uv_hrtime */
    bool has_thread;
    uv_thread_t thread;
    struct sql_conn checkpointer; /* the thread's, like the next ones */
    struct sql_grow grow;
    uint64_t copied_frames; /* in the WAL, according to the last checkpoint */
    char error[STORE_ERROR_TEXT];
};

struct sql_reader {
    struct sql_conn conn;
    struct sql_ahead ahead; /* the connection's */
    struct buf packed;      /* a block's bytes, before its lines are unpacked */
    struct store_sqlite *store;
    struct tails tails; /* the last QUERY_TAILS, for its next page */
    int64_t tails_version;
};

void store_note_error(struct store_sqlite *s, const struct sql_conn *conn);

/* store_sqlite_write.c */
int sqlite_commit(void *store, const struct batch *batch);
void sqlite_roll_back(struct store_sqlite *s);

/* store_sqlite_tree.c: inside a transaction. */
enum stmt sqlite_tree_stmt(enum tree_text what, struct str about);
int sqlite_message_put(struct store_sqlite *s, const struct op *op);
int sqlite_branch(struct store_sqlite *s, const struct op *op);
/* The messages of a task that goes. */
int sqlite_messages_of_task_remove(struct store_sqlite *s, const struct op *op);

/* store_sqlite_retention.c: inside a transaction, except for usage_mend and collect_garbage. */
int sqlite_usage_ended(struct store_sqlite *s,
                       int64_t task_key); /* its record counts from now on */
int sqlite_usage_forget(struct store_sqlite *s, int64_t task_key); /* no longer, if it did */
int sqlite_usage_mend(struct store_sqlite *s); /* at the start: recounts what is damaged */
int sqlite_usage_sealed(struct store_sqlite *s, int64_t task_key, size_t bytes);
int sqlite_events_remove(struct store_sqlite *s, const struct op *op);
int sqlite_task_remove(struct store_sqlite *s, const struct op *op);
void sqlite_collect_garbage(struct store_sqlite *s); /* a bounded piece */

/* store_sqlite_files.c: inside a transaction, except for the question. */
int sqlite_file_put(struct store_sqlite *s, const struct op *op);
int sqlite_file_use(struct store_sqlite *s, const struct op *op);
int sqlite_files_expire(struct store_sqlite *s, const struct op *op);
int sqlite_files_remove(struct store_sqlite *s, const struct op *op);
int sqlite_ask_files(struct sql_reader *r, const struct query *q, struct answer *ret);
void sqlite_note_id(struct store_sqlite *s, struct str id); /* the newest of all */

/* store_check.c, for file_check.c */
struct store_check;
int store_check_open(struct sql_conn *conn, const char *database, bool is_still);
void store_check_fault(struct store_check *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* store_sqlite_read.c */
int sqlite_query(void *reader, const struct query *query, struct answer *ret);
int sqlite_list_tasks(struct sql_call *c, const struct query *q, struct answer *ret);
/* Adds the message in the row; STORE_CORRUPT when it is not as it was written. */
int sqlite_take_message(struct sql_call *c, struct answer *ret);

/* store_sqlite_tree_read.c */
int sqlite_ask_path(struct sql_reader *r, const struct query *q, struct answer *ret);
int sqlite_ask_turn(struct sql_reader *r, const struct query *q, struct answer *ret);
/* The ids of the messages with that parent, NULL for none, in the query's conversation, as in
 * message_record.siblings, but also of a single one. */
int sqlite_ids_below(struct sql_conn *conn, const struct query *q, struct str parent_id,
                     struct buf *ret);

/* store_sqlite_lines.c */
int sqlite_ask_inbox(struct sql_reader *r, const struct query *q, struct answer *ret);
int sqlite_ask_notes(struct sql_reader *r, const struct query *q, struct answer *ret);
int sqlite_ask_blocks(struct sql_reader *r, const struct query *q, struct answer *ret);
int sqlite_ask_tails(struct sql_reader *r, const struct query *q, struct answer *ret);

#endif
