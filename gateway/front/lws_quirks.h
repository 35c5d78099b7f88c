/* lws_quirks -- workarounds for libwebsockets 4.1.6, a function each: an upgrade reviews this file.
 *
 * Shape:    some workarounds define a function that libwebsockets exports.  The dynamic linker then
 *           uses the program's definition everywhere, for libwebsockets' own calls too.
 * Thread:   loop.
 * Owns:     nothing; the connection's struct peer keeps what must be remembered (address.h).
 */
#ifndef GATEWAY_FRONT_LWS_QUIRKS_H
#define GATEWAY_FRONT_LWS_QUIRKS_H

#include <libwebsockets.h>
#include <stdbool.h>

/* libwebsockets drops a connection whose Sec-WebSocket-Extensions is longer; it must not see it. */
#define EXTENSION_OFFERS_MOST 250

/* The head of a request was taken or refused.  Before that, an end that the peer's bytes cause
 * means that the head cannot be read, and the peer is told. */
void lws_quirk_head_is_read(struct lws *wsi);
/* LWS_CALLBACK_HTTP_DROP_PROTOCOL: the answer is over, and the next head may come. */
void lws_quirk_awaits_a_head(struct lws *wsi);
/* Whether the path of LWS_CALLBACK_HTTP held an encoded NUL after a slash: libwebsockets accepts
 * that. */
bool lws_quirk_path_has_nul(struct lws *wsi, const char *path, size_t len);

/* Whether libwebsockets has something to send first: a pong, or the rest of a message.  It calls
 * LWS_CALLBACK_SERVER_WRITEABLE by itself when that is sent. */
bool lws_quirk_goes_first(struct lws *wsi);
/* That callback came, or the connection has just become a WebSocket. */
void lws_quirk_has_gone(struct lws *wsi);

#endif
