/* fault -- what can fail, fails when a test says so.
 *
 *     HOLDFAST_FAULT=send:3 holdfast serve …     the third message to a client cannot be written
 *     HOLDFAST_FAULT=commit:5+,accept:1 …        every commit from the fifth on; the first accept
 *
 * Shape:    a point is passed by FAULT(NAME), true when what it guards is to fail.  In builds
 *           without FAULTS (CMakeLists.txt), and so in every release, it is the constant false, and
 *           the environment is not looked at.
 * Thread:   any; fault_open before there is a second one.
 * Errors:   none of its own: what fails is handled where it is guarded, as the true failure would
 *           be.
 */
#ifndef GATEWAY_BASE_FAULT_H
#define GATEWAY_BASE_FAULT_H

#include <stdbool.h>

/* X(NAME, name): what fails when it strikes */
#define FAULT_TABLE(X)                                                         \
    X(COMMIT, commit)   /* a batch: STORE_IO, and nothing is changed */        \
    X(READ, read)       /* a query: STORE_IO */                                \
    X(ANSWER, answer)   /* none: an answer is kept while there is a gate */    \
    X(SPAWN, spawn)     /* the process of an agent: EAGAIN */                  \
    X(SEND, send)       /* a message to a client: as on a broken socket */     \
    X(ACCEPT, accept)   /* a connection: EMFILE */                             \
    X(TIMER, timer)     /* timers that are due: they wait for the next turn */ \
    X(INFLATE, inflate) /* memory of the expander of messages: none */         \
    X(DEFLATE, deflate) /* memory of a compressor of messages: none */

enum fault_point {
#define X(NAME, name) FAULT_##NAME,
    FAULT_TABLE(X)
#undef X
        N_FAULT_POINTS
};

#ifdef HOLDFAST_FAULTS
#define FAULT(NAME) fault_strikes(FAULT_##NAME)
/* Does not go on, when it strikes, as long as HOLDFAST_FAULT_GATE names a file: so a test decides
 * what happens first. */
#define FAULT_GATE(NAME) fault_gate(FAULT_##NAME)
/* Reads HOLDFAST_FAULT: NULL, or what is wrong with it (static text). */
const char *fault_open(void);
bool fault_strikes(enum fault_point point);
void fault_gate(enum fault_point point);
/* Logs how often each point was passed. */
void fault_report(void);
#else
#define FAULT(NAME) false
#define FAULT_GATE(NAME) ((void)0)
#endif

#endif
