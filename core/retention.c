/* The driver: next() begins the next step, and each answer and each commit comes back to it.  A
 * removal must not interrupt a reader.  Before events are removed, the stream is dropped from
 * memory; a stream that cannot be dropped is left alone.  A later request for the task reads its
 * record, and retention_has_taken tells that the record may be older than the removal. */
#include "core/retention.h"

#include <stdlib.h>

#include "core/call.h"
#include "core/hub.h"

struct quota {
    struct map_node node;
    struct list queued; /* in the queue, or among the busy */
    unsigned put_off;   /* how often in a row */
    bool full;
    int64_t
        room_at; /* Unix ms: when its first record may be removed; 0: not known, NEVER: none will */
    char name[];
};

#define NEVER INT64_MAX

static void next(struct retention *r);

static struct map_key quota_key(const struct map_node *node)
{
    return (struct map_key){{str_of(container_of(node, const struct quota, node)->name)}};
}

static struct quota *quota_find(const struct retention *r, struct str owner)
{
    struct map_node *node = map_find(&r->owners, (struct map_key){{owner}});
    return node ? container_of(node, struct quota, node) : NULL;
}

static struct quota *quota_get(struct retention *r, struct str owner)
{
    struct quota *q = quota_find(r, owner);
    if (q)
        return q;
    q = xcalloc(sizeof *q + owner.n + 1);
    memcpy(q->name, owner.p, owner.n);
    map_put(&r->owners, &q->node);
    return q;
}

/* Only owners who are full, or wait to be checked, are kept in memory. */
static void quota_release(struct retention *r, struct quota *q)
{
    if (q->full || list_is_in(&q->queued) || r->now == q)
        return;
    map_remove(&r->owners, &q->node);
    free(q);
}

static void set_full(struct retention *r, struct quota *q, bool full)
{
    r->n_full += full - q->full;
    q->full = full;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void forget_removals(struct retention *r)
{
    for (size_t i = 0; i < r->n_removals; i++) {
        free(r->removals[i].owner);
        free(r->removals[i].conversation_id);
    }
    r->n_removals = 0;
}

/* Frees its stream in memory, if there is one; false when something needs it. */
static bool retention_drop_stream(struct hub *h, struct str owner, struct str conversation_id,
                                  struct str task_id)
{
    struct stream *s = hub_find_stream(h, owner, conversation_id, task_id);
    if (!s)
        return true;
    if (s->task || s->pins || s->sealing || s->tail.len || s->load || !list_is_empty(&s->cursors) ||
        list_is_in(&s->dirty) || s->wants_seal)
        return false;
    block_cache_drop(&h->cache, s);
    hub_release_stream(h, s);
    return true;
}

/* The whole task may be removed, with or without readers, but not before its last lines are
 * stored. */
static bool may_go(struct hub *h, const struct task_record *t)
{
    const struct stream *s = hub_find_stream(h, t->owner, t->conversation_id, t->task_id);
    return !s || (!s->task && !s->sealing && !s->tail.len && !list_is_in(&s->dirty));
}

static bool stage(struct retention *r, const struct task_record *t, bool whole, int64_t before)
{
    struct hub *h = r->hub;
    if (!slots_has(&h->open, slot_of(t->owner)))
        return false; /* it was given away meanwhile */
    bool free_of_readers = retention_drop_stream(h, t->owner, t->conversation_id, t->task_id);
    if (t->task_id.n != TASK_ID_LEN || (!free_of_readers && !(whole && may_go(h, t))))
        return false;
    struct removal *gone = &r->removals[r->n_removals++];
    *gone = (struct removal){.task_key = t->key,
                             .whole = whole,
                             .owner = xstrdup(t->owner),
                             .conversation_id = xstrdup(t->conversation_id)};
    memcpy(gone->task_id, t->task_id.p, TASK_ID_LEN);
    chat_files_end(h, &(struct op){.kind = whole ? OP_TASK_REMOVE : OP_EVENTS_REMOVE,
                                   .task_key = t->key,
                                   .owner = t->owner,
                                   .conversation_id = t->conversation_id,
                                   .task_id = t->task_id,
                                   .freed = t->event_bytes,
                                   .at = before});
    return true;
}

/* Tells readers that arrived meanwhile. */
static void tell_readers(struct hub *h, const struct removal *gone)
{
    struct stream *s = hub_find_stream(h, str_of(gone->owner), str_of(gone->conversation_id),
                                       str_of(gone->task_id));
    if (!s || s->task || !gone->whole)
        return;
    stream_forget(s, &h->cache);
    hub_release_stream(h, s);
}

static void pause_until(struct retention *r, msec_t due)
{
    r->sleeps = false;
    timer_arm(&r->hub->clock, &r->timer, due);
}

static void on_removed(struct waiter *w, int status)
{
    struct retention *r = container_of(w, struct retention, waiter);
    struct hub *h = r->hub;
    r->asking = false;
    for (size_t i = 0; i < r->n_removals && status == 0; i++) {
        tell_readers(h, &r->removals[i]);
        if (r->removals[i].whole)
            r->n_tasks++;
        else
            r->n_events++;
    }
    if (status < 0)
        forget_removals(r); /* they still exist */
    if (!h->closing)
        pause_until(r, h->clock.now_ms + RETENTION_PAUSE_MS);
}

/* Removes the first of the tasks that may be removed; returns their number. */
static size_t remove_some(struct retention *r, const struct answer *a, size_t max, bool whole,
                          int64_t before)
{
    forget_removals(r);
    for (size_t i = 0; i < a->n_tasks && r->n_removals < max; i++)
        (void)stage(r, &a->tasks[i], whole, before);
    if (r->n_removals == 0)
        return 0;
    r->asking = true;
    r->waiter.done = on_removed;
    journal_wait(&r->hub->journal, &r->waiter);
    return r->n_removals;
}

static void retention_ask(struct retention *r, struct query q, store_query_fn done)
{
    r->asking = true;
    hub_query(r->hub, &q, done, r);
}

/* True when the answer is of no use: the rest waits for the next tick. */
static bool is_no_answer(struct retention *r, int status)
{
    r->asking = false;
    if (status == 0)
        return false;
    if (r->now) {
        struct quota *q = r->now;
        r->now = NULL;
        if (!list_is_in(&q->queued))
            list_push(&r->queue, &q->queued);
    }
    if (!r->hub->closing)
        pause_until(r, r->hub->clock.now_ms + RETENTION_TICK_MS);
    return true;
}

/* --- the whole store -------------------------------------------------------------------------- */

static void on_size(void *arg, int status, struct answer *answer)
{
    struct retention *r = arg;
    if (is_no_answer(r, status))
        return;
    r->sees_size = false;
    r->store_bytes = answer->n_owners ? answer->owners[0].value : 0;
    int64_t max = r->hub->o.retention.store_bytes;
    r->store_is_full = max && r->store_bytes > max;
    next(r);
}

static int64_t expiry(const struct retention *r)
{
    return r->hub->clock.wall_ms - r->hub->o.retention.task_ms;
}

/* Some may not be removable now, so the first page asks for more than one piece. */
static void on_expired(void *arg, int status, struct answer *answer)
{
    struct retention *r = arg;
    if (is_no_answer(r, status))
        return;
    if (remove_some(r, answer, RETENTION_PIECE, true, expiry(r)) > 0)
        return; /* and then for more */
    r->sees_expired = false;
    next(r);
}

static void on_full_page(void *arg, int status, struct answer *answer)
{
    struct retention *r = arg;
    if (is_no_answer(r, status))
        return;
    free(r->full_after);
    r->full_after = NULL;
    for (size_t i = 0; i < answer->n_owners; i++) { /* full, until checked */
        set_full(r, quota_get(r, answer->owners[i].owner), true);
        retention_look_at(r, answer->owners[i].owner);
    }
    r->sees_full = answer->more;
    if (answer->more)
        r->full_after = xstrdup(answer->owners[answer->n_owners - 1].owner);
    next(r);
}

/* --- one owner -------------------------------------------------------------------------------- */

static void finish_owner(struct retention *r, bool full)
{
    struct quota *q = r->now;
    r->now = NULL;
    q->put_off = 0;
    set_full(r, q, full);
    quota_release(r, q);
    next(r);
}

/* Everything removable is being read: check again when that may be over.  Until then the owner is
 * full. */
static void put_off(struct retention *r)
{
    struct quota *q = r->now;
    r->now = NULL;
    if (++q->put_off >= RETENTION_BUSY_TIMES)
        set_full(r, q, true);
    if (list_is_empty(&r->busy))
        r->busy_until = r->hub->clock.now_ms + RETENTION_BUSY_MS;
    list_remove(&q->queued);
    list_push(&r->busy, &q->queued);
    next(r);
}

/* The oldest record is the one that ended first. */
static void on_room(void *arg, int status, struct answer *answer)
{
    struct retention *r = arg;
    if (is_no_answer(r, status))
        return;
    int64_t kept = RETENTION_KEPT_MS, task_ms = r->hub->o.retention.task_ms, room_at = NEVER;
    if (task_ms && task_ms < kept)
        kept = task_ms;
    for (size_t i = 0; i < answer->n_tasks; i++)
        if (answer->tasks[i].state.completed_at + kept < room_at)
            room_at = answer->tasks[i].state.completed_at + kept;
    r->now->room_at = room_at;
    finish_owner(r, true);
}

/* Nothing of the owner's may be removed now: find out when it can. */
static void ask_room(struct retention *r)
{
    retention_ask(r,
                  (struct query){.kind = QUERY_OLDEST,
                                 .owner = str_of(r->now->name),
                                 .at = NEVER,
                                 .limit = 4 * RETENTION_PIECE},
                  on_room);
}

static void on_oldest(void *arg, int status, struct answer *answer)
{
    struct retention *r = arg;
    if (is_no_answer(r, status))
        return;
    int64_t before = r->hub->clock.wall_ms - RETENTION_KEPT_MS;
    size_t max = r->in_records ? RETENTION_PIECE : 1; /* one task may have many events */
    if (remove_some(r, answer, max, r->in_records, before) > 0)
        return; /* then the same owner again */
    if (r->in_records) {
        ask_room(r);
    } else if (answer->n_tasks > 0) {
        put_off(r);
    } else {
        r->in_records = true;
        next(r);
    }
}

static void on_owners(void *arg, int status, struct answer *answer)
{
    struct retention *r = arg;
    if (is_no_answer(r, status))
        return;
    if (answer->n_owners == 0 || answer->owners[0].value <= r->hub->o.retention.owner_bytes) {
        finish_owner(r, false);
        return;
    }
    struct query q = {.kind = r->in_records ? QUERY_OLDEST : QUERY_OLDEST_EVENTS,
                      .owner = str_of(r->now->name),
                      .at = r->hub->clock.wall_ms - RETENTION_KEPT_MS,
                      .limit = r->in_records ? 4 * RETENTION_PIECE : RETENTION_PIECE / 2};
    retention_ask(r, q, on_oldest);
}

/* --- the driver ------------------------------------------------------------------------------- */

static void begin_tick(struct retention *r)
{
    const struct retention_options *o = &r->hub->o.retention;
    r->next_tick = r->hub->clock.now_ms + RETENTION_TICK_MS;
    r->sees_size = true;
    r->sees_expired = o->task_ms > 0;
}

static void queue_full(struct map_node *node, void *arg)
{
    struct retention *r = arg;
    struct quota *q = container_of(node, struct quota, node);
    if (q->full && !list_is_in(&q->queued) && r->now != q)
        list_push(&r->queue, &q->queued);
}

static void retention_on_timer(struct timer *timer)
{
    struct retention *r = container_of(timer, struct retention, timer);
    if (r->hub->clock.now_ms >= r->next_tick) {
        begin_tick(r);
        map_each(&r->owners, queue_full, r);
    }
    next(r);
}

static void next(struct retention *r)
{
    struct hub *h = r->hub;
    if (r->asking || timer_is_armed(&r->timer) || h->closing)
        return;
    if (h->draining || !hub_can_write(h)) {
        pause_until(r, h->clock.now_ms + RETENTION_TICK_MS);
        return;
    }
    struct list *node = NULL;
    if (!list_is_empty(&r->busy) && h->clock.now_ms >= r->busy_until)
        list_splice(&r->queue, &r->busy);
    if (r->sees_size) {
        retention_ask(r, (struct query){.kind = QUERY_USAGE}, on_size);
    } else if (r->sees_full) {
        retention_ask(r,
                      (struct query){.kind = QUERY_FULL,
                                     .slots = hub_slots(h),
                                     .at = h->o.retention.owner_bytes,
                                     .before = str_of(r->full_after)},
                      on_full_page);
    } else if (r->sees_expired) {
        retention_ask(r,
                      (struct query){.kind = QUERY_EXPIRED,
                                     .slots = hub_slots(h),
                                     .at = expiry(r),
                                     .limit = 4 * RETENTION_PIECE},
                      on_expired);
    } else if (r->now || (node = list_pop(&r->queue)) != NULL) {
        if (!r->now) {
            r->now = list_item(node, struct quota, queued);
            r->in_records = false;
        }
        retention_ask(r, (struct query){.kind = QUERY_USAGE, .owner = str_of(r->now->name)},
                      on_owners);
    } else {
        bool soon = !list_is_empty(&r->busy) && r->busy_until < r->next_tick;
        pause_until(r, soon ? r->busy_until : r->next_tick);
        r->sleeps = true;
    }
}

/* --- outside ---------------------------------------------------------------------------------- */

void retention_init(struct retention *r, struct hub *hub)
{
    *r = (struct retention){.hub = hub, .timer.fire = retention_on_timer};
    map_init(&r->owners, hub->streams.secret, quota_key);
    list_init(&r->queue);
    list_init(&r->busy);
}

static void free_quota(struct map_node *node, void *arg)
{
    (void)arg;
    free(container_of(node, struct quota, node));
}

void retention_done(struct retention *r)
{
    timer_disarm(&r->hub->clock, &r->timer);
    forget_removals(r);
    free(r->full_after);
    map_each(&r->owners, free_quota, NULL);
    map_done(&r->owners);
}

void retention_begin(struct retention *r)
{
    const struct retention_options *o = &r->hub->o.retention;
    if (r->runs) { /* slots came: their owners may be full */
        r->sees_full = o->owner_bytes > 0;
        return;
    }
    r->runs = o->task_ms || o->owner_bytes || o->store_bytes;
    if (!r->runs)
        return;
    begin_tick(r);
    r->sees_full = o->owner_bytes > 0;
    next(r);
}

struct retention_leaving {
    struct retention *r;
    const struct slots *slots;
};

static void leave_quota(struct map_node *node, void *arg)
{
    const struct retention_leaving *l = arg;
    struct quota *q = container_of(node, struct quota, node);
    if (!slots_has(l->slots, slot_of(str_of(q->name))))
        return;
    set_full(l->r, q, false);
    list_remove(&q->queued);
    quota_release(l->r, q);
}

void retention_leave(struct retention *r, const struct slots *slots)
{
    map_each(&r->owners, leave_quota, &(struct retention_leaving){r, slots});
}

void retention_look_at(struct retention *r, struct str owner)
{
    if (!r->runs || !r->hub->o.retention.owner_bytes)
        return;
    struct quota *q = quota_get(r, owner);
    if (!list_is_in(&q->queued))
        list_push(&r->queue, &q->queued);
    if (r->sleeps)
        timer_disarm(&r->hub->clock, &r->timer); /* now it has something to do */
    next(r);
}

const char *retention_refuses(const struct retention *r, struct str owner,
                              struct retention_refusal *ret)
{
    *ret = (struct retention_refusal){r->store_is_full, RETENTION_TICK_MS};
    if (r->store_is_full)
        return "the store is full";
    const struct quota *q = r->n_full ? quota_find(r, owner) : NULL;
    if (!q || !q->full)
        return NULL;
    if (q->room_at == NEVER) {
        ret->retry_after_ms = RETRY_NEVER;
        return "this owner's share of the store is full, and nothing in it expires by itself: "
               "delete conversations";
    }
    msec_t room_in = q->room_at - r->hub->clock.wall_ms;
    ret->retry_after_ms = room_in > ERROR_RETRY_MS ? room_in : ERROR_RETRY_MS;
    return "this owner's share of the store is full: delete conversations, or wait";
}

bool retention_has_taken(const struct retention *r, const struct task_record *task)
{
    for (size_t i = 0; i < r->n_removals; i++)
        if (r->removals[i].task_key == task->key)
            return r->removals[i].whole || task->state.first <= task->state.head;
    return false;
}
