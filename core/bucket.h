/* bucket -- a rate limit: a bucket of tokens that fills at a steady pace.
 *
 * Units:    tokens; per_s of them arrive each second, up to most.
 * Thread:   loop.
 */
#ifndef CORE_BUCKET_H
#define CORE_BUCKET_H

#include "proto/base.h"

struct bucket {
    double tokens; /* may be negative: refused requests can cost as well */
    msec_t at;     /* when tokens was computed */
};

static inline struct bucket bucket_full(uint32_t most, msec_t now)
{
    return (struct bucket){.tokens = most, .at = now};
}

static inline void bucket_fill(struct bucket *b, msec_t now, uint32_t per_s, uint32_t most)
{
    b->tokens += (double)(now - b->at) * per_s / 1000.0;
    b->at = now;
    if (b->tokens > most)
        b->tokens = most;
}

/* How long until there is a whole token, in ms and at least 1. */
static inline msec_t bucket_wait_ms(const struct bucket *b, uint32_t per_s)
{
    return (msec_t)((1 - b->tokens) * 1000.0 / per_s) + 1;
}

/* How long an empty bucket takes to fill, in ms. */
static inline double bucket_fills_ms(uint32_t per_s, uint32_t most)
{
    return 1000.0 * most / per_s;
}

#endif
