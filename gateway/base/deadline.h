/* deadline -- when libwebsockets gives a connection up.
 *
 * Shape:    lws_set_timeout alone holds only inside libwebsockets' callbacks: from a timer, or at
 *           the end of a turn, nothing tells its event loop, which goes on sleeping until some
 *           socket has something.
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef GATEWAY_BASE_DEADLINE_H
#define GATEWAY_BASE_DEADLINE_H

#include <libwebsockets.h>

void deadline_set(struct lws *wsi, int seconds);
void deadline_now(struct lws *wsi); /* in the next turn, and without a close frame */

#endif
