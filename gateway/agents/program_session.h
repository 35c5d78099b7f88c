/* program_session -- the ids under which programs know our conversations, on disk: a program that
 * is started for the next turn is told to go on with its session.
 *
 * Shape:    DATA/sessions/ has a file for each conversation and agent, named by digests of both (no
 *           id can reach another's), with the session's id as its first line and its last task as
 *           its second, which older gateways did not write.  It stands beside the store and not in
 *           the conversation's work folder, where a command could write it.
 * Thread:   any.  Calls read or write one small local file.
 * Errors:   a file that is missing, or holds no id, reads as none; one that cannot be written is
 *           told in the log, and the next turn begins a session of its own.
 */
#ifndef GATEWAY_AGENTS_PROGRAM_SESSION_H
#define GATEWAY_AGENTS_PROGRAM_SESSION_H

#include "proto/buf.h"

struct program_session {
    const char *data; /* the data directory */
    const char *agent;
    struct str owner, conversation_id;
    struct str task_id; /* whose turn it is */
};

/* Appends the id; false: there is none, or its last task is neither this one, which a restart began
 * anew, nor among turns (run_spec.turns), so that the program has heard what was said on another
 * branch.  STR_NULL: any will do. */
bool program_session_read(const struct program_session *s, struct str turns, struct buf *ret)
    MUST_USE;
/* The session is this task's. */
void program_session_write(const struct program_session *s, struct str id);
/* When its conversation is deleted: another one of that id is another conversation. */
void program_session_forget(const struct program_session *s);
/* Removes those that were not written for so many days. */
void program_sessions_prune(const char *data, int64_t days);

#endif
