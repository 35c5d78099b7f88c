/* responses_output -- the finished items of a response, for its last event (docs/faces.md).
 *
 * Shape:    JSON of items in order; the newest of them, up to a bound. An item of text remembers
 *           where it began, so that a restart's withdrawal can take it out.
 * Units:    places are the numbers of events.
 * Thread:   any.
 * Owns:     its bytes; responses_output_done frees them.
 * Errors:   none: beyond the bound the oldest items go, and is_cut says so.
 */
#ifndef PROTO_FACES_RESPONSES_OUTPUT_H
#define PROTO_FACES_RESPONSES_OUTPUT_H

#include "proto/faces/face.h"

#define RESPONSES_BEGINS 32 /* beyond that, a withdrawal makes the final answer another one */

struct responses_output {
    struct buf items; /* one after the other, each with a comma */
    struct responses_mark {
        uint64_t begun; /* the event with which its text began; 0: it has none */
        size_t len;
    } * marks;
    size_t n;
    bool is_cut;
    struct responses_begin {
        uint64_t seq;
        struct face_said all;   /* the text before it */
    } begins[RESPONSES_BEGINS]; /* of runs, the newest last */
    size_t n_begins;
};

void responses_output_add(struct responses_output *o, struct str item, uint64_t begun);
/* A run of text begins with that event; 0: a restart cannot withdraw it. */
void responses_output_begin(struct responses_output *o, uint64_t seq, const struct face_said *all);
uint64_t responses_output_begun(const struct responses_output *o); /* the newest run */
/* Takes out the items whose text began after that event; all becomes the text before them. */
void responses_output_withdraw(struct responses_output *o, uint64_t after, struct face_said *all);
/* Members of an array; valid until the next item. */
struct str responses_output_text(const struct responses_output *o);
void responses_output_done(struct responses_output *o);

#endif
