/* keeper -- the small process that holds one command, so that it outlives the gateway.
 *
 * Shape:    keeper_spawn starts "holdfast keep FOLDER" on the gateway's side; keeper_main is that
 *           process.  They communicate through the folder alone (keep_folder.h), so that the next
 *           gateway can read it as well; a SIGTERM asks the keeper to end its command.
 * Promise:  the output ring and the status are right at any moment, whichever process is killed.  A
 *           command that is asked to end gets SIGTERM, and SIGKILL, with all of its tree,
 *           KEEPER_GRACE_MS later.  When the keeper has exited, nothing of the tree is left and the
 *           status says how it ended; without such a status the keeper itself was killed: the
 *           command is lost.
 * Ends:     with its direct child.  If others in its tree still hold the output open, the keeper
 *           waits KEEPER_DRAIN_MS and then kills them.  A command that closes its output early runs
 *           on.  When the folder is removed, no gateway can find the keeper any more: within
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
#define KEEPER_QUEUE 65536 /* bytes that wait for its stdin; beyond this, the FIFO fills */

/* folder: with the spec from keep_spec_write; env: the command's whole environment.  Returns a
 * pidfd of the keeper, a child of ours (waitid reaps it), and its pid. */
int keeper_spawn(const char *path, int folder, char **env, const char *self, pid_t *ret_pid,
                 char ret_error[256]);
/* For a keeper that was spawned but cannot be watched: kills and reaps it, closes its pidfd.  Its
 * command, if there is one already, dies with it. */
void keeper_discard(int pidfd);

/* The process itself: argv is {"holdfast", "keep", FOLDER}.  Returns if keeper_spawn did not start
 * it; otherwise it exits. */
int keeper_main(int argc, char **argv);

#endif
