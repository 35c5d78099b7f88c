/* Everything that a session follows: tasks (subscriptions), conversations and the owner's list
 * (openings). */
#include <stdio.h>
#include <stdlib.h>

#include "core/session.h"

static void on_cursor_wake(struct cursor *cursor)
{
    struct subscription *sub = container_of(cursor, struct subscription, cursor);
    if (!list_is_in(&sub->ready))
        list_push(&sub->session->ready, &sub->ready);
    session_wake(sub->session);
}

static void on_rollup_due(struct timer *timer)
{
    on_cursor_wake(&container_of(timer, struct rollup, due)->subscription->cursor);
}

void subscription_roll_up(struct subscription *sub, uint32_t every_ms)
{
    if (every_ms == 0) {
        if (sub->rollup)
            timer_disarm(&sub->session->hub->clock, &sub->rollup->due);
        free(sub->rollup);
        sub->rollup = NULL;
        return;
    }
    if (!sub->rollup) {
        sub->rollup = xcalloc(sizeof *sub->rollup);
        sub->rollup->subscription = sub;
        sub->rollup->due.fire = on_rollup_due;
    }
    sub->rollup->every_ms = every_ms;
}

void subscription_end(struct subscription *sub)
{
    struct session *s = sub->session;
    struct stream *stream = sub->cursor.stream;
    subscription_roll_up(sub, 0);
    cursor_detach(&sub->cursor);
    list_remove(&sub->in_session);
    list_remove(&sub->ready);
    s->n_subscriptions--;
    free(sub);
    hub_release_stream(s->hub, stream);
}

static bool is_of_opening(const struct subscription *sub, const struct opening *o)
{
    return sub->opened && o->conversation &&
           str_eq(stream_conversation_id(sub->cursor.stream), str_of(o->conversation->id));
}

void opening_end(struct opening *o)
{
    struct conversation *c = o->conversation;
    list_each (it, &o->session->subscriptions) {
        struct subscription *sub = list_item(it, struct subscription, in_session);
        sub->opened = sub->opened && !is_of_opening(sub, o);
    }
    o->session->views->n_openings--;
    feed_leave(c ? &c->feed : &o->session->owner->watch, &o->reader);
    list_remove(&o->in_session);
    list_remove(&o->ready);
    list_remove(&o->follower.node);
    free(o);
    if (c)
        conversation_unref(c);
}

struct subscription *session_find(const struct session *s, const struct stream *stream)
{
    list_each (it, &s->subscriptions) {
        struct subscription *sub = list_item(it, struct subscription, in_session);
        if (sub->cursor.stream == stream)
            return sub;
    }
    return NULL;
}

/* An existing one is moved: a task is never followed twice. */
struct subscription *session_subscribe(struct session *s, struct stream *stream, uint64_t after)
{
    struct subscription *sub = session_find(s, stream);
    if (sub) {
        subscription_roll_up(sub, 0);
        cursor_detach(&sub->cursor);
    } else {
        sub = xcalloc(sizeof *sub);
        sub->session = s;
        sub->cursor.wake = on_cursor_wake;
        list_push(&s->subscriptions, &sub->in_session);
        s->n_subscriptions++;
    }
    sub->opened = sub->coalesce = sub->marks = false;
    sub->since = (uint32_t)s->hub->clock.now_ms;
    cursor_attach(&sub->cursor, stream, after);
    on_cursor_wake(&sub->cursor);
    return sub;
}

void session_unsubscribe(struct session *s, struct stream *stream)
{
    struct subscription *sub = session_find(s, stream);
    if (sub)
        subscription_end(sub);
}

bool session_may_follow(const struct session *s, const struct stream *stream)
{
    return s->n_subscriptions < s->hub->o.limits.subscriptions || session_find(s, stream);
}

/* If the task cannot be followed, the client is told. */
static void follow(struct opening *o, struct stream *stream, uint64_t after)
{
    struct session *s = o->session;
    if (session_find(s, stream))
        return;
    if (session_may_follow(s, stream)) {
        struct subscription *sub = session_subscribe(s, stream, after);
        sub->opened = true;
        subscription_roll_up(sub, o->rollup_ms);
        return;
    }
    char why[96];
    snprintf(why, sizeof why, FOLLOWS_TOO_MUCH ": not task %s", stream->task_id);
    s->hub->stats.limit_hits[LIMIT_SUBSCRIPTIONS]++;
    session_push_error(s, ERR_OVERLOADED, STR_NULL, why);
}

static void on_feed_wake(struct feed_reader *reader)
{
    struct opening *o = container_of(reader, struct opening, reader);
    if (o->held)
        return;
    if (!list_is_in(&o->ready))
        list_push(&o->session->views->ready_openings, &o->ready);
    session_wake(o->session);
}

static void on_feed_lost(struct feed_reader *reader)
{
    struct opening *o = container_of(reader, struct opening, reader);
    o->session->too_slow = true; /* closed in its own turn, because the feed is being walked */
    session_wake(o->session);
}

static struct opening *find_opening(struct session *s, const struct conversation *c)
{
    if (!s->views)
        return NULL;
    list_each (it, &s->views->openings) {
        struct opening *o = list_item(it, struct opening, in_session);
        if (o->conversation == c)
            return o;
    }
    return NULL;
}

static void on_task_came(struct follower *follower, struct stream *stream)
{
    follow(container_of(follower, struct opening, follower), stream, 0);
}

static void follow_all(struct opening *o)
{
    list_each (it, &o->conversation->tasks) {
        const struct task *t = list_item(it, const struct task, in_conversation);
        bool came_since = memcmp(task_id_of(t).p, o->newest, TASK_ID_LEN) > 0;
        if (t->phase != PHASE_CREATING)
            follow(o, t->stream, came_since ? 0 : t->stream->head);
    }
    if (!list_is_in(&o->follower.node))
        list_push(&o->conversation->followers, &o->follower.node);
}

bool session_may_open(struct session *s, const struct conversation *c, bool follow)
{
    uint32_t max = s->hub->o.limits.subscriptions, more = 0;
    list_each (it, &c->tasks) {
        const struct task *t = list_item(it, const struct task, in_conversation);
        more += t->phase != PHASE_CREATING && !session_find(s, t->stream);
    }
    if (follow && s->n_subscriptions + more > max)
        return false;
    return !s->views || s->views->n_openings < max || find_opening(s, c);
}

struct opening *session_open(struct session *s, struct conversation *c, bool follow)
{
    struct opening *o = find_opening(s, c);
    if (!o) {
        o = xcalloc(sizeof *o);
        o->fresh = true;
        session_views(s)->n_openings++;
        o->session = s;
        o->conversation = c;
        if (c)
            c->refs++;
        o->follower.task_came = on_task_came;
        o->reader.wake = on_feed_wake;
        o->reader.lost = on_feed_lost;
        list_push(&s->views->openings, &o->in_session);
        feed_join(c ? &c->feed : &s->owner->watch, &o->reader);
    }
    o->held = true;
    o->follow = follow;
    if (!follow)
        list_remove(&o->follower.node);
    return o;
}

static bool may_read(struct feed_reader *reader, struct str conversation_id)
{
    const struct opening *o = container_of(reader, struct opening, reader);
    return rights_allow(o->session->rights, conversation_id, STR_NULL, RIGHT_READ);
}

struct opening *session_watch(struct session *s)
{
    struct opening *o = session_open(s, NULL, false);
    o->reader.wants = rights_are_whole(s->rights) ? NULL : may_read;
    return o;
}

/* Its snapshot is ready: from here on it gets changes, and with follow every live task from its
 * head. */
void opening_release(struct opening *o)
{
    o->held = o->fresh = false;
    if (o->follow)
        follow_all(o);
    on_feed_wake(&o->reader);
}

/* Subscriptions of the opening end with it; those that the client made by itself stay. */
void session_shut(struct session *s, struct conversation *c)
{
    struct opening *o = find_opening(s, c);
    if (!o)
        return;
    list_each (it, &s->subscriptions) {
        struct subscription *sub = list_item(it, struct subscription, in_session);
        if (is_of_opening(sub, o) && !sub->watched)
            subscription_end(sub);
    }
    opening_end(o);
}
