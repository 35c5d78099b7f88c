/* metrics -- what an operator sees: Prometheus text, from one table.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_METRICS_H
#define GATEWAY_METRICS_H

#include "gateway/server.h"

void metrics_write(struct server *s, struct buf *out);
/* was_forwarded: a proxy says that ip asks.  That may be a proxy of this machine that names nobody else,
 * so loopback alone is no reason then. */
bool metrics_are_allowed(const struct config *config, const char *ip, bool was_forwarded);

#endif
