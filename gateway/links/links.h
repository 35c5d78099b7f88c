/* links -- the connections between nodes: sessions and requests of owners who are served elsewhere.
 *
 * Shape:    each node dials every other one; over what it has dialled it is a front, over what it
 *           has accepted it is a home (proto/link.h).  Both sides prove that they have the
 *           cluster's secret.  A link that breaks closes its sessions with 1001, and its requests
 *           fail: nothing is sent twice.  A session is a cursor at its home, which fills lines only
 *           as long as the front has taken the earlier ones, so a frozen client stops nobody.
 * Thread:   loop.
 * Owns:     sockets, and the sessions of fronts elsewhere.  The hub outlives it.
 * Errors:   a faulty peer loses its link, with a line in the log and a number in the metrics.
 */
#ifndef GATEWAY_LINKS_LINKS_H
#define GATEWAY_LINKS_LINKS_H

#include <uv.h>

#include "core/home.h"
#include "core/hub.h"
#include "core/session.h"

#define LINKS_ERROR_TEXT 256

struct links;
struct pipe;
struct pipe_port;
struct pipe_user;

struct links_options {
    uv_loop_t *loop;
    struct hub *hub;
    struct str cluster, node, secret; /* copied */
    uint64_t incarnation;             /* of this process: no other has it */
    const char *listen;               /* ADDRESS:PORT; NULL: nobody can dial */
    bool tls;      /* what is dialled is encrypted, and what is accepted must be */
    bool is_crew;  /* a home and its fronts, which it asks over the links that they have dialled */
    int listen_fd; /* or a socket that listens, which is taken; 0: none */
    void *arg;     /* of the next */
    /* The incarnation of a slot's home; 0: nobody's.  And whether an owner's is this node. */
    uint64_t (*home_of)(void *arg, unsigned slot);
    bool (*is_here)(void *arg, struct str owner);
    /* Whether this node may still say anything: its lease is sure. */
    bool (*may_speak)(void *arg);
    /* Checks the token of a later hello; fills ret, or its error. */
    bool (*identify)(void *arg, struct str token, struct identity *ret);
    /* Takes one end of a pair of sockets, over which a client elsewhere speaks HTTP, from that
     * address; NULL: an operator.  Pipes are refused without it. */
    void (*adopt)(void *arg, int fd, const char *from);
    /* The other end of a pipe of a worker, who uses this one; false: no worker may come. */
    bool (*take_worker)(void *arg, struct pipe *p, const struct pipe_user **ret_user,
                        void **ret_arg);
    void (*is_up)(void *arg); /* a node that was dialled can be reached; NULL is allowed */
};

/* X(enum name, label): why a link ended */
#define LINK_END_TABLE(X)          \
    X(LINK_END_CLOSED, "closed")   \
    X(LINK_END_SILENT, "silent")   \
    X(LINK_END_REFUSED, "refused") \
    X(LINK_END_BROKEN, "broken")   \
    X(LINK_END_REPLACED, "replaced")
enum link_end {
#define X(name, label) name,
    LINK_END_TABLE(X)
#undef X
        N_LINK_ENDS
};

struct links_stats {
    uint64_t bytes_in, bytes_out;
    uint64_t ends[N_LINK_ENDS];
    uint64_t requests_out, requests_in;
    uint64_t moved;    /* requests and sessions that came to a node that is no home of theirs */
    uint64_t lost;     /* requests whose answer never came */
    uint32_t away;     /* now: sessions here whose home is elsewhere */
    uint32_t remote;   /* now: sessions of fronts elsewhere */
    uint32_t pipes;    /* now: of both sides */
    uint32_t links_up; /* now: dialled and open */
};

/* Listens at once when listen is given.  NULL: error says why. */
struct links *links_open(const struct links_options *o, char error[LINKS_ERROR_TEXT]);
int links_port(const struct links *l); /* 0: it does not listen */
/* The port for hub_options.home. */
const struct home_port *links_home(struct links *l);
const struct pipe_port *links_pipes(struct links *l); /* for the front (relay.h) */
/* A node that lives, and its HOST:PORT; again with another address when that changes.  It is
 * dialled until links_drop says that it is gone. */
void links_add(struct links *l, uint64_t incarnation, const char *node, const char *address);
void links_drop(struct links *l, uint64_t incarnation);
/* Drops every node for which stays says no. */
void links_drop_unless(struct links *l, bool (*stays)(void *arg, uint64_t incarnation), void *arg);
bool links_reach(struct links *l, uint64_t incarnation); /* its link is up */
/* Closes the sessions of an owner who is at home here; returns their number. */
uint32_t links_close_owner(struct links *l, struct str owner, enum close_code code,
                           const char *why);
/* Closes those of these slots: another node will be their home. */
void links_close_slots(struct links *l, const struct slots *slots);
void links_turn(struct links *l); /* the end of the turn: writes what it has */
const struct links_stats *links_stats_of(const struct links *l);
/* One call for each dialled node; rtt_us: -1 when it was not measured. */
void links_each(struct links *l,
                void (*visit)(void *arg, const char *node, bool up, int64_t rtt_us), void *arg);
void links_write_metrics(struct links *l, struct buf *out);
/* Closes the sessions, before hub_done; its handles need the loop for a while. */
void links_close(struct links *l); /* NULL is allowed */

#endif
