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
    uint32_t thinking, content, finish_reason; /* strings that are not empty; of the first choice */
    uint32_t tool_calls;                       /* an array */
    uint32_t usage;                            /* an object */
};

/* doc's root is an object. */
void openai_read_chunk(const struct js_doc *doc, struct openai_chunk *ret);
/* Why an answer that ended for this reason is none; NULL: it is one. */
const char *openai_fault_of(const char *finish_reason);

#endif
