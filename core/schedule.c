#include "core/schedule.h"

#include <stdlib.h>

#include "core/call.h"

#define LOOK_MS 60000   /* the wall clock may be set meanwhile */
#define RETRY_MS 30000  /* when a chat met no room */
#define MISSED_MS 60000 /* later than this is too late, where missed ones are not made up for */

struct schedule_zone {
    struct list node; /* in the hub's */
    struct tz *zone;
    char name[];
};

/* One change of a row: what is true when it is committed. */
struct change {
    struct schedule *schedule;
    char *json;
    int64_t key;
};

const struct tz *schedule_zone(struct hub *h, struct str name)
{
    if (!name.p)
        name = STR("UTC");
    list_each (it, &h->zones) {
        struct schedule_zone *z = list_item(it, struct schedule_zone, node);
        if (str_eq(str_of(z->name), name))
            return z->zone;
    }
    struct buf bytes = {0};
    bool is_there = tz_name_is_valid(name) && h->o.zone_read && h->o.zone_read(name, &bytes);
    struct tz *zone = is_there ? tz_read(buf_str(&bytes)) : NULL;
    buf_done(&bytes);
    if (!zone && str_eq(name, STR("UTC")))
        zone = tz_utc();
    if (!zone)
        return NULL;
    struct schedule_zone *z = xcalloc(sizeof *z + name.n + 1);
    memcpy(z->name, name.p, name.n);
    z->zone = zone;
    list_push(&h->zones, &z->node);
    return zone;
}

struct schedule *schedule_find(const struct owner *owner, struct str id)
{
    list_each (it, &owner->schedules) {
        struct schedule *s = list_item(it, struct schedule, node);
        if (s->json && str_eq(str_of(s->id), id))
            return s;
    }
    return NULL;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void schedule_free(struct schedule *s)
{
    struct hub *h = s->hub;
    timer_disarm(&h->clock, &s->timer);
    list_remove(&s->node);
    s->owner->n_schedules--;
    h->n_schedules--;
    owner_unref(h, s->owner);
    free(s->conversation_id);
    free(s->json);
    free(s->committed);
    free(s->request_key);
    free(s);
}

static void schedule_arm(struct schedule *s)
{
    struct hub *h = s->hub;
    timer_disarm(&h->clock, &s->timer);
    if (s->next_at == 0 || s->running || !s->committed)
        return;
    int64_t left = s->next_at - h->clock.wall_ms;
    timer_arm(&h->clock, &s->timer,
              h->clock.now_ms + (left < 0         ? 0
                                 : left < LOOK_MS ? (msec_t)left
                                                  : LOOK_MS));
}

static void schedule_settle(struct schedule *s)
{
    struct schedule_times t;
    if (!s->json && !s->running) {
        schedule_free(s);
        return;
    }
    s->next_at =
        s->committed && s->json && schedule_times_read(&s->hub->doc, str_of(s->committed), &t)
            ? t.next_at
            : 0;
    schedule_arm(s);
}

/* After a failure all later changes fail too: then memory says again what the disk says. */
static void on_change(const struct op *op, int status)
{
    struct change *c = op->ref;
    struct schedule *s = c->schedule;
    s->changes--;
    if (status == 0) {
        free(s->committed);
        s->committed = c->json;
        s->committed_key = c->key;
    } else {
        free(c->json);
    }
    free(c);
    if (s->changes > 0)
        return;
    if (status < 0) {
        free(s->json);
        s->json = s->committed ? xstrdup(str_of(s->committed)) : NULL;
        s->key = s->committed_key;
    }
    schedule_settle(s);
}

static struct change *change_new(struct schedule *s)
{
    struct change *c = xcalloc(sizeof *c);
    *c = (struct change){s, s->json ? xstrdup(str_of(s->json)) : NULL, s->key};
    s->changes++;
    return c;
}

/* {"owner":…,"schedule":{…}} */
static void schedule_stage(struct schedule *s)
{
    struct hub *h = s->hub;
    struct buf body = {0};
    buf_putc(&body, '{');
    js_put_field(&body, "owner", str_of(s->owner->name));
    js_put_raw(&body, "schedule", str_of(s->json));
    buf_putc(&body, '}');
    if (s->key)
        outbox_take(h, s->key);
    s->key = hub_new_key(h);
    struct outbox_record row = {.key = s->key,
                                .hook = STR(OUTBOX_SCHEDULES),
                                .id = str_of(s->id),
                                .at = h->clock.wall_ms,
                                .body = buf_str(&body),
                                .slot = s->owner->slot};
    journal_put(&h->journal, &(struct op){.kind = OP_OUTBOX_PUT,
                                          .done = on_change,
                                          .ref = change_new(s),
                                          .outbox = &row});
    buf_done(&body);
}

static void on_fire(struct timer *timer);

static struct schedule *schedule_new(struct hub *h, struct owner *owner, struct str conversation_id,
                                     struct str id, struct str json)
{
    struct schedule *s = xcalloc(sizeof *s);
    s->hub = h;
    s->owner = owner;
    owner->refs++;
    owner->n_schedules++;
    h->n_schedules++;
    memcpy(s->id, id.p, TASK_ID_LEN);
    s->conversation_id = conversation_id.p ? xstrdup(conversation_id) : NULL;
    s->json = xstrdup(json);
    s->timer.fire = on_fire;
    struct list *before = &owner->schedules; /* by id: oldest first */
    while (before->prev != &owner->schedules &&
           strcmp(list_item(before->prev, struct schedule, node)->id, s->id) > 0)
        before = before->prev;
    list_push(before, &s->node);
    return s;
}

struct schedule *schedule_add(struct hub *h, struct owner *owner, struct str conversation_id,
                              const char *id, struct str json)
{
    struct schedule *s = schedule_new(h, owner, conversation_id, str_of(id), json);
    schedule_stage(s);
    return s;
}

void schedule_change(struct schedule *s, struct str json)
{
    char *next = xstrdup(json); /* json may be the old one */
    free(s->json);
    s->json = next;
    schedule_stage(s);
}

void schedule_remove(struct schedule *s)
{
    free(s->json);
    s->json = NULL;
    journal_put(&s->hub->journal, &(struct op){.kind = OP_OUTBOX_TAKE,
                                               .task_key = s->key,
                                               .done = on_change,
                                               .ref = change_new(s)});
    s->key = 0;
}

void schedules_forget(struct owner *owner, struct str conversation_id)
{
    list_each (it, &owner->schedules) {
        struct schedule *s = list_item(it, struct schedule, node);
        if (s->json && s->conversation_id && str_eq(str_of(s->conversation_id), conversation_id))
            schedule_remove(s);
    }
}

/* --- runs ------------------------------------------------------------------------------------- */

/* A chat has started, or was refused for good: when it is due again, and what became of it. */
static void schedule_advance(struct schedule *s, struct str last, struct str error)
{
    struct hub *h = s->hub;
    struct schedule_times t;
    struct js_doc doc = {0};
    if (!s->json || !schedule_times_read(&doc, str_of(s->json), &t)) {
        js_done(&doc);
        return;
    }
    if (schedule_is_once(&t) && last.p && t.next_at == s->due) {
        js_done(&doc);
        schedule_remove(s);
        return;
    }
    int64_t now = h->clock.wall_ms;
    const struct tz *zone = schedule_zone(h, t.time_zone);
    int64_t next = zone ? schedule_next(&t, zone, now > s->due ? now : s->due) : 0;
    struct buf number = {0}, json = {0};
    buf_putf(&number, "%lld", (long long)next);
    struct schedule_member changes[] = {
        {"next_at", next ? buf_str(&number) : STR_NULL}, {"error", error}, {"last", last}};
    schedule_patch(&doc, str_of(s->json), changes, last.p ? 3 : 2, &json);
    schedule_change(s, buf_str(&json));
    buf_done(&number);
    buf_done(&json);
    js_done(&doc);
}

static void advance_with_error(struct schedule *s, struct str code, struct str message)
{
    struct buf error = {0};
    buf_putc(&error, '{');
    js_put_field(&error, "code", code);
    js_put_field(&error, "message", message);
    js_put_int(&error, "at", s->hub->clock.wall_ms);
    buf_putc(&error, '}');
    schedule_advance(s, STR_NULL, buf_str(&error));
    buf_done(&error);
}

static struct str reply_id(const struct js_doc *doc, uint32_t object, const char *name)
{
    uint32_t node = js_get(doc, object, name);
    return node ? js_raw(doc, node) : STR_NULL;
}

/* The ids are ours, and need no escape. */
static void advance_with_task(struct schedule *s, struct str reply)
{
    struct js_doc doc = {0};
    struct buf last = {0};
    bool is_sound = js_parse(&doc, reply.p, reply.n, JS_OURS);
    uint32_t task = is_sound ? js_get(&doc, 0, "task") : 0;
    buf_putc(&last, '{');
    js_put_int(&last, "at", s->hub->clock.wall_ms);
    if (task) {
        js_put_field(&last, "task_id", reply_id(&doc, task, "task_id"));
        js_put_field(&last, "conversation_id", reply_id(&doc, task, "conversation_id"));
    }
    buf_putc(&last, '}');
    schedule_advance(s, buf_str(&last), STR_NULL);
    buf_done(&last);
    js_done(&doc);
}

static void advance_with_refusal(struct schedule *s, enum error e, struct str reply)
{
    struct js_doc doc = {0};
    struct buf message = {0};
    bool is_sound = js_parse(&doc, reply.p, reply.n, JS_OURS);
    uint32_t node = is_sound ? js_get(&doc, 0, "message") : 0;
    if (node)
        js_value(&doc, node, &message);
    advance_with_error(s, str_of(error_code(e)), buf_str(&message));
    buf_done(&message);
    js_done(&doc);
}

static void retry_later(struct schedule *s)
{
    s->retries = true;
    timer_arm(&s->hub->clock, &s->timer, s->hub->clock.now_ms + RETRY_MS);
}

static void on_chat(void *arg, enum error e, struct str reply)
{
    struct schedule *s = arg;
    struct hub *h = s->hub;
    s->running = false;
    s->call = NULL;
    free(s->request_key);
    s->request_key = NULL;
    if (h->closing)
        return;
    bool is_wanted = s->json && s->next_at; /* it was neither removed nor paused meanwhile */
    if (is_wanted && (e == ERR_OVERLOADED || e == ERR_INTERNAL)) { /* no room, or no store */
        retry_later(s);
        return;
    }
    s->retries = false;
    h->stats.schedule_runs[e ? SCHEDULE_REFUSED : SCHEDULE_STARTED]++;
    if (e)
        advance_with_refusal(s, e, reply);
    else
        advance_with_task(s, reply);
    if (!s->json && s->changes == 0)
        schedule_free(s);
}

static char *request_key_of(const struct schedule *s)
{
    struct buf text = {0}; /* longer than a client's can be */
    buf_putf(&text, "%*s%s %lld", MAX_REQUEST_KEY + 1, "schedule ", s->id, (long long)s->due);
    return buf_take(&text);
}

static void schedule_begin(struct schedule *s, const struct schedule_times *t)
{
    struct hub *h = s->hub;
    struct request req;
    struct request_fault fault;
    struct buf body = {0};
    struct js_doc doc = {0};
    schedule_put_chat(&doc, t->chat, str_of(s->id), &body);
    bool is_good = request_from_body(&doc, VERB_CHAT, str_of(s->conversation_id), STR_NULL,
                                     buf_str(&body), &req, &fault);
    js_done(&doc);
    buf_done(&body);
    if (!is_good) { /* an older gateway took what this one does not */
        h->stats.schedule_runs[SCHEDULE_REFUSED]++;
        advance_with_error(s, str_of(error_code(fault.code)), str_of(fault.message));
        return;
    }
    s->running = true;
    s->request_key = request_key_of(s);
    req.request_key = str_of(s->request_key);
    struct call *call =
        hub_request(h, &(struct asker){.owner = s->owner, .quota = s->owner, .from = "schedule"},
                    &req, on_chat, s);
    if (call)
        s->call = call;
}

static bool may_begin(const struct schedule *s)
{
    const struct hub *h = s->hub;
    return hub_serves(h, s->owner) && !h->draining && hub_can_write(h) && s->changes == 0;
}

/* Only what is committed counts, so that no time is told that nobody has asked for. */
static void on_fire(struct timer *timer)
{
    struct schedule *s = container_of(timer, struct schedule, timer);
    struct hub *h = s->hub;
    struct schedule_times t;
    int64_t late = h->clock.wall_ms - s->next_at;
    if (late < 0) {
        schedule_arm(s);
        return;
    }
    if (!may_begin(s)) {
        timer_arm(&h->clock, &s->timer, h->clock.now_ms + 1000);
        return;
    }
    if (!schedule_times_read(&h->doc, str_of(s->committed), &t))
        return;
    s->due = s->next_at;
    if (revocations_have(&h->revocations, str_of(s->owner->name), h->clock.wall_ms)) {
        h->stats.schedule_runs[SCHEDULE_REFUSED]++;
        advance_with_error(s, STR("unauthorized"), STR("the owner was revoked"));
    } else if (late > MISSED_MS && !t.catch_up && !s->retries) {
        h->stats.schedule_runs[SCHEDULE_MISSED]++;
        advance_with_error(s, STR("missed"), STR("the gateway did not run then"));
    } else {
        schedule_begin(s, &t);
    }
}

/* --- start and end ---------------------------------------------------------------------------- */

void schedule_restore(struct hub *h, const struct outbox_record *row)
{
    struct js_doc doc = {0};
    struct buf owner = {0}, conversation = {0};
    bool is_sound = js_parse(&doc, row->body.p, row->body.n, JS_OURS) &&
                    js_type(&doc, 0) == JS_OBJECT && row->id.n == TASK_ID_LEN;
    uint32_t name = is_sound ? js_get(&doc, 0, "owner") : 0;
    uint32_t object = is_sound ? js_get(&doc, 0, "schedule") : 0;
    if (name && object && js_type(&doc, object) == JS_OBJECT) {
        uint32_t in = js_get(&doc, object, "conversation_id");
        js_value(&doc, name, &owner);
        if (in)
            js_value(&doc, in, &conversation);
        struct owner *o = owner_ref(h, buf_str(&owner));
        struct schedule *s = schedule_new(h, o, in ? buf_str(&conversation) : STR_NULL, row->id,
                                          js_raw(&doc, object));
        owner_unref(h, o);
        s->key = s->committed_key = row->key;
        s->committed = xstrdup(str_of(s->json));
        schedule_settle(s);
    } else {
        outbox_take(h, row->key);
    }
    buf_done(&owner);
    buf_done(&conversation);
    js_done(&doc);
}

void schedules_drop(struct owner *owner)
{
    while (!list_is_empty(&owner->schedules)) {
        struct schedule *s = list_item(owner->schedules.next, struct schedule, node);
        if (s->call)
            call_forget(s->call);
        schedule_free(s);
    }
}

static void forget_all_of(struct map_node *node, void *arg)
{
    struct owner *o = container_of(node, struct owner, node);
    o->refs++;
    schedules_drop(o);
    owner_unref(arg, o);
}

void schedules_done(struct hub *h)
{
    map_each(&h->owners, forget_all_of, h);
    struct list *node;
    while ((node = list_pop(&h->zones)) != NULL) {
        struct schedule_zone *z = list_item(node, struct schedule_zone, node);
        tz_free(z->zone);
        free(z);
    }
}
