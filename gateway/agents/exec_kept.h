/* exec_kept -- programs of tasks that outlive the gateway: which there are, and what an earlier
 * gateway has left of them (holder.h).
 *
 * Shape:    one for the data directory.  kept_open connects to all that it finds, so that their
 *           holders answer while the store is read; kept_find takes one for its task, and what
 *           no task has taken is ended by kept_sweep, after the repair.
 *           A new task: kept_prepare before task.started is staged, kept_listener for its holder,
 *           kept_settle when its end is committed.  The socket stays until then, whatever becomes
 *           of the run: the next gateway learns from it that the program ran, or never did.
 * Thread:   loop.  kept_find waits for a holder's answer; all of them together have
 *           KEPT_PATIENCE_MS from kept_open on, and one that somebody has stopped is continued.
 * Owns:     descriptors of programs until a run has taken them over.
 */
#ifndef GATEWAY_AGENTS_EXEC_KEPT_H
#define GATEWAY_AGENTS_EXEC_KEPT_H

#include "gateway/processes/supervisor.h"
#include "proto/buf.h"

/* A digest begins so when the program is the second one of its task, in the place of one that had
 * ended in vain (kept_replace). */
#define KEPT_SECOND '+'
#define KEPT_PATIENCE_MS 10000 /* a holder that takes longer works no more */

struct kept;
struct run;

/* NULL, with a sentence in ret_why (256 bytes), where no program can be kept. */
struct kept *kept_open(const char *data, char *ret_why);
/* Leaves all programs as they are. */
void kept_close(struct kept *k);

/* False, with a sentence, when the socket cannot be made. */
bool kept_prepare(struct kept *k, struct str task_id, char *ret_error);
/* All that supervisor_spawn needs, except keep_s and digest; false: nothing was prepared. */
bool kept_hold(struct kept *k, struct str task_id, struct hold *ret);
/* The holder has its copy of the socket, and the run is told of the task's end. */
void kept_started(struct kept *k, struct str task_id, struct run *run);

enum kept_state { KEPT_GONE, KEPT_NEVER_RAN, KEPT_LIVES };
/* The rest of a task.  KEPT_GONE with the reason; KEPT_LIVES: ret_last is the newest line of that
 * task that the program was given.  A program that was started otherwise (digest) is ended. */
enum kept_state kept_find(struct kept *k, struct str task_id, const char *digest,
                          uint64_t *ret_last, char ret_why[256]);
/* The program, once; false: there is none.  second: its successor is wanted, and one that is the
 * first is ended instead. */
bool kept_take(struct kept *k, struct str task_id, bool second, struct supervisor *ret);
/* Prepares a second program in place of the run's, which has ended: from here on a start finds the
 * second one alone. */
bool kept_replace(struct kept *k, struct str task_id, char *ret_error);
/* The program of a task whose end is committed serves another one, which is prepared: from here on
 * a start finds it there.  False: nothing has changed. */
bool kept_move(struct kept *k, struct str from, struct str to);
/* The run that has the task's program; NULL: none. */
struct run *kept_run(const struct kept *k, struct str task_id);
/* The end of the task is committed, and its run, if there is one, has told the holder to quit: ends
 * a program that no run has, and forgets the task. */
void kept_settle(struct kept *k, struct str task_id);
/* Its run is no more. */
void kept_forget(struct kept *k, struct str task_id);
/* Tasks that have a program, or are about to. */
size_t kept_count(const struct kept *k);
/* Ends what belongs to no task; the number of these. */
size_t kept_sweep(struct kept *k);

#endif
