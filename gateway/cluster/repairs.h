/* repairs -- which slots are repaired next, and which could not be: a plan that does nothing.
 *
 * Shape:    slots that come are repaired together.  A repair that fails as a whole says nothing of
 *           which slot is to blame, so half of them are tried next, and so on: one that fails alone
 *           is left out, and the others open.  A store that refuses everything would fail for each
 *           one: after REPAIRS_ALONE of them in a row the rest is left out as well.  What was left
 *           out is tried again, 1 s to 1 min later; the others are not disturbed.
 * Thread:   the caller's; it looks at no clock.
 */
#ifndef GATEWAY_CLUSTER_REPAIRS_H
#define GATEWAY_CLUSTER_REPAIRS_H

#include "core/slot.h"

#define REPAIRS_ALONE 3

struct repairs {
    struct slots waiting;    /* to be repaired next */
    struct slots going;      /* under way */
    struct slots failed;     /* left out for now */
    struct slots unrepaired; /* those, and the waiting ones that were: to be told of */
    unsigned width;          /* how many are repaired at once */
    unsigned from;           /* the first to look at: behind the last that failed alone */
    unsigned n_alone;        /* that failed alone, in a row */
    uint64_t n_tries;        /* of failed ones, in a row */
    msec_t due_at;
};

void repairs_init(struct repairs *r);
void repairs_add(struct repairs *r, unsigned slot);
void repairs_forget(struct repairs *r, unsigned slot); /* it is another node's */
/* Moves the next ones from waiting to going; maybe none. */
void repairs_next(struct repairs *r);
/* The going ones are done with.  closed: of these, those that are not open and of which nothing is
 * in memory.  Whether some are left out that were not before. */
bool repairs_done(struct repairs *r, const struct slots *closed, msec_t now);
/* Failed ones wait again when their time has come. */
void repairs_look(struct repairs *r, msec_t now);
/* Forgets the unrepaired that are open by now; whether there were some. */
bool repairs_take_open(struct repairs *r, const struct slots *open);

#endif
