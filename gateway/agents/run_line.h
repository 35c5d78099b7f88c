/* run_line -- the first line for an agent (PROTOCOL.md section 8).
 *
 * Thread:   any.
 */
#ifndef GATEWAY_AGENTS_RUN_LINE_H
#define GATEWAY_AGENTS_RUN_LINE_H

#include "core/agent.h"

void run_line_put(struct buf *out, const struct run_spec *spec); /* its newline included */

#endif
