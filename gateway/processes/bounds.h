/* bounds -- how much of the machine a command may use, and the watch over it.
 *
 * Shape:    the numbers are in the command's spec.  Its keeper opens a watch, the program enters it
 *           before it runs, the keeper looks now and then, and closes it at the end.
 *
 *             bound      in a cgroup (cgroup.h)     else
 *             memory     all processes together     data of each process (RLIMIT_DATA)
 *             processes  of the command             inside of the sandbox's user namespace
 *                                                   (RLIMIT_NPROC, sandbox.c; not for root)
 *             cpu_s      of the command             of each process (RLIMIT_CPU)
 *             file       of each file (RLIMIT_FSIZE)
 *             folder     what the conversation's folder takes of its disk, measured
 *
 * Thread:   the keeper's one.  A look measures the folder, which waits for the disk.
 * Owns:     a watch owns its group; what it points to stays the spec's.
 * Errors:   an errno.  If no group can be created, that is no error: the other bounds apply.
 */
#ifndef GATEWAY_PROCESSES_BOUNDS_H
#define GATEWAY_PROCESSES_BOUNDS_H

#include "proto/base.h"

#define BOUNDS_LOOK_MS 5000
#define BOUNDS_WHY 96

/* 0: no limit. */
struct bounds {
    uint64_t memory; /* bytes */
    uint64_t processes;
    uint64_t cpu_s;
    uint64_t file, folder; /* bytes */
};

struct bounds_watch {
    const struct bounds *bounds;
    const char *folder; /* of the conversation; NULL: not measured */
    const char *parent; /* of the group; NULL: no group */
    char name[24];      /* of the group */
    int group;          /* -1: none */
    int64_t due;        /* monotonic ms of the next look */
};

void bounds_open(struct bounds_watch *w, const struct bounds *bounds, const char *folder,
                 const char *parent, int64_t now_ms);
/* Called in the program, before it runs; 0 or an errno. */
int bounds_enter(const struct bounds_watch *w);
/* True with a clause when the command has exceeded a bound.  Does nothing before due. */
bool bounds_look(struct bounds_watch *w, int64_t now_ms, char ret_why[BOUNDS_WHY]);
/* Called when nothing of the command is left.  True with a clause when the kernel has killed it for
 * exceeding a bound. */
bool bounds_close(struct bounds_watch *w, char ret_why[BOUNDS_WHY]);

#endif
