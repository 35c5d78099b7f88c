/* processes_private -- what the parts of the registry share: processes.c has the life of a process,
 * processes_restore.c what a start finds, process_notice.c the reports, process_watch.c lines that
 * are watched for.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_PROCESSES_PROCESSES_PRIVATE_H
#define GATEWAY_PROCESSES_PROCESSES_PRIVATE_H

#include "gateway/processes/place.h"
#include "gateway/processes/processes.h"

#define TICK_MS 500 /* for notices that could not be told, and watched lines */
#define YOUNG_MS 20 /* for young processes */

struct processes {
    struct list list; /* of struct process, by start */
    struct processes_options o;
    char *path;                /* DATA/processes */
    int dir;                   /* -1: it does not exist yet */
    char place[PLACE_LEN + 1]; /* "" until it is asked for, or cannot be known */
    struct timer tick, wake;
    uint32_t round;                 /* of looks: each watched process is examined once in a round */
    struct {                        /* matches of all processes, counted by process_watch.c */
        int64_t since, quiet_until; /* Unix ms */
        uint32_t n;
    } matches;
};

/* The descriptor of a keeper, readable when it has exited.  Its memory is freed with the handle. */
struct keeper_watch {
    uv_poll_t poll;
    struct process *process; /* NULL: nobody cares any more */
    int pidfd;
};

bool processes_open_dir(struct processes *all, bool make);
struct process *process_add(struct processes *all, const char *id, const struct keep_spec *spec);
int process_folder(const struct process *p); /* the caller closes it; -1 */
/* The process owns the descriptor from here on; false when it cannot be watched: still the
 * caller's. */
bool process_watch_keeper(struct process *p, int pidfd);
/* A young process: whether it still is one. */
bool process_is_still_young(struct process *p);
void process_ended(struct process *p); /* its status is the last: everybody is told */
/* Its keeper is gone, and left no last word. */
void process_take_as_lost(struct process *p, int folder);
void process_take_as_failed(struct process *p, int folder); /* nor any first one */
void process_drop(struct process *p);                       /* deletes its folder as well */
void processes_wake(struct processes *all); /* there is a keeper that an earlier gateway started */
void processes_arm_tick(struct processes *all, int64_t in_ms);

void process_tell_end(struct process *p);
/* By id, for a later answer of the store: the process may be gone by then. */
struct told {
    struct processes *all;
    char id[KEEP_ID_LEN + 1];
};
struct told *process_told(const struct process *p); /* the caller frees it */
struct process *process_of_told(const struct told *t);
struct notice_source;
/* The common part of all reports about it; text and key are the caller's. */
void process_fill_source(const struct process *p, struct notice_source *source);

void process_watch_begin(struct process *p);
/* Continues where an earlier gateway stopped. */
void process_watch_restore(struct process *p, int folder);
/* Examines new output, a part of it at a time, and subtracts the bytes from the budget.  True when
 * there is more to examine now. */
bool process_watch_look(struct process *p, size_t *budget);
/* Asks the store about what must still be told about it; true when there is something. */
bool process_watch_tell(struct process *p);

#endif
