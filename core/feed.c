#include "core/feed.h"

#include <stdlib.h>

struct feed_entry {
    struct list node;
    struct feed_entry **slot;
    uint64_t version;
    size_t len;
    char message_id[TASK_ID_LEN + 1]; /* "" for what is no message */
    char line[];
};

void feed_init(struct feed *f)
{
    *f = (struct feed){0};
    list_init(&f->entries);
    list_init(&f->readers);
}

static struct feed_entry *behind(const struct feed *f, const struct feed_entry *e)
{
    return e->node.next == &f->entries ? NULL : list_item(e->node.next, struct feed_entry, node);
}

/* Readers that have not come to it go on with the one behind it. */
static void drop(struct feed *f, struct feed_entry *e)
{
    list_each (it, &f->readers) {
        struct feed_reader *r = list_item(it, struct feed_reader, node);
        if (r->next == e)
            r->next = behind(f, e);
    }
    if (e->slot)
        *e->slot = NULL;
    list_remove(&e->node);
    f->n_entries--;
    f->bytes -= e->len;
    free(e);
}

void feed_done(struct feed *f)
{
    ASSERT(!feed_has_readers(f));
    list_each (it, &f->entries)
        drop(f, list_item(it, struct feed_entry, node));
}

void feed_join(struct feed *f, struct feed_reader *r)
{
    r->next = NULL;
    list_push(&f->readers, &r->node);
}

void feed_leave(struct feed *f, struct feed_reader *r)
{
    list_remove(&r->node);
    if (!feed_has_readers(f))
        feed_done(f);
}

static struct feed_entry *oldest(const struct feed *f)
{
    return list_is_empty(&f->entries) ? NULL : list_item(f->entries.next, struct feed_entry, node);
}

static void bound(struct feed *f)
{
    while (f->n_entries > FEED_MAX_ENTRIES || f->bytes > FEED_MAX_BYTES) {
        struct feed_entry *e = oldest(f);
        list_each (it, &f->readers) {
            struct feed_reader *r = list_item(it, struct feed_reader, node);
            if (r->next == e)
                r->lost(r);
        }
        drop(f, e);
    }
}

void feed_put(struct feed *f, struct feed_entry **slot, struct str message_id, struct str line)
{
    if (!feed_has_readers(f))
        return;
    if (slot && *slot)
        drop(f, *slot);
    struct feed_entry *e = xalloc(sizeof *e + line.n);
    *e = (struct feed_entry){.slot = slot, .version = ++f->version, .len = line.n};
    memcpy(e->line, line.p, line.n);
    ASSERT(message_id.n <= TASK_ID_LEN);
    if (message_id.n)
        memcpy(e->message_id, message_id.p, message_id.n);
    list_push(&f->entries, &e->node);
    f->n_entries++;
    f->bytes += line.n;
    if (slot)
        *slot = e;
    list_each (it, &f->readers) {
        struct feed_reader *r = list_item(it, struct feed_reader, node);
        if (!r->next)
            r->next = e;
    }
    bound(f);
    list_each (it, &f->readers) {
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

/* What came with the reader's snapshot is passed over. */
static struct feed_entry *next(const struct feed *f, struct feed_reader *r)
{
    while (r->next && r->next->message_id[0] && strcmp(r->next->message_id, r->skip_id) <= 0)
        r->next = behind(f, r->next);
    return r->next;
}

struct str feed_next(struct feed *f, struct feed_reader *r)
{
    struct feed_entry *e = next(f, r);
    if (!e)
        return STR_NULL;
    r->next = behind(f, e);
    return (struct str){e->line, e->len};
}

size_t feed_peek(const struct feed *f, struct feed_reader *r)
{
    const struct feed_entry *e = next(f, r);
    return e ? e->len : 0;
}

void feed_trim(struct feed *f)
{
    uint64_t keep = UINT64_MAX; /* the oldest that somebody has not read */
    list_each (it, &f->readers) {
        const struct feed_reader *r = list_item(it, const struct feed_reader, node);
        if (r->next && r->next->version < keep)
            keep = r->next->version;
    }
    while (oldest(f) && oldest(f)->version < keep)
        drop(f, oldest(f));
}
