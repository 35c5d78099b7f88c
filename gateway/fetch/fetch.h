/* fetch -- HTTP requests of the gateway's own: to models, to HTTP agents, for the tool http_get.
 *
 * Shape:    a fetcher is libcurl's multi interface on the loop; a fetch is one request, tried again
 *           where that does no harm, and its reply as it comes: on_head, on_bytes …, on_done.
 *           Replies of any status but 2xx are faults, told in a sentence with what the peer said.
 * Thread:   loop.  Callbacks come from the fetcher's own turns, never from inside a call into this
 *           file, and never from inside libcurl: any fetch may be started and freed in them, but
 *           not that fetch itself freed.
 * Owns:     a fetch belongs to whoever started it, until fetch_free, which closes its connection at
 *           once; options stay the caller's and must outlive it, a request is copied.
 * Retries:  a refused or lost connection, 429 and 5xx (not 501), as long as nothing was handed out
 *           (with once: a refused connection, 429 and 503); after 0.5 s, doubled each time, at most
 *           8 s, with jitter; not before Retry-After, and not at all when that is more than a
 *           minute.  A reply that came well and says nothing is its reader's to judge
 *           (fetch_again).
 * Safety:   descriptors are close-on-exec.  Certificates are checked.  Redirects are followed only
 *           where redirects says so.  A guarded fetch sends nothing to an address that is not
 *           public (net_is_public), whatever name, redirect or connection of another fetch leads
 *           there, and uses no proxy.  Its fault names no address that the URL does not name; the
 *           log does.
 */
#ifndef GATEWAY_FETCH_FETCH_H
#define GATEWAY_FETCH_FETCH_H

#include <uv.h>

#include "gateway/base/net.h"
#include "proto/buf.h"

#define FETCH_BUFFER (256 * 1024)   /* bytes received and not yet handed out: then it is not read */
#define FETCH_COMPLAINT (16 * 1024) /* bytes of an error's reply that are looked at */
#define FETCH_LINGER_MS 5000        /* connections are kept so long after the last fetch */

struct fetcher;
struct fetch;

/* What an operator decides for one peer. */
struct fetch_options {
    const char *ca_file; /* NULL: the system's certificates */
    const char *proxy;   /* NULL: as the environment says; "" for none */
    msec_t connect_ms;   /* name, connection, TLS; 0: libcurl's 300 s */
    msec_t idle_ms;      /* longest silence; 0: never */
    msec_t total_ms;     /* 0: never */
    unsigned retries;    /* beside the first try */
    bool once; /* what may have done something is not tried again: a lost connection, 500, 502 … */
    unsigned redirects;
    bool guarded;
    const struct net *allow; /* guarded: addresses that are not public and may be reached */
    size_t n_allow;
};

struct fetch_request {
    const char *url;            /* http or https */
    const char *const *headers; /* "Name: value", a NULL behind the last; NULL for none */
    struct str body;            /* posted; p NULL: GET */
};

struct fetch_head {
    int status;
    bool framed;             /* its end can be seen: it has a length, or chunks */
    struct str content_type; /* "" when there is none */
};

struct fetch_events {
    /* With the first bytes, or right before on_done.  Once at most. */
    void (*on_head)(void *user, const struct fetch_head *head);
    /* False: no more for now, until fetch_unpause; what is here already may still come. */
    bool (*on_bytes)(void *user, struct str bytes);
    /* Once, last, unless fetch_free comes first.  STR_NULL: the reply came whole. */
    void (*on_done)(void *user, struct str error);
};

struct fetcher *fetcher_open(uv_loop_t *loop);
/* After the last fetch was freed; its memory goes when its handle has closed, a turn later. */
void fetcher_close(struct fetcher *fetcher); /* NULL is fine */

struct fetch *fetch_start(struct fetcher *fetcher, const struct fetch_options *options,
                          const struct fetch_request *request, const struct fetch_events *events,
                          void *user);
int fetch_status(const struct fetch *fetch); /* of the last reply; 0: none has come */
void fetch_unpause(struct fetch *fetch);
/* The reply has said all that matters: when it does not end by itself within so many milliseconds
 * of now, its connection is closed, and on_done comes as if it had.  Again: counts anew.  Paused:
 * waits. */
void fetch_end_within(struct fetch *fetch, msec_t ms);
/* Of a reply that is worth nothing, in on_done: the same request is sent again after a retry's
 * pause, and its reply comes as the first one did.  False: no retry is left. */
bool fetch_again(struct fetch *fetch) MUST_USE;
void fetch_free(struct fetch *fetch); /* NULL is fine */

/* How long to wait before the try that follows so many; -1: not at all.  retry_after_s: 0 for none;
 * random: any number. */
msec_t fetch_retry_ms(unsigned tries, int64_t retry_after_s, uint32_t random);

#endif
