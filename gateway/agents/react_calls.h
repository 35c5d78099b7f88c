/* react_calls -- the tool calls of one turn of a model: made side by side, answered in order.
 *
 * Shape:    add the model's calls; begin them one by one; each is closed by its tool, or by a line
 *           passed to react_calls_deliver; when none is open, the results go into the talk.  A call
 *           with a mistake is closed with a sentence for the model.
 * Effects:  begin when the call is committed (react_call.h).
 * Ids:      a call has the model's id or, when that is missing or taken in this turn, a new one.
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
struct secrets;

struct react_calls {
    struct teller *teller;
    const struct tool *const *tools;
    size_t n_tools;
    const struct secrets *secrets; /* taken out of outputs; NULL: none */
    bool has_spans;                /* each call has one, below the caller's trace */
    struct tool_caller caller;     /* its spans are the run's */
    void (*on_closed)(void *user); /* a call was closed, but not by react_calls_begin */
    void *user;

    struct react_call **list;
    size_t n, at, n_open;                   /* at: the next to begin */
    unsigned n_questions, n_ids, n_numbers; /* of the whole run */
    unsigned n_tickets, n_committed;        /* commits that calls wait for, in order */
    struct agent_line_decoder decoder;
    struct js_doc doc;
};

void react_calls_add(struct react_calls *c, const struct model_call *asked);
/* The next call: sends its event, and carries it out or opens it; after a restart of the gateway
 * takes it up where it is. */
void react_calls_begin(struct react_calls *c);
/* A line of PROTOCOL.md section 8 that may answer an open call, parsed in c->doc.  Returns whether
 * it did (then the caller has no further use for it). */
bool react_calls_deliver(struct react_calls *c);
/* Whether all are begun and closed. */
static inline bool react_calls_are_through(const struct react_calls *c)
{
    return c->at == c->n && c->n_open == 0;
}
/* Whether the next one was never begun, by an earlier gateway neither. */
bool react_calls_next_is_new(const struct react_calls *c);
void react_calls_put(const struct react_calls *c,
                     struct buf *out); /* "tool_calls" of the message */
void react_calls_put_results(struct react_calls *c, struct talk *talk);
/* A commit that a call waited for is done (agent_ops.proceed). */
void react_calls_proceed(struct react_calls *c);
/* Whether one is under way that cannot be made again. */
bool react_calls_are_bound(const struct react_calls *c);
/* The gateway stops: jobs are left for the next one, or stopped. */
void react_calls_leave(struct react_calls *c);
const struct tool *react_calls_find_tool(const struct react_calls *c, const char *name);
void react_calls_clear(struct react_calls *c); /* for the next turn */
void react_calls_done(struct react_calls *c);

#endif
