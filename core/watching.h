/* watching -- the events of all of an owner's tasks, on one session.
 *
 * Shape:    the session's subscriptions of all live tasks, and a walk that follows each task once:
 *           by id, so that all tasks up to one id are followed, or done with.  The walk asks the
 *           store for what comes behind that id, some tasks at a time, when a task came, and when
 *           ended ones were read to their ends; so a client that was away for long gets its tasks
 *           in the order in which they were made, and memory stays bounded (promise 7).  However
 *           often a session begins anew, one question of it is on its way at a time.
 * Thread:   loop.
 * Owns:     itself: it ends with its session, or when the store's last answer has come.
 * Errors:   a store that cannot be read is asked again; a damaged record ends it, and the client is
 *           told.
 */
#ifndef CORE_WATCHING_H
#define CORE_WATCHING_H

#include "core/session.h"

#define WATCH_CURSOR_MS 1000 /* a cursor comes at most so often */

/* Begins anew; rights and rollup_ms are the session's and the request's.  False when the request's
 * cursor is not one. */
bool watching_begin(struct session *s, const struct request *r) MUST_USE;
void watching_end(struct session *s);  /* does nothing without one; subscriptions stay */
void watching_drop(struct session *s); /* the same, for a session that ends */
/* Follows more tasks, when there is room: after what was sent. */
void watching_go_on(struct session *s);
/* The line of the cursor that is due, or nothing; to be sent behind all lines that were taken. */
bool watching_is_due(const struct session *s);
void watching_put_cursor(struct session *s, struct buf *out);
void watching_told(struct session *s); /* that line was taken */
/* Events of a watched task were taken. */
void watching_moved(struct session *s);
/* A watched task's events could not be read: it is followed again, later, from that event on. */
void watching_postpone(struct session *s, const struct cursor *c);

#endif
