/* proxied -- connections of trusted proxies that begin with a PROXY header (proxy_protocol).
 *
 * Shape:    the header is taken from the socket before libwebsockets sees it: bytes after it stay
 *           in the kernel, be it HTTP or TLS.  The address in it is the connection's from then on
 *           (address.h).  A header that is cut off, too long, malformed, or not there within 5 s
 *           ends the connection; a peer that is no trusted proxy is served directly, and refused
 *           when it begins with a header.
 * Thread:   loop.
 * Owns:     the sockets whose header has not arrived.
 */
#ifndef GATEWAY_FRONT_PROXIED_H
#define GATEWAY_FRONT_PROXIED_H

#include "gateway/front/front.h"

/* A fresh socket; false: proxy_protocol is off, and the socket is still the caller's. */
bool proxied_accept(struct front *f, int fd);
/* The address from a header; NULL when there was none. */
const struct net_address *proxied_client(struct lws *wsi);
void proxied_close_all(struct front *f);

#endif
