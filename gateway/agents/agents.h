/* agents -- the configured agents, in the form that core knows.
 *
 * Thread:   loop.
 * Owns:     agents_build makes, agents_free frees; the configuration, the fetcher, the terminal and
 *           the MCP servers must outlive them.
 */
#ifndef GATEWAY_AGENTS_AGENTS_H
#define GATEWAY_AGENTS_AGENTS_H

#include <uv.h>

#include "core/agent.h"
#include "gateway/agents/workers.h"
#include "gateway/config/config.h"
#include "gateway/fetch/fetch.h"
#include "gateway/mcp/mcp.h"
#include "gateway/models/model.h"
#include "gateway/tools/tool_terminal.h"

struct secrets;

/* The services that agents use. */
struct agents_rim {
    struct fetcher *fetcher;
    struct terminal *terminal;
    struct mcp *mcp;
    struct kept *kept; /* exec_kept.h; NULL: no program outlives the gateway */
    uv_loop_t *loop;
    struct workers *workers;
    struct secrets *secrets;     /* gets those of the agents and their models */
    const struct lender *lender; /* agent_exec.h; NULL: there are no files */
    struct traces *traces;       /* NULL: there are none */
};

/* False with a sentence in ret_error when an agent needs something that this gateway does not
 * have. */
bool agents_build(const struct config *config, const struct agents_rim *rim, struct agent **ret,
                  size_t *ret_n, char *ret_error, size_t error_bytes);
/* Drops what they keep of a conversation that is deleted. */
void agents_forget(const struct config *config, struct agent *agents, size_t n, struct str owner,
                   struct str conversation_id);
/* Calls visit for each model that an agent may use. */
void agents_each_model(const struct agent *agents, size_t n,
                       void (*visit)(void *arg, const char *agent, const struct model *model),
                       void *arg);
void agents_free(struct agent *agents, size_t n);

#endif
