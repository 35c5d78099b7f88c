/* agents -- the configured agents, in the form that core knows.
 *
 * Thread:   loop.
 * Owns:     agents_build makes, agents_free frees; the configuration, the fetcher and the terminal
 *           must outlive them.
 */
#ifndef GATEWAY_AGENTS_AGENTS_H
#define GATEWAY_AGENTS_AGENTS_H

#include <uv.h>

#include "core/agent.h"
#include "gateway/config/config.h"
#include "gateway/fetch/fetch.h"
#include "gateway/models/model.h"
#include "gateway/tools/tool_terminal.h"

/* The services that agents use. */
struct agents_rim {
    struct fetcher *fetcher;
    struct terminal *terminal;
    uv_loop_t *loop;
};

/* False with a sentence in ret_error when an agent needs something that this gateway does not
 * have. */
bool agents_build(const struct config *config, const struct agents_rim *rim, struct agent **ret,
                  size_t *ret_n, char *ret_error, size_t error_bytes);
/* What they keep of a conversation that is deleted. */
void agents_forget(const struct config *config, struct agent *agents, size_t n, struct str owner,
                   struct str conversation_id);
/* Calls visit for each model that an agent may use. */
void agents_each_model(const struct agent *agents, size_t n,
                       void (*visit)(void *arg, const char *agent, const struct model *model),
                       void *arg);
void agents_free(struct agent *agents, size_t n);

#endif
