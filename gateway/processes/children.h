/* children -- the processes that the gateway has spawned, told from all others that are its
 * children.
 *
 * Shape:    spawn_session adds one; children_reap reaps it and forgets it.  An orphan that comes
 *           to the gateway (process 1 of a container, a subreaper) is nobody's: children_look
 *           reaps it when it has ended.
 * Promise:  the end of what was spawned is told to the caller of children_reap, and to nobody else.
 * Thread:   the loop's; children_has: any.
 */
#ifndef GATEWAY_PROCESSES_CHILDREN_H
#define GATEWAY_PROCESSES_CHILDREN_H

#include <sys/types.h>
#include <sys/wait.h>

#include "proto/base.h"

void children_add(pid_t pid);
bool children_has(pid_t pid);
/* waitid for one that was spawned, with WEXITED and these options.  False: it has not ended yet.
 * ret->si_pid is 0 when it is no child of ours (an earlier gateway has spawned it). */
bool children_reap(idtype_t type, id_t id, int options, siginfo_t *ret);
/* Some child has changed its state.  Reaps orphans that have ended, and lets go on what was spawned
 * and was stopped: a supervisor that its own program stops could tell nobody of its end. */
void children_look(void);

#endif
