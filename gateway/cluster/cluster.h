/* cluster -- the gateways of one store: which of them is the home of an owner, and where it is.
 *
 * Shape:    each owner belongs to a slot (core/slot.h), and each slot has at most one home: a node,
 *           which is a gateway's process with a lease in the store.  The home alone commits and
 *           answers for the owners of its slots.  Without a store that several can share there is
 *           one node, which is the home of all; other processes of its machine may be fronts,
 *           which know it from their start.  What is known of others is as old as the last
 *           beat: a fifth of a lease.  So the answer "away" is a hint, and the home itself checks
 *           that the slot is still its own (cluster_home_of there); "here" is certain as long as
 *           cluster_is_trusted.
 * Thread:   loop, but for cluster_is_trusted: any.
 * Owns:     the table of nodes.  A node's struct stays until the next change is told, and its
 *           incarnation is never used for another one.
 * Source:   docs/operations.md, "More than one machine".
 */
#ifndef GATEWAY_CLUSTER_CLUSTER_H
#define GATEWAY_CLUSTER_CLUSTER_H

#include <uv.h>

#include "core/list.h"
#include "core/slot.h"
#include "gateway/store/store_nodes.h"

struct hub;
struct store_pg;

enum home {
    HOME_HERE, /* this node, and its owners' tasks are repaired: carry the request out */
    HOME_SOON, /* nobody's, or being repaired here: refuse with "overloaded", ask again later */
    HOME_AWAY, /* another node's */
};

struct home_of {
    enum home at;
    unsigned slot;
    int64_t moved;                 /* a number of this tenure: larger with each new home */
    const struct store_node *node; /* the home, HOME_AWAY; otherwise NULL */
};

struct cluster_watcher {
    struct list at; /* the cluster's */
    /* Nodes, their addresses or homes are others than before; also when slots open or close here.
     * Not from inside a call of this header. */
    void (*changed)(struct cluster_watcher *watcher);
};

struct cluster;

struct cluster_options {
    /* Slots have been repaired and are served, the first time perhaps none; or a store error: then
     * they stay closed, and a process that serves no others must end. */
    void (*opened)(void *arg, int status);
    /* Adds slots that must stay, beside those in which the hub has something. */
    void (*busy)(void *arg, struct slots *ret);
    /* Requests of their owners are refused from now on: their sessions are to be closed.  are_away:
     * those are at home at other nodes. */
    void (*closing)(void *arg, const struct slots *slots, bool are_away);
    /* Those are about to be left: nothing may be staged for their owners any more. */
    void (*leaving)(void *arg, const struct slots *slots);
    void *arg;
    msec_t lease_ms;
    unsigned uneven_percent; /* dealer.h */
    /* The processes of one machine, with a store of one process: this one's incarnation, and
     * that of the home of all, with its address for links.  us 0: there is one process. */
    int64_t us, home;
    const char *home_link;
};

/* pg: NULL for a store of one node.  Neither is taken over; the hub need not be open yet.  Never
 * NULL. */
struct cluster *cluster_open(uv_loop_t *loop, struct hub *hub, struct store_pg *pg,
                             const struct cluster_options *options);
/* Begins with the slots that are ours already. */
void cluster_start(struct cluster *c);
/* The process is to end: no slots come any more, and idle ones go. */
void cluster_leave(struct cluster *c);
/* From now on nothing is opened, closed or told.  Before the hub and the store are closed. */
void cluster_stop(struct cluster *c); /* NULL is allowed, also in the next */
/* The store's threads have ended: so do those that watch the nodes.  Before descriptors are closed
 * twice (server_stop): a thread that opens one at that moment would lose it. */
void cluster_join(struct cluster *c); /* NULL is allowed */
void cluster_close(struct cluster *c);

struct home_of cluster_home_of(const struct cluster *c, struct str owner);
struct home_of cluster_home_of_slot(const struct cluster *c, unsigned slot);

/* Whether this process may still say and begin anything: its lease is sure by its own clock.  To be
 * asked where bytes are handed over, and before anything begins outside. */
bool cluster_is_trusted(const struct cluster *c);

/* The living nodes, this one among them; NULL behind the last. */
const struct store_node *cluster_node(const struct cluster *c, size_t i);
const struct store_node *cluster_find_node(const struct cluster *c, int64_t incarnation);
/* Somebody else who could take slots. */
bool cluster_has_others(const struct cluster *c);
unsigned cluster_slots_of(const struct cluster *c, int64_t incarnation); /* 0: nobody's */
/* Ourselves. */
int64_t cluster_incarnation(const struct cluster *c); /* 0: a store of one node */
/* A process beside the home of all, which it is a front of; 0: it is none. */
int64_t cluster_home_beside(const struct cluster *c);

struct cluster_counts {
    uint32_t open, coming, leaving, unrepaired; /* of our slots */
    uint32_t nodes[3];                          /* by enum node_state */
    uint64_t takeovers;                         /* of dead nodes, that we did */
};
struct cluster_counts cluster_count(const struct cluster *c);

/* The address at which other nodes reach this one ("host:port"); it is in the table within a fifth
 * of a lease.  Empty: nobody can. */
void cluster_advertise(struct cluster *c, const char *address);

void cluster_watch(struct cluster *c, struct cluster_watcher *watcher);
void cluster_unwatch(struct cluster_watcher *watcher); /* one that watches nothing is allowed */

#endif
