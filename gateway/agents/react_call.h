/* react_call -- one tool call of a turn, as the parts of react_calls share it.
 *
 * Shape:
 *          told             begin         the tool, or an answer of the core
 *     NEW ────▶ TOLD ────▶ OPEN ──────────────────────────────────────────▶ CLOSED
 *
 *           react_calls.c makes calls, react_answers.c closes those that core answers, and
 *           react_again.c makes them again after a restart of the gateway.
 * Effects:  a call with an effect begins when its tool_call is committed, and the answer to its
 *           approval: it is OPEN and waits until then.
 * Thread:   loop.
 * Owns:     its strings and its job.
 */
#ifndef GATEWAY_AGENTS_REACT_CALL_H
#define GATEWAY_AGENTS_REACT_CALL_H

#include "core/approval.h"
#include "gateway/agents/react_calls.h"

enum call_state {
    CALL_NEW,
    CALL_TOLD, /* its tool_call is in the stream; at rest only after a restart */
    CALL_OPEN,
    CALL_CLOSED
};

struct react_call {
    struct react_calls *calls;
    enum call_state state;
    unsigned number; /* in the run, from 1: names it over restarts */
    char *id, *name;
    char *arguments;            /* compact JSON object */
    char *more, *function_more; /* members that go back unchanged; "" for none */
    char *fault;                /* why it cannot be made; NULL: it can */
    const struct tool *tool;
    struct tool_job *job;
    char *
        awaits; /* the input_id, or the child's task_id, whose answer closes it; NULL: its own id */
    bool asking;       /* awaits the user's approval, then starts */
    bool job_asks;     /* awaits the user's answer to a question of its job */
    bool is_moot;      /* recalled: its job asked, and is gone */
    bool is_elsewhere; /* recalled: it may have begun where its tool cannot look (tool.place) */
    char *answer;      /* {"answer":…}, recalled, to the question that it awaits; NULL: none */
    unsigned ticket;   /* of the commit that it begins after; 0: of none */
    struct buf output; /* the result for the model */
    struct buf images; /* of it, each a part behind a comma */
};

/* Closes it, and says so to the task. */
void react_call_close(struct react_call *call, bool good, struct str output);
/* Begins its job, or when that is committed for which it waits: false with a sentence in output. */
bool react_call_start(struct react_call *call, struct buf *output);
/* Lets core carry it out; false with a sentence in output when the arguments are wrong. */
bool react_call_say(struct react_call *call, struct buf *output);
/* An answer to its approval or its question: a node of a document, 0 for none. */
void react_call_take_input(struct react_call *call, const struct js_doc *doc, uint32_t answer);
/* Whether such an answer approves. */
enum approved react_call_approved(const struct js_doc *doc, uint32_t answer);
/* Its child was started. */
void react_call_take_child(struct react_call *call, struct str task_id);
/* It was told by an earlier gateway: what became of it is found out, or it begins again. */
void react_call_take_up(struct react_call *call);
void react_call_free(struct react_call *call);

#endif
