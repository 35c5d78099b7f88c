/* agent_react -- the ReAct loop over a model: think, call tools, read the results, answer.
 *
 * Shape:    agent_react_ops is an adapter for core/agent.h; its settings are react_settings.  A run
 *           asks the model (model.h) for turns until one calls no tool; the text of that turn is
 *           the final_answer.  The model gets the errors of its tools, and has to deal with them.
 * Calls:    those of one turn run side by side (react_calls.h); the next turn begins when all are
 *           done.  A spawn_task that waits ends with its child.
 * Context:  when the messages exceed the model's context_bytes, the oldest are left out, and the
 *           event custom "history_shortened" says so.
 * Files:    each turn reads those that its messages name (react_files.h).
 * MCP:      a run keeps the tools that the servers had when it began.  It waits for a server that
 *           is starting; the event custom "mcp_unavailable" says what it went without.
 * Inbox:    a message waits, with core, for the current turn and its calls, then enters as the
 *           user's next turn, one message a turn; a run for which one waits continues instead of
 *           ending.
 * Restart:  a run goes on with the turn that was under way (react_again.h).
 * Thread:   loop.
 * Owns:     the run, until its last handle has closed: a turn of the loop after free. settings,
 *           model and tools stay the caller's and must outlive the runs.
 * Result:   the usage that the model's server has counted, if any, even for a run that failed.
 * Errors:   start: a history that is not a JSON array.  Everything later ends the run as
 *           RUN_FAILED: "model: …" for the model's errors, a sentence for others.
 * Limits:   below; an output past MAX_OUTPUT is cut, all others end the run.
 * Budget:   when a task's or the agent's is used up, the run asks whether to go on
 *           (core/budget.h).
 * End:      cancel and kill end it in the next turn of the loop, paused or not.
 */
#ifndef GATEWAY_AGENTS_AGENT_REACT_H
#define GATEWAY_AGENTS_AGENT_REACT_H

#include <uv.h>

#include "core/agent.h"
#include "core/tool.h"
#include "gateway/mcp/mcp.h"
#include "gateway/models/model.h"

#define REACT_CALLS 64                      /* tool calls of one turn */
#define REACT_TURN_BYTES (4 * 1024 * 1024)  /* a turn's text and calls */
#define REACT_TALK_BYTES (16 * 1024 * 1024) /* the messages for the model */

struct lender;
struct secrets;

struct react_settings {
    uv_loop_t *loop;
    const struct model *model;
    const char *system; /* the system prompt; NULL for none */
    const struct tool *const *tools;
    size_t n_tools;
    struct mcp_wish *mcp;          /* tools of MCP servers besides; NULL for none */
    const struct lender *lender;   /* files of messages; NULL: there are none */
    const struct secrets *secrets; /* taken out of the tools' outputs; NULL: none */
    bool short_errors;             /* the messages of a model's server are only logged */
    struct budget_limits budget;
    struct traces *traces; /* NULL: nobody traces */
    unsigned max_turns;    /* of the model, since the user's last message; 0: REACT_MAX_TURNS */
};

extern const struct agent_ops agent_react_ops;

#endif
