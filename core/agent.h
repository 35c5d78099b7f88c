/* agent -- the port behind which agents run: programs, the built-in loop, HTTP endpoints.
 *
 * Shape:    core starts a run and is told what it says through struct run_events; the adapter is a
 *           carrier of lines and knows nothing of tasks, seqs or time-outs.  core keeps the clocks:
 *           it calls cancel (polite), and kill when the grace is over.
 * Thread:   loop.  Callbacks may come at any time after start has returned, never from inside
 *           start; they may come from inside any other call into the adapter except free.
 * Owns:     the adapter owns the run until core calls free, which core does exactly once, never
 *           from inside a callback of that run, and always after on_end or instead of it.
 */
#ifndef CORE_AGENT_H
#define CORE_AGENT_H

#include "proto/agent_line.h"

struct tool;
struct run; /* the adapter's */

enum run_end {
    RUN_DONE,   /* it ended well: exit 0 */
    RUN_FAILED, /* it ended badly; text says how: "exit status 3: <stderr tail>" */
};

/* What an agent is given: the first line of PROTOCOL.md section 8, in parts.  Spans live during
 * start only. */
struct run_spec {
    struct str task_id, conversation_id, input;
    struct str owner;    /* for its tools; the agent itself is not told */
    struct str history;  /* JSON array of {"role","content"}, oldest first */
    bool is_context;     /* the client brought it: what is system in it instructs the agent */
    struct str parent;   /* JSON object */
    struct str metadata; /* JSON object or "null" */
};

struct run_events {
    /* One line of the agent, without its newline.  Returns false when the task wants no more for
     * now (backpressure): the adapter stops reading until unpause; lines that it has already may
     * still be handed in. */
    bool (*on_line)(void *task, struct str line);
    /* The same for adapters that make events rather than lines: a decoded event. */
    bool (*on_event)(void *task, const struct agent_line *line);
    /* A line that deliver did not take would be taken now.  NULL: nobody asks; never called by
     * adapters whose lines are taken at once, and never from inside deliver. */
    void (*on_room)(void *task);
    /* Exactly once, last, unless free comes first. */
    void (*on_end)(void *task, enum run_end end, struct str text);
};

struct agent_ops {
    const char *kind; /* "exec" */
    /* Starts a run for the named agent's settings.  NULL with a sentence in ret_error (256 bytes)
     * when it cannot be started. */
    struct run *(*start)(void *settings, const struct run_spec *spec,
                         const struct run_events *events, void *task, char *ret_error);
    /* Asks it to stop: the line {"type":"cancel"}, then SIGTERM to the whole group. */
    void (*cancel)(struct run *run);
    /* Makes it stop: SIGKILL to the whole group.  on_end follows soon. */
    void (*kill)(struct run *run);
    /* Hands over one line of PROTOCOL.md section 8 (message, input, tool_result …), without its
     * newline.  False when it does not take it, and has called nothing back: see is_deaf. */
    bool (*deliver)(struct run *run, struct str line);
    /* It will never take a line again (it closed its input); else one that was not taken may be
     * tried again a little later. */
    bool (*is_deaf)(struct run *run);
    void (*unpause)(struct run *run);
    /* It has been silent for its agent's idle time-out.  True: all that its task needs has been
     * said, and on_end follows soon with RUN_DONE.  False, and NULL: that is a time-out. */
    bool (*settle)(struct run *run);
    /* It waits for a tool of the gateway's that takes time: the idle clock stands.  NULL: never. */
    bool (*waits)(struct run *run);
    void (*free)(struct run *run); /* kills what still runs, forgets the task */
};

/* One configured agent. */
struct agent {
    const char *name;
    const char *description; /* "" for none */
    char *const *examples;   /* what one may ask it, up to a NULL; NULL for none */
    bool is_default;
    bool has_inbox;
    bool is_process;                              /* counts towards limits.processes */
    msec_t timeout_ms, idle_timeout_ms, grace_ms; /* 0: never */
    const struct tool *const *tools;              /* that it may call */
    size_t n_tools;
    const struct agent_ops *ops;
    void *settings;
    void *holder; /* the rim's: what the settings need to stay */
};

#endif
