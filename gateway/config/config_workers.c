/* Design.  Workers and their agents name each other, so that a name that is misspelt on either side
 * is a fault, and not an agent that waits for ever. */
#include <stdio.h>

#include "gateway/config/config_keys.h"

static bool is_text(const char *text, const char *other)
{
    return text && other && strcmp(text, other) == 0;
}

static bool is_served(const struct config *c, const char *agent)
{
    for (size_t i = 0; i < c->n_workers; i++)
        for (size_t j = 0; j < c->workers[i].agents.n; j++)
            if (is_text(c->workers[i].agents.list[j], agent))
                return true;
    return false;
}

static bool is_of_workers(const struct config *c, const char *agent)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (is_text(c->agents[i].name, agent))
            return c->agents[i].kind == AGENT_WORKER;
    return false;
}

static bool is_printable(const char *name)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        if (*p < ' ' || *p == 0x7f)
            return false;
    return true;
}

static void check_worker(const struct config *c, size_t at, struct faults *f)
{
    const struct config_worker *worker = &c->workers[at];
    char path[96];

    snprintf(path, sizeof path, "workers[%zu].name", at);
    if (worker->name && !is_printable(worker->name))
        fault(f, path, "must not have control characters");
    for (size_t i = 0; i < at; i++)
        if (is_text(c->workers[i].name, worker->name))
            fault(f, path, "is the same as that of workers[%zu]", i);
    for (size_t i = 0; i < worker->agents.n; i++) {
        snprintf(path, sizeof path, "workers[%zu].agents[%zu]", at, i);
        if (!is_of_workers(c, worker->agents.list[i]))
            fault(f, path, "must name an agent of kind worker");
    }
}

void config_check_workers(const struct config *c, struct faults *f)
{
    char path[96];

    for (size_t i = 0; i < c->n_agents; i++) {
        const struct config_agent *agent = &c->agents[i];
        snprintf(path, sizeof path, "agents[%zu].kind", i);
        if (agent->name && agent->kind == AGENT_WORKER && !is_served(c, agent->name))
            fault(f, path, "no entry of workers names this agent, so nobody serves it");
    }
    for (size_t i = 0; i < c->n_workers; i++)
        check_worker(c, i, f);
}
