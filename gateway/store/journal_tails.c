#include "gateway/store/journal_tails.h"

#include <stdlib.h>

#include "proto/line_pack.h"

static const uint64_t secret[2] = {0x686f6c6466617374, 1}; /* keys are ours: nobody can aim */

static struct map_key key_of_int(const int64_t *key)
{
    return (struct map_key){{{(const char *)key, sizeof *key}}};
}

/* --- scanning --------------------------------------------------------------------------------- */

static struct map_key found_key(const struct map_node *node)
{
    return key_of_int(&container_of(node, const struct journal_found, node)->task_key);
}

void journal_scan_init(struct journal_scan *scan, bool want_bytes)
{
    *scan = (struct journal_scan){.want_bytes = want_bytes};
    map_init(&scan->tasks, secret, found_key);
    list_init(&scan->live);
}

static void found_free(struct map_node *node, void *arg)
{
    struct journal_found *f = container_of(node, struct journal_found, node);
    (void)arg;
    buf_done(&f->bytes);
    free(f);
}

void journal_scan_done(struct journal_scan *scan)
{
    map_each(&scan->tasks, found_free, NULL);
    map_done(&scan->tasks);
}

struct journal_found *journal_scan_find(const struct journal_scan *scan, int64_t task_key)
{
    struct map_node *node = map_find(&scan->tasks, key_of_int(&task_key));
    return node ? container_of(node, struct journal_found, node) : NULL;
}

struct journal_found *journal_scan_add(struct journal_scan *scan, int64_t task_key)
{
    struct journal_found *f = xcalloc(sizeof *f);
    f->task_key = task_key;
    map_put(&scan->tasks, &f->node);
    return f;
}

enum journal_take journal_scan_take(struct journal_scan *scan, struct journal_found *f,
                                    struct journal_row row, const struct journal_entry *e)
{
    if (!f->exists || e->last <= f->sealed)
        return JOURNAL_TAKEN;
    if (!f->last) {
        list_push(&scan->live, &f->at);
        scan->n_live++;
        f->row = row;
        f->first = e->first;
    } else if (e->first != f->last + 1) {
        return JOURNAL_GAP;
    }
    f->last = e->last;
    if (scan->want_bytes && !line_unpack_to(&f->bytes, e->bytes))
        return JOURNAL_DAMAGED;
    return JOURNAL_TAKEN;
}

/* --- tails, to read --------------------------------------------------------------------------- */

static int by_task_key(const void *a, const void *b)
{
    const struct block *const *x = a, *const *y = b;
    return ((*x)->task_key > (*y)->task_key) - ((*x)->task_key < (*y)->task_key);
}

int tails_fill(struct tails *t, struct journal_scan *scan, const struct slots *slots)
{
    *t = (struct tails){.at = xalloc((scan->n_live + 1) * sizeof(struct block *))};
    list_each (at, &scan->live) {
        struct journal_found *f = list_item(at, struct journal_found, at);
        if (slots && !slots_has(slots, f->slot))
            continue;
        struct block *b = block_new(f->task_key, f->first, f->last, f->bytes.len);
        if (!b) {
            tails_done(t);
            return STORE_IO;
        }
        if (f->bytes.len)
            memcpy(b->bytes, f->bytes.bytes, f->bytes.len);
        buf_done(&f->bytes); /* so that only one task at a time exists twice */
        t->at[t->n++] = b;
    }
    qsort(t->at, t->n, sizeof(struct block *), by_task_key);
    return STORE_OK;
}

void tails_done(struct tails *t)
{
    for (size_t i = 0; i < t->n; i++)
        block_free(t->at[i]);
    free(t->at);
    *t = (struct tails){0};
}

int tails_page(struct tails *t, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct block *b = t->at[i];
        if (b->task_key <= (int64_t)q->after)
            continue;
        if (!query_has_room(q, ret->n_blocks, bytes, b->len)) {
            ret->more = true;
            return STORE_OK;
        }
        bytes += b->len;
        struct block *copy = block_new(b->task_key, b->first, b->last, b->len);
        if (!copy)
            return STORE_IO;
        memcpy(copy->bytes, b->bytes, b->len);
        answer_add_block(ret, copy);
    }
    tails_done(t);
    return STORE_OK;
}

/* --- tails, to write -------------------------------------------------------------------------- */

static struct map_key tail_key(const struct map_node *node)
{
    return key_of_int(&container_of(node, const struct journal_tail, node)->task_key);
}

void journal_tails_init(struct journal_tails *t)
{
    *t = (struct journal_tails){0};
    map_init(&t->tasks, secret, tail_key);
    list_init(&t->order);
}

static void clear(struct journal_tails *t)
{
    while (!list_is_empty(&t->order))
        journal_tails_remove(t, journal_tails_oldest(t));
}

void journal_tails_done(struct journal_tails *t)
{
    clear(t);
    map_done(&t->tasks);
    free(t->changes);
    *t = (struct journal_tails){0};
}

void journal_tails_load(struct journal_tails *t, const struct journal_scan *scan)
{
    clear(t);
    list_each (at, &scan->live) {
        const struct journal_found *f = list_item(at, struct journal_found, at);
        journal_tails_add(t, f->task_key, f->row.n);
    }
}

struct journal_tail *journal_tails_find(const struct journal_tails *t, int64_t task_key)
{
    struct map_node *node = map_find(&t->tasks, key_of_int(&task_key));
    return node ? container_of(node, struct journal_tail, node) : NULL;
}

struct journal_tail *journal_tails_oldest(const struct journal_tails *t)
{
    return list_is_empty(&t->order) ? NULL : list_item(t->order.next, struct journal_tail, at);
}

void journal_tails_add(struct journal_tails *t, int64_t task_key, int64_t row)
{
    struct journal_tail *tail = xcalloc(sizeof *tail);
    tail->task_key = task_key;
    tail->row = row;
    map_put(&t->tasks, &tail->node);
    list_push(&t->order, &tail->at);
}

void journal_tails_remove(struct journal_tails *t, struct journal_tail *tail)
{
    map_remove(&t->tasks, &tail->node);
    list_remove(&tail->at);
    free(tail);
}

void journal_tails_change(struct journal_tails *t, int64_t task_key, int64_t row)
{
    if (t->n_changes == t->cap_changes) {
        t->cap_changes = t->cap_changes ? t->cap_changes * 2 : 64;
        t->changes = xrealloc(t->changes, t->cap_changes * sizeof *t->changes);
    }
    t->changes[t->n_changes++] = (struct journal_change){task_key, row};
}
