/* acp_process -- the program of an ACP agent: its life, and what passes between it and a task.
 *
 * Shape:    agent_acp.c has the port to core and the pool; acp_again.c has what a restart of the
 *           gateway needs.
 *
 *             acp_run (a task) ──▶ acp_process ──▶ a run of agent_exec, of either kind
 *                                    │  ▲
 *                      turn is over  ▼  │  next turn of the conversation
 *                                    pool ─pool_idle_s, pool─▶ closed
 *
 *           A process with a turn has a run; one in the pool has none.  One that is spent (it has
 *           ended, or is broken) never comes into the pool: its run's free closes it, or, when it
 *           ends in the pool, its timer, since nothing is freed from inside a callback of its own.
 * Flush:    all that is written and said goes through acp_flush, behind the files that the program
 *           has given: what comes while one is stored waits for that.
 * Kept:     with settings that keep it, a program is told nothing and begins nothing that is not
 *           committed (acp_again.c).  Between turns no gateway goes on with it, so it is served
 *           like one that is not kept.
 * Thread:   loop.
 * Owns:     a process owns its inner run; whoever has it closes it.
 */
#ifndef GATEWAY_AGENTS_ACP_PROCESS_H
#define GATEWAY_AGENTS_ACP_PROCESS_H

#include "gateway/agents/acp_files.h"
#include "gateway/agents/acp_gifts.h"
#include "gateway/agents/acp_terminals.h"
#include "gateway/agents/agent_acp.h"

struct acp_process;

struct acp_run {
    unsigned magic;
    struct acp_process *process;
    struct run_events events;
    void *task;
    bool ended;
    struct lending *lending; /* the message's files are on their way to lent */
    struct buf lent;
};

/* For what a commit is waited for, in the order in which it was asked. */
enum acp_commit { ACP_COMMIT_INNER, ACP_COMMIT_EFFECT, ACP_COMMIT_SECOND };
#define N_ACP_COMMITS 3

struct acp_process {
    unsigned magic;
    struct acp_settings *s;
    struct list node; /* in the pool, or busy */
    struct acp_run *run;
    struct run *inner; /* agent_exec's */
    struct acp acp;
    struct acp_folder folder;
    struct acp_shell shell;
    struct acp_gifts gifts;
    struct buf given; /* data of events file, a line each, that are not told yet */
    char *owner, *conversation_id;
    char task_id[TASK_ID_LEN + 1]; /* its last turn */
    uv_timer_t timer; /* in a turn: half of the grace; in the pool: keep_ms; spent: 0 */
    bool spent, session_kept, pooled;
    bool reused, heard; /* it comes from the pool; it has said anything since */

    /* While it is kept. */
    bool begins;       /* its turn has begun, and nothing was said yet: the timer does it */
    bool settled;      /* in the pool: the end of its turn is committed */
    bool wants_more;   /* the task does */
    bool left;         /* the next gateway goes on with it */
    struct buf noted;  /* the newest standing note */
    struct buf effect; /* a request with an effect, until that may begin; "" for none */
    bool again;        /* the next line is one that an earlier gateway has begun to carry out */
    enum acp_commit commits[N_ACP_COMMITS];
    size_t n_commits;
    uint64_t mark;       /* behind the last line */
    bool mark_waits;     /* it is not staged yet */
    bool second;         /* it takes the place of one that had ended in vain, … */
    bool second_waits;   /* … or will, when that is committed */
    uint64_t said, skip; /* the newest line of this turn; those up to skip were for the first one */
};

struct acp_process *acp_process_of(void *arg);
struct acp_run *acp_run_of(void *arg);
struct program_session acp_session_of(const struct acp_process *p);

/* How a program comes to be there. */
enum acp_begin {
    ACP_STARTS,
    ACP_TAKES_PLACE, /* of the conversation's one, which has ended */
    ACP_STARTS_ANEW, /* after a restart: whatever is there was told nothing */
    ACP_GOES_ON      /* after a restart: its state is taken over by the caller */
};
/* NULL with a sentence.  mark: for ACP_GOES_ON. */
struct acp_process *acp_process_new(struct acp_settings *s, const struct run_spec *spec,
                                    enum acp_begin begin, bool second, uint64_t mark,
                                    char *ret_error);
/* Never from inside a callback of its inner run. */
void acp_close(struct acp_process *p);
void acp_leave_list(struct acp_process *p);
void acp_begin_run(struct acp_process *p, struct acp_run *r);
struct acp_options acp_options_of(struct acp_process *p);

/* Its timer: see there. */
void acp_arm(struct acp_process *p, msec_t ms);

/* Whether what comes must wait: for a file that is stored, or for a commit. */
bool acp_is_busy(const struct acp_process *p);
/* False: nothing is to be read for now. */
bool acp_flush(struct acp_process *p);
void acp_go_on_reading(struct acp_process *p, bool wants_more);
void acp_ask(struct acp_process *p, struct str input, struct str recap, const struct buf *files);
/* The program of a pooled process is served without a task. */
void acp_idle(struct acp_process *p);
static inline bool acp_is_kept(const struct acp_process *p)
{
    return p->s->exec.kept != NULL;
}
static inline const struct agent_ops *acp_inner_ops(const struct acp_process *p)
{
    return acp_is_kept(p) ? &agent_kept_ops : &agent_exec_ops;
}

/* --- for programs that are kept (acp_again.c) ------------------------------------------------- */

void acp_note(struct acp_process *p);
/* The line asks for what begins when that is committed.  False: nothing is to be read for now. */
bool acp_hold_effect(struct acp_process *p, struct str line);
void acp_proceed(struct acp_process *p);
bool acp_on_mark(void *process, uint64_t mark);
void acp_on_taken(void *process, uint64_t position);
void acp_when_committed(void *process);
/* Its program has died of the prompt, unheard: there will be another one. */
void acp_wait_for_second(struct acp_process *p);
bool acp_deliver_at(struct acp_process *p, uint64_t position, struct str line);

struct recall *acp_recall(void *settings, struct recall *recall, const struct recalled *item,
                          bool *ret_settled);
void acp_forget_recall(struct recall *recall);
/* The process that goes on with what is there, without its run; NULL with a sentence.  *ret_anew:
 * it starts from the beginning. */
struct acp_process *acp_process_again(struct acp_settings *s, const struct run_spec *spec,
                                      const struct resumption *from, bool *ret_anew,
                                      char *ret_error);
/* With its run, when it does not start from the beginning. */
void acp_turn_again(struct acp_process *p, const struct run_spec *spec, struct str recap,
                    struct str files, const struct resumption *from);
/* Replaces a process by one that begins anew, which gets its run. */
void acp_move_run(struct acp_process *p, struct acp_process *next);

#endif
