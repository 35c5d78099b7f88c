/* react_say -- what the ReAct loop itself says to its task, besides its model's words.
 *
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef GATEWAY_AGENTS_REACT_SAY_H
#define GATEWAY_AGENTS_REACT_SAY_H

#include "gateway/agents/teller.h"
#include "gateway/models/model.h"

/* The structured result: the usage that the models' servers have counted. */
void react_say_usage(struct teller *t, const struct model_usage *usage);
/* The events custom: the oldest messages were left out, and another model has taken over. */
void react_say_shortened(struct teller *t, size_t messages, size_t bytes, size_t context_bytes);
void react_say_fallback(struct teller *t, const struct model *from, const struct model *to);

#endif
