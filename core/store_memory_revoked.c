/* Revoked owners. */
#include <stdlib.h>

#include "core/store_memory_rows.h"

static void revocation_free(struct mem_revocation *r)
{
    free(r->owner);
    free(r);
}

void memory_revoke(struct memory *m, const struct op *op)
{
    for (size_t i = m->revocations.n; i-- > 0;) {
        struct mem_revocation *old = m->revocations.at[i];
        if (!str_eq(str_of(old->owner), op->owner))
            continue;
        revocation_free(old);
        memory_rows_remove(&m->revocations, i);
    }
    if (!op->at)
        return;
    struct mem_revocation *r = xcalloc(sizeof *r);
    *r = (struct mem_revocation){.owner = xstrdup(op->owner), .until = op->at};
    memory_rows_add(&m->revocations, r);
}

void memory_revocations_done(struct memory *m)
{
    for (size_t i = 0; i < m->revocations.n; i++)
        revocation_free(m->revocations.at[i]);
    free(m->revocations.at);
}

static int by_owner(const void *a, const void *b)
{
    const struct mem_revocation *x = *(void *const *)a, *y = *(void *const *)b;
    return str_order(str_of(x->owner), str_of(y->owner));
}

int memory_ask_revoked(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct rows found = {0};
    size_t n = 0;
    for (size_t i = 0; i < m->revocations.n; i++) {
        struct mem_revocation *r = m->revocations.at[i];
        if ((!q->before.p || str_order(str_of(r->owner), q->before) > 0) &&
            query_has_slot(q, str_of(r->owner)))
            memory_rows_add(&found, r);
    }
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at, by_owner);
    for (; n < found.n && query_has_room(q, n, 0, 0); n++) {
        const struct mem_revocation *r = found.at[n];
        *answer_add_owner(ret) = (struct owner_record){
            .owner = arena_str(&ret->chunks, str_of(r->owner)), .value = r->until};
    }
    ret->more = n < found.n;
    free(found.at);
    return STORE_OK;
}
