/* keeper -- the small process that holds one command, so that it outlives the gateway.
 *
 * Shape:    keeper_spawn starts "holdfast keep FOLDER" on the gateway's side; keeper_main is that
 *           process.  All that they tell each other lies in the folder (keep_folder.h), so that the
 *           next gateway can read it as well; a SIGTERM asks it to end its command.
 * Promise:  the output ring and the status are right at any moment, whoever is killed.  A command
 *           that is asked to end gets SIGTERM, and SIGKILL, with all of its tree, KEEPER_GRACE_MS
 *           later.  When the keeper has exited, nothing of the tree is left and the status says how
 *           it ended; without such a status it was killed itself: the command is lost.
 * Ends:     with its direct child.  Whatever of its tree still holds the output is waited for
 *           KEEPER_DRAIN_MS and then killed.  A command that closes its output early runs on.
 *           When the folder is removed, no gateway can find the keeper any more: within
 *           KEEPER_LOOK_MS it kills its tree and ends.
 * Thread:   spawn: loop.  The keeper has one thread.
 * Errors:   -1 and a sentence.
 */
#ifndef GATEWAY_PROCESSES_KEEPER_H
#define GATEWAY_PROCESSES_KEEPER_H

#include <sys/types.h>

#include "proto/base.h"

#define KEEPER_GRACE_MS 2000
#define KEEPER_DRAIN_MS 1000
#define KEEPER_LOOK_MS 5000
#define KEEPER_QUEUE 65536 /* bytes for its stdin that wait; beyond, the FIFO fills */

/* folder: where keep_spec_write has written what to run; env: all of its environment.  Returns a
 * pidfd of the keeper, a child of ours (waitid reaps it), and its pid. */
int keeper_spawn(const char *path, int folder, char **env, const char *self, pid_t *ret_pid,
                 char ret_error[256]);
/* Of one that was just spawned and cannot be watched: it is killed, reaped, and its pidfd closed.
 * Its command, if there is one already, dies of its death. */
void keeper_discard(int pidfd);

/* The process itself: argv is {"holdfast", "keep", FOLDER}.  Returns when it was not started by
 * keeper_spawn; else it exits. */
int keeper_main(int argc, char **argv);

#endif
