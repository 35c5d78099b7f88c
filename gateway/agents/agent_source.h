/* agent_source -- an agent for benchmarks and tests: produces tokens as fast as they are taken.
 *
 * Shape:    agent_source_ops is an adapter for core/agent.h; its settings are source_settings.  The
 *           run's input describes the output, as JSON or as words:
 *             {"events":1000,"bytes":120,"burst":16,"interval_ms":0}
 *             events=1000 bytes=120 burst=16 interval_ms=0
 *           These are the defaults.  In each turn of the loop, or every interval_ms, burst events
 *           of bytes characters each, then the end: the gateway joins the tokens.
 * Thread:   loop.
 * Owns:     the run, until its handle has closed: a turn of the loop after free.
 * Errors:   start: an unknown word, a number out of range.
 * End:      cancel and kill end it in the next turn of the loop, paused or not.
 */
#ifndef GATEWAY_AGENTS_AGENT_SOURCE_H
#define GATEWAY_AGENTS_AGENT_SOURCE_H

#include <uv.h>

#include "core/agent.h"

#define SOURCE_MAX_BYTES (512 * 1024)        /* of one event's text */
#define SOURCE_MAX_BURST 65536               /* events of one turn of the loop */
#define SOURCE_MAX_INTERVAL_MS (3600 * 1000) /* an hour */

struct source_settings {
    uv_loop_t *loop;
};

extern const struct agent_ops agent_source_ops;

#endif
