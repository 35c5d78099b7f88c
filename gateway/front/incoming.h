/* incoming -- what comes on a WebSocket: the pieces that libwebsockets hands over, put together to
 * messages.
 *
 * Shape:    one message at a time, under limits.message_bytes (32 KiB before welcome), which counts
 *           all fragments together and, when the message is compressed, what it expands to (RFC
 *           7692).
 * Thread:   loop.
 * Owns:     the connection's buffer between two pieces.
 * Errors:   close the connection: 1009 beyond the limit, 1007 what is no text (as soon as that is
 *           clear) or cannot be expanded, 1002 a frame that may not be; without a code when there
 *           is no memory to expand it.
 */
#ifndef GATEWAY_FRONT_INCOMING_H
#define GATEWAY_FRONT_INCOMING_H

#include "gateway/front/ws.h"

/* The connection is open.  The session gets the message when this is its last piece. */
void incoming_take(struct conn *c, const char *piece, size_t len);

#endif
