#include "core/feed.h"

#include <stdlib.h>

struct feed_entry {
    struct list node;
    struct feed_entry **slot;
    uint64_t version;
    size_t len;
    size_t id_len; /* 0: it has none */
    char line[];   /* and the id behind it */
};

static struct str feed_id(const struct feed_entry *e)
{
    return (struct str){e->line + e->len, e->id_len};
}

void feed_init(struct feed *f)
{
    *f = (struct feed){0};
}

static struct feed_entry *behind(const struct feed_lines *l, const struct feed_entry *e)
{
    return e->node.next == &l->entries ? NULL : list_item(e->node.next, struct feed_entry, node);
}

/* Readers that have not reached it continue with the next one. */
static void feed_drop(struct feed_lines *l, struct feed_entry *e)
{
    list_each (it, &l->readers) {
        struct feed_reader *r = list_item(it, struct feed_reader, node);
        if (r->next == e)
            r->next = behind(l, e);
    }
    if (e->slot)
        *e->slot = NULL;
    list_remove(&e->node);
    l->n_entries--;
    l->bytes -= e->len;
    free(e);
}

void feed_done(struct feed *f)
{
    ASSERT(!feed_has_readers(f));
}

void feed_join(struct feed *f, struct feed_reader *r)
{
    if (!f->lines) {
        f->lines = xcalloc(sizeof *f->lines);
        list_init(&f->lines->entries);
        list_init(&f->lines->readers);
    }
    r->next = NULL;
    list_push(&f->lines->readers, &r->node);
}

void feed_leave(struct feed *f, struct feed_reader *r)
{
    struct feed_lines *l = f->lines;
    list_remove(&r->node);
    if (!list_is_empty(&l->readers))
        return;
    list_each (it, &l->entries)
        feed_drop(l, list_item(it, struct feed_entry, node));
    free(l);
    f->lines = NULL;
}

static struct feed_entry *oldest(const struct feed_lines *l)
{
    return list_is_empty(&l->entries) ? NULL : list_item(l->entries.next, struct feed_entry, node);
}

static void bound(struct feed_lines *l)
{
    while (l->n_entries > FEED_MAX_ENTRIES || l->bytes > FEED_MAX_BYTES) {
        struct feed_entry *e = oldest(l);
        list_each (it, &l->readers) {
            struct feed_reader *r = list_item(it, struct feed_reader, node);
            if (r->next == e)
                r->lost(r);
        }
        feed_drop(l, e);
    }
}

void feed_put(struct feed *f, struct feed_entry **slot, struct str id, struct str line)
{
    struct feed_lines *l = f->lines;
    if (!l)
        return;
    if (slot && *slot)
        feed_drop(l, *slot);
    struct feed_entry *e = xalloc(sizeof *e + line.n + id.n);
    *e = (struct feed_entry){.slot = slot, .version = ++l->version, .len = line.n, .id_len = id.n};
    memcpy(e->line, line.p, line.n);
    if (id.n)
        memcpy(e->line + line.n, id.p, id.n);
    list_push(&l->entries, &e->node);
    l->n_entries++;
    l->bytes += line.n;
    if (slot)
        *slot = e;
    list_each (it, &l->readers) {
        struct feed_reader *r = list_item(it, struct feed_reader, node);
        if (!r->next)
            r->next = e;
    }
    bound(l);
    list_each (it, &l->readers) {
        struct feed_reader *r = list_item(it, struct feed_reader, node);
        r->wake(r);
    }
}

void feed_forget(struct feed_entry **slot)
{
    if (*slot)
        (*slot)->slot = NULL;
    *slot = NULL;
}

static bool came_with_snapshot(const struct feed_reader *r, struct str id)
{
    return id.n == TASK_ID_LEN && r->skip_id[0] && memcmp(id.p, r->skip_id, TASK_ID_LEN) <= 0;
}

/* Skips what came with the reader's snapshot, and what it does not want. */
static struct feed_entry *next(const struct feed_lines *l, struct feed_reader *r)
{
    while (r->next) {
        struct str id = feed_id(r->next);
        if (!came_with_snapshot(r, id) && (!r->wants || r->wants(r, id)))
            break;
        r->next = behind(l, r->next);
    }
    return r->next;
}

struct str feed_next(struct feed *f, struct feed_reader *r)
{
    struct feed_entry *e = next(f->lines, r);
    if (!e)
        return STR_NULL;
    r->next = behind(f->lines, e);
    return (struct str){e->line, e->len};
}

size_t feed_peek(const struct feed *f, struct feed_reader *r)
{
    const struct feed_entry *e = next(f->lines, r);
    return e ? e->len : 0;
}

void feed_trim(struct feed *f)
{
    struct feed_lines *l = f->lines;
    uint64_t keep = UINT64_MAX; /* the oldest version that some reader has not read */
    if (!l)
        return;
    list_each (it, &l->readers) {
        const struct feed_reader *r = list_item(it, const struct feed_reader, node);
        if (r->next && r->next->version < keep)
            keep = r->next->version;
    }
    while (oldest(l) && oldest(l)->version < keep)
        feed_drop(l, oldest(l));
}
