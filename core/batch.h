/* batch -- a list of changes that the store applies together or not at all (promises 2 and 3).
 *
 * Shape:    ops in the order in which they were put; applying them in that order is the whole
 *           meaning.  Every string is copied in, so that a batch can cross threads and be retried
 *           unchanged.  The lines of OP_LINES and OP_SEAL are the exception: they lie in the
 *           stream's tail and in a block.
 * Thread:   one side at a time: the loop fills it, the store thread reads it, the loop frees it.
 * Owns:     all of its bytes except those lines: the caller that puts them keeps them, where they
 *           are and as they are, until the batch is done.
 */
#ifndef CORE_BATCH_H
#define CORE_BATCH_H

#include "core/block.h"
#include "proto/record.h"

enum op_kind {
    OP_TASK_NEW, /* record: a new row, with its key; the key and the id are fresh */
    OP_TASK_SET, /* task_key, state: the changing half of the row */
    OP_LINES,    /* task_key, first, last, bytes: lines appended to the task's */
    OP_SEAL,     /* task_key, first, last, bytes: the task's whole unsealed tail becomes blocks
                      * (lines_take_block), and its journal rows are removed. bytes hold all lines
                      * from first to last, including those of this batch, which then have no
                      * OP_LINES. */
    OP_MESSAGE,  /* owner, conversation_id, message, place; the conversation exists or is made */
    OP_BRANCH,   /* owner, conversation_id, key = message_id, task_id?: the message becomes the tip
                 * and the task what answers it; without a task, the newest message below it
                 * becomes the tip: the newest child, its newest child, and so on */
    OP_CONVERSATION, /* owner, conversation_id, title?, agent?, at, turns: created when missing;
                      * title applies only where none is set, or always with force (softly:
                      * unless it is CONVERSATION_NAMED); at moves
                      * updated_at; flags are cleared, then set */
    OP_TITLE, /* owner, conversation_id, key?, title: replaces the title key, or none, unless the
               * owner or an agent has given it; it becomes CONVERSATION_TITLED; nothing when the
               * conversation is missing */
    OP_CONVERSATION_DELETE, /* owner, conversation_id: it, its messages, tasks, events, keys; its
                             * files are gone */
    OP_REQUEST_KEY,         /* owner, key, conversation_id, task_id, at */
    OP_ACK,                 /* owner, conversation_id, key = task_id: acked becomes true */
    OP_INBOX_PUT,           /* task_key, first = position, bytes = line: an inbox message */
    OP_INBOX_TAKE,          /* task_key, first?, last: the inbox messages of these positions are
                             * removed */
    OP_MARK, /* task_key, first = mark: replaces the one before; gone with the task's end */
    OP_NOTE, /* task_key, first = number (1 …), last = the newest seq then, bytes: replaces the one
              * with that number; all are gone with the task's end */
    OP_NOTICE_PUT,    /* notice; the conversation exists */
    OP_NOTICE_TAKE,   /* task_key = the notice's key: it was delivered */
    OP_EVENTS_REMOVE, /* owner, task_key of a task that has ended and has no tail, freed: all of its
                       * events are removed, first becomes head + 1 */
    OP_OUTBOX_PUT,    /* outbox: its key is fresh */
    OP_OUTBOX_TAKE,   /* task_key = the key: it was delivered, or abandoned */
    OP_REVOKE,        /* owner, at: the owner is revoked until then; 0: the revocation is lifted */
    OP_FILE_PUT,      /* file: a new row; its id is fresh, and its bytes are stored */
    OP_FILE_USE,      /* owner, conversation_id, task_id, key = file_id: the task names the file,
                       * which lives as long as the task; nothing when the file is gone */
    OP_FILES_EXPIRE,  /* at: the files from before it that no task has named are gone */
    OP_FILES_REMOVE,  /* key = blob: the rows of it that are gone are removed */
    OP_TASK_REMOVE, /* owner, conversation_id, task_id, task_key of such a task, freed, at: removed
                     * with its events, messages and request keys; files that only it names are
                     * gone; the conversation too when nothing is left in it and it has not changed
                     * since at.  A question that another task answers (question_id) becomes that
                     * task's, the first one's of several.  Children of a removed message hang on
                     * its parent, and behind what it was behind; the tip is then the newest message
                     * below that parent. */
};

/* Numbers of notes: those that are replaced, and those that are kept, from NOTE_FIRST on. */
enum note_number {
    NOTE_STANDING = 1,
    NOTE_RESULT,
    NOTE_STOPPED, /* nothing: the gateway was stopped as planned; or why the run is, CODE\nTEXT, the
                   * text of a cancel being its actor (task_stop.c) */
    NOTE_HELD_THINKING, /* text that is held back (task_text.c) */
    NOTE_HELD_TOKEN,
    NOTE_CALLS, /* calls of the agent's that are under way (task_tool.c) */
    NOTE_FIRST
};

/* Where a message goes in its conversation's tree; an answer is never behind a task.  The tip is
 * the last message of the branch that readers get, the tip's task what answers it, if anything
 * does.  A question becomes the tip, and its task the tip's; an answer becomes the tip when its
 * task is the tip's, which then has none.  A name that does not exist (any more) means
 * PLACE_TIP. */
enum message_place {
    PLACE_TIP,    /* under the tip, behind the tip's task */
    PLACE_UNDER,  /* under message.parent_id or, with message.behind, under that task's answer if it
                   * has one, else behind the task */
    PLACE_ROOT,   /* under nothing, behind no task: beside the conversation's first message */
    PLACE_BESIDE, /* under the parent of message.parent_id, and behind the same task */
    PLACE_ANSWER, /* under the question of the task: its question_id, else its own message that is
                   * no answer.  What hung there behind the task comes under it. */
};

/* The store's answer to OP_MESSAGE and OP_BRANCH, of the commit that worked. */
struct placed {
    struct str parent_id, siblings; /* of the message, as in struct message_record */
    struct str tip, tip_task;       /* afterwards; NULL for none */
    bool turned; /* the tip is on another branch than before: not below the one before */
    struct arena_chunk *chunks;
};

/* The effect of a change on the number of consecutive notice turns. */
enum turn_count { TURNS_KEEP, TURNS_RESET, TURNS_ADD };

struct op {
    enum op_kind kind;
    /* For core, ignored by the store: called on the loop when the batch is committed (0) or
     * abandoned (a store error); NULL: nobody needs to know. */
    void (*done)(const struct op *op, int status);
    void *ref;    /* for done */
    bool refused; /* said by the store that refuses the batch, of the op that it is for */
    bool force;
    bool softly; /* OP_CONVERSATION: with force, only a title that the owner has not given */
    bool unlisted;
    enum turn_count turns;
    unsigned flags_set, flags_clear; /* OP_CONVERSATION: of enum conversation_flag */
    enum message_place place;        /* OP_MESSAGE */
    int64_t task_key;
    uint64_t first, last;
    int64_t at;    /* Unix ms */
    int64_t freed; /* bytes of the removed events: event_bytes from the query that named the task */
    struct str bytes;
    struct str owner, conversation_id, task_id, key, title, agent;
    struct task_record *record;     /* OP_TASK_NEW */
    struct task_state *state;       /* OP_TASK_SET */
    struct message_record *message; /* OP_MESSAGE */
    struct placed *placed;          /* of OP_MESSAGE and OP_BRANCH, made by batch_put */
    struct notice_record *notice;   /* OP_NOTICE_PUT */
    struct outbox_record *outbox;   /* OP_OUTBOX_PUT */
    struct file_record *file;       /* OP_FILE_PUT */
};

struct batch {
    /* Upwards from run to run of one store, and unchanged while the batch is retried: by it a store
     * knows what it has applied.  0: none, for batches that nobody retries. */
    uint64_t number;
    bool give_up; /* its outcome was not known for too long: see store_ops.commit */
    struct op *ops;
    size_t n_ops, cap_ops;
    size_t bytes; /* of lines and strings: counted against the limits of a batch */
    uint64_t n_events;
    struct arena_chunk *chunks;
};

struct batch *batch_new(void);
void batch_free(struct batch *b);
/* Copies op and all that it points to; returns the copy (valid until the next put: ops may move,
 * the strings do not). */
struct op *batch_put(struct batch *b, const struct op *op);

/* A batch of its own with the same ops, also with the bytes of its lines. */
struct batch *batch_clone(const struct batch *b);

/* Replaces the state in the op with a newer one. */
void batch_set_state(struct batch *b, struct op *op, const struct task_state *state);

/* Raises the mark in the op. */
void batch_set_mark(struct op *op, uint64_t mark);

/* A bump allocator, for batches and answers: all of its memory is freed at once. */
struct arena_chunk {
    struct arena_chunk *next;
    size_t used, cap;
    char bytes[];
};
void *arena_alloc(struct arena_chunk **chunks, size_t bytes);    /* aligned to 16 */
struct str arena_str(struct arena_chunk **chunks, struct str s); /* STR_NULL stays STR_NULL */
void arena_done(struct arena_chunk **chunks);

#endif
