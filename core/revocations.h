/* revocations -- owners who are locked out until a given time.
 *
 * Shape:    a map in memory, checked with each identity that the rim has verified; each change is
 *           also an op.  It holds from the call on, and over restarts once it is committed.
 * Units:    until is Unix ms: like a token's expiry it follows the wall clock.
 * Thread:   loop.
 * Owns:     the names.
 */
#ifndef CORE_REVOCATIONS_H
#define CORE_REVOCATIONS_H

#include "core/map.h"
#include "core/store.h"

struct hub;

struct revocations {
    struct map by_owner;
};

void revocations_init(struct revocations *r, const uint64_t secret[2]);
void revocations_done(struct revocations *r);
/* At a start: what the store has; expired ones are removed from it. */
void revocations_restore(struct hub *h, const struct answer *page);
/* Revokes the owner until that time; 0 lifts the revocation.  Stages the change: the caller waits
 * for the commit. */
void revocations_set(struct hub *h, struct str owner, int64_t until);
/* Forgets those of slots that another process is to have; the store keeps them. */
void revocations_leave(struct revocations *r, const struct slots *slots);
bool revocations_have(const struct revocations *r, struct str owner, int64_t wall_ms);
void revocations_each(const struct revocations *r,
                      void (*visit)(void *arg, const char *owner, int64_t until), void *arg);

#endif
