/* spawn -- starts a program with nothing inherited: its own session, no signal blocked, ignored or
 * handled.
 *
 * Thread:   loop.
 * Owns:     the actions stay the caller's, with everything that they open; so does the child, which
 *           children_reap (children.h) reaps.
 * Errors:   an errno; 0 when it runs.
 * Why:      posix_spawn, because a fork copies the page tables of the whole gateway.
 */
#ifndef GATEWAY_PROCESSES_SPAWN_H
#define GATEWAY_PROCESSES_SPAWN_H

#include <spawn.h>
#include <stdint.h>
#include <sys/types.h>

/* path NULL: the gateway's own binary. */
int spawn_session(const char *path, const posix_spawn_file_actions_t *actions, char *const *argv,
                  char *const *env, pid_t *ret_pid);

/* The soft limit of descriptors that the gateway was started with: read at the first call, which
 * must come before the gateway raises it.  Spawned programs get it back, because some go through
 * all the descriptors that they may have. */
uint64_t spawn_files(void);
/* Called in the spawned process, before it starts a program. */
void spawn_set_files(uint64_t soft);

#endif
