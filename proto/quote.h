/* quote -- a piece of a peer's text made fit to stand in an error message.  Internal to proto/.
 *
 * Thread:   any.
 */
#ifndef PROTO_QUOTE_H
#define PROTO_QUOTE_H

#include "proto/base.h"

#define QUOTE_SIZE 48

/* Reads a JSON string's raw text (that js_parse has checked) up to end or its closing quote, and
 * writes its first 40 bytes or so, as valid UTF-8 with a NUL: what is cut off shows as "...",
 * controls, quotes and broken bytes as '?'. */
void quote_raw(const char *p, const char *end, char ret_text[QUOTE_SIZE]);
/* The same of any bytes, escapes not understood. */
void quote_text(struct str text, char ret_text[QUOTE_SIZE]);

#endif
