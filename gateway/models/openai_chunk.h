/* openai_chunk -- the contents of a chunk of OpenAI's chat completions, or of a whole reply.
 *
 * Thread:   any.
 * Owns:     nothing: members are nodes of the document, 0 for absent or empty ones.
 */
#ifndef GATEWAY_MODELS_OPENAI_CHUNK_H
#define GATEWAY_MODELS_OPENAI_CHUNK_H

#include "proto/js.h"
#include "proto/sse_reader.h"

#define OPENAI_GRACE_MS 1000 /* after finish_reason, for the usage and [DONE] */

struct openai_chunk {
    bool has_choices; /* the array, maybe an empty one */
    bool has_choice;
    bool is_message;   /* it has the whole message, which repeats its pieces if there were any */
    uint32_t error;    /* null, false, "" and {} do not count */
    uint32_t error_in; /* its parent, for complaint_put_node: the root or the choice */
    uint32_t thinking, content; /* of the first choice, for openai_put_piece */
    const char *thinking_name;  /* "reasoning_content"; NULL: thinking has no separate text */
    uint32_t delta;             /* or the whole message */
    uint32_t finish_reason;     /* a string that is not empty */
    uint32_t tool_calls;        /* an array */
    uint32_t usage;             /* an object */
};

/* The line after the last chunk, with any spaces around it. */
bool openai_is_done(struct str line);
/* An event that only keeps the connection alive: named like that, or null. (Comments are not
 * events.) */
bool openai_is_idle(const struct sse_event *event);
/* doc's root is an object. */
void openai_read_chunk(const struct js_doc *doc, struct openai_chunk *ret);
/* The first half of a character that is written as two escapes, when a piece ends between them. */
struct openai_half {
    char escape[8]; /* "" for none */
};
/* Appends the text of a piece: a string, or an array of parts such as {"type":"text","text":"…"}
 * and {"type":"thinking","thinking":[{"type":"text","text":"…"}]}, from which it takes those of its
 * kind. half belongs to the pieces of this kind: its contents come with the next of them. */
void openai_put_piece(const struct js_doc *doc, uint32_t node, bool thinking,
                      struct openai_half *half, struct buf *out);
/* Only white space: not an answer. */
bool openai_is_blank(struct str text);
/* After the last piece. */
void openai_put_half(struct openai_half *half, struct buf *out);
/* Appends why an answer that ended for this reason is none; false: it is one. */
bool openai_put_fault(const char *finish_reason, struct buf *out);

#endif
