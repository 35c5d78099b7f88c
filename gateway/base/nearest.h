/* nearest -- how much a misspelt name resembles another one.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_BASE_NEAREST_H
#define GATEWAY_BASE_NEAREST_H

#include "proto/base.h"

/* How many characters must be changed, added, removed, or swapped with their neighbour.  ASCII
 * letters match in either case, and characters from the 65th on do not count. */
size_t nearest_distance(struct str a, struct str b);
/* So many are a slip of the fingers. */
#define NEAREST_SLIP 2

#endif
