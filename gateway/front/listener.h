/* listener -- the port: accepts sockets and hands them to libwebsockets.
 *
 * Shape:    a poll of our own, because libwebsockets cannot share a port or accept a batch; when
 *           sockets or descriptors run out it is ignored for a moment, or the loop would spin.
 * Thread:   loop.
 * Owns:     nothing: the front owns the descriptor, the poll and the timer.
 * Errors:   if the port cannot be opened, the log says why.
 */
#ifndef GATEWAY_FRONT_LISTENER_H
#define GATEWAY_FRONT_LISTENER_H

#include "gateway/front/front.h"

bool listener_open(struct front *f); /* binds; accepts nothing yet */
void listener_start(struct front *f);

#endif
