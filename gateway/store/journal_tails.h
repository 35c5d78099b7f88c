/* journal_tails -- what a journal on disk holds that no block holds yet: found by a scan of its
 * rows, kept by its writer, and handed out in pages.
 *
 * Design:   an entry is live while its task exists, and neither a block nor a removal reaches its
 *           last line.  For each task with live entries the writer keeps the oldest row that has
 *           some, in a list that is always in the order of rows, because a new tail has its lines
 *           in the newest row.  All rows before the first of that list are dead, and may go.
 * Shape:    a row has a number within the incarnation of its node; a store of one node has
 *           incarnation 0.
 * Thread:   each of these: one at a time.
 * Why:      each live task has a tail here for a minute after it said something, so the writer's
 *           have no incarnation: it is its own.
 */
#ifndef GATEWAY_STORE_JOURNAL_TAILS_H
#define GATEWAY_STORE_JOURNAL_TAILS_H

#include "core/list.h"
#include "core/map.h"
#include "core/store.h"
#include "gateway/store/journal_entry.h"

struct journal_row {
    int64_t incarnation, n;
};

/* --- scanning --------------------------------------------------------------------------------- */

/* A task of which the scan has met an entry. */
struct journal_found {
    struct map_node node;
    struct list at; /* in order of the first live row; only if there are live lines */
    int64_t task_key;
    struct journal_row row;
    bool exists; /* this and the next two are the store's to set, before the entry is taken */
    unsigned slot;
    uint64_t sealed;      /* last line in blocks */
    uint64_t first, last; /* live lines; last 0: none */
    struct buf bytes;
};

struct journal_scan {
    struct map tasks;
    struct list live;
    size_t n_live;
    bool want_bytes;
};

void journal_scan_init(struct journal_scan *scan, bool want_bytes);
void journal_scan_done(struct journal_scan *scan);
struct journal_found *journal_scan_find(const struct journal_scan *scan, int64_t task_key);
struct journal_found *journal_scan_add(struct journal_scan *scan, int64_t task_key);
enum journal_take {
    JOURNAL_TAKEN,
    JOURNAL_GAP,     /* it does not follow the one before (promise 1: dense, or not at all) */
    JOURNAL_DAMAGED, /* its lines cannot be unpacked */
};
/* The next entry of f's task, in the order of rows. */
enum journal_take journal_scan_take(struct journal_scan *scan, struct journal_found *f,
                                    struct journal_row row, const struct journal_entry *e);

/* --- tails, to read --------------------------------------------------------------------------- */

/* All unsealed lines of one moment: one block per task, by key. */
struct tails {
    struct block **at; /* NULL: not loaded */
    size_t n;
};

/* Takes the bytes that the scan collected.  STORE_IO: no memory for them. */
int tails_fill(struct tails *t, struct journal_scan *scan, const struct slots *slots);
void tails_done(struct tails *t);
/* Copies of those behind query.after that fit; when no page follows, the tails go. */
int tails_page(struct tails *t, const struct query *q, struct answer *ret);

/* --- tails, to write -------------------------------------------------------------------------- */

struct journal_tail {
    struct map_node node;
    struct list at;
    int64_t task_key;
    int64_t row; /* the oldest with live lines of it */
    bool drops;  /* the writer's own: a change of this batch ends it */
};

/* A change of the current batch to a tail. */
struct journal_change {
    int64_t task_key;
    int64_t row; /* number of the row of the last lines; 0: those so far are dead */
};

struct journal_tails {
    struct map tasks;  /* journal_tail, by key */
    struct list order; /* the same, oldest row first */
    struct journal_change *changes;
    size_t n_changes, cap_changes;
};

void journal_tails_init(struct journal_tails *t);
void journal_tails_done(struct journal_tails *t);
void journal_tails_load(struct journal_tails *t, const struct journal_scan *scan); /* anew */
struct journal_tail *journal_tails_find(const struct journal_tails *t, int64_t task_key);
struct journal_tail *journal_tails_oldest(const struct journal_tails *t); /* NULL: none */
void journal_tails_add(struct journal_tails *t, int64_t task_key, int64_t row);
void journal_tails_remove(struct journal_tails *t, struct journal_tail *tail);
void journal_tails_change(struct journal_tails *t, int64_t task_key, int64_t row);

#endif
