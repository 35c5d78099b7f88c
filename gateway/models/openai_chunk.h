/* openai_chunk -- what stands in a chunk of OpenAI's chat completions, or in a whole one.
 *
 * Thread:   any.
 * Owns:     nothing: members are nodes of the document, 0 for what is not there or says nothing.
 */
#ifndef GATEWAY_MODELS_OPENAI_CHUNK_H
#define GATEWAY_MODELS_OPENAI_CHUNK_H

#include "proto/js.h"
#include "proto/sse_reader.h"

#define OPENAI_GRACE_MS 1000 /* after finish_reason, for the usage and [DONE] */

struct openai_chunk {
    bool has_choices; /* the array, maybe an empty one */
    bool has_choice;
    bool is_message;   /* it says all of the message: behind pieces of it, again */
    uint32_t error;    /* null, false, "" and {} are none */
    uint32_t error_in; /* what it is a member of, for complaint_put_node: the root or the choice */
    uint32_t thinking, content; /* of the first choice, for openai_put_piece */
    const char *thinking_name;  /* "reasoning_content"; NULL: thinking has no text of its own */
    uint32_t delta;             /* or the whole message */
    uint32_t finish_reason;     /* a string that is not empty */
    uint32_t tool_calls;        /* an array */
    uint32_t usage;             /* an object */
};

/* The line behind the last chunk, whatever spaces are around it. */
bool openai_is_done(struct str line);
/* An event that only keeps the connection alive: named so, or null.  (Comments are no events.) */
bool openai_is_idle(const struct sse_event *event);
/* doc's root is an object. */
void openai_read_chunk(const struct js_doc *doc, struct openai_chunk *ret);
/* The first half of a character that is written as two escapes, where a piece ends between them. */
struct openai_half {
    char escape[8]; /* "" for none */
};
/* Appends what a piece says: a string, or an array of parts such as {"type":"text","text":"…"} and
 * {"type":"thinking","thinking":[{"type":"text","text":"…"}]}, of which it is those of its kind.
 * half is that of the pieces of this kind: what it holds comes with the next of them. */
void openai_put_piece(const struct js_doc *doc, uint32_t node, bool thinking,
                      struct openai_half *half, struct buf *out);
/* Nothing but white space: no answer. */
bool openai_is_blank(struct str text);
/* Behind the last piece. */
void openai_put_half(struct openai_half *half, struct buf *out);
/* Appends why an answer that ended for this reason is none; false: it is one. */
bool openai_put_fault(const char *finish_reason, struct buf *out);

#endif
