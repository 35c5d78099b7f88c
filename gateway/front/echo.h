/* echo -- returns each message, for conformance suites.
 *
 * Shape:    a ws_kind at /v1/echo, only with HOLDFAST_ECHO (tests/holdfast_echo): a connection like
 *           any other, whose messages go to a queue instead of a session; their limit is 64 MiB.
 * Thread:   loop.
 * Owns:     the messages that were not sent yet.
 */
#ifndef GATEWAY_FRONT_ECHO_H
#define GATEWAY_FRONT_ECHO_H

#include "gateway/front/ws.h"

#ifdef HOLDFAST_ECHO
extern const struct ws_kind echo_kind;
#endif

#endif
