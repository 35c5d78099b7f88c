/* fetch -- the gateway's own HTTP requests: to models, to HTTP agents, for the tool http_get.
 *
 * Shape:    a fetcher is libcurl's multi interface on the loop; a fetch is one request, retried
 *           where that does no harm, and its reply as it arrives: on_head, on_bytes …, on_done.
 *           Replies of any status but 2xx are faults, reported in a sentence with the peer's
 *           message.
 * Thread:   loop.  Callbacks come from the fetcher's own turns, never from inside a call into this
 *           file, and never from inside libcurl.  They may start and free any fetch, except that a
 *           fetch must not be freed in its own.
 * Owns:     a fetch belongs to its starter until fetch_free, which closes its connection at once;
 *           options stay the caller's and must outlive it, a request is copied.
 * Retries:  a refused or lost connection, 429 and 5xx (not 501), as long as nothing was handed out
 *           (with once: a refused connection, 429 and 503); after 0.5 s, doubled each time, at most
 *           8 s, with jitter; not before Retry-After, and not at all when that is more than a
 *           minute.  Whether a successful reply without content is retried is up to its reader
 *           (fetch_again).
 * Safety:   descriptors are close-on-exec.  Certificates are checked.  Redirects are followed only
 *           where redirects says so.  A guarded fetch sends nothing to an address that is not
 *           public (net_is_public), whichever name, redirect or existing connection leads there,
 *           and uses no proxy.  Its fault contains no address unless the URL does; the log has it.
 */
#ifndef GATEWAY_FETCH_FETCH_H
#define GATEWAY_FETCH_FETCH_H

#include <uv.h>

#include "gateway/base/net.h"
#include "proto/buf.h"
#include "proto/trace.h"

#define FETCH_BUFFER (256 * 1024)   /* received, not handed out: then reading stops */
#define FETCH_COMPLAINT (16 * 1024) /* bytes of an error's reply that are examined */
#define FETCH_LINGER_MS 5000        /* how long connections are kept after the last fetch */

struct fetcher;
struct fetch;

/* An operator's settings for one peer. */
struct fetch_options {
    const char *ca_file; /* NULL: the system's certificates */
    const char *proxy;   /* NULL: from the environment; "" for none */
    msec_t connect_ms;   /* name, connection, TLS; 0: libcurl's 300 s */
    msec_t idle_ms;      /* longest silence; 0: never */
    msec_t total_ms;     /* 0: never */
    unsigned retries;    /* after the first try */
    bool once; /* no retry of what may have had an effect: a lost connection, 500, 502 … */
    unsigned redirects;
    bool guarded;
    const struct net *allow; /* guarded: addresses that are not public but allowed */
    size_t n_allow;
};

struct fetch_request {
    const char *url;                   /* http or https */
    const char *const *headers;        /* "Name: value", followed by a NULL; NULL for none */
    struct str body;                   /* posted; p NULL: GET */
    const char *wanted;                /* name of a header of the reply; NULL for none */
    const struct trace_context *trace; /* told in headers; NULL: none */
};

struct fetch_head {
    int status;
    bool framed;             /* its end is visible: it has a length, or chunks */
    struct str content_type; /* "" when there is none */
    struct str wanted;       /* the header that the request wants; "" when there is none */
};

struct fetch_events {
    /* With the first bytes, or right before on_done.  At most once. */
    void (*on_head)(void *user, const struct fetch_head *head);
    /* False: no more for now, until fetch_unpause; bytes that have already arrived may still
     *        come. */
    bool (*on_bytes)(void *user, struct str bytes);
    /* Once, last, unless fetch_free comes first.  STR_NULL: the reply arrived whole. */
    void (*on_done)(void *user, struct str error);
};

struct fetcher *fetcher_open(uv_loop_t *loop);
/* Call it after the last fetch was freed; its memory is freed when its handle has closed, a turn
 * later. */
void fetcher_close(struct fetcher *fetcher); /* NULL is allowed */

struct fetch *fetch_start(struct fetcher *fetcher, const struct fetch_options *options,
                          const struct fetch_request *request, const struct fetch_events *events,
                          void *user);
int fetch_status(const struct fetch *fetch); /* of the last reply; 0: none yet */
/* In on_done, of a reply with another status than 2xx: the first FETCH_COMPLAINT bytes of its
 * body. */
struct str fetch_refusal(const struct fetch *fetch);
void fetch_unpause(struct fetch *fetch);
/* The reply has everything that matters: if it does not end by itself within so many milliseconds
 * from now, its connection is closed, and on_done comes as if it had.  Another call starts the time
 * anew.  While paused, the time does not run. */
void fetch_end_within(struct fetch *fetch, msec_t ms);
/* For a useless reply, in on_done: the same request is sent again after a retry's pause, and its
 * reply arrives like the first one.  False: no retry is left. */
bool fetch_again(struct fetch *fetch) MUST_USE;
void fetch_free(struct fetch *fetch); /* NULL is allowed */

/* How long to wait after that many tries; -1: do not retry.  retry_after_s: 0 for none; random: any
 * number. */
msec_t fetch_retry_ms(unsigned tries, int64_t retry_after_s, uint32_t random);

#endif
