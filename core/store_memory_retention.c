/* Removals by retention, and usage per owner: counted anew for each question. */
#include <stdlib.h>

#include "core/store_memory_rows.h"

static int64_t block_bytes(const struct mem_task *t)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < t->blocks.n; i++)
        bytes += (int64_t)t->blocks.at[i].bytes.len;
    return bytes;
}

static int64_t usage_of(const struct mem_task *t)
{
    bool ended = status_is_terminal(t->record.state.status);
    return block_bytes(t) + (ended ? task_record_cost(&t->record) : 0);
}

void memory_events_remove(struct mem_task *t)
{
    ASSERT(status_is_terminal(t->record.state.status) && t->tail.bytes.len == 0);
    memory_runs_done(&t->blocks);
    t->blocks = (struct runs){0};
    t->record.state.first = t->record.state.head + 1;
}

static bool is_in(struct str owner, struct str conversation, const struct op *op)
{
    return str_eq(owner, op->owner) && str_eq(conversation, op->conversation_id);
}

static bool has_tasks(const struct memory *m, const struct op *op)
{
    for (size_t i = 0; i < m->tasks.n; i++) {
        const struct task_record *t = &((struct mem_task *)m->tasks.at[i])->record;
        if (is_in(t->owner, t->conversation_id, op))
            return true;
    }
    return false;
}

static bool has_notices(const struct memory *m, const struct op *op)
{
    for (size_t i = 0; i < m->notices.n; i++) {
        const struct notice_record *n = &((struct mem_notice *)m->notices.at[i])->record;
        if (is_in(n->owner, n->conversation_id, op))
            return true;
    }
    return false;
}

static void remove_messages(struct memory *m, const struct op *op)
{
    for (size_t i = m->messages.n; i-- > 0;) {
        struct mem_message *message = m->messages.at[i];
        if (is_in(message->owner, message->conversation_id, op)) {
            memory_message_free(message);
            memory_rows_remove(&m->messages, i);
        }
    }
}

static void remove_keys(struct memory *m, const struct op *op)
{
    for (size_t i = m->keys.n; i-- > 0;) {
        struct mem_key *k = m->keys.at[i];
        if (is_in(k->owner, k->conversation_id, op) && str_eq(k->task_id, op->task_id)) {
            memory_key_free(k);
            memory_rows_remove(&m->keys, i);
        }
    }
}

static void remove_conversation(struct memory *m, const struct op *op)
{
    struct mem_conversation *c = memory_conversation_find(m, op->owner, op->conversation_id);
    if (!c || c->updated_at >= op->at || has_tasks(m, op) || has_notices(m, op))
        return;
    remove_messages(m, op); /* messages between tasks belong to none */
    for (size_t i = 0; i < m->conversations.n; i++)
        if (m->conversations.at[i] == c)
            memory_rows_remove(&m->conversations, i);
    memory_conversation_free(c);
}

void memory_task_remove(struct memory *m, const struct op *op)
{
    struct mem_task *t = memory_task_by_key(m, op->task_key);
    if (!t)
        return;
    ASSERT(status_is_terminal(t->record.state.status) && t->tail.bytes.len == 0);
    memory_messages_of_task_remove(m, op);
    remove_keys(m, op);
    memory_files_delete(m, op);
    for (size_t i = 0; i < m->tasks.n; i++)
        if (m->tasks.at[i] == t)
            memory_rows_remove(&m->tasks, i);
    memory_task_free(t);
    remove_conversation(m, op);
}

/* --- asking ----------------------------------------------------------------------------------- */

static int by_end(const void *a, const void *b)
{
    const struct task_record *x = *(void *const *)a, *y = *(void *const *)b;
    if (x->state.completed_at != y->state.completed_at)
        return x->state.completed_at < y->state.completed_at ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static int by_key(const void *a, const void *b)
{
    const struct task_record *x = *(void *const *)a, *y = *(void *const *)b;
    return (x->key > y->key) - (x->key < y->key);
}
_Static_assert(offsetof(struct mem_task, record) == 0, "sorted as records");

static bool is_asked(const struct mem_task *t, const struct query *q)
{
    const struct task_state *s = &t->record.state;
    if (!status_is_terminal(s->status))
        return false;
    if (q->kind == QUERY_EXPIRED)
        return s->completed_at < q->at && query_has_slot(q, t->record.owner);
    if (!str_eq(t->record.owner, q->owner))
        return false;
    return q->kind == QUERY_OLDEST ? s->completed_at < q->at : s->first <= s->head;
}

int memory_ask_ended(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct rows found = {0};
    size_t n = 0;
    for (size_t i = 0; i < m->tasks.n; i++)
        if (is_asked(m->tasks.at[i], q))
            memory_rows_add(&found, m->tasks.at[i]);
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at, q->kind == QUERY_EXPIRED ? by_end : by_key);
    for (; n < found.n && query_has_room(q, n, 0, 0); n++) {
        const struct mem_task *t = found.at[n];
        struct task_record *to = answer_add_task(ret);
        *to = memory_record_copy(&ret->chunks, &t->record, true);
        to->state = memory_state_copy(&ret->chunks, &t->record.state, true);
        to->event_bytes = block_bytes(t);
    }
    ret->more = n < found.n;
    free(found.at);
    return STORE_OK;
}

static void add_usage(struct answer *ret, struct str owner, int64_t bytes)
{
    for (size_t i = 0; i < ret->n_owners; i++)
        if (str_eq(ret->owners[i].owner, owner)) {
            ret->owners[i].value += bytes;
            return;
        }
    *answer_add_owner(ret) = (struct owner_record){arena_str(&ret->chunks, owner), bytes};
}

static int by_owner(const void *a, const void *b)
{
    const struct owner_record *x = a, *y = b;
    return str_order(x->owner, y->owner);
}

/* Keeps the requested ones, in order. */
static void keep_full(struct answer *ret, const struct query *q)
{
    size_t n = 0;
    if (ret->n_owners)
        qsort(ret->owners, ret->n_owners, sizeof *ret->owners, by_owner);
    for (size_t i = 0; i < ret->n_owners; i++) {
        const struct owner_record *u = &ret->owners[i];
        if (u->value <= q->at || !query_has_slot(q, u->owner) ||
            (q->before.p && str_order(u->owner, q->before) <= 0))
            continue;
        ret->more = !query_has_room(q, n, 0, 0);
        if (ret->more)
            break;
        ret->owners[n++] = *u;
    }
    ret->n_owners = n;
}

int memory_ask_usage(const struct memory *m, const struct query *q, struct answer *ret)
{
    bool is_all = q->kind == QUERY_USAGE && !q->owner.p;
    if (is_all)
        answer_add_owner(ret);
    for (size_t i = 0; i < m->tasks.n; i++) {
        const struct mem_task *t = m->tasks.at[i];
        if (is_all)
            ret->owners[0].value += usage_of(t);
        else if (usage_of(t) && (q->kind == QUERY_FULL || str_eq(t->record.owner, q->owner)))
            add_usage(ret, t->record.owner, usage_of(t));
    }
    for (size_t i = 0; i < m->files.n; i++) {
        const struct mem_file *f = m->files.at[i];
        if (is_all)
            ret->owners[0].value += f->record.size;
        else if (f->state != FILE_GONE &&
                 (q->kind == QUERY_FULL || str_eq(f->record.owner, q->owner)))
            add_usage(ret, f->record.owner, file_record_cost(&f->record));
    }
    if (q->kind == QUERY_FULL)
        keep_full(ret, q);
    return STORE_OK;
}
