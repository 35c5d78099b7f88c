/* store -- the port for everything durable.
 *
 * Shape:    two layers.  A *backend* (struct store_ops: memory, SQLite) is synchronous: apply a
 *           batch, answer a query.  The *port* that core uses (struct store_port) is asynchronous:
 *           one batch in flight at a time, any number of queries, answers as callbacks on the loop
 *           thread. gateway/store/store_thread turns a backend into a port with a writing thread
 *           and a pool of readers; tests/support/store_inline does it on one thread, step by step,
 *           for tests.
 * Thread:   the port: the loop thread; a backend: as struct store_ops says.
 * Errors:   negative enum store_error.  A commit that fails has changed nothing, and may be retried
 *           unchanged.  A store behind a network may not know: STORE_UNKNOWN says neither, until
 *           the same batch is asked for again.
 */
#ifndef CORE_STORE_H
#define CORE_STORE_H

#include "core/batch.h"
#include "core/slot.h"

enum store_error {
    STORE_OK = 0,
    STORE_NOT_FOUND = -1,
    STORE_BUSY = -2,    /* somebody holds a lock: try again */
    STORE_FULL = -3,    /* no space, or a limit of the file system */
    STORE_IO = -4,      /* input/output error, read-only, out of memory */
    STORE_CORRUPT = -5, /* the data is not as it was written */
    STORE_FENCED = -6, /* another process has this store now: commit nothing, answer nobody, stop */
    STORE_UNKNOWN = -7, /* committed or not: ask for the same batch again; no one is told yet */
    STORE_VOID = -8,    /* the batch was given up (batch.give_up): it is not, and will never be */
    STORE_REFUSED = -9, /* it answers, and takes or has no such thing: not for want of a server */
};

/* Whether the same may be answered otherwise later, when the store is reached, free or has room. */
static inline bool store_may_pass(int status)
{
    return status == STORE_IO || status == STORE_BUSY || status == STORE_FULL;
}

enum query_kind {
    QUERY_TASK,  /* owner, conversation_id, task_id -> one task, input included */
    QUERY_KEY,   /* owner, key -> one task (the one that the request key created) */
    QUERY_TASKS, /* owner, conversation_id, status?, turns?, limit, before? -> tasks, newest first,
                           * without input, metadata, output, result, undelivered and answers */
    QUERY_OWNED, /* owner, key? (a task_id), live?, limit -> the owner's tasks of all conversations
                  * from that id on, oldest first, as QUERY_TASKS gives them; live: those that have
                  * not ended; without key the newest alone */
    QUERY_MESSAGES, /* owner, conversation_id, limit, before?, max_bytes (of contents) -> the
                     * newest of all branches that fit, oldest first, by id; before is a
                     * message_id, exclusive */
    QUERY_PATH, /* owner, conversation_id, limit, max_bytes, at?, siblings; from where: before (a
                 * message_id, exclusive), key (one, inclusive), task_id (exclusive of the task's
                 * question), or the tip -> the path from there to the first message: the newest
                 * that fit, oldest first, without those created after at; from the tip also tip
                 * and tip_task.  Empty when that does not exist */
    QUERY_TURN, /* owner, conversation_id, key (a message_id or a task_id) -> the turn that it
                 * belongs to, as far as there is one: its question and its answer, in this order,
                 * and its task, as QUERY_TASKS gives it */
    QUERY_CONVERSATION,  /* owner, conversation_id -> one conversation */
    QUERY_CONVERSATIONS, /* owner, limit, before? (a conversation_id), key? (searched for in titles)
                          * -> last changed first, without the unlisted ones */
    QUERY_SEARCH,        /* owner, key = what is searched for (proto/search.h), limit, before? (a
                          * message_id, exclusive), max_bytes (of contents looked at) -> messages of
                          * listed conversations that have it, newest first, with
                          * conversation_id; looked_at; more: not all were looked at */
    QUERY_RESULTS,       /* owner, conversation_id, limit, before? -> ended background tasks that
                           * are not acknowledged: the newest (before), oldest first; complete */
    QUERY_BLOCKS,        /* task_key, after, max_bytes -> sealed blocks with lines after that seq,
                          * at least one if there is any, in order, without a gap between them */
    QUERY_LIVE,          /* after (a task key, 0 at first), limit -> tasks not ended, all owners,
                          * oldest key first: for the start; head counts sealed lines too, and
                          * context and mark are filled, as in no other query */
    QUERY_TAILS,         /* after (a task key), limit -> unsealed tails, as blocks with all unsealed
                           * lines of one task each, by task key: for the start */
    QUERY_INBOX,         /* task_key -> waiting inbox lines, as one block each (first = position) */
    QUERY_NOTES,   /* task_key, after (a number) -> its notes, as one block each (first = number,
                          * last = seq), by number */
    QUERY_NOTICES, /* after (a key, 0 at first), limit -> notices of all owners, by key: for
                           * the start */
    QUERY_EXPIRED, /* at, limit -> tasks of all owners that ended before at, by time of end; with
                    * event_bytes and without what QUERY_TASKS leaves out, like the next two */
    QUERY_OLDEST,  /* owner, at, limit -> the owner's tasks that ended before at, oldest first */
    QUERY_OLDEST_EVENTS, /* owner, limit -> the owner's ended tasks with events, oldest first */
    QUERY_USAGE,         /* owner? -> its usage (none: it has no rows), or the whole store's */
    QUERY_FULL,   /* at (bytes), before? (an owner, exclusive), limit -> the usage of each owner who
                   * has more, by owner: for the start */
    QUERY_OUTBOX, /* key (a hook), after (a key), limit, max_bytes -> undelivered entries */
    QUERY_REVOKED,    /* before? (an owner, exclusive), limit -> revocations, by owner */
    QUERY_FILE,       /* owner, conversation_id, key = file_id -> one file */
    QUERY_UPLOAD,     /* owner, conversation_id, key = the upload's -> one file */
    QUERY_BLOB,       /* key = blob -> one file that has these bytes, of any owner */
    QUERY_FILES_GONE, /* slots, limit -> files that are gone, of all owners, one for each blob */
};

/* An owner's usage of the store: the lines in blocks, this much for each task that has ended, and
 * the size of each file with a row's.
 * A conversation's messages are its tasks' inputs and outputs, so those of chat and notice tasks
 * count twice.  A running task counts once its lines are sealed, or it has ended. */
#define TASK_ROW_BYTES 1024
int64_t task_record_cost(const struct task_record *task);
int64_t file_record_cost(const struct file_record *file);

/* Every answer is bounded: it ends early, with more set, when its rows exceed max_bytes, but never
 * before its first row. 0 for max_bytes, or a larger value, means this; 0 for limit means no
 * limit. */
#define QUERY_MAX_BYTES (4u << 20)

struct query {
    enum query_kind kind;
    enum task_status status;
    /* The owners of these slots, in queries of all owners; NULL: all.  SQLite's has one node, which
     * has all slots, and ignores it. */
    const struct slots *slots;
    struct str owner, conversation_id, task_id, key, before;
    int64_t task_key;
    int64_t at;
    uint64_t after;
    bool has_status;
    bool live;                   /* QUERY_OWNED: only those that have not ended */
    bool turns;                  /* QUERY_TASKS: only those of type chat and notice */
    bool siblings;               /* QUERY_PATH: of each message, at most MAX_SIBLINGS, the newest */
    unsigned flags_asked, flags; /* QUERY_CONVERSATIONS: only those whose flags, of those that are
                                  * asked for, are these */
    uint32_t limit;
    size_t max_bytes;
};

/* A value for each owner: bytes in the store, or the end of a revocation (Unix ms). */
struct owner_record {
    struct str owner; /* NULL: all */
    int64_t value;
};

struct answer {
    struct task_record *tasks;
    size_t n_tasks;
    struct message_record *messages;
    size_t n_messages;
    struct str tip, tip_task; /* QUERY_PATH, like the next: ids of what is below its end, as in … */
    struct str looked_at;     /* QUERY_SEARCH: the message_id that was looked at last */
    struct str children;      /* … message_record.siblings; with query.siblings */
    struct conversation_record *conversations;
    size_t n_conversations;
    struct notice_record *notices;
    size_t n_notices;
    struct outbox_record *outbox;
    size_t n_outbox;
    struct owner_record *owners;
    size_t n_owners;
    struct file_record *files;
    size_t n_files;
    struct block **blocks; /* the answer's; take one by setting it to NULL */
    size_t n_blocks;
    bool more; /* the list has further rows */
    struct arena_chunk *chunks;
};
void answer_done(struct answer *a);

/* Whether the query is about that owner's slot too. */
static inline bool query_has_slot(const struct query *q, struct str owner)
{
    return !q->slots || slots_has(q->slots, slot_of(owner));
}

/* For backends.  Room for one more row, zeroed; its strings belong in a->chunks. */
struct task_record *answer_add_task(struct answer *a);
struct message_record *answer_add_message(struct answer *a);
struct conversation_record *answer_add_conversation(struct answer *a);
struct notice_record *answer_add_notice(struct answer *a);
struct owner_record *answer_add_owner(struct answer *a);
struct outbox_record *answer_add_outbox(struct answer *a);
struct file_record *answer_add_file(struct answer *a);
void answer_add_block(struct answer *a, struct block *b); /* takes ownership of the block */
void answer_reverse(struct answer *a);                    /* order of tasks and of messages */
/* Whether a row of next bytes may follow that many rows and bytes. */
bool query_has_room(const struct query *q, size_t rows, size_t bytes, size_t next);
#define SEARCH_ROW_BYTES 64 /* of a message besides its content: many short ones are work, too */
/* QUERY_SEARCH: whether the next message, the rows-th, is looked at.  bytes: of those before. */
bool search_goes_on(const struct query *q, const struct answer *ret, size_t rows, size_t *bytes,
                    struct str content);
size_t task_record_bytes(const struct task_record *task); /* of its strings */

/* A backend's memory for core from run to run; read once at the start. */
struct store_start {
    int64_t next_key; /* never used before, nor is any after it: not necessarily the next after
                       * those of an earlier run */
    uint64_t number;  /* of the last batch of this store that had one; 0: none yet */
    char newest_id[TASK_ID_LEN + 1]; /* the newest ULID of any record, "" for none */
};

/* A backend.  commit and start are called by one thread at a time (the writer); query by any number
 * of threads, each with a reader of its own. */
struct store_ops {
    const char *name;
    /* Applies the batch as one transaction.  May block.  Durable on return (promise 2).  A batch
     * whose number was committed last is not applied again: STORE_OK.  With give_up it is not
     * applied any more: STORE_OK when it was before, STORE_VOID when it never will be. */
    int (*commit)(void *store, const struct batch *batch);
    int (*start)(void *store, struct store_start *ret);
    /* A reader holds what one thread needs to ask (a read-only connection). */
    void *(*reader_open)(void *store);
    void (*reader_close)(void *reader);
    /* Answers from a snapshot that holds everything committed before the call.  Only QUERY_TASK,
     * QUERY_KEY, QUERY_TURN, QUERY_CONVERSATION, QUERY_FILE, QUERY_UPLOAD and QUERY_BLOB give
     * STORE_NOT_FOUND, the last three also for files that are gone. ret is empty on failure. */
    int (*query)(void *reader, const struct query *query, struct answer *ret);
    /* Housekeeping between commits on the writer's thread (checkpoints); may be NULL. */
    void (*idle)(void *store);
    void (*close)(void *store);
};

typedef void (*store_commit_fn)(void *arg, struct batch *batch, int status);
typedef void (*store_query_fn)(void *arg, int status, struct answer *answer);

/* The port.  Callbacks come on the loop thread, never from inside commit or query. */
struct store_port {
    /* Takes the batch until done.  One at a time: the caller waits for done. */
    void (*commit)(struct store_port *port, struct batch *batch, store_commit_fn done, void *arg);
    /* Copies the query.  The answer is valid only during the callback, except for what that
     * takes. */
    void (*query)(struct store_port *port, const struct query *query, store_query_fn done,
                  void *arg);
};

#endif
