/* Packs a session's output into messages: pongs, replies, newest states, then events. */
#include <stdio.h>
#include <stdlib.h>

#include "core/home.h"
#include "core/load.h"
#include "core/watching.h"

struct message {
    struct buf *out;
    size_t start, max;
};

static size_t room(const struct message *m)
{
    size_t used = m->out->len - m->start;
    return used + 1 < m->max ? m->max - used - 1 : 0;
}

/* False when it does not fit after what is there: it opens the next message, alone if need be. */
static bool fits(const struct message *m, size_t len)
{
    return m->out->len == m->start || len <= room(m);
}

static void session_put_line(struct message *m, struct str line)
{
    if (m->out->len > m->start)
        buf_putc(m->out, '\n');
    buf_putstr(m->out, line);
}

static bool put_queue(struct backlog *b, struct list *replies, struct message *m)
{
    while (!list_is_empty(replies)) {
        struct reply *r = list_item(replies->next, struct reply, node);
        if (!fits(m, r->len))
            return false;
        session_put_line(m, (struct str){r->line, r->len});
        list_remove(&r->node);
        b->n_replies--;
        b->reply_bytes -= r->len;
        free(r);
    }
    return true;
}

/* False when there is no room for what would come next. */
static bool put_replies(struct session *s, struct message *m)
{
    struct backlog *b = s->backlog;
    if (b && !put_queue(b, &b->urgent, m))
        return false;
    return !s->away_waits && (!b || put_queue(b, &b->replies, m));
}

static bool put_feeds(struct session *s, struct message *m)
{
    while (s->views && !list_is_empty(&s->views->ready_openings)) {
        struct opening *o = list_item(s->views->ready_openings.next, struct opening, ready);
        struct feed *feed = o->conversation ? &o->conversation->feed : &s->owner->watch;
        size_t len;
        while ((len = feed_peek(feed, &o->reader)) > 0) {
            if (!fits(m, len))
                return false;
            session_put_line(m, feed_next(feed, &o->reader));
        }
        list_remove(&o->ready);
    }
    return true;
}

static void put_caught_up(struct subscription *sub, struct message *m)
{
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"caught_up\"");
    js_put_field(&line, "task_id", (struct str){sub->cursor.stream->task_id, TASK_ID_LEN});
    js_put_int(&line, "seq", (int64_t)sub->caught_up_at);
    buf_putc(&line, '}');
    session_put_line(m, buf_str(&line));
    buf_done(&line);
    sub->marks = sub->coalesce = false;
    struct hub *h = sub->session->hub;
    histogram_add(&h->stats.caught_up_time, (uint32_t)h->clock.now_ms - sub->since);
}

/* The lines after seq after, up to seq last: all of them, until a replay comes to its end. */
static struct str lines_up_to(struct str lines, uint64_t after, uint64_t last)
{
    const char *at = lines.p;
    if (event_last_seq(lines) <= last)
        return lines;
    for (uint64_t n = last - after; n > 0 && at < lines.p + lines.n; n--)
        at = (const char *)memchr(at, '\n', lines.n - (size_t)(at - lines.p)) + 1;
    return (struct str){lines.p, (size_t)(at - lines.p)};
}

enum progress { WENT_ON, NO_ROOM, NOTHING_MORE };

static void put_lines(struct subscription *sub, struct str lines, struct message *m)
{
    session_put_line(m, lines);
    if (sub->marks)
        sub->session->hub->stats.replayed_bytes += lines.n;
}

static bool ends_with_text(struct str lines)
{
    return event_lines_are_text(event_last_line(lines));
}

/* Whether pieces of text go out as one. */
static bool session_joins(const struct subscription *sub)
{
    return (sub->rollup && sub->cursor.seq >= sub->rollup->exact_until) ||
           (sub->marks && sub->coalesce);
}

/* Live text waits until the last one is old enough; anything else takes it along. */
static bool session_holds_back(struct subscription *sub, struct str lines)
{
    struct clock *clock = &sub->session->hub->clock;
    struct rollup *r = sub->rollup;
    if (!r || sub->marks || sub->cursor.seq < r->exact_until)
        return false;
    msec_t at = r->text_at + r->every_ms;
    size_t seen = r->held <= lines.n ? r->held : 0;
    if (clock->now_ms >= at || lines.n >= MAX_MESSAGE_OUT / 2 ||
        !event_lines_are_text((struct str){lines.p + seen, lines.n - seen}))
        return false;
    r->held = lines.n;
    if (!timer_is_armed(&r->due))
        timer_arm(clock, &r->due, at);
    list_remove(&sub->ready);
    return true;
}

static enum progress session_put_run(struct subscription *sub, struct str lines, struct message *m)
{
    struct cursor *c = &sub->cursor;
    if (sub->watched)
        watching_moved(sub->session);
    if (sub->marks)
        lines = lines_up_to(lines, c->seq, sub->caught_up_at);
    if (sub->rollup)
        sub->rollup->held = 0;
    if (sub->rollup && ends_with_text(lines))
        sub->rollup->text_at = sub->session->hub->clock.now_ms;
    if (!session_joins(sub)) {
        if (!fits(m, lines.n - 1))
            return NO_ROOM;
        put_lines(sub, (struct str){lines.p, lines.n - 1}, m);
        cursor_take(c, lines);
        return WENT_ON;
    }
    struct buf *merged = &sub->session->hub->scratch;
    buf_clear(merged);
    event_coalesce(lines, merged);
    if (!fits(m, merged->len - 1))
        return NO_ROOM;
    put_lines(sub, (struct str){merged->bytes, merged->len - 1}, m);
    cursor_take(c, lines);
    return WENT_ON;
}

static enum progress put_and_read_on(struct subscription *sub, struct str lines, struct message *m)
{
    enum progress p = session_put_run(sub, lines, m);
    load_ahead(sub->session->hub, &sub->cursor);
    return p;
}

/* Its events can no longer be delivered: tells the client, instead of skipping them silently. */
static void end_untold(struct subscription *sub)
{
    const struct stream *s = sub->cursor.stream;
    if (s->unread && sub->watched && !s->gone && !cursor_is_cut_off(&sub->cursor)) {
        watching_postpone(sub->session, &sub->cursor);
        subscription_end(sub);
        return;
    }
    const char *what = "events are damaged: task";
    enum error e = ERR_INTERNAL;
    char why[96];
    if (s->gone) {
        e = ERR_NOT_FOUND;
        what = "a followed task was deleted:";
    } else if (cursor_is_cut_off(&sub->cursor)) {
        e = ERR_NOT_FOUND;
        what = "events of a followed task were removed:";
    } else if (s->unread) {
        e = ERR_OVERLOADED;
        what = "events cannot be read now: task";
    }
    snprintf(why, sizeof why, "%s %s", what, s->task_id);
    session_push_error(sub->session, e, STR_NULL, why);
    subscription_end(sub);
}

/* One step of one subscription.  NOTHING_MORE: it is no longer ready, or no longer exists. */
static enum progress put_events(struct subscription *sub, struct message *m)
{
    struct cursor *c = &sub->cursor;
    struct hub *h = sub->session->hub;
    struct str lines;
    if (cursor_is_cut_off(c)) {
        end_untold(sub);
        return NOTHING_MORE;
    }
    if (sub->marks && c->seq >= sub->caught_up_at) {
        if (!fits(m, 128))
            return NO_ROOM;
        put_caught_up(sub, m);
    }
    /* A merged replay reads a whole run at a time, however little room is left. */
    size_t max = session_joins(sub) ? MAX_MESSAGE_OUT : room(m);
    switch (cursor_peek(c, &h->cache, max, &lines)) {
    case READ_LINES:
        return session_holds_back(sub, lines) ? NOTHING_MORE : put_and_read_on(sub, lines, m);
    case READ_LOAD:
        list_remove(&sub->ready);
        if (c->stream->broken || c->stream->unread)
            end_untold(sub);
        else
            load_begin(h, c);
        return NOTHING_MORE;
    case READ_NONE: break;
    }
    list_remove(&sub->ready);
    if (c->stream->ended)
        subscription_end(sub);
    return NOTHING_MORE;
}

/* In turn, so that one long replay does not delay the others. */
static bool put_subscriptions(struct session *s, struct message *m)
{
    while (!list_is_empty(&s->ready)) {
        struct subscription *sub = list_item(s->ready.next, struct subscription, ready);
        enum progress p = put_events(sub, m);
        if (p == NO_ROOM)
            return false;
        if (p == WENT_ON) {
            list_remove(&sub->ready);
            list_push(&s->ready, &sub->ready);
            if (room(m) == 0)
                return false;
        }
    }
    return true;
}

/* Behind the lines that it holds for. */
static void put_cursor(struct session *s, struct message *m)
{
    struct buf line = {0};
    if (!watching_is_due(s))
        return;
    watching_put_cursor(s, &line);
    if (fits(m, line.len)) {
        session_put_line(m, buf_str(&line));
        watching_told(s);
    }
    buf_done(&line);
}

bool session_has_output(const struct session *s)
{
    const struct backlog *b = s->backlog;
    if (b && (!list_is_empty(&b->urgent) || (!s->away_waits && !list_is_empty(&b->replies))))
        return true;
    return !list_is_empty(&s->ready) ||
           (s->views && (!list_is_empty(&s->views->ready_openings) || watching_is_due(s)));
}

bool session_fill(struct session *s, struct buf *out, size_t max)
{
    struct message m = {.out = out, .start = out->len, .max = max};
    size_t waited = session_reply_bytes(s);
    if (!hub_is_trusted(s->hub)) /* it waits in the session, whatever it is */
        return false;
    if (s->too_slow)
        session_close(s, CLOSE_SLOW);
    if (put_replies(s, &m) && put_feeds(s, &m))
        put_subscriptions(s, &m);
    put_cursor(s, &m);
    if (s->away)
        s->hub->o.home->took(s->away, waited - session_reply_bytes(s));
    session_go_on(s);
    watching_go_on(s);
    session_settle(s);
    return out->len > m.start;
}
