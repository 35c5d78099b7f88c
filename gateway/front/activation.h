/* activation -- the listening socket that a service manager hands over: sd_listen_fds(3).
 *
 * Shape:    the manager binds the port and keeps the socket; each gateway gets a descriptor of it.
 *           Between two gateways connections wait in its backlog, and none is refused.
 * Thread:   any, once.
 * Owns:     the descriptor is the caller's.
 */
#ifndef GATEWAY_FRONT_ACTIVATION_H
#define GATEWAY_FRONT_ACTIVATION_H

#define ACTIVATION_NONE (-1)
#define ACTIVATION_FAULT (-2)
#define ACTIVATION_ERROR 160

/* The socket, non-blocking and close-on-exec.  ACTIVATION_NONE: nothing was handed to this process.
 * ACTIVATION_FAULT with a sentence: no TCP socket that listens, or not exactly one. */
int activation_take(char ret_error[ACTIVATION_ERROR]);

#endif
