/* processes -- the registry of the commands that tools have started.
 *
 * Shape:    each command is held by a keeper (keeper.h), which outlives the gateway; the registry
 *           reads their folders, and is rebuilt from them at a start.
 *
 *             RUNNING ──its keeper exits──▶ EXITED, KILLED, TIMED_OUT, FAILED, LOST ──TTL──▶ gone
 *
 *           A process belongs to one conversation of one owner, and nobody else finds it.  One that
 *           runs in the background stays when its call is over; any other ends with it, and its
 *           folder stays until the answer to the call is committed: so a restart finds what became
 *           of a call that has no answer, and a call without a folder never began.
 * Identity: a keeper is known by its pid and the kernel's start ticks, and must hold the lock of
 *           its folder; only a pidfd that was checked in this way is ever signalled.  If the record
 *           does not match, the process is lost, and no stranger with its pid is signalled.
 * Telling:  the end of a process with notify_on_complete is told once (core/notice.h), over
 *           restarts too.  Looking at it (find, poll, log) has no effect; process_learnt says that
 *           the agent got the end as the answer to a call, and must not be told again.
 * Limits:   PROCESSES_PER_OWNER are kept; limits.processes run, together with exec agents; a
 *           process that was told may be forgotten ttl_ms after its end; this happens when the next
 *           process starts.
 * Thread:   loop.  Nothing waits; files are local and of bounded size (keep_folder.h).
 * Owns:     processes until processes_close, which leaves running commands running.
 */
#ifndef GATEWAY_PROCESSES_PROCESSES_H
#define GATEWAY_PROCESSES_PROCESSES_H

#include <uv.h>

#include "core/hub.h"
#include "gateway/processes/keep_folder.h"

#define PROCESSES_PER_OWNER 64
#define PROCESS_COMMAND_CHARS 200 /* of a command, in a list or a notice */

struct processes;

enum process_told { UNTOLD, TELLING, TOLD };

/* The lines of a running process that its agent asked to hear about (process_watch.c). */
struct process_watch {
    bool on;           /* stays on after its end, until all of its output was examined */
    uint64_t position; /* in its output: everything before it was examined */
    uint64_t seen;     /* bytes of its output, when last examined */
    uint32_t round;    /* processes_private.h */
    bool missed;       /* some of its output was overwritten before it was examined */
    uint32_t n_told, n_left_out;
    uint32_t n_strikes; /* consecutive windows in which something was left out */
    bool struck;        /* this window is a strike */
    int64_t told_at;    /* Unix ms of the last notice */
    uint64_t from;      /* in its output: where the lines begin that are being told */
    struct buf telling; /* until the store has it; meanwhile nothing else is examined */
    bool asked;         /* the store was asked */
};

struct process {
    struct list node;
    struct processes *all;
    char id[KEEP_ID_LEN + 1];
    struct keep_spec spec;
    struct keep_status status;
    bool adopted;     /* an earlier gateway started it */
    bool unclaimed;   /* one did, and the task that did goes on: its call may ask for it */
    bool claimed;     /* its call has asked, and was not answered yet */
    bool never_began; /* its keeper never lived */
    bool young;       /* its keeper lives, and has not said yet who it is */
    bool to_end;      /* process_kill came meanwhile */
    bool left;        /* the gateway stops: the next one answers its call */
    bool forgotten;   /* its conversation is deleted: it is removed when it has ended */
    enum process_told told;
    bool learnt; /* a call has told the agent its end */
    struct process_watch watch;
    struct list waiters;
    struct keeper_watch *keeper; /* NULL when it has ended */
    struct waiter committed;     /* the answer to its call, in the foreground */
};

/* Embedded in whatever waits for the end; remove it from its list to stop waiting. */
struct process_waiter {
    struct list node;
    void (*ended)(struct process_waiter *waiter, struct process *p);
};

struct processes_options {
    uv_loop_t *loop;
    struct hub *hub; /* need not be open yet */
    const char *data;
    int64_t ttl_ms;   /* how long the results of ended ones are kept */
    const char *self; /* the holdfast binary; NULL: /proc/self/exe */
};

struct processes *processes_open(const struct processes_options *options);
void processes_close(struct processes *all);
/* Names where its folders are (place.h). */
const char *processes_place(struct processes *all);
/* At a start, when the hub is restored: finds what earlier gateways left. */
void processes_restore(struct processes *all);
/* hub_options.deleted: kills and forgets the processes of a deleted conversation. arg: struct
 * processes. */
void processes_delete(void *arg, struct str owner, struct str conversation_id);
/* Adds the slots of owners whose commands run here, or have ends that are not told: no other
 * gateway could go on with them. */
void processes_mark(struct processes *all, struct slots *busy);

/* Takes the spec in any case. env: the whole environment.  NULL with a sentence. */
struct process *process_start(struct processes *all, struct keep_spec *spec, char **env,
                              char ret_error[256]);
struct process *process_find(struct processes *all, const struct tool_caller *caller,
                             struct str id); /* NULL: this conversation has no such process */
static inline bool process_runs(const struct process *p)
{
    return p->status.state == KEEP_RUNNING;
}
/* Reads its pid from the folder, if that is not known yet. */
void process_refresh(struct process *p);
void process_wait(struct process *p, struct process_waiter *waiter);
/* Asks it to end: SIGTERM, then SIGKILL to all of its tree.  The end comes soon, never from
 * inside. */
void process_kill(struct process *p);
/* Whole, or not at all: false when its input takes no more now. */
bool process_write(struct process *p, struct str bytes, bool close_behind);
/* Whether its command, or a write with close_behind, has closed it. */
bool process_input_is_closed(const struct process *p);
/* The process that an earlier gateway started for that call of a task that went on; NULL: none. */
struct process *process_claim(struct processes *all, const struct tool_caller *caller);
void process_forget(struct process *p); /* one that never began */
/* Its call is answered: in the foreground it is removed when that is committed. */
void process_answered(struct process *p);
/* Appends at most that many of its last characters; returns whether there were more. */
bool process_text(const struct process *p, size_t chars, struct buf *out);
void process_learnt(struct process *p);
struct list *processes_list(struct processes *all); /* of struct process, by start */

/* "has exited with status 3", "is lost: …". */
void process_put_end(const struct process *p, struct buf *out);
/* The command, cut. */
void process_put_command(const struct process *p, struct buf *out);

#endif
