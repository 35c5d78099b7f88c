/* zone -- files of the system's time zone database, which the package tzdata brings.
 *
 * Thread:   the loop: a file has some KiB, and each is read once (core/schedule.h keeps it).
 */
#ifndef GATEWAY_BASE_ZONE_H
#define GATEWAY_BASE_ZONE_H

#include "proto/buf.h"

/* Appends the file of a name that tz_name_is_valid has accepted.  False: there is none. */
bool zone_read(struct str name, struct buf *out);

#endif
