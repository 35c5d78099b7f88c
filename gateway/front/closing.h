/* closing -- the end of a WebSocket: its close frames, ours and the peer's (RFC 6455 sections
 * 5.5.1, 7).
 *
 * Shape:    whichever side closes, the gateway accepts and sends nothing after the close frame, and
 *           the peer has 5 s for its part.
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef GATEWAY_FRONT_CLOSING_H
#define GATEWAY_FRONT_CLOSING_H

#include "gateway/front/ws.h"

#define CLOSE_WAIT_S 5

/* From here on the connection only waits for its end, and for the peer to take pending bytes. */
void closing_begin(struct conn *c);
/* Sends the close frame with the session's close_code after everything that was written. */
void closing_say(struct conn *c);
/* The peer's close frame arrived: 1 ends the connection.  This answers a broken frame with 1002 and
 * a reason that is not UTF-8 with 1007; libwebsockets answers all others. */
int closing_answer(struct conn *c, const unsigned char *payload, size_t len);
/* LWS_CALLBACK_WS_SERVER_DROP_PROTOCOL: libwebsockets is about to close. */
int closing_dropped(struct conn *c);
/* The end of the turn. */
void closing_turn(struct front *f);

#endif
