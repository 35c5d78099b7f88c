/* openai_calls -- the tool calls of a turn, joined from their pieces.
 *
 * Shape:    a piece belongs to the call with its index; without an index, to the one with its id;
 *           without either, to the one at its place in a list of several, or to the last.  Servers
 *           that give every call the same index, or the same id, are recognized by the names, and
 *           by arguments that are whole objects in a row; those that repeat all of the arguments in
 *           each piece, by what does not parse.  Other members of a call are kept unchanged
 *           (openai_more.h).
 * Thread:   any; one at a time.
 * Owns:     its buffers; openai_calls_done frees them.
 */
#ifndef GATEWAY_MODELS_OPENAI_CALLS_H
#define GATEWAY_MODELS_OPENAI_CALLS_H

#include "gateway/models/model.h"
#include "proto/js.h"

#define OPENAI_CALLS 128                             /* of one turn */
#define OPENAI_CALLS_BYTES ((size_t)4 * 1024 * 1024) /* of their ids, names and arguments */

struct openai_call;

struct openai_calls {
    struct openai_call *list;
    size_t n, bytes;
    struct buf id, name, arguments; /* of the current piece */
    struct buf more, function_more; /* of the call that was got last */
    struct js_doc doc;
};

/* A chunk's tool_calls.  Not NULL: why the turn fails. */
const char *openai_calls_take(struct openai_calls *c, const struct js_doc *doc, uint32_t pieces)
    MUST_USE;
/* After the last chunk: a text of several objects becomes as many calls. */
void openai_calls_part(struct openai_calls *c);
/* Call i of n, valid until the next call; false: it is empty, and does not count. */
bool openai_calls_get(struct openai_calls *c, size_t i, struct model_call *ret) MUST_USE;
void openai_calls_done(struct openai_calls *c);

#endif
