/* react_again -- what a run of the ReAct loop must know again after a restart of the gateway.
 *
 * Shape:    a run notes each turn of the model that calls tools, or that a message follows, and
 *           each message that becomes the user's next; everything else stands in the task's events.
 *           From both, told in their order, comes the talk behind the task's input, byte for byte,
 *           and the calls of the last turn, each as far as it had come.
 * Form:     a note is a line of JSON, a newline, and the message as it stands in the talk:
 *           {"turn":{"usage":[P,C,K],"faults":["…",null],"place":"…"}} or {"message":{}}; or,
 *           without a message, {"place":"…"}: calls of the turn that begin from here on begin
 *           there (tool.place).
 * Settled:  a note settles the text before it, and so does every event but thinking and token.
 * Thread:   loop.
 * Owns:     struct recall, until react_again_free.
 * Errors:   NULL for a note that is no such thing, or that does not fit the events before it.
 */
#ifndef GATEWAY_AGENTS_REACT_AGAIN_H
#define GATEWAY_AGENTS_REACT_AGAIN_H

#include "core/agent.h"
#include "core/budget.h"
#include "gateway/agents/react_calls.h"

struct recall {
    char *place;              /* of the turn's calls; NULL: none was noted */
    struct talk talk;         /* of the turns that are over */
    struct react_calls calls; /* of the last turn; none of its tools are known */
    struct js_doc doc;
    unsigned n_turns; /* since the user's last message */
    unsigned n_fallbacks;
    bool has_called, has_usage;
    struct model_usage usage;
    struct budget_past budget;
};

/* Tell the notes; usage NULL: not counted. */
void react_again_note_turn(const struct teller *t, const struct react_calls *calls,
                           const struct model_usage *usage, struct str message);
void react_again_note_message(const struct teller *t, struct str message);

/* As agent_ops.recall. */
struct recall *react_again_recall(struct recall *recall, const struct recalled *item,
                                  bool *ret_settled);
/* The calls become those of a run, whose tools, teller and caller are set: those that wait for an
 * answer are open; react_calls_begin takes up the others. */
void react_again_move(struct recall *recall, struct react_calls *to);
/* The use of a budget, whose limits are set. */
void react_again_move_budget(const struct recall *recall, struct budget *to, msec_t now_ms);
void react_again_free(struct recall *recall);

#endif
