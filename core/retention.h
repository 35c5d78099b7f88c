/* retention -- removes old tasks and events, and refuses new tasks to owners who are full.
 *
 * Shape:    tasks that ended longer than task_ms ago are removed, with their events, messages and
 *           request keys, and a conversation with its last task.  An owner with more than
 *           owner_bytes loses the events of the oldest ended tasks, then such tasks as a whole once
 *           they ended a day ago.  When nothing is left to remove, the owner is full; everyone is
 *           full when the store has store_bytes.  New tasks are then refused, and running ones
 *           continue.  One step at a time: a question to the store, then at most RETENTION_PIECE
 *           removals in an ordinary batch, then a pause.  An owner is checked when one of his tasks
 *           has ended, and full owners are checked again and again.
 * Units:    ms and bytes (core/store.h, TASK_ROW_BYTES); 0: without limit.
 * Thread:   loop.
 * Owns:     names of owners that are full or wait to be checked.
 * Errors:   a query or batch that fails is retried with the next tick.
 * Never:    removes a live task, the middle of a task's events, or events that somebody is reading,
 *           unless the whole task is removed; its reader is then told as for a deletion.
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
    86400000 /* no quota removes a record earlier, because its request key is still needed */

struct hub;

struct retention_options {
    int64_t task_ms, owner_bytes, store_bytes;
};

/* A task in the current piece, or in the last one. */
struct removal {
    int64_t task_key;
    bool whole; /* the task, not just its events */
    char task_id[TASK_ID_LEN + 1];
    char *owner, *conversation_id;
};

struct retention {
    struct hub *hub;
    struct timer timer; /* the next tick, or the end of a pause */
    msec_t next_tick;
    bool runs, asking;                       /* a question or a batch is under way */
    bool sees_size, sees_expired, sees_full; /* remaining work of this tick */
    char *full_after;                        /* the page of QUERY_FULL to ask for */
    struct map owners;                       /* of struct quota */
    struct list queue;                       /* of these: to be checked */
    struct list busy;  /* of these: their removable tasks are being read … */
    msec_t busy_until; /* … and are checked again at this time */
    bool sleeps;       /* the timer is armed because there is nothing to do */
    struct quota *now; /* is being checked */
    bool in_records;   /* … and has no events left to remove */
    bool store_is_full;
    int64_t store_bytes;        /* used, when last checked */
    uint32_t n_full;            /* owners */
    uint64_t n_tasks, n_events; /* tasks removed; tasks that lost only their events */
    struct removal removals[RETENTION_PIECE];
    size_t n_removals;
    struct waiter waiter;
};

void retention_init(struct retention *r, struct hub *hub);
void retention_done(struct retention *r);
/* Everything from an earlier process is repaired: begin; again when slots came. */
void retention_begin(struct retention *r);
/* Those owners are another process's now. */
void retention_leave(struct retention *r, const struct slots *slots);
/* The store has gained or lost something of this owner. */
void retention_look_at(struct retention *r, struct str owner);
struct retention_refusal {
    bool is_all;           /* the whole store is full */
    msec_t retry_after_ms; /* when room may come by itself; RETRY_NEVER: only a deletion helps */
};
/* Why the owner may start nothing new, in words for a client; NULL when he may. */
const char *retention_refuses(const struct retention *r, struct str owner,
                              struct retention_refusal *ret);
/* Whether a record that was read earlier says something about the task that no longer holds. */
bool retention_has_taken(const struct retention *r, const struct task_record *task);

#endif
