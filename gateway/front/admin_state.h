/* admin_state -- what the gateways do now, for the operator: connections, tasks, and counters.
 *
 * Shape:    GET /v1/admin/state is one JSON object; GET /v1/admin/watch sends the same as an event
 *           stream, once a second, or every five seconds while very many tasks are live.  Both take
 *           `owner`: only what belongs to owners in whose name that text stands is listed, and at
 *           most STATE_ROWS rows of each kind; the numbers are of all.  Counters are the text of
 *           /metrics, so that each is defined once.  Rows of the store's other gateways come
 *           behind ours (admin_others.h), each row with its gateway's name.
 * Thread:   loop.
 * Errors:   a watcher who takes nothing for a minute is disconnected, and so is one whose token has
 *           expired, or whose owner was revoked.
 */
#ifndef GATEWAY_FRONT_ADMIN_STATE_H
#define GATEWAY_FRONT_ADMIN_STATE_H

#include "gateway/front/http_api.h"

#define STATE_ROWS 500

/* The routes. */
void admin_state(struct exchange *x);
void admin_watch(struct exchange *x);
/* Like SIGTERM: a planned stop begins, here or at the gateway that the body names. */
void admin_stop(struct exchange *x);

int admin_watch_writable(struct exchange *x);
void admin_state_tick(struct front *f); /* once a second */

#endif
