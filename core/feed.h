/* feed -- newest states for those who look at a conversation, or at all of an owner's.
 *
 * Shape:    a list of ready lines in order of change.  A thing that changes again replaces its line
 *           and moves to the end (pushes are newest states, not histories); a message is put once
 *           and stays.  A reader is a cursor: the next line that it has not seen (promise 7).
 *           Lines that all readers have seen go; with no reader nothing is kept at all.
 * Thread:   loop.
 * Owns:     its entries.  Readers are embedded in what reads; one joins and leaves in a turn of its
 *           own, never from inside wake or lost.
 */
#ifndef CORE_FEED_H
#define CORE_FEED_H

#include "core/list.h"
#include "proto/buf.h"
#include "proto/limits.h"

#define FEED_MAX_ENTRIES 4096 /* a reader further behind is too slow */
#define FEED_MAX_BYTES (4 * 1024 * 1024)

struct feed_entry;

struct feed_lines {
    struct list entries; /* of struct feed_entry, by version */
    struct list readers; /* of struct feed_reader; at least one */
    uint64_t version;
    size_t n_entries, bytes;
};

/* One is in each live conversation, and few are read. */
struct feed {
    struct feed_lines *lines; /* NULL while it has no reader */
};

struct feed_reader {
    struct list node;
    struct feed_entry *next;       /* NULL: it has seen all */
    char skip_id[TASK_ID_LEN + 1]; /* messages up to this id came with a snapshot: not again */
    void (*wake)(struct feed_reader *reader);
    void (*lost)(struct feed_reader *reader); /* fell behind the limit: the connection must go */
};

void feed_init(struct feed *f);
void feed_done(struct feed *f); /* no reader may be left */
static inline bool feed_has_readers(const struct feed *f)
{
    return f->lines != NULL;
}
/* From now on: what is put after this call. */
void feed_join(struct feed *f, struct feed_reader *r);
void feed_leave(struct feed *f, struct feed_reader *r);
/* Puts a line (without newline; copied) and wakes the readers.  *slot is the putter's handle on its
 * entry, for a thing that changes; NULL for a thing that is said once.  The feed clears *slot when
 * the entry goes.  message_id is STR_NULL but for messages, whose ids are in order. */
void feed_put(struct feed *f, struct feed_entry **slot, struct str message_id, struct str line);
/* The putter goes away; its entry stays until it was read. */
void feed_forget(struct feed_entry **slot);
/* The next line that the reader has not seen, NULL span when there is none; the reader moves on. */
struct str feed_next(struct feed *f, struct feed_reader *r);
/* How long the next line is without taking it; 0 when there is none. */
size_t feed_peek(const struct feed *f, struct feed_reader *r);
/* Drops what everybody has seen: once a turn. */
void feed_trim(struct feed *f);

#endif
