/* agent_exec -- agents that are programs: JSON lines on stdin and stdout (PROTOCOL.md section 8).
 *
 * Shape:    agent_exec_ops is the adapter for core/agent.h; its settings are exec_settings.
 *           agent_form.h and agent_acp.h stand between it and core, for programs that speak
 *           otherwise: feed, bytes and max_line are theirs.
 *           Each run is one supervisor (gateway/processes/supervisor.h) with the program below it.
 * Kept:     agent_kept_ops is the same for programs that outlive the gateway (holder.h): settings
 *           with kept.  Its runs go on after a restart; lines for the program are numbered.
 * Thread:   loop.  SIGPIPE must be ignored by the process.
 * Owns:     the run, until its last handle has closed: some turns of the loop after free. settings
 *           stay the caller's and must outlive the runs.
 * Errors:   start: a program that is missing or may not be executed.  Everything later ends the run
 *           as RUN_FAILED with a sentence, followed by the last 4 KiB of stderr, unchanged.
 * Limits:   a line of max_line bytes; EXEC_QUEUE bytes that wait for the program to read
 *           them, in addition to the run line (deliver returns false beyond it).  A message does
 *           not wait: deliver accepts it when the pipe has it, and must get the same one until
 *           then.
 * End:      on_end comes when the direct child has exited, its stdout has ended or EXEC_DRAIN_MS
 *           have passed, all lines are handed over (so a paused run ends after unpause), and
 *           nothing of its tree is left: the rest of it is killed then.  A process that does not
 *           die within EXEC_KILL_MS of a SIGKILL is not waited for.  An unpause may hand over
 *           lines, and on_end, before it returns.
 */
#ifndef GATEWAY_AGENTS_AGENT_EXEC_H
#define GATEWAY_AGENTS_AGENT_EXEC_H

#include <uv.h>

#include "core/agent.h"
#include "core/file_lender.h"

#define EXEC_QUEUE (1024 * 1024) /* bytes */
#define EXEC_DRAIN_MS 1000       /* output of grandchildren after the end of their parent */
#define EXEC_KILL_MS 2000
#define EXEC_DIGEST 33 /* bytes of a string */

struct kept;

/* Its stdin begins with this. */
enum exec_feed {
    EXEC_FEED_RUN,   /* the run line; other lines may follow */
    EXEC_FEED_OPEN,  /* nothing: lines are delivered */
    EXEC_FEED_INPUT, /* the input of the task as it is, and then its end */
    EXEC_FEED_END    /* its end */
};

struct exec_settings {
    uv_loop_t *loop;
    char **command;   /* argv, NULL-terminated */
    char **env;       /* "KEY=value", NULL-terminated, besides PATH, HOME and LANG; NULL for none */
    const char *cwd;  /* NULL: the gateway's */
    const char *work; /* not NULL: cwd is the conversation's own folder below it (sandbox.h) */
    const char *self; /* the holdfast binary, run as supervisor; NULL: /proc/self/exe */
    enum exec_feed feed;
    bool bytes;       /* on_line is given what comes as it comes, not lines */
    size_t max_line;  /* 0: MAX_AGENT_LINE */
    size_t max_queue; /* bytes that wait to be read, beside the run line; 0: EXEC_QUEUE */
    const struct lender *lender; /* NULL: its messages have no files */
    struct kept *kept;           /* NULL: the program ends with the gateway */
    bool second;                 /* it takes the place of one that has ended in vain */
    bool anew;                   /* resume ends what is there, which knows of nothing, and starts */
    uint32_t keep_s;             /* how long it lives without one */
    char digest[EXEC_DIGEST];    /* of its configuration (exec_set_digest) */
};

extern const struct agent_ops agent_exec_ops, agent_kept_ops;

/* Starts a second program in place of that of a run of agent_kept_ops, which has ended; settings
 * with second.  That run is only to be freed.  NULL, with a sentence, when it cannot start. */
struct run *exec_start_second(struct exec_settings *s, const struct run_spec *spec,
                              const struct run_events *events, void *task, char *ret_error);

/* The program of a run of agent_kept_ops, whose task is settled, goes on with another one, which is
 * prepared.  False: it cannot, and is only to be freed. */
bool exec_move(struct run *run, struct str task_id) MUST_USE;
/* The program of a task whose end is committed may go; settled has been told, or does more. */
void exec_settle(const struct exec_settings *s, struct str task_id);
/* From here on such a program does not outlive the gateway. */
void exec_ends_alone(struct run *run);

/* For a kept program: by this the next gateway sees whether it is configured as it was, and what
 * it prints read as it was (form, whatever its numbers mean). */
void exec_set_digest(struct exec_settings *s, int form);

#endif
