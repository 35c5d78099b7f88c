/* exec_lines -- what a program has printed and nobody has taken yet: lines, or bytes as they came.
 *
 * Shape:    bytes are put into `held`; exec_lines_next hands them out from the front, and
 *           exec_lines_consume drops what was handed out.
 * Thread:   any; one at a time.
 * Owns:     held; spans that were handed out live until exec_lines_consume.
 */
#ifndef GATEWAY_AGENTS_EXEC_LINES_H
#define GATEWAY_AGENTS_EXEC_LINES_H

#include "proto/buf.h"

struct exec_lines {
    struct buf held;
    size_t at;      /* the first byte that is not handed out */
    size_t scanned; /* no newline in [at, scanned) */
    size_t max;     /* bytes of a line */
    bool bytes;     /* hand out all that is there, whatever it is */
};

enum exec_next { EXEC_NEXT_NONE, EXEC_NEXT_ONE, EXEC_NEXT_TOO_LONG };

/* A line without its end.  EXEC_NEXT_NONE: what is left, maybe nothing, has no newline yet. */
enum exec_next exec_lines_next(struct exec_lines *l, struct str *ret);
/* Hands out the rest, which has no newline. */
struct str exec_lines_rest(struct exec_lines *l);
void exec_lines_consume(struct exec_lines *l, size_t keep_cap);
void exec_lines_done(struct exec_lines *l);

#define EXEC_TAIL 4096 /* bytes */

/* The last of what was printed; zeroed: nothing was. */
struct exec_tail {
    size_t n;
    char bytes[EXEC_TAIL];
};
void exec_tail_put(struct exec_tail *t, const char *bytes, size_t n);
struct str exec_tail_str(const struct exec_tail *t); /* without white space at its end */

#endif
