/* record -- what is known about a task, a message and a conversation, and how it reads on the wire.
 *
 * Shape:    plain structs; strings are spans that somebody else owns (an arena, the batch, the
 *           task).  The store writes and reads these, the wire shows them.
 * Units:    times are Unix milliseconds, 0 for "not yet"; progress is 0 to 1, negative for unknown.
 * Thread:   any.
 */
#ifndef PROTO_RECORD_H
#define PROTO_RECORD_H

#include "proto/buf.h"
#include "proto/errors.h"
#include "proto/limits.h"

enum task_status {
    STATUS_PENDING,
    STATUS_RUNNING,
    STATUS_COMPLETED,
    STATUS_FAILED,
    STATUS_CANCELLED
};
enum task_type { TYPE_CHAT, TYPE_BACKGROUND, TYPE_CHILD, TYPE_NOTICE };
enum maybe { MAYBE_ABSENT, MAYBE_NO, MAYBE_YES };
enum message_role { ROLE_USER, ROLE_ASSISTANT, ROLE_SYSTEM };

/* The columns of a task besides its key, each in one place: the record, its copies, and what every
 * store binds and reads come from these tables.  A new column is a row here and in the schema of
 * each store on disk.  N: a number or flag, R: a real number, T: a text, NULL for none. */
#define TASK_FIXED_NUMBERS(N)                                                  \
    N(enum task_type, type)                                                    \
    N(bool, notify_on_complete)                                                \
    N(bool, waits) /* starts when its conversation is free; not on the wire */ \
    N(int64_t, created_at)
#define TASK_NAMES(T)  \
    T(owner)           \
    T(conversation_id) \
    T(task_id)
#define TASK_FIXED_TEXTS(T)                                                  \
    T(agent)                                                                 \
    T(name)                                                                  \
    T(description)                                                           \
    T(parent_task_id)                                                        \
    T(parent_run_id)                                                         \
    T(parent_call_id)                                                        \
    T(parent_agent_id)                                                       \
    T(ancestors)   /* ids of its ancestors, eldest first; not on the wire */ \
    T(question_id) /* the message that it answers, when that is another task's */
#define TASK_INPUT_TEXTS(T)       \
    T(input)                      \
    T(metadata) /* JSON object */ \
    T(parts)    /* of the input: JSON array (proto/parts.h), NULL when it is one text */
/* The messages that the task's agent gets instead of the conversation's: a JSON array.  A store
 * keeps it until the task has ended, and only QUERY_LIVE returns it; not on the wire. */
#define TASK_CONTEXT_TEXTS(T) T(context)
#define TASK_STATE_NUMBERS(N, R)                                                 \
    N(enum task_status, status)                                                  \
    N(enum task_error, error)                                                    \
    R(progress)                                                                  \
    N(uint64_t, first) /* oldest seq that retention has kept; 1: all are kept */ \
    N(uint64_t, head)  /* newest seq; the terminal event's when ended */         \
    N(int64_t, cancel_requested_at)                                              \
    N(int64_t, started_at)                                                       \
    N(int64_t, completed_at)                                                     \
    N(bool, output_truncated)                                                    \
    N(bool, acked) /* a background result that a client has acknowledged */
#define TASK_STATE_TEXTS(T) \
    T(error_message)        \
    T(waiting_for) /* input_id of the oldest open question */
/* The JSON array of answers holds input_id and answer by turns, null for none, an object for a long
 * one.  It is written with the end if there were questions, and is not on the wire. */
#define TASK_LONG_TEXTS(T)                    \
    T(output)      /* written with the end */ \
    T(result)      /* JSON */                 \
    T(undelivered) /* JSON array */           \
    T(answers)                                \
    T(retracted)

#define TASK_NUMBER_MEMBER(type, name) type name;
#define TASK_REAL_MEMBER(name) double name;
#define TASK_TEXT_MEMBER(name) struct str name;

/* The columns that change while a task is live. */
struct task_state {
    TASK_STATE_NUMBERS(TASK_NUMBER_MEMBER, TASK_REAL_MEMBER)
    TASK_STATE_TEXTS(TASK_TEXT_MEMBER)
    TASK_LONG_TEXTS(TASK_TEXT_MEMBER)
};

struct task_record {
    int64_t key; /* the task's number in the store, given by core, never reused */
    TASK_FIXED_NUMBERS(TASK_NUMBER_MEMBER)
    TASK_NAMES(TASK_TEXT_MEMBER)
    TASK_FIXED_TEXTS(TASK_TEXT_MEMBER)
    TASK_INPUT_TEXTS(TASK_TEXT_MEMBER)
    TASK_CONTEXT_TEXTS(TASK_TEXT_MEMBER)
    bool has_no_inbox;   /* its inbox is known to be empty; only QUERY_LIVE fills it, if at all */
    uint64_t mark;       /* how far its agent was read; 0: not at all; only QUERY_LIVE fills it */
    int64_t event_bytes; /* of its events in the store, when a query asks for it; not on the wire */
    struct task_state state;
};

/* Messages are a tree.  An answer's parent is its question, a question's parent the message before
 * it.  A question that comes while an answer is under way hangs on that answer's question, behind
 * the task that answers, until the answer comes between the two. */
struct message_record {
    struct str message_id;      /* a ULID */
    struct str conversation_id; /* QUERY_SEARCH alone fills it; not on the wire */
    struct str parent_id;       /* NULL: a first message */
    struct str behind;          /* a task_id; NULL for none; not on the wire */
    struct str task_id;
    struct str content;
    struct str parts;    /* JSON, of a user's message: its task's, where a store keeps them */
    struct str siblings; /* ids of all messages with its parent, in order, with blanks between, if
                          * there are others */
    enum message_role role;
    bool partial;
    int64_t created_at;
};

/* Stored as numbers. */
enum conversation_flag {
    CONVERSATION_PINNED = 1,
    CONVERSATION_ARCHIVED = 2,
    CONVERSATION_NAMED = 4,  /* the owner gave the title; not on the wire */
    CONVERSATION_TITLED = 8, /* an agent or a model did; neither is this */
};

struct conversation_record {
    struct str conversation_id;
    struct str title;
    struct str agent; /* of its last chat; NULL for none; not on the wire */
    int64_t updated_at;
    uint32_t running; /* live tasks */
    uint32_t notices; /* consecutive turns that the gateway started by itself; not on the wire */
    bool unlisted;    /* lists leave it out; not on the wire */
    unsigned flags;   /* of enum conversation_flag */
};

/* Something has ended, and the conversation's agent has not been told yet. */
struct notice_record {
    int64_t key; /* the key of what has ended */
    bool silent; /* starts no turn: delivered with the next one */
    struct str owner, conversation_id;
    struct str agent; /* the agent whose task it was */
    struct str text;
    struct str source; /* notice_source.key of something that is not a task */
};

/* A file of an owner.  Its bytes lie elsewhere (core/file_store.h), by their hash: each owner has
 * hashes of their own, so that nobody learns what others have. */
#define FILE_NAMES(T)  \
    T(owner)           \
    T(conversation_id) \
    T(file_id) /* a ULID */
#define FILE_TEXTS(T)                                         \
    T(name) /* as given; empty for none */                    \
    T(media_type)                                             \
    T(sha256) /* of its bytes, in hex */                      \
    T(blob)   /* where its bytes lie; hex; not on the wire */ \
    T(upload) /* the key of its upload, or NULL; not on the wire */
#define FILE_NUMBERS(N) \
    N(int64_t, size)    \
    N(int64_t, created_at)
#define FILE_HASH_LEN 64 /* characters of sha256, and of blob */

struct file_record {
#define T(name) struct str name;
#define N(type, name) type name;
    FILE_NAMES(T)
    FILE_TEXTS(T)
    FILE_NUMBERS(N)
#undef T
#undef N
    bool shares; /* QUERY_FILES_GONE: a file that is not gone has the same bytes */
};

/* A webhook call that has not been delivered yet. */
struct outbox_record {
    int64_t key;     /* given by core, never reused */
    struct str hook; /* the name of the receiver */
    struct str id;   /* a ULID: the same in each attempt */
    int64_t at;      /* Unix ms */
    struct str body; /* JSON */
    unsigned slot;   /* of its owner (core/slot.h); 0 from a store of one node */
};

static inline bool status_is_terminal(enum task_status s)
{
    return s >= STATUS_COMPLETED;
}
const char *status_name(enum task_status s);
bool status_find(struct str name, enum task_status *ret);
const char *type_name(enum task_type t);
/* Whether the task is a turn of its conversation: one that reads and writes its messages. */
static inline bool type_is_turn(enum task_type t)
{
    return t == TYPE_CHAT || t == TYPE_NOTICE;
}
const char *role_name(enum message_role r);

/* Appends the task summary of PROTOCOL.md section 3, with the members in that order; null, false
 * and empty ones are left out except status, head and progress. brief leaves out output, result,
 * metadata and undelivered, as lists and pushes do. */
void task_write(struct buf *out, const struct task_record *task, bool brief);
/* A member: the array of ids with blanks between them. */
void ids_write(struct buf *out, const char *key, struct str ids);
void message_write(struct buf *out, const struct message_record *message);
void conversation_write(struct buf *out, const struct conversation_record *conversation);
/* Its members without braces: file_id, name, media_type, size and sha256. */
void file_put(struct buf *out, const struct file_record *file);

#endif
