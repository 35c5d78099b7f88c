/* deflate -- permessage-deflate (RFC 7692): offers read, messages compressed and expanded, one by
 * one.
 *
 * Shape:    neither side keeps anything from one message to the next (server_no_context_takeover
 *           and client_no_context_takeover, RFC 7692 7.1.1: a server may ask for both, whatever was
 *           offered).  So no connection has a window: one compressor for each size of window that
 *           is in use and one expander serve them all, and many readers of one stream share one
 *           compressed frame.
 * Thread:   any; one at a time.
 * Owns:     zlib's states, at most 270 KB for each size of window and 40 KB, and the last frame.
 * Errors:   a compressor for which there is no memory sends plain, an expander says so; both are
 *           asked for again with the next message.
 */
#ifndef GATEWAY_FRONT_DEFLATE_H
#define GATEWAY_FRONT_DEFLATE_H

#include "proto/buf.h"

#define DEFLATE_NAME "permessage-deflate"

struct deflate;

struct deflate *deflate_open(void);
void deflate_close(struct deflate *d); /* NULL is fine */

/* Whether the nth permessage-deflate (from 0) in the value of Sec-WebSocket-Extensions can be
 * served: its parameters are those of RFC 7692 7.1, each once, and its window is one of zlib's.
 * One without parameters leaves it to the next, if there is one.  ret_bits: of the server's window,
 * 9..15. */
bool deflate_offer(struct str offers, unsigned nth, unsigned *ret_bits) MUST_USE;

/* The frame of a text message, its header in front, good until the next call; STR_NULL when the
 * message would not get smaller. */
struct str deflate_frame(struct deflate *d, unsigned bits, struct str text);

enum deflate_result {
    DEFLATE_OK,
    DEFLATE_TOO_BIG, /* more than limit bytes */
    DEFLATE_BROKEN,  /* it is no compressed message, or not a whole one */
    DEFLATE_NO_MEMORY,
};

/* Expands a message's payload, as it came, to at most limit bytes behind what ret has.  What ret
 * has after anything but DEFLATE_OK is of no use, and not more than limit and one. */
enum deflate_result deflate_expand(struct deflate *d, struct str payload, size_t limit,
                                   struct buf *ret) MUST_USE;
/* Of how many blocks the message was that was expanded last.  A block may say nothing and still
 * cost 1 µs, ten bytes each: no limit on the text bounds them. */
size_t deflate_blocks(const struct deflate *d);
/* The most that zlib makes of a message of n bytes, at any level and in any window, flushed once
 * (its bound). */
size_t deflate_most(size_t n);

#endif
