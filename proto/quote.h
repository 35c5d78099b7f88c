/* quote -- makes a piece of a peer's text fit for an error message.  Internal to proto/.
 *
 * Thread:   any.
 */
#ifndef PROTO_QUOTE_H
#define PROTO_QUOTE_H

#include "proto/base.h"

#define QUOTE_SIZE 48

/* Reads a JSON string's raw text (checked by js_parse) up to end or its closing quote, and writes
 * about its first 40 bytes as valid UTF-8 with a NUL: "..." marks a cut, '?' stands for controls,
 * quotes and broken bytes. */
void quote_raw(const char *p, const char *end, char ret_text[QUOTE_SIZE]);
/* The same for any bytes; escapes are not understood. */
void quote_text(struct str text, char ret_text[QUOTE_SIZE]);

#endif
