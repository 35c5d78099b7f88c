#include "core/revocations.h"

#include <stdlib.h>

#include "core/hub.h"

struct revocation {
    struct map_node node;
    int64_t until;
    char owner[];
};

static struct map_key revocation_key(const struct map_node *node)
{
    return (struct map_key){{str_of(container_of(node, const struct revocation, node)->owner)}};
}

void revocations_init(struct revocations *r, const uint64_t secret[2])
{
    map_init(&r->by_owner, secret, revocation_key);
}

static void free_one(struct map_node *node, void *arg)
{
    (void)arg;
    free(container_of(node, struct revocation, node));
}

void revocations_done(struct revocations *r)
{
    map_each(&r->by_owner, free_one, NULL);
    map_done(&r->by_owner);
}

static struct revocation *revocations_find(const struct revocations *r, struct str owner)
{
    struct map_node *node = map_find(&r->by_owner, (struct map_key){{owner}});
    return node ? container_of(node, struct revocation, node) : NULL;
}

static void remember(struct revocations *r, struct str owner, int64_t until)
{
    struct revocation *one = revocations_find(r, owner);
    if (!one && until) {
        one = xcalloc(sizeof *one + owner.n + 1);
        memcpy(one->owner, owner.p, owner.n);
        map_put(&r->by_owner, &one->node);
    }
    if (one && until) {
        one->until = until;
    } else if (one) {
        map_remove(&r->by_owner, &one->node);
        free(one);
    }
}

void revocations_set(struct hub *h, struct str owner, int64_t until)
{
    remember(&h->revocations, owner, until);
    journal_put(&h->journal, &(struct op){.kind = OP_REVOKE, .owner = owner, .at = until});
}

void revocations_restore(struct hub *h, const struct answer *page)
{
    for (size_t i = 0; i < page->n_owners; i++) {
        const struct owner_record *one = &page->owners[i];
        if (one->value > h->clock.wall_ms)
            remember(&h->revocations, one->owner, one->value);
        else
            revocations_set(h, one->owner, 0);
    }
}

struct revocations_leaving {
    struct revocations *r;
    const struct slots *slots;
};

static void leave_one(struct map_node *node, void *arg)
{
    const struct revocations_leaving *l = arg;
    struct revocation *one = container_of(node, struct revocation, node);
    if (!slots_has(l->slots, slot_of(str_of(one->owner))))
        return;
    map_remove(&l->r->by_owner, node);
    free(one);
}

void revocations_leave(struct revocations *r, const struct slots *slots)
{
    map_each(&r->by_owner, leave_one, &(struct revocations_leaving){r, slots});
}

bool revocations_have(const struct revocations *r, struct str owner, int64_t wall_ms)
{
    const struct revocation *one = r->by_owner.n ? revocations_find(r, owner) : NULL;
    return one && one->until > wall_ms;
}

struct visit {
    void (*visit)(void *arg, const char *owner, int64_t until);
    void *arg;
};

static void visit_one(struct map_node *node, void *arg)
{
    const struct revocation *one = container_of(node, struct revocation, node);
    const struct visit *v = arg;
    v->visit(v->arg, one->owner, one->until);
}

void revocations_each(const struct revocations *r,
                      void (*visit)(void *arg, const char *owner, int64_t until), void *arg)
{
    struct map by_owner = r->by_owner; /* only a lookup: the map does not change */
    map_each(&by_owner, visit_one, &(struct visit){visit, arg});
}
