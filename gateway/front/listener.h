/* listener -- the port: sockets are accepted here, and handed to libwebsockets.
 *
 * Shape:    a poll of our own, since libwebsockets cannot share a port or take a batch; when
 *           sockets or descriptors are out it is left alone for a moment, else it would spin.
 * Thread:   loop.
 * Owns:     nothing: the front owns the descriptor, the poll and the timer.
 * Errors:   what keeps the port from being opened is logged.
 */
#ifndef GATEWAY_FRONT_LISTENER_H
#define GATEWAY_FRONT_LISTENER_H

#include "gateway/front/front.h"

bool listener_open(struct front *f); /* binds; accepts nothing yet */
void listener_start(struct front *f);

#endif
