/* dealer -- which slots a node gives away, so that all carry as much: a plan that does nothing.
 *
 * Shape:    a slot weighs 1, DEALER_TASK for each live task, and 1 for each event a second that its
 *           owners' tasks say; so even slots in which nothing happens are dealt out.  While hardly
 *           anything happens at all nodes, it is the number of slots that is made equal, at once.
 *           Otherwise a node begins to give when it has stood above the mean by the configured part
 *           for some time, or at once when another one has next to nothing, which has just come;
 *           it gives what it has above the mean then, once, and looks again when the others have
 *           told what that became there.  So nothing goes to and fro.
 * Thread:   the caller's; it looks at no clock.
 */
#ifndef GATEWAY_CLUSTER_DEALER_H
#define GATEWAY_CLUSTER_DEALER_H

#include "core/hub.h"
#include "gateway/store/store_nodes.h"

#define DEALER_TASK 4
#define DEALER_QUIET 256  /* a node with less load tells none */
#define DEALER_CLOSES 256 /* slots at a time: their clients come back at once */
#define DEALER_PARTS 64   /* the same with live tasks, each of which is cut in its step */

struct dealer {
    msec_t patience;  /* how long an unevenness must last, and how long none is looked for then */
    unsigned percent; /* above the mean that is borne; 0: slots are dealt by number alone */
    uint32_t told;    /* the load: 0, or what was measured last */
    msec_t measured_at;
    uint32_t events[N_SLOTS]; /* at that time */
    float rates[N_SLOTS];     /* events a second, smoothed over patience */
    uint32_t weights[N_SLOTS];
    msec_t uneven_since;          /* 0: it is not */
    msec_t begun_at, looks_after; /* 0: none is being given */
    int64_t left;                 /* of what is being given: weight */
};

/* Takes what the slots cost by now; then told is the load that others are to hear of. */
void dealer_measure(struct dealer *d, const struct slot_use use[N_SLOTS], const struct slots *ours,
                    msec_t now);

/* How much is to go now. */
struct dealt {
    int64_t weight;    /* 0: nothing */
    unsigned idle;     /* of that, slots in which nothing lives, in preference */
    unsigned idle_too; /* so many more of them, when nothing else can go */
    bool by_number;    /* each slot counts 1 */
};
struct dealt dealer_look(struct dealer *d, const struct store_view *v, int64_t us, msec_t now);
/* Among slots in which nothing lives, or that only readers keep, or tasks that may move: those that
 * are to go at once, and those that are to be closed, unless some are still being closed. */
struct choices {
    struct slots idle, read, live;
};
void dealer_choose(struct dealer *d, const struct dealt *dealt, const struct choices *among,
                   bool may_close, struct slots *ret_go, struct slots *ret_close);

#endif
