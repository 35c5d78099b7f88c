/* Design.  A server behind a URL (streamable HTTP): each message is a POST, and the reply to a
 * request is one message, or an event stream with the server's own messages before it.
 *
 *   exchange ── POST ──▶ reply ── the answer is in it ──▶ dead
 *                          │ cut, but its events had ids (legacy)
 *                          └──▶ a pause ──▶ GET with the last id ──▶ reply …
 *
 * - A legacy server may have one more stream (GET) for messages that answer nothing.
 * - Some servers replay what was missed and then say nothing more on that stream: a resumed stream
 *   that is silent is closed, and resumed again, less and less often.
 * - Nothing is freed from inside a fetch's own callback: the dead wait for the reaper. */
#include <stdio.h>
#include <stdlib.h>

#include "core/backoff.h"
#include "gateway/base/secret_lines.h"
#include "gateway/base/stepper.h"
#include "gateway/mcp/mcp_private.h"
#include "proto/sse_reader.h"
#include "proto/str.h"

#define CONNECT_MS 10000
#define LINGER_MS 5000 /* a stream that has brought its answer may end by itself */
#define RETRY_MS 1000  /* before a stream is resumed, when the server names no time */
#define RETRY_MAX_MS 30000
#define SILENT_MS 2000 /* of a resumed stream; doubled each time */
#define SESSION_BYTES 1024

struct http_link;

struct exchange {
    struct list node; /* in the link's exchanges, or its dead */
    struct http_link *link;
    int64_t id; /* of the request; 0: none */
    struct fetch *fetch;
    struct fetch_options options;
    bool stays, is_get, is_sse, is_json, answered, paused;
    bool is_dead; /* it waits for the reaper */
    unsigned resumes;
    struct timer again;
    struct sse_reader events;
    struct buf body; /* of a reply that is one message */
    struct buf last; /* the id of its last event */
};

struct http_link {
    struct mcp_link link;
    struct fetcher *fetcher;
    struct clock *clock;
    const char *url, *ca_file;
    struct keep_texts headers;
    char session[SESSION_BYTES]; /* "" for none */
    struct list exchanges, dead;
    struct stepper reaper;
    unsigned depth; /* of callbacks on the stack */
    bool no_get, closed;
};

static const struct fetch_events http_events;

static struct http_link *http_of(struct mcp_link *link)
{
    return container_of(link, struct http_link, link);
}

/* --- lifetimes -------------------------------------------------------------------------------- */

static void exchange_free(struct exchange *x)
{
    list_remove(&x->node);
    fetch_free(x->fetch);
    sse_reader_done(&x->events);
    buf_done(&x->body);
    buf_done(&x->last);
    free(x);
}

static void http_on_gone(void *arg)
{
    free(arg);
}

static void http_reap(void *arg)
{
    struct http_link *h = arg;
    struct list *node;
    stepper_stop(&h->reaper);
    while ((node = list_pop(&h->dead)) != NULL)
        exchange_free(list_item(node, struct exchange, node));
    if (!h->closed)
        return;
    keep_texts_done(&h->headers);
    stepper_close(&h->reaper, http_on_gone);
}

static void exchange_end(struct exchange *x)
{
    struct http_link *h = x->link;
    if (timer_is_armed(&x->again))
        timer_disarm(h->clock, &x->again);
    x->is_dead = true;
    list_remove(&x->node);
    list_push(&h->dead, &x->node);
    stepper_start(&h->reaper);
}

/* --- requests --------------------------------------------------------------------------------- */

static void add_header(struct keep_texts *to, const char *name, struct str value)
{
    struct buf line = {0};
    buf_putf(&line, "%s: ", name);
    buf_putstr(&line, value);
    to->list = xrealloc(to->list, (to->n + 2) * sizeof(char *));
    to->list[to->n++] = buf_take(&line);
    to->list[to->n] = NULL;
}

static void add_lines(struct keep_texts *to, struct str lines)
{
    while (lines.n) {
        const char *end = memchr(lines.p, '\n', lines.n);
        size_t n = end ? (size_t)(end - lines.p) : lines.n;
        to->list = xrealloc(to->list, (to->n + 2) * sizeof(char *));
        to->list[to->n++] = xstrdup((struct str){lines.p, n});
        to->list[to->n] = NULL;
        lines = str_from(lines, n + (end != NULL));
    }
}

static void put_headers(const struct http_link *h, const struct mcp_outgoing *m,
                        struct keep_texts *to)
{
    const struct mcp_server *s = h->link.server;
    struct buf value = {0};
    for (size_t i = 0; i < h->headers.n; i++)
        add_lines(to, str_of(h->headers.list[i]));
    add_header(to, "Accept", STR("application/json, text/event-stream"));
    if (m)
        add_header(to, "Content-Type", STR("application/json"));
    if (h->session[0])
        add_header(to, "Mcp-Session-Id", str_of(h->session));
    if (s->era == MCP_MODERN)
        add_header(to, "MCP-Protocol-Version", STR(MCP_MODERN_VERSION));
    else if (s->phase != MCP_INITIALIZING)
        add_header(to, "MCP-Protocol-Version", str_of(s->version));
    if (!m || s->era != MCP_MODERN)
        return;
    if (m->method)
        add_header(to, "Mcp-Method", str_of(m->method));
    if (m->name.n) {
        mcp_put_header_value(&value, m->name);
        add_header(to, "Mcp-Name", buf_str(&value));
    }
    add_lines(to, m->headers);
    buf_done(&value);
}

/* m NULL: a GET. */
static void exchange_start(struct exchange *x, const struct mcp_outgoing *m)
{
    struct http_link *h = x->link;
    struct keep_texts headers = {0};
    put_headers(h, m, &headers);
    if (!m && x->last.len)
        add_header(&headers, "Last-Event-ID", buf_str(&x->last));
    x->options =
        (struct fetch_options){.ca_file = h->ca_file, .connect_ms = CONNECT_MS, .once = true};
    if (x->resumes && !x->stays) {
        x->options.idle_ms = SILENT_MS << (x->resumes < 5 ? x->resumes - 1 : 4);
        if (x->options.idle_ms > RETRY_MAX_MS)
            x->options.idle_ms = RETRY_MAX_MS;
    }
    x->fetch = fetch_start(h->fetcher, &x->options,
                           &(struct fetch_request){.url = h->url,
                                                   .headers = (const char *const *)headers.list,
                                                   .body = m ? m->body : STR_NULL,
                                                   .wanted = "mcp-session-id"},
                           &http_events, x);
    keep_texts_done(&headers);
}

static void on_again(struct timer *timer)
{
    struct exchange *x = container_of(timer, struct exchange, again);
    fetch_free(x->fetch);
    x->fetch = NULL;
    sse_reader_done(&x->events);
    buf_clear(&x->body);
    x->is_sse = x->is_json = x->paused = false;
    exchange_start(x, NULL);
}

static struct exchange *exchange_new(struct http_link *h, int64_t id)
{
    struct exchange *x = xcalloc(sizeof *x);
    x->link = h;
    x->id = id;
    x->again.fire = on_again;
    x->events.max = MCP_MESSAGE_BYTES;
    list_push(&h->exchanges, &x->node);
    return x;
}

static bool http_send(struct mcp_link *link, const struct mcp_outgoing *message)
{
    struct exchange *x = exchange_new(http_of(link), message->id);
    x->stays = message->stays;
    exchange_start(x, message);
    return true;
}

static void http_forget(struct mcp_link *link, int64_t id)
{
    list_each (it, &http_of(link)->exchanges) {
        struct exchange *x = list_item(it, struct exchange, node);
        if (x->id == id)
            exchange_end(x);
    }
}

static void http_listen(struct mcp_link *link)
{
    struct http_link *h = http_of(link);
    if (h->no_get)
        return;
    struct exchange *x = exchange_new(h, 0);
    x->is_get = x->stays = true;
    exchange_start(x, NULL);
}

static void http_go_on(struct mcp_link *link)
{
    list_each (it, &http_of(link)->exchanges) {
        struct exchange *x = list_item(it, struct exchange, node);
        if (!x->paused)
            continue;
        x->paused = false;
        fetch_unpause(x->fetch);
    }
}

static void http_close(struct mcp_link *link, bool kill)
{
    struct http_link *h = http_of(link);
    (void)kill;
    h->link.server = NULL;
    h->closed = true;
    list_each (it, &h->exchanges)
        exchange_end(list_item(it, struct exchange, node));
    if (h->depth == 0)
        http_reap(h);
    else
        stepper_start(&h->reaper);
}

/* --- replies ---------------------------------------------------------------------------------- */

/* Visible ASCII, since it goes into a header. */
static bool is_session(struct str id)
{
    for (size_t i = 0; i < id.n; i++)
        if (id.p[i] <= ' ' || id.p[i] > '~')
            return false;
    return id.n > 0 && id.n < SESSION_BYTES;
}

static void http_on_head(void *user, const struct fetch_head *head)
{
    struct exchange *x = user;
    struct http_link *h = x->link;
    x->is_sse = str_begins_nocase(head->content_type, STR("text/event-stream"));
    x->is_json = str_begins_nocase(head->content_type, STR("application/json"));
    if (h->link.server && h->link.server->phase == MCP_INITIALIZING && is_session(head->wanted))
        snprintf(h->session, sizeof h->session, "%.*s", (int)head->wanted.n, head->wanted.p);
}

/* Whether the request of that exchange still waits. */
static bool is_open(const struct exchange *x)
{
    const struct mcp_server *s = x->link->link.server;
    if (!s || !x->id)
        return false;
    for (const struct list *it = s->requests.next; it != &s->requests; it = it->next)
        if (list_item((struct list *)(uintptr_t)it, struct mcp_request, node)->id == x->id)
            return true;
    return false;
}

static void take_event(struct exchange *x, const struct sse_event *event)
{
    struct mcp_server *s = x->link->link.server;
    if (event->id.n && event->id.n < SESSION_BYTES) {
        buf_clear(&x->last);
        buf_putstr(&x->last, event->id);
    }
    if (!str_is_blank(event->data)) /* the first one may only bring an id */
        mcp_server_take(s, event->data, x->id);
}

/* How many events; a stream that is too long ends the server. */
static size_t exchange_take_events(struct exchange *x, struct str bytes)
{
    struct http_link *h = x->link;
    struct sse_event event;
    size_t n = 0;
    while (h->link.server && !x->is_dead) {
        enum sse_result next = sse_reader_next(&x->events, &bytes, &event);
        if (next == SSE_TOO_LONG)
            mcp_server_died(h->link.server, "a message of it exceeds 16 MiB");
        if (next != SSE_EVENT)
            break;
        take_event(x, &event);
        n++;
    }
    return n;
}

static bool http_on_bytes(void *user, struct str bytes)
{
    struct exchange *x = user;
    struct http_link *h = x->link;
    size_t n = 0;
    if (!h->link.server || x->is_dead)
        return false;
    h->depth++;
    if (x->is_sse)
        n = exchange_take_events(x, bytes);
    else if (x->body.len + bytes.n <= MCP_MESSAGE_BYTES)
        buf_putstr(&x->body, bytes);
    else
        mcp_server_died(h->link.server, "a message of it exceeds 16 MiB");
    if (x->is_sse && x->id && !x->stays && !x->answered && !x->is_dead && !is_open(x)) {
        x->answered = true;
        fetch_end_within(x->fetch, LINGER_MS);
    }
    x->paused = h->link.server && !mcp_server_heard(h->link.server, n, bytes.n);
    h->depth--;
    return !x->paused;
}

static void start_later(struct exchange *x, msec_t wait)
{
    x->resumes++;
    timer_arm(x->link->clock, &x->again,
              x->link->clock->now_ms + (wait < RETRY_MAX_MS ? wait : RETRY_MAX_MS));
}

/* The stream ended without the answer; its events can be had again. */
static bool resume(struct exchange *x, bool good)
{
    msec_t wait = x->events.retry_ms > 0 ? x->events.retry_ms : RETRY_MS;
    if (x->link->link.server->era != MCP_LEGACY || !x->last.len || !is_open(x) ||
        (!good && !x->resumes))
        return false;
    start_later(x, x->resumes && good ? 1 : wait); /* its silence was the pause */
    return true;
}

/* The stream for what answers nothing; what came while it was away is lost. */
static void get_again(struct exchange *x, int status)
{
    x->link->no_get |= status == 404 || status == 405;
    if (x->link->no_get)
        return;
    buf_clear(&x->last);
    start_later(x, backoff_ms(x->resumes + 1, RETRY_MS, RETRY_MAX_MS));
}

static void tell_loss(struct exchange *x, struct str error)
{
    struct mcp_server *s = x->link->link.server;
    struct mcp_loss loss = {.status = fetch_status(x->fetch),
                            .body = fetch_refusal(x->fetch),
                            .why = error.p ? error : STR("the connection ended without an answer")};
    if (!error.p && !x->is_sse && !x->is_json)
        loss.why = STR("the reply is no message of MCP");
    mcp_server_lost(s, x->id, &loss);
}

static void take_end(struct exchange *x, struct str error)
{
    struct http_link *h = x->link;
    struct mcp_server *s = h->link.server;
    int status = fetch_status(x->fetch);
    if (!error.p && x->is_json && x->body.len)
        mcp_server_take(s, buf_str(&x->body), x->id);
    if (x->is_dead)
        return;
    if (x->is_get)
        get_again(x, status);
    else if (!resume(x, status >= 200 && status < 300) && is_open(x))
        tell_loss(x, error);
}

static void http_on_done(void *user, struct str error)
{
    struct exchange *x = user;
    struct http_link *h = x->link;
    if (!h->link.server || x->is_dead)
        return;
    h->depth++;
    take_end(x, error);
    if (!x->is_dead && !timer_is_armed(&x->again))
        exchange_end(x);
    h->depth--;
}

static const struct fetch_events http_events = {http_on_head, http_on_bytes, http_on_done};

/* --- opening ---------------------------------------------------------------------------------- */

static const struct mcp_link_ops http_ops = {.send = http_send,
                                             .forget = http_forget,
                                             .listen = http_listen,
                                             .go_on = http_go_on,
                                             .close = http_close};

struct mcp_link *mcp_http_open(struct mcp_server *s, char *ret_error)
{
    struct keep_texts headers = {0};
    if (!mcp_program_headers(s->config, &headers, ret_error, MCP_WHY)) {
        keep_texts_done(&headers);
        return NULL;
    }
    secret_lines_add(s->mcp->o.secrets, headers.list, ':');
    struct http_link *h = xcalloc(sizeof *h);
    *h = (struct http_link){.link = {&http_ops, s},
                            .fetcher = s->mcp->o.fetcher,
                            .clock = s->mcp->o.clock,
                            .url = s->config->url,
                            .ca_file = s->config->ca_file,
                            .headers = headers};
    list_init(&h->exchanges);
    list_init(&h->dead);
    stepper_init(&h->reaper, s->mcp->o.loop, 0, http_reap, h);
    return &h->link;
}
