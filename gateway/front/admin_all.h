/* admin_all -- an operator's request that every gateway of the store has to answer.
 *
 * Shape:    the gateway that is asked carries it out, puts it to all others over their links, as an
 *           operator's there, and answers when all have.  One that lives and does not answer is a
 *           failure: the operator asks again, and what is asked so can be carried out twice.
 * Thread:   loop.
 * Owns:     the pipes, until their end or the exchange's.
 */
#ifndef GATEWAY_FRONT_ADMIN_ALL_H
#define GATEWAY_FRONT_ADMIN_ALL_H

#include "gateway/front/http_api.h"

struct admin_all {
    /* An answer of another gateway that is good; NULL: it does not matter what it says. */
    void (*join)(struct exchange *x, struct str answer);
    void (*finish)(struct exchange *x); /* all have answered: the exchange may be */
};

/* Puts the request to the others; what this gateway says to it is in x->answer. */
void admin_ask_all(struct exchange *x, const struct admin_all *how);

#endif
