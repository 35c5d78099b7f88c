/* json_end -- finds the end of a JSON object or array in text that comes in pieces.
 *
 * Shape:    a zeroed struct stands before the first bracket.  Each piece is read once, so that a
 *           text of n bytes costs n, whatever its pieces are.  It only looks at brackets and
 *           strings: whether the text between them is JSON is for js_parse to decide.
 * Thread:   any; one at a time.
 */
#ifndef GATEWAY_MODELS_JSON_END_H
#define GATEWAY_MODELS_JSON_END_H

#include "proto/base.h"

struct json_end {
    size_t depth; /* of open brackets */
    bool in_string, escaped;
};

/* Bytes of the piece up to and including the bracket that closes the first one; e then stands
 * before the next one. 0: that bracket is not in this piece. */
size_t json_end_find(struct json_end *e, struct str piece);

#endif
