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

#include "proto/agent_line.h"

struct tool;
struct run; /* defined by the adapter */

enum run_end {
    RUN_DONE,   /* it ended well: exit 0 */
    RUN_FAILED, /* it ended badly; text says how: "exit status 3: <stderr tail>" */
    RUN_LOST,   /* nobody knows how it ended; text says why */
};

/* An agent's input: the first line of PROTOCOL.md section 8, in parts.  Spans are valid
 * during start only. */
struct run_spec {
    struct str task_id, conversation_id, input;
    struct str owner;    /* for its tools; the agent itself does not learn it */
    struct str history;  /* JSON array of {"role","content"}, oldest first */
    bool is_context;     /* from the client: its system messages instruct the agent */
    struct str parent;   /* JSON object */
    struct str metadata; /* JSON object or "null" */
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
    void (*free)(struct run *run); /* kills what is still running and forgets the task */
};

/* One configured agent. */
struct agent {
    const char *name;
    const char *description; /* "" for none */
    char *const *examples;   /* examples of what to ask it, up to a NULL; NULL for none */
    bool is_default;
    bool has_inbox;
    bool is_process;                              /* counts towards limits.processes */
    msec_t timeout_ms, idle_timeout_ms, grace_ms; /* 0: never */
    const struct tool *const *tools;              /* the tools that it may call */
    size_t n_tools;
    const struct agent_ops *ops;
    void *settings;
    void *holder; /* the rim's: keeps alive what the settings point to */
};

#endif
