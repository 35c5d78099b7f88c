/* teller -- event output for agents that make events: texts in pieces, outputs that fit into a
 * line.
 *
 * Thread:   loop.
 * Owns:     its scratch buffer; teller_done frees it.
 */
#ifndef GATEWAY_AGENTS_TELLER_H
#define GATEWAY_AGENTS_TELLER_H

#include "core/agent.h"

struct teller {
    struct run_events events;
    void *task;
    bool paused;     /* the task wants no more for now */
    struct buf data; /* of the event under construction */
};

/* Begin, put members into data, tell. text: for token, thinking and final_answer. */
void teller_begin(struct teller *t);
void teller_tell(struct teller *t, enum event_type event, struct str text);
/* A token or thinking of any length. */
void teller_piece(struct teller *t, enum event_type event, struct str text);
void teller_final_answer(struct teller *t, struct str text);
void teller_result(struct teller *t, struct str object);          /* the structured result */
void teller_say(struct teller *t, const struct agent_line *line); /* any decoded line */
void teller_done(struct teller *t);

#endif
