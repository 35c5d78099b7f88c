/* deadline -- when libwebsockets gives a connection up.
 *
 * Shape:    lws_set_timeout alone works only inside libwebsockets' callbacks.  From a timer, or at
 *           the end of a turn, nothing informs its event loop, which sleeps on until some socket
 *           has data.
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef GATEWAY_BASE_DEADLINE_H
#define GATEWAY_BASE_DEADLINE_H

#include <libwebsockets.h>

void deadline_set(struct lws *wsi, int seconds);
void deadline_now(struct lws *wsi); /* in the next turn, without a close frame */

#endif
