/* moved -- the clients of owners who move to another home.
 *
 * Shape:    their connections end as at a planned stop (1001, or the end of a stream of events),
 *           and their clients come back to wherever the owner is served then.
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef GATEWAY_FRONT_MOVED_H
#define GATEWAY_FRONT_MOVED_H

#include "core/slot.h"
#include "gateway/front/front.h"

/* Those that are served here, not those that are carried to another node. */
void front_close_slots(struct front *f, const struct slots *slots);

#endif
