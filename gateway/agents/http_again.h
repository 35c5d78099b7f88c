/* http_again -- how far the reply of an agent of kind http was told, for the next gateway: the id
 * of its last event.
 *
 * Shape:    a zeroed struct is that of a run that begins.  http_again_keep gets the id of each
 *           event; http_again_note tells the task of a new one, in the batch of the events before
 *           it.  After a restart http_again_recall reads it back.
 * Thread:   loop.
 * Owns:     its id; http_again_done frees it.
 */
#ifndef GATEWAY_AGENTS_HTTP_AGAIN_H
#define GATEWAY_AGENTS_HTTP_AGAIN_H

#include "core/agent.h"

struct http_again {
    struct buf last_id; /* of the last event; "": none, or one that no header can have */
    bool is_new;        /* it is not noted yet */
    uint64_t mark;      /* how often one was */
    bool is_resumed;    /* a reply to what a restart has posted again is due … */
    bool goes_on;       /* … and to what comes after that id */
};

/* The notes and events of the task; the note is the last id. */
struct recall {
    struct buf last_id;
    bool is_whole, has_answer; /* there was a final_answer, a token */
};

void http_again_keep(struct http_again *a, struct str id);
void http_again_note(struct http_again *a, const struct run_events *events, void *task);
/* The server begins anew: all that was said is withdrawn. */
void http_again_begin_anew(struct http_again *a, const struct run_events *events, void *task);
void http_again_done(struct http_again *a);

/* struct agent_ops: with an id all that was said stays. */
struct recall *http_again_recall(void *settings, struct recall *recall, const struct recalled *item,
                                 bool *ret_settled);
void http_again_forget(struct recall *recall);

#endif
