/* tools -- the tools without settings: calculator and clock, and those that core carries out
 * (spawn_task, cancel_task, send_message, ask_user).
 *
 * Shape:    a table of struct tool (core/tool.h).  Arguments are the JSON object of a call; ""
 *           counts as {}.
 * Thread:   any.
 * Errors:   a call that returns false has a sentence in out, written for a model to read.
 */
#ifndef GATEWAY_TOOLS_TOOLS_H
#define GATEWAY_TOOLS_TOOLS_H

#include "core/tool.h"

/* NULL when there is no tool with that name. */
const struct tool *tool_find(struct str name);

#endif
