/* task -- one detached run of an agent: its record, its life, its one ending.
 *
 * Shape:    phases, and what moves a task from one to the next:
 *
 *   CREATING ─committed─▶ PENDING ─slot─▶ STARTING ─committed─▶ RUNNING ─┬─agent ends──▶ ENDING
 *                            └────────── cancel ──────────────────▲──────┴────────────────▲  │
 *             a restart finds it running ─▶ RESUMING ─committed───┘        ENDED ◀─committed─┘
 *             cancel, a time-out or a fault asks the run to stop (RUNNING stays); the grace period,
 *             then force, make sure that it does.
 *
 *           staged is on its way to the store; shown is committed, and the only state that anyone
 *           is told (promise 2).  Connections appear nowhere here (promise 4).
 * Thread:   loop.
 * Owns:     its fixed half (task_fixed.h), its work, its run, and its place in the conversation.
 *           Its stream outlives it.
 * Why:      most of many live tasks are silent, so struct task_work is allocated when it is first
 *           needed, and struct task_outcome when the task ends.
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
    PHASE_RESUMING,
    PHASE_RUNNING,
    PHASE_ENDING,
    PHASE_ENDED
};

/* A line for the agent.  Position 0: an answer that is not numbered. */
struct input_message {
    struct list node;
    uint64_t position;
    bool taken; /* the run has it, and has not said yet that its agent does (deliver_at) */
    size_t len;
    char line[];
};

struct question {
    struct list node;
    struct task *task;
    char *input_id;
    bool approval;
    struct str option_ids; /* of an approval: they answer it too; a NUL after each */
    char *answer;          /* JSON, or the digest of a long one; NULL while it is open */
    /* The asker, when it is not the agent: called instead of it, if at all. */
    void (*answered)(void *arg, struct str answer);
    void *arg;
    bool unheard; /* answered, and its asker, which is not the agent, is not told yet */
    struct timer expiry;
    char *call_id;      /* of the call that asked; NULL: none did, or nobody needs it again */
    int64_t expires_at; /* Unix ms, of one that a restart found open; 0: never */
};

/* The part of its record that changes before it ends; task_fresh before it starts, or is
 * cancelled. */
struct live_state {
    enum task_status status;
    double progress;
    int64_t cancel_requested_at;
    int64_t started_at;
    char *waiting_for; /* input_id of the oldest open question; NULL for none */
};

/* Additions to its record at its end.  It is kept when the commit of the end failed: undelivered
 * messages and given answers do not come again. */
struct task_outcome {
    enum task_error error;
    bool output_truncated;
    int64_t completed_at;
    struct str error_message, output, undelivered, answers; /* owned; NULL for none */
};

/* A call of the agent's that was under way. */
struct past_call {
    uint64_t seq;   /* of its tool_call */
    unsigned flags; /* task_tool.c */
};

/* A task as a restart has read it, until it goes on. */
struct task_past {
    struct recall *recall; /* the adapter's; NULL: none, or it could not be read */
    bool unreadable;       /* its events or its notes */
    uint64_t mark;
    struct said_sum settled; /* what stays of its text */
    uint64_t unsettled;      /* the first event behind that with text; 0: none */
    uint64_t stopped_at;     /* the newest event when the gateway was stopped; 0: it was killed */
    unsigned attempts;       /* the task was resumed so often … */
    unsigned vain;           /* … since the last other event, and not after a planned stop */
    struct budget_past budget;
    unsigned n_open;               /* questions: while there are any, the clocks stand … */
    int64_t stood_since, stood_ms; /* … since, and before that */
    struct past_call *calls;
    size_t n_calls;
    char *place; /* of the calls (tool.place); NULL: none was noted */
};

/* All that exists from its start, or from an earlier event that needs it: until then it only waits,
 * and is as it was created. */
struct task_work {
    struct task *task;
    struct live_state staged, shown;
    uint64_t staged_in; /* number of the batch with the newest staged state … */
    uint32_t staged_op; /* … and its place there */
    struct run *run;
    struct task_outcome *outcome; /* NULL: it has not ended */
    struct feed_entry *entry;     /* in the conversation's feed */
    struct list enders;           /* of struct waiter: told when the end is committed */
    char *history;                /* JSON, from its query to the agent's start, like … */
    char *turns;                  /* … the ids of the tasks in it */
    struct said said;
    struct held_text *held; /* what waits because a secret may begin in it; NULL: nothing */
    char *result;
    char *stop_text; /* why the run was asked to stop */
    char *canceller; /* the actor of its cancel; NULL: none */
    int64_t stopped_wall_ms;
    msec_t heard_ms; /* the last event: the idle clock counts from there */
    struct timer timeout, idle, grace;
    msec_t timeout_left; /* while a question is open and the clocks stand still */
    bool clocks_stand;
    bool killed;              /* the grace period was over */
    bool no_inbox;            /* the agent closed its input */
    struct task_inbox *inbox; /* NULL: nothing was ever said to it */
    struct list tools;        /* of struct tool_use: calls of tools that take time */
    struct list questions;    /* open ones, oldest first */
    struct list answered;     /* the most recently answered ones, oldest first */
    struct list hooks;        /* its webhooks (task_hook.c) */
    uint32_t n_hooks;
    uint32_t n_questions, n_answered;
    uint32_t n_approvals;          /* asked by the gateway */
    struct tool_names *tool_names; /* from its tool_call events */
    struct task_past *past;        /* NULL: it did not begin before this gateway */
    struct task_budget *budget;    /* NULL: none, or its run keeps to it by itself */
    char *retracted;               /* as in its record; NULL: nothing */
    uint64_t first_text;           /* of a task that was resumed: its first event with text */
    unsigned attempt;              /* that of its last task.resumed; 0: none */
    uint64_t next_note;
    uint64_t mark, marked_in; /* staged, and in which batch … */
    uint32_t mark_op;         /* … and where there */
    uint32_t n_lookups;       /* calls of the agent whose outcome is not staged */
    bool waits_for_lookup;    /* the agent is not read meanwhile */
};

struct task {
    struct list in_conversation;
    struct list in_wait; /* for a slot, paused, or dead: one at a time */
    struct hub *hub;
    struct conversation *conversation;
    struct owner *quota; /* a reference: against whom its live tasks count */
    struct stream *stream;
    const struct agent *agent; /* NULL: no longer configured */
    struct task_fixed *fixed;  /* input included, until the agent has it */
    struct task_work *work;    /* NULL: nothing yet (task_work) */
    uint64_t bytes;            /* of its stream, against limits.task_bytes */
    uint32_t refs;             /* ops and look-ups that refer to it */
    enum task_phase phase : 8;
    enum task_error stopping : 8; /* why the run was asked to stop, TASK_OK if it was not */
    bool cancel_shown : 1;        /* the intent is on disk */
    bool paused : 1;
    bool left : 1;     /* the gateway stops: the next one goes on with it */
    bool lost : 1;     /* was never committed: it does not exist */
    bool has_slot : 1; /* counts against limits.processes */
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
extern const struct live_state task_fresh;
/* As it is staged, and as it is committed. */
static inline const struct live_state *staged_state(const struct task *t)
{
    return t->work ? &t->work->staged : &task_fresh;
}
static inline const struct live_state *shown_state(const struct task *t)
{
    return t->work ? &t->work->shown : &task_fresh;
}
static inline struct run *task_run_of(const struct task *t)
{
    return t->work ? t->work->run : NULL;
}
static inline enum task_type task_type(const struct task *t)
{
    return (enum task_type)t->fixed->type;
}

/* A run that its task has left: freed in hub_reap, because its callbacks may be on the stack. */
struct dead_run {
    struct list node;
    const struct agent_ops *ops;
    struct run *run;
};

/* The ingredients of a new task. */
struct task_plan {
    struct owner *owner, *quota;
    struct conversation *conversation;
    const struct agent *agent;
    enum task_type type;
    struct str input, name, description, metadata;
    struct str parts;   /* of the input; NULL for none */
    struct str actor;   /* who asks in the owner's name; NULL: the owner */
    struct str context; /* replaces the history; NULL for none */
    struct str parent_task_id, parent_call_id, parent_agent_id;
    struct str ancestors;     /* ids of the parent and of all its ancestors, concatenated */
    struct str request_key;   /* NULL for none */
    enum message_place place; /* of its question, like the next two */
    struct str parent_id, behind;
    struct str question_id; /* it answers another task's question; NULL: it brings its own */
    struct str webhook, webhook_id; /* NULL for none */
    bool notify_on_complete;
    bool wait_for_others; /* enqueue */
    bool unlisted;        /* its conversation, if the task creates that */
};
/* Stages the task, its first event and its message; the caller waits for the commit. */
struct task *task_create(struct hub *h, const struct task_plan *plan);
/* At a start: a task that an earlier process left. */
struct task *task_adopt(struct hub *h, const struct task_record *rec);
void task_free(struct task *t);
void task_uncount(struct task *t); /* it lives here no more: there is room for another */

/* The record as others may see it, and as it is staged; its spans are valid until something
 * changes. */
struct task_record task_view(const struct task *t);
struct task_record task_staged(const struct task *t);
/* Its last lines could not be committed (journal_events.lost). */
void task_lost(struct task *t);

/* Asks the task to end.  Stages the intent; false when the task has ended, is ending or was asked
 * before. */
bool task_cancel(struct task *t, struct str actor);
/* Stages the terminal event, the record and the message (promise 3); once.  A task that was asked
 * to stop ends as cancelled, whatever status says. */
void task_finish(struct task *t, enum task_status status, enum task_error error,
                 struct str message);
static inline bool task_is_ending(const struct task *t)
{
    return t->phase >= PHASE_ENDING;
}
/* Whether it goes on over a restart of the gateway. */
static inline bool task_goes_on(const struct task *t)
{
    return t->agent && t->agent->goes_on && t->agent->ops->resume;
}
/* The gateway stops as planned, or another home is to have it: the next one goes on with it. */
void task_leave(struct task *t);
/* Whether it may be left now for a home on another machine: nothing of its run lies on this one,
 * and it has begun nothing whose end only this process would learn of. */
bool task_may_move(const struct task *t);
/* The next home finds all of it in the store: it was left, or never began. */
bool task_is_parted(const struct task *t);
void task_drop(struct task *t);   /* such a one, from memory; its stream stays */
void task_forget(struct task *t); /* the same of one that was adopted, and nothing more */
/* The same, and appends the id to ids, as a JSON string with commas between; returns 1 or 0. */
uint32_t task_cancel_told(struct task *t, struct str actor, struct buf *ids);
/* The same for a task, which may have ended, and all its descendants; returns the number. */
uint32_t task_cancel_tree(struct conversation *c, struct str root, struct str actor,
                          struct buf *ids);
/* w->done is called when the end is committed. */
void task_on_end(struct task *t, struct waiter *w);
/* Starts tasks that wait for a slot, and reads agents again that waited for a commit: once a
 * turn. */
void tasks_proceed(struct hub *h);
/* Whether a live task of the conversation has that name. */
bool task_name_is_taken(const struct conversation *c, struct str name);
/* Whether its type reads and writes the conversation. */
static inline bool task_talks(const struct task *t)
{
    return type_is_turn(task_type(t));
}

/* A message for the agent, from a client, a relative or (child) a child that has ended. */
/* actor: as in struct task_plan. */
enum error task_send(struct task *t, struct str from, struct str actor, struct str content,
                     struct str child);
/* An answer to an open question; ret_why says what is wrong with it. */
enum error task_respond(struct task *t, const struct request *r, const char **ret_why);
/* The same for a task that has ended; answers come from its record. */
enum error question_respond_late(struct str answers, const struct request *r, const char **ret_why);

#endif
