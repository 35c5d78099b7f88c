/* spawn -- starts a program of ours with nothing inherited: a session of its own, no signal blocked,
 * ignored or handled.
 *
 * Thread:   any.
 * Owns:     nothing; the actions stay the caller's, with all that they open.
 * Errors:   an errno; 0 when it runs.
 * Why:      posix_spawn, since a fork copies the page tables of all that the gateway holds.
 */
#ifndef GATEWAY_PROCESSES_SPAWN_H
#define GATEWAY_PROCESSES_SPAWN_H

#include <spawn.h>
#include <sys/types.h>

/* path NULL: the gateway's own binary. */
int spawn_session(const char *path, const posix_spawn_file_actions_t *actions, char *const *argv,
                  char *const *env, pid_t *ret_pid);

#endif
