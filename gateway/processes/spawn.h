/* spawn -- starts a program of ours with nothing inherited: a session of its own, no signal
 * blocked, ignored or handled.
 *
 * Thread:   loop.
 * Owns:     the actions stay the caller's, with all that they open; so does the child, which
 *           children_reap (children.h) reaps.
 * Errors:   an errno; 0 when it runs.
 * Why:      posix_spawn, since a fork copies the page tables of all that the gateway holds.
 */
#ifndef GATEWAY_PROCESSES_SPAWN_H
#define GATEWAY_PROCESSES_SPAWN_H

#include <spawn.h>
#include <stdint.h>
#include <sys/types.h>

/* path NULL: the gateway's own binary. */
int spawn_session(const char *path, const posix_spawn_file_actions_t *actions, char *const *argv,
                  char *const *env, pid_t *ret_pid);

/* The soft limit of descriptors that we were started with: as it was at the first call, which
 * comes before we raise it.  What we start gets it back: some programs go through all that they
 * may have. */
uint64_t spawn_files(void);
/* In what was spawned, before it starts a program. */
void spawn_set_files(uint64_t soft);

#endif
