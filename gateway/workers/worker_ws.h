/* worker_ws -- the WebSocket of a worker, and what the operator's socket says of workers.
 *
 * Shape:    a ws_kind of the front at /v1/worker, which hands frames to an instance
 *           (gateway/agents/workers.h) at each home, and routes of the operator:
 *
 *             GET  /v1/admin/workers
 *             POST /v1/admin/workers/drain    {"worker"}
 *             POST /v1/admin/workers/undrain  {"worker"}
 * Thread:   loop.
 * Owns:     the connection's struct worker_ws; the front's lists get copies.
 * Errors:   a wrong secret is answered and closed with 4401, and too many of them from one address
 *           with 4429.
 */
#ifndef GATEWAY_WORKERS_WORKER_WS_H
#define GATEWAY_WORKERS_WORKER_WS_H

#include "gateway/agents/workers.h"
#include "gateway/front/front.h"

struct doors;

/* w outlives the front's connections, and what is returned. */
struct doors *worker_ws_open(struct front *f, struct workers *w);
/* Behind the last connection and the last link; NULL is allowed. */
void worker_ws_close(struct doors *d);

#endif
