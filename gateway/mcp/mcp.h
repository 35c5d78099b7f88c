/* mcp -- servers of the Model Context Protocol, whose tools agents of kind react may call.
 *
 * Shape:    each configured server that an agent lists is one mcp_server, started once and kept:
 *           started again with a growing pause when it ends, and listed again when it says that
 *           its tools have changed.  What an agent lists is an mcp_wish; a run gets an mcp_hand,
 *           the tools as they are when it begins, which stay those of the run.
 * Tools:    struct tool of core/tool.h, named SERVER__TOOL.  Their jobs report progress and ask the
 *           user, if the caller has a tool_talk.
 * Promise:  whatever a server does or says is a tool's error with a reason, bounded in memory and
 *           time, and concerns no other server.
 * Thread:   loop.
 * Owns:     everything; configuration, loop, fetcher and clock must outlive it, agents and runs
 *           must be gone before mcp_close.
 */
#ifndef GATEWAY_MCP_MCP_H
#define GATEWAY_MCP_MCP_H

#include <uv.h>

#include "core/clock.h"
#include "core/secrets.h"
#include "core/tool.h"
#include "gateway/config/config.h"
#include "gateway/fetch/fetch.h"

#define MCP_ERROR_TEXT 512
#define MCP_START_WAIT_MS 30000 /* a run waits so long for servers that are starting */

struct lender;
struct mcp;

struct mcp_options {
    const struct config *config;
    uv_loop_t *loop;
    struct fetcher *fetcher;
    struct clock *clock; /* its owner runs it; need not be open before mcp_start */
    struct secrets
        *secrets; /* gets those of environments and headers; NULL: nobody collects them */
    const struct lender *lender; /* takes the files of results; NULL: they are not kept */
};

/* NULL with a sentence when a server's sandbox does not work here. */
struct mcp *mcp_open(const struct mcp_options *o, char ret_error[MCP_ERROR_TEXT]);
void mcp_start(struct mcp *m);
/* Ends the servers; the clock may go after it. */
void mcp_stop(struct mcp *m);
void mcp_close(struct mcp *m); /* NULL is allowed */

/* --- for agents ------------------------------------------------------------------------------- */

struct mcp_wish;
struct mcp_hand;

/* The entries of an agent's tools that are "mcp:…"; NULL when none is.  mcp_start starts the
 * servers that they name. */
struct mcp_wish *mcp_wish_new(struct mcp *m, const struct config_texts *tools);
void mcp_wish_free(struct mcp_wish *wish); /* NULL is allowed */

/* The tools of a run.  A server that is starting is waited for; then ready is called, once, never
 * from inside mcp_hand_open. */
struct mcp_hand *mcp_hand_open(struct mcp_wish *wish, void (*ready)(void *user), void *user);
bool mcp_hand_is_ready(const struct mcp_hand *hand);
const struct tool *const *mcp_hand_tools(const struct mcp_hand *hand, size_t *ret_n);
/* The wishes that nothing fulfils: members of a JSON list, {"server":…,"tool":…,"why":…} each. */
struct str mcp_hand_missing(const struct mcp_hand *hand);
void mcp_hand_close(struct mcp_hand *hand); /* after its jobs were stopped; NULL is allowed */

/* --- for the operator ------------------------------------------------------------------------- */

/* X(enum name, the label's value) */
#define MCP_FAILURE_TABLE(X)                                                                    \
    X(MCP_FAILED_TOOL, "tool")               /* the tool says that it has failed */             \
    X(MCP_FAILED_REFUSED, "refused")         /* the server answers with an error */             \
    X(MCP_FAILED_STRANGE, "strange")         /* what it answers is no answer */                 \
    X(MCP_FAILED_TIMEOUT, "timeout")         /* it does not answer */                           \
    X(MCP_FAILED_LOST, "lost")               /* it ended, or its connection, during the call */ \
    X(MCP_FAILED_UNAVAILABLE, "unavailable") /* it does not run, or lacks the tool */

enum mcp_failure {
#define X(name, label) name,
    MCP_FAILURE_TABLE(X)
#undef X
        N_MCP_FAILURES
};

struct mcp_stats {
    const char *server;
    uint64_t calls, failures[N_MCP_FAILURES];
    uint64_t restarts;
    uint64_t tools; /* now; 0 when it does not run */
};
const char *mcp_failure_name(enum mcp_failure failure);
/* False: there is no further server.  Only those that an agent lists count. */
bool mcp_stats(const struct mcp *m, size_t at, struct mcp_stats *ret);

/* Looks whether each configured server could start: says a line for each that could not, or, with
 * all, for each. */
void mcp_check(const struct config *config, bool all, void (*say)(const char *line, bool good));

/* For session/new of the Agent Client Protocol: appends the members of its list mcpServers, those
 * over stdio and those over HTTP. */
void mcp_put_acp_servers(const struct config *config, const struct config_texts *tools,
                         struct buf *stdio, struct buf *http);

#endif
