/* fixed_block -- a short text as one block of DEFLATE with the fixed codes.
 *
 * Shape:    zlib counts letters and builds trees for each message, which a text of a few lines does
 *           not pay back.  Here whatever stands in the text, or in what is before it, is written as
 *           a reference to its last place there, and everything else as it is, with the codes that
 *           the standard has fixed.  An empty stored block follows, as behind each flush of zlib,
 *           but without its four bytes (RFC 7692 section 7.2.1).
 * Thread:   any.
 * Owns:     nothing.
 * Errors:   none.
 * Standard: RFC 1951, sections 3.2.4 to 3.2.6.
 */
#ifndef GATEWAY_FRONT_FIXED_BLOCK_H
#define GATEWAY_FRONT_FIXED_BLOCK_H

#include "proto/base.h"

#define FIXED_BLOCK_LONGEST 65534 /* bytes, with those before the text */
/* The room that a text of n bytes takes: nine bits for a letter, and the last word in full. */
#define FIXED_BLOCK_ROOM(n) ((n) + (n) / 8 + 16)

/* Writes bytes[before] to bytes[n - 1] to out and returns how many bytes that took.  The reader has
 * the bytes before them; it looks back by window bytes at most. */
size_t fixed_block(const char *bytes, size_t before, size_t n, size_t window, char *out);

#endif
