#include "gateway/descriptors.h"

#include <sys/resource.h>

#include "gateway/base/log.h"
#include "gateway/processes/spawn.h"

#define SPARE_DESCRIPTORS 64 /* store, listener, timers */
#define DESCRIPTORS_PER_PROCESS 5
#define DESCRIPTORS_PER_TASK 4 /* models, agents and pages over HTTP */
#define SOCKETS_TO_REFUSE 64

static void lower(uint32_t *limit, uint64_t to, const char *name)
{
    if (*limit <= to)
        return;
    log_event(LEVEL_WARN, "server", "limit_lowered", LOG_TEXT("limit", name),
              LOG_INT("from", *limit), LOG_INT("to", (int64_t)to));
    *limit = (uint32_t)to;
}

/* To what the limits need.  Agents and commands get back what it was (spawn_files). */
static void raise_files(struct rlimit *files, const struct config *c, uint64_t processes)
{
    uint64_t sockets = (uint64_t)c->rim_limits.connections + SOCKETS_TO_REFUSE;
    uint64_t all = SPARE_DESCRIPTORS + sockets + 3 * processes +
                   (uint64_t)c->limits.tasks * DESCRIPTORS_PER_TASK;
    if (files->rlim_cur < all) {
        files->rlim_cur = all < files->rlim_max ? all : files->rlim_max;
        setrlimit(RLIMIT_NOFILE, files);
    }
}

uint32_t descriptors_fit(struct config *config)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return UINT32_MAX;
    uint64_t processes = (uint64_t)config->limits.processes * DESCRIPTORS_PER_PROCESS;
    (void)spawn_files(); /* noted before it is raised */
    raise_files(&files, config, processes);
    uint64_t all = files.rlim_cur < UINT32_MAX ? files.rlim_cur : UINT32_MAX;
    uint64_t spare = all / 2 < SPARE_DESCRIPTORS ? all / 2 : SPARE_DESCRIPTORS;
    uint64_t room = all - spare;
    if (processes > room / 3)
        processes = room / 3;
    uint32_t max_sockets = (uint32_t)(room - processes);
    uint64_t carried = processes / DESCRIPTORS_PER_PROCESS;
    lower(&config->limits.processes, carried ? carried : 1, "processes");
    uint32_t told = max_sockets / 8 < SOCKETS_TO_REFUSE ? max_sockets / 8 : SOCKETS_TO_REFUSE;
    lower(&config->rim_limits.connections, max_sockets - told, "connections");
    return max_sockets;
}
