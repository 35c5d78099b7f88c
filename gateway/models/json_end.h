/* json_end -- where a JSON object or array ends, in text that comes in pieces.
 *
 * Shape:    a zeroed struct stands before the first bracket.  Each piece is looked at once, so that
 *           a text of n bytes costs n whatever its pieces are.  Only brackets and strings are
 *           looked at: whether the text between them is JSON is js_parse's to say.
 * Thread:   any; one at a time.
 */
#ifndef GATEWAY_MODELS_JSON_END_H
#define GATEWAY_MODELS_JSON_END_H

#include "proto/base.h"

struct json_end {
    size_t depth; /* of open brackets */
    bool in_string, escaped;
};

/* Bytes of the piece up to the bracket that closes the first one, itself included; then e stands
 * before the next one.  0: that one is not in this piece. */
size_t json_end_find(struct json_end *e, struct str piece);

#endif
