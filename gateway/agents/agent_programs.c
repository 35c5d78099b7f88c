#include "gateway/agents/agent_programs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/processes/supervisor.h"

/* For an interpreter: its first argument, if that looks like a file. */
static const char *script_of(const struct config_agent *agent)
{
    static const char *const ends[] = {".py", ".js", ".mjs", ".sh", ".rb", ".pl"};
    const char *word = agent->command.n > 1 ? agent->command.list[1] : "";
    const char *dot = strrchr(word, '.');
    for (size_t i = 0; dot && word[0] != '-' && i < countof(ends); i++)
        if (strcmp(dot, ends[i]) == 0)
            return word;
    return NULL;
}

static bool is_there(const char *file, const char *folder)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s%s%s", file[0] == '/' ? "" : folder,
                     file[0] == '/' ? "" : "/", file);
    return n >= (int)sizeof path || access(path, R_OK) == 0;
}

static void check_agent(const struct config_agent *agent, size_t at, void (*say)(const char *line))
{
    char why[SUPERVISOR_ERROR], line[SUPERVISOR_ERROR + 4096 + 128], here[4096];
    bool in_workspace = agent->cwd && strcmp(agent->cwd, CWD_WORKSPACE) == 0;
    const char *cwd = in_workspace ? NULL : agent->cwd; /* there is a workspace only in a task */
    const struct supervisor_spec spec = {
        .command = agent->command.list, .env = agent->env.list, .cwd = cwd};
    const char *script = in_workspace ? NULL : script_of(agent);
    const char *folder = cwd ? cwd : getcwd(here, sizeof here);
    if (!supervisor_check(&spec, why))
        snprintf(line, sizeof line, "agents[%zu] (%s).command: %s", at, agent->name, why);
    else if (script && folder && !is_there(script, folder))
        snprintf(
            line, sizeof line,
            "agents[%zu] (%s).command: there is no \"%s\" in %s, the agent's working directory (cwd)",
            at, agent->name, script, folder);
    else
        return;
    say(line);
}

void agent_programs_check(const struct config *config, void (*say)(const char *line))
{
    for (size_t i = 0; i < config->n_agents; i++)
        if ((config->agents[i].kind == AGENT_EXEC || config->agents[i].kind == AGENT_ACP) &&
            config->agents[i].command.n)
            check_agent(&config->agents[i], i, say);
}
