/* react_run -- one run of the ReAct loop, as its two parts share it: agent_react.c has the steps
 * and the port, react_model.c takes the model's output.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_AGENTS_REACT_RUN_H
#define GATEWAY_AGENTS_REACT_RUN_H

#include "core/budget.h"
#include "gateway/agents/agent_react.h"
#include "gateway/agents/react_again.h"
#include "gateway/agents/react_calls.h"
#include "gateway/agents/react_files.h"
#include "gateway/agents/react_tools.h"
#include "gateway/base/stepper.h"

#define RUN_MAGIC 0x72656163u

enum react_state {
    REACT_WAITING,
    REACT_READY,
    REACT_COMMITTING, /* ready, and waits for a commit */
    REACT_COMMITTED,
    REACT_READING, /* the files that the model is to be given */
    REACT_READ,
    REACT_STREAMING,
    REACT_STREAMED,
    REACT_CALLING,
    REACT_ASKING, /* about its budget: then it goes on with asked_in */
    REACT_ENDED
};

struct run {
    unsigned magic;
    enum react_state state, asked_in;
    const struct react_settings *settings;
    const struct model *model; /* the settings', or the fallback in use */
    struct teller teller;
    struct stepper stepper;
    struct model_turn *turn; /* NULL between turns */
    uint64_t turn_began;     /* the loop's time, in ms */
    uint64_t turn_told;      /* the same, of its first thought, word or call; 0: none yet */
    struct model_usage turn_usage;
    struct trace_copy trace;         /* the task's */
    struct trace_context turn_trace; /* the turn's, below that */
    unsigned n_traced;
    bool has_told;    /* the turn has produced a thought, a word or a call */
    unsigned n_turns; /* since the user's last message */
    bool has_called;  /* a tool, in any turn */
    bool cancelled;
    bool left;      /* the gateway stops: nothing comes any more */
    bool takes;     /* a message, now */
    bool has_taken; /* a message, for the next turn */

    struct talk talk;
    struct buf text; /* the turn's text */
    struct buf more; /* members that go back with its calls: its thoughts */
    struct react_calls calls;
    struct react_files files;
    char *parts; /* of the task's input; NULL: there is no file among them */
    struct react_tools tools;
    bool has_tools;        /* tools are taken */
    struct recall *recall; /* of an earlier gateway's run, until then; NULL: none */
    struct budget budget;
    size_t turn_bytes;
    char *fault; /* why the turn failed; NULL: it did not */
    struct model_usage usage;
    bool has_usage;
    char *owner, *conversation_id, *task_id; /* for its tools */
};

static inline struct run *react_run_of(void *arg)
{
    struct run *r = arg;
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

/* And does the next step soon. */
static inline void react_set_state(struct run *r, enum react_state state)
{
    r->state = state;
    stepper_start(&r->stepper);
}

/* react_model.c */
extern const struct model_events react_model_events;
void react_turn_clear(struct run *r); /* for the next turn of the model */
/* The turn has ended, badly unless fault is STR_NULL. */
void react_turn_over(struct run *r, enum model_reason reason, struct str fault);

#endif
