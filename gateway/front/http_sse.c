/* Events as Server-Sent Events.  The stream is chunked by hand, so that a cut differs from an end:
 * the last chunk comes after the terminal event and nowhere else (never at a token's expiry, never
 * at a stop).  HTTP/1.0 gets it unchunked, and only the terminal event marks the end.  A watch has
 * no end, and its ids are its cursors. */
#include <stdio.h>

#include "gateway/base/deadline.h"
#include "gateway/base/fault.h"
#include "gateway/front/address.h"
#include "gateway/front/http_api.h"
#include "gateway/front/tcp.h"
#include "proto/link.h"
#include "proto/str.h"

#define COMMENT_AFTER_MS 15000
#define RETRY_MS 1000
#define RETRY_JITTER_MS 500

static void on_resumed(void *arg, enum error e, struct str line);
static void flush_session(struct session *session);

static void hold(struct session *session, bool on)
{
    (void)session; /* a stream receives no messages */
    (void)on;
}

static const struct session_ops sse_ops = {.hold = hold, .flush = flush_session};

/* A stream counts as a connection. */
static bool take_place(struct exchange *x)
{
    struct front *f = x->front;
    struct address *a = address_get(f, x->wsi);
    if (address_is_full(f, a, false)) {
        address_forget(f, a);
        return false;
    }
    a->n++;
    f->n_streams++;
    x->address = a;
    return true;
}

static void leave_place(struct exchange *x)
{
    x->address->n--;
    x->front->n_streams--;
    address_forget(x->front, x->address);
    x->address = NULL;
}

void sse_follow(struct exchange *x, struct request *req)
{
    if (!take_place(x)) {
        request_done(req);
        http_api_fail(x, ERR_OVERLOADED, "too many connections");
        return;
    }
    session_init(&x->session, x->front->hub, &sse_ops, x);
    struct asker who = http_asker(x);
    who.session = &x->session;
    session_adopt(&x->session, &who);
    x->streams = true;
    x->is_plain = http_is_1_0(x->wsi);
    list_push(&x->front->streams, &x->all);
    x->session.from = x->from;
    struct call *c = hub_request(x->front->hub, &who, req, on_resumed, x);
    if (c)
        x->call = c;
}

#define CHUNK_SIZE 10 /* eight digits at most, and the end of their line */
#define CHUNK_AT (LWS_PRE + CHUNK_SIZE)

/* After a failed write nothing may follow: neither an event nor a clean end. */
static void write_raw(struct exchange *x, struct buf *out, size_t from)
{
    x->said_ms = x->front->hub->clock.now_ms;
    if (x->broken)
        return;
    unsigned char *at = (unsigned char *)out->bytes + from;
    x->broken = FAULT(SEND) || lws_write(x->wsi, at, out->len - from, LWS_WRITE_HTTP) < 0;
    if (x->broken)
        deadline_now(x->wsi);
}

/* A buffer with room for the chunk's size before its data. */
static struct buf *begin_chunk(struct exchange *x)
{
    struct buf *out = &x->front->out;
    out->len = CHUNK_AT;
    return out;
}

static bool has_chunk(const struct buf *out)
{
    return out->len > CHUNK_AT;
}

/* A chunk begins with its size (RFC 9112 section 7.1). */
static void write_chunk(struct exchange *x, struct buf *out)
{
    char size[CHUNK_SIZE + 1];
    int n = x->is_plain ? 0 : snprintf(size, sizeof size, "%zx\r\n", out->len - CHUNK_AT);
    ASSERT(n >= 0 && n <= CHUNK_SIZE);
    memcpy(out->bytes + CHUNK_AT - n, size, (size_t)n);
    buf_puts(out, x->is_plain ? "" : "\r\n");
    write_raw(x, out, CHUNK_AT - (size_t)n);
}

static bool is_watch(const struct exchange *x)
{
    return x->route->verb == VERB_WATCH;
}

static bool nothing_is_left(struct exchange *x)
{
    return session_knows(&x->session) & LINK_IS_THROUGH;
}

static void put_gap(struct exchange *x, struct str line)
{
    struct js_doc doc = {0};
    if (js_parse(&doc, line.p, line.n, JS_AGENT)) {
        uint32_t first = js_get(&doc, 0, "first");
        if (first) {
            buf_puts(&x->answer, "event: gap\ndata: {\"after\":");
            js_copy(&doc, js_get(&doc, 0, "after"), &x->answer);
            buf_puts(&x->answer, ",\"first\":");
            js_copy(&doc, first, &x->answer);
            buf_puts(&x->answer, ",\"head\":");
            js_copy(&doc, js_get(&doc, 0, "head"), &x->answer);
            buf_puts(&x->answer, "}\n\n");
        }
    }
    js_done(&doc);
}

static void on_resumed(void *arg, enum error e, struct str line)
{
    struct exchange *x = arg;
    const struct exchange_kind *kind = x->route->kind;
    x->call = NULL;
    if (e && kind) {
        sse_done(x);
        kind->failed(x, e, line);
        return;
    }
    if (kind) {
        kind->started(x, line);
        if (!x->streams) /* it was refused */
            return;
        if (x->is_whole) /* the answer may take as long as the task */
            lws_set_timeout(x->wsi, NO_PENDING_TIMEOUT, 0);
        if (!x->is_whole && nothing_is_left(x)) /* the last output is sent now */
            kind->idle(x, &x->answer);
        x->starts = !x->is_whole;
        lws_callback_on_writable(x->wsi);
        return;
    }
    if (e) {
        sse_done(x);
        http_put_error_line(&x->answer, line);
        http_api_ready(x, error_status(e));
        return;
    }
    put_gap(x, line);
    x->ended = !is_watch(x) && nothing_is_left(x);
    x->starts = !x->ended || x->answer.len > 0; /* report a gap, even if nothing follows it */
    if (x->starts) {
        lws_callback_on_writable(x->wsi);
        return;
    }
    sse_done(x);
    http_api_ready(x, 204);
}

static void put_named(struct buf *out, struct str name, struct str line)
{
    buf_puts(out, "event: ");
    buf_putstr(out, name);
    buf_puts(out, "\ndata: ");
    buf_putstr(out, line);
    buf_puts(out, "\n\n");
}

/* The string behind that, which needs no escapes. */
static struct str plain_after(struct str line, const char *before)
{
    const char *at = memmem(line.p, line.n, before, strlen(before));
    ASSERT(at);
    struct str rest = str_from(line, (size_t)(at - line.p) + strlen(before));
    const char *quote = memchr(rest.p, '"', rest.n);
    ASSERT(quote);
    return (struct str){rest.p, (size_t)(quote - rest.p)};
}

/* A line of a watch that is no task's event.  In a browser "error" is the connection's own. */
static void put_pushed(struct buf *out, struct str line)
{
    struct str type = plain_after(line, "{\"type\":\"");
    if (str_eq(type, STR("cursor"))) {
        buf_puts(out, "id: ");
        buf_putstr(out, plain_after(line, "\"cursor\":\""));
        buf_putc(out, '\n');
    }
    put_named(out, str_eq(type, STR("error")) ? STR("fault") : type, line);
}

/* One line of the session as an event of the stream; of a task's stream, caught_up and the like are
 * not events. */
static void sse_put_event(struct exchange *x, struct buf *out, struct str line)
{
    struct event_parts parts;
    bool is_event = event_line_split(line, &parts);
    if (!is_event && is_watch(x))
        put_pushed(out, line);
    if (!is_event)
        return;
    if (!is_watch(x)) {
        buf_puts(out, "id: ");
        buf_put_u64(out, parts.seq);
        buf_putc(out, '\n');
        x->ended = x->ended || event_is_terminal(parts.event);
    }
    put_named(out, str_of(event_name(parts.event)), line);
}

static void put_events(struct exchange *x, struct buf *out, struct str lines)
{
    while (lines.n > 0) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        size_t n = newline ? (size_t)(newline - lines.p) : lines.n;
        if (x->route->kind)
            x->route->kind->line(x, out, (struct str){lines.p, n});
        else
            sse_put_event(x, out, (struct str){lines.p, n});
        n += newline ? 1 : 0;
        lines.p += n;
        lines.n -= n;
    }
}

/* After the last available line: a reader of another protocol may be waiting for a word. */
static void put_idle(struct exchange *x, struct buf *out)
{
    const struct exchange_kind *kind = x->route->kind;
    if (kind && kind->idle && !x->ended && !session_has_output(&x->session) &&
        (session_knows(&x->session) & LINK_IS_TOLD))
        kind->idle(x, out);
}

static int end_stream(struct exchange *x)
{
    struct buf *out = &x->front->out;
    out->len = LWS_PRE;
    buf_puts(out, "0\r\n\r\n");
    if (!x->is_plain)
        write_raw(x, out, LWS_PRE);
    if (x->broken || x->is_plain)
        return -1;
    struct lws *wsi = x->wsi;
    struct exchange **slot = lws_wsi_user(wsi);
    *slot = NULL;
    http_api_closed(x);
    return lws_http_transaction_completed(wsi) ? -1 : 0;
}

/* One message a turn, as ws.c does, and none while something is pending; asks to be called again
 * when the stream must end. */
static void flush_session(struct session *session)
{
    struct exchange *x = session->rim;
    struct buf *lines = &x->front->lines;
    buf_clear(lines);
    if (x->broken || x->starts || x->answered || !x->streams || x->call)
        return; /* the head goes first, from the writable callback */
    if (session->state == SESSION_CLOSING) {
        deadline_now(x->wsi);
        return;
    }
    struct buf *events = begin_chunk(x);
    if (!x->ended && !lws_partial_buffered(x->wsi) && session_fill(session, lines, MAX_MESSAGE_OUT))
        put_events(x, events, buf_str(lines));
    put_idle(x, events);
    if (has_chunk(events) && !x->is_whole)
        write_chunk(x, events);
    if (x->broken)
        return;
    x->lost = !x->ended && !(session_knows(session) & (LINK_FOLLOWS | LINK_WATCHES));
    if (x->lost && !x->is_whole) {
        deadline_now(x->wsi); /* its events can no longer be delivered: a cut, never a clean end */
        return;
    }
    if (x->ended || x->lost || lws_partial_buffered(x->wsi))
        lws_callback_on_writable(x->wsi);
    else if (session_has_output(session))
        session_wake(session);
}

/* Without it, browsers' EventSource would wait for 3 to 5 s; with one number all would return at
 * the same moment.  The line counts as soon as it is read, and is the first of the first event. */
static void put_retry(struct exchange *x, struct buf *out)
{
    uint16_t jitter = 0;
    x->front->hub->o.random(&jitter, sizeof jitter);
    buf_putf(out, "retry: %d\n", RETRY_MS + jitter % RETRY_JITTER_MS);
}

/* The head, and what precedes the events. */
static bool begin_stream(struct exchange *x)
{
    x->starts = false;
    x->said_ms = x->front->hub->clock.now_ms;
    const struct exchange_kind *kind = x->route->kind;
    const char *value = NULL, *name = kind && kind->header ? kind->header(x, &value) : NULL;
    struct str lines = kind ? kind->lines(x) : STR_NULL;
    if (http_begin_events(x->wsi, x->origin, x->is_plain, name, value, lines) < 0)
        return false;
    struct buf *first = begin_chunk(x);
    put_retry(x, first);
    buf_putstr(first, buf_str(&x->answer));
    write_chunk(x, first);
    return true;
}

static void end_whole(struct exchange *x)
{
    struct buf line = {0};
    sse_done(x);
    if (!x->lost) {
        http_api_ready(x, x->status);
        return;
    }
    error_line(&line, ERR_INTERNAL, STR_NULL, "what the task said cannot be told any more", -1, -1);
    x->route->kind->failed(x, ERR_INTERNAL, buf_str(&line));
    buf_done(&line);
}

int sse_writable(struct exchange *x)
{
    if (x->starts && !begin_stream(x))
        return -1;
    if (x->broken)
        return -1;
    if (x->is_whole && (x->ended || x->lost)) {
        end_whole(x);
        return 0;
    }
    if (x->ended && x->breaks && !lws_partial_buffered(x->wsi))
        return -1;
    if (x->ended && !lws_partial_buffered(x->wsi))
        return end_stream(x);
    session_wake(&x->session);
    return 0;
}

void sse_done(struct exchange *x)
{
    if (!x->streams)
        return;
    x->streams = false;
    if (x->call)
        call_forget(x->call);
    x->call = NULL;
    list_remove(&x->all);
    session_done(&x->session);
    leave_place(x);
}

/* A reader who waits for a reply in one piece. */
static void check_patience(struct exchange *x)
{
    if (!x->is_whole || !x->patience_ms || x->ended || x->call || x->answered ||
        x->front->hub->clock.now_ms - x->begun_ms < x->patience_ms)
        return;
    x->route->kind->late(x, &x->answer);
    lws_callback_on_writable(x->wsi);
}

/* The peer takes nothing of what is pending: a cut, as by any broken network. */
static void check_slow(struct exchange *x)
{
    msec_t now = x->front->hub->clock.now_ms;
    uint64_t acked = tcp_bytes_acked(lws_get_socket_fd(x->wsi));
    if (!lws_partial_buffered(x->wsi) || acked != x->acked) {
        x->acked = acked;
        x->moved_ms = now;
    } else if (now - x->moved_ms >= SLOW_EVENTS_AFTER_MS) {
        deadline_now(x->wsi);
    }
}

void sse_tick(struct front *f)
{
    /* Without a blank line: OpenAI's Python client takes one for an event when all that it has is
     * `retry`, and does not survive it. */
    static const char comment[] = ":\n";
    list_each (it, &f->streams) {
        struct exchange *x = list_item(it, struct exchange, all);
        check_slow(x);
        check_patience(x);
        if (x->starts || x->answered || x->call || x->is_whole || lws_partial_buffered(x->wsi) ||
            f->hub->clock.now_ms - x->said_ms < COMMENT_AFTER_MS)
            continue;
        struct buf *data = begin_chunk(x);
        buf_puts(data, comment);
        write_chunk(x, data);
    }
}

uint32_t sse_close_owner(struct front *f, struct str owner)
{
    uint32_t n = 0;
    list_each (it, &f->streams) {
        struct exchange *x = list_item(it, struct exchange, all);
        if (!str_eq(str_of(x->owner->name), owner))
            continue;
        deadline_now(x->wsi);
        n++;
    }
    return n;
}
