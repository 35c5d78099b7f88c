/* home -- the port to other nodes, for owners who are served there.
 *
 * Shape:    an owner has one home, the node whose hub has everything of his.  A client may come to
 *           any other node: there its session is a front, which lets it in and carries its lines
 *           to the home and back; requests without a session travel one by one.  Nothing of the
 *           owner is known at the front.
 * Thread:   loop.
 * Owns:     the rim owns a struct away until close is called, or until it calls away_lost.
 */
#ifndef CORE_HOME_H
#define CORE_HOME_H

#include "proto/base.h"

struct away; /* the rim's half of a session at its home */
struct call;
struct hub;
struct redeeming;
struct session;

struct home_port {
    void *arg;
    /* Whether another node is the owner's home. */
    bool (*is_away)(void *arg, struct str owner);
    /* Opens the session at its owner's home; NULL when that cannot be reached. */
    struct away *(*open)(void *arg, struct session *s);
    /* A client's message, which costs so many further lines. */
    void (*receive)(struct away *a, struct str message, uint32_t charge);
    void (*took)(struct away *a, size_t bytes); /* the client took so many bytes of lines */
    void (*close)(struct away *a);              /* and frees it */
    /* Has the request carried out at the owner's home, in the session there when it has one: it
     * ends in call_finish or call_fail.  False: the home cannot be reached. */
    bool (*request)(void *arg, struct call *c);
    /* Takes a code of the other node that has the slot: it ends in handover_redeemed.  False: there
     * is none that can be reached. */
    bool (*redeem)(void *arg, unsigned slot, struct str code, struct redeeming *r);
};

bool home_is_away(const struct hub *h, struct str owner);

/* For the hub and the session, when the owner's home is not here. */
bool away_open(struct session *s); /* false: it cannot be reached, and the session is closed */
/* The same for a client that has said hello with that id: what it is answered waits for the home's
 * word, which may know that the owner, or the grant, was revoked. */
bool away_hello(struct session *s, struct str id);
void away_receive(struct session *s, struct str message);
void away_request(struct call *c);

/* For the rim: lines came from the home, with what it knows of the session (LINK_FOLLOWS…); and the
 * session is over there: the rim frees its half. */
void away_put(struct session *s, struct str lines, uint8_t knows);
void away_taken(struct session *s); /* by its home */
void away_lost(struct session *s, int close_code);

#endif
