#include "gateway/descriptors.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "gateway/base/log.h"
#include "gateway/processes/spawn.h"

#define SPARE_DESCRIPTORS 64 /* store, listener, timers */
#define DESCRIPTORS_PER_PROCESS 7
#define DESCRIPTORS_PER_TASK 4 /* models, agents and pages over HTTP */
#define SOCKETS_TO_REFUSE 64

/* The limits that a number of descriptors allows. */
struct carried {
    uint32_t processes, connections;
    uint32_t sockets; /* connections, and those that get "full" as an answer */
};

/* Raises the limit to what the configuration needs.  Agents and commands get the old one
 * (spawn_files). */
static uint64_t wanted(const struct config *c)
{
    uint64_t sockets = (uint64_t)c->rim_limits.connections + SOCKETS_TO_REFUSE;
    uint64_t processes = (uint64_t)c->limits.processes * DESCRIPTORS_PER_PROCESS;
    return SPARE_DESCRIPTORS + sockets + 3 * processes +
           (uint64_t)c->limits.tasks * DESCRIPTORS_PER_TASK;
}

static uint32_t at_most(uint32_t limit, uint64_t carried)
{
    return limit <= carried ? limit : (uint32_t)carried;
}

static struct carried carried_by(uint64_t all, const struct config *c)
{
    uint64_t processes = (uint64_t)c->limits.processes * DESCRIPTORS_PER_PROCESS;
    if (all > UINT32_MAX)
        all = UINT32_MAX;
    uint64_t spare = all / 2 < SPARE_DESCRIPTORS ? all / 2 : SPARE_DESCRIPTORS;
    uint64_t room = all - spare;
    if (processes > room / 3)
        processes = room / 3;
    uint32_t sockets = (uint32_t)(room - processes);
    uint32_t told = sockets / 8 < SOCKETS_TO_REFUSE ? sockets / 8 : SOCKETS_TO_REFUSE;
    uint64_t runs = processes / DESCRIPTORS_PER_PROCESS;
    return (struct carried){.processes = at_most(c->limits.processes, runs ? runs : 1),
                            .connections = at_most(c->rim_limits.connections, sockets - told),
                            .sockets = sockets};
}

/* An operator who has set a limit must learn that it is lower; the defaults are generous. */
static void tell_lowered(const struct config *c, const struct carried *to)
{
    const struct {
        const char *name;
        uint32_t from, to, usual;
    } limits[] = {{"processes", c->limits.processes, to->processes, CONFIG_PROCESSES},
                  {"connections", c->rim_limits.connections, to->connections, CONFIG_CONNECTIONS}};
    bool lowers_usual = false;
    for (size_t i = 0; i < countof(limits); i++) {
        if (limits[i].to < limits[i].from && limits[i].from != limits[i].usual)
            log_event(LEVEL_WARN, "server", "limit_lowered", LOG_TEXT("limit", limits[i].name),
                      LOG_INT("from", limits[i].from), LOG_INT("to", limits[i].to));
        lowers_usual |= limits[i].to < limits[i].from && limits[i].from == limits[i].usual;
    }
    if (lowers_usual)
        log_event(LEVEL_INFO, "server", "limits", LOG_INT("processes", to->processes),
                  LOG_INT("connections", to->connections),
                  LOG_TEXT("why", "there are not enough descriptors for more"));
}

uint32_t descriptors_fit(struct config *config)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return UINT32_MAX;
    (void)spawn_files(); /* notes the limit before it is raised */
    uint64_t all = wanted(config);
    if (files.rlim_cur < all) {
        files.rlim_cur = all < files.rlim_max ? all : files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct carried to = carried_by(files.rlim_cur, config);
    tell_lowered(config, &to);
    config->limits.processes = to.processes;
    config->rim_limits.connections = to.connections;
    return to.sockets;
}

void descriptors_tell(const struct config *config)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    uint64_t all = wanted(config);
    uint64_t had = all < files.rlim_max ? all : files.rlim_max;
    struct carried to = carried_by(had > files.rlim_cur ? had : files.rlim_cur, config);
    if (to.processes < config->limits.processes)
        printf("limits.processes is %" PRIu32 ", and %" PRIu32 " where a gateway starts as this "
               "does: there are not enough descriptors for more (ulimit -n)\n",
               config->limits.processes, to.processes);
    if (to.connections < config->rim_limits.connections)
        printf("limits.connections is %" PRIu32 ", and %" PRIu32 " where a gateway starts as this "
               "does: there are not enough descriptors for more (ulimit -n)\n",
               config->rim_limits.connections, to.connections);
}
