/* incoming -- assembles messages from the pieces that libwebsockets delivers on a WebSocket.
 *
 * Shape:    one message at a time, under limits.message_bytes (32 KiB before welcome), which counts
 *           all fragments together and, when the message is compressed, its expanded size (RFC
 *           7692).
 * Thread:   loop.
 * Owns:     the connection's struct incoming, which exists between two pieces.
 * Errors:   close the connection: 1009 beyond the limit, 1007 for bytes that are not text (as soon
 *           as that is clear) or cannot be expanded, 1002 for a forbidden frame; without a code
 *           when there is no memory to expand it.
 */
#ifndef GATEWAY_FRONT_INCOMING_H
#define GATEWAY_FRONT_INCOMING_H

#include "gateway/front/ws.h"

/* The pieces of an incomplete message. */
struct incoming {
    struct buf bytes;
    size_t n_checked; /* of them are UTF-8 */
};

/* Takes a piece on an open connection.  The session gets the message with its last piece. */
void incoming_take(struct conn *c, const char *piece, size_t len);
void incoming_done(struct conn *c); /* drops what is there */

#endif
