/* said -- the text of a task so far: its last final_answer, or its joined tokens if there is none.
 *
 * Shape:    receives each token and answer as it comes, or the task's lines in order when the
 *           running total was lost (a restart).  A task.resumed withdraws what its keep does not
 *           count.  A zeroed struct is a valid empty one.
 * Units:    at most MAX_OUTPUT bytes of each, cut after a whole character; characters are code
 *           points.
 * Thread:   any; one at a time.
 * Owns:     its buffers; said_done frees them.
 */
#ifndef PROTO_SAID_H
#define PROTO_SAID_H

#include "proto/event.h"

/* How much a task's lines have said, besides what was withdrawn. */
struct said_sum {
    uint64_t text, thinking; /* characters of tokens, and of thoughts */
    uint64_t bytes;          /* of both */
};

struct said {
    struct buf tokens; /* joined */
    struct buf final;  /* the last final_answer */
    bool has_final;
    bool tokens_cut;
    struct said_sum sum; /* of the lines that said_line has received */
};

void said_token(struct said *s, struct str text);
void said_final(struct said *s, struct str text);
void said_line(struct said *s, const struct event_parts *line);
/* Cuts the tokens after that many characters, and sets the sum. */
void said_keep(struct said *s, const struct said_sum *keep);
/* final if there is one, otherwise the tokens; STR_NULL when there is no text. */
struct str said_output(const struct said *s);
/* The same as the caller's own, for str_free: afterwards there is none here. */
struct str said_take_output(struct said *s);
/* The tokens are the final answer: afterwards there are none. */
void said_answer_tokens(struct said *s);
void said_done(struct said *s);

#endif
