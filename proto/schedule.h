/* schedule -- a message that is sent at a time, or again and again (PROTOCOL.md section 5).
 *
 * Shape:    a JSON object, which is what a client sees and what is kept.  schedule_patch makes the
 *           next version of it; schedule_times_read takes out what decides when it is due, and
 *           schedule_next decides.
 * Units:    milliseconds of Unix time.
 * Thread:   any.
 * Owns:     nothing: spans point into the object's text.
 */
#ifndef PROTO_SCHEDULE_H
#define PROTO_SCHEDULE_H

#include "proto/buf.h"
#include "proto/cron.h"
#include "proto/js.h"

#define MAX_CRON 256              /* bytes */
#define MAX_ZONE 64               /* bytes */
#define MAX_SCHEDULED (64 * 1024) /* bytes of a chat that is kept */
#define MIN_EVERY_S 60            /* as often as cron can */
#define MAX_EVERY_S (366 * 86400)

/* A member of an object: json is its value, complete; STR_NULL for none. */
struct schedule_member {
    const char *name;
    struct str json;
};

/* The object with these members in the place of those that it had, if any.  doc is scratch. */
void schedule_patch(struct js_doc *doc, struct str object, const struct schedule_member *members,
                    size_t n, struct buf *out);

struct schedule_times {
    int64_t created_at, not_before, next_at; /* 0: none */
    int64_t every_ms;                        /* 0: once, or by cron */
    struct str cron, time_zone;              /* STR_NULL: none */
    struct str chat;                         /* an object */
    bool catch_up, paused;
};
/* False for what was not written as a schedule. */
bool schedule_times_read(struct js_doc *doc, struct str object, struct schedule_times *ret)
    MUST_USE;

static inline bool schedule_is_once(const struct schedule_times *t)
{
    return !t->cron.p && t->every_ms == 0;
}

/* When it is due for the first time after an instant; 0: never, or it is paused.  zone is that of
 * time_zone. */
int64_t schedule_next(const struct schedule_times *t, const struct tz *zone, int64_t after);

/* The members of a chat of the schedule, whose metadata name it. */
void schedule_put_chat(struct js_doc *doc, struct str chat, struct str schedule_id,
                       struct buf *out);

#endif
