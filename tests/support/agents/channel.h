/* channel -- the scripted agent's stdin and stdout, and the SIGTERM that comes in between.
 *
 * Shape:    lines in, bytes out, waiting.  A handler of SIGTERM runs where the agent waits, or
 *           before it writes: never in the middle of a write.
 * Thread:   one.
 * Errors:   a stdout that nobody reads any more ends the process with 1.
 */
#ifndef TESTS_SUPPORT_AGENTS_CHANNEL_H
#define TESTS_SUPPORT_AGENTS_CHANNEL_H

#include "proto/buf.h"

void channel_say(struct str bytes);
/* The next line, without its '\n', into line; false at the end of stdin. */
bool channel_hear(struct buf *line);
void channel_sleep(double ms);
double channel_now(void); /* ms */
/* From now on SIGTERM calls handler(arg), and the agent goes on as it was. */
void channel_on_term(void (*handler)(uint32_t arg), uint32_t arg);
/* In a child that was forked: SIGTERM is as it was before channel_on_term. */
void channel_forked(void);

#endif
