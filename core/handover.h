/* handover -- the codes that bring an owner to another device.
 *
 * Shape:    a code is in the memory of the owner's home alone, for two minutes, and good once, for
 *           a token of the owner.  It begins with his slot, so that any node can ask the home.
 * Units:    Unix ms.
 * Thread:   loop.
 * Owns:     all codes; each holds a reference to its owner.
 */
#ifndef CORE_HANDOVER_H
#define CORE_HANDOVER_H

#include "core/hub.h"

#define HANDOVER_MS 120000
#define MAX_HANDOVERS 8 /* of one owner, at a time: the oldest makes room */

/* Appends a new code; until: when the token that it will be exchanged for expires.  False: there
 * are no random numbers. */
bool handover_make(struct hub *h, struct owner *owner, int64_t until, struct buf *code) MUST_USE;
/* Appends the token that a code of this node is good for, which it then is no more. */
bool handover_take(struct hub *h, struct str code, struct buf *token) MUST_USE;
/* Drops codes that are good no more: each would hold its owner, and so its slot. */
void handovers_expire(struct hub *h);
void handovers_mark(const struct hub *h, struct slots *ret); /* slots of owners with a code */
void handovers_done(struct hub *h);

/* ERR_NONE: the token; ERR_NOT_FOUND: the code is good for none; ERR_OVERLOADED: later. */
typedef void handover_fn(void *arg, enum error e, struct str token);

/* One who waits for what the code's home says. */
struct redeeming {
    handover_fn *done; /* NULL: nobody waits any more */
    void *arg;
};

/* Takes it wherever it was given.  NULL: done was called already. */
struct redeeming *handover_redeem(struct hub *h, struct str code, handover_fn *done, void *arg);
void handover_forget(struct redeeming *r);                                   /* NULL is allowed */
void handover_redeemed(struct redeeming *r, enum error e, struct str token); /* for the rim */

#endif
