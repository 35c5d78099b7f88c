/* recap -- what a program is asked when it knows nothing of the conversation: all of it, in a text.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_AGENTS_RECAP_H
#define GATEWAY_AGENTS_RECAP_H

#include "core/agent.h"

/* Appends the input, after what was said before it, when there is any. */
void recap_put(struct buf *out, struct str history, struct str input);

#endif
