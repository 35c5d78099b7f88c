/* fault -- injected failures: a guarded operation fails when a test says so.
 *
 *     HOLDFAST_FAULT=send:3 holdfast serve …     the third message to a client cannot be written
 *     HOLDFAST_FAULT=commit:5+,accept:1 …        every commit from the fifth on; the first accept
 *
 * Shape:    a point is passed by FAULT(NAME), which is true when the operation there must fail.  In
 *           builds without FAULTS (CMakeLists.txt), and so in every release, it is the constant
 *           false, and the environment is not read.
 * Thread:   any; call fault_open before there is a second one.
 * Errors:   none of its own: an injected failure is handled where it is guarded, like a real one.
 */
#ifndef GATEWAY_BASE_FAULT_H
#define GATEWAY_BASE_FAULT_H

#include <stdbool.h>

/* X(NAME, name): what fails */
#define FAULT_TABLE(X)                                                            \
    X(COMMIT, commit)   /* a batch: STORE_IO, and nothing changes */              \
    X(READ, read)       /* a query: STORE_IO */                                   \
    X(ANSWER, answer)   /* nothing: an answer is held while there is a gate */    \
    X(FILE, file)       /* nothing: a read of a file's bytes is held like that */ \
    X(SPAWN, spawn)     /* the process of an agent: EAGAIN */                     \
    X(SEND, send)       /* a message to a client: like a broken socket */         \
    X(ACCEPT, accept)   /* a connection: EMFILE */                                \
    X(TIMER, timer)     /* due timers: they wait for the next turn */             \
    X(INFLATE, inflate) /* memory for the expander of messages: there is none */  \
    X(DEFLATE, deflate) /* memory for a compressor of messages: there is none */

/* X(NAME, name): behind what the process is killed, by SIGKILL */
#define DIE_TABLE(X)                                                                         \
    X(SPLICE_OUT, die_splice_out)       /* a move from the stdout of a kept program */       \
    X(REWIND_1, die_rewind_1)           /* the first step of a rewind there */               \
    X(REWIND_2, die_rewind_2)           /* the second */                                     \
    X(REWIND_3, die_rewind_3)           /* the third, and the cut behind it */               \
    X(PUNCH, die_punch)                 /* a cut there */                                    \
    X(LINE_BYTES, die_line_bytes)       /* the bytes of a line for its stdin */              \
    X(LINE_NUMBER, die_line_number)     /* its number */                                     \
    X(SPLICE_IN, die_splice_in)         /* a move to stdin */                                \
    X(IN_CUT, die_in_cut)               /* a cut there */                                    \
    X(BIND, die_bind)                   /* the socket of a holder, not started yet */        \
    X(RENAME, die_rename)               /* in a holder: its socket has its name */           \
    X(FORK, die_fork)                   /* in a holder: the start of its program */          \
    X(REPORT, die_report)               /* in a holder: the note of the program's end */     \
    X(COMMIT_BEFORE, die_commit_before) /* a batch came to the store */                      \
    X(COMMIT_AFTER, die_commit_after)   /* and is committed */                               \
    X(MODEL_ASKED, die_model_asked)     /* a model was asked for a turn */                   \
    X(MODEL_SAID, die_model_said)       /* a piece of its answer */                          \
    X(NOTE, die_note)                   /* the note of a turn, of a message, of an id */     \
    X(TOOL_BEFORE, die_tool_before)     /* the commit that a tool begins after */            \
    X(TOOL_AFTER, die_tool_after)       /* its begin */                                      \
    X(TOOL_DONE, die_tool_done)         /* its result, not committed */                      \
    X(FOLDER, die_folder)               /* the folder of a command */                        \
    X(KEEPER, die_keeper)               /* the start of its keeper */                        \
    X(ATTACH, die_attach)               /* a command was found again */                      \
    X(DROPPED, die_dropped)             /* its folder is gone, as its result is committed */ \
    X(STAGED, die_staged)               /* at a start: a task.resumed, not committed */      \
    X(REPAIRED, die_repaired)           /* all of them are, and no run has begun */          \
    X(AGAIN, die_again)                 /* a run has begun again */                          \
    X(LEFT, die_left)                   /* at a planned stop: a run was left */              \
    X(LINE_TAKEN, die_line_taken)       /* a line of it was told to core */                  \
    X(MARK_STAGED, die_mark_staged)     /* and its mark */                                   \
    X(SPAWN, die_spawn)                 /* its start */                                      \
    X(CANCEL, die_cancel)               /* it was told to stop */                            \
    X(FOUND, die_found)                 /* at a start: a holder has answered */              \
    X(RESUMED, die_resumed)             /* its task goes on, but not its run yet */          \
    X(ATTACHED, die_attached)           /* its run does */                                   \
    X(SETTLED, die_settled)             /* the end of its task is committed */               \
    X(UNLINKED, die_unlinked)           /* and its socket is gone */                         \
    X(LEAVE, die_leave)                 /* at a planned stop: it was left */                 \
    X(MOVED, die_moved)                 /* it serves another task, whose socket is there */  \
    X(EFFECT, die_effect)               /* what an ACP agent asked for, not answered yet */  \
    X(POSTED, die_posted)               /* a request to the server of an agent */            \
    X(REPLY_HEAD, die_reply_head)       /* the head of its reply */                          \
    X(ANEW, die_anew)                   /* what was said is withdrawn, not committed */

enum fault_point {
#define X(NAME, name) FAULT_##NAME,
    FAULT_TABLE(X)
#undef X
#define X(NAME, name) FAULT_DIE_##NAME,
        DIE_TABLE(X)
#undef X
            N_FAULT_POINTS
};

#ifdef HOLDFAST_FAULTS
#define FAULT(NAME) fault_strikes(FAULT_##NAME)
/* When it strikes, blocks while HOLDFAST_FAULT_GATE names an existing file: so a test decides what
 * happens first. */
#define FAULT_GATE(NAME) fault_gate(FAULT_##NAME)
#define FAULT_DIE(NAME) fault_die(FAULT_DIE_##NAME)
/* Reads HOLDFAST_FAULT: NULL, or what is wrong with it (static text). */
const char *fault_open(void);
bool fault_strikes(enum fault_point point);
void fault_gate(enum fault_point point);
void fault_die(enum fault_point point);
/* Logs how often each point was passed. */
void fault_report(void);
#else
#define FAULT(NAME) false
#define FAULT_GATE(NAME) ((void)0)
#define FAULT_DIE(NAME) ((void)0)
#endif

#endif
