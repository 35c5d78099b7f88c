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

/* A socket that listens: bound, or one that a service manager hands over (activation.h). -1: the
 * log says why. */
int listener_bind(const struct config *c, bool *ret_is_activated);
/* The same for the front, unless it has one already (f->listen_fd); accepts nothing yet. */
bool listener_open(struct front *f);
void listener_start(struct front *f);
/* Takes a fresh socket, or closes it; named: by its PROXY header, or NULL. */
void listener_take(struct front *f, int fd, const struct net_address *named);
/* The same of a client that another node has accepted: one end of a pair of sockets. */
void listener_take_linked(struct front *f, int fd, const struct net_address *named,
                          bool is_operator);
/* A manager's socket: connections wait for the next gateway from now on. */
void listener_hold(struct front *f);

#endif
