/* Reports to other servers that are not delivered yet. */
#include <stdlib.h>

#include "core/store_memory_rows.h"

static struct outbox_record outbox_rows_copy(struct arena_chunk **chunks,
                                             const struct outbox_record *from)
{
    struct outbox_record to = *from;
    to.hook = arena_str(chunks, from->hook);
    to.id = arena_str(chunks, from->id);
    to.body = arena_str(chunks, from->body);
    return to;
}

static void outbox_free(struct mem_outbox *o)
{
    arena_done(&o->chunks);
    free(o);
}

void memory_outbox_put(struct memory *m, const struct op *op)
{
    struct mem_outbox *o = xcalloc(sizeof *o);
    o->record = outbox_rows_copy(&o->chunks, op->outbox);
    memory_rows_add(&m->outbox, o);
    if (o->record.key >= m->start.next_key)
        m->start.next_key = o->record.key + 1;
}

void memory_outbox_take(struct memory *m, const struct op *op)
{
    for (size_t i = m->outbox.n; i-- > 0;) {
        struct mem_outbox *o = m->outbox.at[i];
        if (o->record.key != op->task_key)
            continue;
        outbox_free(o);
        memory_rows_remove(&m->outbox, i);
    }
}

void memory_outbox_done(struct memory *m)
{
    for (size_t i = 0; i < m->outbox.n; i++)
        outbox_free(m->outbox.at[i]);
    free(m->outbox.at);
}

/* Keys only grow, so the rows are in key order. */
int memory_ask_outbox(const struct memory *m, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    for (size_t i = 0; i < m->outbox.n; i++) {
        const struct outbox_record *r = &((struct mem_outbox *)m->outbox.at[i])->record;
        if (r->key <= (int64_t)q->after || !str_eq(r->hook, q->key) ||
            (q->slots && !slots_has(q->slots, r->slot)))
            continue;
        ret->more = !query_has_room(q, ret->n_outbox, bytes, r->body.n);
        if (ret->more)
            break;
        bytes += r->body.n;
        *answer_add_outbox(ret) = outbox_rows_copy(&ret->chunks, r);
    }
    return STORE_OK;
}
