/* The front's end of a link: sessions and requests of clients here whose owner's home is there. */
#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/handover.h"
#include "gateway/links/links_private.h"
#include "proto/rights.h"

struct away {
    struct on_link on;
    struct session *session;
    int64_t room; /* bytes of messages that the home takes without a word */
    size_t taken; /* bytes of lines that the home does not know of yet */
    bool holds;   /* the client is not read */
};

/* A request, or a code. */
struct away_call {
    struct on_link on;
    struct call *call;
    struct redeeming *redeeming;
};

static struct str text_or_none(const char *text)
{
    return text ? str_of(text) : STR("");
}

static void put_rights(struct link_frame *f, const struct rights *rights)
{
    if (!rights)
        return;
    f->text[LINK_RIGHTS] = rights->json;
    f->text[LINK_GRANT] = rights->grant_id;
}

struct link *link_to(struct links *l, uint64_t node)
{
    list_each (it, &l->peers) {
        const struct peer *p = list_item(it, struct peer, all);
        if (p->incarnation == node)
            return p->link && p->link->state == LINK_UP ? p->link : NULL;
    }
    return NULL;
}

static struct link *link_to_slot(struct links *l, unsigned slot)
{
    return link_to(l, l->o.home_of(l->o.arg, slot));
}

struct link *front_link(struct links *l, struct str owner)
{
    return link_to_slot(l, slot_of(owner));
}

static bool owner_is_away(void *arg, struct str owner)
{
    struct links *l = arg;
    uint64_t home = l->o.home_of(l->o.arg, slot_of(owner));
    return home && home != l->o.incarnation;
}

/* --- sessions --------------------------------------------------------------------------------- */

static struct away *open_away(void *arg, struct session *s)
{
    struct links *l = arg;
    struct link *k = front_link(l, str_of(s->owner->name));
    if (!k || link_is_full(k))
        return NULL;
    struct away *a = xcalloc(sizeof *a);
    a->session = s;
    a->room = LINK_WINDOW;
    a->on.id = ++k->next_id;
    link_register(k, &k->sessions, &k->all_sessions, &a->on);
    l->stats.away++;
    struct link_frame f = {.kind = LINK_OPEN, .id = a->on.id};
    f.flags = s->ops->authenticate ? LINK_IS_SOCKET : 0;
    f.flags |= s->strict ? LINK_IS_STRICT : 0;
    f.number[0] = (uint64_t)s->expires_at_ms;
    f.text[LINK_OWNER] = str_of(s->owner->name);
    f.text[LINK_QUOTA] = str_of(s->quota->name);
    f.text[LINK_FROM] = text_or_none(s->from);
    put_rights(&f, s->rights);
    link_say(k, &f);
    return a;
}

static void free_away(struct away *a)
{
    struct link *k = a->on.link;
    link_unregister(&k->sessions, &a->on);
    k->links->stats.away--;
    free(a);
}

static void close_away(struct away *a)
{
    link_say(a->on.link, &(struct link_frame){.kind = LINK_CLOSE, .id = a->on.id});
    free_away(a);
}

static void hold_away(struct away *a)
{
    bool holds = a->room <= 0;
    if (a->holds == holds)
        return;
    a->holds = holds;
    a->session->ops->hold(a->session, holds);
}

static void receive_away(struct away *a, struct str message, uint32_t charge)
{
    struct link_frame f = {.kind = LINK_IN, .id = a->on.id, .number = {charge}, .bytes = message};
    link_say(a->on.link, &f);
    a->room -= (int64_t)message.n;
    hold_away(a);
}

static void took_away(struct away *a, size_t bytes)
{
    a->taken += bytes;
    if (a->taken < LINK_WINDOW_STEP)
        return;
    struct link_frame f = {.kind = LINK_ROOM, .id = a->on.id, .number = {a->taken}};
    link_say(a->on.link, &f);
    a->taken = 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static bool request_away(void *arg, struct call *c)
{
    struct links *l = arg;
    struct session *s = c->session;
    struct link *k = s ? ((struct on_link *)s->away)->link : front_link(l, str_of(c->owner->name));
    if (!k || (!s && link_is_full(k)))
        return false;
    struct away_call *ac = xcalloc(sizeof *ac);
    ac->call = c;
    ac->on.id = ++k->next_id;
    link_register(k, &k->requests, &k->all_requests, &ac->on);
    l->stats.requests_out++;
    struct link_frame f = {.kind = LINK_REQUEST, .id = ac->on.id};
    f.number[0] = s ? ((struct on_link *)s->away)->id : 0;
    f.number[1] = (uint64_t)c->expires_at_ms;
    f.text[LINK_OWNER] = str_of(c->owner->name);
    f.text[LINK_QUOTA] = str_of(c->quota->name);
    f.text[LINK_FROM] = text_or_none(c->from);
    f.text[LINK_TRACE] = text_or_none(c->trace);
    put_rights(&f, c->rights);
    size_t begun = link_begin(&k->out, &f);
    request_encode(&c->req, &k->out);
    link_end(&k->out, begun);
    return true;
}

static bool redeem_away(void *arg, unsigned slot, struct str code, struct redeeming *r)
{
    struct link *k = link_to_slot(arg, slot);
    if (!k || link_is_full(k))
        return false;
    struct away_call *ac = xcalloc(sizeof *ac);
    ac->redeeming = r;
    ac->on.id = ++k->next_id;
    link_register(k, &k->requests, &k->all_requests, &ac->on);
    link_say(k, &(struct link_frame){.kind = LINK_REDEEM, .id = ac->on.id, .text = {code}});
    return true;
}

/* Both NULL: it is none that waits. */
static struct away_call take_call(struct link *k, uint32_t id)
{
    struct on_link *on = link_find(&k->requests, id);
    if (!on)
        return (struct away_call){0};
    struct away_call *ac = container_of(on, struct away_call, on), taken = *ac;
    link_unregister(&k->requests, on);
    free(ac);
    return taken;
}

static enum error error_of(struct str code)
{
    for (int e = ERR_NONE + 1; e < N_ERRORS; e++)
        if (str_eq(str_of(error_code((enum error)e)), code))
            return (enum error)e;
    return code.n ? ERR_INTERNAL : ERR_NONE;
}

static void refuse_call(struct away_call taken, const char *why)
{
    if (taken.redeeming)
        handover_redeemed(taken.redeeming, ERR_OVERLOADED, STR(""));
    else if (taken.call)
        call_fail(taken.call, ERR_OVERLOADED, why);
}

/* --- frames ----------------------------------------------------------------------------------- */

static void take_reply(struct link *k, const struct link_frame *f)
{
    const struct away_call taken = take_call(k, f->id);
    struct call *c = taken.call;
    if (taken.redeeming)
        handover_redeemed(taken.redeeming, error_of(f->text[0]), f->bytes);
    if (!c)
        return;
    if (c->session && c->session->away)
        c->session->away_knows = f->flags;
    call_finish(c, error_of(f->text[0]), f->bytes);
}

static struct away *find_away(struct link *k, uint32_t id)
{
    struct on_link *on = link_find(&k->sessions, id);
    return on ? container_of(on, struct away, on) : NULL;
}

static void lose_away(struct away *a, enum close_code code)
{
    struct session *s = a->session;
    free_away(a);
    away_lost(s, (int)code);
}

static void take_front_room(struct away *a, uint64_t n)
{
    a->room += n <= LINK_MOST ? (int64_t)n : 0;
    away_taken(a->session);
    hold_away(a);
}

/* Nothing was carried out there: the client may ask again, by then where its owner lives now. */
static void take_moved(struct link *k, uint32_t id)
{
    struct away *a = find_away(k, id);
    k->links->stats.moved++;
    if (a)
        lose_away(a, CLOSE_GOING_AWAY);
    else
        refuse_call(take_call(k, id), "this owner is being moved to another node");
}

void front_take(struct link *k, const struct link_frame *f)
{
    struct away *a = find_away(k, f->id); /* NULL also when it is closed here: then it falls */
    switch (f->kind) {
    case LINK_REPLY: take_reply(k, f); return;
    case LINK_MOVED: take_moved(k, f->id); return;
    case LINK_OUT:
        if (a)
            away_put(a->session, f->bytes, f->flags);
        return;
    case LINK_ROOM:
        if (a)
            take_front_room(a, f->number[0]);
        return;
    case LINK_CLOSE:
        if (a)
            lose_away(a, (enum close_code)f->number[0]);
        return;
    default: link_close(k, LINK_END_BROKEN, "a frame that no home sends");
    }
}

/* A request may have been carried out, and is not put again: the client's key decides. */
void front_end(struct link *k)
{
    while (!list_is_empty(&k->all_sessions)) {
        struct on_link *on = list_item(k->all_sessions.next, struct on_link, all);
        lose_away(container_of(on, struct away, on), CLOSE_GOING_AWAY);
    }
    while (!list_is_empty(&k->all_requests)) {
        const struct on_link *on = list_item(k->all_requests.next, struct on_link, all);
        k->links->stats.lost++;
        refuse_call(take_call(k, on->id),
                    "the node that serves this owner was lost: it may have carried this out");
    }
}

void front_port_init(struct links *l)
{
    l->port = (struct home_port){.arg = l,
                                 .is_away = owner_is_away,
                                 .open = open_away,
                                 .receive = receive_away,
                                 .took = took_away,
                                 .close = close_away,
                                 .request = request_away,
                                 .redeem = redeem_away};
}
