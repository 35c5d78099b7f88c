#include "gateway/processes/spawn.h"

#include <signal.h>
#include <sys/resource.h>

#include "gateway/processes/children.h"

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
    if (!error)
        children_add(*ret_pid);
    return error;
}

uint64_t spawn_files(void)
{
    static struct rlimit files;
    if (files.rlim_max == 0)
        getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur;
}

void spawn_set_files(uint64_t soft)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || soft == 0 || soft >= files.rlim_cur)
        return;
    files.rlim_cur = soft;
    setrlimit(RLIMIT_NOFILE, &files);
}
