#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/backoff.h"
#include "gateway/base/log.h"
#include "gateway/fetch/complaint.h"
#include "gateway/fetch/fetch_private.h"
#include "proto/str.h"

/* Design
 *
 *                 libcurl is through,
 *             ┌─── and a try is left ◀──┐
 *             ▼                         │
 *          WAITING ──── again ───────▶ OPEN ──── libcurl is through ───▶ OVER ──── all is ───▶ DONE
 *                                                                               handed out
 *
 * on_write and on_header run inside libcurl and only keep the bytes.  fetch_advance hands them
 * out. */

#define FETCH_MAGIC 0x66657463u
#define RETRY_MS 500
#define RETRY_MAX_MS 8000
#define RETRY_AFTER_MAX_S 60
#define WANTED_BYTES 1024 /* of the value of a header that is wanted; a longer one is none */

enum fetch_state { FETCH_WAITING, FETCH_OPEN, FETCH_OVER, FETCH_DONE };

struct fetch {
    unsigned magic;
    enum fetch_state state;
    struct fetcher *fetcher;
    struct list in_ready;
    const struct fetch_options *options;
    struct fetch_events events;
    void *user;
    char *url, *body;
    size_t body_bytes;
    struct curl_slist *headers;

    CURL *easy; /* NULL except in OPEN */
    unsigned tries;
    struct buf in;  /* received bytes of the body that were not handed out */
    char type[128]; /* its content type */
    char *wanted;   /* the header's name; NULL for none */
    char value[WANTED_BYTES];
    long status; /* 0 before there is one */
    bool framed;
    bool told_head;
    bool paused; /* the user wants no more */
    bool held;   /* libcurl does not read */
    msec_t heard_ms;
    struct timer idle, again, last_call;
    msec_t last_call_ms;    /* as passed to fetch_end_within */
    char *fault;            /* NULL: the reply arrived whole */
    char refused[NET_TEXT]; /* the address that a guarded fetch refused */
    char curl_says[CURL_ERROR_SIZE];
};

static struct fetch *fetch_of(void *arg)
{
    struct fetch *f = arg;
    ASSERT(f && f->magic == FETCH_MAGIC);
    return f;
}

msec_t fetch_retry_ms(unsigned tries, int64_t retry_after_s, uint32_t random)
{
    if (retry_after_s > RETRY_AFTER_MAX_S)
        return -1;
    msec_t ms = backoff_ms(tries, RETRY_MS, RETRY_MAX_MS);
    ms = backoff_between(ms / 2, ms, random);
    return ms > retry_after_s * 1000 ? ms : retry_after_s * 1000;
}

/* --- inside libcurl --------------------------------------------------------------------------- */

static bool is_good(const struct fetch *f)
{
    return f->status >= 200 && f->status < 300;
}

static size_t on_write(char *bytes, size_t size, size_t n, void *user)
{
    struct fetch *f = fetch_of(user);
    size_t room = is_good(f) ? FETCH_BUFFER : FETCH_COMPLAINT;
    n *= size;
    f->heard_ms = (msec_t)uv_now(f->fetcher->loop);
    if (is_good(f) && f->in.len && (f->paused || f->in.len + n > room)) {
        f->held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    size_t fits = f->in.len < room ? room - f->in.len : 0;
    buf_put(&f->in, bytes, is_good(f) || n < fits ? n : fits);
    fetcher_ready(f->fetcher, &f->in_ready);
    return n;
}

static void take_wanted(struct fetch *f, struct str line)
{
    size_t n = f->wanted ? strlen(f->wanted) : 0;
    if (n == 0 || line.n <= n || line.p[n] != ':' || !str_begins_nocase(line, str_of(f->wanted)))
        return;
    struct str value = str_from(line, n + 1);
    while (value.n && (value.p[value.n - 1] == '\r' || value.p[value.n - 1] == '\n'))
        value.n--;
    value = str_trim(value);
    if (value.n < WANTED_BYTES)
        snprintf(f->value, sizeof f->value, "%.*s", (int)value.n, value.p);
}

/* Each reply begins with its status line: those of redirects and of a 100 precede the last one. */
static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    struct fetch *f = fetch_of(user);
    n *= size;
    struct str line = {bytes, n};
    f->heard_ms = (msec_t)uv_now(f->fetcher->loop);
    if (str_begins(line, STR("HTTP/"))) {
        buf_clear(&f->in);
        f->framed = false;
        f->value[0] = '\0';
        curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &f->status);
    } else if (str_begins_nocase(line, STR("content-length:")) ||
               str_begins_nocase(line, STR("transfer-encoding:"))) {
        f->framed = true;
    } else if (n <= 2) { /* the line that ends the headers */
        const char *type = NULL;
        curl_easy_getinfo(f->easy, CURLINFO_CONTENT_TYPE, &type);
        snprintf(f->type, sizeof f->type, "%s", type ? type : "");
    }
    take_wanted(f, line);
    return n;
}

/* For a guarded fetch. */
static bool may_go_to(struct fetch *f, const struct net_address *address)
{
    if (net_is_public(address) || net_list_has(f->options->allow, f->options->n_allow, address))
        return true;
    net_format(address, f->refused);
    return false;
}

static curl_socket_t on_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct fetch *f = fetch_of(user);
    struct net_address address;
    (void)purpose;
    if (f->options->guarded && (!net_of_sockaddr(&to->addr, &address) || !may_go_to(f, &address)))
        return CURL_SOCKET_BAD;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Called before each request, because a connection that another fetch left open was not opened for
 * this one. */
static int on_request(void *user, char *to, char *from, int to_port, int from_port)
{
    struct fetch *f = fetch_of(user);
    struct net_address address;
    (void)from;
    (void)to_port;
    (void)from_port;
    return net_parse_address(str_of(to), &address) && may_go_to(f, &address)
               ? CURL_PREREQFUNC_OK
               : CURL_PREREQFUNC_ABORT;
}

/* --- one try ---------------------------------------------------------------------------------- */

static void fetch_fail(struct fetch *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fetch_fail(struct fetch *f, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    free(f->fault);
    f->fault = xstrdup((struct str){text, utf8_whole(str_of(text))});
}

#define SET(option, value) \
    (void)curl_easy_setopt(f->easy, CURLOPT_##option, (value)) /* no option fails that 7.88 knows */

static void set_network(struct fetch *f)
{
    const struct fetch_options *o = f->options;
    SET(PROTOCOLS_STR, "http,https");
    SET(REDIR_PROTOCOLS_STR, "http,https");
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* a cancel closes the connection */
    SET(SUPPRESS_CONNECT_HEADERS, 1L);
    SET(NOSIGNAL, 1L);
    SET(QUICK_EXIT, 1L); /* otherwise the end of a fetch waits for its name to be resolved */
    SET(OPENSOCKETFUNCTION, on_open_socket);
    SET(OPENSOCKETDATA, f);
    if (o->guarded) {
        SET(PREREQFUNCTION, on_request);
        SET(PREREQDATA, f);
    }
    SET(CONNECTTIMEOUT_MS, (long)o->connect_ms);
    SET(TIMEOUT_MS, (long)o->total_ms);
    SET(FOLLOWLOCATION, o->redirects ? 1L : 0L);
    SET(MAXREDIRS, (long)o->redirects);
    if (o->ca_file)
        SET(CAINFO, o->ca_file);
    if (o->guarded)
        SET(PROXY, "");
    else if (o->proxy)
        SET(PROXY, o->proxy);
}

static void begin_try(struct fetch *f)
{
    f->easy = curl_easy_init();
    ASSERT(f->easy);
    f->state = FETCH_OPEN;
    f->tries++;
    f->status = 0;
    f->held = false;
    f->refused[0] = f->curl_says[0] = '\0';
    buf_clear(&f->in);
    set_network(f);
    SET(PRIVATE, f);
    SET(URL, f->url);
    SET(ERRORBUFFER, f->curl_says);
    SET(USERAGENT, "holdfast/" HOLDFAST_VERSION);
    SET(HTTPHEADER, f->headers);
    SET(WRITEFUNCTION, on_write);
    SET(WRITEDATA, f);
    SET(HEADERFUNCTION, on_header);
    SET(HEADERDATA, f);
    if (f->body) {
        SET(POSTFIELDSIZE_LARGE, (curl_off_t)f->body_bytes);
        SET(POSTFIELDS, f->body);
    }
    f->heard_ms = f->fetcher->clock.now_ms;
    if (f->options->idle_ms)
        timer_arm(&f->fetcher->clock, &f->idle, f->heard_ms + f->options->idle_ms);
    if (!fetcher_add(f->fetcher, f->easy)) {
        fetch_fail(f, "the request cannot be made");
        f->state = FETCH_OVER;
        fetcher_ready(f->fetcher, &f->in_ready);
    }
}

static void end_try(struct fetch *f)
{
    timer_disarm(&f->fetcher->clock, &f->idle);
    timer_disarm(&f->fetcher->clock, &f->last_call);
    if (f->easy)
        fetcher_remove(f->fetcher, f->easy);
    f->easy = NULL;
}

static void fetch_on_again(struct timer *timer)
{
    begin_try(container_of(timer, struct fetch, again));
}

static void fetch_on_idle(struct timer *timer)
{
    struct fetch *f = container_of(timer, struct fetch, idle);
    struct clock *c = &f->fetcher->clock;
    if (f->paused || f->held)
        f->heard_ms = c->now_ms;
    if (c->now_ms - f->heard_ms < f->options->idle_ms) {
        timer_arm(c, &f->idle, f->heard_ms + f->options->idle_ms);
        return;
    }
    fetch_fail(f, "nothing arrived for %lld s", (long long)f->options->idle_ms / 1000);
    f->state = FETCH_OVER;
    end_try(f);
    fetcher_ready(f->fetcher, &f->in_ready);
}

/* Stops reading.  Bytes that have arrived are still handed out. */
static void on_last_call(struct timer *timer)
{
    struct fetch *f = container_of(timer, struct fetch, last_call);
    struct clock *c = &f->fetcher->clock;
    if (f->paused || f->held) {
        timer_arm(c, timer, c->now_ms + f->last_call_ms);
        return;
    }
    f->state = FETCH_OVER;
    end_try(f);
    fetcher_ready(f->fetcher, &f->in_ready);
}

/* --- its end ---------------------------------------------------------------------------------- */

static bool may_pass(const struct fetch *f, CURLcode result)
{
    if (f->told_head || (is_good(f) && f->in.len) || f->refused[0])
        return false;
    switch (result) {
    case CURLE_OK:
        if (f->options->once)
            return f->status == 429 || f->status == 503;
        return f->status == 429 || (f->status >= 500 && f->status <= 599 && f->status != 501);
    case CURLE_COULDNT_CONNECT: return true;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE: return !f->options->once;
    default: return false;
    }
}

/* False: no try is left, or the peer asks for a longer wait than allowed. */
static bool wait_for_try(struct fetch *f, int64_t retry_after_s)
{
    uint32_t random = 0;
    (void)RAND_bytes((unsigned char *)&random, sizeof random);
    msec_t ms = fetch_retry_ms(f->tries, retry_after_s, random);
    if (f->tries > f->options->retries || ms < 0)
        return false;
    f->state = FETCH_WAITING;
    timer_arm(&f->fetcher->clock, &f->again, f->fetcher->clock.now_ms + ms);
    return true;
}

/* Names an address only when the URL does: the address of an internal name is only for the log. */
static void refuse(struct fetch *f)
{
    char *url = NULL, *host = NULL;
    CURLU *parts = curl_url();
    struct net_address literal;
    curl_easy_getinfo(f->easy, CURLINFO_EFFECTIVE_URL, &url);
    if (curl_url_set(parts, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        host = NULL;
    if (host && net_parse_address(str_of(host), &literal))
        fetch_fail(f, "the address %s is not public", f->refused);
    else
        fetch_fail(f, "the address of %s is not public", host ? host : "the host");
    log_event_limited(LEVEL_INFO, "fetch", "refused", LOG_TEXT("host", host ? host : ""),
                      LOG_TEXT("address", f->refused));
    curl_free(host);
    curl_url_cleanup(parts);
}

static bool try_again(struct fetch *f, CURLcode result)
{
    curl_off_t after = 0;
    if (!may_pass(f, result))
        return false;
    curl_easy_getinfo(f->easy, CURLINFO_RETRY_AFTER, &after);
    return wait_for_try(f, after);
}

static void judge(struct fetch *f, CURLcode result)
{
    struct buf why = {0};
    if (f->refused[0] && (result == CURLE_COULDNT_CONNECT || result == CURLE_ABORTED_BY_CALLBACK)) {
        refuse(f);
    } else if (result != CURLE_OK && f->status == 0) {
        fetch_fail(f, "%s", f->curl_says[0] ? f->curl_says : curl_easy_strerror(result));
    } else if (result != CURLE_OK && is_good(f)) {
        fetch_fail(f, "the connection broke off: %s",
                   f->curl_says[0] ? f->curl_says : curl_easy_strerror(result));
    } else if (!is_good(f)) {
        complaint_put(&why, buf_str(&f->in));
        fetch_fail(f, "HTTP %ld%s%s", f->status, why.len ? ": " : "", why.len ? why.bytes : "");
        buf_done(&why);
    }
}

void fetch_over(CURL *easy, CURLcode result)
{
    char *user = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &user);
    struct fetch *f = fetch_of(user);
    if (!try_again(f, result)) {
        judge(f, result);
        f->state = FETCH_OVER;
        fetcher_ready(f->fetcher, &f->in_ready);
    }
    end_try(f);
}

static void tell_head(struct fetch *f)
{
    f->told_head = true;
    if (f->events.on_head)
        f->events.on_head(f->user, &(struct fetch_head){(int)f->status, f->framed, str_of(f->type),
                                                        str_of(f->value)});
}

static void hand_out(struct fetch *f)
{
    struct buf bytes = f->in;
    f->in = (struct buf){0};
    f->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (f->events.on_bytes(f->user, buf_str(&bytes)))
        f->paused = false;
    buf_clear(&bytes);
    if (f->in.bytes == NULL)
        f->in = bytes; /* its memory is reused */
    else
        buf_done(&bytes);
}

void fetch_advance(struct list *in_ready)
{
    struct fetch *f = fetch_of(container_of(in_ready, struct fetch, in_ready));
    if (f->state != FETCH_OPEN && f->state != FETCH_OVER)
        return;
    if (is_good(f) && f->in.len && !f->paused) {
        if (!f->told_head)
            tell_head(f);
        hand_out(f);
    }
    if (f->paused)
        return;
    if (f->held) {
        f->held = false;
        f->heard_ms = f->fetcher->clock.now_ms;
        if (f->easy)
            curl_easy_pause(f->easy, CURLPAUSE_CONT);
    }
    if (f->state != FETCH_OVER || (is_good(f) && f->in.len))
        return;
    f->state = FETCH_DONE;
    if (!f->fault && !f->told_head)
        tell_head(f);
    f->events.on_done(f->user, str_of(f->fault));
}

/* --- its life --------------------------------------------------------------------------------- */

static void add_trace(struct fetch *f, const struct trace_context *trace)
{
    struct buf header = {0};
    buf_puts(&header, "traceparent: ");
    traceparent_put(&header, trace);
    buf_putc(&header, 0);
    f->headers = curl_slist_append(f->headers, header.bytes);
    if (trace->state.p) {
        buf_clear(&header);
        buf_puts(&header, "tracestate: ");
        buf_putstr(&header, trace->state);
        buf_putc(&header, 0);
        f->headers = curl_slist_append(f->headers, header.bytes);
    }
    buf_done(&header);
}

struct fetch *fetch_start(struct fetcher *fetcher, const struct fetch_options *options,
                          const struct fetch_request *request, const struct fetch_events *events,
                          void *user)
{
    struct fetch *f = xcalloc(sizeof *f);
    f->magic = FETCH_MAGIC;
    f->fetcher = fetcher;
    f->options = options;
    f->events = *events;
    f->user = user;
    f->url = xstrdup(str_of(request->url));
    f->body = xstrdup(request->body);
    f->body_bytes = request->body.n;
    f->wanted = xstrdup(str_of(request->wanted));
    for (size_t i = 0; request->headers && request->headers[i]; i++)
        f->headers = curl_slist_append(f->headers, request->headers[i]);
    if (request->trace)
        add_trace(f, request->trace);
    f->headers = curl_slist_append(f->headers, "Expect:"); /* do not wait for a 100 */
    f->idle.fire = fetch_on_idle;
    f->again.fire = fetch_on_again;
    f->last_call.fire = on_last_call;
    fetcher->n_fetches++;
    fetcher_enter(fetcher);
    begin_try(f);
    fetcher_leave(fetcher);
    return f;
}

int fetch_status(const struct fetch *fetch)
{
    return (int)fetch->status;
}

struct str fetch_refusal(const struct fetch *fetch)
{
    return is_good(fetch) ? STR("") : buf_str(&fetch->in);
}

void fetch_unpause(struct fetch *fetch)
{
    struct fetch *f = fetch_of(fetch);
    if (!f->paused)
        return;
    f->paused = false;
    fetcher_enter(f->fetcher);
    fetcher_ready(f->fetcher, &f->in_ready);
    fetcher_leave(f->fetcher);
}

void fetch_end_within(struct fetch *fetch, msec_t ms)
{
    struct fetch *f = fetch_of(fetch);
    if (f->state != FETCH_OPEN)
        return; /* it has ended, or will be handed out completely */
    f->last_call_ms = ms;
    fetcher_enter(f->fetcher);
    timer_arm(&f->fetcher->clock, &f->last_call, f->fetcher->clock.now_ms + (ms > 0 ? ms : 1));
    fetcher_leave(f->fetcher);
}

bool fetch_again(struct fetch *fetch)
{
    struct fetch *f = fetch_of(fetch);
    ASSERT(f->state == FETCH_DONE && f->fetcher->inside == false);
    fetcher_enter(f->fetcher);
    bool waits = wait_for_try(f, 0);
    if (waits) {
        free(f->fault);
        f->fault = NULL;
        f->told_head = false;
        buf_clear(&f->in);
    }
    fetcher_leave(f->fetcher);
    return waits;
}

void fetch_free(struct fetch *fetch)
{
    if (!fetch)
        return;
    struct fetch *f = fetch_of(fetch);
    struct fetcher *fetcher = f->fetcher;
    fetcher_enter(fetcher);
    end_try(f);
    timer_disarm(&fetcher->clock, &f->again);
    list_remove(&f->in_ready);
    fetcher_rest(fetcher);
    fetcher_leave(fetcher);
    curl_slist_free_all(f->headers);
    buf_done(&f->in);
    free(f->url);
    free(f->body);
    free(f->wanted);
    free(f->fault);
    f->magic = 0;
    free(f);
}
