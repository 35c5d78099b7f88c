/* tool_names -- the tool of each of an agent's calls, for a result that leaves the name out.
 *
 * Shape:    told of each tool_call; asked by call_id.  NULL is a valid empty one, and the first
 *           call allocates the block.
 * Units:    the last 32 calls; a call whose call_id and name exceed 512 bytes together is not kept.
 * Thread:   loop.
 * Owns:     its copies; tool_names_free accepts NULL too.
 */
#ifndef CORE_TOOL_NAMES_H
#define CORE_TOOL_NAMES_H

#include "proto/buf.h"

struct tool_names;

void tool_names_tell(struct tool_names **names, struct str call_id, struct str name);
/* The newest with that id, valid until the next call is told; STR_NULL when it is not known. */
struct str tool_names_of(const struct tool_names *names, struct str call_id);
void tool_names_free(struct tool_names *names);

#endif
