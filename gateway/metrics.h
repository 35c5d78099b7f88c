/* metrics -- what an operator sees: Prometheus text, from one table.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_METRICS_H
#define GATEWAY_METRICS_H

#include "gateway/server.h"

void metrics_write(struct server *s, struct buf *out);
bool metrics_are_allowed(const struct config *config, const char *ip);

#endif
