/* remote_again -- a turn of a server (remote.h) that goes on after a restart of the gateway.
 *
 * Shape:    while a turn runs, the caller keeps remote_put_note's text with what was said before
 *           (remote_is_notable).  Afterwards it hands in that note, then all events of the task,
 *           and remote_begin_again makes the request that goes on.
 *           A form with `again` asks the server for the rest of what it does.  By place (LangGraph)
 *           that is what comes after the last event, so all text stays; else (A2A) the server tells
 *           its task from the beginning, and the text is withdrawn.  Any other form posts the turn
 *           anew, or, when its questions were answered, those answers: the text behind them is
 *           withdrawn.  A turn that waits for answers goes on waiting, without a request.
 * Thread:   any; one at a time.
 * Owns:     struct remote_past owns its texts; remote_past_done frees them.
 */
#ifndef PROTO_FORMS_REMOTE_AGAIN_H
#define PROTO_FORMS_REMOTE_AGAIN_H

#include "proto/event.h"
#include "proto/forms/remote.h"

struct remote_past_question {
    unsigned number;
    struct buf answer; /* JSON; "": none came */
};

/* A zeroed one knows nothing. */
struct remote_past {
    struct buf note; /* "": none */
    bool waits;      /* it was taken while answers were awaited: to the note's questions */
    struct remote_past_question questions[REMOTE_QUESTIONS];
    size_t n_questions;
    unsigned open[REMOTE_QUESTIONS]; /* asked, and not answered */
    size_t n_open;
    unsigned asked; /* the last number of a question */
    struct say_calls calls;
    struct js_doc doc;
    struct buf text; /* scratch */
};

/* Whether the turn, as it is, should be noted. */
bool remote_is_notable(const struct remote *r);
void remote_put_note(const struct remote *r, struct buf *out);

/* False: it cannot be read. */
bool remote_past_note(struct remote_past *p, struct str note) MUST_USE;
/* Whether all text before that event stays, and its own. */
bool remote_past_event(struct remote_past *p, enum remote_kind kind,
                       const struct event_parts *event);
/* As remote_begin. */
void remote_begin_again(struct remote *r, enum remote_kind kind, const struct remote_turn *turn,
                        struct remote_past *p);
/* The questions for whose answers the turn does not wait any more: their numbers.  Returns how
 * many. */
size_t remote_past_moot(const struct remote_past *p, unsigned ret[REMOTE_QUESTIONS]);
void remote_past_done(struct remote_past *p);

#endif
