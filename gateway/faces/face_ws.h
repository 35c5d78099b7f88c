/* face_ws -- carries another protocol on a WebSocket: many requests, each with its own stream.
 *
 * Shape:    a ws_kind of the front. Each request of the peer is a channel: an exchange of the face,
 *           a session at the hub, and the stream that maps its events. Channels send in turn, many
 *           frames in one write.
 * Thread:   loop.
 * Owns:     the channels of a connection, until they end or it closes.
 * Errors:   a request's error is sent in the face's form, and ends that request alone.
 */
#ifndef GATEWAY_FACES_FACE_WS_H
#define GATEWAY_FACES_FACE_WS_H

#include "gateway/front/ws.h"
#include "proto/faces/socket.h"

/* The functions of a kind whose of_kind is a struct face_ws_ops. */
void face_ws_opened(struct conn *c, struct lws *wsi);
void face_ws_receive(struct conn *c, struct str message);
bool face_ws_fill(struct conn *c, struct buf *out, enum ws_form *ret_as);
bool face_ws_has_output(const struct conn *c);
bool face_ws_is_served_here(const struct conn *c);
void face_ws_closed(struct conn *c);

#endif
