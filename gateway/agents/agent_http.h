/* agent_http -- an agent behind a URL: the run is posted, what it says is the reply.
 *
 * Shape:    agent_http_ops is an adapter behind core/agent.h; its settings are http_settings.  The
 *           request's body is the first line of PROTOCOL.md section 8.  The reply is an event
 *           stream (text/event-stream) or lines of JSON (any other type); each event or line is one
 *           that an agent prints, or a chunk of OpenAI's chat completions, or [DONE].
 * One way:  nothing can be said to it, so it has no inbox, and neither calls nor questions.
 * Thread:   loop.
 * Owns:     the run, until its handle has closed: a turn of the loop after free.
 * End:      [DONE] is the end: nothing after it is read, whatever becomes of the connection.
 *           finish_reason is, OPENAI_GRACE_MS later.  final_answer may be followed by more; a cut
 *           or the agent's idle time-out after it ends the run well.
 * Errors:   what fetch.h says, and: a reply that ends before its end.  A reply without a length or
 *           chunks has ended when it said final_answer, finish_reason or [DONE].  Chunks that hold
 *           no answer.
 * Cancel:   cancel and kill close the request and end the run in the next turn of the loop.
 */
#ifndef GATEWAY_AGENTS_AGENT_HTTP_H
#define GATEWAY_AGENTS_AGENT_HTTP_H

#include "core/agent.h"
#include "gateway/fetch/fetch.h"

struct http_settings {
    uv_loop_t *loop;
    struct fetcher *fetcher;
    struct fetch_options options;
    const char *url;
    const char *const *headers; /* as for openai_settings */
};

extern const struct agent_ops agent_http_ops;

#endif
