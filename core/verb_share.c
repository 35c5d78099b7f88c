/* Requests about what an owner lets others do: share, shares, unshare, handover. */
#include <stdio.h>

#include "core/grant.h"
#include "core/handover.h"
#include "core/session.h"

#define SHARE_MS (7 * 86400000LL) /* unless the request says until when */
#define MAX_SHARE_MS (366 * 86400000LL)

static void put_share(struct call *c, struct buf *out, const char *id, int64_t expires_at)
{
    const struct request *r = &c->req;
    buf_putc(out, '{');
    js_put_field(out, "share_id", str_of(id));
    js_put_field(out, "conversation_id", r->conversation_id);
    if (r->task_id.p)
        js_put_field(out, "task_id", r->task_id);
    js_put_key(out, "rights");
    rights_put_words(out, r->rights);
    if (r->member.p)
        js_put_field(out, "actor", r->member);
    js_put_int(out, "created_at", c->hub->clock.wall_ms);
    js_put_int(out, "expires_at", expires_at);
    buf_putc(out, '}');
}

/* The claims of its token: proto/rights.h reads them. */
static bool sign_share(struct call *c, const struct grant *g, struct buf *token)
{
    const struct request *r = &c->req;
    struct buf claims = {0};
    js_put_str(&claims, STR("sub"));
    buf_putc(&claims, ':');
    js_put_str(&claims, str_of(c->owner->name));
    js_put_int(&claims, "exp", g->expires_at / 1000);
    js_put_field(&claims, "jti", str_of(g->id));
    js_put_raw(&claims, "holdfast", STR("{\"conversations\":[{"));
    js_put_str(&claims, STR("id"));
    buf_putc(&claims, ':');
    js_put_str(&claims, r->conversation_id);
    if (r->task_id.p)
        js_put_field(&claims, "task_id", r->task_id);
    js_put_key(&claims, "rights");
    rights_put_words(&claims, r->rights);
    buf_puts(&claims, "}]");
    if (r->member.p)
        js_put_field(&claims, "actor", r->member);
    buf_putc(&claims, '}');
    bool is_signed = c->hub->o.sign(c->hub->o.arg, buf_str(&claims), token);
    buf_done(&claims);
    return is_signed;
}

/* Behind a '#', which no server and no log sees; the page knows these names. */
static void put_page_link(const struct call *c, struct buf *line, const char *name,
                          struct str secret)
{
    struct buf url = {0};
    if (!c->hub->o.public_url)
        return;
    buf_puts(&url, c->hub->o.public_url);
    buf_putc(&url, '#');
    buf_puts(&url, name);
    buf_putc(&url, '=');
    buf_putstr(&url, secret);
    js_put_field(line, "url", buf_str(&url));
    buf_done(&url);
}

static void reply_shared(struct call *c, const struct grant *g)
{
    struct buf line = {0}, token = {0};
    if (!sign_share(c, g, &token)) {
        call_fail(c, ERR_INTERNAL, "the token cannot be signed");
    } else {
        reply_begin(c, &line, "shared");
        js_put_raw(&line, "share", str_of(g->json));
        js_put_field(&line, "token", buf_str(&token));
        put_page_link(c, &line, "share", buf_str(&token));
        buf_putc(&line, '}');
        call_reply(c, buf_str(&line));
    }
    buf_done(&line);
    buf_done(&token);
}

static void on_share_written(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    const struct grant *g =
        status < 0 ? NULL : grant_find(c->hub, str_of(c->owner->name), buf_str(&c->out));
    if (status < 0)
        call_write_failed(c);
    else if (!g) /* the conversation was deleted in the same breath */
        call_fail(c, ERR_NOT_FOUND, NO_SUCH_CONVERSATION);
    else
        reply_shared(c, g);
}

static void add_share(struct call *c)
{
    struct hub *h = c->hub;
    char id[TASK_ID_LEN + 1];
    struct buf json = {0};
    int64_t now = h->clock.wall_ms;
    int64_t end = c->req.expires_at ? (int64_t)c->req.expires_at : now + SHARE_MS;
    if (!c->req.rights)
        c->req.rights = RIGHT_READ;
    hub_new_id(h, id);
    put_share(c, &json, id, end);
    (void)grant_add(h, c->owner, c->req.conversation_id, id, end, buf_str(&json));
    buf_done(&json);
    buf_puts(&c->out, id);
    call_wait(c, on_share_written);
}

static void on_shared(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    const struct conversation *conversation =
        conversation_find(c->hub, str_of(c->owner->name), c->req.conversation_id);
    (void)answer;
    if (status < 0 && status != STORE_NOT_FOUND)
        call_store_failed(c, status);
    else if (status < 0)
        call_fail(c, ERR_NOT_FOUND, c->req.task_id.p ? NO_SUCH_TASK : NO_SUCH_CONVERSATION);
    else if (conversation && conversation->deleting)
        call_fail(c, ERR_CONFLICT, IS_BEING_DELETED);
    else
        add_share(c);
}

static bool share_is_good(struct call *c)
{
    struct hub *h = c->hub;
    int64_t now = h->clock.wall_ms;
    if (h->o.limits.shares_per_owner == 0 || !h->o.sign) {
        call_fail(c, ERR_UNSUPPORTED, "nothing can be shared here");
        return false;
    }
    if (c->req.expires_at &&
        ((int64_t)c->req.expires_at <= now || (int64_t)c->req.expires_at > now + MAX_SHARE_MS)) {
        call_fail(c, ERR_BAD_REQUEST,
                  "\"expires_at\" must be a time to come, at most 366 days from now");
        return false;
    }
    grants_expire(c->owner);
    if (c->owner->n_grants < h->o.limits.shares_per_owner)
        return true;
    h->stats.limit_hits[LIMIT_SHARES]++;
    call_fail(c, ERR_OVERLOADED, "too many shares of this owner");
    return false;
}

void verb_share(struct call *c)
{
    if (!share_is_good(c))
        return;
    call_query(c,
               &(struct query){.kind = c->req.task_id.p ? QUERY_TASK : QUERY_CONVERSATION,
                               .conversation_id = c->req.conversation_id,
                               .task_id = c->req.task_id},
               on_shared);
}

/* Newest first. */
void verb_shares(struct call *c)
{
    const struct request *r = &c->req;
    struct buf line = {0};
    uint32_t n = 0;
    bool more = false;
    grants_expire(c->owner);
    reply_begin(c, &line, "share_list");
    js_put_raw(&line, "shares", STR("["));
    for (struct list *it = c->owner->grants.prev; it != &c->owner->grants; it = it->prev) {
        const struct grant *g = list_item(it, const struct grant, node);
        if (!g->committed || g->taken ||
            (r->before.p && memcmp(g->id, r->before.p, TASK_ID_LEN) >= 0) ||
            (r->conversation_id.p && !str_eq(str_of(g->conversation_id), r->conversation_id)))
            continue;
        more = n == r->limit;
        if (more)
            break;
        if (n++)
            buf_putc(&line, ',');
        buf_puts(&line, g->json);
    }
    buf_putc(&line, ']');
    js_put_bool(&line, "more", more);
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

void verb_unshare(struct call *c)
{
    struct grant *g = grant_find(c->hub, str_of(c->owner->name), c->req.share_id);
    if (!g) {
        call_fail(c, ERR_NOT_FOUND, "no such share");
        return;
    }
    grant_remove(g);
    call_wait_ok(c);
}

/* The other device has the same owner for as long as this one. */
void verb_handover(struct call *c)
{
    struct hub *h = c->hub;
    struct buf code = {0}, line = {0};
    if (!h->o.sign || c->expires_at_ms == 0) {
        call_fail(c, ERR_UNSUPPORTED, "there is nothing to hand over");
        return;
    }
    if (!handover_make(h, c->owner, c->expires_at_ms, &code)) {
        call_fail(c, ERR_INTERNAL, "random numbers are not available");
        return;
    }
    reply_begin(c, &line, "handover");
    js_put_field(&line, "code", buf_str(&code));
    put_page_link(c, &line, "handover", buf_str(&code));
    js_put_int(&line, "expires_at", h->clock.wall_ms + HANDOVER_MS);
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&code);
    buf_done(&line);
}
