/* backoff -- how long to wait before the next attempt: doubled each time, up to a limit.
 *
 * Units:    ms.
 * Thread:   any.
 */
#ifndef CORE_BACKOFF_H
#define CORE_BACKOFF_H

#include "proto/base.h"

/* After that many attempts: first, twice that, four times that, …, at most most. */
static inline msec_t backoff_ms(uint64_t tries, msec_t first, msec_t most)
{
    msec_t ms = first;
    for (; tries > 1 && ms < most; tries--)
        ms *= 2;
    return ms < most ? ms : most;
}

/* A random time between least and most, so that many peers do not come back together. */
static inline msec_t backoff_between(msec_t least, msec_t most, uint32_t random)
{
    return least + (msec_t)(random % (uint32_t)(most - least + 1));
}

#endif
