/* program_session -- the ids under which programs know our conversations, on disk: a program that
 * is started for the next turn is told to go on with its session.
 *
 * Shape:    DATA/sessions/ has a file for each conversation and agent, named by digests of both (no
 *           id can reach another's), with the session's id as its only line.  It stands beside the
 *           store and not in the conversation's work folder, where a command could write it.
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
};

/* Appends the id; false: there is none. */
bool program_session_read(const struct program_session *s, struct buf *ret) MUST_USE;
void program_session_write(const struct program_session *s, struct str id);
/* When its conversation is deleted: another one of that id is another conversation. */
void program_session_forget(const struct program_session *s);
/* Removes those that were not written for so many days. */
void program_sessions_prune(const char *data, int64_t days);

#endif
