/* notice -- what has ended, and is still to be told to its conversation's agent.
 *
 * Shape:    the end of a task with notify_on_complete puts a notice, in the batch of its terminal
 *           event; a turn of the conversation's agent (a task of type notice) takes it, in the
 *           batch that makes the turn.  So it is told exactly once, whoever is connected and
 *           whenever the gateway is killed (promise 6).
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

/* The task is ending, with that record: stages its notice, when it was asked for. */
void notice_stage(struct task *t, const struct task_record *rec);
/* Something that is no task of the store's has ended, or has something to tell: a process. */
struct notice_source {
    struct str key; /* of what is told: it is told once, also over restarts; at most 64 bytes */
    struct str owner, conversation_id;
    struct str task_id; /* that began it: a notice whose task is gone goes nowhere */
    struct str agent;
    struct str text;
    bool silent;
};
/* 0: it is told, under that key of notices (0: it was earlier); STORE_NOT_FOUND: there is no such
 * task any more; another error: the store cannot be read now. */
typedef void (*notice_told_fn)(void *user, int status, int64_t notice_key);
void notice_tell(struct hub *h, const struct notice_source *source, notice_told_fn done,
                 void *user);
/* It is told already, in another way: staged, so that no restart tells it. */
void notice_settle(struct hub *h, const struct notice_source *source);
/* What was told under that key of its source waits no longer, since the agent has learnt of it:
 * also when its commit is still to come, and when an earlier gateway has told it.  False when it
 * does not wait. */
bool notice_withdraw(struct hub *h, struct str owner, struct str conversation_id, struct str key);

/* Between notice.c and notice_source.c: puts of what is no task, from the staging to the commit. */
bool notice_withdraw_put(struct hub *h, struct str owner,
                         struct str key); /* false: there is none */
/* It waits from now on. */
struct notice *notice_add(struct conversation *c, const struct notice_record *from);
void notice_take(struct notice *n); /* staged: it is told */
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
