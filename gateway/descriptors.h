/* descriptors -- how many the system gives us, and what the limits may be with so many.
 *
 * What they do not carry would only fail later, and half way.  Agents have a share that no socket
 * takes; of the sockets a few are left for those who are told that it is full.
 *
 * Thread:   the first, before there is another.
 * Errors:   none: a limit that is too high is lowered.  A warning in the log names each that the
 *           configuration set; the usual ones have one line of information.
 */
#ifndef GATEWAY_DESCRIPTORS_H
#define GATEWAY_DESCRIPTORS_H

#include "gateway/config/config.h"

/* Raises them to what the limits need, lowers the limits to what they carry; gives how many sockets
 * there may be. */
uint32_t descriptors_fit(struct config *config);
/* Says on stdout which limits a gateway that starts as this process did would lower. */
void descriptors_tell(const struct config *config);

#endif
