/* refusal -- which change it is for that the store refuses a whole batch, in words for the log.
 *
 * Shape:    a batch is refused with all that is in it, whoever's.  The store marks the op, where it
 *           knows which it was (struct op, refused); here it gets its name, and its owner's.
 * Thread:   loop.
 */
#ifndef CORE_REFUSAL_H
#define CORE_REFUSAL_H

#include "core/hub.h"

struct refusal {
    const char *op;                /* "seal" */
    struct str owner;              /* STR_NULL: not known, or none; valid until the next turn */
    char task_id[TASK_ID_LEN + 1]; /* "" likewise */
    uint64_t batch;                /* its number: the same one is refused again and again */
};

/* Looks at the batch that waits for its next try.  False: there is none, or the store does not know
 * the op. */
bool refusal_find(struct hub *h, struct refusal *ret);

#endif
