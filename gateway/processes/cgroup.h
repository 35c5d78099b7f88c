/* cgroup -- a control group (version 2) for each command, where such can be had.
 *
 * Shape:    cgroup_find looks whether the parent of a process's own group is there to make others
 *           in: it belongs to the process's user, has memory and pids to give, and no process of
 *           its own.  systemd makes such a pair with Delegate= and DelegateSubgroup= (version 254).
 *           A gateway in a group without such a parent is not moved: a unit whose commands outlive
 *           it could not be started again in a group that has groups.
 *
 *           cgroup_make, in it cgroup_enter by the program, at the end cgroup_remove.
 * Thread:   any.  Files of the kernel's: nothing waits.
 * Owns:     the descriptor of a group is the caller's.
 */
#ifndef GATEWAY_PROCESSES_CGROUP_H
#define GATEWAY_PROCESSES_CGROUP_H

#include <limits.h>
#include <sys/types.h>

#include "proto/base.h"

/* proc: "/proc", but for tests.  False with a sentence. */
bool cgroup_find(const char *proc, pid_t pid, char ret_parent[PATH_MAX], char ret_why[128]);
/* Its children may be bounded from now on; false with errno. */
bool cgroup_enable(const char *parent);

/* The directory of a new group, with these bounds (0: none); -1 with errno. */
int cgroup_make(const char *parent, const char *name, uint64_t memory, uint64_t processes);
bool cgroup_limit(int group, uint64_t memory, uint64_t processes); /* inside of cgroup_make */
bool cgroup_enter(int group);                                      /* of who calls */
bool cgroup_ran_out(int group);   /* of memory: something in it was killed for that */
uint64_t cgroup_cpu_s(int group); /* seconds of processor that all in it have used */
/* When nothing is left in it. */
void cgroup_remove(const char *parent, const char *name);

#endif
