/* descriptors -- how many file descriptors the system allows, and what that means for the limits.
 *
 * A limit that the descriptors do not suffice for would only fail later, and half way.  Agents have
 * a share that sockets cannot take; a few sockets are reserved for answering that the gateway is
 * full.
 *
 * Thread:   the first, before there is another.
 * Errors:   none: a limit that is too high is lowered.  A warning in the log names each one that
 *           the configuration set; the defaults have one line of information.
 */
#ifndef GATEWAY_DESCRIPTORS_H
#define GATEWAY_DESCRIPTORS_H

#include "gateway/config/config.h"

/* Raises the number to what the limits need, lowers the limits to what it suffices for; returns how
 * many sockets there may be. */
uint32_t descriptors_fit(struct config *config);
/* Prints on stdout which limits a gateway in this environment would lower. */
void descriptors_tell(const struct config *config);

#endif
