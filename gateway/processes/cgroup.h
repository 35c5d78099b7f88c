/* cgroup -- a control group (version 2) for each command, where available.
 *
 * Shape:    cgroup_find checks whether new groups can be created in the parent of a process's own
 *           group: it belongs to the process's user, has the memory and pids controllers, and no
 *           process of its own. systemd makes such a pair with Delegate= and DelegateSubgroup=
 *           (version 254).  A gateway in a group without such a parent is not moved: a unit whose
 *           commands outlive it could not start again in a group that contains groups.
 *
 *           cgroup_make, then cgroup_enter by the program, at the end cgroup_remove.
 * Thread:   any.  Files of the kernel: nothing waits.
 * Owns:     the caller owns the descriptor of a group.
 */
#ifndef GATEWAY_PROCESSES_CGROUP_H
#define GATEWAY_PROCESSES_CGROUP_H

#include <limits.h>
#include <sys/types.h>

#include "proto/base.h"

/* proc: "/proc", except in tests.  False with a sentence. */
bool cgroup_find(const char *proc, pid_t pid, char ret_parent[PATH_MAX], char ret_why[128]);
/* Allows bounds for its children from now on; false with errno. */
bool cgroup_enable(const char *parent);

/* The directory of a new group, with these bounds (0: none); -1 with errno. */
int cgroup_make(const char *parent, const char *name, uint64_t memory, uint64_t processes);
bool cgroup_limit(int group, uint64_t memory, uint64_t processes); /* inside of cgroup_make */
bool cgroup_enter(int group);                                      /* the caller enters */
bool cgroup_ran_out(int group);   /* of memory: the kernel has killed something in it for that */
uint64_t cgroup_cpu_s(int group); /* processor seconds of all processes in it */
/* Call it when nothing is left in the group. */
void cgroup_remove(const char *parent, const char *name);

#endif
