/* agent_acp -- coding agents that speak the Agent Client Protocol over their pipes.
 *
 * Shape:    agent_acp_ops is an adapter behind core/agent.h, with acp_settings; the protocol is
 *           proto/forms/acp.h, the process agent_exec's (also what that promises of processes).
 * Process:  one serves its conversation, one turn at a time.  Between turns it waits in a pool, for
 *           pool_idle_s at most, and `pool` of them at most (the one that waits longest goes
 *           first); one that has gone is started again, with its session (program_session.h) where
 *           it can resume or load one, else with a new one that is told of the conversation
 *           (recap.h).
 *           One that dies before it says a word of a further turn is replaced, once.
 * Cancel:   session/cancel, SIGTERM after half of the grace, and core's kill after all of it.  A
 *           program that gives its turn up by itself stays.
 * Kept:     agent_acp_kept_ops is the same for settings whose exec is kept: a turn goes on after a
 *           restart of the gateway (acp_again.c).
 * Thread:   loop.
 * Owns:     runs until free; processes until agent_acp_close, or until they have ended.  settings
 *           stay the caller's, and must outlive both.
 */
#ifndef GATEWAY_AGENTS_AGENT_ACP_H
#define GATEWAY_AGENTS_AGENT_ACP_H

#include "core/list.h"
#include "gateway/agents/agent_exec.h"
#include "gateway/processes/processes.h"
#include "gateway/processes/sandbox.h"

struct acp_settings {
    struct exec_settings exec;
    const char *agent; /* its name */
    const char *data;  /* the data directory */
    const char *auth_method;
    const char *mcp_stdio, *mcp_http; /* as in struct acp_options; NULL for none */
    bool serves_files, serves_terminals;
    struct processes *processes; /* for terminals */
    struct sandbox sandbox;      /* its bounds alone count */
    msec_t keep_ms, grace_ms;
    size_t keep;
    struct list pool, busy; /* agent_acp_init */
    size_t n_pool;
};

extern const struct agent_ops agent_acp_ops, agent_acp_kept_ops;

void agent_acp_init(struct acp_settings *s);
/* A conversation is deleted: its process ends, or, in a turn, does not outlive that. */
void agent_acp_forget(struct acp_settings *s, struct str owner, struct str conversation_id);
void agent_acp_close(struct acp_settings *s); /* all of them; no run is left */

#endif
