/* openai_chunk -- what stands in a chunk of OpenAI's chat completions, or in a whole one.
 *
 * Thread:   any.
 * Owns:     nothing: members are nodes of the document, 0 for what is not there or says nothing.
 */
#ifndef GATEWAY_OPENAI_CHUNK_H
#define GATEWAY_OPENAI_CHUNK_H

#include "proto/js.h"

struct openai_chunk {
    bool has_choices; /* the array, maybe an empty one */
    uint32_t error;
    uint32_t thinking, content; /* of the first choice, for openai_put_piece */
    uint32_t finish_reason;     /* a string that is not empty */
    uint32_t tool_calls;        /* an array */
    uint32_t usage;             /* an object */
};

/* The line behind the last chunk, whatever spaces are around it. */
bool openai_is_done(struct str line);
/* doc's root is an object. */
void openai_read_chunk(const struct js_doc *doc, struct openai_chunk *ret);
/* Appends what a piece says: a string, or an array of parts such as {"type":"text","text":"…"} and
 * {"type":"thinking","thinking":[{"type":"text","text":"…"}]}, of which it is those of its kind. */
void openai_put_piece(const struct js_doc *doc, uint32_t node, bool thinking, struct buf *out);
/* Why an answer that ended for this reason is none; NULL: it is one. */
const char *openai_fault_of(const char *finish_reason);

#endif
