#include "core/grant.h"

#include <stdlib.h>

#include "core/session.h"

struct grant *grant_find(struct hub *h, struct str owner, struct str id)
{
    struct owner *o = owner_find(h, owner);
    if (!o)
        return NULL;
    list_each (it, &o->grants) {
        struct grant *g = list_item(it, struct grant, node);
        if (g->committed && !g->taken && g->expires_at > h->clock.wall_ms &&
            str_eq(str_of(g->id), id))
            return g;
    }
    return NULL;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void grant_free(struct grant *g)
{
    while (list_pop(&g->sessions))
        continue;
    list_remove(&g->node);
    g->owner->n_grants--;
    owner_unref(g->hub, g->owner);
    free(g->conversation_id);
    free(g->json);
    free(g);
}

/* Connections that came with its token have no business here any more. */
static void grant_end(struct grant *g)
{
    struct list *node;
    while ((node = list_pop(&g->sessions)) != NULL) {
        struct session *s = list_item(node, struct session, in_grant);
        session_push_error(s, ERR_UNAUTHORIZED, STR_NULL, "the token was withdrawn");
        session_close(s, CLOSE_UNAUTHORIZED);
    }
    grant_free(g);
}

static void on_grant_put(const struct op *op, int status)
{
    struct grant *g = op->ref;
    g->committed = status == 0;
    if (status < 0 && !g->taken)
        grant_end(g);
}

/* A grant that could not be removed counts again, since it would after a restart. */
static void on_grant_taken(const struct op *op, int status)
{
    struct grant *g = op->ref;
    if (status == 0 || !g->committed)
        grant_end(g);
    else
        g->taken = false;
}

static struct grant *grant_new(struct hub *h, struct owner *owner, struct str conversation_id,
                               const char *id, struct str json)
{
    struct grant *g = xcalloc(sizeof *g);
    g->hub = h;
    g->owner = owner;
    owner->refs++;
    owner->n_grants++;
    memcpy(g->id, id, TASK_ID_LEN);
    g->conversation_id = xstrdup(conversation_id);
    g->json = xstrdup(json);
    list_init(&g->sessions);
    list_push(&owner->grants, &g->node);
    return g;
}

struct grant *grant_add(struct hub *h, struct owner *owner, struct str conversation_id,
                        const char *id, int64_t expires_at, struct str json)
{
    struct grant *g = grant_new(h, owner, conversation_id, id, json);
    struct buf body = {0};
    g->expires_at = expires_at;
    g->key = hub_new_key(h);
    buf_putc(&body, '{');
    js_put_field(&body, "owner", str_of(owner->name));
    js_put_raw(&body, "grant", json);
    buf_putc(&body, '}');
    struct outbox_record row = {.key = g->key,
                                .hook = STR(OUTBOX_GRANTS),
                                .id = str_of(g->id),
                                .at = h->clock.wall_ms,
                                .body = buf_str(&body),
                                .slot = owner->slot};
    journal_put(
        &h->journal,
        &(struct op){.kind = OP_OUTBOX_PUT, .done = on_grant_put, .ref = g, .outbox = &row});
    buf_done(&body);
    return g;
}

void grant_remove(struct grant *g)
{
    if (g->taken)
        return;
    g->taken = true;
    journal_put(
        &g->hub->journal,
        &(struct op){.kind = OP_OUTBOX_TAKE, .task_key = g->key, .done = on_grant_taken, .ref = g});
}

void grants_forget(struct owner *owner, struct str conversation_id)
{
    list_each (it, &owner->grants) {
        struct grant *g = list_item(it, struct grant, node);
        if (str_eq(str_of(g->conversation_id), conversation_id))
            grant_remove(g);
    }
}

void grants_expire(struct owner *owner)
{
    list_each (it, &owner->grants) {
        struct grant *g = list_item(it, struct grant, node);
        if (g->expires_at <= g->hub->clock.wall_ms)
            grant_remove(g);
    }
}

void grant_join(struct session *s)
{
    struct grant *g = s->rights && s->rights->grant_id.p
                          ? grant_find(s->hub, str_of(s->owner->name), s->rights->grant_id)
                          : NULL;
    list_remove(&s->in_grant);
    if (g)
        list_push(&g->sessions, &s->in_grant);
}

/* --- start and end ---------------------------------------------------------------------------- */

void grant_restore(struct hub *h, const struct outbox_record *row)
{
    struct js_doc doc = {0};
    struct buf owner = {0}, conversation = {0};
    int64_t expires_at = 0;
    bool is_sound = js_parse(&doc, row->body.p, row->body.n, JS_OURS) &&
                    js_type(&doc, 0) == JS_OBJECT && row->id.n == TASK_ID_LEN;
    uint32_t name = is_sound ? js_get(&doc, 0, "owner") : 0;
    uint32_t object = is_sound ? js_get(&doc, 0, "grant") : 0;
    bool is_object = name && object && js_type(&doc, object) == JS_OBJECT;
    uint32_t in = is_object ? js_get(&doc, object, "conversation_id") : 0;
    uint32_t end = is_object ? js_get(&doc, object, "expires_at") : 0;
    if (in && end && js_int(&doc, end, &expires_at)) {
        js_value(&doc, name, &owner);
        js_value(&doc, in, &conversation);
        struct buf json = {0};
        js_copy(&doc, object, &json);
        struct owner *o = owner_ref(h, buf_str(&owner));
        struct grant *g = grant_new(h, o, buf_str(&conversation), row->id.p, buf_str(&json));
        owner_unref(h, o);
        g->key = row->key;
        g->committed = true;
        g->expires_at = expires_at;
        if (expires_at <= h->clock.wall_ms)
            grant_remove(g);
        buf_done(&json);
    } else {
        outbox_take(h, row->key);
    }
    buf_done(&owner);
    buf_done(&conversation);
    js_done(&doc);
}

void grants_drop(struct owner *owner)
{
    while (!list_is_empty(&owner->grants))
        grant_free(list_item(owner->grants.next, struct grant, node));
}

static void grants_forget_of(struct map_node *node, void *arg)
{
    struct owner *o = container_of(node, struct owner, node);
    o->refs++;
    grants_drop(o);
    owner_unref(arg, o);
}

void grants_done(struct hub *h)
{
    map_each(&h->owners, grants_forget_of, h);
}
