/* event_head -- the beginning of an event's line, with the "from" of a merged one.  Internal to
 * event.c and coalesce.c.
 *
 * Thread:   any.
 */
#ifndef PROTO_EVENT_HEAD_H
#define PROTO_EVENT_HEAD_H

#include "proto/event.h"

/* Appends a line up to and including `"data":`; "from" is written only when it differs from seq. */
void event_put_head(struct buf *out, const char task_id[TASK_ID_LEN], uint64_t seq, uint64_t from,
                    int64_t ts_wall_ms, enum event_type event);
/* Like event_line_split, and also gives "from": seq when the line has none. */
bool event_split_from(struct str line, struct event_parts *ret, uint64_t *ret_from) MUST_USE;

#endif
