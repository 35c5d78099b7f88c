/* processes_private -- what the parts of the registry share: processes.c the life of a process,
 * processes_restore.c what a start finds, process_notice.c what is told, process_watch.c lines that
 * are watched for.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_PROCESSES_PROCESSES_PRIVATE_H
#define GATEWAY_PROCESSES_PROCESSES_PRIVATE_H

#include "gateway/processes/processes.h"

#define TICK_MS 500 /* notices that could not be told, and lines that are watched for */

struct processes {
    struct list list; /* of struct process, by start */
    struct processes_options o;
    char *path; /* DATA/processes */
    int dir;    /* -1: there is none yet */
    struct timer tick, wake;
    uint32_t round; /* of looks: each process that is watched is looked at once in a round */
    struct {        /* matches of all processes, as process_watch.c counts them */
        int64_t since, quiet_until; /* Unix ms */
        uint32_t n;
    } matches;
};

/* The descriptor of a keeper, readable when it has exited.  Its memory goes with the handle. */
struct keeper_watch {
    uv_poll_t poll;
    struct process *process; /* NULL: nobody cares any more */
    int pidfd;
};

bool processes_open_dir(struct processes *all, bool make);
struct process *process_add(struct processes *all, const char *id, const struct keep_spec *spec);
int process_folder(const struct process *p); /* to be closed; -1 */
/* The descriptor is the process's from here on; false when it cannot be watched: still the
 * caller's. */
bool process_watch_keeper(struct process *p, int pidfd);
void process_take_as_lost(struct process *p, int folder);
void process_drop(struct process *p); /* with its folder */
void processes_wake(
    struct processes *all); /* there is a keeper that an earlier gateway has started */
void processes_arm_tick(struct processes *all, int64_t in_ms);

void process_tell_end(struct process *p);
/* By id, for what the store answers later: the process may be gone then. */
struct told {
    struct processes *all;
    char id[KEEP_ID_LEN + 1];
};
struct told *process_told(const struct process *p); /* to be freed */
struct process *process_of_told(const struct told *t);
struct notice_source;
/* What all that is told of it has in common; text and key are the caller's. */
void process_fill_source(const struct process *p, struct notice_source *source);

void process_watch_begin(struct process *p);
/* Goes on where an earlier gateway was. */
void process_watch_restore(struct process *p, int folder);
/* Looks at what was printed since, a part of it at a time: takes what it has read from the
 * budget, of bytes.  True when there is more to look at now. */
bool process_watch_look(struct process *p, size_t *budget);
/* Asks the store for what is still to be told of it; true when something is. */
bool process_watch_tell(struct process *p);

#endif
