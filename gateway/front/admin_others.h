/* admin_others -- what the other gateways of the store say of themselves, for an operator's state.
 *
 * Shape:    each that lives is asked over its link for its own state (admin_state.h), whose rows
 *           are then put behind ours.  One that does not answer within a second is silent: the
 *           rest is shown without it.  The fronts of a crew are asked by their home, and a front
 *           shows what its home says.
 * Thread:   loop.
 * Owns:     the pipes and the answers, until the next question or the exchange's end.
 */
#ifndef GATEWAY_FRONT_ADMIN_OTHERS_H
#define GATEWAY_FRONT_ADMIN_OTHERS_H

#include "gateway/front/http_api.h"

struct store_node;

/* Asks all about owners in whose name that text stands ("": all).  done is called once, perhaps
 * from inside, and never after others_forget.  A gateway that is itself asked by another one, or
 * has no links, asks nobody. */
void others_ask(struct exchange *x, const char *owner, void (*done)(struct exchange *x));
void others_forget(struct exchange *x);        /* one that has asked nobody is allowed, as below */
bool others_are_due(const struct exchange *x); /* they are asked and have not all answered */

/* These are about those that have answered.  Appends the rows of an array, behind those that it
 * has. */
void others_put_rows(const struct exchange *x, const char *key, struct buf *out);
int64_t others_sum(const struct exchange *x, const char *key);  /* of a number of each */
int64_t others_most(const struct exchange *x, const char *key); /* the largest of them; 0: none */
bool others_any(const struct exchange *x, const char *key);     /* it is true for one */
/* Appends the row that a gateway has for itself; false: it is silent. */
bool others_put_node(const struct exchange *x, const struct store_node *node, struct buf *out);
/* Appends the rows of a crew's fronts, each with a comma before it. */
void others_put_fronts(const struct exchange *x, struct buf *out);
/* A crew's front: appends the home's state as it is; false: the home is silent. */
bool others_put_home(const struct exchange *x, struct buf *out);
/* Appends an array with the name and the metrics of each. */
void others_put_metrics(const struct exchange *x, struct buf *out);

#endif
