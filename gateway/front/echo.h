/* echo -- says back what it is told, for conformance suites.
 *
 * Shape:    only with HOLDFAST_ECHO (tests/holdfast_echo).  A WebSocket at /v1/echo is a connection
 *           like any other and its messages go the same way, but to a queue instead of the
 *           session; their limit is 64 MiB.
 * Thread:   loop.
 * Owns:     the messages that are still to be sent.
 */
#ifndef GATEWAY_FRONT_ECHO_H
#define GATEWAY_FRONT_ECHO_H

#include "gateway/front/ws.h"

#ifdef HOLDFAST_ECHO
bool echo_is_asked(struct lws *wsi);             /* by its path */
void echo_open(struct conn *c, struct lws *wsi); /* one of those needs no hello */
void echo_close(struct conn *c);
size_t echo_limit(const struct conn *c, size_t limit); /* of a message's bytes */
/* False: it is no echo's, or there is nothing. */
bool echo_takes(struct conn *c, struct str message);
bool echo_fill(struct conn *c, struct buf *out, enum lws_write_protocol *ret_as);
bool echo_has_output(const struct conn *c);
#else
#define echo_is_asked(wsi) false
#define echo_open(c, wsi) ((void)(c), (void)(wsi))
#define echo_close(c) ((void)(c))
#define echo_limit(c, limit) (limit)
#define echo_takes(c, message) false
#define echo_fill(c, out, ret_as) false
#define echo_has_output(c) false
#endif

#endif
