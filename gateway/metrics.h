/* metrics -- Prometheus text for the operator, from one table.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_METRICS_H
#define GATEWAY_METRICS_H

#include "gateway/server.h"

void metrics_write(void *server, struct buf *out); /* of a struct server, as the front calls it */

#endif
