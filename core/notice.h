/* notice -- what has ended, and is still to be told to its conversation's agent.
 *
 * Shape:    the end of a task with notify_on_complete puts a notice, in the batch of its terminal
 *           event; a turn of the conversation's agent (a task of type notice) takes it, in the batch
 *           that makes the turn.  So it is told exactly once, whoever is connected and whenever the
 *           gateway is killed (promise 6).
 *
 *             ended ──put──▶ waits in its conversation ──free, room──▶ turn, take
 *                               silent ones: with the next turn, or before the next chat
 *
 *           A conversation takes one turn at a time, when no chat or notice task of it is live, and
 *           MAX_NOTICE_TURNS in a row without a word of the user.
 * Thread:   loop.
 * Owns:     a notice its strings, and a reference to its conversation.
 */
#ifndef CORE_NOTICE_H
#define CORE_NOTICE_H

#include "core/task.h"

#define MAX_NOTICE_TURNS 8
#define NOTICE_OUTPUT_CHARS 2000 /* the last ones of what it said */

/* The task is ending: stages its notice, when it was asked for. */
void notice_stage(struct task *t);
/* A put or a take is committed, or given up (journal_events.op_done). */
void notice_op_done(struct hub *h, const struct op *op, int status);
/* At a start: one that an earlier process left. */
void notice_restore(struct hub *h, const struct notice_record *n);
/* A turn may have become possible: something of the conversation has ended. */
void notice_due(struct conversation *c);
/* What starts no turn of its own is told before the turn that is about to be made. */
void notices_tell_silent(struct conversation *c);
/* The conversation is deleted, or the hub goes. */
void notices_forget(struct conversation *c);
/* Begins the turns that may begin: once a turn of the loop. */
void notices_proceed(struct hub *h);

#endif
