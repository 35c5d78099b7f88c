/* tool -- the port behind which an agent's tools lie.
 *
 * Shape:    one of three ways to carry out a call:
 *             call   computes, and is through at once;
 *             start  takes time: done comes later, once, never from inside start or stop;
 *             says   the core does it: the call of PROTOCOL.md section 8 with the arguments as its
 *                    members ("spawn"), or the event input_required.  For agents of kind react,
 *                    which have no other way to say these.
 * Thread:   loop.  Nothing blocks.
 * Owns:     a job belongs to its tool until stop, which is called exactly once, after done or
 *           instead of it, never from inside done.
 * Errors:   texts that a model can read.
 */
#ifndef CORE_TOOL_H
#define CORE_TOOL_H

#include "proto/js.h"

struct tool;
struct tool_caller;
struct tool_job; /* the tool's */
typedef void (*tool_done_fn)(void *user, bool good, struct str output);

struct tool {
    const char *name;
    const char *description;
    const char *parameters; /* JSON Schema of the arguments */
    /* Appends the output (plain text) to out; false for an error, whose text is then in out. */
    bool (*call)(struct str arguments, int64_t wall_ms, struct buf *out);
    /* NULL for an error, whose text is then in out. */
    struct tool_job *(*start)(const struct tool *tool, const struct tool_caller *caller,
                              struct str arguments, tool_done_fn done, void *user, struct buf *out);
    void (*stop)(struct tool_job *job);
    /* Whether the user is to approve of the call before it is started; what he is asked is appended
     * to question then.  NULL: never. */
    bool (*asks)(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                 struct buf *question);
    void *settings; /* of start and asks */
    const char *says;
};

/* For whom a call is made.  Spans live during the call into the tool. */
struct tool_caller {
    struct str owner, conversation_id, task_id;
    bool is_program; /* a program makes it, and no model: some arguments are refused then */
};

#endif
