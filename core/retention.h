/* retention -- what is removed in time, and who may store no more.
 *
 * Shape:    tasks that ended longer than task_ms ago go, with their events, messages and request
 *           keys, and a conversation with its last task.  An owner with more than owner_bytes loses
 *           the events of the owner's oldest ended tasks, then such tasks as a whole when they
 *           ended a day ago; with nothing left to remove, the owner is full, as all are when the
 *           store has store_bytes: then new tasks are refused, and what runs goes on.
 *           One thing at a time: a question to the store, then a piece of at most RETENTION_PIECE
 *           removals in an ordinary batch, then a pause.  Owners are looked at when a task of
 *           theirs has ended, and all that are full again and again.
 * Units:    ms and bytes (core/store.h, TASK_ROW_BYTES); 0: without end.
 * Thread:   loop.
 * Owns:     names of owners that are full or wait to be looked at.
 * Errors:   what the store does not answer or take is tried again with the next tick.
 * Never:    a task that lives; a middle of a task's events; events that somebody is reading, unless
 *           the whole task goes, which the reader is told as for a deleted one.
 */
#ifndef CORE_RETENTION_H
#define CORE_RETENTION_H

#include "core/clock.h"
#include "core/journal.h"
#include "core/map.h"

#define RETENTION_PIECE 16
#define RETENTION_PAUSE_MS 10
#define RETENTION_BUSY_MS 250
#define RETENTION_BUSY_TIMES 20
#define RETENTION_TICK_MS 10000
#define RETENTION_KEPT_MS \
    86400000 /* no quota takes a record before, since its request key counts */

struct hub;

struct retention_options {
    int64_t task_ms, owner_bytes, store_bytes;
};

/* A task of the piece that is under way, or was last. */
struct removal {
    int64_t task_key;
    bool whole; /* the task, not only its events */
    char task_id[TASK_ID_LEN + 1];
    char *owner, *conversation_id;
};

struct retention {
    struct hub *hub;
    struct timer timer; /* the next tick, or the end of a pause */
    msec_t next_tick;
    bool runs, asking;                       /* a question or a batch is under way */
    bool sees_size, sees_expired, sees_full; /* what is still to do in this tick */
    char *full_after;                        /* the page of QUERY_FULL to ask for */
    struct map owners;                       /* of struct quota */
    struct list queue;                       /* of them: to be looked at */
    struct list busy;                        /* of them: what could go is being read … */
    msec_t busy_until;                       /* … and then they are looked at again */
    bool sleeps;                             /* the timer is armed, since nothing is to be done */
    struct quota *now;                       /* is being looked at */
    bool in_records;                         /* … and has no events left to remove */
    bool store_is_full;
    int64_t store_bytes;        /* used, as last seen */
    uint32_t n_full;            /* owners */
    uint64_t n_tasks, n_events; /* tasks removed; tasks whose events alone were */
    struct removal removals[RETENTION_PIECE];
    size_t n_removals;
    struct waiter waiter;
};

void retention_init(struct retention *r, struct hub *hub);
void retention_done(struct retention *r);
/* All that an earlier process left is repaired: begin. */
void retention_start(struct retention *r);
/* Something of this owner has come into the store, or has gone. */
void retention_look_at(struct retention *r, struct str owner);
struct retention_refusal {
    bool is_all;           /* it is the whole store that is full */
    msec_t retry_after_ms; /* when room can come by itself; RETRY_NEVER: it needs a deletion */
};
/* Why the owner may start nothing new, in words for a client; NULL when that is not so. */
const char *retention_refuses(const struct retention *r, struct str owner,
                              struct retention_refusal *ret);
/* Whether a record that was read before says of the task what is no longer so. */
bool retention_has_taken(const struct retention *r, const struct task_record *task);

#endif
