/* js_scan -- the inner loops that reading and writing JSON share.  Internal to js.c, js_write.c,
 * utf8.c, and to who else takes bytes apart into characters.
 *
 * Thread:   any; pure functions.
 */
#ifndef PROTO_JS_SCAN_H
#define PROTO_JS_SCAN_H

#include "proto/base.h"

#define UTF8_REPLACEMENT 0xFFFDu
#define UTF8_BROKEN UINT32_MAX

/* Reads one character of n >= 1 bytes and returns how many it took.  Broken bytes give UTF8_BROKEN
 * and the length of the maximal subpart: so many bytes become one U+FFFD. */
size_t utf8_step(const char *p, size_t n, uint32_t *ret);
/* Writes 1 to 4 bytes and returns how many. */
size_t utf8_encode(uint32_t c, char to[4]);

/* How many bytes at p stand for themselves in a JSON string: everything before the first quote,
 * backslash, control character or broken byte. */
size_t clean_run(const char *p, size_t n);

/* Reads one character of a string's raw text that js_parse has accepted: an escape, or UTF-8.
 * Unpaired surrogates and broken bytes give U+FFFD.  Returns the place behind it. */
const char *js_char(const char *p, const char *end, uint32_t *ret);

#endif
