#include <stdlib.h>

#include "gateway/fetch/fetch_private.h"

/* Design
 *
 * libcurl asks for sockets to be watched (on_wish) and for a time (on_timer_wish); both end in
 * curl_multi_socket_action.  Its callbacks may not call libcurl again, so fetches only take their
 * bytes there and go into ready; serve looks at them when libcurl has returned.
 *
 * All times are struct timers of one clock, under a single libuv timer.  A timer that is due now is
 * armed for the next millisecond; otherwise clock_run would loop for ever. */

struct watch { /* a socket of libcurl's */
    uv_poll_t poll;
    struct fetcher *fetcher;
    curl_socket_t socket;
};

static void arm(struct fetcher *f, struct timer *t, msec_t ms)
{
    timer_arm(&f->clock, t, f->clock.now_ms + (ms > 0 ? ms : 1));
}

static void fetcher_on_timer(uv_timer_t *timer)
{
    struct fetcher *f = timer->data;
    fetcher_enter(f);
    clock_run(&f->clock);
    fetcher_leave(f);
}

void fetcher_enter(struct fetcher *f)
{
    f->clock.now_ms = (msec_t)uv_now(f->loop);
}

void fetcher_leave(struct fetcher *f)
{
    msec_t next = clock_next(&f->clock);
    if (next < 0)
        uv_timer_stop(&f->timer);
    else
        uv_timer_start(&f->timer, fetcher_on_timer, (uint64_t)next, 0);
}

void fetcher_ready(struct fetcher *f, struct list *in_ready)
{
    if (!list_is_in(in_ready))
        list_push(&f->ready, in_ready);
    if (!timer_is_armed(&f->look))
        arm(f, &f->look, 0);
}

/* --- libcurl ---------------------------------------------------------------------------------- */

static void fetcher_serve(struct fetcher *f)
{
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &f->ready);
    while ((node = list_pop(&now)) != NULL)
        fetch_advance(node);
}

static void act(struct fetcher *f, curl_socket_t socket, int what)
{
    int running, left;
    CURLMsg *message;
    if (!f->multi)
        return;
    f->inside = true;
    curl_multi_socket_action(f->multi, socket, what, &running);
    f->inside = false;
    while ((message = curl_multi_info_read(f->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            fetch_over(message->easy_handle, message->data.result);
    fetcher_serve(f);
}

static void on_expiry(struct timer *timer)
{
    act(container_of(timer, struct fetcher, expiry), CURL_SOCKET_TIMEOUT, 0);
}

static void on_look(struct timer *timer)
{
    fetcher_serve(container_of(timer, struct fetcher, look));
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *w = poll->data;
    struct fetcher *f = w->fetcher;
    int what = (status < 0 ? CURL_CSELECT_ERR : 0) | (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
               (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    fetcher_enter(f);
    act(f, w->socket, what);
    fetcher_leave(f);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static int on_wish(CURL *easy, curl_socket_t socket, int what, void *user, void *old)
{
    struct fetcher *f = user;
    struct watch *w = old;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (!w)
            return 0;
        uv_poll_stop(&w->poll);
        uv_close((uv_handle_t *)&w->poll, on_watch_closed);
        curl_multi_assign(f->multi, socket, NULL);
        return 0;
    }
    if (!w) {
        w = xcalloc(sizeof *w);
        *w = (struct watch){.fetcher = f, .socket = socket};
        w->poll.data = w;
        if (uv_poll_init_socket(f->loop, &w->poll, socket) < 0) {
            free(w);
            return -1;
        }
        curl_multi_assign(f->multi, socket, w);
    }
    uv_poll_start(&w->poll,
                  (what & CURL_POLL_IN ? UV_READABLE : 0) |
                      (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
                  on_poll);
    return 0;
}

static int on_timer_wish(CURLM *multi, long ms, void *user)
{
    struct fetcher *f = user;
    (void)multi;
    if (ms < 0)
        timer_disarm(&f->clock, &f->expiry);
    else
        arm(f, &f->expiry, ms);
    return 0;
}

static void open_multi(struct fetcher *f)
{
    f->multi = curl_multi_init();
    ASSERT(f->multi);
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, on_wish);
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, on_timer_wish);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, 64L); /* kept for the next fetch */
}

static void close_multi(struct fetcher *f)
{
    if (f->multi)
        curl_multi_cleanup(f->multi);
    f->multi = NULL;
    timer_disarm(&f->clock, &f->expiry);
}

static void on_linger(struct timer *timer)
{
    close_multi(container_of(timer, struct fetcher, linger));
}

bool fetcher_add(struct fetcher *f, CURL *easy)
{
    ASSERT(!f->inside);
    timer_disarm(&f->clock, &f->linger);
    if (!f->multi)
        open_multi(f);
    return curl_multi_add_handle(f->multi, easy) == CURLM_OK;
}

void fetcher_remove(struct fetcher *f, CURL *easy)
{
    ASSERT(!f->inside);
    curl_multi_remove_handle(f->multi, easy);
    curl_easy_cleanup(easy);
}

void fetcher_rest(struct fetcher *f)
{
    if (--f->n_fetches == 0)
        arm(f, &f->linger, FETCH_LINGER_MS);
}

/* --- its life --------------------------------------------------------------------------------- */

struct fetcher *fetcher_open(uv_loop_t *loop)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return NULL;
    struct fetcher *f = xcalloc(sizeof *f);
    f->loop = loop;
    list_init(&f->ready);
    clock_init(&f->clock);
    f->expiry.fire = on_expiry;
    f->look.fire = on_look;
    f->linger.fire = on_linger;
    uv_timer_init(loop, &f->timer);
    f->timer.data = f;
    return f;
}

static void fetcher_on_closed(uv_handle_t *handle)
{
    struct fetcher *f = handle->data;
    clock_done(&f->clock);
    free(f);
    curl_global_cleanup();
}

void fetcher_close(struct fetcher *f)
{
    if (!f)
        return;
    ASSERT(f->n_fetches == 0);
    close_multi(f);
    uv_close((uv_handle_t *)&f->timer, fetcher_on_closed);
}
