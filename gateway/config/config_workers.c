/* Design.  Workers and their agents name each other, so that a name that is misspelt on either side
 * is a fault, and not an agent that waits for ever. */
#include "gateway/config/config_check.h"

static bool is_served(const struct config *c, const char *agent)
{
    for (size_t i = 0; i < c->n_workers; i++)
        for (size_t j = 0; j < c->workers[i].agents.n; j++)
            if (config_text_is(c->workers[i].agents.list[j], agent))
                return true;
    return false;
}

static bool is_of_workers(const struct config *c, const char *agent)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (config_text_is(c->agents[i].name, agent))
            return c->agents[i].kind == AGENT_WORKER;
    return false;
}

static void check_worker(const struct config *c, size_t at, struct faults *f)
{
    const struct config_worker *worker = &c->workers[at];
    const struct config_path name = config_path("workers[%zu].name", at);

    if (worker->name && !config_is_name(worker->name))
        fault(f, name.text, "must not have control characters");
    for (size_t i = 0; i < at; i++)
        if (worker->name && config_text_is(c->workers[i].name, worker->name))
            fault(f, name.text, "is the same as that of workers[%zu]", i);
    for (size_t i = 0; i < worker->agents.n; i++)
        if (!is_of_workers(c, worker->agents.list[i]))
            fault(f, config_path("workers[%zu].agents[%zu]", at, i).text,
                  "must name an agent of kind worker");
}

void config_check_workers(const struct config *c, struct faults *f)
{
    for (size_t i = 0; i < c->n_agents; i++) {
        const struct config_agent *agent = &c->agents[i];
        if (agent->name && agent->kind == AGENT_WORKER && !is_served(c, agent->name))
            fault(f, config_path("agents[%zu].kind", i).text,
                  "no entry of workers names this agent, so nobody serves it");
    }
    for (size_t i = 0; i < c->n_workers; i++)
        check_worker(c, i, f);
}
