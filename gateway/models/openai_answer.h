/* openai_answer -- text and thoughts of a turn, from the pieces of its message to struct
 * model_events.
 *
 * Shape:    each piece is sent at once, except white space at the answer's beginning, which waits
 *           for more, and a possible tag of thoughts (think_tags.h).  Members that go back with the
 *           calls are kept: the thoughts under the name under which they came, reasoning_details
 *           and the like.
 * Thread:   loop.
 * Owns:     its buffers; openai_answer_done frees them.
 */
#ifndef GATEWAY_MODELS_OPENAI_ANSWER_H
#define GATEWAY_MODELS_OPENAI_ANSWER_H

#include "gateway/models/model.h"
#include "gateway/models/openai_chunk.h"
#include "gateway/models/openai_more.h"
#include "gateway/models/think_tags.h"

#define OPENAI_THOUGHT_BYTES \
    ((size_t)4 * 1024 * 1024) /* that go back; the rest is sent but not kept */

struct openai_answer {
    const struct model_events *events; /* the turn's */
    void *user;
    bool paused;   /* the user wants no more for now */
    bool has_text; /* more than white space */
    bool has_thoughts;
    struct buf blanks;            /* held back */
    struct openai_half halves[2]; /* by enum model_piece */
    struct think_tags tags;
    struct buf text, run; /* scratch: a decoded piece; the text outside of tags, or between them */
    struct buf thoughts;
    const char *thoughts_name; /* static; NULL: they have no name */
    struct openai_more more;
};

void openai_answer_init(struct openai_answer *a, const struct model_events *events, void *user,
                        const char *think_tag);
/* The thoughts and the content of a chunk. */
void openai_answer_take(struct openai_answer *a, const struct js_doc *doc,
                        const struct openai_chunk *c);
/* A string of another protocol's event. */
void openai_answer_piece(struct openai_answer *a, const struct js_doc *doc, uint32_t node,
                         enum model_piece kind);
void openai_answer_thought(struct openai_answer *a, struct str text);
/* After the last piece: sends what was held back.  A second call does nothing. */
void openai_answer_end(struct openai_answer *a);
/* Calls on_more when something goes back with the calls. */
void openai_answer_tell_more(const struct openai_answer *a);
void openai_answer_done(struct openai_answer *a);

#endif
