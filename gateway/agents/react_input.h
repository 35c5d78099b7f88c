/* react_input -- what a model of the ReAct loop is told, and what its user is told of its failure.
 *
 * Thread:   any.
 * Owns:     nothing.
 */
#ifndef GATEWAY_AGENTS_REACT_INPUT_H
#define GATEWAY_AGENTS_REACT_INPUT_H

#include "gateway/agents/agent_react.h"
#include "gateway/agents/react_calls.h"
#include "gateway/agents/talk.h"

/* Everything before the task's input; doc is scratch.  False for a history that is not a JSON
 * array. */
bool react_input_put_past(const struct react_settings *s, const struct run_spec *spec,
                          struct talk *talk, struct js_doc *doc) MUST_USE;
/* Why there can be no further turn of the model; false: there can. */
bool react_input_is_at_limit(const struct react_settings *s, const struct model *model,
                             const struct talk *talk, unsigned n_turns, char ret_why[128]);
/* Adds a turn of the model: its text, or its thoughts and calls, because some servers refuse a call
 * without its thoughts. */
void react_input_put_turn(struct talk *talk, struct str text, struct str more,
                          const struct react_calls *calls);
/* Leaves out what does not fit into the model's context, and reports it. */
void react_input_fit(const struct model *model, struct talk *talk, struct teller *teller);
/* The model after so many fallbacks: those that took over stay in charge. */
const struct model *react_input_fallback(const struct model *model, unsigned n);
/* A model's failure as the user learns of it, which the caller frees; the log has all of it. */
char *react_input_fault(const struct react_settings *s, const struct model *model,
                        const char *task_id, enum model_reason reason, struct str said);
/* The text of a message for the run, with its sender: a line of PROTOCOL.md section 8. */
void react_input_put_message(const struct js_doc *line, struct buf *out);

#endif
