/* utf8 -- text as characters: decoded, encoded, cut and counted.
 *
 * Shape:    broken bytes are found by the Unicode standard's rule (the maximal subpart), as in
 *           browsers.
 * Units:    a character is a code point; everything else is bytes.
 * Thread:   any; pure functions.
 */
#ifndef PROTO_UTF8_H
#define PROTO_UTF8_H

#include "proto/base.h"

#define UTF8_REPLACEMENT 0xFFFDu
#define UTF8_BROKEN UINT32_MAX

/* Reads one character of n >= 1 bytes and returns how many it took.  Broken bytes give UTF8_BROKEN
 * and the length of the maximal subpart, which one U+FFFD replaces. */
size_t utf8_step(const char *p, size_t n, uint32_t *ret);
/* Writes 1 to 4 bytes and returns their number. */
size_t utf8_encode(uint32_t c, char to[4]);

/* The length of the longest prefix of at most max bytes that ends on a character border. */
size_t utf8_cut(struct str text, size_t max);
/* The length of text up to its last whole character, without an incomplete one at the end. */
size_t utf8_whole(struct str text);
/* The first n characters of text, in bytes. */
size_t utf8_chars(struct str text, size_t n);
/* The last n characters of valid text. */
struct str utf8_tail(struct str text, size_t n);
bool utf8_valid(struct str text);
/* The bytes at text's end, 0 to 3, that begin a character which more bytes may complete. */
size_t utf8_begun(struct str text);

#endif
