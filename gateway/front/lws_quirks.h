/* lws_quirks -- workarounds for libwebsockets 4.1.6, a function each: an upgrade reviews this file.
 *
 * Shape:    some workarounds define a function that libwebsockets exports.  The dynamic linker then
 *           uses the program's definition everywhere, for libwebsockets' own calls too.  Other
 *           files work around it too: extension.h (its compression is not used), deadline.h
 *           (time-outs set outside its callbacks), listener.h (it cannot share a port), http_api.c
 *           (a body that has ended, a peer that does not wait for its answer), and
 *           ws.c:has_said_something (bytes that it does not report).
 * Thread:   loop.
 * Owns:     nothing; the connection's struct peer keeps what must be remembered (address.h).
 */
#ifndef GATEWAY_FRONT_LWS_QUIRKS_H
#define GATEWAY_FRONT_LWS_QUIRKS_H

#include <libwebsockets.h>
#include <stdbool.h>

#include "proto/errors.h"

struct front;

/* libwebsockets drops a connection whose Sec-WebSocket-Extensions is longer; it must not see it. */
#define EXTENSION_OFFERS_MOST 250

/* The head of a request was accepted or refused.  Before that, if the peer's bytes end the
 * connection, the head cannot be read, and the peer is told. */
void lws_quirk_head_is_read(struct lws *wsi);
/* LWS_CALLBACK_HTTP_DROP_PROTOCOL: the answer is over, and the next head may come. */
void lws_quirk_awaits_a_head(struct lws *wsi);
/* Whether the path of LWS_CALLBACK_HTTP contained an encoded NUL after a slash: libwebsockets
 * accepts that. */
bool lws_quirk_path_has_nul(struct lws *wsi, const char *path, size_t len);

/* Whether the request line includes its version. libwebsockets takes an encoded newline in the path
 * for the line's end, and the rest for a header, which the author of the link has chosen. */
bool lws_quirk_line_is_whole(struct lws *wsi);
/* Whether the path is everything that was sent. libwebsockets ends it at a bare "&" or ";", so a
 * DELETE …/c;x/tasks/t would delete c.  Sets names_task when the rest continues to one. */
bool lws_quirk_path_is_whole(struct lws *wsi, enum lws_token_indexes method, bool *names_task);
/* NULL when the wanted subprotocol is offered, or none is; else its refusal. served has all of
 * ours, with their refusals. libwebsockets takes whichever of these comes first, so an offer of
 * another one is refused, too. It hangs up silently on a list, or on a name before the served one,
 * that is too long for it; those are refused here. */
const char *lws_quirk_refuses(struct lws *wsi, const char *wanted, const char *const served[][2],
                              size_t n);

/* Whether libwebsockets has something to send first: a pong, or the rest of a message.  It calls
 * LWS_CALLBACK_SERVER_WRITEABLE by itself when that is sent. */
bool lws_quirk_goes_first(struct lws *wsi);
/* That callback came, or the connection has just become a WebSocket. */
void lws_quirk_has_gone(struct lws *wsi);

/* For the head of an answer: libwebsockets writes 1.0 when it has not read the whole request. */
void lws_quirk_set_version(unsigned char *head);
/* A close frame. libwebsockets sends none when asked outside its callbacks; after a partial write
 * it allows only a raw one. */
void lws_quirk_write_close(struct lws *wsi, enum close_code code, const char *why);

/* The size of its buffer for TLS: a whole record.  While a connection is held (lws_rx_flow_control)
 * and OpenSSL has the rest of a record that was partly read, libwebsockets spins for ever, and the
 * loop with it. */
#define LWS_QUIRK_TLS_BUFFER 16384
/* Its timers on open connections are a sorted list, which slows the accept path: set none. */
extern const lws_retry_bo_t lws_quirk_no_timers;
/* Destroys the context: once, then runs the loop until every wsi is gone, then again.  Twice at
 * once crashes, once alone leaks. */
void lws_quirk_destroy(struct front *f);

#endif
