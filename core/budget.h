/* budget -- how much a run may use before its user is asked whether it is to go on.
 *
 * Shape:    three limits, any of which may be 0 for none: tokens, as far as the run tells them;
 *           tool calls; seconds.  Pure counting: the asker (core/task_budget.c, or an agent that
 *           asks before it begins what would exceed it) says the question and waits.  A yes grants
 *           the whole budget once more; anything else ends the run.
 * Wire:     PROTOCOL.md section 5, kind budget.
 * Thread:   loop.
 */
#ifndef CORE_BUDGET_H
#define CORE_BUDGET_H

#include "proto/event.h"

#define BUDGET_ID 32 /* bytes of a question's id */

struct budget_limits {
    int64_t tokens, tool_calls, seconds; /* 0: none */
};

struct budget {
    struct budget_limits limits;
    int64_t tokens, tool_calls; /* since the last grant */
    msec_t began_ms;
    unsigned n_asked;
};

/* The agent's limits, of which the task's metadata replaces those that it names. */
void budget_init(struct budget *b, const struct budget_limits *agent, struct str metadata,
                 msec_t now_ms);
bool budget_is_none(const struct budget *b);
/* Calls are counted before a call alone: what comes without one may be the answer. */
bool budget_is_spent(const struct budget *b, msec_t now_ms, bool before_call);
void budget_grant(struct budget *b, msec_t now_ms);
/* Appends "4 of 4 tool calls", the limits that are met. */
void budget_put(const struct budget *b, msec_t now_ms, struct buf *out);

/* Its n_asked-th question: the id, and the data of the input_required. */
void budget_put_id(const struct budget *b, char ret[BUDGET_ID]);
void budget_put_question(const struct budget *b, msec_t now_ms, struct buf *out);
/* Whether data, parsed, has the id of that question; ret_yes: its answer grants more. */
bool budget_is_answer(const struct budget *b, const struct js_doc *data, bool *ret_yes);

/* --- a run that goes on over a restart -------------------------------------------------------- */

struct budget_past {
    struct budget used;  /* its tokens: those before the last grant */
    int64_t calls_asked; /* calls when it asked */
    int64_t since;       /* Unix ms: the last grant, or the start */
    bool asks, refused;  /* its question is open; it was answered, and not by yes */
};

/* The run's next event, in doc its parsed data, and the tokens that were used until then. */
void budget_recall(struct budget_past *p, const struct event_parts *event, const struct js_doc *doc,
                   int64_t tokens);
/* Moves that into b, whose limits are set. */
void budget_resume(struct budget *b, const struct budget_past *p, int64_t tokens, int64_t wall_ms,
                   msec_t now_ms);

#endif
