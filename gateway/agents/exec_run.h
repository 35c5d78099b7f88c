/* exec_run -- a program that runs for a task: its pipes, its state, its end.
 *
 * Shape:    agent_exec.c is the port to core, and makes runs; this is what becomes of them.
 * Thread:   loop.
 * Owns:     a run owns its descriptors, until its last handle has closed after exec_run_free.
 */
#ifndef GATEWAY_AGENTS_EXEC_RUN_H
#define GATEWAY_AGENTS_EXEC_RUN_H

#include "gateway/agents/agent_exec.h"
#include "gateway/agents/exec_input.h"
#include "gateway/agents/exec_lines.h"
#include "gateway/processes/supervisor.h"

enum exec_state { EXEC_RUNNING, EXEC_EXITED, EXEC_KILLED, EXEC_GONE, EXEC_ENDED };

struct run {
    unsigned magic;
    enum exec_state state;
    const char *program;
    struct run_events events;
    void *task;

    uv_timer_t timer; /* RUNNING: found again; EXITED: the drain; KILLED: the wait for the dead */
    struct watched out, err, control, pidfd;
    struct exec_input input;
    const struct lender *lender; /* of its files; NULL: there is none */
    struct lending *lending;     /* its files are on their way, and begin waits for them */
    struct buf begin;
    int n_handles; /* open or closing */

    struct exec_lines lines; /* read, not handed over */
    enum exec_feed feed;

    bool paused;
    bool handing;   /* on_line is on the stack */
    bool cancelled; /* its agent was told, maybe by an earlier gateway */
    bool term_sent; /* SIGTERM was sent, by this one: once */
    bool freed;
    bool reported;
    struct supervisor_report report;
    const char *fault;     /* why the adapter ended it; NULL: it did not */
    struct exec_tail tail; /* of stderr */

    /* For a program that is kept. */
    struct kept *kept; /* NULL: it is not */
    char *task_id;
    struct hold_page *page;
    int spool_files[2]; /* of stdout, of stdin */
    struct spool_out spool;
    uint64_t marked;   /* all before it is in the batch that is built, or behind that */
    uint64_t settling; /* the mark that proceed will be about */
    bool asked;        /* when_committed was */
    uint64_t told;     /* the newest line that core knows to be in the pipe */
    bool left;         /* the next gateway goes on with it */
    bool settled;      /* the end of its task is committed */
};

struct run *exec_run_of(const void *data);
struct run *exec_run_new(const struct exec_settings *s, const struct run_events *events,
                         void *task);
/* Takes over the program's descriptors, and watches them.  False: not all of them can be; then
 * only exec_run_free is left. */
bool exec_run_open(struct run *r, const struct supervisor *program);
/* The program was found again, read as far as the mark.  False: that is no place in its output. */
bool exec_run_open_spools(struct run *r, const struct supervisor *program, uint64_t mark);
/* Reads and hands over what is there, and ends what is over. */
void exec_run_go_on(struct run *r);
/* The same, in the next turn of the loop. */
void exec_run_go_on_soon(struct run *r);
void exec_run_kill(struct run *r);
void exec_run_unpause(struct run *r);
void exec_run_proceed(struct run *r);
/* Core learns which lines are in the pipe, and the holder that nothing follows. */
void exec_run_input_moved(struct run *r);
/* Its program serves another task from here on (kept_move); what it says next is for that. */
bool exec_run_move(struct run *r, struct str task_id);
/* Nothing is read or said any more. */
void exec_run_leave(struct run *r);
/* The end of its task is committed: a holder may go. */
void exec_run_settle(struct run *r);
void exec_run_free(struct run *r);

#endif
