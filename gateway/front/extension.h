/* extension -- permessage-deflate in libwebsockets' terms: agreed in the handshake, nothing more.
 *
 * Shape:    libwebsockets' own extension is not used: a client can make it abort the process
 *           (4.1.6, extension-permessage-deflate.c:351).  This one touches no payload: because of
 *           it libwebsockets lets RSV1 through, and ws compresses and expands whole messages
 *           (deflate.h).
 * Thread:   loop.
 * Owns:     nothing; the socket's struct peer holds the agreed parameters.
 */
#ifndef GATEWAY_FRONT_EXTENSION_H
#define GATEWAY_FRONT_EXTENSION_H

#include <libwebsockets.h>
#include <stdbool.h>

#include "gateway/front/deflate.h"

extern const struct lws_extension extension_list[]; /* for the vhost */

/* LWS_CALLBACK_CONFIRM_EXTENSION_OKAY, once for each permessage-deflate in the offers until one is
 * accepted: 0 accepts it. */
int extension_confirm(struct lws *wsi);
/* LWS_CALLBACK_ADD_HEADERS: appends the parameters to the name, which libwebsockets has just
 * written. */
int extension_answer(struct lws *wsi, struct lws_process_html_args *args);
struct deflate_terms extension_terms(struct lws *wsi);
/* Whether the current incoming frame has RSV1: the message is compressed, and only its first frame
 * says so (RFC 7692 section 6). */
bool extension_marks(struct lws *wsi);

#endif
