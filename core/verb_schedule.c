/* The requests about an owner's schedules. */
#include <stdio.h>

#include "core/call.h"
#include "core/schedule.h"

#define NO_SUCH_SCHEDULE "no such schedule"

/* Strings of members, as JSON. */
struct changes {
    struct schedule_member members[12];
    struct buf texts[12];
    size_t n;
};

static void change_raw(struct changes *c, const char *name, struct str json)
{
    ASSERT(c->n < countof(c->members));
    c->members[c->n++] = (struct schedule_member){name, json};
}

static void change_text(struct changes *c, const char *name, struct str value)
{
    struct buf *text = &c->texts[c->n];
    js_put_str(text, value);
    change_raw(c, name, buf_str(text));
}

static void change_number(struct changes *c, const char *name, int64_t value)
{
    struct buf *text = &c->texts[c->n];
    buf_putf(text, "%lld", (long long)value);
    change_raw(c, name, value ? buf_str(text) : STR_NULL);
}

static void change_bool(struct changes *c, const char *name, bool value)
{
    change_raw(c, name, value ? STR("true") : STR("false"));
}

static void changes_done(struct changes *c)
{
    for (size_t i = 0; i < c->n; i++)
        buf_done(&c->texts[i]);
}

/* --- what is wrong ---------------------------------------------------------------------------- */

/* The same check that a chat gets, with the metadata that its tasks will have. */
static bool chat_is_good(struct call *c, struct str conversation_id, struct str chat,
                         struct request_fault *fault)
{
    struct js_doc doc = {0};
    struct buf body = {0};
    struct request req;
    char nobody[TASK_ID_LEN + 1] = "00000000000000000000000000";
    schedule_put_chat(&doc, chat, str_of(nobody), &body);
    bool is_good =
        request_from_body(&doc, VERB_CHAT, conversation_id, STR_NULL, buf_str(&body), &req, fault);
    if (is_good && c->req.strict && !request_knows_members(&doc, VERB_CHAT, fault)) {
        is_good = false;
        request_done(&req);
    }
    js_done(&doc);
    buf_done(&body);
    if (!is_good)
        return false;
    fault->code = ERR_BAD_REQUEST;
    is_good = false;
    if (req.request_key.p || req.webhook.p)
        snprintf(fault->message, sizeof fault->message,
                 "it can have no request_key and no webhook");
    else if (!hub_find_agent(c->hub, req.agent))
        hub_no_agent(req.agent, fault->message);
    else
        is_good = true;
    request_done(&req);
    return is_good;
}

static bool refuse_chat(struct call *c, const struct request_fault *fault)
{
    struct buf message = {0};
    buf_putf(&message, "in \"chat\": %s", fault->message);
    buf_putc(&message, 0);
    call_fail(c, fault->code, message.bytes);
    buf_done(&message);
    return false;
}

static bool refuse_schedule(struct call *c, const char *message)
{
    call_fail(c, ERR_BAD_REQUEST, message);
    return false;
}

/* The words of a request alone. */
static bool times_are_good(struct call *c, const struct request *r)
{
    struct cron cron;
    const char *why;
    if (r->cron.p && r->every_s)
        return refuse_schedule(c, "\"cron\" and \"every_s\" exclude each other");
    if (r->time_zone.p && !schedule_zone(c->hub, r->time_zone))
        return refuse_schedule(c, "\"time_zone\" names no zone of the time zone database");
    if (!r->cron.p || cron_parse(r->cron, &cron, &why))
        return true;
    struct buf message = {0};
    buf_putf(&message, "\"cron\" must have five fields, as in crontab: %s", why);
    buf_putc(&message, 0);
    (void)refuse_schedule(c, message.bytes);
    buf_done(&message);
    return false;
}

/* --- replies ---------------------------------------------------------------------------------- */

static void on_scheduled(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0) {
        call_write_failed(c);
        return;
    }
    struct buf line = {0};
    reply_begin(c, &line, "scheduled");
    js_put_raw(&line, "schedule", buf_str(&c->out));
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

/* The object with its next time; c->out gets it.  False when it is refused. */
static bool settle_next(struct call *c, struct str json, int64_t after)
{
    struct schedule_times t;
    struct js_doc doc = {0};
    struct changes next = {0};
    bool is_sound = schedule_times_read(&doc, json, &t);
    ASSERT(is_sound);
    const struct tz *zone = schedule_zone(c->hub, t.time_zone);
    int64_t from = schedule_is_once(&t) && t.not_before <= after ? t.not_before - 1 : after;
    int64_t at = zone ? schedule_next(&t, zone, from) : 0;
    bool is_good = at || t.paused;
    bool has_zone = !t.time_zone.p || t.cron.p;
    bool has_time = t.cron.p || t.every_ms || t.not_before;
    change_number(&next, "next_at", at);
    buf_clear(&c->out);
    schedule_patch(&doc, json, next.members, next.n, &c->out);
    changes_done(&next);
    js_done(&doc);
    if (!has_time)
        return refuse_schedule(c, "one of \"not_before\", \"cron\" and \"every_s\" says when");
    if (!has_zone)
        return refuse_schedule(c, "\"time_zone\" is for \"cron\" alone");
    if (!is_good)
        return refuse_schedule(c, "\"cron\" names no time within ten years");
    return true;
}

/* --- schedule --------------------------------------------------------------------------------- */

static bool has_room(struct call *c)
{
    struct hub *h = c->hub;
    if (h->o.limits.schedules_per_owner == 0) {
        call_fail(c, ERR_UNSUPPORTED, "nothing can be scheduled here");
        return false;
    }
    bool is_full = h->n_schedules >= h->o.limits.schedules;
    if (!is_full && c->owner->n_schedules < h->o.limits.schedules_per_owner)
        return true;
    h->stats.limit_hits[LIMIT_SCHEDULES]++;
    call_fail(c, ERR_OVERLOADED,
              is_full ? "too many schedules in all" : "too many schedules of this owner");
    return false;
}

static void put_request(struct changes *changes, const struct request *r)
{
    if (r->chat.p)
        change_raw(changes, "chat", r->chat);
    if (r->not_before)
        change_number(changes, "not_before", (int64_t)r->not_before);
    if (r->cron.p || r->every_s) { /* one takes the place of the other */
        if (r->cron.p)
            change_text(changes, "cron", r->cron);
        else
            change_raw(changes, "cron", STR_NULL);
        change_number(changes, "every_s", (int64_t)r->every_s);
    }
    if (r->time_zone.p)
        change_text(changes, "time_zone", r->time_zone);
    else if (r->every_s)
        change_raw(changes, "time_zone", STR_NULL);
    if (r->catch_up)
        change_bool(changes, "catch_up", r->catch_up == MAYBE_YES);
    if (r->paused)
        change_bool(changes, "paused", r->paused == MAYBE_YES);
}

void verb_schedule(struct call *c)
{
    struct hub *h = c->hub;
    const struct request *r = &c->req;
    struct request_fault fault = {0};
    if (!has_room(c) || !times_are_good(c, r))
        return;
    if (!chat_is_good(c, r->conversation_id, r->chat, &fault)) {
        (void)refuse_chat(c, &fault);
        return;
    }
    char id[TASK_ID_LEN + 1];
    hub_new_id(h, id);
    struct changes changes = {0};
    struct buf json = {0};
    change_text(&changes, "schedule_id", str_of(id));
    if (r->conversation_id.p)
        change_text(&changes, "conversation_id", r->conversation_id);
    change_number(&changes, "created_at", h->clock.wall_ms);
    put_request(&changes, r);
    if (!r->catch_up)
        change_bool(&changes, "catch_up", true);
    if (!r->paused)
        change_bool(&changes, "paused", false);
    schedule_patch(&h->doc, STR_NULL, changes.members, changes.n, &json);
    changes_done(&changes);
    bool is_good = settle_next(c, buf_str(&json), h->clock.wall_ms);
    buf_done(&json);
    if (!is_good)
        return;
    schedule_add(h, c->owner, r->conversation_id, id, buf_str(&c->out));
    call_wait(c, on_scheduled);
}

/* --- reschedule, unschedule ------------------------------------------------------------------- */

static struct schedule *asked_for(struct call *c)
{
    struct schedule *s = schedule_find(c->owner, c->req.schedule_id);
    if (!s)
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_SCHEDULE);
    return s;
}

void verb_reschedule(struct call *c)
{
    struct hub *h = c->hub;
    const struct request *r = &c->req;
    struct request_fault fault = {0};
    struct schedule *s = asked_for(c);
    if (!s || !times_are_good(c, r))
        return;
    if (r->chat.p && !chat_is_good(c, str_of(s->conversation_id), r->chat, &fault)) {
        (void)refuse_chat(c, &fault);
        return;
    }
    struct changes changes = {0};
    struct buf json = {0};
    put_request(&changes, r);
    schedule_patch(&h->doc, str_of(s->json), changes.members, changes.n, &json);
    changes_done(&changes);
    bool is_good = settle_next(c, buf_str(&json), h->clock.wall_ms);
    buf_done(&json);
    if (!is_good)
        return;
    schedule_change(s, buf_str(&c->out));
    call_wait(c, on_scheduled);
}

void verb_unschedule(struct call *c)
{
    struct schedule *s = asked_for(c);
    if (!s)
        return;
    schedule_remove(s);
    call_wait_ok(c);
}

/* --- schedules -------------------------------------------------------------------------------- */

static bool is_shown(const struct call *c, const struct schedule *s)
{
    struct str in = c->req.conversation_id;
    return s->committed && (!in.p || str_eq(in, str_of(s->conversation_id))) &&
           (!c->req.before.p || memcmp(s->id, c->req.before.p, TASK_ID_LEN) < 0);
}

/* Newest first; only what is on disk. */
void verb_schedules(struct call *c)
{
    struct buf line = {0};
    uint32_t n = 0;
    bool more = false;
    reply_begin(c, &line, "schedule_list");
    js_put_raw(&line, "schedules", STR("["));
    for (struct list *it = c->owner->schedules.prev; it != &c->owner->schedules && !more;
         it = it->prev) {
        const struct schedule *s = list_item(it, struct schedule, node);
        if (!is_shown(c, s))
            continue;
        more = n == c->req.limit || (n > 0 && line.len + strlen(s->committed) > MAX_REPLY);
        if (more)
            break;
        if (n++ > 0)
            buf_putc(&line, ',');
        buf_puts(&line, s->committed);
    }
    buf_putc(&line, ']');
    js_put_bool(&line, "more", more);
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}
