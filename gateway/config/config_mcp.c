/* Design.  What must hold in the entries of mcp, and in the tools of agents that name them. */
#include <stdio.h>

#include "gateway/config/config_check.h"
#include "proto/str.h"

static bool is_mcp_name(const char *name)
{
    return *name && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static void fault_mcp(struct faults *f, size_t at, const char *key, const char *why)
{
    char path[64];
    snprintf(path, sizeof path, "mcp[%zu].%s", at, key);
    fault(f, path, "%s", why);
}

/* Exactly one of command and url, and the keys of the other one stay away. */
static void check_mcp_kind(const struct config_mcp *s, size_t at, struct faults *f)
{
    const struct {
        const char *key;
        bool given, of_program;
    } rows[] = {
        {"env", s->env.list, true},
        {"cwd", s->cwd, true},
        {"sandbox", s->sandbox != MCP_SANDBOX_NONE, true},
        {"headers", s->headers.list, false},
        {"headers_file", s->headers_file, false},
        {"ca_file", s->ca_file, false},
    };
    bool is_program = s->command.n > 0;
    if (is_program && s->url)
        fault_mcp(f, at, "url", "cannot be used together with command");
    else if (!is_program && !s->url)
        fault_mcp(f, at, "command", "is missing: a program to run, or a url");
    else if (is_program && !*s->command.list[0])
        fault_mcp(f, at, "command", "is missing: a program to run");
    else if (!is_program && !str_begins(str_of(s->url), STR("http://")) &&
             !str_begins(str_of(s->url), STR("https://")))
        fault_mcp(f, at, "url", "must begin with http:// or https://");
    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].given && rows[i].of_program != is_program)
            fault_mcp(f, at, rows[i].key,
                      rows[i].of_program ? "is for servers with a command only"
                                         : "is for servers with a url only");
}

static void check_mcp_sandbox(const struct config_mcp *s, size_t at, struct faults *f)
{
    char key[32];
    if (s->sandbox == MCP_SANDBOX_NONE && s->network)
        fault_mcp(f, at, "network",
                  "is for the sandbox bubblewrap only: without one there is no bound");
    for (size_t i = 0; i < s->paths.n; i++) {
        snprintf(key, sizeof key, "paths[%zu]", i);
        if (s->sandbox == MCP_SANDBOX_NONE)
            fault_mcp(f, at, key,
                      "is for the sandbox bubblewrap only: without one there is no bound");
        else if (s->paths.list[i][0] != '/')
            fault_mcp(f, at, key, "must be an absolute path, or one that ends in :ro");
    }
}

static void check_mcp_server(const struct config *c, size_t at, struct faults *f)
{
    const struct config_mcp *s = &c->mcp[at];
    if (s->name && !is_mcp_name(s->name))
        fault_mcp(f, at, "name", "must be of small letters, digits and -");
    for (size_t i = 0; s->name && i < at; i++)
        if (c->mcp[i].name && strcmp(c->mcp[i].name, s->name) == 0)
            fault_mcp(f, at, "name", "is the same as that of an entry before it");
    check_mcp_kind(s, at, f);
    check_mcp_sandbox(s, at, f);
}

const struct config_mcp *config_find_mcp(const struct config *c, const char *tool,
                                         const char **ret_tool)
{
    struct str text = str_of(tool);
    if (!str_begins(text, STR(MCP_TOOL)))
        return NULL;
    text = str_from(text, strlen(MCP_TOOL));
    const char *slash = memchr(text.p, '/', text.n);
    if (!slash || !slash[1])
        return NULL;
    struct str name = {text.p, (size_t)(slash - text.p)};
    for (size_t i = 0; i < c->n_mcp; i++)
        if (c->mcp[i].name && str_eq(str_of(c->mcp[i].name), name)) {
            *ret_tool = slash + 1;
            return &c->mcp[i];
        }
    return NULL;
}

/* An agent of kind acp speaks to the server itself, so it gets all of it. */
static const char *fault_of_mcp_tool(const struct config *c, const struct config_agent *agent,
                                     const char *text)
{
    const char *tool;
    const struct config_mcp *server = config_find_mcp(c, text, &tool);
    if (!server)
        return "must be mcp:SERVER/TOOL or mcp:SERVER/*, and SERVER the name of an entry of mcp";
    if (agent->kind == AGENT_REACT)
        return NULL;
    if (agent->kind != AGENT_ACP)
        return "is for agents of the kinds react and acp only";
    if (strcmp(tool, "*") != 0)
        return "must be mcp:SERVER/*: an agent of kind acp gets whole servers";
    return server->allow.n ? "names a server with allow: an agent of kind acp would get all of it"
                           : NULL;
}

void config_check_mcp(const struct config *c, struct faults *f)
{
    char path[64];
    for (size_t i = 0; i < c->n_mcp; i++)
        check_mcp_server(c, i, f);
    for (size_t i = 0; i < c->n_agents; i++)
        for (size_t j = 0; j < c->agents[i].tools.n; j++) {
            const char *text = c->agents[i].tools.list[j];
            if (!str_begins(str_of(text), STR(MCP_TOOL)))
                continue;
            const char *why = fault_of_mcp_tool(c, &c->agents[i], text);
            snprintf(path, sizeof path, "agents[%zu].tools[%zu]", i, j);
            if (why)
                fault(f, path, "%s", why);
        }
}
