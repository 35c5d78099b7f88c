/* deflate -- permessage-deflate (RFC 7692): reads offers, compresses and expands single messages.
 *
 * Shape:    neither side keeps anything from one message to the next (server_no_context_takeover
 *           and client_no_context_takeover, RFC 7692 section 7.1.1: a server may ask for both,
 *           whatever was offered).  So no connection has a window: one compressor for each window
 *           size in use and one expander serve them all, and many readers of one stream share one
 *           compressed frame.
 * Thread:   any; one at a time.
 * Owns:     zlib's states, at most 270 KB for each size of window and 40 KB, and the last frame.
 * Errors:   without memory for a compressor messages go uncompressed, without an expander it
 *           returns an error; both are tried again with the next message.
 */
#ifndef GATEWAY_FRONT_DEFLATE_H
#define GATEWAY_FRONT_DEFLATE_H

#include "proto/buf.h"

#define DEFLATE_NAME "permessage-deflate"

struct deflate;

struct deflate *deflate_open(void);
void deflate_close(struct deflate *d); /* NULL is allowed */

/* Whether the nth permessage-deflate (from 0) in the value of Sec-WebSocket-Extensions can be
 * served: its parameters are those of RFC 7692 section 7.1, each once, and its window is one of
 * zlib's.  An offer without parameters yields to the next, if there is one.  ret_bits: the server's
 * window, 9..15. */
bool deflate_offer(struct str offers, unsigned nth, unsigned *ret_bits) MUST_USE;

/* The frame of a text message, with its header, valid until the next call; STR_NULL when the
 * message would not shrink. */
struct str deflate_frame(struct deflate *d, unsigned bits, struct str text);

enum deflate_result {
    DEFLATE_OK,
    DEFLATE_TOO_BIG, /* more than limit bytes */
    DEFLATE_BROKEN,  /* not a compressed message, or an incomplete one */
    DEFLATE_NO_MEMORY,
};

/* Expands a message's payload, as received, and appends at most limit bytes to ret.  After anything
 * but DEFLATE_OK ret is useless, and has at most limit + 1 more bytes. */
enum deflate_result deflate_expand(struct deflate *d, struct str payload, size_t limit,
                                   struct buf *ret) MUST_USE;
/* The number of blocks in the last expanded message.  A block may be empty and still cost 1 µs, at
 * ten bytes each: no limit on the text bounds them. */
size_t deflate_blocks(const struct deflate *d);
/* zlib's upper bound for a message of n bytes, at any level and in any window, flushed once. */
size_t deflate_most(size_t n);

#endif
