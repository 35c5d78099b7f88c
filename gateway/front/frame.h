/* frame -- WebSocket frames that we write ourselves: compressed ones, and several at once, which
 * libwebsockets cannot.
 *
 * Thread:   any.
 * Standard: RFC 6455 section 5.2.
 */
#ifndef GATEWAY_FRONT_FRAME_H
#define GATEWAY_FRONT_FRAME_H

#include "proto/buf.h"

#define FRAME_HEAD_MOST 10

/* The first byte of a whole message. */
#define FRAME_TEXT 0x81
#define FRAME_TEXT_COMPRESSED 0xc1

/* The header of n bytes, unmasked: from the returned place to the end of ret. */
size_t frame_head(char ret[FRAME_HEAD_MOST], unsigned char first, size_t n);
void frame_put(struct buf *out, struct str text);

/* Bytes that are appended between the two become a text frame; frame_begin returns its place. */
size_t frame_begin(struct buf *out);
void frame_end(struct buf *out, size_t at);

#endif
