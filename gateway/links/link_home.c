/* The home's end of a link: sessions and requests of clients at the other node.  A session is a
 * cursor here as everywhere: its lines are filled as long as its front has taken the earlier ones,
 * and the socket the earlier frames. */
#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/grant.h"
#include "core/handover.h"
#include "gateway/links/links_private.h"
#include "proto/rights.h"

#define FLAGS_AT LINK_HEAD /* of an OUT frame */

struct remote {
    struct on_link on;
    struct session session;
    struct list at; /* among the blocked, or those that are over */
    int64_t room;   /* bytes of lines that the front still takes */
    uint64_t taken; /* bytes of messages that the front does not know of yet */
    uint32_t asked; /* requests in this session without a reply */
    uint8_t said;   /* what the front knows of it */
    bool holds, over;
    bool fills; /* a frame of it is being written: no other may begin */
    char from[128];
};

struct remote_call {
    struct on_link on;
    struct remote *remote; /* NULL: outside a session */
    struct call *call;     /* NULL while it begins */
};

/* --- the session's side ----------------------------------------------------------------------- */

/* A later hello: the home looks at its token, as the front did at the first. */
static bool remote_identify(struct session *s, struct str token, struct identity *ret)
{
    struct remote *r = s->rim;
    struct links *l = r->on.link->links;
    return l->o.identify(l->o.arg, token, ret);
}

static void give_room(struct remote *r)
{
    struct link_frame f = {.kind = LINK_ROOM, .id = r->on.id, .number = {r->taken}};
    if (r->holds || r->fills || r->taken < LINK_WINDOW_STEP)
        return;
    r->taken = 0;
    link_say(r->on.link, &f);
}

static void remote_hold(struct session *s, bool holds)
{
    struct remote *r = s->rim;
    r->holds = holds;
    give_room(r);
}

/* One message, or what is new about the session. */
static bool say_lines(struct remote *r)
{
    struct buf *out = &r->on.link->out;
    struct link_frame f = {.kind = LINK_OUT, .id = r->on.id};
    size_t begun = link_begin(out, &f), from = out->len;
    r->fills = true;
    bool filled = session_fill(&r->session, out, MAX_MESSAGE_OUT);
    r->fills = false;
    uint8_t knows = session_knows(&r->session);
    if (filled || knows != r->said) {
        r->said = knows;
        out->bytes[begun + FLAGS_AT] = (char)knows;
        r->room -= (int64_t)(out->len - from);
        link_end(out, begun);
    } else {
        out->len = begun;
    }
    give_room(r); /* the lines may have made some */
    return filled;
}

/* The last replies go before the close, whatever room there is: they are few. */
static void say_close(struct remote *r)
{
    struct link_frame f = {.kind = LINK_CLOSE, .id = r->on.id, .number = {r->session.close_code}};
    while (say_lines(r))
        continue;
    link_say(r->on.link, &f);
    r->over = true;
    list_remove(&r->at);
    list_push(&r->on.link->over, &r->at);
}

static void remote_flush(struct session *s)
{
    struct remote *r = s->rim;
    struct link *k = r->on.link;
    if (r->over)
        return;
    if (s->state == SESSION_CLOSING) {
        say_close(r);
        return;
    }
    if (r->asked > 0 || r->room <= 0)
        return; /* its reply goes first, and wakes it; or ROOM does */
    if (link_is_full(k)) {
        if (!list_is_in(&r->at))
            list_push(&k->blocked, &r->at);
        return;
    }
    say_lines(r);
    if (s->state == SESSION_CLOSING || session_has_output(s))
        session_wake(s);
}

static const struct session_ops socket_ops = {
    .authenticate = remote_identify, .hold = remote_hold, .flush = remote_flush};
static const struct session_ops reader_ops = {.hold = remote_hold, .flush = remote_flush};

void home_drained(struct link *k)
{
    struct list *node;
    while ((node = list_pop(&k->blocked)) != NULL)
        session_wake(&list_item(node, struct remote, at)->session);
}

/* --- requests --------------------------------------------------------------------------------- */

static void remote_replied(void *arg, enum error e, struct str line)
{
    struct remote_call *rc = arg;
    struct link *k = rc->on.link;
    struct remote *r = rc->remote;
    struct link_frame f = {.kind = LINK_REPLY,
                           .id = rc->on.id,
                           .text = {e ? str_of(error_code(e)) : STR("")},
                           .bytes = line};
    if (r) {
        f.flags = r->said = session_knows(&r->session);
        r->asked--;
        session_wake(&r->session);
    }
    link_say(k, &f);
    link_unregister(&k->requests, &rc->on);
    free(rc);
}

static void say_fault(struct link *k, uint32_t id, const struct request_fault *fault)
{
    struct buf line = {0};
    error_line(&line, fault->code, STR_NULL, fault->message, -1, -1);
    link_say(k, &(struct link_frame){.kind = LINK_REPLY,
                                     .id = id,
                                     .text = {str_of(error_code(fault->code))},
                                     .bytes = buf_str(&line)});
    buf_done(&line);
}

static struct remote *find_remote(struct link *k, uint64_t id)
{
    struct on_link *on = id <= UINT32_MAX ? link_find(&k->sessions, (uint32_t)id) : NULL;
    return on ? container_of(on, struct remote, on) : NULL;
}

static void ask_hub(struct link *k, const struct link_frame *f, struct rights *rights,
                    struct request *req)
{
    struct hub *h = k->links->o.hub;
    struct remote *r = f->number[0] ? find_remote(k, f->number[0]) : NULL;
    struct remote_call *rc = xcalloc(sizeof *rc);
    char from[128], trace[MAX_TRACE_HEAD + 1];
    rc->remote = r;
    rc->on.id = f->id;
    link_register(k, &k->requests, &k->all_requests, &rc->on);
    k->links->stats.requests_in++;
    snprintf(from, sizeof from, "%.*s", (int)f->text[LINK_FROM].n, f->text[LINK_FROM].p);
    snprintf(trace, sizeof trace, "%.*s", (int)f->text[LINK_TRACE].n, f->text[LINK_TRACE].p);
    struct owner *owner = owner_ref(h, f->text[LINK_OWNER]);
    struct owner *quota = owner_ref(h, f->text[LINK_QUOTA]);
    if (r)
        r->asked++;
    const struct asker who = {.owner = owner,
                              .quota = quota,
                              .session = r ? &r->session : NULL,
                              .from = from[0] ? from : NULL,
                              .rights = rights,
                              .expires_at_ms = (int64_t)f->number[1],
                              .trace = trace[0] ? trace : NULL};
    struct call *c = hub_request(h, &who, req, remote_replied, rc);
    if (c)
        rc->call = c;
    owner_unref(h, owner);
    owner_unref(h, quota);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* False for rights that this version does not understand, which must not be widened. */
static bool take_asker_rights(struct link *k, const struct link_frame *f, struct rights **ret)
{
    struct js_doc *doc = &k->links->o.hub->doc;
    struct str json = f->text[LINK_RIGHTS], grant = f->text[LINK_GRANT];
    *ret = NULL;
    if (json.n == 0)
        return true;
    if (js_parse(doc, json.p, json.n, JS_CLIENT) && js_type(doc, 0) == JS_OBJECT)
        *ret = rights_read(doc, 0, grant.n ? grant : STR_NULL);
    return *ret;
}

static bool is_withdrawn(struct hub *h, const struct link_frame *f)
{
    struct str owner = f->text[LINK_OWNER], grant = f->text[LINK_GRANT];
    return revocations_have(&h->revocations, owner, h->clock.wall_ms) ||
           (grant.n && !grant_find(h, owner, grant));
}

/* The home decides, whatever the front believes: the owner is served here, and is not revoked. */
static bool home_refuses(struct link *k, const struct link_frame *f)
{
    struct links *l = k->links;
    struct hub *h = l->o.hub;
    if (!l->o.is_here(l->o.arg, f->text[LINK_OWNER])) {
        l->stats.moved++;
        link_say(k, &(struct link_frame){.kind = LINK_MOVED, .id = f->id});
        return true;
    }
    if (!is_withdrawn(h, f))
        return false;
    if (f->kind == LINK_OPEN)
        link_say(k, &(struct link_frame){
                        .kind = LINK_CLOSE, .id = f->id, .number = {CLOSE_UNAUTHORIZED}});
    else
        say_fault(k, f->id,
                  &(struct request_fault){.code = ERR_UNAUTHORIZED, .message = "revoked"});
    return true;
}

static bool owner_is_valid(struct str owner)
{
    return owner.n >= 1 && owner.n <= MAX_OWNER && !memchr(owner.p, 0, owner.n);
}

static bool asker_is_valid(const struct link_frame *f)
{
    return owner_is_valid(f->text[LINK_OWNER]) && owner_is_valid(f->text[LINK_QUOTA]);
}

static void take_open(struct link *k, const struct link_frame *f)
{
    struct hub *h = k->links->o.hub;
    struct rights *rights = NULL;
    if (!asker_is_valid(f) || find_remote(k, f->id) || !take_asker_rights(k, f, &rights)) {
        link_close(k, LINK_END_BROKEN, "a session that no front opens");
        return;
    }
    if (home_refuses(k, f)) {
        rights_unref(rights);
        return;
    }
    struct remote *r = xcalloc(sizeof *r);
    r->on.id = f->id;
    r->room = LINK_WINDOW;
    snprintf(r->from, sizeof r->from, "%.*s", (int)f->text[LINK_FROM].n, f->text[LINK_FROM].p);
    link_register(k, &k->sessions, &k->all_sessions, &r->on);
    k->links->stats.remote++;
    link_say(k, &(struct link_frame){.kind = LINK_ROOM, .id = f->id}); /* it is let in */
    struct owner *owner = owner_ref(h, f->text[LINK_OWNER]);
    struct owner *quota = owner_ref(h, f->text[LINK_QUOTA]);
    const struct asker who = {
        .owner = owner, .quota = quota, .rights = rights, .expires_at_ms = (int64_t)f->number[0]};
    session_init(&r->session, h, f->flags & LINK_IS_SOCKET ? &socket_ops : &reader_ops, r);
    session_adopt(&r->session, &who);
    rights_unref(rights);
    r->session.strict = f->flags & LINK_IS_STRICT;
    r->session.from = r->from[0] ? r->from : NULL;
    owner_unref(h, owner);
    owner_unref(h, quota);
}

static void free_remote(struct remote *r)
{
    struct link *k = r->on.link;
    list_each (it, &k->all_requests) {
        struct remote_call *rc =
            container_of(list_item(it, struct on_link, all), struct remote_call, on);
        if (rc->remote != r)
            continue;
        call_forget(rc->call);
        link_unregister(&k->requests, &rc->on);
        free(rc);
    }
    link_unregister(&k->sessions, &r->on);
    list_remove(&r->at);
    session_done(&r->session);
    k->links->stats.remote--;
    free(r);
}

static void take_in(struct remote *r, const struct link_frame *f)
{
    if (f->number[0] > 0)
        session_charge(&r->session, (uint32_t)f->number[0]);
    session_receive(&r->session, f->bytes);
    r->taken += f->bytes.n;
    give_room(r);
}

static void take_home_request(struct link *k, const struct link_frame *f)
{
    struct hub *h = k->links->o.hub;
    struct request req;
    struct request_fault fault;
    struct rights *rights = NULL;
    if (!asker_is_valid(f) || link_find(&k->requests, f->id) || !take_asker_rights(k, f, &rights)) {
        link_close(k, LINK_END_BROKEN, "a request that no front puts");
        return;
    }
    bool refused = home_refuses(k, f);
    if (!refused && f->number[0] && !find_remote(k, f->number[0])) {
        link_say(k, &(struct link_frame){.kind = LINK_MOVED, .id = f->id});
        refused = true; /* its session is over, or was never let in */
    }
    if (!refused) {
        if (request_decode(&h->doc, f->bytes, false, &req, &fault))
            ask_hub(k, f, rights, &req);
        else
            say_fault(k, f->id, &fault);
    }
    rights_unref(rights);
}

static void take_redeem(struct link *k, const struct link_frame *f)
{
    struct buf token = {0};
    bool good = handover_take(k->links->o.hub, f->text[0], &token);
    struct link_frame reply = {.kind = LINK_REPLY, .id = f->id};
    reply.text[0] = good ? STR("") : str_of(error_code(ERR_NOT_FOUND));
    reply.bytes = buf_str(&token);
    link_say(k, &reply);
    buf_done(&token);
}

static void take_home_room(struct remote *r, uint64_t n)
{
    if (n > LINK_MOST)
        return;
    r->room += (int64_t)n;
    if (session_has_output(&r->session))
        session_wake(&r->session);
}

void home_take(struct link *k, const struct link_frame *f)
{
    struct remote *r = find_remote(k, f->id); /* NULL also when it is over: then a frame falls */
    bool open = r && !r->over;
    switch (f->kind) {
    case LINK_OPEN: take_open(k, f); return;
    case LINK_REQUEST: take_home_request(k, f); return;
    case LINK_REDEEM: take_redeem(k, f); return;
    case LINK_IN:
        if (open)
            take_in(r, f);
        return;
    case LINK_ROOM:
        if (open)
            take_home_room(r, f->number[0]);
        return;
    case LINK_CLOSE:
        if (r)
            free_remote(r);
        return;
    default: link_close(k, LINK_END_BROKEN, "a frame that no front sends");
    }
}

void home_turn(struct link *k)
{
    struct list *node;
    while ((node = list_pop(&k->over)) != NULL)
        free_remote(list_item(node, struct remote, at));
    if (!link_is_full(k))
        home_drained(k);
}

void home_close_slots(struct link *k, const struct slots *slots)
{
    list_each (it, &k->all_sessions) {
        struct session *s =
            &container_of(list_item(it, struct on_link, all), struct remote, on)->session;
        if (s->state == SESSION_OPEN && slots_has(slots, s->owner->slot))
            session_close(s, CLOSE_GOING_AWAY);
    }
}

uint32_t home_close_owner(struct link *k, struct str owner, enum close_code code, const char *why)
{
    uint32_t n = 0;
    list_each (it, &k->all_sessions) {
        struct session *s =
            &container_of(list_item(it, struct on_link, all), struct remote, on)->session;
        if (s->state != SESSION_OPEN || !str_eq(str_of(s->owner->name), owner))
            continue;
        if (why)
            session_push_error(s, ERR_UNAUTHORIZED, STR_NULL, why);
        session_close(s, code);
        n++;
    }
    return n;
}

void home_end(struct link *k)
{
    while (!list_is_empty(&k->all_sessions)) {
        struct on_link *on = list_item(k->all_sessions.next, struct on_link, all);
        free_remote(container_of(on, struct remote, on));
    }
    while (!list_is_empty(&k->all_requests)) {
        struct on_link *on = list_item(k->all_requests.next, struct on_link, all);
        struct remote_call *rc = container_of(on, struct remote_call, on);
        call_forget(rc->call);
        link_unregister(&k->requests, on);
        free(rc);
    }
}
