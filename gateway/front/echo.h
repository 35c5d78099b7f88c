/* echo -- says back what it is told, on the gateway's own virtual host: for conformance suites.
 *
 * Shape:    in builds with CONFORMANCE_ECHO alone.  A WebSocket at /v1/echo is this one's from its
 *           upgrade on: same library, host, options and closing as /v1/ws, but no limit of bytes.
 * Thread:   loop.
 * Owns:     one struct per connection, from its upgrade to its end.
 */
#ifndef GATEWAY_FRONT_ECHO_H
#define GATEWAY_FRONT_ECHO_H

#include <libwebsockets.h>

#include "proto/base.h"

#ifdef HOLDFAST_ECHO
/* Whether the event is that of an echo's connection: then ret_result is what its callback returns. */
bool echo_takes(struct lws *wsi, enum lws_callback_reasons why, void *in, size_t len,
                int *ret_result);
#else
#define echo_takes(wsi, why, in, len, ret_result) ((void)(ret_result), false)
#endif

#endif
