/* tree -- a program and all its descendants, as their parent sees them: found, reaped, killed.
 *
 * Shape:    for the gateway's small processes (supervisor.h, keeper.h): each has one tree.
 *           tree_open, tree_start, then tree_wait and tree_reap in turns; tree_kill at the end.
 * Promise:  the program runs in its own session, and dies with its parent.  After tree_kill no
 *           process of the tree is left, including grandchildren in their own sessions.
 * Thread:   the process has one.  All its signals are blocked from tree_open on.
 * Why:      a subreaper becomes the parent of every process in the tree that loses its own, so it
 *           finds all of them.
 */
#ifndef GATEWAY_PROCESSES_TREE_H
#define GATEWAY_PROCESSES_TREE_H

#include <sys/types.h>

#include "proto/base.h"

struct tree {
    pid_t program; /* the direct child and its group; 0 once it is reaped: no signals any more */
    int signals;   /* readable when there is something to reap, or somebody asks for the end */
    int fault;     /* while it is unknown whether it runs; -1 */
    int error;     /* when it has ended: the errno that kept it from running; 0 */
    void (*ended)(struct tree *t, int status); /* the program has ended; status as from waitpid */
    /* Closes the program's own descriptors, so that it decides when they end.  Called once the
     * program has them, and before it runs, so a descriptor that it closes at once is closed. */
    void (*release)(struct tree *t);
};

/* 0 or an errno. */
int tree_open(struct tree *t) MUST_USE;
/* Runs the program (argv, searched in PATH); prepare is called in it first, and returns 0 or an
 * errno.  Returns when it runs: its group exists and can be signalled. 0 or an errno.  If something
 * stops the program before it runs, this does not wait: it returns 0, and error is set when it
 * ends. */
int tree_start(struct tree *t, char **command, int (*prepare)(void *arg), void *arg) MUST_USE;
/* Reaps ended children; true while there are children. */
bool tree_reap(struct tree *t);
/* Waits at most that long for the end of a child; true when a SIGTERM has asked for the end. */
bool tree_wait(struct tree *t, int timeout_ms);
/* SIGTERM to the program's group.  For a wrapped one (bubblewrap: two processes of its own, which
 * would take all others with them at once) to its whole session except these two. */
void tree_ask(struct tree *t, bool wrapped);
/* SIGKILL, until nothing is left. */
void tree_kill(struct tree *t);

/* The start of a process in clock ticks since boot: together with its pid it identifies one
 * process. 0 when there is none with that pid. */
uint64_t process_start_ticks(pid_t pid);
pid_t process_parent(pid_t pid); /* 0 when there is none with that pid */

#endif
