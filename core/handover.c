#include "core/handover.h"

#include <stdlib.h>

#include "core/home.h"
#include "proto/base64url.h"

#define CODE_BYTES 18 /* 24 characters; the first two are the slot */

struct handover {
    struct list node; /* in the hub's, oldest first */
    struct owner *owner;
    int64_t expires_at, until;
    char code[CODE_BYTES / 3 * 4 + 1];
};

/* --- codes of this node ----------------------------------------------------------------------- */

static void handover_drop(struct hub *h, struct handover *code)
{
    list_remove(&code->node);
    owner_unref(h, code->owner);
    free(code);
}

void handovers_mark(const struct hub *h, struct slots *ret)
{
    list_each (it, &h->handovers)
        slots_add(ret, list_item(it, struct handover, node)->owner->slot);
}

void handovers_done(struct hub *h)
{
    list_each (it, &h->handovers)
        handover_drop(h, list_item(it, struct handover, node));
}

void handovers_expire(struct hub *h)
{
    list_each (it, &h->handovers) {
        struct handover *code = list_item(it, struct handover, node);
        if (code->expires_at <= h->clock.wall_ms)
            handover_drop(h, code);
    }
}

/* The oldest ones of an owner who has too many. */
static void make_room_of(struct hub *h, const struct owner *owner)
{
    unsigned n = 0;
    for (struct list *it = h->handovers.prev, *before; it != &h->handovers; it = before) {
        struct handover *code = list_item(it, struct handover, node);
        before = it->prev;
        n += code->owner == owner;
        if (code->owner == owner && n >= MAX_HANDOVERS)
            handover_drop(h, code);
    }
}

static void put_slot(unsigned char *bytes, unsigned slot)
{
    bytes[0] = (unsigned char)(slot >> 4);
    bytes[1] = (unsigned char)((slot & 15) << 4 | (bytes[1] & 15));
}

bool handover_make(struct hub *h, struct owner *owner, int64_t until, struct buf *code)
{
    unsigned char bytes[CODE_BYTES];
    handovers_expire(h);
    make_room_of(h, owner);
    if (!h->o.random(bytes, sizeof bytes))
        return false;
    put_slot(bytes, owner->slot);
    size_t from = code->len;
    base64url_put(code, bytes, sizeof bytes);
    struct handover *made = xcalloc(sizeof *made);
    made->owner = owner;
    owner->refs++;
    made->expires_at = h->clock.wall_ms + HANDOVER_MS;
    made->until = until;
    ASSERT(code->len - from == sizeof made->code - 1);
    memcpy(made->code, code->bytes + from, sizeof made->code - 1);
    list_push(&h->handovers, &made->node);
    return true;
}

/* In the same time, however much of it is right. */
static bool is_same_code(const char *a, struct str b)
{
    size_t n = strlen(a);
    unsigned char differ = b.n != n;
    for (size_t i = 0; i < n && i < b.n; i++)
        differ |= (unsigned char)(a[i] ^ b.p[i]);
    return differ == 0;
}

bool handover_take(struct hub *h, struct str code, struct buf *token)
{
    struct handover *found = NULL;
    list_each (it, &h->handovers) {
        struct handover *one = list_item(it, struct handover, node);
        if (one->expires_at > h->clock.wall_ms && is_same_code(one->code, code))
            found = one;
    }
    if (!found || !h->o.sign)
        return false;
    struct buf claims = {0};
    js_put_str(&claims, STR("sub"));
    buf_putc(&claims, ':');
    js_put_str(&claims, str_of(found->owner->name));
    js_put_int(&claims, "exp", found->until / 1000);
    bool is_signed = h->o.sign(h->o.arg, buf_str(&claims), token);
    buf_done(&claims);
    handover_drop(h, found);
    return is_signed;
}

/* --- codes of any node ------------------------------------------------------------------------ */

/* False: no node has given this one. */
static bool read_slot(struct str code, unsigned *ret)
{
    struct buf bytes = {0};
    bool good = base64url_read(code, &bytes) && bytes.len == CODE_BYTES;
    const unsigned char *b = (const unsigned char *)bytes.bytes;
    *ret = good ? (unsigned)b[0] << 4 | b[1] >> 4 : 0;
    buf_done(&bytes);
    return good;
}

static void redeem_here(struct hub *h, struct str code, struct redeeming *r)
{
    struct buf token = {0};
    bool good = handover_take(h, code, &token);
    handover_redeemed(r, good ? ERR_NONE : ERR_NOT_FOUND, buf_str(&token));
    buf_done(&token);
}

struct redeeming *handover_redeem(struct hub *h, struct str code, handover_fn *done, void *arg)
{
    const struct home_port *home = h->o.home;
    unsigned slot;
    bool is_code = read_slot(code, &slot);
    struct redeeming *r = xcalloc(sizeof *r);
    *r = (struct redeeming){done, arg};
    if (is_code && home && home->redeem(home->arg, slot, code, r))
        return r;
    if (is_code && !slots_has(&h->open, slot))
        handover_redeemed(r, ERR_OVERLOADED, STR(""));
    else
        redeem_here(h, code, r);
    return NULL;
}

void handover_forget(struct redeeming *r)
{
    if (r)
        r->done = NULL;
}

void handover_redeemed(struct redeeming *r, enum error e, struct str token)
{
    if (r->done)
        r->done(r->arg, e, token);
    free(r);
}
