/* closing -- the end of a WebSocket: its close frames, ours and the peer's (RFC 6455 5.5.1, 7).
 *
 * Shape:    whoever closes, nothing is taken or said behind the close frame, and the peer has 5 s for its part.
 * Thread:   loop.
 * Owns:     nothing.
 */
#ifndef GATEWAY_FRONT_CLOSING_H
#define GATEWAY_FRONT_CLOSING_H

#include "gateway/front/ws.h"

#define CLOSE_WAIT_S 5

/* What waits for the end from here on: the peer has so long to take what is pending. */
void closing_begin(struct conn *c);
/* Sends the close frame of the session's close_code, behind all that was written. */
void closing_say(struct conn *c);
/* The peer's close frame: 1 ends the connection.  One that is none is answered with 1002, a reason that is no
 * UTF-8 with 1007; any other libwebsockets answers. */
int closing_answer(struct conn *c, const unsigned char *payload, size_t len);
/* LWS_CALLBACK_WS_SERVER_DROP_PROTOCOL: libwebsockets is about to close. */
int closing_dropped(struct conn *c);
/* The end of the turn. */
void closing_turn(struct front *f);

#endif
