/* deflate -- permessage-deflate (RFC 7692): reads offers, compresses and expands single messages.
 *
 * Shape:    no connection has a window here: one compressor for each window size in use and one
 *           expander serve them all.  The client keeps nothing from one of its messages to the next
 *           (client_no_context_takeover, RFC 7692 section 7.1.1.2).  We do, unless it asked us not
 *           to: the window of an inflater ends with the message before, so a message is compressed
 *           with the end of that one as a preset dictionary.  A connection only keeps that
 *           message's number; the texts of the newest lie in a ring that all share, and a text that
 *           has left it is no dictionary any more.  Readers of one stream, who have got the same
 *           message before, share one compressed frame.  Short texts go without zlib
 *           (fixed_block.h).
 * Thread:   any; one at a time.
 * Owns:     zlib's states, at most 270 KB for each size of window and 40 KB, the last frame, and
 *           the ring, up to 2 MiB.
 * Errors:   without memory for a compressor long messages go uncompressed, without an expander it
 *           returns an error; both are tried again with the next message.
 */
#ifndef GATEWAY_FRONT_DEFLATE_H
#define GATEWAY_FRONT_DEFLATE_H

#include "proto/buf.h"

#define DEFLATE_NAME "permessage-deflate"

struct deflate;

struct deflate *deflate_open(void);
void deflate_close(struct deflate *d); /* NULL is allowed */

/* The parameters that client and server have agreed on. */
struct deflate_terms {
    uint8_t bits;    /* the server's window, 9..15; 0: no compression */
    bool takes_over; /* the client keeps the server's window from message to message */
};

/* Whether the nth permessage-deflate (from 0) in the value of Sec-WebSocket-Extensions can be
 * served: its parameters are those of RFC 7692 section 7.1, each once, and its window is one of
 * zlib's.  An offer without parameters yields to the next, if there is one. */
bool deflate_offer(struct str offers, unsigned nth, struct deflate_terms *ret) MUST_USE;

/* The frame of a text message, with its header, valid until the next call; STR_NULL when the
 * message would not shrink.  last: the number of the connection's last compressed message, 0 before
 * the first; the frame must be sent when it is returned. */
struct str deflate_frame(struct deflate *d, struct deflate_terms terms, uint64_t *last,
                         struct str text);

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
