/* model_rules -- the built-in model's answers: from a conversation to an answer, by a few rules.
 *
 * Shape:    one pure function.  Rules are tried in order; the first that fits the user's last
 *           message answers, others only add (a slower pace, thinking aloud).  Tool results that no
 *           answer has followed yet come first.
 * Thread:   any.
 * Owns:     the plan owns its texts; rules_plan_done frees them.
 * Errors:   false: the messages are not a JSON array.
 */
#ifndef GATEWAY_MODELS_MODEL_RULES_H
#define GATEWAY_MODELS_MODEL_RULES_H

#include "gateway/models/model.h"
#include "proto/buf.h"

#define RULES_MAX_WORDS 100000 /* that a user may request */

struct rules_call {
    const char *name;
    struct buf arguments;
};

struct rules_plan {
    struct buf thinking, answer; /* in this order */
    struct rules_call calls[2];  /* after the answer */
    size_t n_calls;
    unsigned first_call; /* number of the first: ids are "call_<number>" */
    const char *error;   /* after all else; NULL for none */
    bool slow;
};

bool rules_answer(const struct model_request *request, struct rules_plan *ret) MUST_USE;
void rules_plan_done(struct rules_plan *plan);

#endif
