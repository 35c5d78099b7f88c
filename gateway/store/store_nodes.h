/* store_nodes -- what a store that several gateways share says about them.
 *
 * Shape:    a view is one state of the tables of nodes and slots.  Incarnations and tenures are
 *           numbers of one kind, each given once, upwards.
 * Thread:   any: values, that are copied.
 */
#ifndef GATEWAY_STORE_STORE_NODES_H
#define GATEWAY_STORE_STORE_NODES_H

#include "core/slot.h"

#define STORE_NODES_MAX 64
#define NODE_NAME_TEXT 80
#define NODE_LINK_TEXT 128

/* NODE_LEAVES: it lives, and takes no slots. */
enum node_state { NODE_LIVES, NODE_LEAVES, NODE_DEAD };

struct store_node {
    int64_t incarnation; /* a process's life */
    int64_t beat;        /* larger with each sign of life */
    uint32_t load;       /* of its owners, as it tells with that; a slot without any counts 1 */
    enum node_state state;
    char name[NODE_NAME_TEXT];
    char link[NODE_LINK_TEXT]; /* where others reach it, "" for nowhere */
    char version[32];
};

struct store_view {
    size_t n;
    struct store_node
        nodes[STORE_NODES_MAX]; /* by incarnation; the dead too, until they are told */
    int64_t home[N_SLOTS];      /* an incarnation; 0: nobody's */
    int64_t moved[N_SLOTS];     /* the tenure; 0: there was none yet */
    char newest_id[32];         /* of any record, when slots last became ours */
    int64_t epoch; /* the number of the last time when committed batches were lost; 0: never */
    int64_t range; /* ours since then, for keys; 0: none */
    int64_t clock_off_ms; /* this machine's against the server's: above 0, it is ahead */
    uint64_t agreed;      /* all nodes have said what they had on the server before; 0: not yet */
};

unsigned store_view_count(const struct store_view *v, int64_t incarnation); /* that are its */
/* How slots are dealt; all nodes compute it alike.  A node weighs as much as it has slots, and its
 * load; only those that live take part.  While no load is told, it is slots alone that count. */
struct store_deal {
    unsigned n;          /* nodes that live */
    bool by_load;        /* some load is told */
    unsigned have, free; /* slots: that node's, and nobody's */
    unsigned share;      /* by number; 0 when it does not live, like the next */
    int64_t weight;      /* that node's */
    int64_t sum, least;  /* of all together, with the free ones; and of the lightest */
    unsigned fewest;     /* slots of the lightest */
};
void store_view_deal(const struct store_view *v, int64_t incarnation, struct store_deal *ret);
/* How many of nobody's slots it is to take, so that all are taken. */
unsigned store_view_claims(const struct store_view *v, int64_t incarnation);

#endif
