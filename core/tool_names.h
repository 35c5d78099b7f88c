/* tool_names -- which tool each of an agent's calls named, for a result that leaves the name out.
 *
 * Shape:    told of each tool_call; asked by call_id.  NULL has heard of none, and the first call
 *           makes the block.
 * Units:    the last 32 calls; one whose call_id and name pass 512 bytes together is not kept.
 * Thread:   loop.
 * Owns:     its copies; tool_names_free takes NULL too.
 */
#ifndef CORE_TOOL_NAMES_H
#define CORE_TOOL_NAMES_H

#include "proto/buf.h"

struct tool_names;

void tool_names_tell(struct tool_names **names, struct str call_id, struct str name);
/* The newest of that id, valid until the next call is told; STR_NULL when it is not known. */
struct str tool_names_of(const struct tool_names *names, struct str call_id);
void tool_names_free(struct tool_names *names);

#endif
