/* think_tags -- separates thoughts, which a model's server leaves between tags, from the answer.
 *
 * Shape:    text in, in pieces that are cut anywhere, even within a tag; runs of thoughts and of
 *           answer out, one a call.  A tag in quotes, in `code` or in a fenced block is a word of
 *           the answer.  White space between a closing tag and the answer is dropped.
 * Open:     a thought that begins in the middle of an answer and never ends was none:
 *           think_tags_end returns its text to the answer.
 * No open: many templates put the opening tag into the prompt.  A closing tag that comes first
 *           means that everything before it was a thought (THINK_UNSAID), too late for what was
 *           streamed.
 * Thread:   any; one at a time.
 * Owns:     its buffers; think_tags_done frees them.
 */
#ifndef GATEWAY_MODELS_THINK_TAGS_H
#define GATEWAY_MODELS_THINK_TAGS_H

#include "proto/buf.h"
#include "proto/limits.h"

#define THINK_SWALLOWED ((size_t)1024 * 1024) /* bytes of it that are returned at most */

struct think_tags {
    char open[MAX_THINK_TAG + 3], close[MAX_THINK_TAG + 4]; /* open "": no tags */
    bool inside;
    bool saw_tag, answered; /* answered: more than white space appeared outside */
    bool unsaid;            /* THINK_UNSAID is due */
    size_t matched;         /* matched bytes of a possible tag */
    bool closing;           /* which kind it is, from its second byte on */
    bool in_fence, in_code, at_line_start;
    size_t ticks;         /* backquotes in a row */
    char before;          /* the last byte of the answer */
    struct buf swallowed; /* of a thought in the middle of the answer */
};

enum think_run { THINK_MORE, THINK_THOUGHT, THINK_ANSWER, THINK_UNSAID };

/* name: "think" for <think> and </think>, at most MAX_THINK_TAG bytes; "" or NULL for none. */
void think_tags_init(struct think_tags *t, const char *name);
/* Takes text from the front of *in and appends its run to out; THINK_MORE: all of it was taken, and
 * nothing more can be decided yet. */
enum think_run think_tags_next(struct think_tags *t, struct str *in, struct buf *out) MUST_USE;
/* After the last piece: what was held back. */
enum think_run think_tags_end(struct think_tags *t, struct buf *out) MUST_USE;
void think_tags_done(struct think_tags *t);

#endif
