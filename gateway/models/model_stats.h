/* model_stats -- what the turns of one agent with one model have cost, for the operator.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_MODELS_MODEL_STATS_H
#define GATEWAY_MODELS_MODEL_STATS_H

#include "core/histogram.h"
#include "proto/errors.h"

enum {
    N_MODEL_REASONS = 1 /* MODEL_FAULT_OTHER */
#define X(name, word, text) +1
    MODEL_REASON_TABLE(X)
#undef X
};

struct model_stats {
    uint64_t in, out, cached; /* tokens, counted by its server; cached: of in */
    uint64_t failures[N_MODEL_REASONS];
    struct histogram first_token; /* from a turn's request to its first thought, word or call */
};

#endif
