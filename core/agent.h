/* agent -- the port for agents of every kind: programs, the built-in loop, HTTP endpoints.
 *
 * Shape:    core starts a run and receives its output through struct run_events; the adapter
 *           carries lines and knows nothing of tasks, seqs or time-outs. core keeps the clocks: it
 *           calls cancel (polite), and kill when the grace is over.
 * Thread:   loop.  Callbacks may come at any time after start has returned, never from inside
 *           start; they may come from inside any other call into the adapter except free.
 * Owns:     the adapter owns the run until core calls free, which core does exactly once, never
 *           from inside a callback of that run, and always after on_end or instead of it.
 */
#ifndef CORE_AGENT_H
#define CORE_AGENT_H

#include "core/budget.h"
#include "proto/agent_line.h"
#include "proto/trace.h"

struct tool;
struct run;    /* defined by the adapter */
struct recall; /* the same: what a run must know again after a restart of the gateway */

enum run_end {
    RUN_DONE,   /* it ended well: exit 0 */
    RUN_FAILED, /* it ended badly; text says how: "exit status 3: <stderr tail>" */
    RUN_LOST,   /* nobody knows how it ended; text says why */
};

/* An agent's input: the first line of PROTOCOL.md section 8, in parts.  Spans are valid
 * during start only. */
struct run_spec {
    struct str task_id, conversation_id, input;
    struct str parts;    /* of the input: JSON array; NULL: it is one text */
    struct str owner;    /* for its tools; the agent itself does not learn it */
    struct str history;  /* JSON array of {"role","content"}, oldest first */
    bool is_context;     /* from the client: its system messages instruct the agent */
    struct str turns;    /* ids of the tasks in the history, with blanks between */
    struct str parent;   /* JSON object */
    struct str metadata; /* JSON object or "null" */
    /* The task's own span, for whatever the run asks; NULL: there is nothing to hand on. */
    const struct trace_context *trace;
    unsigned attempt; /* 1; of a task that goes on over a restart, that of task.resumed */
};

struct run_events {
    /* One line of the agent, without its newline.  Returns false when the task wants no more for
     * now (backpressure): the adapter stops reading until unpause; it may still hand in lines that
     * it has already read. */
    bool (*on_line)(void *task, struct str line);
    /* The same for adapters that make events instead of lines: a decoded event. */
    bool (*on_event)(void *task, const struct agent_line *line);
    /* The agent can now take a line that deliver refused.  NULL: nobody asks.  Adapters that take
     * lines at once never call it, and none calls it from inside deliver. */
    void (*on_room)(void *task);
    /* Exactly once, as the last callback, unless free comes first. */
    void (*on_end)(void *task, enum run_end end, struct str text);

    /* --- for runs that go on over a restart (see recall); the others call none of these ------- */

    /* A note for recall, committed together with the events before it.  There is one standing note,
     * replaced by the next; all others are kept in order.  Notes count against
     * limits.task_bytes. */
    void (*on_note)(void *task, bool standing, struct str bytes);
    /* Everything in the agent's output before this place is in what was handed over so far: a place
     * that only grows, in bytes.  resume gets the last one that was committed.  A line whose
     * outcome is not staged yet keeps the mark before it: then on_line returns false, and a run
     * that sets marks hands in no further line until unpause.  False: the mark is not in the batch
     * (yet), so when_committed says nothing about it. */
    bool (*on_mark)(void *task, uint64_t mark);
    /* A numbered line, and all before it, have reached the agent (deliver_at). */
    void (*on_taken)(void *task, uint64_t position);
    /* Calls proceed, once for each call of this and in their order, when everything that was staged
     * so far is committed; from inside when it is already.  If the store gives that up, the task
     * ends instead. */
    void (*when_committed)(void *task);
    /* A call of that tool was under way when the gateway stopped, and nobody knows whether it took
     * effect: it is counted. */
    void (*on_unknown)(void *task, struct str tool);
    /* Nobody waits for the answer to that question of the run any more: it counts as expired. */
    void (*on_moot)(void *task, struct str input_id);
    /* The topics, by their keys, that the user has allowed in the conversation (approval.h). */
    bool (*is_allowed)(void *task, struct str key);
    void (*allow)(void *task, struct str key);
    /* The run has decided to fail, and something that it began still runs: core commits that, with
     * the text, and then cancels it.  Nothing that the run says after this counts. */
    void (*on_stop)(void *task, struct str text);
    /* The run cannot go on with what was there, and begins anew: all text of the task until now is
     * withdrawn.  Only after resume, before it says anything. */
    void (*on_anew)(void *task);
    /* A line of the run's own for its agent, for kinds with deliver_at: that is given it, as any
     * other line, when it is committed together with everything before it.  Its position; 0: the
     * task is over, or has too much that its agent does not read, and is stopped. */
    uint64_t (*on_say)(void *task, struct str line);
};

/* A note or an event that a restart tells again, one by one.  The standing note comes
 * first; each other note comes after the events that were staged before it. */
struct recalled {
    const struct event_parts *event; /* NULL: it is a note */
    struct str note;
    bool standing;
};

/* For resume, besides that. */
struct resumption {
    struct recall *recall; /* the adapter's from here on, also when resume fails */
    uint64_t mark;         /* 0: none */
    struct str held;       /* text of its last tokens that no event has yet */
};

struct agent_ops {
    const char *kind; /* "exec" */
    /* Starts a run for the named agent's settings.  NULL with a sentence in ret_error (256 bytes)
     * when it cannot start. */
    struct run *(*start)(void *settings, const struct run_spec *spec,
                         const struct run_events *events, void *task, char *ret_error);
    /* Asks the run to stop: the line {"type":"cancel"}, then SIGTERM to the whole group. */
    void (*cancel)(struct run *run);
    /* Forces the run to stop: SIGKILL to the whole group.  on_end follows soon. */
    void (*kill)(struct run *run);
    /* Hands over one line of PROTOCOL.md section 8 (message, input, tool_result …), without its
     * newline.  Returns false, without having called back, when the run does not take it: see
     * is_deaf. */
    bool (*deliver)(struct run *run, struct str line);
    /* Whether the run will never take a line again (it closed its input).  If it may, a refused
     * line can be offered again a little later. */
    bool (*is_deaf)(struct run *run);
    void (*unpause)(struct run *run);
    /* The run has been silent for its agent's idle time-out.  True: it has said all that its task
     * needs, and on_end follows soon with RUN_DONE.  False, and NULL: that is a time-out. */
    bool (*settle)(struct run *run);
    /* The run waits for a tool of the gateway that takes time: the idle clock stands.  NULL:
     * never. */
    bool (*waits)(struct run *run);
    /* The run has begun something outside that cannot be begun again, and that nobody finds from
     * another machine: it does not move until that has ended.  NULL: never. */
    bool (*is_bound)(struct run *run);
    void (*free)(struct run *run); /* kills what is still running and forgets the task */

    /* --- a restart of the gateway (PROTOCOL.md 3): NULL for a kind whose tasks cannot go on --- */

    /* Before task.started is staged: makes what is_there will look for.  False with a sentence
     * (256 bytes): the run cannot start.  NULL: there is nothing to make. */
    bool (*prepare)(void *settings, struct str task_id, char *ret_error);
    /* The end of a task is committed, whether it was prepared or not: nobody will look for it.  Its
     * run is free.  NULL: nobody needs to know. */
    void (*settled)(void *settings, struct str task_id);
    /* Everything that was staged before when_committed is committed. */
    void (*proceed)(struct run *run);
    /* Takes the next item into recall; NULL for the first one of a task, which makes it.  Sets
     * ret_settled when all text up to here stays: text of later events is withdrawn, because the
     * run says it anew.  (So a note that settles a text is followed by an event that is none.)
     * NULL on a note that cannot be read, and recall is freed. */
    struct recall *(*recall)(void *settings, struct recall *recall, const struct recalled *item,
                             bool *ret_settled);
    void (*forget)(struct recall *recall); /* the task does not go on */
    /* Whether what an earlier gateway left of the run is still there; ret_last is the last numbered
     * line that the agent has, 0 for none.  False with the reason: the task ends as orphaned.
     * NULL: a run leaves nothing that could be gone. */
    bool (*is_there)(void *settings, struct str task_id, uint64_t *ret_last, char ret_why[256]);
    /* Starts the run again, as start does, when its task.resumed is committed.  It may be one that
     * was never started: when task.started was the last that was committed. */
    struct run *(*resume)(void *settings, const struct run_spec *spec,
                          const struct resumption *from, const struct run_events *events,
                          void *task, char *ret_error);
    /* A planned stop: no callback comes any more, nothing new begins, and free ends nothing that
     * the next gateway can find again. */
    void (*leave)(struct run *run);
    /* deliver, for lines that are numbered: positive, growing, committed, and offered in order.  A
     * line that the agent has from an earlier gateway is taken, and not given again.  on_taken says
     * when it has reached the agent; a line that was taken is not offered again by this gateway.
     * NULL: deliver gets all lines, and answers to calls come before they are committed. */
    bool (*deliver_at)(struct run *run, uint64_t position, struct str line);
    /* deliver may refuse a line and take a later one.  It calls on_room when it would take one that
     * it has refused; nobody offers it before. */
    bool picks;
    /* Runs share what is read: none is read less for what another one waits for. */
    bool shares;
    /* A run that outlives the gateway is found from any machine, not from this one alone. */
    bool roams;
};

/* Says what begins a turn about things that an agent has started: all; no watched lines; failures
 * alone; nothing.  The rest is told with the next turn. */
enum notify { NOTIFY_ALL, NOTIFY_RESULT, NOTIFY_ERROR, NOTIFY_OFF };

/* One configured agent. */
struct agent {
    const char *name;
    const char *description; /* "" for none */
    char *const *examples;   /* examples of what to ask it, up to a NULL; NULL for none */
    bool is_default;
    bool has_inbox;
    bool has_budget;                              /* a task of it may bring a budget … */
    bool asks_budget;                             /* … to which its runs keep by themselves */
    bool takes_files;                             /* among the parts of its input */
    bool goes_on;                                 /* after_restart is continue */
    bool outlives;                                /* its runs live on without a gateway */
    bool is_process;                              /* counts towards limits.processes */
    bool short_errors;                            /* why its runs fail is only for the log */
    msec_t timeout_ms, idle_timeout_ms, grace_ms; /* 0: never */
    enum notify notify;
    struct budget_limits budget;
    const struct tool *file_tool; /* by which its call "file" is carried out; NULL: it has none */
    const struct tool *const *tools; /* the tools that it may call */
    size_t n_tools;
    const struct agent_ops *ops;
    void *settings;
    void *holder; /* the rim's: keeps alive what the settings point to */
};

/* Its runs that live on lie on this machine. */
static inline bool agent_is_settled(const struct agent *a)
{
    return a->outlives && !a->ops->roams;
}

#endif
