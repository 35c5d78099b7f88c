#include "gateway/processes/spawn.h"

#include <signal.h>

int spawn_session(const char *path, const posix_spawn_file_actions_t *actions, char *const *argv,
                  char *const *env, pid_t *ret_pid)
{
    posix_spawnattr_t attr;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(
        &attr, (short)(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    int error = posix_spawn(ret_pid, path ? path : "/proc/self/exe", actions, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    return error;
}
