/* admission -- whether an upgrade to a WebSocket is let in.
 *
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef GATEWAY_FRONT_ADMISSION_H
#define GATEWAY_FRONT_ADMISSION_H

#include "gateway/front/ws.h"

/* LWS_CALLBACK_HTTP_CONFIRM_UPGRADE.  1: refused, and answered. */
int admission_decide(struct front *f, struct lws *wsi);
/* The protocol at that path; NULL: holdfast.v1, or none. */
const struct ws_kind *admission_kind(const struct front *f, const char *path);

#endif
