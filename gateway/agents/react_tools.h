/* react_tools -- the tools of one run: those of its agent, and those that MCP servers have when it
 * begins.
 *
 * Shape:    open, then, when it is ready, take; the list stays the same until done.
 * Thread:   loop.
 * Owns:     the list; the tools are their owners', those of MCP servers until done.
 */
#ifndef GATEWAY_AGENTS_REACT_TOOLS_H
#define GATEWAY_AGENTS_REACT_TOOLS_H

#include "core/tool.h"
#include "gateway/agents/teller.h"
#include "gateway/mcp/mcp.h"

struct react_tools {
    const struct tool **list;
    size_t n;
    struct mcp_hand *hand; /* NULL: the agent lists none of MCP */
};

/* True: it is ready.  Otherwise ready will be called, once, later. */
bool react_tools_open(struct react_tools *t, struct mcp_wish *wish, void (*ready)(void *user),
                      void *user);
/* own: the agent's.  Tells the task what MCP servers lack: custom "mcp_unavailable". */
void react_tools_take(struct react_tools *t, const struct tool *const *own, size_t n_own,
                      struct teller *teller);
void react_tools_put(const struct react_tools *t, struct buf *out); /* for the model: JSON */
void react_tools_done(struct react_tools *t);

#endif
