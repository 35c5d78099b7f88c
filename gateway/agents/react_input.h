/* react_input -- the parts of a model's input that do not change during a run.
 *
 * Thread:   any.
 * Owns:     nothing.
 */
#ifndef GATEWAY_AGENTS_REACT_INPUT_H
#define GATEWAY_AGENTS_REACT_INPUT_H

#include "gateway/agents/agent_react.h"
#include "gateway/agents/talk.h"

/* The tools, as OpenAI's chat completions want them. */
void react_input_put_tools(const struct react_settings *s, struct buf *out);
/* Everything before the task's input; doc is scratch.  False for a history that is not a JSON
 * array. */
bool react_input_put_past(const struct react_settings *s, const struct run_spec *spec,
                          struct talk *talk, struct js_doc *doc) MUST_USE;
/* The text of a message for the run, with its sender: a line of PROTOCOL.md section 8. */
void react_input_put_message(const struct js_doc *line, struct buf *out);

#endif
