/* agent_http -- an agent at a URL: the run is posted, the reply is its output.
 *
 * Shape:    agent_http_ops is an adapter for core/agent.h; its settings are http_settings.  The
 *           request's body is the first line of PROTOCOL.md section 8, or, with a model, a
 *           request of OpenAI's chat completions.  The reply is an event stream (text/event-stream)
 *           or lines of JSON (any other type); each event or line is one that an agent may print,
 *           or a chunk of OpenAI's chat completions, or [DONE].
 * One way: it cannot receive anything during its run, so it has no inbox, and neither calls nor
 *           questions.
 * Thread:   loop.
 * Owns:     the run, until its handle has closed: a turn of the loop after free.
 * End:      [DONE] is the end: nothing after it is read, whatever happens to the connection.
 *           finish_reason is, OPENAI_GRACE_MS later.  final_answer may be followed by more; a cut
 *           or the agent's idle time-out after it ends the run successfully.
 * Usage:    what the chunks count is the task's result.  A server that refuses to be asked for it
 *           is asked again without.
 * Errors:   those of fetch.h, and: a reply that breaks off.  A reply without a length or chunks is
 *           complete when it had final_answer, finish_reason or [DONE].  Chunks without an answer.
 * Restart:  a run that goes on is posted again, with Last-Event-ID where its events have ids: what
 *           was said stays when the reply's header Last-Event-ID is the same, and is withdrawn
 *           otherwise.
 * Cancel:   cancel and kill close the request and end the run in the next turn of the loop.
 */
#ifndef GATEWAY_AGENTS_AGENT_HTTP_H
#define GATEWAY_AGENTS_AGENT_HTTP_H

#include "core/agent.h"
#include "gateway/fetch/fetch.h"

struct http_settings {
    uv_loop_t *loop;
    struct fetcher *fetcher;
    struct fetch_options options; /* of the request that begins a run */
    struct fetch_options again;   /* of one after a restart of the gateway */
    bool goes_on;                 /* its tasks go on over one */
    const char *url;
    const char *const *headers; /* as in openai_settings */
    const char *model; /* chat completions are posted, for that model; NULL: the run line is */
};

extern const struct agent_ops agent_http_ops;

#endif
