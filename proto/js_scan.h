/* js_scan -- the inner loops that the JSON reader and writer share.  For proto/, and for
 * terminal_text.c, which scans bytes in the same way.
 *
 * Thread:   any; pure functions.
 */
#ifndef PROTO_JS_SCAN_H
#define PROTO_JS_SCAN_H

#include "proto/utf8.h"

/* How many bytes at p need no escape in a JSON string: everything before the first quote,
 * backslash, control character or broken byte. */
size_t clean_run(const char *p, size_t n);

/* Reads one character from a string's raw text that js_parse has accepted: an escape, or UTF-8.
 * Unpaired surrogates and broken bytes give U+FFFD.  Returns the position after it. */
const char *js_char(const char *p, const char *end, uint32_t *ret);

#endif
