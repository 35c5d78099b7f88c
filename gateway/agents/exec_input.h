/* exec_input -- the stdin of a program: what waits for it, and how far the program's pipe took it.
 *
 * Shape:    of a program that ends with the gateway it is a queue in memory; of one that is kept, a
 *           spool (spool.h), where lines are known by their numbers.
 * Message:  one that waits in memory may never be read, so input_message accepts it when the pipe
 *           has all of it.  Until then it is refused, and recognized when it is tried again.  A
 *           numbered line is accepted when it lies in the spool; input_told says what the pipe has.
 * Thread:   loop.
 * Owns:     the descriptor of stdin; the one of the spool is the owner's.
 */
#ifndef GATEWAY_AGENTS_EXEC_INPUT_H
#define GATEWAY_AGENTS_EXEC_INPUT_H

#include "gateway/agents/exec_watch.h"
#include "gateway/processes/spool.h"

struct exec_input {
    struct watched in;
    uv_poll_cb on_ready; /* the pipe may have room: call input_flush */
    size_t max;          /* bytes that wait */
    bool ends;           /* once all of it is in the pipe, its end follows */
    bool has_begun;      /* what it begins with was put */
    struct spool_in spool;
    bool is_kept;

    struct buf queue;
    size_t queue_at;      /* the first byte that was not written */
    struct buf message;   /* not known to be written whole; "" for none */
    size_t message_after; /* bytes of the queue up to its end */
};

/* False when nobody will read it: it is closed then. */
bool input_flush(struct exec_input *i);
/* Puts what it begins with: no limit.  False: there is no room for it in the spool. */
bool input_begin(struct exec_input *i, struct str bytes);
/* A line without its end; said: enum hold_said, 0 for what belongs to nothing. */
bool input_put(struct exec_input *i, struct str line, size_t max, uint64_t said);
bool input_message(struct exec_input *i, struct str line);
/* Whether a message that was refused is in the pipe now. */
bool input_has_message(const struct exec_input *i);
/* A numbered line, of a kept program.  One that it has is taken. */
bool input_put_at(struct exec_input *i, uint64_t number, struct str line);
/* The number of the newest line that the pipe has taken whole; 0: none. */
uint64_t input_told(const struct exec_input *i);
void input_done(struct exec_input *i);

#endif
