/* ag_ui_parts -- members of AG-UI's events, written from an event of ours (docs/faces.md).
 *
 * Shape:    pure functions, each of which appends members to an open JSON object.
 * Thread:   any.
 * Owns:     nothing.
 * Errors:   none: what an event lacks is left out, or is what the protocol wants at least.
 */
#ifndef PROTO_FACES_AG_UI_PARTS_H
#define PROTO_FACES_AG_UI_PARTS_H

#include "proto/faces/face.h"

/* `toolCallId`: the event's call_id behind the task's id, since a call_id may come again in the
 * thread's next run. */
void ag_ui_put_call_id(struct buf *out, const char *task_id, const struct face_event *e);
/* A value as a string: a string's own, else its JSON; "" when the event has none. */
void ag_ui_put_as_text(struct buf *out, const char *key, const struct face_event *e,
                       const char *member);
/* The members of an interrupt but its id. */
void ag_ui_put_question(struct buf *out, const char *task_id, const struct face_event *e);
/* `usage`, when the task's result tells it. */
void ag_ui_put_usage(struct buf *out, const struct face_event *e);
/* A string of the event's error. */
void ag_ui_put_error_member(struct buf *out, const char *key, const struct face_event *e,
                            const char *fallback);

#endif
