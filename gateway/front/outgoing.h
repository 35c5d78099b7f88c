/* outgoing -- what a connection has to say becomes messages: one a write, or two frames at once.
 *
 * Thread:   loop.
 * Owns:     nothing; the bytes lie in front.out until they are written.
 * Errors:   a write that fails cuts the connection off.
 */
#ifndef GATEWAY_FRONT_OUTGOING_H
#define GATEWAY_FRONT_OUTGOING_H

#include "gateway/front/ws.h"

bool outgoing_is_due(const struct conn *c);
/* Fills and writes what is due, if anything is.  Only while nothing that was written is pending. */
void outgoing_write(struct conn *c);

#endif
