/* allowances -- what users have allowed for a whole conversation, so that it is not asked again.
 *
 * Shape:    a set of (owner, conversation, key); a key names a kind of call (tool.h: topic).  One
 *           more than ALLOWANCES, and the oldest is forgotten.
 * Life:     in the memory of the owner's home: after a restart, or a move of the owner, the user is
 *           asked again, which fails closed.  A deleted conversation takes its own with it, because
 *           a new one may get its id.
 * Thread:   loop.
 * Owns:     its copies.
 */
#ifndef CORE_ALLOWANCES_H
#define CORE_ALLOWANCES_H

#include "core/list.h"
#include "core/map.h"
#include "core/slot.h"

#define ALLOWANCES 10000

struct allowances {
    struct map all;
    struct list by_age; /* oldest first */
};

void allowances_init(struct allowances *a, const uint64_t secret[2]);
void allowances_done(struct allowances *a);
/* One that is there already keeps its age. */
void allowances_add(struct allowances *a, struct str owner, struct str conversation_id,
                    struct str key);
bool allowances_have(const struct allowances *a, struct str owner, struct str conversation_id,
                     struct str key);
void allowances_forget(struct allowances *a, struct str owner, struct str conversation_id);
/* Those of all owners in these slots: another home has served them meanwhile. */
void allowances_forget_slots(struct allowances *a, const struct slots *slots);

#endif
