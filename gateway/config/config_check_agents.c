#include <stdlib.h>

#include "gateway/base/net.h"
#include "gateway/config/config_check.h"
#include "proto/str.h"

/* --- models, webhooks ------------------------------------------------------------------------- */

void config_check_url(const char *url, const char *path, struct faults *f)
{
    if (!url)
        fault(f, path, "is missing");
    else if (!str_begins(str_of(url), STR("http://")) && !str_begins(str_of(url), STR("https://")))
        fault(f, path, "must begin with http:// or https://");
}

static void check_upstream(const struct config_upstream *upstream, const char *path,
                           struct faults *f)
{
    if (upstream->api_key_env && upstream->api_key_file)
        fault(f, path, "cannot be used together with api_key_env");
}

static void check_hook(const struct config *c, size_t at, struct faults *f)
{
    const struct config_hook *hook = &c->webhooks[at];
    struct config_path path = config_path("webhooks[%zu].name", at);

    if (hook->name && !config_is_name(hook->name))
        fault(f, path.text, "must not have control characters");
    for (size_t i = 0; hook->name && i < at; i++)
        if (config_text_is(c->webhooks[i].name, hook->name))
            fault(f, path.text, "is the same as that of webhooks[%zu]", i);
    if (hook->url)
        config_check_url(hook->url, config_path("webhooks[%zu].url", at).text, f);
}

static void check_tokens(const struct config_model *model, size_t at, struct faults *f)
{
    if (model->max_tokens && model->api == API_CHAT)
        fault(f, config_path("models[%zu].max_tokens", at).text,
              "is for the api responses or anthropic only");
    struct config_path path = config_path("models[%zu].thinking_tokens", at);
    if (model->thinking_tokens && model->api != API_ANTHROPIC)
        fault(f, path.text, "is for the api anthropic only");
    else if (model->thinking_tokens && model->effort)
        fault(f, path.text, "cannot be used together with effort");
    else if (model->thinking_tokens && model->max_tokens &&
             model->max_tokens <= model->thinking_tokens)
        fault(f, path.text, "must be less than max_tokens");
}

/* Whether somebody elsewhere may reach the host of public_url. */
static bool is_reachable(const char *url)
{
    static const char *const local[] = {"localhost", ".localhost"};
    struct str host = str_of(url);
    if (!str_begins(host, STR("https://")))
        return false;
    host = str_from(host, 8);
    host.n = strcspn(host.p, host.p[0] == '[' ? "/?" : ":/?");
    if (host.n > 0 && host.p[0] == '[')
        host.n = strcspn(host.p, "]") + 1;
    struct net_address address;
    if (net_parse_address(host, &address))
        return net_is_public(&address);
    bool is_local = str_eq(host, str_of(local[0]));
    size_t n = strlen(local[1]);
    return !is_local && !(host.n > n && memcmp(host.p + host.n - n, local[1], n) == 0);
}

static void check_files(const struct config *c, size_t at, struct faults *f)
{
    struct config_model *model = &c->models[at];
    if (model->files == FILES_BY_ADDRESS)
        model->files = is_reachable(c->public_url) ? FILES_URL : FILES_DATA;
    else if (model->files == FILES_URL && !*c->public_url)
        fault(f, config_path("models[%zu].files", at).text, "needs public_url");
}

static void check_model(const struct config *c, size_t at, struct faults *f)
{
    const struct config_model *model = &c->models[at];
    struct config_path path = config_path("models[%zu].name", at);

    if (model->name && !config_is_name(model->name))
        fault(f, path.text, "must not have control characters");
    if (config_text_is(model->name, "builtin") && model->kind != MODEL_BUILTIN)
        fault(f, path.text, "\"builtin\" is always the builtin model");
    for (size_t i = 0; model->name && i < at; i++)
        if (config_text_is(c->models[i].name, model->name))
            fault(f, path.text, "is the same as that of models[%zu]", i);
    if (model->kind != MODEL_OPENAI)
        return;
    config_check_url(model->base_url, config_path("models[%zu].base_url", at).text, f);
    check_upstream(&model->upstream, config_path("models[%zu].api_key_file", at).text, f);
    if (!model->model)
        fault(f, config_path("models[%zu].model", at).text, "is missing");
    check_tokens(model, at, f);
    check_files(c, at, f);
}

/* Each model leads to the next, and none to an earlier one. */
static void check_fallback(const struct config *c, size_t at, struct faults *f)
{
    struct config_path path = config_path("models[%zu].fallback", at);
    const struct config_model *model = &c->models[at];
    for (size_t steps = 0; model && model->fallback; steps++) {
        model = config_find_model(c, model->fallback);
        if (!model)
            fault(f, path.text, "must name another entry of models, of kind openai");
        else if (steps == c->n_models)
            fault(f, path.text, "leads into a ring");
        if (steps == c->n_models)
            return;
    }
}

static void check_titles(const struct config *c, struct faults *f)
{
    if (c->titles.model && !config_find_model(c, c->titles.model))
        fault(f, "titles.model", "must name an entry of models, of kind openai");
}

const struct config_model *config_find_model(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->n_models; i++)
        if (config_text_is(c->models[i].name, name))
            return c->models[i].kind == MODEL_BUILTIN ? NULL : &c->models[i];
    return NULL;
}

static bool has_model(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->n_models; i++)
        if (config_text_is(c->models[i].name, name))
            return true;
    return config_text_is(name, "builtin");
}

/* --- agents ----------------------------------------------------------------------------------- */

static const char *const tool_names[] = {
    "calculator", "clock",    "spawn_task", "cancel_task", "send_message",
    "ask_user",   "terminal", "process",    "http_get",    NULL,
};

/* An exec agent has calls for these. */
static const char *const react_tools[] = {"spawn_task", "cancel_task", "send_message", "ask_user",
                                          NULL};

static void check_tools(const struct config_agent *agent, size_t at, struct faults *f)
{
    for (size_t i = 0; i < agent->tools.n; i++)
        if (agent->kind != AGENT_REACT && key_choice(react_tools, agent->tools.list[i]) >= 0)
            fault(f, config_path("agents[%zu].tools[%zu]", at, i).text,
                  "is for agents of kind react only: others have their own calls for it");
    struct buf names = {0};
    for (size_t i = 0; tool_names[i]; i++)
        buf_putf(&names, "%s%s", i ? ", " : "", tool_names[i]);
    for (size_t i = 0; i < agent->tools.n; i++)
        if (key_choice(tool_names, agent->tools.list[i]) < 0 &&
            !str_begins(str_of(agent->tools.list[i]), STR(MCP_TOOL)))
            fault(f, config_path("agents[%zu].tools[%zu]", at, i).text,
                  "there is no such tool; the tools are %s", names.bytes);
    buf_done(&names);
}

bool config_is_coder(const struct config_agent *agent)
{
    return agent->kind == AGENT_ACP ||
           (agent->kind == AGENT_EXEC &&
            (agent->form == AGENT_FORM_CLAUDE || agent->form == AGENT_FORM_CODEX));
}

/* One of the gateway's, not of an MCP server. */
static bool has_own_tool(const struct config_agent *agent)
{
    for (size_t i = 0; i < agent->tools.n; i++)
        if (!str_begins(str_of(agent->tools.list[i]), STR(MCP_TOOL)))
            return true;
    return false;
}

static void check_program(struct config_agent *agent, size_t at, struct faults *f)
{
    if (agent->command.n == 0 || !*agent->command.list[0])
        fault(f, config_path("agents[%zu].command", at).text, "is missing: a program to run");
    if (has_own_tool(agent) && (agent->kind == AGENT_ACP || agent->form != AGENT_FORM_HOLDFAST))
        fault(f, config_path("agents[%zu].tools", at).text,
              "are for programs of the form holdfast only: others have tools of their own");
    if (agent->input != INPUT_STDIN && agent->form != AGENT_FORM_TEXT)
        fault(f, config_path("agents[%zu].input", at).text, "is for the form text only");
    if (!agent->cwd && config_is_coder(agent))
        config_set_text(&agent->cwd, CWD_WORKSPACE);
}

/* Only some protocols name a model, or what stands for one. */
static void check_server(const struct config_agent *agent, size_t at, struct faults *f)
{
    bool names_model = agent->form == AGENT_FORM_OPENAI || agent->form == AGENT_FORM_RESPONSES ||
                       agent->form == AGENT_FORM_LANGGRAPH;
    if (agent->model && !names_model)
        fault(
            f, config_path("agents[%zu].model", at).text,
            "is for agents of kind react, and for the forms openai, responses and langgraph only");
    if (agent->tools.n)
        fault(f, config_path("agents[%zu].tools", at).text,
              "are for agents that call them: one of kind http cannot");
}

/* Each form but holdfast belongs to one kind. */
static void check_form(const struct config_agent *agent, size_t at, struct faults *f)
{
    const struct key *key = key_find(key_find(&config_table, "agents")->table, "form");
    bool is_server = agent->form >= AGENT_FORM_OPENAI;
    if (agent->form != AGENT_FORM_HOLDFAST && agent->kind != (is_server ? AGENT_HTTP : AGENT_EXEC))
        fault(f, config_path("agents[%zu].form", at).text, "\"%s\" is for agents of kind %s only",
              key->choices[agent->form], is_server ? "http" : "exec");
}

/* A key without effect for this kind of agent was meant to have one. */
static void check_kind_keys(const struct config_agent *agent, size_t at, struct faults *f)
{
    const struct {
        const char *key;
        enum agent_kind kind;
        bool given;
    } rows[] = {
        {"model", AGENT_REACT, agent->model && agent->kind != AGENT_HTTP},
        {"system", AGENT_REACT, agent->system},
        {"command", AGENT_EXEC, agent->command.list && agent->kind != AGENT_ACP},
        {"env", AGENT_EXEC, agent->env.list && agent->kind != AGENT_ACP},
        {"cwd", AGENT_EXEC, agent->cwd && agent->kind != AGENT_ACP},
        {"input", AGENT_EXEC, agent->input != INPUT_STDIN},
        {"auth_method", AGENT_ACP, agent->auth_method},
        {"url", AGENT_HTTP, agent->url},
        {"api_key_env", AGENT_HTTP, agent->upstream.api_key_env},
        {"api_key_file", AGENT_HTTP, agent->upstream.api_key_file},
        {"headers", AGENT_HTTP, agent->upstream.headers.list},
        {"ca_file", AGENT_HTTP, agent->upstream.ca_file},
        {"proxy", AGENT_HTTP, agent->upstream.proxy},
        {"rerun", AGENT_WORKER, agent->rerun},
    };
    const struct key *kind = key_find(key_find(&config_table, "agents")->table, "kind");

    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].given && rows[i].kind != agent->kind)
            fault(f, config_path("agents[%zu].%s", at, rows[i].key).text,
                  "is for agents of kind %s only", kind->choices[rows[i].kind]);
}

static void check_source(const struct config_agent *agent, size_t at, struct faults *f)
{
    if (agent->budget.tokens || agent->budget.tool_calls || agent->budget.seconds)
        fault(f, config_path("agents[%zu].budget", at).text, "an agent of kind source has none");
}

static void check_agent_kind(const struct config *c, size_t at, struct faults *f)
{
    struct config_agent *agent = &c->agents[at];

    check_kind_keys(agent, at, f);
    check_form(agent, at, f);
    switch ((enum agent_kind)agent->kind) {
    case AGENT_REACT:
        if (!agent->model)
            config_set_text(&agent->model, "builtin");
        else if (!has_model(c, agent->model))
            fault(f, config_path("agents[%zu].model", at).text,
                  "must name an entry of models, or be \"builtin\"");
        return;
    case AGENT_EXEC:
    case AGENT_ACP: check_program(agent, at, f); return;
    case AGENT_HTTP:
        check_server(agent, at, f);
        config_check_url(agent->url, config_path("agents[%zu].url", at).text, f);
        check_upstream(&agent->upstream, config_path("agents[%zu].api_key_file", at).text, f);
        return;
    case AGENT_WORKER: /* config_workers.c */
    case AGENT_SOURCE: check_source(agent, at, f); return;
    }
    UNREACHABLE();
}

static void check_terminal(struct config *c, struct faults *f)
{
    struct buf path = {0};
    for (size_t i = 0; c->serves_guests && !c->is_loopback && i < c->n_agents; i++)
        for (size_t j = 0; j < c->agents[i].tools.n; j++)
            if (config_text_is(c->agents[i].tools.list[j], "terminal") ||
                config_text_is(c->agents[i].tools.list[j], "process"))
                fault(f, config_path("agents[%zu].tools[%zu]", i, j).text,
                      "runs commands, which is not allowed for guests beyond loopback");
    if (c->terminal.workdir || !c->data)
        return;
    buf_putf(&path, "%s-work", c->data);
    c->terminal.workdir = buf_take(&path);
}

static bool is_program(const struct config_agent *agent)
{
    return agent->kind == AGENT_EXEC || agent->kind == AGENT_ACP;
}

const char *config_not_kept(const struct config *c, const struct config_agent *agent)
{
    if (!is_program(agent))
        return NULL;
    if (c->store.kind == STORE_MEMORY)
        return "the store is in memory";
    if (!agent->kept)
        return "it has \"kept\": false";
    return agent->after_restart == RESTART_FAIL ? "it has \"after_restart\": \"fail\"" : NULL;
}

/* Once the usual values are there. */
static void check_keep(const struct config *c, size_t at, struct faults *f)
{
    const struct key *keep = key_find(key_find(&config_table, "agents")->table, "keep_s");
    const struct config_agent *agent = &c->agents[at];
    struct config_path path = config_path("agents[%zu].keep_s", at);
    bool is_kept = is_program(agent) && agent->kept;
    bool goes_on = is_kept && agent->after_restart == RESTART_CONTINUE;
    if (!goes_on && agent->keep_s != keep->number)
        fault(f, path.text,
              "is for agents of kind exec and acp that are kept, and whose tasks go on");
    if (goes_on && c->store.kind == STORE_POSTGRES && agent->keep_s < c->cluster.lease_s)
        fault(f, path.text,
              "must be at least cluster.lease_s (%u): the next gateway may have to wait for the "
              "store that long, and would find no program",
              (unsigned)c->cluster.lease_s);
}

static void check_restart(const struct config *c, size_t at, struct faults *f)
{
    struct config_agent *agent = &c->agents[at];
    bool is_kept = is_program(agent) && agent->kept;
    bool usual = agent->kind == AGENT_REACT || is_kept;
    if (agent->after_restart == RESTART_CONTINUE && c->store.kind == STORE_MEMORY)
        fault(
            f, config_path("agents[%zu].after_restart", at).text,
            "cannot be \"continue\" where store.kind is memory: no task is there after a restart");
    if (agent->after_restart == RESTART_BY_KIND)
        agent->after_restart =
            usual && c->store.kind != STORE_MEMORY ? RESTART_CONTINUE : RESTART_FAIL;
    if (agent->after_restart == RESTART_CONTINUE && !usual && agent->kind != AGENT_HTTP)
        fault(
            f, config_path("agents[%zu].after_restart", at).text,
            "\"continue\" is for agents of kind react and http, and for those of kind exec and acp "
            "that are kept");
    check_keep(c, at, f);
}

static void check_agent(const struct config *c, size_t at, struct faults *f)
{
    struct config_agent *agent = &c->agents[at];
    struct config_path path = config_path("agents[%zu].name", at);

    if (agent->name && !config_is_name(agent->name))
        fault(f, path.text, "must not have control characters");
    for (size_t i = 0; agent->name && i < at; i++)
        if (config_text_is(c->agents[i].name, agent->name))
            fault(f, path.text, "is the same as that of agents[%zu]", i);
    check_agent_kind(c, at, f);
    check_restart(c, at, f);
    check_tools(agent, at, f);
}

static void set_texts(struct config_texts *texts, const char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    texts->list = xcalloc((n + 1) * sizeof *texts->list); /* followed by a NULL */
    texts->n = n;
    for (size_t i = 0; i < n; i++)
        texts->list[i] = xstrdup(str_of(list[i]));
}

static void add_assistant(struct config *c)
{
    const struct key *agents = key_find(&config_table, "agents");

    c->agents = xcalloc(sizeof *c->agents);
    c->n_agents = 1;
    keys_set_defaults(agents->table, c->agents);
    config_set_text(&c->agents[0].name, "assistant");
    set_texts(&c->agents[0].tools, (const char *const[]){"calculator", "clock", NULL});
    set_texts(
        &c->agents[0].examples,
        (const char *const[]){"count to 20 slowly", "what is 17 * 23?", "what time is it?", NULL});
}

static void check_default(struct config *c, struct faults *f)
{
    size_t first = c->n_agents;

    for (size_t i = 0; i < c->n_agents; i++) {
        if (!c->agents[i].is_default)
            continue;
        if (first < c->n_agents)
            fault(f, config_path("agents[%zu].default", i).text,
                  "agents[%zu] is the default already", first);
        else
            first = i;
    }
    if (first == c->n_agents)
        c->agents[0].is_default = true;
}

/* --- all -------------------------------------------------------------------------------------- */

void config_check_agents(struct config *c, struct faults *f)
{
    for (size_t i = 0; i < c->n_webhooks; i++)
        check_hook(c, i, f);
    for (size_t i = 0; i < c->n_models; i++)
        check_model(c, i, f);
    for (size_t i = 0; i < c->n_models; i++)
        check_fallback(c, i, f);
    check_titles(c, f);
    if (c->n_agents == 0)
        add_assistant(c);
    for (size_t i = 0; i < c->n_agents; i++)
        check_agent(c, i, f);
    config_check_workers(c, f);
    check_default(c, f);
    check_terminal(c, f);
}
