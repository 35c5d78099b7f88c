/* react_budget -- how much a run of kind react may use before it asks its user whether to go on.
 *
 * Shape:    three limits, any of which may be 0 for none: tokens, by the usage that the model's
 *           server counts; tool calls; seconds.  Before a turn of the model, and before a call, the
 *           run asks whether a limit has been met; if so, it says the question and waits.  A yes
 *           grants the whole budget once more; anything else ends the run.
 * Wire:     PROTOCOL.md section 5, kind budget.
 * Thread:   loop.
 */
#ifndef GATEWAY_AGENTS_REACT_BUDGET_H
#define GATEWAY_AGENTS_REACT_BUDGET_H

#include "core/agent.h"
#include "gateway/agents/teller.h"

struct budget_limits {
    int64_t tokens, tool_calls, seconds; /* 0: none */
};

struct react_budget {
    struct budget_limits limits;
    int64_t tokens, tool_calls; /* since the last grant */
    uint64_t began_ms;
    unsigned n_asked;
};

/* The agent's limits, of which the task's metadata replaces those that it names. */
void react_budget_init(struct react_budget *b, const struct budget_limits *agent,
                       struct str metadata, uint64_t now_ms);
bool react_budget_is_spent(const struct react_budget *b, uint64_t now_ms, bool before_call);
void react_budget_ask(struct react_budget *b, uint64_t now_ms, struct teller *teller);
/* Whether a parsed line {"type":"input",…} answers the question; ret_yes: it grants more. */
bool react_budget_is_answer(const struct react_budget *b, const struct js_doc *doc, bool *ret_yes);
void react_budget_grant(struct react_budget *b, uint64_t now_ms);
/* Appends "4 of 4 tool calls", the limits that are met. */
void react_budget_put(const struct react_budget *b, uint64_t now_ms, struct buf *out);

#endif
