#include "gateway/agents.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agent_exec.h"
#include "gateway/agent_react.h"
#include "gateway/agent_source.h"
#include "gateway/model_builtin.h"
#include "gateway/tools.h"

/* What an agent's settings need to stay. */
struct holder {
    struct exec_settings exec;
    struct react_settings react;
    struct source_settings source;
    struct builtin_settings builtin;
    struct model model;
    const struct tool **tools;
};

static bool find_tools(const struct config_agent *from, struct agent *to, struct holder *h,
                       char *ret_error, size_t n)
{
    if (from->tools.n == 0)
        return true;
    h->tools = xcalloc(from->tools.n * sizeof(struct tool *));
    for (size_t i = 0; i < from->tools.n; i++) {
        h->tools[i] = tool_find(str_of(from->tools.list[i]));
        if (!h->tools[i]) {
            snprintf(ret_error, n, "agent %s: there is no tool \"%s\"", from->name,
                     from->tools.list[i]);
            return false;
        }
    }
    to->tools = h->tools;
    to->n_tools = from->tools.n;
    return true;
}

static void build_exec(const struct config_agent *from, uv_loop_t *loop, struct agent *to,
                       struct holder *h)
{
    h->exec = (struct exec_settings){
        .loop = loop, .command = from->command.list, .env = from->env.list, .cwd = from->cwd};
    to->ops = &agent_exec_ops;
    to->settings = &h->exec;
    to->is_process = true;
}

static void build_react(const struct config_agent *from, uv_loop_t *loop, struct agent *to,
                        struct holder *h)
{
    h->builtin = (struct builtin_settings){.loop = loop, .pace_ms = BUILTIN_PACE_MS};
    h->model =
        (struct model){.name = "builtin", .ops = &model_builtin_ops, .settings = &h->builtin};
    h->react = (struct react_settings){.loop = loop,
                                       .model = &h->model,
                                       .system = from->system,
                                       .tools = to->tools,
                                       .n_tools = to->n_tools};
    to->ops = &agent_react_ops;
    to->settings = &h->react;
}

static void build_source(uv_loop_t *loop, struct agent *to, struct holder *h)
{
    h->source = (struct source_settings){.loop = loop};
    to->ops = &agent_source_ops;
    to->settings = &h->source;
}

static bool build(const struct config *config, const struct config_agent *from, uv_loop_t *loop,
                  struct agent *to, char *ret_error, size_t n)
{
    struct holder *h = xcalloc(sizeof *h);
    *to = (struct agent){.name = from->name,
                         .description = from->description ? from->description : "",
                         .is_default = from->is_default,
                         .has_inbox = true,
                         .timeout_ms = (msec_t)from->timeout_s * 1000,
                         .idle_timeout_ms = (msec_t)from->idle_timeout_s * 1000,
                         .grace_ms = (msec_t)from->grace_s * 1000,
                         .holder = h};
    if (!find_tools(from, to, h, ret_error, n))
        return false;
    switch ((enum agent_kind)from->kind) {
    case AGENT_EXEC: build_exec(from, loop, to, h); return true;
    case AGENT_SOURCE: build_source(loop, to, h); return true;
    case AGENT_HTTP:
        snprintf(ret_error, n, "agent %s: kind \"http\" is not served by this version", from->name);
        return false;
    case AGENT_REACT: break;
    }
    if (config_find_model(config, from->model)) {
        snprintf(ret_error, n, "agent %s: only the model \"builtin\" is served by this version",
                 from->name);
        return false;
    }
    build_react(from, loop, to, h);
    return true;
}

bool agents_build(const struct config *config, uv_loop_t *loop, struct agent **ret, size_t *ret_n,
                  char *ret_error, size_t error_bytes)
{
    *ret = xcalloc(config->n_agents * sizeof(struct agent));
    for (*ret_n = 0; *ret_n < config->n_agents; ++*ret_n) {
        if (!build(config, &config->agents[*ret_n], loop, &(*ret)[*ret_n], ret_error,
                   error_bytes)) {
            ++*ret_n;
            return false;
        }
    }
    return true;
}

void agents_free(struct agent *agents, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct holder *h = agents[i].holder;
        free(h->tools);
        free(h);
    }
    free(agents);
}
