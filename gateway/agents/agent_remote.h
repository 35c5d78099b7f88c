/* agent_remote -- an agent at a URL that speaks a protocol of its own: a form of remote.h, over
 * HTTP.
 *
 * Shape:    agent_remote_ops is an adapter for core/agent.h; its settings are remote_settings.
 *           A run is one request after the other, as the form wants them; a reply is an event
 *           stream or JSON, told apart by its content.
 * Thread:   loop.
 * Owns:     the run, until its timer has closed: a turn of the loop after free.  settings stay the
 *           caller's and must outlive the runs.
 * Sessions: where the server keeps the conversation, its id is kept (program_session.h), unless the
 *           turn has a context of its own.
 * End:      what the protocol calls the end: the connection is closed, and nothing behind it is
 *           read.
 * Cut:      where the protocol can give the rest, it is asked for after the pause of a retry; after
 *           `retries` in a row that said nothing more, the run fails.
 * Restart:  remote_again.h.
 * Errors:   those of fetch.h and remote.h.
 * Cancel:   closes the connection, and tells the server where the protocol can; the run ends with
 *           its reply, or with kill.
 */
#ifndef GATEWAY_AGENTS_AGENT_REMOTE_H
#define GATEWAY_AGENTS_AGENT_REMOTE_H

#include "core/agent.h"
#include "gateway/fetch/fetch.h"
#include "proto/forms/remote.h"

struct remote_settings {
    uv_loop_t *loop;
    struct fetcher *fetcher;
    struct fetch_options options; /* of a request that begins something */
    struct fetch_options again;   /* of one that may be repeated */
    bool goes_on;                 /* its tasks go on over a restart */
    const char *url;
    const char *const *headers; /* as in openai_settings */
    enum remote_kind kind;
    const char *model;
    const char *agent; /* its name */
    const char *data;  /* the data directory */
};

extern const struct agent_ops agent_remote_ops;

#endif
