/* worker_doors -- where workers come in: at their own WebSockets, and from other nodes.
 *
 * Shape:    a worker dials one node and serves the agents of all.  That node is its front
 *           (worker_fan.h): it says hello for it at every node that can be reached, its own among
 *           them, and carries its frames to the home of each run and back.  A home has an instance
 *           of the worker as if it had dialled there (worker_gate.c), but asks the front for each
 *           place, so that the worker never has more runs than it wants.
 *
 *             worker ══ socket ══ front ══╤══ instance here
 *                                         ├══ pipe ══ gate ══ instance at another home
 *                                         └══ …
 *
 *           Whenever another node can be reached, its workers are told to come again (1001): their
 *           next hello is said there too.  So are those of a run that has left its home.
 * Frames:   over a pipe go lines.  To the home: the worker's own, and "!" for a place.  To the
 *           front: the instance's, and "oHEX" slots that are served there, "+N" and "-" places
 *           that it has and gives back, "?" it wants one, "cN" it closes with that code.
 * Thread:   loop.
 */
#ifndef GATEWAY_WORKERS_WORKER_DOORS_H
#define GATEWAY_WORKERS_WORKER_DOORS_H

#include "gateway/agents/workers.h"
#include "gateway/cluster/cluster.h"
#include "gateway/front/front.h"
#include "gateway/front/relay.h"

/* All of a process. */
struct doors {
    struct front *front;
    struct workers *workers;
    struct worker_decoder decoder; /* scratch */
    struct js_doc doc;             /* scratch, for lines of homes */
    struct list fans;              /* of struct worker_fan */
    struct list gates;             /* of struct gate */
    struct cluster_watcher watcher;
    struct pipe_server server; /* the front's */
};

/* The cluster is open.  Closed behind the last connection and the last link. */
void doors_open(struct doors *d, struct front *f, struct workers *w);
void doors_close(struct doors *d);
/* The slots that are served here, with every run of their owners that a worker can have. */
void doors_slots(const struct doors *d, struct slots *ret);
/* The next line of bytes that come in pieces, without its newline; false: it is not whole yet. */
bool doors_line(struct str *bytes, struct str *ret);

/* worker_fan.c: what was unknown may be known now; a node can be reached. */
void fans_settle(struct doors *d);
void fans_call_again(struct doors *d);

/* worker_gate.c */
void *gate_open(void *arg, struct pipe *p, const struct pipe_user **ret_user);
void gates_tell_slots(struct doors *d);

#endif
