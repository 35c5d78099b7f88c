/* revocations -- owners who are let in no more, until a time.
 *
 * Shape:    a map in memory, asked with each identity that the rim has verified; each change is
 *           also an op.  It holds from the call on, and over restarts from its commit on.
 * Units:    until is Unix ms: the end follows the wall clock, as that of tokens does.
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
/* At a start: what the store has.  Those that are over are removed from it. */
void revocations_restore(struct hub *h, const struct answer *page);
/* until 0 lifts it.  Stages the change: the caller waits for the commit. */
void revocations_set(struct hub *h, struct str owner, int64_t until);
bool revocations_have(const struct revocations *r, struct str owner, int64_t wall_ms);
void revocations_each(const struct revocations *r,
                      void (*visit)(void *arg, const char *owner, int64_t until), void *arg);

#endif
