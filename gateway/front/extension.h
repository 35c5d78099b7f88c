/* extension -- permessage-deflate as libwebsockets is told of it: agreed in the handshake, and no
 * more.
 *
 * Shape:    libwebsockets' own extension is not used: what a client sends can make it end the
 *           process (4.1.6, extension-permessage-deflate.c:351).  This one touches no payload:
 *           libwebsockets only lets RSV1 through because of it, and ws compresses and expands whole
 *           messages (deflate.h).
 * Thread:   loop.
 * Owns:     nothing; what was agreed stands in the socket's struct peer.
 */
#ifndef GATEWAY_FRONT_EXTENSION_H
#define GATEWAY_FRONT_EXTENSION_H

#include <libwebsockets.h>
#include <stdbool.h>

extern const struct lws_extension extension_list[]; /* for the vhost */

/* LWS_CALLBACK_CONFIRM_EXTENSION_OKAY, once for each permessage-deflate in the offers until one is
 * taken: 0 takes it. */
int extension_confirm(struct lws *wsi);
/* LWS_CALLBACK_ADD_HEADERS: puts the parameters behind the name, which libwebsockets has just
 * written. */
int extension_answer(struct lws *wsi, struct lws_process_html_args *args);
/* Of the server's window when messages may be compressed here, else 0. */
unsigned extension_bits(struct lws *wsi);
/* Whether the frame that is being read has RSV1: the message is compressed, which the first of its
 * frames says, and no other (RFC 7692 6). */
bool extension_marks(struct lws *wsi);

#endif
