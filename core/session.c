#include "core/session.h"

#include <stdlib.h>

#include "core/home.h"
#include "core/watching.h"
#include "proto/str.h"

#define HELLO_DEADLINE_MS 10000
#define GOAWAY_RETRY_MS 2000
#define FREE_RESUMES 1000
#define MINUTE_MS 60000

/* A request that waits for its turn, or a reply that does (an error keeps its place). */
struct pending {
    struct list node;
    bool is_reply;
    struct request req;
    struct buf line;
};

static void session_run(struct session *s);

void session_init(struct session *s, struct hub *h, const struct session_ops *ops, void *rim)
{
    *s = (struct session){.ops = ops,
                          .rim = rim,
                          .hub = h,
                          .lines = bucket_full(h->o.limits.burst, h->clock.now_ms),
                          .free_resumes = FREE_RESUMES,
                          .timer.fire = session_on_timer};
    list_init(&s->subscriptions);
    list_init(&s->ready);
    timer_arm(&h->clock, &s->timer, h->clock.now_ms + HELLO_DEADLINE_MS);
}

/* --- what comes and goes ---------------------------------------------------------------------- */

struct backlog *session_backlog(struct session *s)
{
    if (s->backlog)
        return s->backlog;
    struct backlog *b = s->backlog = xcalloc(sizeof *b);
    list_init(&b->replies);
    list_init(&b->urgent);
    list_init(&b->requests);
    return b;
}

void session_settle(struct session *s)
{
    const struct backlog *b = s->backlog;
    if (!b || b->n_replies || b->n_requests || b->call || b->hello || b->input.len || b->away_hello)
        return;
    free(s->backlog);
    s->backlog = NULL;
}

struct views *session_views(struct session *s)
{
    if (s->views)
        return s->views;
    s->views = xcalloc(sizeof *s->views);
    list_init(&s->views->openings);
    list_init(&s->views->ready_openings);
    return s->views;
}

size_t session_reply_bytes(const struct session *s)
{
    return s->backlog ? s->backlog->reply_bytes : 0;
}

uint32_t session_n_replies(const struct session *s)
{
    return s->backlog ? s->backlog->n_replies : 0;
}

uint32_t session_n_waiting(const struct session *s)
{
    return s->backlog ? s->backlog->n_replies + s->backlog->n_requests : 0;
}

/* --- limits and release ----------------------------------------------------------------------- */

static void drop_replies(struct backlog *b, struct list *replies)
{
    struct list *node;
    while ((node = list_pop(replies)) != NULL) {
        struct reply *r = list_item(node, struct reply, node);
        b->n_replies--;
        b->reply_bytes -= r->len;
        free(r);
    }
}

void session_drop_replies(struct session *s)
{
    if (s->backlog)
        drop_replies(s->backlog, &s->backlog->replies);
}

static void drop_pending(struct pending *p)
{
    request_done(&p->req);
    buf_done(&p->line);
    free(p);
}

static void drop_requests(struct session *s)
{
    struct backlog *b = s->backlog;
    struct list *node;
    if (!b)
        return;
    while ((node = list_pop(&b->requests)) != NULL)
        drop_pending(list_item(node, struct pending, node));
    b->n_requests = 0;
    if (b->call)
        call_forget(b->call);
    b->call = NULL;
    session_forget_hello(s);
    free(b->away_hello);
    b->away_hello = NULL;
    buf_done(&b->input);
}

static void drop_views(struct session *s)
{
    if (!s->views)
        return;
    list_each (it, &s->views->openings)
        opening_end(list_item(it, struct opening, in_session));
    free(s->views);
    s->views = NULL;
}

/* Releases everything but the replies. */
static void session_let_go(struct session *s)
{
    watching_drop(s);
    list_each (it, &s->subscriptions)
        subscription_end(list_item(it, struct subscription, in_session));
    drop_views(s);
    drop_requests(s);
    if (s->away)
        s->hub->o.home->close(s->away);
    s->away = NULL;
    s->away_waits = false;
    timer_disarm(&s->hub->clock, &s->timer);
}

void session_done(struct session *s)
{
    session_let_go(s);
    if (s->backlog) {
        drop_replies(s->backlog, &s->backlog->replies);
        drop_replies(s->backlog, &s->backlog->urgent);
        session_settle(s);
    }
    list_remove(&s->woken);
    list_remove(&s->in_grant);
    rights_unref(s->rights);
    s->rights = NULL;
    if (s->owner) {
        session_count(s, -1);
        owner_unref(s->hub, s->owner);
        owner_unref(s->hub, s->quota);
    }
    s->owner = s->quota = NULL;
}

void session_wake(struct session *s)
{
    if (!list_is_in(&s->woken))
        list_push(&s->hub->woken, &s->woken);
}

static void queue_line(struct session *s, struct list *where, struct str line)
{
    struct reply *r = xalloc(sizeof *r + line.n);
    *r = (struct reply){.len = line.n};
    memcpy(r->line, line.p, line.n);
    list_push(where, &r->node);
    s->backlog->n_replies++;
    s->backlog->reply_bytes += line.n;
    session_wake(s);
}

void session_put_reply(struct session *s, struct str line)
{
    queue_line(s, &session_backlog(s)->replies, line);
}

void session_put_urgent(struct session *s, struct str line)
{
    queue_line(s, &session_backlog(s)->urgent, line);
}

/* Nothing may come before welcome: a session that had none gets this after it. */
void session_say_goaway(struct session *s)
{
    if (s->state != SESSION_OPEN)
        return;
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"goaway\"");
    js_put_int(&line, "retry_after_ms", GOAWAY_RETRY_MS);
    buf_putc(&line, '}');
    session_put_reply(s, buf_str(&line));
    buf_done(&line);
}

void session_close(struct session *s, enum close_code code)
{
    if (s->state == SESSION_CLOSING)
        return;
    s->state = SESSION_CLOSING;
    s->close_code = code;
    session_let_go(s);
    session_wake(s);
}

void session_push_error(struct session *s, enum error e, struct str id, const char *message)
{
    struct buf line = {0};
    error_line(&line, e, id, message, -1, -1);
    session_put_reply(s, buf_str(&line));
    buf_done(&line);
}

/* --- requests --------------------------------------------------------------------------------- */

static void on_reply(void *arg, enum error error, struct str line)
{
    struct session *s = arg;
    s->backlog->call = NULL;
    if (error == ERR_NOT_FOUND && s->resumes)
        s->lines.tokens -= 1; /* it is free only for own tasks */
    session_put_reply(s, line);
    if (!s->running)
        session_run(s);
}

static void request(struct session *s, struct request *req)
{
    struct asker who = session_asker(s, s);
    s->backlog->call = hub_request(s->hub, &who, req, on_reply, s);
}

static void carry_out(struct session *s, struct pending *p)
{
    s->resumes = !p->is_reply && p->req.verb == VERB_RESUME;
    if (p->is_reply)
        session_put_reply(s, buf_str(&p->line));
    else if (p->req.verb == VERB_HELLO)
        session_hello(s, &p->req);
    else
        request(s, &p->req);
    drop_pending(p);
}

static void session_take_lines(struct session *s, struct str message);

/* One after the other: the next begins when the previous one has replied. */
static void session_run(struct session *s)
{
    struct backlog *b = s->backlog;
    s->running = true;
    while (b && !b->call && !b->hello && b->reply_bytes < MAX_REPLY &&
           s->state != SESSION_CLOSING) {
        struct list *node = list_pop(&b->requests);
        if (!node)
            break;
        b->n_requests--;
        carry_out(s, list_item(node, struct pending, node));
    }
    s->running = false;
}

/* Behind a hello that waits for its code nothing is read: it decides whose requests these are. */
static bool session_has_room(const struct session *s)
{
    return !(s->backlog && s->backlog->hello) && session_n_waiting(s) < MAX_REPLIES_WAITING;
}

static struct pending *wait_in_line(struct session *s)
{
    struct backlog *b = session_backlog(s);
    struct pending *p = xcalloc(sizeof *p);
    list_push(&b->requests, &p->node);
    b->n_requests++;
    return p;
}

static void pong(struct session *s, const struct request *r)
{
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"pong\"");
    if (r->id.p)
        js_put_field(&line, "id", r->id);
    js_put_int(&line, "ts", s->hub->clock.wall_ms);
    buf_putc(&line, '}');
    session_put_urgent(s, buf_str(&line));
    buf_done(&line);
}

/* A bucket of burst lines that fills at requests_per_second.  Refused lines cost as well: a client
 * that goes past twice the burst is flooding. */
static void refill(struct session *s)
{
    const struct hub_limits *l = &s->hub->o.limits;
    bucket_fill(&s->lines, s->hub->clock.now_ms, l->requests_per_second, l->burst);
}

void session_charge(struct session *s, uint32_t lines)
{
    if (s->away) {
        s->away_charge += lines;
        return;
    }
    refill(s);
    s->lines.tokens -= lines;
}

static bool is_charged(struct session *s, bool is_resume)
{
    refill(s);
    if (is_resume && s->free_resumes > 0) {
        s->free_resumes--;
        return true;
    }
    s->lines.tokens -= 1;
    return s->lines.tokens >= 0;
}

static void refuse_rate(struct session *s, struct str id)
{
    const struct hub_limits *l = &s->hub->o.limits;
    struct pending *p = wait_in_line(s);
    p->is_reply = true;
    /* The line that comes then costs one as well. */
    msec_t wait = bucket_wait_ms(&s->lines, l->requests_per_second);
    s->hub->stats.limit_hits[LIMIT_RATE]++;
    s->hub->stats.refusals[ERR_RATE_LIMITED]++;
    error_line(&p->line, ERR_RATE_LIMITED, id, "too many requests", wait, -1);
    if (s->lines.tokens < -(double)l->burst) {
        session_put_reply(s, buf_str(&p->line));
        session_close(s, CLOSE_FLOOD);
    }
}

static void refuse_fault(struct session *s, const struct request_fault *fault)
{
    struct pending *p = wait_in_line(s);
    p->is_reply = true;
    s->hub->stats.refusals[fault->code]++;
    error_line(&p->line, fault->code,
               fault->has_id ? (struct str){fault->id, fault->id_len} : STR_NULL, fault->message,
               -1, -1);
    if (!fault->malformed)
        return;
    msec_t now = s->hub->clock.now_ms;
    if (s->n_malformed == 0 || now - s->malformed_since > MINUTE_MS) {
        s->malformed_since = now;
        s->n_malformed = 0;
    }
    if (++s->n_malformed < MAX_MALFORMED_PER_MINUTE)
        return;
    /* Answers earlier requests first, as far as possible; then this one, the last. */
    struct buf last = {0};
    buf_putstr(&last, buf_str(&p->line));
    session_run(s); /* may carry out and free p */
    if (s->backlog->n_requests > 0)
        session_put_reply(s, buf_str(&last));
    buf_done(&last);
    session_close(s, CLOSE_POLICY);
}

static void accept(struct session *s, struct request *r)
{
    if (r->verb == VERB_PING) {
        pong(s, r);
        request_done(r);
        return;
    }
    struct pending *p = wait_in_line(s);
    p->req = *r;
}

/* A line that is no request may be corrected, and one without memory may be sent again; any other
 * type must not come first. */
static bool is_hello(const struct js_doc *doc, const struct request_fault *fault)
{
    if (fault && (fault->malformed || doc->n_nodes == 0))
        return true;
    uint32_t type = js_get(doc, 0, "type");
    return type && js_is(doc, type, "hello");
}

static void session_take_line(struct session *s, struct str line)
{
    struct request r;
    struct request_fault fault;
    bool good = request_decode(&s->hub->doc, line, s->strict, &r, &fault);
    struct str id = good ? r.id : fault.has_id ? (struct str){fault.id, fault.id_len} : STR_NULL;
    if (s->state == SESSION_HELLO && !is_hello(&s->hub->doc, good ? NULL : &fault)) {
        session_push_error(s, ERR_UNAUTHORIZED, id, "the first line of a connection must be hello");
        session_close(s, CLOSE_UNAUTHORIZED);
        if (good)
            request_done(&r);
        return;
    }
    if (!is_charged(s, good && r.verb == VERB_RESUME)) {
        refuse_rate(s, id);
        if (good)
            request_done(&r);
        return;
    }
    if (good)
        accept(s, &r);
    else
        refuse_fault(s, &fault);
}

/* Takes lines while there is room for their replies; the rest of the message waits, and the rim
 * stops reading. */
static void session_take_lines(struct session *s, struct str message)
{
    while (message.n > 0 && !s->away && s->state != SESSION_CLOSING && session_has_room(s)) {
        const char *newline = memchr(message.p, '\n', message.n);
        size_t n = newline ? (size_t)(newline - message.p) : message.n;
        struct str line = {message.p, n};
        size_t used = newline ? n + 1 : n;
        if (!str_is_blank(line)) {
            session_take_line(s, line);
            session_run(s);
        }
        message.p += used;
        message.n -= used;
    }
    if (s->away && message.n > 0)
        away_receive(s, message);
    if (s->away || s->state == SESSION_CLOSING)
        message.n = 0;
    struct buf rest = {0};
    if (message.n)
        buf_putstr(&rest, message);
    if (s->backlog)
        buf_done(&s->backlog->input);
    if (rest.len)
        session_backlog(s)->input = rest;
    bool hold = rest.len > 0 || (!s->away && !session_has_room(s));
    if (hold != s->held) {
        s->held = hold;
        s->ops->hold(s, hold);
    }
}

static bool is_empty(struct str message)
{
    for (size_t i = 0; i < message.n; i++)
        if (message.p[i] != '\n' && !str_is_blank((struct str){message.p + i, 1}))
            return false;
    return true;
}

/* An empty message was read nevertheless, and perhaps expanded from next to nothing, so it costs a
 * line. */
static void take_empty(struct session *s)
{
    if (is_charged(s, false))
        return;
    refuse_rate(s, STR_NULL);
    session_run(s);
}

void session_receive(struct session *s, struct str message)
{
    if (s->state == SESSION_CLOSING)
        return;
    if (s->away) {
        away_receive(s, message);
        return;
    }
    if (is_empty(message))
        take_empty(s);
    if (!s->backlog || s->backlog->input.len == 0) {
        session_take_lines(s, message);
        return;
    }
    buf_putc(&s->backlog->input, '\n');
    buf_putstr(&s->backlog->input, message);
}

void session_receive_binary(struct session *s)
{
    if (s->state == SESSION_CLOSING)
        return;
    const struct request_fault fault = {
        .code = ERR_BAD_REQUEST, .message = "messages must be text, not binary", .malformed = true};
    refuse_fault(s, &fault);
    session_run(s);
}

/* Sent messages have made room. */
void session_go_on(struct session *s)
{
    if (s->state == SESSION_CLOSING)
        return;
    session_run(s);
    if (s->held && session_has_room(s)) {
        struct buf input = {0};
        if (s->backlog) {
            input = s->backlog->input;
            s->backlog->input = (struct buf){0};
        }
        session_take_lines(s, buf_str(&input));
        buf_done(&input);
    }
}
