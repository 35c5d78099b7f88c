/* fetch_private -- what fetcher.c (libcurl on the loop) and fetch.c (one request) share.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_FETCH_FETCH_PRIVATE_H
#define GATEWAY_FETCH_FETCH_PRIVATE_H

#include <curl/curl.h>

#include "core/clock.h"
#include "core/list.h"
#include "gateway/fetch/fetch.h"

struct fetcher {
    uv_loop_t *loop;
    CURLM *multi;        /* NULL until needed, and again after FETCH_LINGER_MS without work */
    uv_timer_t timer;    /* for the earliest timer of clock */
    struct clock clock;  /* driven by uv_now; its wall time is not used */
    struct timer expiry; /* libcurl's */
    struct timer look;   /* fetches are ready */
    struct timer linger;
    struct list ready; /* of struct fetch: fetch_advance has something to do */
    size_t n_fetches;
    bool inside; /* in libcurl: fetches wait in ready until it has returned */
};

/* First and last in each entry point. */
void fetcher_enter(struct fetcher *f);
void fetcher_leave(struct fetcher *f);
bool fetcher_add(struct fetcher *f, CURL *easy);
void fetcher_remove(struct fetcher *f, CURL *easy);
void fetcher_rest(struct fetcher *f);                         /* a fetch was freed */
void fetcher_ready(struct fetcher *f, struct list *in_ready); /* fetch_advance comes soon */

/* fetch.c: libcurl is through with it; and the work outside of libcurl. */
void fetch_over(CURL *easy, CURLcode result);
void fetch_advance(struct list *in_ready);

#endif
