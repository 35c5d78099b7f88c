/* watch_cursor -- how far a watcher of all of an owner's tasks has read, as text for its client.
 *
 * Shape:    the newest task that it knows, and for each task that had not ended, or was not read to
 *           its end, the last event that it has; every other task up to the newest is done with.
 * Units:    at most MAX_WATCH_CURSOR characters of base64url; ids are ULIDs of 26 characters.
 * Thread:   any.
 * Errors:   a text that this did not write is refused as a whole.
 * Why:      PROTOCOL.md section 5, "Watching everything".
 */
#ifndef PROTO_WATCH_CURSOR_H
#define PROTO_WATCH_CURSOR_H

#include "proto/buf.h"
#include "proto/limits.h"

/* So many fit, however far they are: 16 bytes of an id and up to 8 of a number, in base64. */
#define WATCH_CURSOR_TASKS 250

struct watch_place {
    char task_id[TASK_ID_LEN + 1];
    uint64_t seq; /* the last event that was told; 0: none */
};

struct watch_cursor {
    uint64_t epoch; /* of the store, when this was told */
    char newest[TASK_ID_LEN + 1];
    struct watch_place places[WATCH_CURSOR_TASKS];
    size_t n_places;
};

void watch_cursor_write(const struct watch_cursor *c, struct buf *out);
bool watch_cursor_read(struct str text, struct watch_cursor *ret) MUST_USE;

#endif
