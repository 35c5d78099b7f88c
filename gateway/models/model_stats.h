/* model_stats -- what the turns of one agent with one model have cost, or those of titles, for the
 * operator.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_MODELS_MODEL_STATS_H
#define GATEWAY_MODELS_MODEL_STATS_H

#include "core/histogram.h"
#include "gateway/models/model.h"

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

/* A server may count cached tokens apart from those of the prompt. */
static inline void model_stats_count(struct model_stats *stats, const struct model_usage *usage)
{
    int64_t in = usage->prompt_tokens, cached = usage->cached_tokens;
    stats->in += (uint64_t)in;
    stats->out += (uint64_t)usage->completion_tokens;
    stats->cached += (uint64_t)(cached < in ? cached : in);
}

#endif
