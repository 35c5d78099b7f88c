/* Sessions and requests whose owner is served at another node. */
#include <stdlib.h>

#include "core/home.h"
#include "core/session.h"
#include "proto/link.h"

#define UNREACHABLE_HOME "the node that serves this owner cannot be reached now"

bool home_is_away(const struct hub *h, struct str owner)
{
    return h->o.home && h->o.home->is_away(h->o.home->arg, owner);
}

/* A client is told to come again: by then somebody may be the home. */
bool away_open(struct session *s)
{
    const struct home_port *home = s->hub->o.home;
    s->away = home->open(home->arg, s);
    if (!s->away)
        session_close(s, CLOSE_GOING_AWAY);
    return s->away;
}

/* A home that is dead keeps its owners until another has taken them over: nobody waits for that. */
bool away_hello(struct session *s, struct str id)
{
    if (!away_open(s)) {
        session_push_error(s, ERR_OVERLOADED, id, UNREACHABLE_HOME);
        return false;
    }
    s->away_waits = true;
    session_backlog(s)->away_hello = id.p ? xstrdup(id) : NULL;
    return true;
}

static void end_wait(struct session *s)
{
    s->away_waits = false;
    if (!s->backlog)
        return;
    free(s->backlog->away_hello);
    s->backlog->away_hello = NULL;
}

void away_taken(struct session *s)
{
    if (!s->away_waits)
        return;
    end_wait(s);
    session_wake(s);
}

void away_receive(struct session *s, struct str message)
{
    uint32_t charge = s->away_charge;
    s->away_charge = 0;
    s->hub->o.home->receive(s->away, message, charge);
}

/* A session that has begun here cannot go on elsewhere: its client resumes. */
void away_request(struct call *c)
{
    const struct home_port *home = c->hub->o.home;
    struct session *s = c->session;
    bool opens = s && !s->away, has_begun = opens && s->ops->authenticate;
    c->is_away = true;
    if (has_begun)
        session_close(s, CLOSE_GOING_AWAY);
    if (has_begun || (opens && !away_open(s)) || !home->request(home->arg, c))
        call_fail(c, ERR_OVERLOADED, UNREACHABLE_HOME);
}

void away_put(struct session *s, struct str lines, uint8_t knows)
{
    s->away_knows = knows;
    if (lines.n > 0)
        session_put_reply(s, lines);
    else
        session_wake(s);
}

void away_lost(struct session *s, int close_code)
{
    s->away = NULL;
    if (s->away_waits) { /* it was not let in */
        session_drop_replies(s);
        struct str id = s->backlog ? str_of(s->backlog->away_hello) : STR_NULL;
        if (close_code == CLOSE_UNAUTHORIZED)
            session_push_error(s, ERR_UNAUTHORIZED, id, "revoked");
        else
            session_push_error(s, ERR_OVERLOADED, id, UNREACHABLE_HOME);
        end_wait(s);
    }
    session_close(s, (enum close_code)close_code);
}

uint8_t session_knows(const struct session *s)
{
    if (s->away && session_n_replies(s) > 0) /* what it knows comes behind them */
        return (uint8_t)((s->away_knows | LINK_FOLLOWS) & ~(LINK_IS_TOLD | LINK_IS_THROUGH));
    if (s->away)
        return s->away_knows;
    uint8_t watches = s->views && s->views->n_openings ? LINK_WATCHES : 0;
    if (list_is_empty(&s->subscriptions))
        return watches | LINK_IS_THROUGH;
    const struct cursor *c =
        &list_item(s->subscriptions.next, struct subscription, in_session)->cursor;
    bool told = !cursor_has_more(c);
    return (uint8_t)(watches | LINK_FOLLOWS | (told ? LINK_IS_TOLD : 0) |
                     (told && c->stream->ended ? LINK_IS_THROUGH : 0));
}
