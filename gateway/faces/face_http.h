/* face_http -- carries the exchanges of other protocols: from an HTTP request to our own, and back.
 *
 * Shape:    an exchange_kind of the front. It hands the request to the face
 *           (proto/faces/exchange.h), asks the hub what the face asks, and writes the messages of
 *           the face's stream as `data:` lines.
 * Thread:   loop.
 * Owns:     the face's exchange and its stream, as long as the HTTP exchange lives.
 */
#ifndef GATEWAY_FACES_FACE_HTTP_H
#define GATEWAY_FACES_FACE_HTTP_H

#include "gateway/front/http_api.h"
#include "proto/faces/exchange.h"

/* Appends what no other request has: a new session's id is made of it. */
void face_put_nonce(struct buf *out, const struct hub *h);

/* The kind of a route whose of_kind is a struct face_http_ops. */
extern const struct exchange_kind face_http_kind;

#endif
