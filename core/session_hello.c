/* The beginning of a session: hello and welcome, its rights, and the end of its token. */
#include <stdio.h>
#include <stdlib.h>

#include "core/grant.h"
#include "core/handover.h"
#include "core/home.h"
#include "core/session.h"

#define EXPIRING_MS 60000
#define EXPIRY_CHECK_MS 30000

static void arm_expiry(struct session *s)
{
    struct clock *c = &s->hub->clock;
    if (!s->expires_at_ms)
        return;
    int64_t at = s->expiring_said ? s->expires_at_ms : s->expires_at_ms - EXPIRING_MS;
    msec_t in = at > c->wall_ms ? at - c->wall_ms : 0;
    /* The wall clock may be set (F40), while the timer counts elapsed time: so check again now and
     * then. */
    timer_arm(c, &s->timer, c->now_ms + (in < EXPIRY_CHECK_MS ? in : EXPIRY_CHECK_MS));
}

static void say_expiring(struct session *s)
{
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"token_expiring\"");
    js_put_int(&line, "expires_at", s->expires_at_ms);
    buf_putc(&line, '}');
    session_put_reply(s, buf_str(&line));
    buf_done(&line);
    s->expiring_said = true;
}

void session_on_timer(struct timer *timer)
{
    struct session *s = container_of(timer, struct session, timer);
    int64_t now = s->hub->clock.wall_ms;
    if (s->state == SESSION_HELLO) {
        session_push_error(s, ERR_UNAUTHORIZED, STR_NULL, "no hello within 10 s");
        session_close(s, CLOSE_UNAUTHORIZED);
    } else if (s->expiring_said && now >= s->expires_at_ms) {
        session_push_error(s, ERR_UNAUTHORIZED, STR_NULL, "the token has expired");
        session_close(s, CLOSE_UNAUTHORIZED);
    } else {
        if (!s->expiring_said && now >= s->expires_at_ms - EXPIRING_MS)
            say_expiring(s);
        arm_expiry(s);
    }
}

static void put_examples(struct buf *line, char *const *examples)
{
    if (!examples)
        return;
    js_put_raw(line, "examples", STR("["));
    for (size_t i = 0; examples[i]; i++) {
        if (i)
            buf_putc(line, ',');
        js_put_str(line, str_of(examples[i]));
    }
    buf_putc(line, ']');
}

void session_put_agents(struct buf *line, const struct hub *h)
{
    buf_putc(line, '[');
    for (size_t i = 0; i < h->o.n_agents; i++) {
        const struct agent *a = &h->o.agents[i];
        buf_puts(line, i ? ",{" : "{");
        js_put_field(line, "name", str_of(a->name));
        js_put_field(line, "description", str_of(a->description));
        put_examples(line, a->examples);
        js_put_bool(line, "default", a->is_default);
        buf_putc(line, '}');
    }
    buf_putc(line, ']');
}

static void welcome(struct session *s, struct str id, struct str guest_token)
{
    const struct hub *h = s->hub;
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"welcome\"");
    if (id.p)
        js_put_field(&line, "id", id);
    js_put_field(&line, "owner", str_of(s->owner->name));
    if (guest_token.n)
        js_put_field(&line, "token", guest_token);
    if (s->rights)
        js_put_raw(&line, "rights", s->rights->json);
    js_put_raw(&line, "server", STR("{\"name\":\"holdfast\""));
    js_put_field(&line, "version", str_of(h->o.version));
    buf_putc(&line, '}');
    js_put_key(&line, "agents");
    session_put_agents(&line, h);
    js_put_raw(&line, "limits", STR("{"));
    js_put_int(&line, "message_bytes", h->o.limits.message_bytes);
    js_put_int(&line, "tasks_per_owner", h->o.limits.tasks_per_owner);
    js_put_int(&line, "heartbeat_ms", HEARTBEAT_MS);
    buf_putc(&line, '}');
    if (h->epoch)
        js_put_int(&line, "epoch", h->epoch);
    buf_putc(&line, '}');
    session_put_reply(s, buf_str(&line));
    buf_done(&line);
}

static void set_expiry(struct session *s, int64_t expires_at_ms)
{
    s->expires_at_ms = expires_at_ms;
    if (expires_at_ms && expires_at_ms <= s->hub->clock.wall_ms)
        s->expires_at_ms +=
            TOKEN_LEEWAY_S * 1000; /* it was accepted within the leeway, and lives as long */
    s->expiring_said = false;
    timer_disarm(&s->hub->clock, &s->timer);
}

static void take_rights(struct session *s, struct rights *rights)
{
    rights_unref(s->rights);
    s->rights = rights;
    grant_join(s);
}

void session_adopt(struct session *s, const struct asker *who)
{
    s->owner = who->owner;
    s->quota = who->quota;
    s->owner->refs++;
    s->quota->refs++;
    session_count(s, 1);
    s->state = SESSION_OPEN;
    take_rights(s, rights_ref(who->rights));
    set_expiry(s, who->expires_at_ms);
    arm_expiry(s);
}

/* A connection stays one owner's, with the same rights. */
static const char *why_not_same(const struct session *s, const struct identity *who)
{
    if (!s->owner)
        return NULL;
    if (!str_eq(str_of(s->owner->name), (struct str){who->owner, who->owner_len}))
        return "the token is another owner's";
    return rights_equal(s->rights, who->rights) ? NULL : "the token has other rights";
}

/* code: it was exchanged for the token, which then is in the welcome. */
static void greet(struct session *s, const struct request *r, struct str token, bool by_code)
{
    struct identity who = {0};
    const char *wrong = s->ops->authenticate(s, token, &who) ? why_not_same(s, &who) : who.error;
    if (!wrong && by_code) {
        buf_clear(&who.token);
        buf_putstr(&who.token, token);
    }
    if (wrong) {
        session_push_error(s, who.later ? ERR_OVERLOADED : ERR_UNAUTHORIZED, r->id, wrong);
        session_close(s, who.later ? CLOSE_TRY_LATER : CLOSE_UNAUTHORIZED);
        rights_unref(who.rights);
        buf_done(&who.token);
        return;
    }
    bool first = !s->owner;
    if (first) {
        struct str name = {who.owner, who.owner_len};
        s->owner = owner_ref(s->hub, name);
        s->quota = owner_ref(s->hub, who.quota[0] ? str_of(who.quota) : name);
        session_count(s, 1);
    }
    s->state = SESSION_OPEN;
    s->keepalive_data = r->keepalive_data;
    s->strict = r->strict;
    take_rights(s, who.rights);
    set_expiry(s, who.expires_at_ms);
    if (!first || !home_is_away(s->hub, str_of(s->owner->name)) || away_hello(s, r->id))
        welcome(s, r->id, buf_str(&who.token));
    if (first && s->hub->draining)
        session_say_goaway(s);
    if (!s->away && s->state == SESSION_OPEN) /* otherwise the home looks at it */
        arm_expiry(s);
    buf_done(&who.token);
}

/* --- by a code -------------------------------------------------------------------------------- */

/* A hello that waits for what its code is good for. */
struct coded_hello {
    struct session *session;
    struct request req;
    struct redeeming *redeeming;
};

static void coded_hello_free(struct coded_hello *hello)
{
    hello->session->backlog->hello = NULL;
    request_done(&hello->req);
    free(hello);
}

static void on_redeemed(void *arg, enum error e, struct str token)
{
    struct coded_hello *hello = arg;
    struct session *s = hello->session;
    struct coded_hello mine = *hello;
    hello->req = (struct request){0};
    coded_hello_free(hello);
    if (e == ERR_NONE) {
        greet(s, &mine.req, token, true);
    } else {
        bool later = e == ERR_OVERLOADED;
        session_push_error(s, later ? e : ERR_UNAUTHORIZED, mine.req.id,
                           later ? "the node that gave the code cannot be reached now"
                                 : "the code is not valid");
        session_close(s, later ? CLOSE_TRY_LATER : CLOSE_UNAUTHORIZED);
    }
    request_done(&mine.req);
    if (!s->running)
        session_go_on(s);
}

void session_forget_hello(struct session *s)
{
    struct coded_hello *hello = s->backlog ? s->backlog->hello : NULL;
    if (!hello)
        return;
    handover_forget(hello->redeeming);
    coded_hello_free(hello);
}

void session_hello(struct session *s, struct request *r)
{
    if (!r->handover.p) {
        greet(s, r, r->token, false);
        return;
    }
    struct coded_hello *hello = xcalloc(sizeof *hello);
    hello->session = s;
    hello->req = *r;
    *r = (struct request){0};
    session_backlog(s)->hello = hello;
    struct redeeming *waits = handover_redeem(s->hub, hello->req.handover, on_redeemed, hello);
    if (waits)
        hello->redeeming = waits;
}
