/* react_calls -- the tool calls of one turn of a model: made side by side, answered in order.
 *
 * Shape:    add what the model asks for; begin them one by one; each is closed by its tool, or by
 *           what react_calls_deliver is handed; when none is open, the results go into the talk.
 *           What the model got wrong is closed with a sentence that it can read.
 * Ids:      a call's id is the model's, or, when that is missing or taken in this turn, one of
 *           ours.
 * Thread:   loop.
 * Owns:     the calls and their jobs, until react_calls_clear, which no callback of a tool may
 *           call.
 */
#ifndef GATEWAY_AGENTS_REACT_CALLS_H
#define GATEWAY_AGENTS_REACT_CALLS_H

#include "core/tool.h"
#include "gateway/agents/talk.h"
#include "gateway/agents/teller.h"
#include "gateway/models/model.h"

struct react_call;

struct react_calls {
    struct teller *teller;
    const struct tool *const *tools;
    size_t n_tools;
    struct tool_caller caller;     /* its spans are the run's */
    void (*on_closed)(void *user); /* a call, from outside of react_calls_begin */
    void *user;

    struct react_call **list;
    size_t n, at, n_open;        /* at: the next to begin */
    unsigned n_questions, n_ids; /* of the run */
    struct agent_line_decoder decoder;
    struct js_doc doc;
};

void react_calls_add(struct react_calls *c, const struct model_call *asked);
/* The call that is next: tells it, and carries it out or opens it. */
void react_calls_begin(struct react_calls *c);
/* A line of PROTOCOL.md section 8 that may answer an open call, parsed in c->doc: whether it did so
 * (the caller has no further use for it). */
bool react_calls_deliver(struct react_calls *c);
/* All are begun and closed. */
static inline bool react_calls_are_through(const struct react_calls *c)
{
    return c->at == c->n && c->n_open == 0;
}
void react_calls_put(const struct react_calls *c,
                     struct buf *out); /* "tool_calls" of the message */
void react_calls_put_results(struct react_calls *c, struct talk *talk);
void react_calls_clear(struct react_calls *c); /* for the next turn */
void react_calls_done(struct react_calls *c);

#endif
