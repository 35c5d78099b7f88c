/* resume -- decide how a returning client catches up on a stream.
 *
 * Shape:    one pure function; no allocation, no I/O, no clock, no globals.
 * Units:    a seq counts a task's events, dense from 1; 0 means "before the first event".
 * Thread:   any (touches only its arguments).
 * Owns:     nothing; arguments are passed by value.
 * Errors:   none; every input maps to exactly one plan.
 * Why:      PROTOCOL.md section 5: after, out_of_range, first, caught_up.
 */
#ifndef CORE_RESUME_H
#define CORE_RESUME_H

#include "proto/base.h"

struct stream_bounds { /* a snapshot by the caller, taken at one instant */
    uint64_t first;    /* oldest readable event; head + 1 when none is */
    uint64_t head;     /* newest committed event; 0 when none ever was */
    bool ended;        /* head is the terminal event */
};

enum resume_plan {
    RESUME_LIVE,   /* nothing missed: attach at the tail */
    RESUME_REPLAY, /* send after+1 .. head, then attach (or end, when ended) */
    RESUME_GAP,    /* pruned past the reader: report it, start at first */
    RESUME_DONE,   /* nothing missed, and nothing will come */
    RESUME_AHEAD,  /* the reader claims events that were never committed: refuse */
};

/* Never fails.  Checks in order: ahead, done, live, gap, replay. */
enum resume_plan resume_decide(uint64_t after, struct stream_bounds have);

#endif
