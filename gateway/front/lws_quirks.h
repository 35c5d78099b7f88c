/* lws_quirks -- ways round what libwebsockets 4.1.6 does: one function each, to be looked through at an upgrade.
 *
 * Shape:    some of them stand in for exported functions of libwebsockets.  The dynamic linker gives the
 *           program's own definition to everybody, libwebsockets' calls of itself included; what it asks or
 *           says there goes through here.
 * Thread:   loop.
 * Owns:     nothing; what has to be remembered of a connection stands in its struct peer (address.h).
 */
#ifndef GATEWAY_FRONT_LWS_QUIRKS_H
#define GATEWAY_FRONT_LWS_QUIRKS_H

#include <libwebsockets.h>
#include <stdbool.h>

/* A longer value of Sec-WebSocket-Extensions would end the connection: it is not seen. */
#define EXTENSION_OFFERS_MOST 250

/* A request was taken, or refused, or the connection is a WebSocket: no head is awaited.  Else the end of a
 * connection because of what it said is told as a head that cannot be read. */
void lws_quirk_head_is_read(struct lws *wsi);
/* LWS_CALLBACK_HTTP_DROP_PROTOCOL: its answer is over. */
void lws_quirk_awaits_a_head(struct lws *wsi);
/* LWS_CALLBACK_HTTP, with its path: whether a NUL was encoded in it behind a slash, where libwebsockets takes it. */
bool lws_quirk_path_has_nul(struct lws *wsi, const char *path, size_t len);

/* Whether libwebsockets has something of its own to send first: a pong, the rest of a message.  Then it calls
 * LWS_CALLBACK_SERVER_WRITEABLE by itself, behind it. */
bool lws_quirk_goes_first(struct lws *wsi);
/* That callback came; or the connection has just become a WebSocket. */
void lws_quirk_has_gone(struct lws *wsi);

#endif
