/* tree -- a program and all that descends from it, as its parent sees them: found, reaped, killed.
 *
 * Shape:    for the small processes of the gateway's own (supervisor.h, keeper.h): each has one
 *           tree.  tree_open, tree_start, then tree_wait and tree_reap in turns; tree_kill at the
 *           end.
 * Promise:  the program runs in a session of its own, and dies with its parent.  After tree_kill no
 *           process of the tree is left, setsid'ed grandchildren included.
 * Thread:   the process has one.  All its signals are blocked from tree_open on.
 * Why:      a subreaper becomes the parent of whoever of the tree loses his own: so all are found.
 */
#ifndef GATEWAY_PROCESSES_TREE_H
#define GATEWAY_PROCESSES_TREE_H

#include <sys/types.h>

#include "proto/base.h"

struct tree {
    pid_t program; /* the direct child and its group; 0 once it is reaped: no signals any more */
    int signals;   /* readable when there is something to reap, or somebody asks for the end */
    int fault;     /* while nobody knows whether it runs; -1 */
    int error;     /* when it has ended: the errno for which it never ran; 0 */
    void (*ended)(struct tree *t, int status); /* the program has; as waitpid gives it */
    /* Closes what is the program's alone, so that it decides when that ends.  Called once the
     * program has it, and before it runs: what it closes at once is closed. */
    void (*release)(struct tree *t);
};

/* 0 or an errno. */
int tree_open(struct tree *t) MUST_USE;
/* Runs the program (argv, searched in PATH); prepare is called in it before, and is 0 or an errno.
 * Returns when it runs: its group exists and can be signalled.  0 or an errno.  A program that
 * something stops before it runs is not waited for: 0, and error when it ends. */
int tree_start(struct tree *t, char **command, int (*prepare)(void *arg), void *arg) MUST_USE;
/* Reaps who has ended; true while there are children. */
bool tree_reap(struct tree *t);
/* Waits for the end of a child, at most so long; true when a SIGTERM has asked for the end. */
bool tree_wait(struct tree *t, int timeout_ms);
/* SIGTERM to the program's group; of one that is wrapped (bubblewrap: two processes of its own,
 * which would take all with them at once) to all of its session but these two. */
void tree_ask(struct tree *t, bool wrapped);
/* SIGKILL, until nothing is left. */
void tree_kill(struct tree *t);

/* The start of a process in clock ticks since boot: with its pid it is one process and no other.
 * 0 when there is none of that pid. */
uint64_t process_start_ticks(pid_t pid);
pid_t process_parent(pid_t pid); /* 0 when there is none of that pid */

#endif
