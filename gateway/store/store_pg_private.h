/* store_pg_private -- what the parts of the PostgreSQL store share; no other file includes it.
 *
 * Shape:    pg_conn is a connection in pipeline mode with its prepared statements (store_pg_sql.c
 *           holds all SQL but the schema's); pg_call is one use of a statement.  Texts are bytea on
 *           the server: they may hold NUL bytes, and sort as bytes.  All numbers are int8.
 * Thread:   a pg_conn and all on it: one at a time.
 * Errors:   enum store_error, from the SQLSTATE in one place, pg_conn_failed.
 */
#ifndef GATEWAY_STORE_STORE_PG_PRIVATE_H
#define GATEWAY_STORE_STORE_PG_PRIVATE_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <uv.h>

#include "gateway/store/journal_tails.h"
#include "gateway/store/message_tree.h"
#include "gateway/store/store_lock.h"
#include "gateway/store/store_pg.h"

/* --- statements ------------------------------------------------------------------------------- */

enum pg_stmt {
    PG_BEGIN,
    PG_SNAPSHOT, /* begins a read transaction over several statements */
    PG_COMMIT,
    PG_ROLLBACK,

    PG_FENCE,
    PG_READ_BACK,
    PG_VOID,
    PG_END_BACKENDS,
    PG_CLUSTER_LOCK,
    PG_CLUSTER_NUMBER,
    PG_HISTORY,
    PG_HISTORY_NOTE,
    PG_HISTORY_OF_NODE,
    PG_HISTORY_KEEP,
    PG_UNCONFIRMED,
    PG_INCARNATIONS,
    PG_SLOT_MOVED,
    PG_ROW_EXISTS,
    PG_REWOUND,
    PG_NODES,
    PG_NODE_DEAD,
    PG_BEAT_DEAD,
    PG_NODE_HOLD,
    PG_NODE_FORGET,
    PG_BEAT_FORGET,
    PG_NODE_NEW,
    PG_NODE_LINK,
    PG_NODE_GOES,
    PG_BEAT_NEW,
    PG_BEAT,
    PG_NODE_LEAVE,
    PG_SLOTS_SINCE,
    PG_SLOTS_CLAIM,
    PG_SLOTS_RELEASE,
    PG_SLOTS_PASS,
    PG_SLOTS_FREE,
    PG_NEWEST_ID,
    PG_NEWEST_ID_KEEP,
    PG_NUMBER_RAISE,
    PG_STANDBYS,
    PG_NAME_SET,

    PG_TASK_NEW,
    PG_INPUT_NEW,
    PG_CONTEXT_NEW,
    PG_CONTEXT_GONE,
    PG_TASK_SET,
    PG_TASKS_SET,
    PG_TASKS_EXIST,
    PG_BLOCK_NEW,
    PG_BLOCKS_NEW,
    PG_CONVERSATION_ENSURE,
    PG_CONVERSATION_SET,
    PG_TITLE_SET,
    PG_MESSAGE_NEW,
    PG_TIP,
    PG_TIP_SET,
    PG_PLACE,
    PG_QUESTION_OF,
    PG_ANSWER_PLACES,
    PG_ANSWER_OF,
    PG_ANSWERER_OF,
    PG_CHILDREN,
    PG_FIRST_ONES,
    PG_COME_BETWEEN,
    PG_CHILDREN_MOVE,
    PG_HEIR_OF,
    PG_MESSAGE_PASS,
    PG_MESSAGE_DELETE,
    PG_MESSAGE_OF_TASK,
    PG_HAS_ENDED,
    PG_FILE_PUT,
    PG_FILE_COUNT,
    PG_FILE_USE,
    PG_FILES_EXPIRE,
    PG_FILES_REMOVE,
    PG_FILES_DELETE,
    PG_FILE_USES_DELETE,
    PG_TASK_FILES_DELETE,
    PG_TASK_FILE_USES_DELETE,
    PG_KEY_SET,
    PG_ACK,
    PG_INBOX_PUT,
    PG_INBOX_TAKE,
    PG_MARK_SET,
    PG_MARK_GONE,
    PG_NOTE_SET,
    PG_NOTES_GONE,
    PG_NOTICE_PUT,
    PG_NOTICE_TAKE,
    PG_OUTBOX_PUT,
    PG_OUTBOX_TAKE,
    PG_REVOKE,
    PG_UNREVOKE,
    PG_USAGE_ENDED,
    PG_USAGE_FORGET,
    PG_USAGE_FORGET_ALL,
    PG_GARBAGE_ADD,
    PG_TASKS_DELETE,
    PG_MESSAGES_DELETE,
    PG_KEYS_DELETE,
    PG_NOTICES_DELETE,
    PG_CONVERSATION_DELETE,
    PG_EVENTS_REMOVE,
    PG_TASK_REMOVE,
    PG_USAGE_LESS,
    PG_USAGE_NONE,
    PG_EMPTY_MESSAGES_DELETE,
    PG_EMPTY_CONVERSATION_DELETE,
    PG_GARBAGE_FIRST,
    PG_GARBAGE_BLOCKS,
    PG_GARBAGE_INPUT,
    PG_GARBAGE_INBOX,
    PG_GARBAGE_DONE,

    PG_JOURNAL_PUT,
    PG_JOURNAL_CUT,
    PG_JOURNAL_ROWS,
    PG_JOURNAL_GONE,
    PG_JOURNAL_INHERIT,
    PG_SEALED,

    PG_ASK_TASK,
    PG_ASK_KEY,
    PG_ASK_TASKS,
    PG_ASK_TASKS_STATUS,
    PG_ASK_TASKS_LIVE,
    PG_ASK_OWNED,
    PG_ASK_OWNED_LIVE,
    PG_ASK_OWNED_NEWEST,
    PG_ASK_RESULTS,
    PG_ASK_LIVE,
    PG_ASK_MESSAGES,
    PG_ASK_MESSAGE,
    PG_ASK_BRIEF,
    PG_ASK_PATH,
    PG_ASK_CONVERSATION,
    PG_ASK_CONVERSATIONS,
    PG_ASK_CONVERSATIONS_BEFORE,
    PG_ASK_SEARCH,
    PG_ASK_BLOCKS,
    PG_ASK_INBOX,
    PG_ASK_NOTES,
    PG_ASK_NOTICES,
    PG_ASK_EXPIRED,
    PG_ASK_OLDEST,
    PG_ASK_OLDEST_EVENTS,
    PG_ASK_USAGE,
    PG_ASK_SIZE,
    PG_ASK_FULL,
    PG_ASK_OUTBOX,
    PG_ASK_REVOKED,
    PG_ASK_FILE,
    PG_ASK_UPLOAD,
    PG_ASK_BLOB,
    PG_ASK_FILES_GONE,

    PG_BYTES_HOLD,
    PG_PART_SIZE,
    PG_PART_GROW,
    PG_CHUNK_PUT,
    PG_PART_READ,
    PG_PART_FORGET_TWICE,
    PG_PART_FORGET,
    PG_PART_DROP,
    PG_PARTS_OF,
    PG_PARTS_SWEEP,
    PG_BLOB_KEEP,
    PG_BLOB_READ,
    PG_BLOB_DROP,
    PG_BLOBS_LIST,
    PG_COUNT
};

/* Its text: each "?" is the next parameter, "?1" the first again. */
const char *pg_sql(enum pg_stmt stmt);

#define PG_NAME(name) ", " #name
#define PG_NAME_OF(type, name) PG_NAME(name)
#define PG_TASK_FIXED TASK_FIXED_NUMBERS(PG_NAME_OF) TASK_NAMES(PG_NAME) TASK_FIXED_TEXTS(PG_NAME)
#define PG_TASK_STATE TASK_STATE_NUMBERS(PG_NAME_OF, PG_NAME) TASK_STATE_TEXTS(PG_NAME)
#define PG_TASK_LONG TASK_LONG_TEXTS(PG_NAME)
#define PG_TASK_INPUT TASK_INPUT_TEXTS(PG_NAME)
/* A file's columns: behind others, like those of a task. */
#define PG_FILE FILE_NAMES(PG_NAME) FILE_TEXTS(PG_NAME) FILE_NUMBERS(PG_NAME_OF)

/* --- connections ------------------------------------------------------------------------------ */

struct pg_conn {
    PGconn *pg; /* NULL: none */
    bool prepared[PG_COUNT];
    bool is_reader;
    size_t host;        /* of the URL's: the one that took us last */
    size_t n_queued;    /* since the last flush */
    bool mending;       /* after a failure: in after_failure */
    bool warned;        /* the server warned since pg_flush began */
    int answer_ms;      /* longest wait for an answer */
    int64_t generation; /* of a reader: the writer's connection that it belongs to */
    char state[6];      /* SQLSTATE of the last failure, "" for none of the server's */
    char error[STORE_ERROR_TEXT];
};

/* False with conn->error: not reached, not writable, too old. */
bool pg_conn_open(struct pg_conn *conn, const struct store_pg_options *o, const char *name);
void pg_conn_close(struct pg_conn *conn); /* a zeroed one is allowed */
static inline bool pg_conn_is_open(const struct pg_conn *conn)
{
    return conn->pg && PQstatus(conn->pg) == CONNECTION_OK;
}
int pg_conn_pid(const struct pg_conn *conn);
/* Any SQL without parameters, several statements too; not in a pipeline. */
int pg_conn_exec(struct pg_conn *conn, const char *script);

/* --- calls ------------------------------------------------------------------------------------ */

#define PG_PARAMS_MAX 80

/* One use of a statement: begin, bind in order, then pg_send or pg_ask. */
struct pg_call {
    struct pg_conn *conn;
    enum pg_stmt stmt;
    int n;
    Oid types[PG_PARAMS_MAX];
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX];
    char numbers[PG_PARAMS_MAX][8];
};
void pg_begin(struct pg_call *c, struct pg_conn *conn, enum pg_stmt stmt);
void pg_text(struct pg_call *c, struct str s); /* absent becomes NULL; must outlive the call */
void pg_int(struct pg_call *c, int64_t n);
void pg_real(struct pg_call *c, double n);
void pg_last(struct pg_call *c);                           /* sorts after every text */
void pg_array(struct pg_call *c, const struct buf *array); /* pg_ints_begin … */

/* Arrays, as the protocol has them: one is begun, and then added to. */
void pg_ints_begin(struct buf *b);
void pg_reals_begin(struct buf *b);
void pg_texts_begin(struct buf *b);
void pg_ints_add(struct buf *b, int64_t n);
void pg_reals_add(struct buf *b, double n);
void pg_texts_add(struct buf *b, struct str s); /* absent becomes NULL */
size_t pg_array_n(const struct buf *b);         /* 0: not begun, too */

/* Queues it.  Its results come in order from pg_flush. */
void pg_send(struct pg_call *c);
/* Sends what is queued and waits for all answers: each statement's result, without those of
 * preparations, goes to take (which may be NULL).  The first failure is returned; what follows it
 * in the same flush was not carried out. */
typedef bool (*pg_take_fn)(void *arg, size_t i, PGresult *result); /* true: it keeps that */
int pg_flush(struct pg_conn *conn, pg_take_fn take, void *arg);
/* Sends one call alone; ret is to be PQclear'ed, NULL after a failure. */
int pg_ask(struct pg_call *c, PGresult **ret);
int pg_run(struct pg_call *c);
int pg_run_plain(struct pg_conn *conn, enum pg_stmt stmt);

/* Cells; valid until the result is cleared. */
struct str pg_col(const PGresult *r, int row, int column);
int64_t pg_col_int(const PGresult *r, int row, int column);
double pg_col_real(const PGresult *r, int row, int column);
static inline bool pg_col_is_null(const PGresult *r, int row, int column)
{
    return PQgetisnull(r, row, column) != 0;
}

/* --- the journal ------------------------------------------------------------------------------ */

struct pg_journal {
    struct journal_tails tails;
    int64_t incarnation; /* ours; what was left by one before us has numbers below 0 */
    int64_t first;       /* rows before this are deleted */

    /* The current batch's; pg_journal_rollback drops it, pg_journal_commit keeps it. */
    struct buf row;
    int64_t cut_to;
    int64_t *there; /* sorted; NULL: nobody was asked */
    size_t n_there;
};

void pg_journal_init(struct pg_journal *j);
void pg_journal_done(struct pg_journal *j);
/* Reads what the database has; inside no transaction. */
int pg_journal_load(struct pg_journal *j, struct pg_conn *conn);
bool pg_journal_has(const struct pg_journal *j, int64_t task_key); /* as committed */
void pg_journal_lines(struct pg_journal *j, int64_t task_key, uint64_t first, uint64_t last,
                      struct str bytes);
void pg_journal_drop(struct pg_journal *j, int64_t task_key); /* the lines so far are dead */
void pg_journal_finish(struct pg_journal *j, struct pg_conn *conn, int64_t n);
/* Keys of the batch's tasks that may not exist (all: this batch deletes): the server is asked. */
void pg_journal_strangers(const struct pg_journal *j, bool all, struct buf *keys);
/* The answer: of those that were asked for, these exist.  Takes the array. */
void pg_journal_there(struct pg_journal *j, int64_t *keys, size_t n);
void pg_journal_commit(struct pg_journal *j, int64_t n);
void pg_journal_rollback(struct pg_journal *j);

/* All unsealed lines in one incarnation's rows, of these slots (NULL: of all); ret is set only by
 * success. */
int pg_tails_load(struct pg_conn *conn, int64_t incarnation, const struct slots *slots,
                  struct tails *ret);
/* The last line of each task that is in blocks, of those that exist: rows of key, line, slot. */
int pg_ask_sealed(struct pg_conn *conn, const struct buf *keys, PGresult **ret);

/* --- ends ------------------------------------------------------------------------------------- */

#define PG_ONE_N(type, name) +1
#define PG_ONE(name) +1
#define PG_STATE_COLUMNS \
    (TASK_STATE_NUMBERS(PG_ONE_N, PG_ONE) TASK_STATE_TEXTS(PG_ONE) TASK_LONG_TEXTS(PG_ONE))

/* Tasks that end in the current batch, and are not sent yet. */
#define PG_ENDS_MOST 1024
struct pg_ends {
    struct buf keys, columns[PG_STATE_COLUMNS];
    size_t n, bytes;
    int64_t table[4 * PG_ENDS_MOST]; /* the same keys, by hash; 0: none */
};

/* Answers of the current batch, asked about before they are put: their conversations are
 * touched by no other op of it. */
struct pg_answers {
    uint8_t *touched;   /* by the conversation's hash: how many ops move its messages, up to 2 */
    size_t mask, asked; /* asked: about the ops before that one */
    PGresult *rows;
    int next, row; /* row: of the current op; -1: not known */
};

/* --- the store -------------------------------------------------------------------------------- */

#define PG_LIFE_BYTES 16
#define PG_FILE_CELL 65536 /* no chunk of a file reaches over a multiple of it */
#define PG_HISTORY_TEXT 80

/* How far this node is after the server has become another one (store_pg_redo.c).  Only a sure one
 * commits, answers and trusts its lease. */
enum pg_phase { PG_SURE, PG_ASKS, PG_WAITS };

/* The last batches, oldest first: what a server that lost them gets again. */
struct pg_redo {
    struct list kept;
    size_t bytes, most;
    int64_t last;           /* nodes.batch behind the newest */
    _Atomic uint64_t again; /* batches that were sent again */
};

struct store_pg {
    struct store_pg_options o;
    char *url, *node;
    char *place; /* tells data directories apart; "" for none */
    bool holds_place;
    struct store_lock held;
    struct pg_conn writer;
    struct pg_journal journal;
    struct pg_ends ends;
    struct pg_answers answers;
    int64_t incarnation;
    struct slots dealt; /* nobody's, and ours since the start; set once */
    char life[PG_LIFE_BYTES];
    char name[48];   /* of all connections: pg_node_name */
    uint64_t number; /* committed last */
    uint64_t doubt;  /* sent, and its outcome is not known; 0: none */
    int64_t in_row;  /* nodes.batch, as we left it */
    struct store_start marks;
    char newest_id[TASK_ID_LEN + 1]; /* with the current batch */
    int pid;                         /* of the writer's backend, also when its connection is lost */
    atomic_bool fenced;
    bool deletes, has_garbage;
    bool committed; /* the current batch's COMMIT was answered */
    struct pg_redo redo;
    char history[PG_HISTORY_TEXT]; /* of the server that the writer is on; under lock */
    atomic_int phase;              /* enum pg_phase */
    _Atomic uint64_t asked;        /* how often it was PG_ASKS */
    int64_t asks_since;            /* by pg_boot_ms */
    int64_t claimed,
        claimed_slot;        /* number of our newest claim, and one of its slots; under lock */
    atomic_bool wants_range; /* for keys */
    atomic_bool suspects;    /* somebody else met another server: the writer connects again */
    _Atomic(struct pg_watch *) watch; /* NULL: idle gives the signs of life; set while it runs */
    _Atomic uint32_t load;            /* to be told with the next sign of life */
    _Atomic int64_t beat_at;          /* by pg_boot_ms: when the last one that worked was sent */
    _Atomic uint64_t commits;         /* that were made: what a reader has kept is older */
    _Atomic int64_t generation;       /* of the writer's connection: readers have none older */

    uv_mutex_t lock; /* for error and history */
    char error[STORE_ERROR_TEXT];
};

struct pg_reader {
    struct store_pg *store;
    struct pg_conn conn;
    struct tails tails; /* the last QUERY_TAILS, for its next pages */
    uint64_t tails_at;  /* commits, then */
};

void pg_note_error(struct store_pg *s, const struct pg_conn *conn);

/* store_pg_schema.c: each script turns a version into the next; the columns come behind its tables,
 * and before its indexes. */
struct pg_script {
    const char *tables, *indexes; /* NULL: none */
};
extern const struct pg_script pg_scripts[];
extern const int pg_schema_version;
extern const char pg_columns[];
/* Creates what is missing; the cluster's row is locked meanwhile. */
int pg_schema_migrate(struct pg_conn *conn, char ret_error[STORE_ERROR_TEXT]);
int64_t pg_now(void); /* by uv_hrtime, in ms */

/* store_pg_node.c */
/* The application_name of a node's connections: holdfast, its incarnation, a part of its life. */
void pg_node_name(int64_t incarnation, const char *life, char ret[48]);
int pg_node_join(struct store_pg *s, char ret_error[STORE_ERROR_TEXT]);
void pg_node_beat(struct store_pg *s); /* when one is due, on the writer's connection */
/* One, on any; STORE_FENCED when it is too late.  May be a part of a transaction. */
int pg_beat_on(struct store_pg *s, struct pg_conn *conn);
void pg_node_leave(struct store_pg *s);
/* The next of the numbers that are given once; within a transaction, nobody else gets one before
 * its end. */
int pg_number_take(struct pg_conn *conn, int64_t *ret);
/* The newest id of any record; "" for none. */
int pg_newest_read(struct pg_conn *conn, char ret[TASK_ID_LEN + 1]);
int pg_backends_end(struct pg_conn *conn, const char *name, int pid);
int64_t pg_lease_ms(const struct store_pg *s);
int64_t pg_boot_ms(void); /* CLOCK_BOOTTIME: it goes on while the machine sleeps */

/* At a join, within its transaction: notes which history the server's log is of; where that is
 * another one than before, what was committed behind the fork may be lost with those who had it,
 * and the epoch is raised. */
int pg_history_note(const struct store_pg *s, struct pg_conn *conn);

/* store_pg_view.c: the newest of the nodes; of the slots, those that have moved since. */
int pg_view_read(struct pg_conn *conn, struct store_view *view, char names[STORE_NODES_MAX][48],
                 int64_t *last_moved);
/* store_pg_clock.c: before the join.  STORE_BUSY: it is not to be, for the wall clock. */
int pg_clock_check(struct store_pg *s, char ret_error[STORE_ERROR_TEXT]);
/* How many living nodes have not said that they are on that history. */
int pg_unconfirmed(struct pg_conn *conn, const char *history, int64_t *ret);

/* store_pg_ends.c */
void pg_ends_begin(struct pg_ends *e); /* forgets them */
void pg_ends_done(struct pg_ends *e);
void pg_ends_before(struct store_pg *s, const struct op *op); /* sends them, if it must not wait */
void pg_ends_put(struct pg_ends *e, const struct op *op);     /* behind pg_ends_before */
void pg_ends_send(struct store_pg *s);

/* store_pg_answers.c */
void pg_answers_begin(struct pg_answers *p, const struct batch *batch);
void pg_answers_end(struct pg_answers *p);
/* Looks whether the place of the batch's nth op is known, and asks for that and for the next ones'
 * at once. */
int pg_answers_look(struct store_pg *s, const struct batch *batch, size_t nth);
/* About the current op; false when it is not known.  The question is there, and has no answer but
 * the op's own. */
bool pg_answer_tip(const struct pg_answers *p, struct str *ret_tip, struct str *ret_task);
bool pg_answer_question(const struct pg_answers *p, struct str *ret);

/* store_pg_watch.c */
void pg_watch_stop(struct store_pg *s);

/* store_pg_rescue.c: what a dead node left is sealed, and its slots are nobody's.  Several gateways
 * may do it at once: STORE_NOT_FOUND, another one has done it. */
int pg_rescue(struct pg_conn *conn, int64_t incarnation);
/* The thread for it, one node after the other: one that the server refuses is in no other's way,
 * and is tried less and less often. */
struct pg_rescuer {
    struct store_pg *s;
    void (*done)(void *arg); /* in that thread, for better or worse */
    void *arg;
    uv_thread_t thread;
    int64_t about, last; /* incarnations; 0: none */
    int64_t again_at;    /* by pg_boot_ms */
    uint64_t n_failed;   /* in a row */
    bool failed;         /* the thread's until is_over */
    atomic_bool is_over;
};
void pg_rescuer_turn(struct pg_rescuer *r, const struct store_view *view);
void pg_rescuer_collect(struct pg_rescuer *r); /* waits for it */
/* Ends an old backend of ours, which may still carry out a batch.  STORE_BUSY: it is there yet. */
int pg_backend_end(struct store_pg *s, int pid);
/* Whether the setting of replicated is kept by the server; conn->error says why not. */
int pg_node_check_standby(struct store_pg *s);

/* store_pg_redo.c: what becomes of a node when the server is another one than before. */
void pg_redo_init(struct store_pg *s);
void pg_redo_done(struct store_pg *s);
/* The batch was committed, or given up (NULL), and moved nodes.batch from there to here. */
void pg_redo_keep(struct store_pg *s, int64_t from, int64_t to, const struct batch *batch);
void pg_redo_age(struct store_pg *s);
int pg_history_read(struct pg_conn *conn, char ret[PG_HISTORY_TEXT]);
/* The writer has a new connection. */
int pg_history_meet(struct store_pg *s);
/* Any other connection: STORE_BUSY while the writer is not sure of that server. */
int pg_history_ask(struct store_pg *s, struct pg_conn *conn);
bool pg_history_is(struct store_pg *s, const char *history);
bool pg_is_sure(struct store_pg *s);
/* Goes on with it, on the writer: STORE_OK when this node is sure, STORE_BUSY while it is not. */
int pg_history_settle(struct store_pg *s);
/* Clients have seen what the store has not: the epoch is raised, and this node ends. */
int pg_tail_is_lost(struct store_pg *s, const char *why);
/* The published view; false: there is none. */
bool pg_watch_view(struct store_pg *s, struct store_view *ret);

int pg_raise(struct pg_conn *conn, int64_t given); /* the epoch, above a number that was given */

/* store_pg_place.c */
int pg_place_take(struct store_pg *s, const char *dir, char ret_error[STORE_ERROR_TEXT]);

/* store_pg_commit.c */
int pg_commit(void *store, const struct batch *batch);
int pg_writer_open(struct store_pg *s); /* connects again if need be, and ends what was before */
int pg_read_back(struct store_pg *s, int64_t *ret); /* nodes.batch, as it is on every disk */
int pg_commit_again(struct store_pg *s, const struct batch *batch, uint64_t n);
int pg_say_fenced(struct store_pg *s, const char *why);

/* Asks inside the batch's transaction: carries out first what is queued. */
int pg_ask_within(struct store_pg *s, struct pg_call *c, PGresult **ret);

/* store_pg_write.c: the batch's ops, queued.  Some ask on the way: a failure ends the batch. */
int pg_put_ops(struct store_pg *s, const struct batch *batch);

/* store_pg_files.c: queued. */
void pg_put_file(struct store_pg *s, const struct op *op);
void pg_put_file_use(struct store_pg *s, const struct op *op);
void pg_put_files_expire(struct store_pg *s, const struct op *op);
int pg_ask_files(struct pg_reader *r, const struct query *q, struct answer *ret);

/* store_pg_tree.c: such ops. */
enum pg_stmt pg_tree_stmt(enum tree_text what, struct str about);
int pg_put_message(struct store_pg *s, const struct op *op);
int pg_put_branch(struct store_pg *s, const struct op *op);
/* The messages of a task that goes. */
int pg_messages_of_task_remove(struct store_pg *s, const struct op *op);
void pg_collect_garbage(struct store_pg *s); /* a bounded piece */

/* store_pg_read.c */
int pg_query(void *reader, const struct query *query, struct answer *ret);
int64_t pg_rows_wanted(const struct query *q);           /* one more than may be taken */
void pg_bound(struct pg_call *c, const struct query *q); /* binds that, and the bytes */
void pg_slots(struct pg_call *c, const struct query *q, char bytes[N_SLOTS / 8]);

int pg_list_tasks(struct pg_call *c, const struct query *q, struct answer *ret);
/* Adds the message in the row: columns as in MESSAGE of store_pg_sql.c. */
struct message_record *pg_take_message(const PGresult *r, int row, struct answer *ret);

/* store_pg_tree_read.c */
int pg_ask_path(struct pg_reader *r, const struct query *q, struct answer *ret);
int pg_ask_turn(struct pg_reader *r, const struct query *q, struct answer *ret);
/* Rows of ids, newest first, as one text with blanks between, oldest first. */
void pg_join_ids(const PGresult *r, struct buf *ret);

/* store_pg_lines.c */
int pg_ask_runs(struct pg_reader *r, const struct query *q, struct answer *ret);
int pg_ask_blocks(struct pg_reader *r, const struct query *q, struct answer *ret);
int pg_ask_tails(struct pg_reader *r, const struct query *q, struct answer *ret);

#endif
