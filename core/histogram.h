/* histogram -- durations in fixed buckets, for the operator.
 *
 * Units:    milliseconds in, seconds out.
 * Thread:   loop.
 */
#ifndef CORE_HISTOGRAM_H
#define CORE_HISTOGRAM_H

#include "proto/base.h"

/* Upper bounds in ms, inclusive. */
static const msec_t histogram_bounds[] = {1,   2,   5,    10,   25,   50,    100,
                                          250, 500, 1000, 2500, 5000, 10000, 30000};
#define HISTOGRAM_BUCKETS countof(histogram_bounds)

struct histogram {
    uint64_t n[HISTOGRAM_BUCKETS]; /* not cumulative */
    uint64_t count;
    uint64_t sum_ms;
};

static inline void histogram_add(struct histogram *h, msec_t ms)
{
    size_t i = 0;
    if (ms < 0)
        ms = 0;
    while (i < HISTOGRAM_BUCKETS && ms > histogram_bounds[i])
        i++;
    if (i < HISTOGRAM_BUCKETS)
        h->n[i]++;
    h->count++;
    h->sum_ms += (uint64_t)ms;
}

#endif
