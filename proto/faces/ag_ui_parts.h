/* ag_ui_parts -- members of AG-UI's events, written from one of our events (docs/faces.md).
 *
 * Shape:    pure functions, each of which appends members to an open JSON object.
 * Thread:   any.
 * Owns:     nothing.
 * Errors:   none: a member that an event lacks is left out, or has the protocol's minimum.
 */
#ifndef PROTO_FACES_AG_UI_PARTS_H
#define PROTO_FACES_AG_UI_PARTS_H

#include "proto/faces/face.h"

/* The event's call_id after the task's id, because the thread's next run may reuse a call_id. */
void ag_ui_put_call_id(struct buf *out, const char *key, const char *task_id,
                       const struct face_event *e);
/* The call in the form of the assistant's message. */
void ag_ui_put_call(struct buf *out, const char *task_id, const struct face_event *e);
/* A value as a string: a string's own, otherwise its JSON; the fallback when the event has none. */
void ag_ui_put_as_text(struct buf *out, const char *key, const struct face_event *e,
                       const char *member, const char *fallback);
/* The members of an interrupt except its id. */
void ag_ui_put_question(struct buf *out, const char *task_id, const struct face_event *e);
/* `usage`, if the task's result has it. */
void ag_ui_put_usage(struct buf *out, const struct face_event *e);
/* A string of the event's error. */
void ag_ui_put_error_member(struct buf *out, const char *key, const struct face_event *e,
                            const char *fallback);

#endif
