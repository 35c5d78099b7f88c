/* task -- one detached run of an agent: its record, its life, its one ending.
 *
 * Shape:    phases, and what moves a task from one to the next:
 *
 *   CREATING ─committed─▶ PENDING ─slot─▶ STARTING ─committed─▶ RUNNING ─┬─agent ends──▶ ENDING
 *                            └────────── cancel ─────────────────────────┴────────────────▲  │
 *                                                                          ENDED ◀─committed─┘
 *             cancel, a time-out or a fault asks the run to stop (RUNNING stays); the grace, then
 *             force, see to it that it does.
 *
 *           staged is what is on its way to the store; shown is what is committed, and the only
 *           thing that anyone is told (promise 2).  Connections appear nowhere here (promise 4).
 * Thread:   loop.
 * Owns:     what never changes of it (task_fixed.h), what it needs at work, what its end brings;
 *           its run, its place in the conversation.  Its stream outlives it.
 * Why:      of many live tasks most are silent: what one needs at work is made when it is needed
 *           first, and what its end brings when it ends.
 */
#ifndef CORE_TASK_H
#define CORE_TASK_H

#include "core/conversation.h"
#include "core/task_fixed.h"
#include "core/tool_names.h"
#include "proto/said.h"

enum task_phase {
    PHASE_CREATING,
    PHASE_PENDING,
    PHASE_STARTING,
    PHASE_RUNNING,
    PHASE_ENDING,
    PHASE_ENDED
};

struct input_message {
    struct list node;
    uint64_t position;
    size_t len;
    char line[];
};

struct question {
    struct list node;
    struct task *task;
    char *input_id;
    bool approval;
    struct str option_ids; /* of an approval: that answer it too; a NUL behind each */
    char *answer;          /* JSON, or what stands for a long one; NULL while it is open */
    /* Who asks, when that is not the agent: told instead of it, if at all. */
    void (*answered)(void *arg, struct str answer);
    void *arg;
    struct timer expiry;
};

/* What changes of its record before it ends. */
struct live_state {
    enum task_status status;
    double progress;
    int64_t cancel_requested_at;
    int64_t started_at;
    char *waiting_for; /* input_id of the oldest open question; NULL for none */
};

/* What its end brings to its record.  It is kept over an end that was lost: what was not delivered
 * and what was answered does not come again. */
struct task_outcome {
    enum task_error error;
    bool output_truncated;
    int64_t completed_at;
    struct str error_message, output, undelivered, answers; /* its own; NULL for none */
};

/* What it needs at work: from the start of its run, or when something comes before that. */
struct task_work {
    struct task *task;
    struct said said;
    char *result;
    char *stop_text; /* why the run was asked to stop */
    int64_t stopped_wall_ms;
    msec_t heard_ms; /* the last event: the idle clock starts there */
    struct timer timeout, idle, grace;
    msec_t timeout_left; /* while the clocks stand still: a question is open */
    bool clocks_stand;
    bool killed;   /* the grace was over */
    bool no_inbox; /* the agent closed its input */
    bool delivers; /* task_deliver is at it */
    uint32_t n_inbox;
    struct list inbox; /* of struct input_message: committed or staged, not yet delivered */
    size_t inbox_bytes;
    uint64_t inbox_position, inbox_committed;
    struct list answers; /* of struct input_message: what its calls and questions wait for */
    size_t answer_bytes;
    struct timer again;    /* its input was full */
    struct list tools;     /* of struct tool_use: calls of tools that take time */
    struct list questions; /* that are open, the oldest first */
    struct list answered;  /* the last of them, the oldest first */
    uint32_t n_questions, n_answered;
    uint32_t n_approvals;          /* that the gateway asked for */
    struct tool_names *tool_names; /* of its tool_call events */
};

struct task {
    struct list in_conversation;
    struct list in_wait; /* for a slot, paused, or dead: one at a time */
    struct hub *hub;
    struct conversation *conversation;
    struct owner *quota; /* a reference: whose live tasks count this one */
    struct stream *stream;
    const struct agent *agent; /* NULL: no longer configured */
    struct task_fixed *fixed;  /* its input until the agent has it */
    struct run *run;
    struct task_work *work;       /* NULL: nothing yet (task_work) */
    struct task_outcome *outcome; /* NULL: it has not ended */
    struct live_state staged, shown;
    struct feed_entry *entry; /* in the conversation's feed */
    struct list enders;       /* of struct waiter: told when the end is committed */
    uint64_t bytes;           /* of its stream, against limits.task_bytes */
    uint64_t staged_in;       /* number of the batch that has the newest staged state … */
    uint32_t staged_op;       /* … and its place there */
    uint32_t refs;            /* ops and look-ups that name it */
    enum task_phase phase : 8;
    enum task_error stopping : 8; /* why the run was asked to stop, TASK_OK while it was not */
    bool cancel_shown : 1;        /* the intent is on disk */
    bool paused : 1;
    bool lost : 1;     /* was never committed: it does not exist */
    bool has_slot : 1; /* of limits.processes */
};

static inline struct str task_id_of(const struct task *t)
{
    return (struct str){t->stream->task_id, TASK_ID_LEN};
}
static inline struct str task_owner(const struct task *t)
{
    return stream_owner(t->stream);
}
static inline struct str task_conversation_id(const struct task *t)
{
    return stream_conversation_id(t->stream);
}
static inline int64_t task_key(const struct task *t)
{
    return t->stream->task_key;
}
static inline struct str task_field(const struct task *t, enum task_field field)
{
    return task_fixed_get(t->fixed, field);
}
static inline enum task_type task_type(const struct task *t)
{
    return (enum task_type)t->fixed->type;
}

/* A run that its task has left: freed in hub_reap, since its callbacks may be on the stack. */
struct dead_run {
    struct list node;
    const struct agent_ops *ops;
    struct run *run;
};

/* What a new task is made of. */
struct task_plan {
    struct owner *owner, *quota;
    struct conversation *conversation;
    const struct agent *agent;
    enum task_type type;
    struct str input, name, description, metadata;
    struct str context; /* in place of the history; NULL for none */
    struct str parent_task_id, parent_call_id, parent_agent_id;
    struct str ancestors;   /* ids of the parent and of all above it, one behind the other */
    struct str request_key; /* NULL for none */
    bool notify_on_complete;
    bool wait_for_others; /* enqueue */
    bool unlisted;        /* the conversation, when the task makes it */
};
/* Stages the task, its first event and its message; the caller waits for the commit. */
struct task *task_create(struct hub *h, const struct task_plan *plan);
/* At a start: a task that an earlier process left. */
struct task *task_adopt(struct hub *h, const struct task_record *rec);
void task_free(struct task *t);

/* The record as others may see it, and as it is staged; its spans live as long as nothing
 * changes. */
struct task_record task_view(const struct task *t);
struct task_record task_staged(const struct task *t);
/* Its last lines could not be committed (journal_events.lost). */
void task_lost(struct task *t);

/* Asks for its end.  Stages the intent; false when it has ended, is ending or was asked before. */
bool task_cancel(struct task *t);
/* Stages the terminal event, the record and the message (promise 3); once.  What was asked to stop
 * is cancelled, whatever the caller says. */
void task_finish(struct task *t, enum task_status status, enum task_error error,
                 struct str message);
static inline bool task_is_ending(const struct task *t)
{
    return t->phase >= PHASE_ENDING;
}
/* The same, and appends the id to ids, as a JSON string with commas between; returns 1 or 0. */
uint32_t task_cancel_told(struct task *t, struct buf *ids);
/* The same for a task, which may have ended, and all that descends from it: how many. */
uint32_t task_cancel_tree(struct conversation *c, struct str root, struct buf *ids);
/* w->done is called when the end is committed. */
void task_on_end(struct task *t, struct waiter *w);
/* Starts what waits for a slot, and reads agents again that waited for a commit: once a turn. */
void tasks_proceed(struct hub *h);
/* A name is one live task's of a conversation. */
bool task_name_is_taken(const struct conversation *c, struct str name);
/* True for the types that read and write the conversation. */
static inline bool task_talks(const struct task *t)
{
    return type_is_turn(task_type(t));
}

/* A message for the agent, from a client, a relative or (child) a child that has ended. */
enum error task_send(struct task *t, struct str from, struct str content, struct str child);
/* An answer to an open question; ret_why says what is wrong with it. */
enum error task_respond(struct task *t, const struct request *r, const char **ret_why);
/* The same of a task that has ended: answers are its record's. */
enum error question_respond_late(struct str answers, const struct request *r, const char **ret_why);

#endif
