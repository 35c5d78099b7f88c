/* ag_ui_calls -- the calls of a run and their results as AG-UI's messages, in case a snapshot must
 * restate them.
 *
 * Shape:    JSON that grows with each call, up to a bound: a stream is not a second journal.
 * Units:    ids are the numbers of messages within the run.
 * Thread:   any.
 * Owns:     its bytes; ag_ui_calls_done frees them.
 * Errors:   none: beyond the bound nothing more is kept.
 */
#ifndef PROTO_FACES_AG_UI_CALLS_H
#define PROTO_FACES_AG_UI_CALLS_H

#include "proto/faces/face.h"

struct ag_ui_calls {
    struct buf messages; /* objects, each after a comma */
    uint32_t open_id;    /* the message that further calls may join; 0: none */
};

void ag_ui_calls_add(struct ag_ui_calls *c, const char *task_id, uint32_t id,
                     const struct face_event *e);
void ag_ui_calls_add_result(struct ag_ui_calls *c, const char *task_id, uint32_t id,
                            const struct face_event *e);
/* Everything that was kept; valid until the next call is added. */
struct str ag_ui_calls_messages(struct ag_ui_calls *c);
void ag_ui_calls_done(struct ag_ui_calls *c);

#endif
