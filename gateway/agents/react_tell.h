/* react_tell -- what the loop of an agent of kind react says by itself (PROTOCOL.md section 8).
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_AGENTS_REACT_TELL_H
#define GATEWAY_AGENTS_REACT_TELL_H

#include "gateway/agents/teller.h"
#include "gateway/models/model.h"

/* The structured result: the usage that the models' servers have counted. */
void react_tell_usage(struct teller *t, const struct model_usage *usage);
/* So many of the oldest messages were left out. */
void react_tell_shortened(struct teller *t, size_t messages, size_t bytes, size_t context_bytes);
void react_tell_fallback(struct teller *t, const char *from, const char *to);

#endif
