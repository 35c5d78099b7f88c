#include "gateway/front/moved.h"

#include "gateway/base/deadline.h"
#include "gateway/front/http_api.h"
#include "gateway/front/ws.h"

static bool is_moved(const struct session *s, const struct slots *slots)
{
    return !s->away && s->owner && slots_has(slots, s->owner->slot);
}

/* A peer that asks nothing just now asks wherever its owner is served by then. */
static bool is_served_here(const struct conn *c)
{
    return !c->kind || !c->kind->is_served_here || c->kind->is_served_here(c);
}

void front_close_slots(struct front *f, const struct slots *slots)
{
    list_each (it, &f->conns) {
        struct conn *c = list_item(it, struct conn, all);
        struct session *s = &c->session;
        if (s->state == SESSION_OPEN && is_moved(s, slots) && is_served_here(c))
            session_close(s, CLOSE_GOING_AWAY);
    }
    list_each (it, &f->streams) {
        struct exchange *x = list_item(it, struct exchange, all);
        if (is_moved(&x->session, slots))
            deadline_now(x->wsi);
    }
}
