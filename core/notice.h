/* notice -- something has ended, and its conversation's agent has not been told yet.
 *
 * Shape:    the end of a task with notify_on_complete puts a notice, in the batch of its terminal
 *           event; a turn of the conversation's agent (a task of type notice) takes it, in the
 *           batch that creates the turn.  So it is told exactly once, whoever is connected and
 *           whenever the gateway is killed (promise 6).
 *
 *             ended ──put──▶ waits in its conversation ──free, room──▶ turn, take
 *                               silent ones: with the next turn, or before the next chat
 *
 *           Those that come within hub_options.notice_join_ms are one turn.  An agent's notify may
 *           make them silent.
 *
 *           A conversation takes one turn at a time, when no chat or notice task of it is live, and
 *           at most MAX_NOTICE_TURNS in a row without a message of the user.
 * Thread:   loop.
 * Owns:     a notice owns its strings, and a reference to its conversation.
 */
#ifndef CORE_NOTICE_H
#define CORE_NOTICE_H

#include "core/task.h"

#define MAX_NOTICE_TURNS 8
#define NOTICE_TURN_BYTES 65536  /* of notices that are told in one turn, unless one has more */
#define NOTICE_OUTPUT_CHARS 2000 /* how much of the end of its output is kept */

/* The task is ending, with that record: stages its notice if one was requested. */
void notice_stage(struct task *t, const struct task_record *rec);
enum notice_kind { NOTICE_RESULT, NOTICE_ERROR, NOTICE_LINES }; /* an end, a bad one, or neither */

/* Something that is not a task in the store has ended, or has something to report: a process. */
struct notice_source {
    struct str key; /* identifies the report, told once even over restarts; at most 64 bytes */
    struct str owner, conversation_id;
    struct str task_id; /* the task that began it: without that task the notice is dropped */
    struct str agent;
    struct str text;
    enum notice_kind kind;
    bool silent;
};
/* 0: it is told, under that key of notices (0: an earlier one told it); STORE_NOT_FOUND: the task
 * is gone; another error: the store cannot be read now. */
typedef void (*notice_told_fn)(void *user, int status, int64_t notice_key);
void notice_tell(struct hub *h, const struct notice_source *source, notice_told_fn done,
                 void *user);
/* It was told in another way: stages that, so that no restart tells it again. */
void notice_settle(struct hub *h, const struct notice_source *source);
/* Withdraws the notice with that key of its source, because the agent has learnt of it otherwise.
 * Works also while its commit is under way, and for notices of an earlier gateway.  False when no
 * such notice waits. */
bool notice_withdraw(struct hub *h, struct str owner, struct str conversation_id, struct str key);

/* Whether an agent's notify says that a notice about what it started begins no turn. */
bool notice_is_silent(const struct hub *h, struct str agent, enum notice_kind kind);

/* Between notice.c and notice_source.c: puts of sources that are not tasks, from staging to
 * commit. */
bool notice_withdraw_put(struct hub *h, struct str owner,
                         struct str key); /* false: there is none */
/* The notice waits from now on. */
struct notice *notice_add(struct conversation *c, const struct notice_record *from);
void notice_take(struct notice *n); /* staged: it is delivered */
/* At a start: a notice that an earlier process left. */
void notice_restore(struct hub *h, const struct notice_record *n);
/* A turn may have become possible, because something in the conversation has ended. */
void notice_due(struct conversation *c);
/* Delivers silent notices before the turn that is about to be created. */
void notices_tell_silent(struct conversation *c);
/* The conversation is deleted, or the hub ends. */
void notices_forget(struct conversation *c);
/* Begins the turns that may begin: once a turn of the loop. */
void notices_proceed(struct hub *h);

#endif
