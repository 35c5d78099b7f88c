/* schedule -- messages that an owner has asked to be sent at a time, or again and again.
 *
 * Shape:    one row of the outbox for each, under a name that no receiver has, and one object in
 *           memory with a timer.  A change takes the row and puts the next one, in one batch.  When
 *           it is due, it makes a chat like any client, whose request key names the schedule and
 *           that time: so once, over any number of restarts, although the chat and the schedule's
 *           next row are two batches.
 *
 *             put ──due──▶ chat (key: schedule, time) ──started──▶ put, due again, or removed
 *                            └─ no room: again in RETRY_MS
 *
 * Units:    Unix ms; a timer looks at the wall clock again once a minute.
 * Thread:   loop.
 * Owns:     all schedules; each holds a reference to its owner.
 */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include "core/hub.h"
#include "proto/schedule.h"

#define OUTBOX_SCHEDULES "\x01schedules"

struct schedule {
    struct list node; /* in its owner's */
    struct timer timer;
    struct hub *hub;
    struct owner *owner;
    char id[TASK_ID_LEN + 1];
    char *conversation_id; /* NULL: each task has one of its own */
    char *json;            /* as staged; NULL: it is being removed */
    char *committed;       /* NULL: not on disk yet */
    int64_t key, committed_key;
    int64_t next_at;  /* of what is committed; 0: never */
    int64_t due;      /* the time that a chat is made for; next_at may change meanwhile */
    unsigned changes; /* on their way */
    bool retries;     /* the last try met no room */
    bool running;     /* a chat is on its way: */
    char *request_key;
    struct call *call;
};

/* The zone of that name, which is kept; NULL: there is none.  No name: UTC. */
const struct tz *schedule_zone(struct hub *h, struct str name);

/* NULL when this owner has none of that id. */
struct schedule *schedule_find(const struct owner *owner, struct str id);
/* Stages a new one; json is the whole object, conversation_id NULL for none. */
struct schedule *schedule_add(struct hub *h, struct owner *owner, struct str conversation_id,
                              const char *id, struct str json);
void schedule_change(struct schedule *s, struct str json);
void schedule_remove(struct schedule *s);
/* Those of a conversation, in the batch that deletes it. */
void schedules_forget(struct owner *owner, struct str conversation_id);

/* At a start: a row that an earlier process left. */
void schedule_restore(struct hub *h, const struct outbox_record *row);
void schedules_done(struct hub *h);
/* Those in memory alone: another process has the owner from now on. */
void schedules_drop(struct owner *owner);

#endif
