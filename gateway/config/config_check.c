/* Design.  Rules that a table of keys cannot express: values with a syntax of their own, and values
 * that depend on each other.  Each function checks one part, after the file and the flags were
 * read; it must accept what an earlier fault has left (a NULL text, a default), and does not report
 * that fault again.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/folders.h"
#include "gateway/config/config_keys.h"
#include "proto/str.h"

struct path {
    char text[96];
};

static struct path path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static struct path path_of(const char *format, ...)
{
    struct path path;
    va_list args;

    va_start(args, format);
    vsnprintf(path.text, sizeof path.text, format, args);
    va_end(args);
    return path;
}

static bool is(const char *text, const char *other)
{
    return text && str_eq(str_of(text), str_of(other));
}

static void set_text(char **member, const char *text)
{
    free(*member);
    *member = xstrdup(str_of(text));
}

/* --- the command line ------------------------------------------------------------------------- */

/* As if the file had set it. */
static void take_choice(struct config *c, const char *flag, const char *name, const char *value,
                        struct faults *f)
{
    const struct key *key = key_find(key_find(&config_table, "log")->table, name);
    struct buf wanted = {0};
    int choice = value ? key_choice(key->choices, value) : -1;

    if (choice >= 0)
        key_put_number(key, c, choice);
    if (!value || choice >= 0)
        return;
    key_put_wanted(key, &wanted);
    fault(f, flag, "must be %s", wanted.bytes);
    buf_done(&wanted);
}

static void take_flags(struct config *c, const struct config_flags *flags, struct faults *f)
{
    if (flags->listen)
        set_text(&c->listen, flags->listen);
    if (flags->data && *flags->data)
        set_text(&c->data, flags->data);
    else if (flags->data)
        fault(f, "--data", "must name a directory");
    take_choice(c, "--log-level", "level", flags->log_level, f);
    take_choice(c, "--log-format", "format", flags->log_format, f);
}

/* --- listening and access --------------------------------------------------------------------- */

static bool parse_port(const char *text, uint16_t *ret)
{
    size_t n = strspn(text, "0123456789");
    unsigned long port = n >= 1 && n <= 5 && text[n] == '\0' ? strtoul(text, NULL, 10) : 65536;

    *ret = (uint16_t)port;
    return port <= 65535;
}

static void check_listen(struct config *c, const char *path, struct faults *f)
{
    const char *colon = strrchr(c->listen, ':');
    struct net_address address;
    struct str host = colon ? (struct str){c->listen, (size_t)(colon - c->listen)} : STR_NULL;

    if (str_eq(host, STR("localhost")))
        host = STR("127.0.0.1");
    bool naked_ipv6 = host.p && host.n > 0 && host.p[0] != '[' && memchr(host.p, ':', host.n);
    if (!colon || naked_ipv6 || !net_parse_address(host, &address) ||
        !parse_port(colon + 1, &c->listen_port)) {
        fault(f, path, "must be ADDRESS:PORT, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:0");
        return;
    }
    if (host.p[0] == '[')
        host = (struct str){host.p + 1, host.n - 2};
    c->listen_host = xstrdup(host);
    c->is_loopback = net_is_loopback(&address);
    if (c->errors == ERRORS_BY_BIND)
        c->errors = c->is_loopback ? ERRORS_FULL : ERRORS_SHORT;
    if (!c->is_loopback && c->auth.n_keys == 0 && !c->guests)
        fault(f, path,
              "without auth.keys, anyone beyond loopback could connect as a guest; configure "
              "keys, or set \"guests\": true");
}

/* A developer who tries a gateway on his own machine may use any client that he has. */
static void check_faces(struct config *c)
{
    for (size_t i = 0; i < N_FACES; i++)
        if (!c->faces_said[i])
            c->faces[i] = c->is_loopback;
}

static void check_origins(struct config *c, struct faults *f)
{
    struct origins *parsed = &c->parsed_origins;
    *parsed = (struct origins){.n = c->origins.n};
    if (parsed->n > 0)
        parsed->list = xcalloc(parsed->n * sizeof *parsed->list);
    for (size_t i = 0; i < c->origins.n; i++)
        if (!origin_parse(str_of(c->origins.list[i]), &parsed->list[i]))
            fault(f, path_of("origins[%zu]", i).text,
                  "must be scheme://host, scheme://host:port or scheme://*.host, and nothing else");
    if (c->origins.n == 0 && c->auth.cookie && c->listen_host && !c->is_loopback)
        fault(f, "origins",
              "must not be empty while auth.cookie is in use beyond loopback: only a list keeps "
              "other sites from using their visitors' cookies");
}

static void check_hosts(struct config *c, struct faults *f)
{
    struct origins *o = &c->parsed_origins;

    o->n_hosts = c->hosts.n;
    if (o->n_hosts > 0)
        o->hosts = xcalloc(o->n_hosts * sizeof *o->hosts);
    for (size_t i = 0; i < o->n_hosts; i++)
        if (!origin_parse_host(str_of(c->hosts.list[i]), &o->hosts[i]))
            fault(f, path_of("hosts[%zu]", i).text,
                  "must be a name or *.name, without a scheme or port");
}

static struct net *check_nets(const struct config_texts *texts, const char *path, struct faults *f)
{
    struct net *nets = texts->n > 0 ? xcalloc(texts->n * sizeof *nets) : NULL;

    for (size_t i = 0; i < texts->n; i++)
        if (!net_parse(str_of(texts->list[i]), &nets[i]))
            fault(f, path_of("%s[%zu]", path, i).text,
                  "must be an address or a network, such as 10.0.0.0/8");
    return nets;
}

static void check_data(struct config *c, struct faults *f)
{
    struct buf path = {0};

    if (c->data)
        return;
    if (!folders_put_state(&path))
        fault(f, "data", "is missing, and without HOME there is no default");
    c->data = buf_take(&path);
}

static void check_admin(struct config *c)
{
    struct buf path = {0};

    if (!c->admin.socket && c->data) {
        buf_putf(&path, "%s/admin.sock", c->data);
        c->admin.socket = buf_take(&path);
    } else if (c->admin.socket && !*c->admin.socket) {
        free(c->admin.socket);
        c->admin.socket = NULL;
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

/* A name that may appear in a log, a header and a list. */
static bool is_name(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < ' ' || *p == 0x7f)
            return false;
    return true;
}

/* RFC 6265: the characters of a cookie's name. */
static bool is_cookie_name(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", *p))
            return false;
    return true;
}

static void check_key(const struct config *c, size_t at, struct faults *f)
{
    const struct config_key *key = &c->auth.keys[at];
    bool is_secret = key->alg == ALG_HS256;
    struct path path = path_of("auth.keys[%zu].kid", at);

    if (key->kid && is(key->kid, "guest"))
        fault(f, path.text, "\"guest\" is the gateway's own key");
    for (size_t i = 0; key->kid && i < at; i++)
        if (is(c->auth.keys[i].kid, key->kid))
            fault(f, path.text, "is the same as that of auth.keys[%zu]", i);
    path = path_of("auth.keys[%zu].secret_file", at);
    if (is_secret && !key->secret_file)
        fault(f, path.text, "is missing (HS256 needs it)");
    else if (!is_secret && key->secret_file)
        fault(f, path.text, "is for HS256 only");
    path = path_of("auth.keys[%zu].public_key_file", at);
    if (!is_secret && !key->public_key_file)
        fault(f, path.text, "is missing (%s needs it)", key_alg_text((enum key_alg)key->alg));
    else if (is_secret && key->public_key_file)
        fault(f, path.text, "is not for HS256, which needs a secret");
}

static void check_auth(struct config *c, struct faults *f)
{
    for (size_t i = 0; i < c->auth.n_keys; i++)
        check_key(c, i, f);
    if (c->auth.cookie && !is_cookie_name(c->auth.cookie))
        fault(f, "auth.cookie", "is not a valid cookie name");
    c->serves_guests = c->guests || c->auth.n_keys == 0;
    if (!c->tls.cert != !c->tls.key)
        fault(f, c->tls.cert ? "tls.key" : "tls.cert", "is missing: a certificate needs its key");
}

/* --- models, webhooks ------------------------------------------------------------------------- */

static void check_url(const char *url, const char *path, struct faults *f)
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
    struct path path = path_of("webhooks[%zu].name", at);

    if (hook->name && !is_name(hook->name))
        fault(f, path.text, "must not have control characters");
    for (size_t i = 0; hook->name && i < at; i++)
        if (is(c->webhooks[i].name, hook->name))
            fault(f, path.text, "is the same as that of webhooks[%zu]", i);
    if (hook->url)
        check_url(hook->url, path_of("webhooks[%zu].url", at).text, f);
}

static void check_tokens(const struct config_model *model, size_t at, struct faults *f)
{
    if (model->max_tokens && model->api == API_CHAT)
        fault(f, path_of("models[%zu].max_tokens", at).text,
              "is for the api responses or anthropic only");
    struct path path = path_of("models[%zu].thinking_tokens", at);
    if (model->thinking_tokens && model->api != API_ANTHROPIC)
        fault(f, path.text, "is for the api anthropic only");
    else if (model->thinking_tokens && model->effort)
        fault(f, path.text, "cannot be used together with effort");
    else if (model->thinking_tokens && model->max_tokens &&
             model->max_tokens <= model->thinking_tokens)
        fault(f, path.text, "must be less than max_tokens");
}

static void check_model(const struct config *c, size_t at, struct faults *f)
{
    const struct config_model *model = &c->models[at];
    struct path path = path_of("models[%zu].name", at);

    if (model->name && !is_name(model->name))
        fault(f, path.text, "must not have control characters");
    if (is(model->name, "builtin") && model->kind != MODEL_BUILTIN)
        fault(f, path.text, "\"builtin\" is always the builtin model");
    for (size_t i = 0; model->name && i < at; i++)
        if (is(c->models[i].name, model->name))
            fault(f, path.text, "is the same as that of models[%zu]", i);
    if (model->kind != MODEL_OPENAI)
        return;
    check_url(model->base_url, path_of("models[%zu].base_url", at).text, f);
    check_upstream(&model->upstream, path_of("models[%zu].api_key_file", at).text, f);
    if (!model->model)
        fault(f, path_of("models[%zu].model", at).text, "is missing");
    check_tokens(model, at, f);
}

/* Each model leads to the next, and none to an earlier one. */
static void check_fallback(const struct config *c, size_t at, struct faults *f)
{
    struct path path = path_of("models[%zu].fallback", at);
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

const struct config_model *config_find_model(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->n_models; i++)
        if (is(c->models[i].name, name))
            return c->models[i].kind == MODEL_BUILTIN ? NULL : &c->models[i];
    return NULL;
}

static bool has_model(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->n_models; i++)
        if (is(c->models[i].name, name))
            return true;
    return is(name, "builtin");
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
            fault(f, path_of("agents[%zu].tools[%zu]", at, i).text,
                  "is for agents of kind react only: others have their own calls for it");
    struct buf names = {0};
    for (size_t i = 0; tool_names[i]; i++)
        buf_putf(&names, "%s%s", i ? ", " : "", tool_names[i]);
    for (size_t i = 0; i < agent->tools.n; i++)
        if (key_choice(tool_names, agent->tools.list[i]) < 0)
            fault(f, path_of("agents[%zu].tools[%zu]", at, i).text,
                  "there is no such tool; the tools are %s", names.bytes);
    buf_done(&names);
}

bool config_is_coder(const struct config_agent *agent)
{
    return agent->kind == AGENT_ACP ||
           (agent->kind == AGENT_EXEC &&
            (agent->form == AGENT_FORM_CLAUDE || agent->form == AGENT_FORM_CODEX));
}

static void check_program(struct config_agent *agent, size_t at, struct faults *f)
{
    if (agent->command.n == 0 || !*agent->command.list[0])
        fault(f, path_of("agents[%zu].command", at).text, "is missing: a program to run");
    if (agent->tools.n && (agent->kind == AGENT_ACP || agent->form != AGENT_FORM_HOLDFAST))
        fault(f, path_of("agents[%zu].tools", at).text,
              "are for programs of the form holdfast only: others have tools of their own");
    if (agent->input != INPUT_STDIN && agent->form != AGENT_FORM_TEXT)
        fault(f, path_of("agents[%zu].input", at).text, "is for the form text only");
    if (!agent->cwd && config_is_coder(agent))
        set_text(&agent->cwd, CWD_WORKSPACE);
}

/* Only some protocols name a model, or what stands for one. */
static void check_server(const struct config_agent *agent, size_t at, struct faults *f)
{
    bool names_model = agent->form == AGENT_FORM_OPENAI || agent->form == AGENT_FORM_RESPONSES ||
                       agent->form == AGENT_FORM_LANGGRAPH;
    if (agent->model && !names_model)
        fault(
            f, path_of("agents[%zu].model", at).text,
            "is for agents of kind react, and for the forms openai, responses and langgraph only");
    if (agent->tools.n)
        fault(f, path_of("agents[%zu].tools", at).text,
              "are for agents that call them: one of kind http cannot");
}

/* Each form but holdfast belongs to one kind. */
static void check_form(const struct config_agent *agent, size_t at, struct faults *f)
{
    const struct key *key = key_find(key_find(&config_table, "agents")->table, "form");
    bool is_server = agent->form >= AGENT_FORM_OPENAI;
    if (agent->form != AGENT_FORM_HOLDFAST && agent->kind != (is_server ? AGENT_HTTP : AGENT_EXEC))
        fault(f, path_of("agents[%zu].form", at).text, "\"%s\" is for agents of kind %s only",
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
        {"budget", AGENT_REACT,
         agent->budget.tokens || agent->budget.tool_calls || agent->budget.seconds},
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
    };
    const struct key *kind = key_find(key_find(&config_table, "agents")->table, "kind");

    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].given && rows[i].kind != agent->kind)
            fault(f, path_of("agents[%zu].%s", at, rows[i].key).text,
                  "is for agents of kind %s only", kind->choices[rows[i].kind]);
}

static void check_agent_kind(const struct config *c, size_t at, struct faults *f)
{
    struct config_agent *agent = &c->agents[at];

    check_kind_keys(agent, at, f);
    check_form(agent, at, f);
    switch ((enum agent_kind)agent->kind) {
    case AGENT_REACT:
        if (!agent->model)
            set_text(&agent->model, "builtin");
        else if (!has_model(c, agent->model))
            fault(f, path_of("agents[%zu].model", at).text,
                  "must name an entry of models, or be \"builtin\"");
        return;
    case AGENT_EXEC:
    case AGENT_ACP: check_program(agent, at, f); return;
    case AGENT_HTTP:
        check_server(agent, at, f);
        check_url(agent->url, path_of("agents[%zu].url", at).text, f);
        check_upstream(&agent->upstream, path_of("agents[%zu].api_key_file", at).text, f);
        return;
    case AGENT_SOURCE: return;
    }
    UNREACHABLE();
}

/* Anything that an agent can run, every visitor can make it run. */
static void check_terminal(struct config *c, struct faults *f)
{
    struct buf path = {0};
    for (size_t i = 0; c->serves_guests && !c->is_loopback && i < c->n_agents; i++)
        for (size_t j = 0; j < c->agents[i].tools.n; j++)
            if (is(c->agents[i].tools.list[j], "terminal") ||
                is(c->agents[i].tools.list[j], "process"))
                fault(f, path_of("agents[%zu].tools[%zu]", i, j).text,
                      "runs commands, which is not allowed for guests beyond loopback");
    if (c->terminal.workdir || !c->data)
        return;
    buf_putf(&path, "%s-work", c->data);
    c->terminal.workdir = buf_take(&path);
}

static void check_agent(const struct config *c, size_t at, struct faults *f)
{
    const struct config_agent *agent = &c->agents[at];
    struct path path = path_of("agents[%zu].name", at);

    if (agent->name && !is_name(agent->name))
        fault(f, path.text, "must not have control characters");
    for (size_t i = 0; agent->name && i < at; i++)
        if (is(c->agents[i].name, agent->name))
            fault(f, path.text, "is the same as that of agents[%zu]", i);
    check_agent_kind(c, at, f);
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
    set_text(&c->agents[0].name, "assistant");
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
            fault(f, path_of("agents[%zu].default", i).text, "agents[%zu] is the default already",
                  first);
        else
            first = i;
    }
    if (first == c->n_agents)
        c->agents[0].is_default = true;
}

/* --- all -------------------------------------------------------------------------------------- */

void config_check(struct config *c, const struct config_flags *flags, struct faults *f)
{
    take_flags(c, flags, f);
    check_listen(c, flags->listen ? "--listen" : "listen", f);
    check_data(c, f);
    check_admin(c);
    check_auth(c, f);
    check_faces(c);
    check_origins(c, f);
    check_hosts(c, f);
    c->trusted_nets = check_nets(&c->trusted_proxies, "trusted_proxies", f);
    if (c->proxy_protocol && c->trusted_proxies.n == 0)
        fault(f, "proxy_protocol", "needs trusted_proxies: nobody else may speak for a client");
    c->metrics.allow_nets = check_nets(&c->metrics.allow, "metrics.allow", f);
    c->http_get.allow_nets = check_nets(&c->http_get.allow, "http_get.allow", f);
    c->webhook_allow_nets = check_nets(&c->webhook_allow, "webhook_allow", f);
    for (size_t i = 0; i < c->n_webhooks; i++)
        check_hook(c, i, f);
    for (size_t i = 0; i < c->n_models; i++)
        check_model(c, i, f);
    for (size_t i = 0; i < c->n_models; i++)
        check_fallback(c, i, f);
    if (c->n_agents == 0)
        add_assistant(c);
    for (size_t i = 0; i < c->n_agents; i++)
        check_agent(c, i, f);
    check_default(c, f);
    check_terminal(c, f);
    if (c->rim_limits.store_mib_per_owner == 0) {
        uint64_t tenth = (uint64_t)c->retention.store_gib * 1024 / 10;
        c->rim_limits.store_mib_per_owner = tenth > 0 ? tenth : 1;
    }
}
