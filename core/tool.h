/* tool -- the port for an agent's tools.
 *
 * Shape:    one of three ways to carry out a call:
 *             call   computes the result at once;
 *             start  takes time: done comes later, once, never from inside start or stop;
 *             says   core carries it out: as the call of PROTOCOL.md section 8 with the arguments
 *                    as its members ("spawn"), or as the event input_required.  For agents of kind
 *                    react, which cannot send these in any other way.
 * Effects:  a call begins when its tool_call is committed, unless the tool is TOOL_AGAIN.  So after
 *           a restart of the gateway a call without a result is treated by enum tool_again.
 * Thread:   loop.  Nothing blocks.
 * Owns:     a job belongs to its tool until stop, which is called exactly once, after done or
 *           instead of it, never from inside done.
 * Talk:     a job may report its progress and ask the user, where its caller lets it.
 * Errors:   texts that a model can read.
 */
#ifndef CORE_TOOL_H
#define CORE_TOOL_H

#include "proto/js.h"
#include "proto/trace.h"

struct tool;
struct tool_caller;
struct tool_job; /* defined by the tool */
typedef void (*tool_done_fn)(void *user, bool good, struct str output);

/* All calls of one program, or of one tool: a user may allow them for a whole conversation. */
struct tool_topic {
    struct buf name; /* as the user reads it, in "Allow … in this conversation" */
    struct buf key; /* what it is compared by; begins with the kind of tool, since all share them */
};

/* How to treat a call that was under way when the gateway stopped. */
enum tool_again {
    TOOL_NEVER,  /* it may have taken effect: the model is told that nobody knows */
    TOOL_AGAIN,  /* it changes nothing, or nothing more: it is called again */
    TOOL_ATTACH, /* attach finds what became of it */
};

struct tool {
    const char *name;
    const char *description;
    const char *parameters; /* JSON Schema of the arguments */
    /* Appends the output (plain text) to out; on an error false, with the error's text in out. */
    bool (*call)(struct str arguments, int64_t wall_ms, struct buf *out);
    /* NULL on an error, with its text in out. */
    struct tool_job *(*start)(const struct tool *tool, const struct tool_caller *caller,
                              struct str arguments, tool_done_fn done, void *user, struct buf *out);
    void (*stop)(struct tool_job *job);
    /* stop, at a planned stop of the gateway: what the job began stays for attach.  NULL: stop. */
    void (*leave)(struct tool_job *job);
    bool gives_file; /* its output is a file, a JSON object, that the task names from then on */
    enum tool_again again;
    /* The same by its arguments; NULL: by again alone. */
    enum tool_again (*again_by)(const struct tool *tool, struct str arguments);
    /* start, for a call of an earlier gateway: waits for what that began, or begins it if that
     * never did. */
    struct tool_job *(*attach)(const struct tool *tool, const struct tool_caller *caller,
                               struct str arguments, tool_done_fn done, void *user,
                               struct buf *out);
    /* Names where attach looks.  A call that was made elsewhere, on another machine or before a
     * reboot, may have begun without a trace here: nobody knows.  NULL: attach finds it wherever
     * that was. */
    const char *(*place)(const struct tool *tool);
    /* Whether the user must approve the call before it starts; if so, appends the question to
     * question.
     * NULL: never. */
    bool (*asks)(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                 struct buf *question);
    /* The topic that the user may allow instead, so that its further calls are not asked about in
     * the conversation.  False, with anything in ret: this call is to be asked about each time, as
     * one whose topic would amount to a shell.  NULL: all are. */
    bool (*topic)(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                  struct tool_topic *ret);
    /* The answer to a question that its job has asked: JSON, a text, true, false, or null when
     * nobody answered in time.  NULL: its jobs ask nothing. */
    void (*answer)(struct tool_job *job, struct str answer);
    void *settings; /* for start, asks and topic */
    const char *says;
};

/* A question of a job. */
struct tool_question {
    struct str prompt;
    bool approval;     /* answered by true or false, not by a text */
    int64_t timeout_s; /* -1: none */
};

/* Between start and done, never from inside start or stop; user is that of start. */
struct tool_talk {
    void (*progress)(void *user, double progress, struct str note); /* 0 to 1 */
    /* The job gives a file, a JSON object, that the task names from then on; NULL: it cannot. */
    void (*file)(void *user, struct str file);
    /* False: it cannot be asked.  One question at a time. */
    bool (*ask)(void *user, const struct tool_question *question);
};

/* The caller of a tool.  Spans are valid during the call into the tool. */
struct tool_caller {
    struct str owner, conversation_id, task_id;
    bool is_program; /* called by a program, not a model: some arguments are refused then */
    struct str call; /* names the call in its task, over restarts; at most 32 bytes */
    const struct tool_talk *talk;      /* NULL: its jobs can only end */
    const struct trace_context *trace; /* of the call, for whatever it asks; NULL: none */
};

static inline void tool_topic_done(struct tool_topic *t)
{
    buf_done(&t->name);
    buf_done(&t->key);
}

static inline enum tool_again tool_again(const struct tool *tool, struct str arguments)
{
    return tool->again_by ? tool->again_by(tool, arguments) : tool->again;
}

/* Whether attach cannot find what a call has begun that was made there; NULL and "": nobody knows
 * where. */
static inline bool tool_is_elsewhere(const struct tool *tool, const char *place)
{
    return tool && tool->place && !(place && *place && strcmp(tool->place(tool), place) == 0);
}

/* The result of a call whose fate nobody knows. */
#define TOOL_UNKNOWN "the gateway restarted while this ran; whether it took effect is unknown"

#endif
