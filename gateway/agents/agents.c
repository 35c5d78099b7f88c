#include "gateway/agents/agents.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/agent_acp.h"
#include "gateway/agents/agent_form.h"
#include "gateway/agents/agent_http.h"
#include "gateway/agents/agent_models.h"
#include "gateway/agents/agent_react.h"
#include "gateway/agents/agent_remote.h"
#include "gateway/agents/agent_source.h"
#include "gateway/agents/program_session.h"
#include "gateway/base/secret_lines.h"
#include "gateway/fetch/upstream.h"
#include "gateway/models/model_builtin.h"
#include "gateway/models/model_stats.h"
#include "gateway/tools/tool_http_get.h"
#include "gateway/tools/tools.h"

/* Keeps alive what an agent's settings point to. */
struct holder {
    struct form_settings form; /* its exec is that of an exec agent of any form */
    struct acp_settings acp;
    struct react_settings react;
    struct source_settings source;
    struct http_settings http;
    struct remote_settings remote;
    struct worker_agent worker;
    struct builtin_settings builtin;
    struct model builtin_model;
    struct model_stats builtin_stats;
    struct served *models; /* the agent's, and its fallbacks */
    struct upstream upstream;
    struct http_get http_get;
    const struct tool **tools;
    struct mcp_wish *mcp;
    struct buf mcp_stdio, mcp_http; /* kind acp */
};

struct builder {
    const struct config *config;
    struct fetcher *fetcher;
    struct terminal *terminal;
    struct mcp *mcp;
    struct kept *kept;
    uv_loop_t *loop;
    struct workers *workers;
    struct secrets *secrets;
    const struct lender *lender;
    struct traces *traces;
};

/* NULL when there is no tool with that name. */
static const struct tool *agents_find_tool(const struct builder *b, const struct holder *h,
                                           struct str name)
{
    if (str_eq(name, STR("http_get")))
        return &h->http_get.tool;
    if (str_eq(name, STR("terminal")))
        return &b->terminal->terminal;
    if (str_eq(name, STR("process")))
        return &b->terminal->process;
    return tool_find(name);
}

static bool find_tools(const struct builder *b, const struct config_agent *from, struct agent *to,
                       struct holder *h, char *ret_error, size_t n)
{
    if (from->tools.n == 0)
        return true;
    http_get_init(&h->http_get, b->fetcher, b->config->http_get.allow_nets,
                  b->config->http_get.allow.n);
    h->tools = xcalloc(from->tools.n * sizeof(struct tool *));
    for (size_t i = 0; i < from->tools.n; i++) {
        if (strncmp(from->tools.list[i], MCP_TOOL, strlen(MCP_TOOL)) == 0)
            continue; /* known when its server has listed it */
        h->tools[to->n_tools] = agents_find_tool(b, h, str_of(from->tools.list[i]));
        if (!h->tools[to->n_tools++]) {
            snprintf(ret_error, n, "agent %s: there is no tool \"%s\"", from->name,
                     from->tools.list[i]);
            return false;
        }
    }
    to->tools = h->tools;
    if (from->kind == AGENT_REACT)
        h->mcp = mcp_wish_new(b->mcp, &from->tools);
    return true;
}

/* The process of an agent that is a program. */
static struct exec_settings program_settings(const struct builder *b,
                                             const struct config_agent *from)
{
    secret_lines_add(b->secrets, from->env.list, '=');
    bool in_workspace = from->cwd && str_eq(str_of(from->cwd), STR(CWD_WORKSPACE));
    return (struct exec_settings){.loop = b->loop,
                                  .command = from->command.list,
                                  .env = from->env.list,
                                  .cwd = in_workspace ? NULL : from->cwd,
                                  .work = in_workspace ? b->config->terminal.workdir : NULL};
}

/* Whether its program outlives the gateway: where none can, its tasks do not go on. */
static void build_kept(const struct builder *b, const struct config_agent *from, struct agent *to,
                       struct exec_settings *exec, int form)
{
    to->outlives = b->kept && from->kept && to->goes_on;
    to->goes_on = to->outlives;
    if (!to->outlives)
        return;
    exec->kept = b->kept;
    exec->keep_s = from->keep_s;
    exec_set_digest(exec, form);
}

static void build_exec(const struct builder *b, const struct config_agent *from, struct agent *to,
                       struct holder *h)
{
    h->form = (struct form_settings){.exec = program_settings(b, from),
                                     .form = (enum agent_form)from->form,
                                     .by_argument = from->input == INPUT_ARGUMENT,
                                     .agent = from->name,
                                     .data = b->config->data};
    to->is_process = true;
    build_kept(b, from, to, &h->form.exec, (int)(from->form * 2 + (from->input == INPUT_ARGUMENT)));
    if (h->form.form == AGENT_FORM_HOLDFAST) {
        h->form.exec.lender = b->lender;
        to->takes_files = true;
        to->file_tool = b->lender ? b->lender->tool : NULL;
        to->ops = to->outlives ? &agent_kept_ops : &agent_exec_ops;
        to->settings = &h->form.exec;
        return;
    }
    to->ops = to->outlives ? &agent_form_kept_ops : &agent_form_ops;
    to->settings = &h->form;
    to->has_inbox = false;
}

#define ACP_FORM 1000 /* none of those of exec */

static void build_acp(const struct builder *b, const struct config_agent *from, struct agent *to,
                      struct holder *h)
{
    mcp_put_acp_servers(b->config, &from->tools, &h->mcp_stdio, &h->mcp_http);
    h->acp = (struct acp_settings){.exec = program_settings(b, from),
                                   .mcp_stdio = h->mcp_stdio.bytes,
                                   .mcp_http = h->mcp_http.bytes,
                                   .agent = from->name,
                                   .data = b->config->data,
                                   .auth_method = from->auth_method,
                                   .serves_files = from->client.files,
                                   .serves_terminals = from->client.terminals,
                                   .processes = b->terminal->processes,
                                   .sandbox = terminal_sandbox(b->config),
                                   .keep_ms = (msec_t)from->pool_idle_s * 1000,
                                   .grace_ms = (msec_t)from->grace_s * 1000,
                                   .keep = from->pool};
    char why[SANDBOX_ERROR];
    h->acp.exec.lender = b->lender;
    h->acp.sandbox.kind = SANDBOX_NONE; /* as the agent itself */
    (void)!sandbox_prepare(&h->acp.sandbox, why);
    agent_acp_init(&h->acp);
    build_kept(b, from, to, &h->acp.exec, ACP_FORM);
    to->ops = to->outlives ? &agent_acp_kept_ops : &agent_acp_ops;
    to->takes_files = true;
    to->settings = &h->acp;
    to->is_process = true;
    to->has_inbox = false;
}

static void build_builtin(uv_loop_t *loop, struct holder *h)
{
    h->builtin = (struct builtin_settings){.loop = loop, .pace_ms = BUILTIN_PACE_MS};
    h->builtin_model = (struct model){.name = "builtin",
                                      .ops = &model_builtin_ops,
                                      .settings = &h->builtin,
                                      .stats = &h->builtin_stats};
}

static void build_react(const struct builder *b, const struct config_agent *from, struct agent *to,
                        struct holder *h)
{
    h->react = (struct react_settings){.loop = b->loop,
                                       .model = h->models ? agent_models_first(h->models)
                                                          : &h->builtin_model,
                                       .secrets = b->secrets,
                                       .short_errors = b->config->errors == ERRORS_SHORT,
                                       .system = from->system,
                                       .tools = to->tools,
                                       .n_tools = to->n_tools,
                                       .mcp = h->mcp,
                                       .traces = b->traces,
                                       .lender = b->lender,
                                       .budget = to->budget,
                                       .max_turns = from->max_turns};
    to->asks_budget = true;
    to->takes_files = h->models != NULL;
    to->ops = &agent_react_ops;
    to->settings = &h->react;
}

static void build_source(uv_loop_t *loop, struct agent *to, struct holder *h)
{
    h->source = (struct source_settings){.loop = loop};
    to->ops = &agent_source_ops;
    to->settings = &h->source;
}

/* One that speaks a protocol of its own; the forms of servers stand in one order in both enums. */
static void build_remote(const struct builder *b, const struct config_agent *from, struct agent *to,
                         struct holder *h)
{
    _Static_assert(AGENT_FORM_LANGGRAPH - AGENT_FORM_RESPONSES == REMOTE_LANGGRAPH,
                   "a server's form is missing in one of the enums");
    h->remote =
        (struct remote_settings){.loop = b->loop,
                                 .fetcher = b->fetcher,
                                 .options = h->upstream.options,
                                 .again = h->upstream.options,
                                 .goes_on = to->goes_on,
                                 .url = from->url,
                                 .headers = (const char *const *)h->upstream.headers.list,
                                 .kind = (enum remote_kind)(from->form - AGENT_FORM_RESPONSES),
                                 .model = from->model ? from->model : from->name,
                                 .agent = from->name,
                                 .data = b->config->data};
    h->remote.again.once = false;
    to->ops = &agent_remote_ops;
    to->settings = &h->remote;
}

static void build_worker(const struct builder *b, const struct config_agent *from, struct agent *to,
                         struct holder *h)
{
    h->worker = (struct worker_agent){.workers = b->workers,
                                      .name = from->name,
                                      .wait_ms = (msec_t)from->wait_s * 1000,
                                      .rerun = from->rerun};
    to->ops = &agent_worker_ops;
    to->settings = &h->worker;
    to->goes_on = to->outlives = true;
}

static bool build_http(const struct builder *b, const struct config_agent *from, struct agent *to,
                       struct holder *h, char *ret_error, size_t n)
{
    char why[256];
    if (!upstream_open(&from->upstream, NULL, &h->upstream, why, sizeof why)) {
        snprintf(ret_error, n, "agent %s: %s", from->name, why);
        return false;
    }
    secret_lines_add(b->secrets, (char *const *)h->upstream.headers.list, ':');
    h->upstream.options.once = true;
    to->has_inbox = false;
    if (from->form >= AGENT_FORM_RESPONSES) {
        build_remote(b, from, to, h);
        return true;
    }
    const char *model = from->model ? from->model : from->name;
    h->http = (struct http_settings){.loop = b->loop,
                                     .fetcher = b->fetcher,
                                     .options = h->upstream.options,
                                     .again = h->upstream.options,
                                     .goes_on = to->goes_on,
                                     .url = from->url,
                                     .headers = (const char *const *)h->upstream.headers.list,
                                     .model = from->form == AGENT_FORM_OPENAI ? model : NULL};
    h->http.again.once = false;
    to->ops = &agent_http_ops;
    to->settings = &h->http;
    return true;
}

static bool build(const struct builder *b, const struct config_agent *from, struct agent *to,
                  char *ret_error, size_t n)
{
    struct holder *h = xcalloc(sizeof *h);
    *to = (struct agent){.name = from->name,
                         .description = from->description ? from->description : "",
                         .examples = from->examples.list,
                         .is_default = from->is_default,
                         .has_inbox = true,
                         .timeout_ms = (msec_t)from->timeout_s * 1000,
                         .idle_timeout_ms = (msec_t)from->idle_timeout_s * 1000,
                         .grace_ms = (msec_t)from->grace_s * 1000,
                         .goes_on = from->after_restart == RESTART_CONTINUE,
                         .notify = (enum notify)from->notify,
                         .has_budget = from->kind != AGENT_SOURCE,
                         .budget = {.tokens = from->budget.tokens,
                                    .tool_calls = from->budget.tool_calls,
                                    .seconds = from->budget.seconds},
                         .short_errors = b->config->errors == ERRORS_SHORT &&
                                         from->kind != AGENT_REACT && from->kind != AGENT_SOURCE,
                         .holder = h};
    if (!find_tools(b, from, to, h, ret_error, n))
        return false;
    switch ((enum agent_kind)from->kind) {
    case AGENT_EXEC: build_exec(b, from, to, h); return true;
    case AGENT_SOURCE: build_source(b->loop, to, h); return true;
    case AGENT_HTTP: return build_http(b, from, to, h, ret_error, n);
    case AGENT_ACP: build_acp(b, from, to, h); return true;
    case AGENT_WORKER: build_worker(b, from, to, h); return true;
    case AGENT_REACT: break;
    }
    const struct models_rim rim = {b->config, b->fetcher, b->secrets};
    const struct config_model *model = config_find_model(b->config, from->model);
    if (!model)
        build_builtin(b->loop, h);
    else if (!agent_models_build(&rim, model, &h->models, ret_error, n))
        return false;
    build_react(b, from, to, h);
    return true;
}

static bool runs_commands(const struct config *config)
{
    for (size_t i = 0; i < config->n_agents; i++)
        for (size_t j = 0; j < config->agents[i].tools.n; j++)
            if (str_eq(str_of(config->agents[i].tools.list[j]), STR("terminal")))
                return true;
    return false;
}

bool agents_build(const struct config *config, const struct agents_rim *rim, struct agent **ret,
                  size_t *ret_n, char *ret_error, size_t error_bytes)
{
    struct builder b = {config,    rim->fetcher, rim->terminal, rim->mcp,    rim->kept,
                        rim->loop, rim->workers, rim->secrets,  rim->lender, rim->traces};
    char why[SANDBOX_ERROR] = "";
    *ret_n = 0;
    if (runs_commands(config) && !sandbox_prepare(&rim->terminal->sandbox, why)) {
        snprintf(ret_error, error_bytes, "%s", why);
        return false;
    }
    program_sessions_prune(config->data, config->retention.task_days);
    *ret = xcalloc(config->n_agents * sizeof(struct agent));
    for (*ret_n = 0; *ret_n < config->n_agents; ++*ret_n) {
        if (!build(&b, &config->agents[*ret_n], &(*ret)[*ret_n], ret_error, error_bytes)) {
            ++*ret_n;
            return false;
        }
    }
    return true;
}

static bool is_acp(const struct agent *agent)
{
    return agent->ops == &agent_acp_ops || agent->ops == &agent_acp_kept_ops;
}

void agents_forget(const struct config *config, struct agent *agents, size_t n, struct str owner,
                   struct str conversation_id)
{
    for (size_t i = 0; i < n; i++) {
        program_session_forget(&(struct program_session){config->data, agents[i].name, owner,
                                                         conversation_id, STR_NULL});
        if (is_acp(&agents[i]))
            agent_acp_forget(agents[i].settings, owner, conversation_id);
    }
}

void agents_each_model(const struct agent *agents, size_t n,
                       void (*visit)(void *arg, const char *agent, const struct model *model),
                       void *arg)
{
    for (size_t i = 0; i < n; i++) {
        if (agents[i].ops != &agent_react_ops)
            continue;
        const struct react_settings *s = agents[i].settings;
        for (const struct model *m = s->model; m; m = m->fallback)
            visit(arg, agents[i].name, m);
    }
}

void agents_free(struct agent *agents, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct holder *h = agents[i].holder;
        if (is_acp(&agents[i]))
            agent_acp_close(&h->acp);
        upstream_done(&h->upstream);
        mcp_wish_free(h->mcp);
        buf_done(&h->mcp_stdio);
        buf_done(&h->mcp_http);
        agent_models_free(h->models);
        free(h->tools);
        free(h);
    }
    free(agents);
}
