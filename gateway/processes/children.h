/* children -- the processes that the gateway has spawned, as opposed to its other children.
 *
 * Shape:    spawn_session adds one; children_reap reaps it and forgets it.  An orphan that the
 *           gateway inherits (process 1 of a container, a subreaper) belongs to nobody:
 *           children_look reaps it when it has ended.
 * Promise:  only the caller of children_reap learns of the end of a spawned process.
 * Thread:   the loop's; children_has: any.
 */
#ifndef GATEWAY_PROCESSES_CHILDREN_H
#define GATEWAY_PROCESSES_CHILDREN_H

#include <sys/types.h>
#include <sys/wait.h>

#include "proto/base.h"

void children_add(pid_t pid);
bool children_has(pid_t pid);
/* waitid for a spawned process, with WEXITED and these options.  False: it has not ended yet.
 * ret->si_pid is 0 when it is no child of ours (an earlier gateway has spawned it). */
bool children_reap(idtype_t type, id_t id, int options, siginfo_t *ret);
/* A child has changed its state.  Reaps orphans that have ended, and continues spawned processes
 * that were stopped: a supervisor that its own program stops could report nobody's end. */
void children_look(void);

#endif
