/* said -- the text that a task has said so far: its last final_answer, else its tokens, joined.
 *
 * Shape:    told of each token and answer as it comes, or given the task's lines in order, where
 *           the running total was lost (a restart).  A zeroed struct has heard nothing.
 * Units:    at most MAX_OUTPUT bytes of either, cut behind a whole character.
 * Thread:   any; one at a time.
 * Owns:     its buffers; said_done frees them.
 */
#ifndef PROTO_SAID_H
#define PROTO_SAID_H

#include "proto/event.h"

struct said {
    struct buf tokens; /* joined */
    struct buf final;  /* the last final_answer */
    bool has_final;
    bool tokens_cut;
};

void said_token(struct said *s, struct str text);
void said_final(struct said *s, struct str text);
void said_line(struct said *s, const struct event_parts *line);
/* final when there is one, else the tokens; STR_NULL when nothing was said. */
struct str said_output(const struct said *s);
void said_done(struct said *s);

#endif
