/* A server's tools, as they were when it listed them. */
#include <stdlib.h>

#include "gateway/mcp/mcp_private.h"

static bool is_allowed(const struct config_mcp *c, const char *name)
{
    for (size_t i = 0; i < c->allow.n; i++)
        if (strcmp(c->allow.list[i], name) == 0)
            return true;
    return c->allow.n == 0;
}

/* The hint is believed where it decides about approval, too. */
static void take_entry(struct mcp_list *list, struct mcp_tool *tool)
{
    bool only_reads = tool->is_read_only && list->server->config->approve != MCP_APPROVE_ALWAYS;
    struct mcp_entry *e = &list->entries[list->n++];
    e->facts = *tool;
    *tool = (struct mcp_tool){0};
    e->list = list;
    e->tool = (struct tool){.name = e->facts.alias,
                            .description = e->facts.description,
                            .parameters = e->facts.parameters,
                            .again = only_reads ? TOOL_AGAIN : TOOL_NEVER,
                            .settings = e};
    mcp_call_init(&e->tool);
}

struct mcp_list *mcp_list_new(struct mcp_server *s, struct mcp_catalog *from)
{
    struct mcp_list *list = xcalloc(sizeof *list);
    list->refs = 1;
    list->server = s;
    list->entries = xcalloc((from->n + 1) * sizeof *list->entries);
    for (size_t i = 0; i < from->n; i++)
        if (is_allowed(s->config, from->list[i].name))
            take_entry(list, &from->list[i]);
    mcp_catalog_done(from);
    return list;
}

void mcp_list_drop(struct mcp_list *list)
{
    if (!list || --list->refs > 0)
        return;
    for (size_t i = 0; i < list->n; i++)
        mcp_tool_done(&list->entries[i].facts);
    free(list->entries);
    free(list);
}

const struct mcp_entry *mcp_list_find(const struct mcp_list *list, struct str name)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (str_eq(str_of(list->entries[i].facts.name), name))
            return &list->entries[i];
    return NULL;
}
