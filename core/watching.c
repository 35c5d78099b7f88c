#include "core/watching.h"

#include <stdlib.h>

#include "proto/ulid.h"
#include "proto/watch_cursor.h"

#define AHEAD 16      /* ended tasks that are read at a time */
#define MANY_STALE 4  /* answers that are older, or newer, than what memory knows */
#define AGAIN_MS 1000 /* a store that could not be read is asked again then */

enum stage {
    STAGE_NEWEST, /* which task is the newest? */
    STAGE_LIVE,   /* those up to it that had not ended when it began */
    STAGE_ALL     /* all behind it */
};

struct place {
    struct watch_place at;
    bool told; /* the client knows of it, on this connection */
};

struct watching {
    struct follower follower; /* of the owner's tasks */
    struct hub *hub;
    struct owner *owner;     /* the session's */
    struct session *session; /* NULL: gone */
    bool has_ended;          /* the store's answer is awaited */
    enum stage stage;
    char newest[TASK_ID_LEN + 1]; /* STAGE_ALL: all tasks up to this one are followed, or done */
    char at[TASK_ID_LEN + 1];     /* STAGE_LIVE: the same of those that had not ended */
    int64_t began_at;             /* wall_ms … */
    int64_t set_back_ms;          /* … by the clock that had been set back so far */
    bool is_behind;               /* STAGE_LIVE: those left of it may have ended since */
    struct place *places;         /* to be followed, from there */
    size_t n_places;
    uint64_t epoch; /* of the store, when the places were told */
    uint32_t rollup_ms;
    bool asking, more; /* there may be more behind newest */
    bool asks_place;   /* asking: for the first of the places */
    unsigned n_stale;  /* so many answers in a row were out of date */
    bool moved;        /* since the last cursor */
    msec_t told_at;
    struct timer due;   /* a cursor is */
    struct timer again; /* armed: the store is asked then, and not before */
};

/* --- cursors ---------------------------------------------------------------------------------- */

void watching_moved(struct session *s)
{
    if (session_watching(s))
        session_watching(s)->moved = true;
}

bool watching_is_due(const struct session *s)
{
    const struct watching *w = session_watching(s);
    return w && w->moved && w->stage == STAGE_ALL &&
           s->hub->clock.now_ms >= w->told_at + WATCH_CURSOR_MS;
}

/* Where each task is: those that wait to be followed too. */
static void fill_cursor(const struct watching *w, struct watch_cursor *ret)
{
    *ret = (struct watch_cursor){.epoch = w->n_places ? w->epoch : (uint64_t)w->hub->epoch};
    memcpy(ret->newest, w->newest, sizeof ret->newest);
    for (size_t i = 0; i < w->n_places; i++)
        ret->places[ret->n_places++] = w->places[i].at;
    list_each (it, &w->session->subscriptions) {
        const struct subscription *sub = list_item(it, const struct subscription, in_session);
        if (!sub->watched || sub->cursor.stream->gone)
            continue;
        ASSERT(ret->n_places < WATCH_CURSOR_TASKS);
        struct watch_place *place = &ret->places[ret->n_places++];
        memcpy(place->task_id, sub->cursor.stream->task_id, sizeof place->task_id);
        place->seq = sub->cursor.seq;
    }
}

void watching_put_cursor(struct session *s, struct buf *out)
{
    struct watch_cursor *c = xcalloc(sizeof *c);
    fill_cursor(session_watching(s), c);
    buf_puts(out, "{\"type\":\"cursor\",\"cursor\":\"");
    watch_cursor_write(c, out);
    buf_puts(out, "\"}");
    free(c);
}

void watching_told(struct session *s)
{
    struct watching *w = session_watching(s);
    w->moved = false;
    w->told_at = s->hub->clock.now_ms;
}

static void watching_on_due(struct timer *timer)
{
    session_wake(container_of(timer, struct watching, due)->session);
}

/* --- following -------------------------------------------------------------------------------- */

static void forget_place(struct watching *w)
{
    w->n_places--;
    memmove(w->places, w->places + 1, w->n_places * sizeof *w->places);
}

/* Its subscriptions, and how many of them are of tasks that have ended. */
static size_t watching_count(const struct watching *w, size_t *ret_ended)
{
    size_t n = 0;
    *ret_ended = 0;
    list_each (it, &w->session->subscriptions) {
        const struct subscription *sub = list_item(it, const struct subscription, in_session);
        n += sub->watched;
        *ret_ended += sub->watched && sub->cursor.stream->ended;
    }
    return n;
}

/* For one more, or for that whose place is asked for. */
static bool watching_has_room(const struct watching *w)
{
    const struct session *s = w->session;
    size_t ended, n = watching_count(w, &ended) + w->n_places - w->asks_place;
    return n < WATCH_CURSOR_TASKS && ended < AHEAD &&
           session_n_replies(s) < MAX_REPLIES_WAITING / 2 &&
           s->n_subscriptions < s->hub->o.limits.subscriptions;
}

static void tell_following(struct session *s, const struct task_record *task, uint64_t after,
                           struct stream_bounds have)
{
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"following\"");
    js_put_raw(&line, "task", STR(""));
    task_write(&line, task, false);
    js_put_int(&line, "after", (int64_t)after);
    js_put_int(&line, "head", (int64_t)have.head);
    if (after + 1 == have.first && after > 0)
        js_put_int(&line, "first", (int64_t)have.first);
    if (s->hub->epoch)
        js_put_int(&line, "epoch", s->hub->epoch);
    buf_putc(&line, '}');
    session_put_reply(s, buf_str(&line));
    buf_done(&line);
}

/* From where the task is told: an event that the store has lost since, or never had, is none. */
static uint64_t place_in(const struct watching *w, const struct stream *s, uint64_t seq,
                         struct stream_bounds have)
{
    bool lost = w->epoch < (uint64_t)w->hub->epoch && s->task_key >> 32 < w->hub->epoch;
    if (lost || seq > have.head)
        seq = 0;
    return seq + 1 < have.first ? have.first - 1 : seq;
}

/* A task that the session followed before is moved back, if need be: its events come again.  What a
 * resume has still to say, it says. */
static struct subscription *follow_from(struct session *session, struct stream *s, uint64_t after)
{
    struct subscription *sub = session_find(session, s);
    if (sub && sub->cursor.seq <= after)
        return sub;
    struct subscription was = sub ? *sub : (struct subscription){0};
    uint32_t rollup_ms = was.rollup ? was.rollup->every_ms : 0;
    sub = session_subscribe(session, s, after);
    sub->opened = was.opened;
    subscription_roll_up(sub, rollup_ms);
    sub->marks = was.marks;
    sub->caught_up_at = was.caught_up_at;
    if (sub->rollup)
        sub->rollup->exact_until = stream_bounds(s).head;
    return sub;
}

static void watching_roll_up(const struct watching *w, struct subscription *sub, uint64_t head)
{
    bool is_first = !sub->rollup;
    if (w->rollup_ms == 0)
        return;
    subscription_roll_up(sub, w->rollup_ms);
    if (is_first)
        sub->rollup->exact_until = head;
}

static void attach(struct watching *w, struct stream *s, const struct task_record *task,
                   const struct place *from)
{
    struct session *session = w->session;
    struct stream_bounds have = stream_bounds(s);
    struct subscription *sub = session_find(session, s);
    uint64_t after = place_in(w, s, from->at.seq, have);
    w->moved = true;
    if ((sub && sub->watched) || (have.ended && after >= have.head)) /* all of it was told */
        return;
    sub = follow_from(session, s, after);
    sub->watched = true;
    watching_roll_up(w, sub, have.head);
    if (!from->told || sub->cursor.seq != from->at.seq)
        tell_following(session, task, sub->cursor.seq, have);
}

enum taken { TAKEN, TAKE_AGAIN };

/* The record may be older than what memory knows, like that of resume. */
static enum taken take_task(struct watching *w, const struct task_record *task,
                            const struct place *from)
{
    struct hub *h = w->hub;
    if (!rights_allow(w->session->rights, task->conversation_id, task->task_id, RIGHT_READ))
        return TAKEN;
    struct stream *s = hub_find_stream(h, task->owner, task->conversation_id, task->task_id);
    bool live = s && s->task;
    if (!live && !status_is_terminal(task->state.status))
        return TAKE_AGAIN;
    if (!s && retention_has_taken(&h->retention, task))
        return TAKE_AGAIN;
    if (live && s->task->phase == PHASE_CREATING)
        return TAKE_AGAIN;
    if (!s) {
        s = hub_add_stream(h, task->owner, task->conversation_id, task->task_id, task->key);
        stream_set(s, task->state.first, task->state.head, true);
    }
    struct task_record view = live ? task_view(s->task) : *task;
    s->pins++;
    attach(w, s, &view, from);
    s->pins--;
    hub_release_stream(h, s);
    return TAKEN;
}

/* --- the walk --------------------------------------------------------------------------------- */

static void walk_on(struct watching *w);

static void ask_later(struct watching *w)
{
    timer_arm(&w->hub->clock, &w->again, w->hub->clock.now_ms + AGAIN_MS);
}

static void on_again(struct timer *timer)
{
    walk_on(container_of(timer, struct watching, again));
}

static void walk_take_place(struct watching *w, const struct answer *answer)
{
    const struct place *place = &w->places[0];
    struct str id = {place->at.task_id, TASK_ID_LEN};
    bool found = answer->n_tasks > 0 && str_eq(answer->tasks[0].task_id, id);
    if (found && take_task(w, &answer->tasks[0], place) == TAKE_AGAIN) {
        w->n_stale++;
        return;
    }
    forget_place(w);
    w->moved = true;
}

static void take_newest(struct watching *w, const struct answer *answer)
{
    if (answer->n_tasks > 0 && answer->tasks[0].task_id.n == TASK_ID_LEN)
        memcpy(w->newest, answer->tasks[0].task_id.p, TASK_ID_LEN);
    w->stage = STAGE_LIVE;
}

/* Before it began: for sure, if the clock was set back since then.  Who is told of one more, drops
 * nothing. */
static bool ended_before(const struct watching *w, const struct task_record *task)
{
    int64_t set_back_ms = w->hub->clock.set_back_ms - w->set_back_ms;
    return w->stage == STAGE_LIVE && status_is_terminal(task->state.status) &&
           task->state.completed_at < w->began_at - set_back_ms;
}

/* Rows behind *at, which goes on to the last one that was taken; true when there are no more. */
static bool take_rows(struct watching *w, const struct answer *answer, char at[TASK_ID_LEN + 1])
{
    for (size_t i = 0; i < answer->n_tasks; i++) {
        const struct task_record *task = &answer->tasks[i];
        if (task->task_id.n != TASK_ID_LEN || !ulid_is_valid(task->task_id) ||
            memcmp(task->task_id.p, at, TASK_ID_LEN) <= 0)
            continue;
        if (w->stage == STAGE_LIVE && memcmp(task->task_id.p, w->newest, TASK_ID_LEN) > 0)
            return true;
        if (!watching_has_room(w))
            return false;
        if (!ended_before(w, task) && take_task(w, task, &(struct place){0}) == TAKE_AGAIN) {
            w->n_stale++;
            return false;
        }
        memcpy(at, task->task_id.p, TASK_ID_LEN);
        w->moved = true;
    }
    return !answer->more;
}

static void walk_take_answer(struct watching *w, const struct answer *answer)
{
    unsigned stale = w->n_stale;
    if (w->stage == STAGE_NEWEST) {
        take_newest(w, answer);
    } else if (w->stage == STAGE_LIVE) {
        if (take_rows(w, answer, w->at))
            w->stage = STAGE_ALL;
        w->is_behind = true;
    } else if (w->asks_place) {
        walk_take_place(w, answer);
    } else if (!take_rows(w, answer, w->newest)) {
        w->more = true;
    }
    if (w->n_stale == stale)
        w->n_stale = 0;
    else if (w->n_stale > MANY_STALE)
        ask_later(w);
}

static void watching_free(struct watching *w)
{
    free(w->places);
    free(w);
}

/* The next one of its session may ask. */
static void walk_in_turn(struct watching *w)
{
    struct session *s = w->session;
    watching_free(w);
    if (!s)
        return;
    s->views->walking = NULL;
    if (s->views->watching)
        walk_on(s->views->watching);
}

static void on_walked(void *arg, int status, struct answer *answer)
{
    struct watching *w = arg;
    w->asking = false;
    if (w->has_ended) {
        walk_in_turn(w);
        return;
    }
    if (status == STORE_CORRUPT) {
        session_push_error(w->session, ERR_INTERNAL, STR_NULL, "watch ends: " STALE_RECORD);
        session_shut(w->session, NULL);
        watching_end(w->session);
        return;
    }
    if (status < 0) {
        w->more = true;
        ask_later(w);
    } else {
        walk_take_answer(w, answer);
    }
    session_wake(w->session);
    walk_on(w);
}

static void walk_on(struct watching *w)
{
    bool wants = w->stage != STAGE_ALL || w->n_places || w->more;
    if (w->asking || w->session->views->walking)
        return;
    w->asks_place = w->stage == STAGE_ALL && w->n_places > 0;
    if (!wants || timer_is_armed(&w->again) || !watching_has_room(w))
        return;
    struct query q = {.kind = QUERY_OWNED, .owner = str_of(w->owner->name), .limit = AHEAD + 1};
    if (w->stage == STAGE_LIVE) {
        q.live = !w->is_behind;
        q.key = str_of(w->at);
    } else if (w->asks_place) {
        q.limit = 1;
        q.key = str_of(w->places[0].at.task_id);
    } else if (w->stage == STAGE_ALL) {
        w->more = false;
        q.key = str_of(w->newest);
    }
    w->asking = true;
    hub_query(w->hub, &q, on_walked, w);
}

void watching_go_on(struct session *s)
{
    struct watching *w = session_watching(s);
    if (!w || s->state != SESSION_OPEN)
        return;
    if (w->moved && !watching_is_due(s) && !timer_is_armed(&w->due))
        timer_arm(&w->hub->clock, &w->due, w->told_at + WATCH_CURSOR_MS);
    walk_on(w);
}

static void on_owned_task(struct follower *follower, struct stream *stream)
{
    struct watching *w = container_of(follower, struct watching, follower);
    (void)stream;
    w->more = true;
    if (w->n_stale) /* perhaps this was what the store knew before we did */
        timer_disarm(&w->hub->clock, &w->again);
    walk_on(w);
}

void watching_postpone(struct session *s, const struct cursor *c)
{
    struct watching *w = session_watching(s);
    ASSERT(w && w->n_places < WATCH_CURSOR_TASKS);
    w->places = xrealloc(w->places, (w->n_places + 1) * sizeof *w->places);
    struct place *place = &w->places[w->n_places++];
    *place = (struct place){.at.seq = c->seq, .told = true};
    memcpy(place->at.task_id, c->stream->task_id, sizeof place->at.task_id);
    ask_later(w);
}

/* --- begin and end ---------------------------------------------------------------------------- */

static void take_cursor(struct watching *w, const struct watch_cursor *c)
{
    w->stage = STAGE_ALL;
    w->more = true;
    w->epoch = c->epoch;
    memcpy(w->newest, c->newest, sizeof w->newest);
    w->n_places = c->n_places;
    w->places = xcalloc((c->n_places + 1) * sizeof *w->places);
    for (size_t i = 0; i < c->n_places; i++)
        w->places[i].at = c->places[i];
}

bool watching_begin(struct session *s, const struct request *r)
{
    struct watch_cursor *c = r->cursor.p ? xalloc(sizeof *c) : NULL;
    if (c && !watch_cursor_read(r->cursor, c)) {
        free(c);
        return false;
    }
    watching_end(s);
    struct watching *w = session_views(s)->watching = xcalloc(sizeof *w);
    *w = (struct watching){.hub = s->hub,
                           .session = s,
                           .owner = s->owner,
                           .follower.task_came = on_owned_task,
                           .rollup_ms = (uint32_t)r->rollup_ms,
                           .epoch = (uint64_t)s->hub->epoch,
                           .began_at = s->hub->clock.wall_ms,
                           .set_back_ms = s->hub->clock.set_back_ms,
                           .moved = true, /* the first cursor comes at once */
                           .told_at = s->hub->clock.now_ms - WATCH_CURSOR_MS,
                           .due.fire = watching_on_due,
                           .again.fire = on_again};
    memset(w->newest, '0', TASK_ID_LEN); /* below every id */
    memset(w->at, '0', TASK_ID_LEN);
    if (c)
        take_cursor(w, c);
    free(c);
    list_push(&w->owner->followers, &w->follower.node);
    walk_on(w);
    return true;
}

void watching_end(struct session *s)
{
    struct watching *w = session_watching(s);
    if (!w)
        return;
    s->views->watching = NULL;
    list_each (it, &s->subscriptions)
        list_item(it, struct subscription, in_session)->watched = false;
    timer_disarm(&w->hub->clock, &w->due);
    timer_disarm(&w->hub->clock, &w->again);
    list_remove(&w->follower.node);
    w->has_ended = true;
    if (w->asking)
        s->views->walking = w;
    else
        watching_free(w);
}

void watching_drop(struct session *s)
{
    watching_end(s);
    if (!s->views)
        return;
    if (s->views->walking)
        s->views->walking->session = NULL;
    s->views->walking = NULL;
}
