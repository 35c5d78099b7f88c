#include "core/allowances.h"

#include <stdlib.h>

struct allowance {
    struct map_node node;
    struct list by_age;
    char *owner, *conversation_id, *key;
};

static struct map_key allowance_key(const struct map_node *node)
{
    const struct allowance *one = container_of(node, const struct allowance, node);
    return (struct map_key){{str_of(one->owner), str_of(one->conversation_id), str_of(one->key)}};
}

void allowances_init(struct allowances *a, const uint64_t secret[2])
{
    map_init(&a->all, secret, allowance_key);
    list_init(&a->by_age);
}

static void allowance_drop(struct allowances *a, struct allowance *one)
{
    map_remove(&a->all, &one->node);
    list_remove(&one->by_age);
    free(one->owner);
    free(one->conversation_id);
    free(one->key);
    free(one);
}

static struct allowance *item(struct list *by_age)
{
    return list_item(by_age, struct allowance, by_age);
}

void allowances_done(struct allowances *a)
{
    list_each (it, &a->by_age)
        allowance_drop(a, item(it));
    map_done(&a->all);
}

bool allowances_have(const struct allowances *a, struct str owner, struct str conversation_id,
                     struct str key)
{
    return map_find(&a->all, (struct map_key){{owner, conversation_id, key}}) != NULL;
}

void allowances_add(struct allowances *a, struct str owner, struct str conversation_id,
                    struct str key)
{
    if (allowances_have(a, owner, conversation_id, key))
        return;
    if (a->all.n == ALLOWANCES)
        allowance_drop(a, item(a->by_age.next));
    struct allowance *one = xcalloc(sizeof *one);
    one->owner = xstrdup(owner);
    one->conversation_id = xstrdup(conversation_id);
    one->key = xstrdup(key);
    map_put(&a->all, &one->node);
    list_push(&a->by_age, &one->by_age);
}

void allowances_forget(struct allowances *a, struct str owner, struct str conversation_id)
{
    list_each (it, &a->by_age) {
        struct allowance *one = item(it);
        if (str_eq(str_of(one->owner), owner) &&
            str_eq(str_of(one->conversation_id), conversation_id))
            allowance_drop(a, one);
    }
}

void allowances_forget_slots(struct allowances *a, const struct slots *slots)
{
    list_each (it, &a->by_age) {
        struct allowance *one = item(it);
        if (slots_has(slots, slot_of(str_of(one->owner))))
            allowance_drop(a, one);
    }
}
